"""The documented set-ups: the list has all that the pages name, and the audit can fail."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import pytest
from verification.mutation.shelf import Mutant
from verification.mutation.trials import Run, judged
from verification.setups.audit import audited
from verification.setups.books import Books, Sent
from verification.setups.catalog import DATABASES, QUICK, SITES, every_setup, selected
from verification.setups.command import main, orders_of, parsed
from verification.setups.evidence import Evidence, gather, wait_until_drained
from verification.setups.faults import FAULTS, NONE, fits
from verification.setups.places import SqlitePlace
from verification.setups.report import report
from verification.setups.trial import Order, Outcome
from verification.setups.writing import APPLICATIONS, keep_kind, write_application

from tests.docs.test_documentation import blocks as blocks_in
from tests.support.proxies import Cut, proxy

if TYPE_CHECKING:
    from verification.setups.catalog import Kind, Setup

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *(ROOT / "docs" / f"{name}.md" for name in ("frameworks", "joining", "serving")),
]
# What examples use beside: the client that asks them.
BESIDE = {"httpx"}
# Every driver, ORM and framework that a page may name, and the word for it in the list.
NAMED = {
    "sqlite3": "sqlite", "aiosqlite": "aiosqlite", "psycopg": "psycopg", "asyncpg": "asyncpg",
    "SQLAlchemy": "sqlalchemy", "Django": "django", "FastAPI": "fastapi", "Flask": "flask",
    "uvicorn": "uvicorn", "waitress": "wsgi", "duly serve": "serve", "--no-worker": "split",
}  # fmt: skip
SHOPS = [path for path in APPLICATIONS.rglob("*.py") if "app = duly.Duly(" in path.read_text()]
CALM = "sqlite/both/serve"


def blocks(page: Path, *languages: str) -> list[str]:
    """The code blocks of a page in these languages."""
    return [text for language in languages for text in blocks_in(page, language)]


def words_of_the_list() -> set[str]:
    """Every word of a name in the list."""
    words = {word for one in every_setup() for word in re.split("[/-]", one.name)}
    return words | {word for database in DATABASES for word in database.documented}


@pytest.mark.parametrize("name", NAMED)
def test_every_driver_orm_and_server_that_a_page_names_has_a_set_up(name: str) -> None:
    assert any(name in page.read_text() for page in PAGES), f"{name} is not documented: remove it"
    assert NAMED[name] in words_of_the_list()


def test_what_the_examples_of_the_pages_import_is_in_the_list() -> None:
    code = "\n".join(text for page in PAGES for text in blocks(page, "python", "py"))
    imported = set(re.findall(r"^\s*(?:from|import) (\w+)", code, re.MULTILINE))
    foreign = imported - sys.stdlib_module_names - {"duly"} - BESIDE
    assert {"sqlalchemy", "django", "fastapi", "flask", "psycopg"} <= foreign
    assert foreign <= words_of_the_list()


def test_every_connection_that_can_be_joined_is_in_the_list() -> None:
    joining = (ROOT / "docs" / "joining.md").read_text()
    drivers = set(re.findall(r"^\| `(\w+)\.(?:Async)?Connection` ", joining, re.MULTILINE))
    assert drivers == {"sqlite3", "aiosqlite", "psycopg", "asyncpg"}
    assert {NAMED[driver] for driver in drivers} <= words_of_the_list()


def test_every_begin_of_the_page_is_in_an_application() -> None:
    page = (ROOT / "docs" / "frameworks.md").read_text()
    table = page.partition("| `begin=` |")[2].partition("\n\n")[0]
    begins = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    assert len(begins) >= 3
    texts = "".join(path.read_text() for path in SHOPS)
    assert [begin for begin in begins if f"begin={begin}" not in texts] == []


@pytest.mark.parametrize("path", SHOPS, ids=lambda path: str(path.relative_to(APPLICATIONS)))
def test_an_application_is_set_up_by_the_calls_of_the_page_with_no_more_arguments(
    path: Path,
) -> None:
    tree = ast.parse(path.read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    named = {ast.unparse(call.func): call for call in calls}
    for name in ("create_engine", "create_async_engine", "sessionmaker", "async_sessionmaker"):
        if name in named:
            assert (len(named[name].args), named[name].keywords) == (1, [])
    assert len(named["duly.Duly"].args) + len(named["duly.Duly"].keywords) == 1


def test_every_database_is_run_with_each_kind_of_source_in_each_form() -> None:
    names = {one.name for one in every_setup()}
    assert len(names) == len(every_setup())
    for database in DATABASES:
        for kind in ("inline", "jobs", "both"):
            for form in ("serve", "split", "uvicorn"):
                assert f"{database.name}/{kind}/{form}" in names
    assert {one.form for one in every_setup()} >= set(SITES)


def test_what_ci_runs_is_in_the_list_and_its_faults_fit() -> None:
    known = {one.name: one for one in every_setup()}
    assert all(fits(known[name], fault) for name, fault in QUICK)
    assert {fault for _, fault in QUICK} >= {NONE, "kill", "cut"}
    assert ("sqlalchemy-asyncpg/both/serve", NONE) in QUICK


@pytest.mark.parametrize("kind", ["inline", "jobs", "both"])
@pytest.mark.parametrize("path", SHOPS, ids=lambda path: str(path.relative_to(APPLICATIONS)))
def test_an_application_has_the_sources_of_its_kind_and_no_others(path: Path, kind: Kind) -> None:
    text = keep_kind(path.read_text(), kind)
    ast.parse(text)
    assert ('app.source("payments"' in text) == (kind != "jobs")
    assert ('app.source("orders"' in text) == (kind != "inline")
    assert "region" not in text


@pytest.mark.parametrize("setup", every_setup(), ids=lambda setup: setup.name)
def test_the_files_that_the_command_lines_name_are_written(setup: Setup, tmp_path: Path) -> None:
    write_application(setup, tmp_path)
    words = [word for command in setup.commands(1, faulty=True) for word in command.words]
    modules = {word.partition(":")[0] for word in words if re.fullmatch(r"\w+:[\w.]+", word)}
    assert modules
    assert all((tmp_path / f"{module}.py").exists() for module in modules)


def test_a_pattern_is_a_glob_or_the_beginning_of_a_name() -> None:
    assert [one.name for one in selected([CALM])] == [CALM]
    assert {one.database.name for one in selected(["sqlite"])} == {"sqlite"}
    assert {one.database.name for one in selected(["django-*"])} == {
        "django-sqlite", "django-postgres"
    }  # fmt: skip
    assert len(selected([])) == len(every_setup())


def test_the_long_form_is_a_minute_each_and_leaves_out_faults_that_do_not_fit() -> None:
    orders = orders_of(parsed(["--faults", "none", "--faults", "storm"]))
    assert {order.seconds for order in orders} == {60.0}
    assert len(orders) == 2 * len(every_setup())
    cut = orders_of(parsed(["--faults", "cut"]))
    assert {order.setup.database.store for order in cut} == {"postgres"}
    assert {order.fault for order in orders_of(parsed(["--faults", "all"]))} == set(FAULTS)


def test_a_pattern_that_fits_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nothing"]) == 2
    assert "see --list" in capsys.readouterr().err


def test_the_list_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "sqlite/both"]) == 0
    assert CALM in capsys.readouterr().out.splitlines()


def books_of(*answers: str) -> Books:
    """A sender's books: one event for each answer, by turns inline and with a job."""
    books = Books()
    for number, answer in enumerate(answers):
        sent = books.new(("payments", "orders")[number % 2], copied=True)
        books.note(sent, answer)
    return books


