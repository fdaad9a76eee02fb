"""The actions of ``duly jobs`` and ``duly outbox``: stats, dead, show, replay and discard.

They need the database alone. It is named by its URL, or by an application that knows it.
"""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from duly.app.loading import add_optional_argument
from duly.app.output import Progress, add_json_option, print_answer
from duly.cli.listing import fold_columns, format_time, short_failure_text, terminal_width
from duly.cli.options import TARGET, add_table_options, open_store, require_target
from duly.cli.parser import nearest
from duly.core.errors import UsageError
from duly.core.onestep import finish
from duly.core.validation import checked_count
from duly.ledger.dead_filters import ID, MOST_SHOWN, SHOWN, checked_id
from duly.ledger.replay import replay

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    from duly.cli.listing import TableRow
    from duly.core.json_bytes import Json
    from duly.core.session import Runner
    from duly.jobs.dead import DeadLetter
    from duly.ledger.replay import ReplayPlan
    from duly.outbox.dead import DeadMessage

Dead = TypeVar("Dead", bound="DeadLetter | DeadMessage")
EXAMPLE_ID = "0198c3a2-5d1e-7b4f-9c60-8a2f41d7e305"
STATS, DEAD, SHOW, REPLAY, DISCARD = "stats", "dead", "show", "replay", "discard"
ACTIONS = (DEAD, SHOW, REPLAY, DISCARD, STATS)
CHOICES = f"{', '.join(ACTIONS[:-1])} or {ACTIONS[-1]}"
TIMES = ("since", "until")
# What may be meant for an id: some of its digits, or one too many.
PART_OF_AN_ID = re.compile(r"(?=.*[0-9])[0-9a-z-]{6,}", re.IGNORECASE)
# A word that an error may repeat: it cannot be a secret.
HARMLESS_WORD = re.compile(r"[a-z-]{1,20}", re.IGNORECASE)
AGO = re.compile(r"(\d{1,6})\s*([smhdw])")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class CommandAnswer(NamedTuple):
    """What an action prints: text for people, a document for programs, a warning on stderr."""

    text: str
    document: Json
    warning: str | None = None

    def print(self, arguments: argparse.Namespace) -> int:
        """Print it in the form that was asked for; return the exit code."""
        print_answer(arguments, self.text, self.document)
        if self.warning is not None:
            print(self.warning, file=sys.stderr)
        return 0


class DeadVerbs(NamedTuple):
    """The functions on dead rows of one kind."""

    select: Callable[..., Any]
    """Checks an id or filters, and returns the selection."""
    plan_replay: Callable[..., ReplayPlan]
    """Returns the plan that replays a selection."""
    list: Callable[[Runner, Any, int], Coroutine[Any, Any, Sequence[Any]]]
    """Reads a selection, the latest first."""
    discard: Callable[[Runner, str], Coroutine[Any, Any, bool]]
    """Deletes a row; returns False where it is not dead."""


