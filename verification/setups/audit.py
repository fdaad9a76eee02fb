"""The invariants of the design, checked on what the senders know and what was found.

Each violation is a sentence that begins with the number of its invariant.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from verification.setups.catalog import CHECKOUT, SOURCES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from verification.setups.books import Books, Sent
    from verification.setups.evidence import Evidence

# So many names are shown of what is wrong, and so many characters of each.
SHOWN, LONGEST = 3, 200
GOOD = ("accepted", "duplicate")
# The two rows of an order that came by the site: of the endpoint, and of the job that it enqueued.
ORDERED, SHIPPED = "ordered", "shipped"


def audited(books: Books, found: Evidence, *, unharmed: bool) -> list[str]:
    """Every violation; ``unharmed`` where no fault was injected, and nothing may go wrong."""
    events = [sent for sent in books.sent.values() if sent.target != CHECKOUT]
    orders = [sent for sent in books.sent.values() if sent.target == CHECKOUT]
    return [
        *of_events(events, found),
        *of_orders(orders, found),
        *of_copies(events, found),
        *of_strangers(books, found),
        *of_messages(found, unharmed=unharmed),
        *of_rest(found),
        *(of_calm(books, found) if unharmed else ()),
    ]


def of_events(events: list[Sent], found: Evidence) -> Iterator[str]:
    """I1 and I2: what was acknowledged is there, and has taken effect."""
    inbox, entries = set(found.inbox), set(found.entries)
    acknowledged = [sent for sent in events if sent.acknowledged]
    told = f"of {len(acknowledged)} events that were answered 2xx"
    lost = [sent.id for sent in acknowledged if (sent.target, sent.id) not in inbox]
    yield from some(f"I1: {{count}} {told} are in no table", lost)
    undone = [
        sent.id
        for sent in events
        if (sent.target, sent.id) in inbox and (sent.target, sent.id) not in entries
    ]
    yield from some("I2: {count} events are in the inbox and took no effect", undone)
    unheard = [sent.id for sent in events if not sent.acknowledged]
    yield from some("I6: {count} events were never acknowledged", unheard)


def of_orders(orders: list[Sent], found: Evidence) -> Iterator[str]:
    """The same for orders to the site: the row and its job commit together, or not at all."""
    entries = set(found.entries)
    lost = [sent.id for sent in orders if sent.acknowledged and (ORDERED, sent.id) not in entries]
    yield from some("I1: {count} orders that were answered 200 are in no table", lost)
    halves = [
        sent.id
        for sent in orders
        if ((ORDERED, sent.id) in entries) != ((SHIPPED, sent.id) in entries)
    ]
    yield from some("I2: {count} orders have a row without its job, or the reverse", halves)


def of_copies(events: list[Sent], found: Evidence) -> Iterator[str]:
    """I3 and I5: nothing is there twice, and one sender was told that it was the first."""
    yield from some("I3: {count} effects are there more than once", repeated(found.entries))
    yield from some("I5: {count} events are in the inbox more than once", repeated(found.inbox))
    firsts = [sent.id for sent in events if sent.answers.count("accepted") > 1]
    yield from some("I5: {count} events were answered accepted more than once", firsts)


def of_strangers(books: Books, found: Evidence) -> Iterator[str]:
    """I4: every row traces to something that was sent."""
    sent = {(one.target, one.id) for one in books.sent.values()}
    sent |= {(kind, id) for target, id in sent if target == CHECKOUT for kind in (ORDERED, SHIPPED)}
    strange = {f"{kind} {event}" for kind, event in (*found.inbox, *found.entries)
               if (kind, event) not in sent}  # fmt: skip
    yield from some("I4: {count} rows trace to nothing that was sent", sorted(strange))
    inbox = set(found.inbox)
    unaccepted = [
        event for kind, event in found.entries if kind in SOURCES["both"] and
        (kind, event) not in inbox
    ]  # fmt: skip
    yield from some("I4: {count} effects belong to no event in the inbox", unaccepted)


def of_messages(found: Evidence, *, unharmed: bool) -> Iterator[str]:
    """I11: a message for each effect, and every copy of it with the same id."""
    ids: defaultdict[str, set[str]] = defaultdict(set)
    for id, event in found.told:
        ids[event].add(id)
    effects = {event for kind, event in found.entries if kind in SOURCES["both"]}
    yield from some("I11: {count} effects whose message never arrived", effects - set(ids))
    yield from some("I11: {count} messages without their effect", set(ids) - effects)
    renamed = [event for event, known in ids.items() if len(known) > 1]
    yield from some("I11: {count} messages arrived under more than one id", renamed)
    if unharmed:
        again = repeated(found.told)
        yield from some("I11: {count} messages were sent more than once without a fault", again)


def of_rest(found: Evidence) -> Iterator[str]:
    """I6, I9, I12: all is done, nothing is dead, no transaction is open."""
    yield from some("I6: left when time was over", found.left)
    yield from some("I9: {count} dead letters", found.dead)
    yield from some("I12: {count} transactions are left open", found.open_transactions)


def of_calm(books: Books, found: Evidence) -> Iterator[str]:
    """What may not happen where no fault was injected."""
    answers = books.answers()
    odd = [f"{count} times {told}" for told, count in answers.items() if told not in GOOD]
    yield from some("answers: not every delivery was answered 2xx", odd)
    yield from some("I9: {count} jobs or messages were run more than once", found.run_again)
    yield from some("death: {count} processes ended by themselves", found.deaths)
    yield from some("log: {count} lines tell of an error", found.complaints)


def repeated(rows: Iterable[tuple[str, str]]) -> list[str]:
    """The rows that are there more than once."""
    return [" ".join(row) for row, count in Counter(rows).items() if count > 1]


def some(sentence: str, names: Collection[str]) -> Iterator[str]:
    """The sentence with the first few names, where there is any."""
    if names:
        shown = ", ".join(name[:LONGEST] for name in sorted(names)[:SHOWN])
        more = ", …" if len(names) > SHOWN else ""
        yield f"{sentence.format(count=len(names))}: {shown}{more}"
