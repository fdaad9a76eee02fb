"""The growth benchmark measures what it says; how fast anything is, no test says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import psycopg
import pytest
from benchmarks.growing import draining, filling, plot, showing
from benchmarks.growing.axes import AXES, points
from benchmarks.growing.contest import Row, growths
from benchmarks.growing.draining import Drained, DrainFailed
from benchmarks.growth import SERVER
from benchmarks.ingesting import deliveries, ours

import duly

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.growing.axes import Point

ROOT = Path(__file__).parents[2]
COUNTED = ("events", "claims", "history", "jobs")


def run_suite(environment: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", "growth", "--quick", *options],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def row(point: Point, ingest: float, drain: float, **others: int) -> Row:
    """A row of one round, of costs in microseconds, a third of it PostgreSQL's."""
    made = Row(point)
    spent = [ingest * 1e-6 * 1000 * part / 3 for part in (2, 1)]
    made.loads.append(
        {
            "accepted": 1000,
            "seconds": 1.0,
            "p50": 0.001,
            "p99": 0.002,
            "busy": 0.1,
            "spent": spent,
            "kept": 1000,
            "others": others,
        }
    )
    each = drain * 1e-6 * 100 / 3
    made.drains.append(Drained(100, 0.5, 2 * each, each))
    return made


def along(axis: str, costs: Sequence[tuple[float, float]]) -> list[Row]:
    found = points(axis, quick=False, large=False)
    return [row(point, *cost) for point, cost in zip(found, costs, strict=False)]


def received(url: str, number: int) -> None:
    """So many deliveries, each with a job."""
    with closing(ours.application(url, 1)) as app:
        for _, request in deliveries.requests(number, "small", 1):
            head, _, body = request.partition(b"\r\n\r\n")
            lines = [line.split(": ", 1) for line in head.decode().split("\r\n")[1:]]
            reply = app.receive(deliveries.SOURCE, [(name, text) for name, text in lines], body)
            assert reply.status == 200


def worked(url: str) -> None:
    with closing(ours.application(url, 1)) as app:
        app.work()


def counts(connection: psycopg.Connection) -> dict[str, int]:
    found = {}
    for table in COUNTED:
        [(found[table],)] = connection.execute(f"SELECT count(*) FROM duly_{table}".encode())
    return found


@pytest.mark.wide
@pytest.mark.slow
def test_an_axis_has_rows_a_growth_and_a_plot(postgres_server: str, tmp_path: Path) -> None:
    picture = tmp_path / "growth.svg"
    options = ("--axis", "bodies", "--plot", str(picture))
    ended = run_suite({**os.environ, SERVER: postgres_server}, *options)
    assert ended.returncode == 0, ended.stderr
    *table, last = ended.stdout.splitlines()
    report = json.loads(last)
    assert set(report) == {"suite", "rows", "ratios", "plot"}
    assert [one["name"] for one in report["rows"]] == ["bodies/0.34KB", "bodies/1.9KB"]
    for one in report["rows"]:
        assert one["valid"]
        for what in ("ingest", "drain"):
            assert min(one[what].values()) > 0
            cost = one[what]["own_us"] + one[what]["postgres_us"]
            assert one[what]["cost_us"] == pytest.approx(cost, abs=0.2)
        assert any(line.startswith(one["name"]) for line in table)
    assert [one["name"] for one in report["ratios"]] == ["bodies/ingest", "bodies/drain"]
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")


def test_without_a_server_it_says_how_to_get_one() -> None:
    environment = {name: value for name, value in os.environ.items() if name != SERVER}
    ended = run_suite(environment)
    assert ended.returncode == 2
    assert "`make bench SUITE=growth` starts one" in ended.stderr


def test_every_axis_varies_one_thing_from_the_smallest_to_the_largest() -> None:
    for axis in AXES:
        found = points(axis, quick=False, large=True)
        assert [one.place for one in found] == sorted({one.place for one in found})
        varied = [(one.rows, one.handlers, one.size, one.processes) for one in found]
        assert sum(len({*column}) > 1 for column in zip(*varied, strict=True)) == 1
    assert [one.rows for one in points("rows", quick=False, large=False)][-1] == 1_000_000