class AdminCommand(ABC, Generic[Dead]):
    """``duly jobs`` or ``duly outbox``: the actions, and what each command knows of its rows."""

    name: ClassVar[str]
    """The command, as in ``duly jobs``."""
    noun: ClassVar[str]
    """One row."""
    filters: ClassVar[dict[str, tuple[str, str]]]
    """The options that choose among dead rows, beside the times: metavar and help."""
    headings: ClassVar[TableRow]
    """Their headings in the list of dead rows, between ATTEMPTS and WHY."""
    runs: ClassVar[str]
    """What a replay lets a row do."""
    ids: ClassVar[str]
    """What an id may name."""

    verbs: ClassVar[DeadVerbs]
    """What is done with dead rows."""

    @abstractmethod
    def list_row(self, dead: Dead) -> TableRow:
        """Return the columns of a dead row between its attempts and its error."""

    @abstractmethod
    def list_document(self, dead: Dead) -> dict[str, Json]:
        """Return a dead row for programs, without what may be long or private."""

    @abstractmethod
    def show_one(self, runner: Runner, row_id: str) -> CommandAnswer:
        """Return all that is known of one row; raise `UsageError` where nothing is."""

    @abstractmethod
    def count_all(self, runner: Runner) -> CommandAnswer:
        """Count the rows."""

    # The command line

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Declare the actions and their options."""
        add_optional_argument(parser, "action", f"{CHOICES}; {STATS} unless given")
        add_optional_argument(parser, "app", f"whose {self.noun}s: {TARGET}")
        add_optional_argument(parser, "id", self.ids)
        filters = parser.add_argument_group("options of dead and replay")
        for name, (metavar, meaning) in self.filters.items():
            filters.add_argument(f"--{name}", metavar=metavar, help=meaning)
        filters.add_argument(
            "--since",
            metavar="TIME",
            help="only those that died then or later: 2h, 3d, or 2026-01-31",
        )
        filters.add_argument("--until", metavar="TIME", help="only those that died before")
        parser.add_argument_group("options of dead").add_argument(
            "--limit", type=int, metavar="N", help=f"how many to list at most (default {SHOWN})"
        )
        replaying = parser.add_argument_group("options of replay")
        replaying.add_argument(
            "--all", action="store_true", help=f"every dead {self.noun} there is"
        )
        replaying.add_argument(
            "--dry-run", action="store_true", help="only say which, change nothing"
        )
        replaying.add_argument(
            "--rate",
            type=float,
            metavar="N",
            help=f"how many may {self.runs} in a second; all at once if not",
        )
        add_table_options(parser)
        add_json_option(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the action that the command line names; the counts unless it names one."""
        action, target, row_id = self._parse_words(
            [word for word in (arguments.action, arguments.app, arguments.id) if word is not None]
        )
        self._refuse_unused_options(arguments, action)
        if action == REPLAY:
            return self._replay(arguments, target, row_id)
        if action in (SHOW, DISCARD):
            if row_id is None:
                raise UsageError(
                    f"which {self.noun}? Give its id, as in `duly {self.name} {action} shop:app ID`"
                )
            act = self._show if action == SHOW else self._discard
            return act(arguments, target, row_id)
        if row_id is not None:
            raise UsageError(
                f"show it, replay it, or discard it? As in `duly {self.name} show shop:app ID`"
            )
        return (self._dead if action == DEAD else self._stats)(arguments, target)

    def _parse_words(self, words: list[str]) -> tuple[str | None, str | None, str | None]:
        """Return the action, the target and the id: each is known by its form, in any order."""
        actions = [word for word in words if word in ACTIONS]
        ids = [word for word in words if ID.fullmatch(word)]
        targets = [word for word in words if word not in (*actions, *ids)]
        if len(actions) > 1:
            raise UsageError(f"{' or '.join(actions)}? One at a time")
        for word in targets:
            if ":" not in word:
                self._refuse_unknown_word(word)
        if len(ids) > 1 or len(targets) > 1:
            raise UsageError(
                f"give one application or address, and one id of a {self.noun}, as in "
                f"`duly {self.name} show shop:app {EXAMPLE_ID}`"
            )
        row_id = ids[0].lower() if ids else None
        return next(iter(actions), None), next(iter(targets), None), row_id

    def _refuse_unknown_word(self, word: str) -> None:
        """Refuse a word that is no action and no id, and can name no application or database."""
        meant = nearest(word, ACTIONS)
        if meant is None and PART_OF_AN_ID.fullmatch(word):
            checked_id(word, self.noun)
        given = f"`duly {self.name} {word}`" if HARMLESS_WORD.fullmatch(word) else "such action"
        hint = "" if meant is None else f": did you mean `duly {self.name} {meant}`?"
        raise UsageError(f"there is no {given}: write {CHOICES}, or none of them{hint}")

    def _refuse_unused_options(self, arguments: argparse.Namespace, action: str | None) -> None:
        """Refuse options that the action would ignore."""
        filters = (*self.filters, *TIMES)
        takes = {DEAD: (*filters, "limit"), REPLAY: (*filters, "all", "dry_run", "rate")}
        values = {name: getattr(arguments, name) for names in takes.values() for name in names}
        given = [name for name, value in values.items() if value is not None and value is not False]
        unused = [name for name in given if name not in takes.get(action or STATS, ())]
        if not unused:
            return
        options = " or ".join(f"--{name.replace('_', '-')}" for name in unused)
        meant = [
            f"`duly {self.name} {one}`" for one, names in takes.items() if {*given} <= {*names}
        ]
        hint = f"; {' or '.join(meant)} takes it" if meant else ""
        command = f"duly {self.name} {action or ''}".rstrip()
        raise UsageError(f"`{command}` takes no {options}{hint}")

    # The actions

    @contextmanager
    def _open_store(self, arguments: argparse.Namespace, target: str | None) -> Iterator[Runner]:
        """Open the database of the command; nothing is created."""
        with open_store(arguments, require_target(target, f"whose {self.noun}s?")) as store:
            yield store.sync_runner

    def _stats(self, arguments: argparse.Namespace, target: str | None) -> int:
        """Print the counts."""
        with self._open_store(arguments, target) as runner:
            answer = self.count_all(runner)
        return answer.print(arguments)

    def _dead(self, arguments: argparse.Namespace, target: str | None) -> int:
        """Print a line for each dead row, without what may be long or private."""
        limit = SHOWN if arguments.limit is None else arguments.limit
        checked_count("limit", limit, most=MOST_SHOWN)
        which = self._selection(arguments, None)
        with self._open_store(arguments, target) as runner:
            dead = finish(self.verbs.list(runner, which, limit))
        lines = [f"no dead {self.noun}s"]
        if dead:
            headings = ("ID", "DIED", "ATTEMPTS", *self.headings, "WHY")
            lines = fold_columns([headings, *map(self._list_line, dead)], terminal_width())
        if len(dead) == limit:
            lines.append(f"these are the latest {limit:,}: there may be more, ask with --limit")
        documents: list[Json] = [self.list_document(one) for one in dead]
        return CommandAnswer("\n".join(lines), documents).print(arguments)

    def _list_line(self, dead: Dead) -> TableRow:
        return (
            dead.id,
            format_time(dead.dead_at),
            f"{dead.attempts} of {dead.max_attempts}",
            *self.list_row(dead),
            short_failure_text(dead.failure),
        )

    def _show(self, arguments: argparse.Namespace, target: str | None, row_id: str) -> int:
        """Print all that is known of one row."""
        with self._open_store(arguments, target) as runner:
            answer = self.show_one(runner, row_id)
        return answer.print(arguments)

    def _replay(self, arguments: argparse.Namespace, target: str | None, row_id: str | None) -> int:
        """Make one row ready again, or those that the filters choose; a dry run names them."""
        which = self._selection(arguments, row_id)
        plan = self.verbs.plan_replay(
            which, arguments.rate, dry_run=arguments.dry_run, everything=arguments.all
        )
        verb, many = "would replay" if plan.dry_run else "replayed", f"{self.noun}s"
        with self._open_store(arguments, target) as runner, Progress() as progress:
            done = finish(
                replay(runner, plan, lambda n: progress.show(f"{verb} {n:,} {many} so far"))
            )
        if row_id is not None and not done.ids:
            raise self.not_dead(row_id)
        count = f"1 {self.noun}" if len(done.ids) == 1 else f"{len(done.ids):,} {many}"
        text = "\n".join([f"{verb} {count}", *(done.ids if done.dry_run else ())])
        return CommandAnswer(text, {"ids": list(done.ids), "dry_run": done.dry_run}).print(
            arguments
        )

    def _discard(self, arguments: argparse.Namespace, target: str | None, row_id: str) -> int:
        """Delete one row for good."""
        with self._open_store(arguments, target) as runner:
            done = finish(self.verbs.discard(runner, row_id))
        if not done:
            raise self.not_dead(row_id)
        return CommandAnswer(f"discarded {row_id}", {"discarded": row_id}).print(arguments)

    def _selection(self, arguments: argparse.Namespace, row_id: str | None) -> Any:
        """Return the dead rows that an id or the filters choose."""
        given = {name: getattr(arguments, name) for name in (*self.filters, *TIMES)}
        for name in TIMES:
            given[name] = None if given[name] is None else parse_time(name, given[name])
        return self.verbs.select(row_id, **given)

    def not_dead(self, row_id: str) -> UsageError:
        """Return the error about an id that is not among the dead."""
        return UsageError(
            f"there is no dead {self.noun} {row_id}: it was replayed, discarded or never given up. "
            f"See `duly {self.name} dead`"
        )


def parse_time(name: str, text: str) -> datetime:
    """Parse how long ago, or an ISO time, which is in UTC unless it has an offset."""
    ago = AGO.fullmatch(text)
    if ago is not None:
        return datetime.now(UTC) - timedelta(**{UNITS[ago[2]]: int(ago[1])})
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"--{name} must be how long ago, like 45m, 2h or 3d, or a time like 2026-01-31 or "
            "2026-01-31T12:00:00+00:00"
        ) from None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time
