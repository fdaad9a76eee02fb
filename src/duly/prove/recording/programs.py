"""Programs that a handler starts: none of what they do could be seen, so they are not started.

Python tells of most of them by itself, but not of those that multiprocessing starts for its methods
spawn and forkserver. Such a process has no recorder, and its calls would really go out.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duly.prove.recording.net import NotRecorded
from duly.prove.steps.watching import replace_attribute

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.prove.recording.net import NetworkGuard


def refuse_program(net: NetworkGuard, command: Any) -> None:
    """Refuse to start a program that was not named; what is given may be a line for a shell."""
    words = os.fsdecode(command).split()
    name = Path(words[0] if words else "").name
    if not net.allows(name, 0):
        net.refuse(
            NotRecorded(
                f"this process may not start {name} while it is being proved: it would really be "
                "run, each time, and what it does would not be seen. Allow it with --let-through "
                f"{name} if that does no harm"
            )
        )


@contextmanager
def guard_programs(net: NetworkGuard) -> Iterator[None]:
    """Be in the way of the programs that Python does not tell of, inside the block."""
    # Imported here because only systems that can fork have it.
    inner = import_module("_posixsubprocess")
    start = inner.fork_exec

    def fork_exec_checked(arguments: Any, executables: Any, *rest: Any) -> int:
        refuse_program(net, executables[0])
        return int(start(arguments, executables, *rest))

    with replace_attribute(inner, "fork_exec", fork_exec_checked):
        yield
