"""Looks at what a PostgreSQL server is doing, for tests that wait until it does it."""

import psycopg


def waiting(url: str, text: str = "") -> int:
    """How many statements that contain the text wait for a lock in this database."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            " AND state = 'active' AND datname = current_database() AND strpos(query, %s) > 0",
            [text],
        ).fetchone()
    assert row is not None
    return int(row[0])


def waits(url: str, text: str = "") -> bool | None:
    """True once such a statement waits; None until then."""
    return waiting(url, text) > 0 or None


def waits_no_more(url: str, text: str = "") -> bool | None:
    """True once no such statement waits; None until then."""
    return waiting(url, text) == 0 or None


def nobody_else_is_connected(url: str) -> bool | None:
    """True once ours is the only connection; a server takes a moment to end the others."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchone()
    return row == (0,) or None
