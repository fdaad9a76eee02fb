"""The application whose messages a relay process sends: `duly relay tests.faults.relaying.office:app`.

`python -m tests.faults.relaying.office URL ORIGIN LEASE` runs that command and says on its output
what it logs, an object a line.
"""

from __future__ import annotations

import os
import sys

from duly.tools.cli import main
from tests.faults.relaying.posts import sender

MODULE = "tests.faults.relaying.office"
URL, ORIGIN = "POST_URL", "POST_ORIGIN"
# Seconds for messages on their way to arrive when it is told to end: more than any needs here.
GRACE = "20"

if URL in os.environ:
    app = sender(os.environ[URL], os.environ[ORIGIN])


def run(url: str, origin: str, lease: str) -> int:
    """Relay until told to end."""
    os.dup2(1, 2)
    os.environ.update({URL: url, ORIGIN: origin})
    return main(["relay", f"{MODULE}:app", "--lease", lease, "--grace", GRACE, "--log-json"])


if __name__ == "__main__":
    sys.exit(run(*sys.argv[1:]))
