"""Runs one command with the servers around it: `python -m tests.support.servers -- COMMAND`.

The servers are up before the command starts, their addresses are in its environment, and they are
gone when it ends. The exit code is the command's. With --memory they and the command write to a
folder in memory where there is enough: for tests, never for what measures a disk.
"""

import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack

from . import bouncer, postgresql
from .commands import FORWARDED, run
from .memory import temporary_folder
from .running import Missing, StartFailed

USAGE = (
    "usage: python -m tests.support.servers [--memory] [postgres] [pgbouncer]"
    " -- COMMAND [ARGUMENT ...]"
)
MEMORY = "--memory"
KINDS = ("postgres", "pgbouncer")


def main(arguments: Sequence[str]) -> int:
    if "--" not in arguments:
        return _refuse(USAGE)
    split = list(arguments).index("--")
    wanted, command = list(arguments[:split]), list(arguments[split + 1 :])
    kinds = [word for word in wanted if word != MEMORY] or KINDS
    if not command or not set(kinds) <= set(KINDS):
        return _refuse(USAGE)
    # Until the command takes over, SIGTERM takes the same way out as Ctrl-C.
    for number in FORWARDED:
        signal.signal(number, signal.default_int_handler)
    with ExitStack() as stack:
        try:
            if MEMORY in wanted:
                os.environ |= stack.enter_context(temporary_folder(os.environ))
            addresses = bring_up(stack, kinds)
        except StartFailed as failure:
            return _refuse(str(failure))
        return run(command, {**os.environ, **addresses})


def bring_up(stack: ExitStack, kinds: Sequence[str]) -> dict[str, str]:
    """Start the servers on the stack; return the variables that lead to them."""
    begun = time.monotonic()
    admin_url = stack.enter_context(postgresql.postgres())
    addresses = {postgresql.GIVEN: admin_url}
    if "pgbouncer" in kinds:
        found = stack.enter_context(bouncer.pgbouncer(admin_url))
        if isinstance(found, Missing):
            addresses[bouncer.ABSENT] = found.reason
        else:
            addresses[bouncer.GIVEN] = found
    _say(f"up in {time.monotonic() - begun:.1f} s: {', '.join(sorted(addresses))}")
    return addresses


def _refuse(reason: str) -> int:
    _say(reason)
    return 2


def _say(text: str) -> None:
    print(f"servers: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
