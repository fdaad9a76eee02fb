"""A server that is stopped in the middle of an inline event does not keep it from the others."""

from __future__ import annotations

import http.client
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.support.processes.leading import PATIENCE, until
from tests.support.serving import rows, served

if TYPE_CHECKING:
    from concurrent.futures import Future
    from pathlib import Path

    from tests.support.serving import Answer

pytestmark = pytest.mark.slow

# The handler of the first server stays in its transaction; that of the second one does not.
APP = """
import os
import time
from datetime import timedelta
from pathlib import Path

import duly

URL = os.environ["SHOP_URL"]
if os.environ["SHOP_OPENER"] == "duly":
    app = duly.Duly(URL)
else:
    from sqlalchemy import create_engine
    from sqlalchemy.orm import sessionmaker

    engine = create_engine(URL.replace("postgresql:", "postgresql+psycopg:"))
    app = duly.Duly(begin=sessionmaker(engine))
app.source("stripe", secret=os.environ["SHOP_SECRET"], inline=True)


@app.on("stripe", "paid", timeout=timedelta(seconds=4))
def mark_paid(event, tx):
    tx.execute("INSERT INTO paid (event, process) VALUES (:id, :pid)", id=event.id, pid=os.getpid())
    if os.environ["SHOP_STAYS"] == "yes":
        Path("begun").touch()
        while not Path("go").exists():
            time.sleep(0.01)
"""
TABLE = "CREATE TABLE paid (event TEXT NOT NULL, process INTEGER NOT NULL)"
IN_TRANSACTION = (
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
)


def is_refused(answer: Future[Answer]) -> bool:
    """Whether a delivery was answered 500 or 503, or not at all."""
    try:
        # 500 where the handler is told to have outlasted its `timeout=`.
        return answer.result(PATIENCE).status in (500, 503)
    except (OSError, http.client.HTTPException):
        return True


@pytest.mark.parametrize("opener", ["duly", "sqlalchemy"])
def test_the_retry_is_handled_by_another_server_and_its_effect_is_there_once(
    tmp_path: Path, own_postgres_url: str, opener: str
) -> None:
    url = own_postgres_url
    rows(url, TABLE)
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
        (folder / "shop.py").write_text(APP)
    serve = partial(served, SHOP_URL=url, SHOP_OPENER=opener)
    with (
        serve(folders[0], "shop:app", SHOP_STAYS="yes") as first,
        serve(folders[1], "shop:app", SHOP_STAYS="no") as second,
        ThreadPoolExecutor(1) as threads,
    ):
        answer = threads.submit(first.send, "evt_1", "paid")
        try:
            until(lambda: (folders[0] / "begun").exists() or None)
            first.tell(signal.SIGSTOP)
            os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WNOWAIT)
            # Nothing of the stopped process runs: only PostgreSQL can end its transaction.
            until(lambda: rows(url, IN_TRANSACTION) == [(0,)] or None)
            retried = second.send("evt_1", "paid")
        finally:
            (folders[0] / "go").touch()
            first.tell(signal.SIGCONT)
        assert (retried.status, retried.body["status"]) == (200, "accepted")
        assert is_refused(answer)
        assert rows(url, "SELECT event, process FROM paid") == [("evt_1", second.pid)]
        again = first.send("evt_1", "paid")
        assert (again.status, again.body["status"]) == (200, "duplicate")
