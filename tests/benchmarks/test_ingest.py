"""The ingest benchmark measures what it says; how fast anything is, no test says."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from benchmarks.ingesting import aims, bare, contest, deliveries, generator, showing, tables
from benchmarks.ingesting.contenders import Contender, contenders
from benchmarks.ingesting.contest import Row, Seen
from benchmarks.ingesting.hosting import HOST
from benchmarks.ingesting.processes import Served, answers, end, free_port, serving

import duly
from tests.support.servers import database
from tests.support.sizes import mostly_long

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PEERS = {"sqlite": ("duly", "fastapi", "tuned"), "postgres": ("duly", "fastapi", "cte", "tuned")}
KEEPING = [
    Contender(store, peer, pool=5 if peer == "tuned" else 0)
    for store, peers in PEERS.items()
    for peer in peers
]


def run_suite(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def found(accepted: int, seconds: float = 1.0, **others: int) -> generator.Found:
    return {
        "accepted": accepted,
        "seconds": seconds,
        "p50": 0.001,
        "p99": 0.002,
        "busy": 0.1,
        "kept": accepted,
        "others": others,
    }


@contextmanager
def emptied(contender: Contender, folder: Path, server: str) -> Iterator[Served]:
    """A contender's server on a fresh database of the store that it needs."""
    with ExitStack() as stack:
        if contender.store == "postgres":
            url = stack.enter_context(database(server))
        else:
            url = f"sqlite:///{folder / 'events.db'}"
        tables.make(url, contender.peer)
        yield stack.enter_context(serving(contender, url))


def sent(port: int, request: bytes) -> tuple[int, dict[str, Any]]:
    """One raw request on a connection of its own."""
    with socket.create_connection((HOST, port), timeout=30) as connection:
        connection.sendall(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
        reply = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = reply.partition(b"\r\n\r\n")
    return int(head[9:12]), json.loads(body)


@pytest.mark.wide
@pytest.mark.slow
def test_the_last_line_has_a_row_for_each_peer_and_a_ratio_for_each_comparison() -> None:
    ended = run_suite("ingest", "--quick", "--store", "sqlite", "--connections", "1,4")
    assert ended.returncode == 0, ended.stderr
    *table, last = ended.stdout.splitlines()
    report = json.loads(last)
    assert set(report) == {"suite", "rows", "ratios"}
    names = [row["name"] for row in report["rows"]]
    peers = ("duly", "fastapi", "tuned", "ceiling")
    assert sorted(names) == sorted(f"sqlite/{peer}/{n}" for peer in peers for n in (1, 4))
    for row in report["rows"]:
        assert row["valid"]
        assert row["rate"] > 0
        assert 0 < row["p50_ms"] <= row["p99_ms"]
        assert any(line.startswith(row["name"]) for line in table)
    told = {ratio["name"] for ratio in report["ratios"]}
    assert {"sqlite/duly:fastapi/1", "sqlite/duly:ceiling/4"} <= told


def test_json_alone_is_what_was_asked_for() -> None:
    options = ("--quick", "--store", "sqlite", "--connections", "2", "--peer", "ceiling", "--json")
    ended = run_suite("ingest", *options)
    assert ended.returncode == 0, ended.stderr
    assert [row["name"] for row in json.loads(ended.stdout)["rows"]] == ["sqlite/ceiling/2"]


def test_options_before_the_name_are_refused_with_the_order_that_works() -> None:
    ended = run_suite("--quick", "ingest")
    assert ended.returncode == 2
    assert "come after its name" in ended.stderr


def test_postgres_without_a_server_says_how_to_get_one() -> None:
    environment = {name: value for name, value in os.environ.items() if name != contest.SERVER}
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks", "ingest", "--quick", "--store", "postgres"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    assert "`make bench` starts one" in ended.stderr


def test_every_delivery_is_genuine_and_no_two_share_an_id() -> None:
    seen = set()
    for size in deliveries.SIZES:
        for request in deliveries.requests(50, size):
            head, _, body = request.partition(b"\r\n\r\n")
            pairs = (line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
            headers = {name.lower(): value for name, value in pairs}
            texts = {name.decode(): value.decode() for name, value in headers.items()}
            verified = duly.verify("standard-webhooks", texts, body, deliveries.SECRET)
            assert verified.type == deliveries.TYPE
            assert bare.verified(headers, body)[1] == verified.id
            assert int(headers[b"content-length"]) == len(body)
            seen.add(verified.id)
    assert len(seen) == 50 * len(deliveries.SIZES)


@pytest.mark.wide
@pytest.mark.slow
@pytest.mark.parametrize(
    "contender",
    mostly_long(KEEPING, shown=lambda one: one.peer in ("duly", "fastapi")),
    ids=lambda one: f"{one.store}-{one.peer}",
)
def test_a_peer_keeps_an_event_once_and_refuses_a_forged_one(
    contender: Contender, tmp_path: Path, postgres_server: str
) -> None:
    genuine, other = deliveries.requests(2, "small")
    forged = other.replace(b"invoice.paid", b"invoice.void")
    with emptied(contender, tmp_path, postgres_server) as served:
        assert sent(served.port, forged)[0] == 403
        assert sent(served.port, genuine)[1]["status"] == "accepted"
        assert sent(served.port, genuine)[1]["status"] == "duplicate"
        assert tables.kept(served.url, contender.peer) == (1, 1)


@pytest.mark.wide
@pytest.mark.slow
def test_what_the_load_counts_as_accepted_is_what_the_database_holds(
    tmp_path: Path, postgres_server: str
) -> None:
    contender = Contender("sqlite", "tuned")
    with emptied(contender, tmp_path, postgres_server) as served:
        seen = served.meet(3, seconds=0.3, warm_up=0.1, size="small")
        assert seen["others"] == {}
        assert seen["kept"] >= seen["accepted"] > 0
        contest.judge(served, seen["kept"])
        with pytest.raises(AssertionError, match=f"{seen['kept'] + 1} accepted, but"):
            contest.judge(served, seen["kept"] + 1)


async def overloaded(scope: bare.Message, receive: bare.Receive, send: bare.Send) -> None:
    """An application that takes nothing; served by a real server below."""
    if scope["type"] == "lifespan":
        return
    await receive()
    body = b'{"error":"OVERLOADED"}'
    head = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 503, "headers": head})
    await send({"type": "http.response.body", "body": body})


