"""The mistakes that have a name: what each is, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.prove.findings import Mistake

if TYPE_CHECKING:
    from duly.prove.calls import Call

BLIND_INSERT = "blind insert"
DELTA = "delta update outside the transaction"
MARK_FIRST = "mark before work"
CHECK_THEN_ACT = "check, then act"
NO_KEY = "call without idempotency key"
NEW_KEY = "idempotency key made anew"
SHARED_KEY = "one idempotency key for two events"
MAIL = "e-mail outside the outbox"
BEFORE_CLAIM = "side effect before the claim"
IN_ROUTE = "side effect in the route"
AFTER_COMMIT = "side effect after the commit"
ORDER = "order-dependent write"
MEMORY = "state in the process"
ENQUEUED = "enqueue outside the transaction"
DUPLICATE_REFUSED = "duplicate refused"
NOT_REPEATABLE = "a repeat ends differently"

BY_MAIL = 'tx.send("mail:…"), which a function of yours sends (@app.transport("mail"))'


def staging_advice(call: Call) -> str:
    """How a call is made part of a transaction."""
    if call.medium == "mail":
        return f"stage the e-mail with {BY_MAIL}"
    return "stage the call with tx.send(…)"


def sentence(what: str) -> str:
    """A step as the beginning of a sentence."""
    return what[:1].upper() + what[1:]


def delta() -> Mistake:
    """A value that grows each time."""
    return Mistake(
        DELTA, "The update is a delta outside the transaction: set a state, or move it into `tx`."
    )


def blind_insert() -> Mistake:
    """A row that is inserted each time."""
    return Mistake(
        BLIND_INSERT,
        "The row is inserted outside the transaction, so that a repeat inserts it again: insert it "
        "through `tx`, or under a unique key made from the event, with ON CONFLICT DO NOTHING.",
    )


def enqueue_outside_transaction() -> Mistake:
    """A job or a message that is put there each time, for later or to be done at once."""
    return Mistake(
        ENQUEUED,
        "A job or a message is committed apart from the end of the handler's own job, so that a "
        "repeat adds another one, which is done as well: use tx.enqueue(…) or tx.send(…), or give "
        "it a key= that is made from the event.",
    )


def row_is_there() -> Mistake:
    """A row that cannot be inserted a second time."""
    return Mistake(
        BLIND_INSERT,
        "The row of the first run is there already, and the repeat fails on it each time: "
        "insert it through `tx`, or with ON CONFLICT DO NOTHING.",
    )


def mark_first(mark: str, call: Call | None) -> Mistake:
    """What was written first made the repeat believe that all was done."""
    remedy = "write the mark and do the work through `tx`, in one COMMIT."
    if call is not None and call.medium != "message":
        remedy = f"write the mark through `tx`, and in the same transaction {staging_advice(call)}."
    return Mistake(
        MARK_FIRST,
        f"{mark} says that the event is done before it is, so that the repeat finds the mark and "
        f"does nothing: {remedy}",
    )


def check_then_act(table: str) -> Mistake:
    """A call between a question and the answer to it."""
    return Mistake(
        CHECK_THEN_ACT,
        f"It is made between the look at {table} and the mark there, and nothing holds the "
        "three together: stage it with tx.send(…) in the transaction that writes the mark, so "
        "that the relay sends it under one id.",
    )


def no_key(*, inline: bool) -> Mistake:
    """A call that the other side cannot recognise as a repeat."""
    remedy = (
        "stage it with tx.send(…), in the transaction that accepts the event."
        if inline
        else "let the handler ask for job, and call job.http.post(…, key=…) or send job.key(…) "
        "along; or stage it with tx.send(…)."
    )
    return Mistake(
        NO_KEY,
        "It carries no Idempotency-Key, so that the other side cannot know the second one: "
        f"{remedy}",
    )


def key_dropped() -> Mistake:
    """A call inside an effect, without the key that the effect was handed."""
    return Mistake(
        NO_KEY,
        "It carries no Idempotency-Key, so that the other side cannot know the second one: send "
        'the key along that job.effect hands to the function (headers={"Idempotency-Key": key}), '
        "or call job.http.post(…, key=…).",
    )


def new_key(*, inline: bool) -> Mistake:
    """A key that is another one in each attempt."""
    remedy = (
        "make it from event.id, which is the same in every attempt, or stage the call with "
        "tx.send(…)."
        if inline
        else "use job.key(…), which is the same in every attempt."
    )
    return Mistake(
        NEW_KEY,
        "Each attempt carries another key, so that the other side cannot know the second one: "
        f"{remedy}",
    )


def shared_key() -> Mistake:
    """A key that says too little."""
    return Mistake(
        SHARED_KEY,
        "Calls of two events carry the same key and say different things, so that the other side "
        "takes the second for a repeat of the first: it does not do it, or refuses it. Make the "
        "key from the event, with job.key(…) or from event.id.",
    )


def mail(*, inline: bool) -> Mistake:
    """A mail has no key by which its receiver could know it again."""
    beside = "the claim of the event" if inline else "the end of the job"
    return Mistake(
        MAIL,
        "It goes out when the handler runs, and again when the handler is repeated: its receiver "
        f"cannot recognise the second one. Stage it with {BY_MAIL}: it is committed with "
        f"{beside}, and the relay sends it under one id.",
    )


def before_claim(what: str) -> Mistake:
    """Something that every copy of a delivery does."""
    return Mistake(
        BEFORE_CLAIM,
        f"{sentence(what)} comes before the event is claimed, so that every copy of it does this "
        "again: move it into the handler, which runs after the claim.",
    )


def in_route(what: str) -> Mistake:
    """Something that every copy of a delivery does, although its event is known."""
    return Mistake(
        IN_ROUTE,
        f"{sentence(what)} is done by the route, which runs for every copy of the event, also for "
        "one that duly has just called a duplicate: move it into the handler, which runs once.",
    )


def after_commit(what: str, call: Call | None) -> Mistake:
    """Something that is left to do when the database says that all is done."""
    remedy = (
        "write it through `tx`"
        if call is None
        else f"inside the transaction, {staging_advice(call)}"
    )
    return Mistake(
        AFTER_COMMIT,
        f"{sentence(what)} comes after the COMMIT that says that the event is done "
        "(transaction.on_commit, or the like), so that it is lost if the process dies in "
        f"between, or if it fails: {remedy}.",
    )


def duplicate_refused() -> Mistake:
    """An answer that makes the sender think that the event was lost."""
    return Mistake(
        DUPLICATE_REFUSED,
        "The event was handled, and its sender is told that it was not: it comes again for hours "
        "or days, and then many of them disable the endpoint. Answer 2xx to what duly calls a "
        "duplicate.",
    )


def order(*, inline: bool) -> Mistake:
    """The event that comes last wins, even if it is the older one."""
    remedy = (
        "ask tx.newer(…), which a handler inside the accepting COMMIT can, before it writes."
        if inline
        else "declare order= on it with the two places in the event that name what it is about "
        'and its version (order=("data.object.id", "created") for Stripe), ask tx.newer(…), or '
        "let refetch= ask for the present state."
    )
    return Mistake(
        ORDER,
        f"The handler writes what its event says, even if a later one was applied before: {remedy}",
    )


def orders_apart() -> Mistake:
    """Each handler keeps an order of its own."""
    return Mistake(
        ORDER,
        "The events are taken by different handlers, and each handler has an order of its own, "
        "also where order= is declared: let one handler take all of these types, with order=, and "
        "let it insert or update, whichever is needed (ON CONFLICT … DO UPDATE).",
    )


def order_not_enough() -> Mistake:
    """The late one is passed over, and the later one rests on it."""
    return Mistake(
        ORDER,
        "An event that comes late is passed over, and what the later one does rests on it: let "
        "the handler insert or update, whichever is needed (ON CONFLICT … DO UPDATE), and see "
        "that the version it goes by is a later one in the later event.",
    )


def memory() -> Mistake:
    """What an attempt that was rolled back has left, and a new process would not find."""
    return Mistake(
        MEMORY,
        "The database took the failed attempt back, the memory of the process did not: a cache, a "
        "global or an object that was changed, or a look at job.attempt, made the next attempt do "
        "something else. Keep it in the database, through `tx`, and let each attempt do the same.",
    )


def ends_differently() -> Mistake:
    """Everything was in the transaction, and yet the run did not do what the single run did."""
    return Mistake(
        NOT_REPEATABLE,
        "What the handler writes there is in the transaction, so that nothing of it was left by a "
        "run before: it did something else this time. It goes by chance, by the clock, or by what "
        "a repeat finds changed, such as a file, a cache or a table that is written outside `tx`: "
        "let it go by the event, and by what it reads through `tx`.",
    )


def unknown() -> Mistake:
    """A difference without a known cause."""
    return Mistake(
        NOT_REPEATABLE,
        "The handler is not safe to repeat: write through `tx`, so that its work and the end of "
        "its job are one COMMIT, and stage calls with tx.send(…).",
    )
