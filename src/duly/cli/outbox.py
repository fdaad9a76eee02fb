"""``duly outbox``: what is to be sent and where to; dead messages shown, replayed, discarded."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from duly.app.output import add_json_option, on_one_line, print_answer
from duly.cli.dead_letters import (
    MESSAGES,
    add_limit,
    add_replay_options,
    add_times,
    add_words,
    errors_in_shell_words,
    given_filters,
    limit_of,
    not_dead_error,
    replay_letters,
    split_place_and_id,
    store_at,
)
from duly.cli.messages import (
    document,
    gone_document,
    gone_text,
    message_text,
    table,
    whole_document,
)
from duly.cli.tables import align_counts, format_age
from duly.cli.target import PLACE, add_table_options
from duly.core.errors import UsageError
from duly.core.onestep import finish
from duly.ledger.dead_filters import ID, checked_id
from duly.outbox.dead import (
    MessageSelection,
    OutboxMessage,
    discard_dead,
    list_dead,
    look_up,
    message_selection,
    plan_of,
)
from duly.outbox.stats import count_messages

if TYPE_CHECKING:
    import argparse

    from duly.core.json_bytes import Json
    from duly.outbox.stats import DestinationStats, OutboxStats

EXAMPLES = """\
examples:
  duly outbox shop:app                      counts for each destination
  duly outbox dead shop:app --destination https://example.com --since 2h
  duly outbox show shop:app ID              its state, error, headers and body
  duly outbox replay shop:app ID            send it again, same id and key
  duly outbox replay shop:app --destination mail --since 1d --dry-run
  duly outbox replay shop:app --all --rate 5     five in a second, from now on
  duly outbox discard shop:app ID           delete it for good

READY can be sent now, and OLDEST is how long the first of them could have
been; WAITING is sent later; LEASED is on its way; DEAD was given up. Below, the
relays that live are named; if messages wait and there is none, stderr says so.
What was sent is not here any more: `show` says when that was, while the
history knows.
The list of dead messages shows no addresses and no bodies: they are shown one
by one. With --rate the times are written with the messages: this command does
not wait, and may be closed."""
# What may be meant for an id: some of its digits, or one too many.
PART_OF_AN_ID = re.compile(r"(?=.*[0-9])[0-9a-z-]{6,}", re.IGNORECASE)
# What may be repeated to whoever wrote it.
WORD = re.compile(r"[a-z-]{1,20}", re.IGNORECASE)
FILTERS = ("destination", "since", "until")
OPTIONS = (*FILTERS, "limit", "all", "dry_run", "rate")
# The options that each action takes; None is to count.
ACTIONS: dict[str | None, tuple[str, ...]] = {
    None: (),
    "dead": (*FILTERS, "limit"),
    "show": (),
    "replay": (*FILTERS, "all", "dry_run", "rate"),
    "discard": (),
}
NO_RELAY = (
    "no relay is running, so messages wait: run `duly relay shop:app`, or `duly serve shop:app`, "
    "which has one in it"
)
HEADINGS = ("DESTINATION", "READY", "OLDEST", "WAITING", "LEASED", "DEAD")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add_words(
        parser,
        action="dead, show, replay or discard; the counts unless given",
        app=f"whose messages: {PLACE}",
        id="the id of a message: of any to show it, of a dead one to replay or discard it",
    )
    filters = parser.add_argument_group("options of dead and replay")
    filters.add_argument(
        "--destination",
        metavar="ORIGIN",
        help="only those to this origin (https://example.com) or transport (mail)",
    )
    add_times(filters)
    add_limit(parser.add_argument_group("options of dead"))
    add_replay_options(parser.add_argument_group("options of replay"), "be sent", "message")
    add_table_options(parser)
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Find out what is asked for, and do it."""
    words = [arguments.action, arguments.app, arguments.id]
    actions = [word for word in words if word is not None and word in ACTIONS]
    if len(actions) > 1:
        raise UsageError(f"{' or '.join(actions)}? One at a time")
    action = next(iter(actions), None)
    refuse_unknown_words([word for word in words if word is not None and word not in actions])
    place, message = split_place_and_id([word for word in words if word not in actions], MESSAGES)
    refuse_options(arguments, action)
    if action == "replay":
        return replay(arguments, place, message)
    if action in ("show", "discard"):
        if message is None:
            raise UsageError(
                f"which message? Give its id, as in `duly outbox {action} shop:app ID`"
            )
        return (show if action == "show" else discard)(arguments, place, message.lower())
    if message is not None:
        raise UsageError("show it, replay it, or discard it? As in `duly outbox show shop:app ID`")
    return (count if action is None else list_letters)(arguments, place)


