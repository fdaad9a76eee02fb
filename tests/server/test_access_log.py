"""The access log of a server: one line for each request, in order, however it came in."""

from __future__ import annotations

import contextlib
import io
import logging
import re
import threading
from typing import TYPE_CHECKING

import pytest

from duly.server.fast_delivery import FastPath
from duly.server.logging import LogFormatter, configure_logging
from tests.server.hostile.application import application
from tests.server.hostile.connections import Connection
from tests.server.hostile.wire import delivery, request

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TIMES = re.compile(r"^\S+Z |[0-9.]+ms$", re.MULTILINE)


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """What a process writes to its standard error; the log is put back afterwards."""
    root, before = logging.getLogger(), logging.getLogger().handlers[:]
    levels = {name: logging.getLogger(name).level for name in (None, "duly.access", "uvicorn")}
    found = io.StringIO()
    yield found
    root.handlers[:] = before
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def configure(stream: io.StringIO, *, as_json: bool = False) -> LogFormatter:
    """Set up the log of a server that writes to this stream."""
    with contextlib.redirect_stderr(stream):
        return configure_logging(level="info", as_json=as_json)


class Collector(logging.Handler):
    """A handler of the user's."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message."""
        self.texts.append(record.getMessage())


async def ask(folder: Path) -> None:
    """Three deliveries, one of them forged, and a request to a path that is none."""
    app = application(f"sqlite:///{folder / 'duly.db'}")
    try:
        async with Connection(app) as connection:
            await connection.hand([delivery("evt_a") + delivery("evt_b")])
            await connection.quiet()
            forged = delivery("forged").replace(b"v1,", b"v1,A")
            await connection.hand([forged])
            await connection.quiet()
            logging.getLogger("duly.serve").info("between")
            await connection.hand([request("GET", "/none%09%1b[31m")])
            await connection.answers()
    finally:
        await app.aclose()


@pytest.mark.parametrize("form", ["text", "json"])
async def test_both_ways_log_the_same_lines_in_their_order(
    tmp_path: Path, stream: io.StringIO, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    configure(stream, as_json=form == "json")
    (tmp_path / "fast").mkdir()
    await ask(tmp_path / "fast")
    logging.getLogger().handlers[0].flush()
    fast = stream.getvalue()
    stream.truncate(stream.seek(0))
    monkeypatch.setattr(FastPath, "find_delivery", lambda *_: None)
    (tmp_path / "asgi").mkdir()
    await ask(tmp_path / "asgi")
    logging.getLogger().handlers[0].flush()

    def lines(text: str) -> list[str]:
        times = r'"(time|milliseconds)": [^,}]+' if form == "json" else TIMES.pattern
        wanted = [one for one in text.splitlines() if "access" in one or "between" in one]
        return [re.sub(times, "", one) for one in wanted]

    assert lines(fast) == lines(stream.getvalue())
    assert [word for one in lines(fast) for word in re.findall("evt_.|BAD_SIG|between|none", one)][
        :4
    ] == ["evt_a", "evt_b", "BAD_SIG", "between"]
    assert "\x1b" not in fast


async def test_a_handler_of_the_users_hears_of_every_request(
    tmp_path: Path, stream: io.StringIO
) -> None:
    configure(stream)
    for name in (None, "duly", "duly.access"):
        collector = Collector()
        logger = logging.getLogger(name)
        logger.addHandler(collector)
        folder = tmp_path / (name or "root")
        folder.mkdir()
        try:
            await ask(folder)
        finally:
            logger.removeHandler(collector)
        heard = [one for one in collector.texts if one.startswith(("POST", "GET"))]
        assert len(heard) == 4, name


async def test_secrets_are_hidden_in_lines_without_a_record(
    tmp_path: Path, stream: io.StringIO
) -> None:
    formatter = configure(stream)
    formatter.secrets = ("evt_a",)
    await ask(tmp_path)
    logging.getLogger().handlers[0].flush()
    assert "evt_a" not in stream.getvalue()
    assert "***" in stream.getvalue()


async def test_no_line_is_lost_where_a_thread_logs_in_between(
    tmp_path: Path, stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    formatter, hide = configure(stream), LogFormatter.hide

    def interrupted(text: str) -> str:
        if "duly.access POST" in text:
            other = threading.Thread(target=logging.getLogger("duly.worker").info, args=("busy",))
            other.start()
            other.join(0.2)  # where the handler is locked, it waits until the line is written
        return hide(formatter, text)

    monkeypatch.setattr(formatter, "hide", interrupted)
    await ask(tmp_path)
    logging.getLogger().handlers[0].flush()
    assert re.findall(r"POST /hooks \d+ \w+ (\S+)", stream.getvalue()) == ["evt_a", "evt_b", "-"]
