"""A process that shares nothing with the others: another interpreter, which imports all anew.

Forked processes share everything that the import made up, and the seed of `hash`. A key that is
made from these is the same in all of them, and another one in the worker that life would start.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from duly.prove.child_main import InstrumentedApp, run_child_task
from duly.prove.loader import by_name

if TYPE_CHECKING:
    from duly.prove.child_main import ChildTask
    from duly.prove.loader import Load, Subject

BEGIN = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from duly.prove.clean_interpreter import resumed; resumed(sys.argv[2])"
)


@dataclass(frozen=True, slots=True)
class ImportableApp:
    """An application, and the site that it is in, that every interpreter finds by their names."""

    name: str
    site: str | None = None

    def __call__(self) -> Subject:
        """Import them."""
        return by_name(self.name, self.site)()


def exec_clean_interpreter(load: Load, act: ChildTask) -> None:
    """Go on with an act as another interpreter, where that can know what it is about.

    It cannot where a test has made the application, or has changed something that it imports.
    """
    if not isinstance(load, ImportableApp) or not sys.executable:
        return
    order = act.file("order")
    order.write_bytes(pickle.dumps((load, act)))
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    words = [sys.executable, *flags, "-c", BEGIN, json.dumps(sys.path), str(order)]
    os.execve(sys.executable, words, {**os.environ, "PYTHONHASHSEED": "random"})  # noqa: S606


def resumed(order: str) -> None:
    """Do what another interpreter was about to do."""
    load, act = pickle.loads(Path(order).read_bytes())  # noqa: S301  # written right before
    run_child_task(InstrumentedApp(), load, act)
