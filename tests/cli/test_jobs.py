"""``duly jobs`` counts jobs, lists dead ones and replays them; ``duly effects`` resolves."""

from __future__ import annotations

import json
import os
import re
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.cli.admin import parse_time
from duly.cli.main import main
from duly.ledger import replay
from tests.support.inboxes import done, found
from tests.support.processes.forked import run_forked

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

CANARY = "canary-of-the-payload"
NOT_THERE = "0198c3a2-5d1e-7b4f-9c60-8a2f41d7e305"
APP = """
import os
import duly

app = duly.Duly(os.environ["SHOP_URL"])
"""
Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the settings of the environment."""
    for name in ("DULY_APP", "DULY_URL", "DULY_PREFIX", "DULY_SCHEMA"):
        monkeypatch.delenv(name, raising=False)


def pay(job: duly.Job) -> None:
    job.effect("charge", lost)


def lost(key: str) -> None:
    raise OSError("the line\n\x1b[31mwas cut")


def refund(job: duly.Job) -> duly.Dead:
    return duly.Dead("no such order")


@pytest.fixture(params=["postgres", "sqlite"])
def app(request: pytest.FixtureRequest) -> Iterator[duly.Duly]:
    """An application with three dead jobs, in a database of its own."""
    kind = "own_postgres_url" if request.param == "postgres" else "sqlite_url"
    made = duly.Duly(request.getfixturevalue(kind))
    made.job(pay)
    made.job(refund)
    for name in ("pay", "refund", "refund"):
        made.enqueue(name, {"card": CANARY})
    assert made.work().dead == 3
    yield made
    made.close()


@pytest.fixture
def ids(app: duly.Duly) -> dict[str, list[str]]:
    """The dead jobs by name, the latest first."""
    return {name: [one.id for one in app.jobs.dead(name=name)] for name in ("pay", "refund")}


@pytest.fixture
def run(app: duly.Duly, capsys: Output) -> Callable[..., str]:
    """Run a command on the application's database, and return what it says."""

    def running(*words: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main(["jobs", *words[:1], app.store.url, *words[1:]]) == code
        output = capsys.readouterr()
        assert CANARY not in output.err
        return output.err if code else output.out

    return running


Run = Any


def states(app: duly.Duly) -> dict[str, str]:
    return {str(job): state for job, state in found(app.store, "SELECT id, state FROM duly_jobs")}


def test_the_list_has_a_line_for_each_and_no_payload(run: Run, ids: dict[str, list[str]]) -> None:
    heading, *lines = run("dead").splitlines()
    assert heading.split() == ["ID", "DIED", "ATTEMPTS", "JOB", "EVENT", "WHY"]
    assert [line.split()[0] for line in lines] != []
    assert {line.split()[0] for line in lines} == {*ids["pay"], *ids["refund"]}
    [paid] = [line for line in lines if " pay " in line]
    assert re.search(r"Z  1 of 1 +pay +- +OSError: the line \N{REPLACEMENT CHARACTER}\[31m", paid)
    assert CANARY not in heading + "".join(lines)
    assert run("dead", "--name", "refund").count("no such order") == 2
    assert run("dead", "--limit", "1").endswith("there may be more, ask with --limit\n")
    assert run("dead", "--until", "1d") == "no dead jobs\n"
    assert run("dead", "--source", "stripe", "--type", "paid") == "no dead jobs\n"


def test_the_list_answers_programs_in_json_without_payloads(
    run: Run, app: duly.Duly, ids: dict[str, list[str]]
) -> None:
    text = run("dead", "--json", "--name", "pay", "--since", "1h")
    assert CANARY not in text
    [told] = json.loads(text)
    [letter] = app.jobs.dead(ids["pay"][0])
    assert told["id"] == letter.id
    assert told["dead_at"] == letter.dead_at.isoformat()
    assert (told["attempts"], told["max_attempts"], told["rescues"]) == (1, 1, 0)
    assert told["failure"]["type"] == "OSError"
    assert told["unknown"] == [{"name": "charge", "key": letter.unknown[0].key}]
    assert "payload" not in told
    assert "traceback" not in told["failure"]


def test_one_is_shown_with_all_that_is_known(run: Run, ids: dict[str, list[str]]) -> None:
    [job] = ids["pay"]
    text = run("show", job)
    assert f'payload   {{"card": "{CANARY}"}}\n' in text
    assert "unknown   charge, key " in text
    assert "Traceback (most recent call last):" in text
    assert "\x1b" not in text
    told = json.loads(run("show", job, "--json"))
    assert told["payload"] == {"card": CANARY}
    assert "in lost\n" in told["traceback"]
    assert f"there is no dead job {NOT_THERE}" in run("show", NOT_THERE, code=2)


@pytest.fixture
def event_job(app: duly.Duly) -> str:
    """A dead job of an event whose body holds a secret, a line break and an escape sequence."""
    app.source("stripe", secret=CANARY)

    @app.on("stripe", "invoice.paid", name="mark")
    def mark(event: duly.Event) -> duly.Dead:
        return duly.Dead("no such invoice")

    body = json.dumps(
        {
            "id": "evt_7",
            "type": "invoice.paid",
            "created": int(datetime.now(UTC).timestamp()),
            "client_secret": "pi_1_secret_hidden",
            "data": {"object": {"id": "in_7", "note": "r\u00fcck\x1b[31m"}},
            "long": "z" * 40_000,
        },
        ensure_ascii=False,
        indent=1,
    )
    sent = duly.sign("stripe", body.encode(), CANARY)
    taken = app.receive("stripe", sent.headers, sent.body)
    assert taken.status == 200, taken.body
    assert app.work().dead == 1
    return app.jobs.dead(name="mark")[0].id


def test_a_job_of_an_event_is_shown_with_its_event(
    run: Run, app: duly.Duly, event_job: str
) -> None:
    text = run("show", event_job)
    assert "event     stripe evt_7 (invoice.paid)\n" in text
    assert "received  " in text
    assert '"id": "in_7"' in text
    assert "payload" not in text
    assert "hidden" not in text
    assert "\x1b" not in text
    assert "bytes left out …]" in text
    assert len(text) < 20_000

    told = json.loads(run("show", event_job, "--json"))["event"]
    assert (told["id"], told["type"], told["source"]) == ("evt_7", "invoice.paid", "stripe")
    assert '"id": "in_7"' in told["body"]
    assert "hidden" not in told["body"]
    assert told["body_size"] > 40_000
    assert (told["body_cut"], told["body_pruned"]) == (True, False)
    assert "in_7" not in run("dead", "--json")

    done(app.store, "UPDATE duly_events SET body = NULL")
    assert "body      pruned: its source keeps bodies only for a while" in run("show", event_job)
    told = json.loads(run("show", event_job, "--json"))["event"]
    assert (told["body"], told["body_size"], told["body_pruned"]) == (None, None, True)


def test_one_is_discarded_for_good(run: Run, app: duly.Duly, ids: dict[str, list[str]]) -> None:
    [job] = ids["pay"]
    assert run("discard", job) == f"discarded {job}\n"
    assert job not in states(app)
    assert "it was replayed, discarded or never given up" in run("discard", job, code=2)
    other = ids["refund"][0]
    assert json.loads(run("discard", other, "--json")) == {"discarded": other}


def test_one_is_replayed_once(run: Run, app: duly.Duly, ids: dict[str, list[str]]) -> None:
    [job] = ids["pay"]
    assert run("replay", job) == "replayed 1 job\n"
    assert states(app)[job] == "ready"
    assert f"there is no dead job {job}" in run("replay", job, code=2)
    assert list(states(app).values()).count("dead") == 2


def test_many_are_replayed_by_a_filter_and_a_dry_run_names_them(
    run: Run, app: duly.Duly, ids: dict[str, list[str]]
) -> None:
    chosen = sorted(ids["refund"])
    first, *lines = run("replay", "--name", "refund", "--dry-run").splitlines()
    assert (first, sorted(lines)) == ("would replay 2 jobs", chosen)
    assert set(states(app).values()) == {"dead"}
    told = json.loads(run("replay", "--name", "refund", "--since", "1h", "--rate", "1", "--json"))
    assert (sorted(told["ids"]), told["dry_run"]) == (chosen, False)
    waiting = found(app.store, "SELECT waiting FROM duly_jobs WHERE name = 'refund'")
    assert sorted(bool(one) for (one,) in waiting) == [False, True]
    assert run("replay", "--all") == "replayed 1 job\n"
    assert run("replay", "--all") == "replayed 0 jobs\n"


def test_a_long_replay_tells_how_far_it_is(
    app: duly.Duly, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "CHUNK", 2)
    assert main(["jobs", "replay", app.store.url, "--all"]) == 0
    output = capsys.readouterr()
    assert output.out == "replayed 3 jobs\n"
    assert output.err == "replayed 2 jobs so far\n"


def test_jobs_counts_each_queue_and_names_who_works(run: Run, app: duly.Duly) -> None:
    app.enqueue("pay")
    app.enqueue("pay", delay=timedelta(hours=1))
    heading, line, no_worker = run("stats").splitlines()
    assert heading.split() == ["QUEUE", "READY", "OLDEST", "WAITING", "PARKED", "LEASED", "DEAD"]
    assert re.fullmatch(r"default +1 +\d+s +1 +0 +0 +3", line)
    assert no_worker == "no worker is running"
    postgres = app.store.capabilities.concurrent_writers
    now = "clock_timestamp()" if postgres else "9000000000000000"  # long after today
    done(
        app.store,
        "INSERT INTO duly_workers (id, host, pid, seen_at, queues, idle, lease) "
        f"VALUES ('{NOT_THERE}', 'shop-1', 7, {now}, '[\"default\"]', FALSE, 60000000)",
    )
    assert run("stats").endswith("worker shop-1, process 7: default\n")
    told = json.loads(run("stats", "--json"))
    [queue] = told["queues"]
    assert queue.pop("oldest") >= 0
    assert queue == {
        "queue": "default", "ready": 1, "waiting": 1, "parked": 0, "leased": 0, "dead": 3,
    }  # fmt: skip
    assert told["workers"] == [{"id": NOT_THERE, "host": "shop-1", "pid": 7, "queues": ["default"]}]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("replay",), "which dead letters? Give the id of one job, or --source, --type"),
        (("replay", NOT_THERE, "--name", "x"), "give the id of one job, or --name, and not both"),
        (("replay", "--all", "--name", "x"), "--all means every dead letter"),
        (("replay", "--all", "--rate", "0"), "rate must be a number per second"),
        (("replay", "--since", "later"), "--since must be how long ago, like 45m, 2h or 3d"),
        (("dead", "--limit", "0"), "limit must be a whole number from 1"),
        (("show",), "which job? Give its id, as in `duly jobs show shop:app ID`"),
        (("discard",), "which job? Give its id, as in `duly jobs discard shop:app ID`"),
        (("dead", NOT_THERE), "show it, replay it, or discard it?"),
        ((NOT_THERE,), "show it, replay it, or discard it?"),
        (
            ("show", NOT_THERE, "--limit", "1"),
            "`duly jobs show` takes no --limit; `duly jobs dead`",
        ),
        (("--name", "pay"), "`duly jobs` takes no --name; `duly jobs dead` or `duly jobs replay`"),
        (("replay", "--all", "--limit", "9"), "`duly jobs replay` takes no --limit"),
        (("stats", "--dry-run"), "`duly jobs stats` takes no --dry-run; `duly jobs replay` takes"),
        (("dead", "shop:app"), "give one application or address, and one id"),
        (("stats",), "duly's tables"),
        ((), "duly's tables"),
    ],
)
def test_what_cannot_work_is_told_in_one_line_and_makes_no_database(
    sqlite_url: str, tmp_path: Path, capsys: Output, words: tuple[str, ...], told: str
) -> None:
    assert main(["jobs", sqlite_url, *words]) in (1, 2)
    error = capsys.readouterr().err
    assert error.startswith(f"duly: {told}")
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_whose_jobs_must_be_said(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["jobs"]) == 2
    assert "whose jobs? Name the application" in capsys.readouterr().err
    monkeypatch.setenv("DULY_URL", "memory:")
    assert main(["jobs"]) == 2
    assert "a memory: store ends with its process" in capsys.readouterr().err