def test_rows_that_are_there_are_such_as_duly_writes_and_in_nobodys_way(
    empty_postgres_url: str,
) -> None:
    duly.store(empty_postgres_url).migrate()
    received(empty_postgres_url, 1)
    worked(empty_postgres_url)
    filling.fill(empty_postgres_url, 2, 30)
    filling.fill(empty_postgres_url, 31, 50)
    with psycopg.connect(empty_postgres_url) as connection:
        assert counts(connection) == {"events": 50, "claims": 50, "history": 50, "jobs": 0}
        [(joined,)] = connection.execute(
            "SELECT count(DISTINCT event.id) FROM duly_events AS event"
            "  JOIN duly_claims AS claim USING (scope, digest)"
            "  JOIN duly_history AS history ON history.event = event.id"
            " WHERE event.received_at > now() - interval '25 hours'"
        )
        assert joined == 50
    received(empty_postgres_url, 3)
    worked(empty_postgres_url)
    with psycopg.connect(empty_postgres_url) as connection:
        assert counts(connection) == {"events": 53, "claims": 53, "history": 53, "jobs": 0}


def test_jobs_are_made_up_to_a_number_each_as_often_as_every_other(empty_postgres_url: str) -> None:
    duly.store(empty_postgres_url).migrate()
    received(empty_postgres_url, 3)
    assert filling.add_jobs(empty_postgres_url, 2) == 3
    assert filling.add_jobs(empty_postgres_url, 9) == 9
    with psycopg.connect(empty_postgres_url) as connection:
        found = connection.execute("SELECT count(*) FROM duly_jobs GROUP BY event").fetchall()
    assert found == [(3,), (3,), (3,)]


@pytest.mark.slow
def test_a_drain_counts_every_job_once_and_refuses_another_number(empty_postgres_url: str) -> None:
    duly.store(empty_postgres_url).migrate()
    received(empty_postgres_url, 1)
    number = filling.add_jobs(empty_postgres_url, 40)

    def drained(jobs: int) -> Drained:
        return draining.drained(
            empty_postgres_url, jobs=jobs, processes=2, handlers=1, postmaster=None
        )

    took = drained(number)
    assert (took.jobs, took.postgres) == (40, None)
    assert took.seconds > 0
    assert took.workers > 0
    received(empty_postgres_url, 3)
    with pytest.raises(DrainFailed, match="3 jobs began, and there were 1"):
        drained(1)


def test_growth_is_the_cost_at_the_largest_over_that_at_the_smallest() -> None:
    rows = along("handlers", [(100.0, 80.0), (500.0, 80.0), (120.0, 160.0)])
    rows += along("bodies", [(100.0, 50.0), (900.0, 70.0)])
    found = {one.name: (round(one.ratio, 2), one.met) for one in growths(rows)}
    assert found == {
        "handlers/ingest": (1.2, True),
        "handlers/drain": (2.0, False),
        "bodies/ingest": (9.0, None),
        "bodies/drain": (1.4, None),
    }
    assert "1 of 2 aims are met; missed: handlers/drain" in showing.against([*growths(rows)])


def test_a_point_with_another_answer_is_invalid_and_compared_with_nothing() -> None:
    rows = along("processes", [(100.0, 80.0), (100.0, 80.0)])
    rows.append(row(points("processes", quick=False, large=False)[2], 90, 80, **{"503 HELD": 1}))
    assert list(growths(rows)) == []
    assert "INVALID: 503 HELD" in showing.table(rows)


def test_the_plot_has_a_picture_for_each_axis_and_a_line_for_each_kind_of_work() -> None:
    rows = along("rows", [(100.0, 80.0), (110.0, 80.0), (120.0, 90.0), (130.0, 95.0)])
    rows += along("bodies", [(100.0, 50.0), (900.0, 70.0)])
    drawn = ElementTree.fromstring(plot.svg(rows))
    lines = [one for one in drawn.iter() if one.tag.endswith("polyline")]
    assert len(lines) == 2 * len(plot.LINES)
    steps = [
        [float(part) for part in step.split(",")] for step in lines[0].attrib["points"].split()
    ]
    assert len(steps) == 4
    assert [x for x, _ in steps] == sorted(x for x, _ in steps)
    assert [y for _, y in steps] == sorted((y for _, y in steps), reverse=True)  # dearer is higher
    texts = [one.text for one in drawn.iter() if one.tag.endswith("text")]
    assert {"rows already there", "KB of a body", "1,000,000", "ingest", "drain"} <= {*texts}
