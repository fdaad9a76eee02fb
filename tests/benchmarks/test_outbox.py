"""The outbox benchmark measures what it says; how fast anything is, no test says."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from benchmarks.jobs import SERVER
from benchmarks.relaying import aims, showing
from benchmarks.relaying.contenders import CONTENDERS, NAMES
from benchmarks.relaying.contest import judge
from benchmarks.relaying.processes import Receiver, started
from benchmarks.working.contest import Row
from benchmarks.working.processes import TurnFailed

from tests.support.sizes import sized

ROOT = Path(__file__).parents[2]
HEAD = b"POST /orders HTTP/1.1\r\nHost: here\r\nIdempotency-Key: %b\r\nContent-Length: 4\r\n\r\n"


def run_suite(environment: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", "outbox", *options],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def row(name: str, **figures_of_it: float) -> Row:
    made = Row(name)
    made.add(figures_of_it)
    return made


def checked(ended: subprocess.CompletedProcess[str], names: list[str]) -> dict[str, float | None]:
    """The report is well-formed and has these rows; the aim of each comparison in it."""
    assert ended.returncode == 0, ended.stderr
    *table, last = ended.stdout.splitlines()
    report = json.loads(last)
    assert set(report) == {"suite", "rows", "ratios"}
    assert report["suite"] == "outbox"
    rows = {one["name"]: one for one in report["rows"]}
    assert sorted(rows) == sorted(names)
    for name, one in rows.items():
        assert one["valid"]
        assert min(figure for what, figure in one.items() if what != "name") > 0
        assert any(line.startswith(name) for line in table)
    assert all(one["ratio"] > 0 for one in report["ratios"])
    return {one["name"]: one["aim"] for one in report["ratios"]}


@pytest.mark.wide
def test_the_last_line_has_a_row_for_each_loop_and_the_two_aims(postgres_server: str) -> None:
    names = sized(("duly", "loop"), whole=("duly", "loop", "pooled"))
    peers = [part for name in names for part in ("--peer", name)]
    environment = {**os.environ, SERVER: postgres_server}
    ended = run_suite(environment, "--quick", "--measure", "relay", *peers)
    told = checked(ended, [f"{name}/relay" for name in names])
    wanted = {"duly:loop/relay": 5.0, "duly:pooled/relay": 1.0}
    assert told == {f"duly:{name}/relay": wanted[f"duly:{name}/relay"] for name in names[1:]}


@pytest.mark.long
def test_every_row_can_be_measured(postgres_server: str) -> None:
    ended = run_suite({**os.environ, SERVER: postgres_server}, "--quick")
    told = checked(ended, [f"{one.name}/{what}" for one in CONTENDERS for what in one.measures])
    assert list(told) == [f"{ours}:{other}/{what}" for ours, other, what, _ in aims.COMPARED]


def test_without_a_server_it_says_how_to_get_one() -> None:
    environment = {name: value for name, value in os.environ.items() if name != SERVER}
    ended = run_suite(environment, "--quick")
    assert ended.returncode == 2
    assert "`make bench SUITE=outbox` starts one" in ended.stderr


def test_the_receiver_counts_each_message_once_however_its_bytes_are_cut() -> None:
    messages = b"".join(HEAD % key + b"body" for key in (b"one", b"two", b"one"))
    with started("the receiver failed", "benchmarks.relaying.receiver") as running:
        receiver = Receiver(running.lines())
        receiver.expect(2)
        with closing(socket.create_connection(("127.0.0.1", receiver.port))) as connection:
            answers = b""
            for place in range(0, len(messages), 50):
                connection.sendall(messages[place : place + 50])
            while answers.count(b"200 OK") < 3:
                answers += connection.recv(4096)
        arrived = receiver.arrived(running, 10.0)
        assert arrived["first"] <= arrived["last"]
        assert receiver.seen() == {"requests": 3, "messages": 2}
        receiver.expect(1)
        assert receiver.seen() == {"requests": 0, "messages": 0}


@pytest.mark.parametrize(("requests", "messages"), [(7, 7), (9, 8), (8, 7)])
def test_a_message_that_did_not_arrive_once_is_no_rate(requests: int, messages: int) -> None:
    judge("any", 8, {"requests": 8, "messages": 8})
    with pytest.raises(TurnFailed, match="any had 8 messages"):
        judge("any", 8, {"requests": requests, "messages": messages})


def test_a_contender_that_failed_is_shown_and_compared_with_nobody() -> None:
    failed = Row("pooled/relay", failure="pooled failed to relay:\nbecause")
    rows = [row("duly/relay", rate=900.0), row("loop/relay", rate=300.0), failed]
    found = {one.name: (one.ratio, one.met) for one in aims.ratios(rows)}
    assert found == {"duly:loop/relay": (3.0, False)}
    assert "INVALID: pooled failed to relay" in showing.report(rows, [], machine=False)


def test_each_name_is_a_contender_that_is_compared_or_ours() -> None:
    compared = {name for ours, other, _, _ in aims.COMPARED for name in (ours, other)}
    assert compared == set(NAMES)