def whole(books: Books) -> Evidence:
    """What is found where everything went as it should."""
    sent = [one for one in books.sent.values() if one.target != "checkout"]
    orders = [one for one in books.sent.values() if one.target == "checkout"]
    return Evidence(
        inbox=[(one.target, one.id) for one in sent],
        entries=[(one.target, one.id) for one in sent]
        + [(kind, one.id) for one in orders for kind in ("ordered", "shipped")],
        told=[(f"id of {one.id}", one.id) for one in sent],
    )


def promises(books: Books, found: Evidence, *, unharmed: bool = True) -> set[str]:
    """The invariants that are violated."""
    return {told.partition(":")[0] for told in audited(books, found, unharmed=unharmed)}


def test_nothing_is_violated_where_everything_is_there() -> None:
    books = books_of("accepted", "accepted")
    books.note(books.sent["msg_1"], "duplicate")
    books.note(books.new("checkout", copied=False), "accepted")
    assert audited(books, whole(books), unharmed=True) == []


def test_an_event_that_was_acknowledged_and_is_in_no_table_violates_i1() -> None:
    books = books_of("accepted", "accepted")
    found = whole(books)
    found.inbox.pop()
    found.entries.pop()
    found.told.pop()
    [told] = audited(books, found, unharmed=True)
    assert told == "I1: 1 of 2 events that were answered 2xx are in no table: msg_2"


def test_a_copy_that_was_told_duplicate_of_an_event_that_is_in_no_table_violates_i1() -> None:
    assert "I1" in promises(books_of("duplicate"), Evidence(), unharmed=False)


def test_an_event_without_its_effect_violates_i2_with_and_without_faults() -> None:
    books = books_of("accepted", "accepted")
    found = whole(books)
    found.entries.pop()
    assert "I2" in promises(books, found)
    assert "I2" in promises(books, found, unharmed=False)


@pytest.mark.parametrize("unharmed", [True, False])
def test_an_effect_that_is_there_twice_violates_i3(unharmed: bool) -> None:
    books = books_of("accepted")
    found = whole(books)
    found.entries *= 2
    assert promises(books, found, unharmed=unharmed) == {"I3"}


def test_a_row_that_was_never_sent_violates_i4() -> None:
    books = books_of("accepted")
    found = whole(books)
    found.inbox.append(("payments", "stranger"))
    assert promises(books, found) == {"I4"}


