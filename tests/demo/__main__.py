"""A storm on a database of its own: `python -m tests.demo postgres --deliveries 1000000`.

Brings up a PostgreSQL that may be crashed, and that comes back by itself, for `duly demo`.
`python -m tests.demo setups PATTERN` is a storm over documented set-ups instead of the storm's own
shop: `duly demo` forks processes that run its own application, and cannot run the files and the
command lines of a user.
"""

from __future__ import annotations

import subprocess
import sys

from tests.demo.storms import COMMAND
from tests.receiver.faults.clusters import cluster

USAGE = (
    "usage: python -m tests.demo postgres|sqlite [OPTION OF duly demo ...]\n"
    "       python -m tests.demo setups [PATTERN OR OPTION OF python -m verification.setups ...]"
)
SETUPS = [sys.executable, "-m", "verification.setups", "--faults", "storm"]


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in ("postgres", "sqlite", "setups"):
        print(USAGE, file=sys.stderr)
        return 2
    store, *options = arguments
    if store == "setups":
        return subprocess.call([*SETUPS, *options])
    if store == "sqlite":
        return subprocess.call([*COMMAND, "demo", *options])
    with cluster() as server:
        where = [server.url, "--cluster", str(server.folder / "data")]
        return subprocess.call([*COMMAND, "demo", *where, *options])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