def test_replies_that_are_no_acceptance_make_a_row_invalid_and_are_shown() -> None:
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", f"{__name__}:overloaded", "--port", str(port)]
    process = subprocess.Popen([*command, "--log-level", "critical"], cwd=ROOT)
    try:
        assert answers(process, port)
        contender = Contender("sqlite", "tuned")
        seen = Served(contender, "", port).meet(2, seconds=0.1, warm_up=0.1, size="small")
    finally:
        end(process)
    row = Seen(contender, 2, [seen]).row()
    assert row.rate == 0
    assert not row.valid
    assert list(row.others) == ["503 OVERLOADED"]
    assert "INVALID" in showing.table([row])
    assert "503 OVERLOADED" in showing.table([row])
    assert list(aims.ratios([row])) == []


def test_one_refused_reply_among_many_is_enough_to_make_a_row_invalid() -> None:
    rounds = [found(1000), found(1000, **{"503 HELD": 1})]
    row = Seen(Contender("sqlite", "duly"), 64, rounds).row()
    assert row.rate == 1000
    assert not row.valid


def test_a_row_is_the_median_of_its_rounds() -> None:
    rounds = [found(100), found(9000, 3.0), found(40)]
    assert Seen(Contender("sqlite", "duly"), 1, rounds).row().rate == 100


def test_of_several_pools_the_fastest_has_the_row() -> None:
    seen = [
        Seen(Contender("postgres", "tuned", pool=pool), 64, [found(rate)])
        for pool, rate in ((5, 10), (20, 30), (64, 20))
    ]
    [row] = contest.best(seen)
    assert (row.name, row.rate, row.pool) == ("postgres/tuned/64", 30, 20)


def test_aims_are_judged_against_the_peer_of_the_same_store_and_connections() -> None:
    rows = [
        Row("postgres/duly/64", 5000, 0.010, 0.020, 0.3),
        Row("postgres/fastapi/64", 1000, 0.025, 0.090, 0.1),
        Row("postgres/cte/64", 2001, 0.030, 0.060, 0.1),
        Row("postgres/ceiling/256", 1, 1, 1, 0.3),
        Row("sqlite/tuned/64", 1, 1, 1, 0.3),
    ]
    told = {one.name: one for one in aims.ratios(rows)}
    assert set(told) == {
        "postgres/duly:fastapi/64",
        "postgres/duly:cte/64",
        "postgres/duly-p99:fastapi-p50/64",
    }
    assert told["postgres/duly:fastapi/64"].met is True
    assert told["postgres/duly:cte/64"].met is False
    assert told["postgres/duly-p99:fastapi-p50/64"].met is True
    assert "2 of 3 aims are met; missed: postgres/duly:cte/64" in showing.against([*told.values()])


def test_a_slow_tail_misses_the_aim_however_high_the_rate() -> None:
    rows = [
        Row("sqlite/duly/256", 9000, 0.010, 0.030, 0.3),
        Row("sqlite/fastapi/256", 1000, 0.025, 0.090, 0.1),
    ]
    told = {one.name: one.met for one in aims.ratios(rows)}
    assert told["sqlite/duly-p99:fastapi-p50/256"] is False


def test_another_server_has_rows_of_its_own() -> None:
    both = contenders("postgres", ("duly", "tuned"), ("uvicorn", "granian"))
    names = [one.row(64) for one in both]
    assert names.count("postgres/duly/64") == names.count("postgres/duly@granian/64") == 1
    assert names.count("postgres/tuned/64") == 3
    assert "sqlite/cte/64" not in [one.row(64) for one in contenders("sqlite", ("cte",), ("x",))]
