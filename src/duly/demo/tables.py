"""The tables of the storm, and triggers that note what may never happen to a job.

No uniqueness anywhere: a double could not hide.
"""

# ruff: noqa: S608 - names of tables, and nothing from outside

from __future__ import annotations

from duly.demo.shop import ACCOUNTS

# What a job may never do: see the table of states (duly.core.states).
NEVER = """
       new.epoch < old.epoch OR new.attempts < old.attempts OR new.rescues < old.rescues
    OR new.attempts > new.max_attempts OR new.rescues > 5
    OR (new.state = 'leased') <> (new.token IS NOT NULL)
    OR (new.state = 'leased' AND old.state <> 'ready')
    OR (new.state = 'leased' AND new.epoch <> old.epoch + 1)
    OR (new.state <> 'leased' AND new.epoch <> old.epoch)
    OR (new.state = 'dead' AND old.state <> 'leased')
    OR (old.state = 'dead')
"""
# Most jobs are leased once: only what comes later says anything.
AGAIN = "new.state = 'leased' AND new.epoch > 1"

TABLES = (
    "CREATE TABLE {effects} (event text, amount bigint, job text, epoch bigint)",
    "CREATE TABLE {accounts} (account integer, balance bigint, n bigint)",
    "CREATE TABLE {leases} (job text, epoch bigint, token {bytes})",
    "CREATE TABLE {breaches} (job text, was text, became text)",
    "INSERT INTO {accounts} VALUES " + ", ".join(f"({n}, 0, 0)" for n in range(ACCOUNTS)),
)
ON_SQLITE = (
    f"CREATE TRIGGER storm_leases AFTER UPDATE ON {{jobs}} WHEN {AGAIN} BEGIN"
    " INSERT INTO {leases} VALUES (new.id, new.epoch, new.token); END",
    f"CREATE TRIGGER storm_breaches AFTER UPDATE ON {{jobs}} WHEN {NEVER} BEGIN"
    " INSERT INTO {breaches} VALUES (new.id, old.state, new.state); END",
    "CREATE TRIGGER storm_drops AFTER DELETE ON {jobs} WHEN old.state <> 'leased' BEGIN"
    " INSERT INTO {breaches} VALUES (old.id, old.state, 'gone'); END",
)
ON_POSTGRES = (
    "CREATE FUNCTION {lease}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN"
    " INSERT INTO {leases} VALUES (new.id, new.epoch, new.token); RETURN NULL; END'",
    "CREATE FUNCTION {breach}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN"
    " INSERT INTO {breaches} VALUES (old.id, old.state, new.state); RETURN NULL; END'",
    "CREATE TRIGGER storm_leases AFTER UPDATE ON {jobs} FOR EACH ROW"
    f" WHEN ({AGAIN}) EXECUTE FUNCTION {{lease}}()",
    "CREATE TRIGGER storm_breaches AFTER UPDATE ON {jobs} FOR EACH ROW"
    f" WHEN ({NEVER}) EXECUTE FUNCTION {{breach}}()",
    "CREATE TRIGGER storm_drops AFTER DELETE ON {jobs} FOR EACH ROW"
    " WHEN (old.state <> 'leased') EXECUTE FUNCTION {breach}()",
)