def test_two_senders_that_were_told_accepted_violate_i5() -> None:
    books = books_of("accepted")
    books.note(books.sent["msg_1"], "accepted")
    assert promises(books, whole(books)) == {"I5"}


@pytest.mark.parametrize(
    ("part", "said", "promise"),
    [
        ("left", "3 jobs", "I6"),
        ("dead", "job record_order", "I9"),
        ("open_transactions", "77 idle in transaction: RELEASE", "I12"),
        ("run_again", "record_order: 2 runs", "I9"),
        ("deaths", "server was ended by SIGSEGV", "death"),
        ("complaints", "server: ERROR", "log"),
    ],
)
def test_what_is_left_dead_open_or_broken_is_named(part: str, said: str, promise: str) -> None:
    books = books_of("accepted")
    found = whole(books)
    getattr(found, part).append(said)
    assert promises(books, found) == {promise}


@pytest.mark.parametrize(
    "told", [[], [("a", "msg_1"), ("b", "msg_1")], [("a", "msg_1"), ("b", "never")]]
)
def test_a_message_that_is_missing_renamed_or_strange_violates_i11(
    told: list[tuple[str, str]],
) -> None:
    books = books_of("accepted")
    found = whole(books)
    found.told = told
    assert promises(books, found, unharmed=False) == {"I11"}


def test_a_message_may_arrive_twice_under_one_id_only_after_a_fault() -> None:
    books = books_of("accepted")
    found = whole(books)
    found.told *= 2
    assert promises(books, found) == {"I11"}
    assert promises(books, found, unharmed=False) == set()


@pytest.mark.parametrize("answer", ["503", "no reply", "ignored"])
def test_an_answer_that_is_no_acknowledgement_is_named_only_without_faults(answer: str) -> None:
    books = books_of("accepted")
    books.note(books.sent["msg_1"], answer)
    assert promises(books, whole(books)) == {"answers"}
    assert promises(books, whole(books), unharmed=False) == set()


def test_an_order_whose_row_and_job_did_not_commit_together_violates_i2() -> None:
    books = books_of("accepted")
    sent: Sent = books.new("checkout", copied=False)
    found = whole(books)
    found.entries.remove(("shipped", sent.id))
    assert promises(books, found, unharmed=False) == {"I2"}
    books.note(sent, "accepted")
    found.entries.remove(("ordered", sent.id))
    assert promises(books, found, unharmed=False) == {"I1"}


def test_the_tables_are_read_as_they_are(tmp_path: Path) -> None:
    place = SqlitePlace(tmp_path / "shop.db")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
        connection.execute("INSERT INTO entries (event, kind) VALUES ('msg_1', 'payments')")
    (tmp_path / "partner.log").write_text(json.dumps({"id": "a", "event": "msg_1"}) + "\n")
    found = gather(place, tmp_path / "partner.log")
    assert wait_until_drained(place, 0) == []
    assert (found.inbox, found.entries, found.told) == (
        [], [("payments", "msg_1")], [("a", "msg_1")]
    )  # fmt: skip
    assert place.open_transactions() == []


def test_a_violation_is_printed_so_that_a_planted_bug_is_recognised(
    capsys: pytest.CaptureFixture[str],
) -> None:
    [setup] = selected([CALM])
    order = Order(setup, NONE, 4.0, 1)
    report([Outcome(order, ["I1: 1 of 2 events"], {"accepted": 2}, 1, 1, 1, 0, 4.0)], 4.0)
    said = capsys.readouterr().out
    assert "0 passed, 1 failed" in said
    mutant = Mutant("44", "", "", f"python -m verification.setups {CALM}", "I1:", [])
    assert judged(Run(1, said, 0.1), mutant) == "caught"
    assert judged(Run(1, "setups: I1: it broke", 0.1), mutant) == "wrong reason"


@pytest.mark.slow
def test_a_set_up_runs_with_four_senders_and_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    code = main([CALM, "--seconds", "1", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (code, told["passed"], told["failed"]) == (0, 1, 0), told
    assert told["setups"][0]["answers"]["accepted"] > 0


async def ask_for_seven(url: str) -> int:
    """One query with a parameter, which asyncpg prepares first, in a transaction."""
    connection = await asyncpg.connect(url, ssl=False, timeout=30, command_timeout=30)
    try:
        async with connection.transaction():
            found: int = await connection.fetchval("SELECT $1::int", 7)
        return found
    finally:
        await connection.close(timeout=30)


def test_asyncpg_can_prepare_a_statement_through_the_proxy_that_loses_replies(
    own_postgres_url: str,
) -> None:
    with proxy(own_postgres_url) as wire:
        address = wire.url.partition("?")[0]
        assert asyncio.run(ask_for_seven(address)) == 7
        trap = wire.set(Cut.REPLY, "COMMIT")
        with pytest.raises((OSError, asyncpg.PostgresError, asyncpg.InterfaceError)):
            asyncio.run(ask_for_seven(address))
        assert trap.sprung == 1
