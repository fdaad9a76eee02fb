"""``duly forget`` clears an event's claim, says what it did, and refuses while work is left."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.processes.forked import run_forked
from tests.support.serving import APP, SECRET, clean, rows, served

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

pytestmark = pytest.mark.slow

TABLE = "CREATE TABLE paid (event TEXT NOT NULL, process INTEGER NOT NULL)"
TENANTS = f"""
import os
import duly

app = duly.Duly(os.environ["SHOP_URL"])
app.source(
    "stripe", secret="{SECRET}", inline=True, tenant=lambda event: event.events[0].json["tenant"]
)


@app.on("stripe")
def seen(event):
    pass
"""


@pytest.fixture(params=["postgres", "sqlite"])
def url(request: pytest.FixtureRequest) -> str:
    name = "own_postgres_url" if request.param == "postgres" else "sqlite_url"
    found: str = request.getfixturevalue(name)
    rows(found, TABLE)
    return found


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP)
    (tmp_path / "tenants.py").write_text(TENANTS)
    return tmp_path


def forget(here: Path, url: str, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return run_forked(
        [sys.executable, "-W", "error", "-m", "duly", "forget", *words],
        cwd=here,
        env={**clean(), "SHOP_URL": url, "SHOP_SECRET": SECRET, **more},
    )


def test_a_forgotten_event_is_processed_again_and_only_then(here: Path, url: str) -> None:
    with served(here, "shop:app", SHOP_URL=url) as server:
        assert server.send("evt_1", "paid").body["status"] == "accepted"
        done = forget(here, url, "shop:app", "stripe", "evt_1")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == (
            "forgot evt_1 (paid) of stripe\nwhen it is delivered again, it runs: mark_paid\n"
        )
        assert len(rows(url, "SELECT * FROM paid")) == 1
        assert server.send("evt_1", "paid").body["status"] == "accepted"
        assert server.send("evt_1", "paid").body["status"] == "duplicate"
    assert len(rows(url, "SELECT * FROM paid")) == 2


def test_an_event_with_work_left_is_not_forgotten_and_its_dead_jobs_are_discarded(
    here: Path, url: str
) -> None:
    words = ("later", "evt_1", "--json")
    with served(here, "shop:app", "--no-worker", SHOP_URL=url) as server:
        assert server.send("evt_1", "paid", source="later").status == 200
        refused = forget(here, url, *words, DULY_APP="shop:app")
        assert refused.returncode == 2
        assert "still has work to do (later)" in refused.stderr
        assert server.send("evt_1", "paid", source="later").body["status"] == "duplicate"
        rows(url, "UPDATE duly_jobs SET state = 'dead'")
        done = forget(here, url, *words, DULY_APP="shop:app")
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout) == {
            "source": "later",
            "event": "evt_1",
            "tenant": None,
            "type": "paid",
            "discarded": 1,
            "handlers": ["later"],
            "too_old": False,
        }
    assert rows(url, "SELECT * FROM duly_jobs") == []


def test_a_tenants_event_is_forgotten_for_that_tenant_alone(here: Path, url: str) -> None:
    with served(here, "tenants:app", SHOP_URL=url) as server:
        for tenant in ("acme", "zeta"):
            assert server.send("evt_1", "paid", tenant=tenant).body["status"] == "accepted"
        refused = forget(here, url, "tenants:app", "stripe", "evt_1")
        assert "name one with --tenant\n" in refused.stderr
        done = forget(here, url, "tenants:app", "stripe", "evt_1", "--tenant", "acme")
        assert done.returncode == 0
        assert server.send("evt_1", "paid", tenant="acme").body["status"] == "accepted"
        assert server.send("evt_1", "paid", tenant="zeta").body["status"] == "duplicate"


def test_an_event_is_forgotten_by_the_address_of_its_database_as_well(here: Path, url: str) -> None:
    with served(here, "tenants:app", SHOP_URL=url) as server:
        for tenant in ("acme", "zeta"):
            assert server.send("evt_1", "paid", tenant=tenant).body["status"] == "accepted"
        refused = forget(here, url, url, "stripe", "evt_1")
        assert (refused.returncode, "there is no event 'evt_1' in stripe" in refused.stderr) == (
            2,
            True,
        )
        assert "--tenant where the source has one" in refused.stderr
        done = forget(here, url, "stripe", "evt_1", "--tenant", "acme", "--json", DULY_URL=url)
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["handlers"] is None
        assert server.send("evt_1", "paid", tenant="acme").body["status"] == "accepted"
        assert server.send("evt_1", "paid", tenant="zeta").body["status"] == "duplicate"


def test_a_mistyped_path_makes_no_database(here: Path, sqlite_url: str) -> None:
    missing = here / "missing.db"
    assert forget(here, sqlite_url, f"sqlite:///{missing}", "stripe", "evt_1").returncode == 1
    assert not missing.exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "which event? As in `duly forget shop:app stripe evt_1`"),
        (("stripe", "evt_1"), "which application?"),
        (("shop:app", "strip", "evt_1"), "there is no source 'strip'"),
        (("shop:app", "stripe", "evt_9"), "there is no event 'evt_9' in stripe"),
    ],
)
def test_what_cannot_be_forgotten_is_told_in_one_line(
    here: Path, sqlite_url: str, words: tuple[str, ...], told: str
) -> None:
    ended = forget(here, sqlite_url, *words)
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"duly: {told}")
    assert ended.stderr.count("\n") == 1
