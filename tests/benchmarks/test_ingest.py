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
from benchmarks.processor import spent

import duly
from tests.support.servers import database
from tests.support.sizes import mostly_long

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
OURS = ("duly", "duly-mounted")
PEERS = {"sqlite": (*OURS, "fastapi", "tuned"), "postgres": (*OURS, "fastapi", "cte", "tuned")}
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
        "spent": [accepted * 50e-6, accepted * 70e-6],
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
    peers = (*OURS, "fastapi", "tuned", "ceiling")
    assert sorted(names) == sorted(f"sqlite/{peer}/{n}" for peer in peers for n in (1, 4))
    for row in report["rows"]:
        assert row["valid"]
        assert row["rate"] > 0
        assert 0 < row["p50_ms"] <= row["p99_ms"]
        assert min(row["server_us"], row["load_us"]) > 0
        assert row["postgres_us"] is None
        assert row["note"] == ("duly serve --no-worker" if "/duly/" in row["name"] else None)
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
        for identifier, request in deliveries.requests(50, size):
            head, _, body = request.partition(b"\r\n\r\n")
            pairs = (line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
            headers = {name.lower(): value for name, value in pairs}
            texts = {name.decode(): value.decode() for name, value in headers.items()}
            verified = duly.verify("standard-webhooks", texts, body, deliveries.SECRET)
            assert verified.type == deliveries.TYPE
            assert bare.verified(headers, body)[1] == verified.id
            assert identifier == headers[b"webhook-id"]
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
    (_, genuine), (_, other) = deliveries.requests(2, "small")
    forged = other.replace(b"invoice.paid", b"invoice.void")
    with emptied(contender, tmp_path, postgres_server) as served:
        assert sent(served.port, forged)[0] == 403
        assert sent(served.port, genuine)[1]["status"] == "accepted"
        assert sent(served.port, genuine)[1]["status"] == "duplicate"
        assert tables.kept(served.url, contender.peer) == (1, 1)


@pytest.mark.wide
@pytest.mark.slow
def test_duly_is_served_as_shipped_and_its_log_has_a_line_for_each_acceptance(
    tmp_path: Path, postgres_server: str
) -> None:
    with emptied(Contender("postgres", "duly"), tmp_path, postgres_server) as served:
        seen = served.meet(3, seconds=0.3, warm_up=0.1, size="usual")
        assert seen["others"] == {}
        contest.judge(served, seen["kept"])
        assert served.log is not None
        served.log.write_bytes(served.log.read_bytes().replace(contest.LOGGED, b" 503 HELD ", 1))
        with pytest.raises(AssertionError, match=f"but {seen['kept'] - 1} are logged"):
            contest.judge(served, seen["kept"])


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


@contextmanager
def hosted(application: str) -> Iterator[int]:
    """The port of a real server of one of the applications in this file."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", f"{__name__}:{application}", "--port", str(port)]
    process = subprocess.Popen([*command, "--log-level", "critical"], cwd=ROOT)
    try:
        assert answers(process, port)
        yield port
    finally:
        end(process)


def test_replies_that_are_no_acceptance_make_a_row_invalid_and_are_shown() -> None:
    with hosted("overloaded") as port:
        contender = Contender("sqlite", "tuned")
        seen = Served(contender, "", port).meet(2, seconds=0.1, warm_up=0.1, size="small")
    row = Seen(contender, 2, [seen]).row()
    assert row.rate == 0
    assert not row.valid
    assert list(row.others) == ["503 OVERLOADED"]
    assert "INVALID" in showing.table([row])
    assert "503 OVERLOADED" in showing.table([row])
    assert list(aims.ratios([row])) == []


async def confused(scope: bare.Message, receive: bare.Receive, send: bare.Send) -> None:
    """An application that accepts every delivery in the name of another."""
    if scope["type"] == "lifespan":
        return
    await receive()
    body = b'{"status":"accepted","event":"msg_of_another"}'
    head = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body})


def test_an_acceptance_of_another_delivery_makes_a_row_invalid() -> None:
    with hosted("confused") as port:
        contender = Contender("sqlite", "tuned")
        seen = Served(contender, "", port).meet(2, seconds=0.1, warm_up=0.1, size="small")
    row = Seen(contender, 2, [seen]).row()
    assert (row.rate, row.valid) == (0, False)
    assert list(row.others) == ["200 accepted, but not the delivery that was sent"]


def test_two_replies_to_one_request_are_no_acceptance() -> None:
    one = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    assert generator.bytes_missing(one[:20]) > 0
    assert generator.bytes_missing(one[:-1]) == 1
    assert generator.bytes_missing(one) == 0
    assert generator.bytes_missing(one + one) < 0


def test_one_refused_reply_among_many_is_enough_to_make_a_row_invalid() -> None:
    rounds = [found(1000), found(1000, **{"503 HELD": 1})]
    row = Seen(Contender("sqlite", "duly"), 64, rounds).row()
    assert row.rate == 1000
    assert not row.valid


def test_a_row_is_the_median_of_its_rounds() -> None:
    rounds = [found(100), found(9000, 3.0), found(40)]
    row = Seen(Contender("postgres", "duly"), 1, rounds).row()
    assert row.rate == 100
    assert row.server == pytest.approx(50e-6)
    assert row.postgres == pytest.approx(70e-6)
    [shown] = json.loads(showing.report([row], [], machine=True))["rows"]
    assert (shown["server_us"], shown["postgres_us"]) == (50, 70)


def test_processor_time_is_counted_with_that_of_children_that_ended() -> None:
    spin = "import time\nwhile time.process_time() < {}: pass"
    inner = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {spin.format(0.3)!r}])"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{inner}; print('ended', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ended\n"
    [seconds] = spent([process.pid])
    process.communicate("\n", timeout=30)
    assert 0.3 <= seconds < 3


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
        Row("postgres/duly-mounted/64", 3000, 0.010, 0.020, 0.3),
        Row("postgres/fastapi/64", 1000, 0.025, 0.090, 0.1),
        Row("postgres/ceiling/64", 5001, 0.030, 0.060, 0.1),
        Row("postgres/tuned/256", 1, 1, 1, 0.3),
        Row("sqlite/tuned/64", 1, 1, 1, 0.3),
    ]
    told = {one.name: one for one in aims.ratios(rows)}
    assert {name: one.met for name, one in told.items()} == {
        "postgres/duly:fastapi/64": True,
        "postgres/duly:ceiling/64": True,
        "postgres/duly-p99:fastapi-p50/64": True,
        "postgres/duly-mounted:fastapi/64": None,
        "postgres/duly-mounted:ceiling/64": False,
        "postgres/duly-mounted-p99:fastapi-p50/64": None,
    }
    missed = "3 of 4 aims are met; missed: postgres/duly-mounted:ceiling/64"
    assert missed in showing.against([*told.values()])


def test_the_aims_are_those_of_the_store_and_the_number_of_connections() -> None:
    assert aims.aims_of("postgres", "duly", 1) == {"cte": 0.9}
    assert aims.aims_of("postgres", "duly", 16) == {}
    assert aims.aims_of("postgres", "duly", 256)["ceiling"] == 0.95
    assert aims.aims_of("sqlite", "duly", 64) == {"ceiling": 0.6, "tuned": 3.0}


def test_a_slow_tail_misses_the_aim_however_high_the_rate() -> None:
    rows = [
        Row("postgres/duly/256", 9000, 0.010, 0.030, 0.3),
        Row("postgres/fastapi/256", 1000, 0.025, 0.090, 0.1),
    ]
    told = {one.name: one.met for one in aims.ratios(rows)}
    assert told["postgres/duly-p99:fastapi-p50/256"] is False


def test_another_server_has_rows_of_its_own() -> None:
    both = contenders("postgres", (*OURS, "tuned"), ("uvicorn", "granian"))
    names = [one.row(64) for one in both]
    assert names.count("postgres/duly-mounted/64") == 1
    assert names.count("postgres/duly-mounted@granian/64") == 1
    assert "postgres/duly@granian/64" not in names  # `duly serve` brings its own
    assert names.count("postgres/tuned/64") == 3
    assert "sqlite/cte/64" not in [one.row(64) for one in contenders("sqlite", ("cte",), ("x",))]