def test_an_application_is_named_as_well_as_its_database(tmp_path: Path, sqlite_url: str) -> None:
    (tmp_path / "shop.py").write_text(APP)
    duly.store(sqlite_url).open().close()

    def command(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return run_forked(
            [sys.executable, "-W", "error", "-m", "duly", *words],
            cwd=tmp_path,
            env={**os.environ, "SHOP_URL": sqlite_url, **more},
        )

    named = command("jobs", "dead", "shop:app")
    assert (named.returncode, named.stdout, named.stderr) == (0, "no dead jobs\n", "")
    told = command("jobs", "replay", "--all", "--json", DULY_APP="shop:app")
    assert json.loads(told.stdout) == {"ids": [], "dry_run": False}
    assert "leave out --prefix" in command("jobs", "shop:app", "--prefix", "x_").stderr


def test_times_are_written_as_people_do() -> None:
    now = datetime.now(UTC)
    for text, ago in {
        "45m": 45 * 60,
        "2h": 7200,
        "3d": 3 * 86400,
        "1w": 7 * 86400,
        "9s": 9,
    }.items():
        assert abs(now - parse_time("since", text) - timedelta(seconds=ago)) < timedelta(minutes=1)
    assert parse_time("since", "2026-01-31") == datetime(2026, 1, 31, tzinfo=UTC)
    assert parse_time("since", "2026-01-31T12:00:00+02:00") == datetime(2026, 1, 31, 10, tzinfo=UTC)


def test_an_unknown_effect_is_resolved_from_the_shell(app: duly.Duly, capsys: Output) -> None:
    [letter] = app.jobs.dead(name="pay")
    assert [one.name for one in letter.unknown] == ["charge"]
    words = [app.store.url, letter.id, "charge"]
    assert main(["effects", "resolve", *words, "--done", "--result", "ch_1"]) == 2
    assert "--result must be JSON" in capsys.readouterr().err
    assert main(["effects", "resolve", *words, "--done", "--result", '"ch_1"', "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "job": letter.id,
        "effect": "charge",
        "done": True,
    }
    assert app.jobs.dead(letter.id)[0].unknown == ()
    assert main(["effects", "resolve", *words, "--not-done"]) == 2
    assert "is known" in capsys.readouterr().err
    assert main(["effects", "resolve", app.store.url, "charge", "--done"]) == 2
    assert "as in `duly effects resolve shop:app" in capsys.readouterr().err
