"""What the commands about jobs and messages have in common: where they look, and which letters.

They need the database alone. It is named by its address, or by an application that knows it.
"""

from __future__ import annotations

import re
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import duly
from duly.app.loading import add_optional_argument
from duly.app.output import Progress, on_one_line, print_answer
from duly.cli.suggestions import nearest
from duly.cli.target import PLACE, named_place, store_named
from duly.core.errors import UsageError
from duly.core.failures import shorten
from duly.core.onestep import finish
from duly.core.validation import checked_count
from duly.ledger.dead_filters import ID, MOST_SHOWN, SHOWN
from duly.ledger.replay import replay

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from duly.core.failures import Failure
    from duly.core.json_bytes import Json
    from duly.ledger.replay import ReplayPlan
    from duly.stores.store import Store

EXAMPLE = "0198c3a2-5d1e-7b4f-9c60-8a2f41d7e305"
TIMES = ("since", "until")
PYTHON_WORDS = re.compile(r"\b(source|type|name|destination|since|until|all)=(True)?")
# What a list shows of a reason.
LONGEST_REASON = 120
AGO = re.compile(r"(\d{1,6})\s*([smhdw])")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Options(Protocol):
    """A parser, or a group of its options."""

    def add_argument(self, *names: str, **how: Any) -> Any:
        """Declare one."""


class LetterKind(NamedTuple):
    """What letters are about, and the commands that list them and show one."""

    name: str
    lists: str
    shows: str
    actions: tuple[str, ...] = ()


JOBS = LetterKind("job", "duly dead", "duly dead show", ("show", "discard"))
MESSAGES = LetterKind("message", "duly outbox dead", "duly outbox show")


def add_words(parser: argparse.ArgumentParser, **meanings: str) -> None:
    """Words that may stand in any order: each is known by its form."""
    for name, meaning in meanings.items():
        add_optional_argument(parser, name, meaning)


def add_times(options: Options) -> None:
    """The options that choose among dead letters by their time."""
    options.add_argument(
        "--since", metavar="TIME", help="only those that died then or later: 2h, 3d, or 2026-01-31"
    )
    options.add_argument("--until", metavar="TIME", help="only those that died before")


def add_limit(options: Options) -> None:
    """How many letters a list has."""
    options.add_argument(
        "--limit", type=int, metavar="N", help=f"how many to list at most (default {SHOWN})"
    )


def limit_of(arguments: argparse.Namespace) -> int:
    """The same, checked."""
    limit = SHOWN if arguments.limit is None else arguments.limit
    return checked_count("limit", limit, most=MOST_SHOWN)


def add_replay_options(options: Options, runs: str, letter: str = "letter") -> None:
    """How letters are replayed."""
    options.add_argument("--all", action="store_true", help=f"every dead {letter} there is")
    options.add_argument("--dry-run", action="store_true", help="only say which, change nothing")
    options.add_argument(
        "--rate",
        type=float,
        metavar="N",
        help=f"how many may {runs} in a second; all at once if not",
    )


def split_place_and_id(
    given: list[str | None], kind: LetterKind = JOBS
) -> tuple[str | None, str | None]:
    """The place and the id of a job or a message, in whatever order they were given."""
    words = [word for word in given if word is not None]
    ids = [word for word in words if ID.fullmatch(word)]
    places = [word for word in words if word not in ids]
    meant = [near for word in places if ":" not in word and (near := nearest(word, kind.actions))]
    if meant:
        raise UsageError(f"did you mean `{kind.shows.rsplit(maxsplit=1)[0]} {meant[0]}`?")
    if len(ids) > 1 or len(places) > 1:
        raise UsageError(
            f"give one application or address, and one id of a {kind.name}, as in `{kind.shows} "
            f"shop:app {EXAMPLE}`"
        )
    return next(iter(places), None), next(iter(ids), None)


def given_filters(arguments: argparse.Namespace, names: tuple[str, ...]) -> dict[str, object]:
    """What the options choose by, times as times."""
    given = {name: getattr(arguments, name) for name in names}
    for name in TIMES:
        given[name] = None if given[name] is None else parse_time(name, given[name])
    return given


@contextmanager
def errors_in_shell_words() -> Iterator[None]:
    """Say what is wrong in the words of a shell."""
    try:
        yield
    except UsageError as problem:
        raise UsageError(PYTHON_WORDS.sub(r"--\1", str(problem))) from None


def parse_time(name: str, text: str) -> datetime:
    """A time as a person writes it: how long ago, or an ISO time, in UTC unless it says."""
    ago = AGO.fullmatch(text)
    if ago is not None:
        return datetime.now(UTC) - timedelta(**{UNITS[ago[2]]: int(ago[1])})
    try:
        told = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"--{name} must be how long ago, like 45m, 2h or 3d, or a time like 2026-01-31 or "
            "2026-01-31T12:00:00+00:00"
        ) from None
    return told.replace(tzinfo=UTC) if told.tzinfo is None else told


@contextmanager
def store_at(
    arguments: argparse.Namespace, place: str | None, kind: LetterKind = JOBS
) -> Iterator[Store]:
    """The database that the command is about, closed at the end. Nothing is created."""
    place = named_place(place)
    if place is None:
        raise UsageError(f"whose {kind.name}s? Name the application, {PLACE}")
    with closing(store_named(arguments, place)) as store:
        store.check()  # opening a mistyped SQLite path would create an empty database
        yield store


def replay_letters(
    arguments: argparse.Namespace,
    place: str | None,
    plan: ReplayPlan,
    one: str | None,
    kind: LetterKind,
) -> None:
    """Replay in chunks and say how far it is, and then what was done; a dry run names them all."""
    verb, many = "would replay" if plan.dry_run else "replayed", f"{kind.name}s"
    with store_at(arguments, place, kind) as store, Progress() as progress:
        done = finish(
            replay(store.sync_runner, plan, lambda n: progress.show(f"{verb} {n:,} {many} so far"))
        )
    if one is not None and not done.ids:
        raise not_dead_error(one, kind)
    count = f"1 {kind.name}" if len(done.ids) == 1 else f"{len(done.ids):,} {many}"
    lines = [f"{verb} {count}", *(done.ids if done.dry_run else ())]
    print_answer(arguments, "\n".join(lines), {"ids": list(done.ids), "dry_run": done.dry_run})


def not_dead_error(one: str, kind: LetterKind) -> UsageError:
    """The error about something that is no dead letter."""
    return UsageError(
        f"there is no dead letter {one}: it was replayed, discarded or never given up. Look with "
        f"`{kind.lists}`"
    )


def limit_note(limit: int) -> str:
    """What stands below a list that is as long as it may be."""
    return f"these are the latest {limit:,}: there may be more, ask with --limit"


def failure_text(failure: Failure | None) -> str:
    """The last error, on one line; without a type that nobody could import."""
    if failure is None:
        return "-"
    package, _, name = failure.type.rpartition(".")
    inner = package == "duly" and name not in duly.__all__
    told = failure.message if inner else f"{failure.type}: {failure.message}"
    return on_one_line(told if failure.cause is None else f"{told} (cause: {failure.cause})")


def short_failure_text(failure: Failure | None) -> str:
    """As much of it as a list has room for."""
    return shorten(failure_text(failure), LONGEST_REASON)


def failure_document(failure: Failure | None) -> Json:
    """The last error, for programs; without what may be long."""
    if failure is None:
        return None
    return {
        "type": failure.type,
        "message": failure.message,
        "cause": failure.cause,
        "attempt": failure.attempt,
    }


def format_time(time: datetime) -> str:
    """A time, to the second."""
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
