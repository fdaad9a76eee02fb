"""What a proof reads out of the user's SQL."""

from __future__ import annotations

import pytest

from duly.prove.statements import is_delta, read_tables, shorten, verb_of, written_table

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("text", "verb", "table"),
    [
        ("INSERT INTO orders (id) VALUES (?)", "INSERT", "orders"),
        ("insert or ignore into Orders values (1)", "INSERT", "orders"),
        ('INSERT INTO "public"."orders" VALUES (1)', "INSERT", "orders"),
        ("REPLACE INTO orders VALUES (1)", "INSERT", "orders"),
        ("UPDATE orders SET state = 'paid'", "UPDATE", "orders"),
        ("UPDATE ONLY shop.orders SET state = 'paid'", "UPDATE", "orders"),
        ("DELETE FROM [orders] WHERE id = 1", "DELETE", "orders"),
        ("WITH one AS (SELECT 1) INSERT INTO orders SELECT * FROM one", "INSERT", "orders"),
        ("COPY orders FROM STDIN", "INSERT", "orders"),
        ('COPY "shop"."orders" ("id", "n") FROM STDIN WITH (FORMAT csv)', "INSERT", "orders"),
        ("COPY orders TO STDOUT", "", None),
        ("COPY (SELECT id FROM orders) TO STDOUT", "", None),
        ("SELECT * FROM orders", "", None),
    ],
)
def test_what_a_statement_writes_is_known(text: str, verb: str, table: str | None) -> None:
    assert (verb_of(text), written_table(text)) == (verb, table)


@pytest.mark.parametrize(
    "text",
    [
        "UPDATE accounts SET balance = balance + 100",
        "UPDATE accounts SET balance = coalesce(balance, 0) + :amount WHERE id = 7",
        'UPDATE "accounts" SET "balance" = ("accounts"."balance" - %s) WHERE id = %s',
        "UPDATE notes SET text = text || ?",
        "UPDATE accounts SET seen = 1, balance=balance*2",
    ],
)
def test_an_update_that_adds_to_what_is_there_is_a_delta(text: str) -> None:
    assert is_delta(text)


@pytest.mark.parametrize(
    "text",
    [
        "UPDATE accounts SET balance = 200 WHERE id = 7",
        "UPDATE accounts SET balance = :balance WHERE balance < :balance",
        "UPDATE orders SET state = 'paid', at = now() - interval '1 day' WHERE id = 1",
        "INSERT INTO accounts (balance) VALUES (1 + 1)",
        "SELECT balance + 1 FROM accounts",
    ],
)
def test_an_update_that_sets_a_state_is_none(text: str) -> None:
    assert not is_delta(text)


def test_only_a_statement_that_writes_nothing_is_a_look() -> None:
    asked = "SELECT 1 FROM seen JOIN shop.orders ON seen.id = orders.id"
    assert read_tables(asked) == {"seen", "orders"}
    assert read_tables("DELETE FROM seen WHERE id IN (SELECT id FROM orders)") == set()


def test_a_long_statement_is_told_in_one_line() -> None:
    told = shorten("SELECT  a,\n       b\n  FROM " + "x" * 200)
    assert told.startswith("SELECT a, b FROM xxx")
    assert len(told) == 100
    assert told.endswith("…")