def refuse_unknown_words(words: list[str]) -> None:
    """Refuse what is no action, no id, and cannot name an application or a database either."""
    for word in words:
        if ":" in word or ID.fullmatch(word):
            continue
        if PART_OF_AN_ID.fullmatch(word):
            checked_id(word, "message")
        told = f"`duly outbox {word}`" if WORD.fullmatch(word) else "such action"
        raise UsageError(
            f"there is no {told}: write dead, show, replay or discard, or none of them"
        )


def refuse_options(arguments: argparse.Namespace, action: str | None) -> None:
    """Refuse what would be passed over in silence."""
    values = {name: getattr(arguments, name) for name in OPTIONS}
    given = [name for name, value in values.items() if value is not None and value is not False]
    idle = [name for name in given if name not in ACTIONS[action]]
    if not idle:
        return
    told = " or ".join(f"--{name.replace('_', '-')}" for name in idle)
    meant = [f"`duly outbox {one}`" for one, takes in ACTIONS.items() if {*given} <= {*takes}]
    hint = f"; {' or '.join(meant)} takes it" if meant else ""
    raise UsageError(f"`duly outbox{'' if action is None else f' {action}'}` takes no {told}{hint}")


def count(arguments: argparse.Namespace, place: str | None) -> int:
    """How much there is to send, and where to."""
    with store_at(arguments, place, MESSAGES) as store:
        stats = finish(count_messages(store.sync_runner))
    print_answer(arguments, counts_table(stats), counts_document(stats))
    if not stats.relays and stats.ready + stats.waiting + stats.leased:
        print(NO_RELAY, file=sys.stderr)
    return 0


def list_letters(arguments: argparse.Namespace, place: str | None) -> int:
    """One line for each, without its address and its body."""
    limit = limit_of(arguments)
    which = which_of(arguments, None)
    with store_at(arguments, place, MESSAGES) as store:
        letters = finish(list_dead(store.sync_runner, which, limit))
    print_answer(arguments, table(letters, limit), [document(letter) for letter in letters])
    return 0


def show(arguments: argparse.Namespace, place: str | None, message: str) -> int:
    """All that is known of one, dead or not."""
    with store_at(arguments, place, MESSAGES) as store:
        known = finish(look_up(store.sync_runner, message))
    if known is None:
        raise UsageError(f"no message {message} is known here: it never was, or it is forgotten")
    if isinstance(known, OutboxMessage):
        print_answer(arguments, message_text(known), whole_document(known))
    else:
        print_answer(arguments, gone_text(known), gone_document(known))
    return 0


def replay(arguments: argparse.Namespace, place: str | None, message: str | None) -> int:
    """Make one ready again, or those that a filter chooses."""
    which = which_of(arguments, message)
    with errors_in_shell_words():
        plan = plan_of(which, arguments.rate, dry_run=arguments.dry_run, everything=arguments.all)
    replay_letters(arguments, place, plan, message, MESSAGES)
    return 0


def discard(arguments: argparse.Namespace, place: str | None, message: str) -> int:
    """Delete one for good."""
    with store_at(arguments, place, MESSAGES) as store:
        done = finish(discard_dead(store.sync_runner, message))
    if not done:
        raise not_dead_error(message, MESSAGES)
    print_answer(arguments, f"discarded {message}", {"discarded": message})
    return 0


def which_of(arguments: argparse.Namespace, message: str | None) -> MessageSelection:
    """The dead messages that the options choose."""
    given = given_filters(arguments, FILTERS)
    with errors_in_shell_words():
        return message_selection(message, **given)


def counts_table(stats: OutboxStats) -> str:
    """A line for each destination."""
    lines = ["no messages"]
    if stats.destinations:
        lines = align_counts([HEADINGS, *(line(one) for one in stats.destinations.values())])
    lines += [f"relay {on_one_line(one.host)}, process {one.pid}" for one in stats.relays]
    return "\n".join(lines)


def line(one: DestinationStats) -> tuple[str, ...]:
    """What is said of a destination."""
    numbers = (one.waiting, one.leased, one.dead)
    return (
        on_one_line(one.destination),
        f"{one.ready:,}",
        format_age(one.oldest),
        *(f"{number:,}" for number in numbers),
    )


def counts_document(stats: OutboxStats) -> Json:
    """The same for programs; ages in seconds."""
    return {
        "destinations": [
            {
                "destination": one.destination,
                "ready": one.ready,
                "oldest": None if one.oldest is None else one.oldest.total_seconds(),
                "waiting": one.waiting,
                "leased": one.leased,
                "dead": one.dead,
            }
            for one in stats.destinations.values()
        ],
        "relays": [{"id": one.id, "host": one.host, "pid": one.pid} for one in stats.relays],
    }
