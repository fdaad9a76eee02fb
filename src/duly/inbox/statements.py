"""The names of the inbox's statements: one ``.sql`` file each, in every store."""

from __future__ import annotations

CLAIMS_FORGET = "claims_forget"
COUNTERS_ADD = "counters_add"
COUNTERS_PRUNE = "counters_prune"
DELIVERIES_NOTE = "deliveries_note"
DELIVERIES_PRUNE = "deliveries_prune"
EVENTS_CONFLICTS = "events_conflicts"
EVENTS_FIND = "events_find"
EVENTS_FLAG = "events_flag"
EVENTS_INSERT = "events_insert"
EVENTS_PRUNE = "events_prune"
EVENTS_STRIP = "events_strip"
GUARDS_FORGET = "guards_forget"
# One statement for many events; PostgreSQL only.
INBOX_ACCEPT = "inbox_accept"
# Not of the inbox alone: the migrations note the version with it, the readiness probe its time.
META_WRITE = "meta_write"
