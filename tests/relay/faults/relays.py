"""`duly relay` in a process: `python -m tests.relay.faults.relays URL ORIGIN LEASE`.

It says on its output what it logs, an object a line.
"""

from __future__ import annotations

import os
import sys

from duly.cli.main import main

MODULE = "tests.relay.faults.relays"
APP = "tests.relay.faults.office:app"
# Seconds for messages on their way to arrive when it is told to end: more than any needs here.
GRACE = "20"


def run(url: str, origin: str, lease: str) -> int:
    """Relay until told to end."""
    os.dup2(1, 2)
    os.environ.update(POST_URL=url, POST_ORIGIN=origin)
    return main(["relay", APP, "--lease", lease, "--grace", GRACE, "--log-json"])


if __name__ == "__main__":
    sys.exit(run(*sys.argv[1:]))
