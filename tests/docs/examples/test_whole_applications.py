"""The whole applications of examples/ do what their README says, from nothing to the last row."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.docs.examples.readme import Application
from tests.support.processes.leading import until
from tests.support.serving import rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.docs.examples.readme import Process

pytestmark = [pytest.mark.slow, pytest.mark.wide]

STRIPE, WAREHOUSE = "duly deliver stripe", "duly deliver standard-webhooks"


def postgres_settings(url: str) -> dict[str, str]:
    """A database in the words of libpq."""
    parts = urlsplit(url)
    told = {
        "PGHOST": parts.hostname,
        "PGPORT": str(parts.port),
        "PGUSER": parts.username,
        "PGPASSWORD": parts.password,
        "PGDATABASE": parts.path[1:],
    }
    return {name: value for name, value in told.items() if value}


@pytest.fixture
def fastapi(tmp_path: Path, empty_postgres_url: str) -> Application:
    settings = {"DATABASE_URL": empty_postgres_url}
    return Application("fastapi_shop", tmp_path / "examples", empty_postgres_url, settings)


@pytest.fixture
def django(tmp_path: Path, empty_postgres_url: str) -> Application:
    settings = postgres_settings(empty_postgres_url)
    return Application("django_shop", tmp_path / "examples", empty_postgres_url, settings)


def send_and_ask(shop: Application) -> None:
    """What both READMEs try: a payment fifty times at once, a count, and an order."""
    assert "1 accepted, 49 duplicate" in shop.run(shop.readme.command("Try it", STRIPE))
    assert "200 accepted" in shop.run(shop.readme.command("Try it", WAREHOUSE))
    shown, ordered = [one for one in shop.readme.commands("Try it") if one.startswith("curl")][:2]
    assert shop.ask(shown) == {"left": 12}
    assert set(shop.ask(ordered)) == {"order"}


def payments(shop: Application) -> list[tuple[object, ...]] | None:
    return shop.select(shop.readme.command("Try it", "psql")) or None


def entries(books: Process) -> list[str] | None:
    return books.said().splitlines() or None


def stop_quietly(running: dict[str, Process]) -> None:
    """The worker and the relay drain and end; nothing of the application went wrong."""
    assert [running[name].stop() for name in ("worker", "relay")] == [0, 0]
    for process in running.values():
        assert "Traceback" not in process.said()


def test_the_example_of_fastapi_does_what_its_readme_says(fastapi: Application) -> None:
    for start in ("duly migrate", "python -m"):
        fastapi.run(fastapi.readme.command("Set up", start))
    with fastapi.started() as running:
        send_and_ask(fastapi)
        ready = fastapi.readme.commands("Try it")[4]
        assert fastapi.ask(ready) == {"status": "ready"}
        [(payment, count)] = until(lambda: payments(fastapi))
        assert (str(payment)[:3], count) == ("pi_", 1)
        mails = until(lambda: two(rows(fastapi.url, "SELECT about FROM mails ORDER BY about")))
        assert [str(about).split()[0] for (about,) in mails] == ["order", "payment"]
        [entry] = until(lambda: entries(running["python"]))
        assert entry.startswith("new ")
        stop_quietly(running)
    assert rows(fastapi.url, "SELECT count(*) FROM duly_jobs") == [(0,)]


def two(found: list[tuple[object, ...]]) -> list[tuple[object, ...]] | None:
    return found if len(found) >= 2 else None


def test_the_example_of_django_does_what_its_readme_says(django: Application) -> None:
    django.run(django.readme.command("Set up", "python manage.py"))
    with django.started() as running:
        send_and_ask(django)
        reminded = django.run(django.readme.command("Try it", "python manage.py"))
        assert "1 of 1 customers are reminded" in reminded
        [(payment, count)] = until(lambda: payments(django))
        assert (str(payment)[:3], count) == ("pi_", 1)
        subjects = until(lambda: three(mailed(django)))
        assert subjects == ["Your order 1", f"Your payment {payment}", "Your unpaid order 1"]
        [entry] = until(lambda: entries(running["python"]))
        assert entry.startswith("new ")
        stop_quietly(running)
    assert rows(django.url, "SELECT count(*) FROM duly_jobs") == [(0,)]


def mailed(shop: Application) -> list[str]:
    """The subjects of the mails that Django wrote into files."""
    lines = [line for file in shop.here.glob("mails/*") for line in file.read_text().splitlines()]
    return sorted(line.removeprefix("Subject: ") for line in lines if line.startswith("Subject: "))


def three(found: list[str]) -> list[str] | None:
    return found if len(found) >= 3 else None


def test_the_tests_of_the_example_of_fastapi_pass(
    fastapi: Application, postgres_server: str
) -> None:
    command = fastapi.readme.command("Test it", "DULY_TEST_URL").partition(" ")[2]
    assert command == "pytest"
    said = fastapi.run(f"{command} -p no:randomly", DULY_TEST_URL=postgres_server)
    assert "4 passed" in said


def test_the_tests_of_the_example_of_django_pass(django: Application) -> None:
    said = django.run(django.readme.command("Test it", "python manage.py"))
    assert "Ran 5 tests" in said
    assert "\nOK\n" in said
