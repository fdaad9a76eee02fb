"""The names of the statements about jobs: one ``.sql`` file each, in every store."""

from __future__ import annotations

JOBS_DISCARD = "jobs_discard"
JOBS_INSERT = "jobs_insert"
JOBS_OF_EVENT = "jobs_of_event"
WORKERS_ALIVE = "workers_alive"
