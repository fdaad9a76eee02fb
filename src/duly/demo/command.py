"""One run of ``duly demo``, from its options to its report; and what Ctrl-C does to it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Self

from duly.core.extras import needs
from duly.demo.display import PlainDisplay, display_for
from duly.demo.orchestrator import Orchestrator
from duly.demo.report import document, markdown, marks, opening, story, table, verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from duly.demo.orchestrator import StormOutcome
    from duly.demo.settings import Settings

FAILED = 1
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Quit(BaseException):
    """A signal that ends this process now."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number
        """What a shell reports for a process that this signal ended."""


class Signals:
    """Turns the first Ctrl-C into `is_interrupted`, and every other signal into `Quit`."""

    def __init__(self) -> None:
        self._interrupted = False
        self._before = {number: signal.getsignal(number) for number in ENDING}

    def is_interrupted(self) -> bool:
        """Return True after Ctrl-C: the faults end early, and the ledger is still audited."""
        return self._interrupted

    def __enter__(self) -> Self:
        for number in ENDING:
            signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT and not self._interrupted:
            self._interrupted = True
            return
        for other in ENDING:  # nothing may interrupt the clean-up
            signal.signal(other, signal.SIG_IGN)
        raise Quit(number)


def refuse_without_extras() -> None:
    """Say how to install the server and the HTTP client, before anything else is done."""
    with needs("serve,http", "uvicorn, httptools, uvloop and httpx"):
        import httptools  # noqa: F401
        import httpx  # noqa: F401
        import uvicorn  # noqa: F401
        import uvloop  # noqa: F401


def run_storm(
    settings: Callable[[Path], Settings],
    *,
    as_json: bool,
    keep: Path | None = None,
    report: Path | None = None,
) -> int:
    """Run a storm in a folder, print its ledger, and return the exit code.

    The folder is removed unless it is to be kept, or a line of the ledger does not balance.
    """
    refuse_without_extras()
    # Settings of the user's own application would move the tables of this one.
    for name in ("DULY_PREFIX", "DULY_SCHEMA"):
        os.environ.pop(name, None)
    folder = keep or Path(tempfile.mkdtemp(prefix="duly-storm-"))
    folder.mkdir(parents=True, exist_ok=True)
    kept = keep is not None
    try:
        with Signals() as signals:
            chosen = settings(folder)
            output = sys.stderr if as_json else sys.stdout
            print(opening(chosen), file=output, flush=True)
            display = PlainDisplay(output) if as_json else display_for(output)
            with closing(display):
                outcome = Orchestrator(chosen, display, signals.is_interrupted).run()
        kept = kept or bool(outcome.wrong)
        if as_json:
            print(json.dumps(document(chosen, outcome)))
        else:
            display.page(last_page(outcome))
        if kept:
            print(f"Kept: {folder}", file=output)
        if report is not None:
            write_report(chosen, outcome, report)
    except Quit as quitting:
        return quitting.code
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
    return FAILED if outcome.wrong else 0


def last_page(outcome: StormOutcome) -> list[str]:
    """Return the lines that stay on the screen."""
    return [*table(outcome.lines, marks(sys.stdout)), *story(outcome), verdict(outcome)]


def write_report(settings: Settings, outcome: StormOutcome, report: Path) -> None:
    """Write the report, and the log of the faults beside it."""
    log = report.with_suffix(".log")
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(markdown(settings, outcome, log.name))
    print(f"duly: the report is in {report}, the faults are in {log}", file=sys.stderr)
    shutil.copyfile(settings.folder / "nemesis.log", log)
