"""A storm on a database of its own: `python -m tests.storm postgres --deliveries 1000000`.

Brings up a PostgreSQL that may be crashed, and that comes back by itself, for `duly storm`.
"""

from __future__ import annotations

import subprocess
import sys

from tests.faults.clusters import cluster
from tests.storm.storms import COMMAND

USAGE = "usage: python -m tests.storm postgres|sqlite [OPTION OF duly storm ...]"


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in ("postgres", "sqlite"):
        print(USAGE, file=sys.stderr)
        return 2
    store, *options = arguments
    if store == "sqlite":
        return subprocess.call([*COMMAND, "storm", *options])
    with cluster() as server:
        where = [server.url, "--cluster", str(server.folder / "data")]
        return subprocess.call([*COMMAND, "storm", *where, *options])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
