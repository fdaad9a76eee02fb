"""The application of `duly serve benchmarks.ingesting.served:app`, on the database it is told."""

from __future__ import annotations

import os

from benchmarks.ingesting.ours import HANDLERS, STORE, application

app = application(os.environ[STORE], int(os.environ[HANDLERS]))
