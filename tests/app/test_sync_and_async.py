"""`duly` and `duly.aio` are one library in two colours: the same verbs, parameters and defaults."""

import inspect
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, ForwardRef

import pytest

import duly
from duly import aio, idempotency
from duly.app.admin import AsyncJobAdmin, AsyncOutboxAdmin, JobAdmin, OutboxAdmin
from duly.app.aio import AsyncDuly
from duly.core.errors import Code, DulyError
from duly.core.failures import Failure
from duly.jobs.job import AsyncJob, Job
from duly.jobs.options import EnqueueManyOptions, EnqueueOptions
from duly.jobs.resolve import UnknownEffect
from duly.jobs.stats import QueueStats
from duly.jobs.tx import AsyncTx, Tx
from duly.ledger.turn import Turn
from duly.outbox.options import SendOptions

# An address makes a store for both colours, a name stands for a database of Django's, and the gate
# is pure, so that nothing in it could wait.
# A proof runs processes of its own, whatever the colour of what it proves.
ONE_COLOUR = {"store", "verify", "sign", "explain"}
# Awaits what `fence` was given; blocking, it is `refuse_awaitable`.
INSIDE = {"expect_awaitable"}


def shape(function: Callable[..., Any], *, annotated: bool) -> list[tuple[object, ...]]:
    """The parameters of a function, for comparison."""
    return [
        (one.name, one.kind, one.default, one.annotation if annotated else None)
        for one in inspect.signature(function).parameters.values()
    ]


def colourless(function: Callable[..., Any]) -> list[tuple[object, ...]]:
    """The shape of a function, with ``tx=`` by one name: its type is that of the function's colour.

    A connection that blocks cannot be passed to what is awaited.
    """
    twins = {"AsyncJoinableTx": "JoinableTx", "AsyncJoinable": "Joinable"}
    return [
        (name, how, default, " | ".join(twins.get(part, part) for part in str(told).split(" | ")))
        for name, how, default, told in shape(function, annotated=True)
    ]


def functions_of(module: object) -> set[str]:
    """The functions that a module defines itself."""
    name = getattr(module, "__name__", "")
    return {
        each
        for each, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == name
    }


def test_every_verb_has_its_twin() -> None:
    blocking = {name for name in duly.__all__ if inspect.isfunction(getattr(duly, name))}
    assert blocking - ONE_COLOUR == functions_of(aio) - INSIDE
    assert blocking - ONE_COLOUR <= functions_of(idempotency)


@pytest.mark.parametrize("name", sorted(functions_of(aio) - INSIDE))
def test_twins_take_the_same_parameters_with_the_same_defaults(name: str) -> None:
    one, other = getattr(duly, name), getattr(aio, name)
    assert shape(one, annotated=name != "fence") == shape(other, annotated=name != "fence")
    awaited = inspect.signature(other).return_annotation.replace("Async", "")
    assert inspect.signature(one).return_annotation == awaited
    assert "awaited" in (other.__doc__ or "") or "async with" in (other.__doc__ or "")


def test_turns_of_both_colours_offer_the_same() -> None:
    def offered(turn: type) -> dict[str, object]:
        found = {name: getattr(turn, name) for name in dir(turn) if not name.startswith("_")}
        return {
            name: colourless(value) if inspect.isfunction(value) else type(value)
            for name, value in found.items()
        }

    assert offered(idempotency.LeasedTurn) == offered(aio.AsyncLeasedTurn)
    assert offered(Turn).items() <= offered(idempotency.LeasedTurn).items()


def test_verbs_of_an_application_have_their_twins() -> None:
    for name in ("forget", "receive"):
        one, other = getattr(duly.Duly, name), getattr(AsyncDuly, name)
        assert shape(one, annotated=True) == shape(other, annotated=True)
        assert not inspect.iscoroutinefunction(one)
        assert inspect.iscoroutinefunction(other)


def test_verbs_about_jobs_have_their_twins() -> None:
    blocking, awaited = (
        {name for name in dir(kind) if not name.startswith("_")} for kind in (duly.Duly, AsyncDuly)
    )
    # What registers, serves or closes has no colour of its own.
    assert blocking - awaited == {
        "source", "on", "job", "cron", "wsgi", "close", "aclose",
        "transport", "signer", "bound_to", "store", "receiver",
    }  # fmt: skip
    assert awaited <= blocking
    for name in ("enqueue", "enqueue_many", "transaction", "work", "send", "relay"):
        one, other = getattr(duly.Duly, name), getattr(AsyncDuly, name)
        assert colourless(one) == colourless(other)
        assert not inspect.iscoroutinefunction(one)
        assert inspect.iscoroutinefunction(other) == (name != "transaction")


def test_jobs_of_both_colours_offer_the_same() -> None:
    names = {name for name in dir(Job) if not name.startswith("_")}
    assert names == {name for name in dir(AsyncJob) if not name.startswith("_")}
    assert shape(Job.effect, annotated=False) == shape(AsyncJob.effect, annotated=False)
    assert Job.key is AsyncJob.key
    assert Job.effect.__annotations__["return"] == "Stored"
    assert AsyncJob.effect.__annotations__["return"] == "Awaitable[Stored]"
    assert not inspect.iscoroutinefunction(Job.effect)


def test_verbs_about_dead_letters_have_their_twins() -> None:
    awaited = {name for name in vars(AsyncJobAdmin) if not name.startswith("_")}
    assert awaited == {name for name in vars(JobAdmin) if not name.startswith("_")}
    assert awaited == {"dead", "discard", "replay", "resolve", "stats"}
    for name in awaited:
        one, other = getattr(JobAdmin, name), getattr(AsyncJobAdmin, name)
        assert shape(one, annotated=True) == shape(other, annotated=True)
        assert not inspect.iscoroutinefunction(one)
        assert inspect.iscoroutinefunction(other)


def test_verbs_about_dead_messages_have_their_twins() -> None:
    awaited = {name for name in vars(AsyncOutboxAdmin) if not name.startswith("_")}
    assert awaited == {name for name in vars(OutboxAdmin) if not name.startswith("_")}
    assert awaited == {"dead", "discard", "find", "replay", "stats"}
    for name in awaited:
        one, other = getattr(OutboxAdmin, name), getattr(AsyncOutboxAdmin, name)
        assert shape(one, annotated=True) == shape(other, annotated=True)
        assert not inspect.iscoroutinefunction(one)
        assert inspect.iscoroutinefunction(other)


def test_transactions_of_both_colours_offer_the_same() -> None:
    names = {name for name in dir(Tx) if not name.startswith("_")}
    assert names == {name for name in dir(AsyncTx) if not name.startswith("_")}
    for name in ("execute", "newer", "enqueue", "enqueue_many", "send"):
        one, other = (inspect.signature(getattr(kind, name)) for kind in (Tx, AsyncTx))
        assert one.parameters == other.parameters
        assert other.return_annotation == f"Awaitable[{one.return_annotation}]"


def test_a_transaction_takes_the_options_of_the_app_but_tx() -> None:
    for verb, options in (
        ("enqueue", EnqueueOptions),
        ("enqueue_many", EnqueueManyOptions),
        ("send", SendOptions),
    ):
        told = {
            one.name: one.annotation
            for one in inspect.signature(getattr(duly.Duly, verb)).parameters.values()
            if one.kind is one.KEYWORD_ONLY and one.name != "tx"
        }
        assert told == {name: kind.__forward_arg__ for name, kind in annotated(options).items()}


def annotated(options: Any) -> dict[str, ForwardRef]:
    """The keys of a TypedDict and of those it extends, with what is written about each."""
    found: dict[str, ForwardRef] = dict(options.__annotations__)
    return found


def test_handlers_have_the_types_of_their_colour_under_one_name() -> None:
    assert (duly.Job, duly.Tx) == (Job, Tx)
    assert (aio.Job, aio.Tx) == (AsyncJob, AsyncTx)
    assert set(aio.__all__) >= {"Job", "Tx"}
    assert duly.Tx[object].__origin__ is Tx  # type: ignore[attr-defined]


def subclasses(kind: type[DulyError]) -> list[type[DulyError]]:
    """Every error of duly's, however deep."""
    direct = kind.__subclasses__()
    return [kind, *(each for one in direct for each in subclasses(one))]


@pytest.mark.parametrize("kind", subclasses(DulyError), ids=lambda kind: kind.__name__)
def test_every_error_survives_the_way_to_another_process(kind: type[DulyError]) -> None:
    told = (Code.MALFORMED,) if kind is duly.errors.Rejected else ()
    problem = kind(*told, "what to do")
    problem.__dict__.update(
        {"retry_after": timedelta(seconds=7)} if kind is duly.errors.InProgress else {}
    )
    arrived = pickle.loads(pickle.dumps(problem))
    assert type(arrived) is kind
    assert str(arrived) == str(problem)
    assert str(arrived).endswith("what to do")
    assert vars(arrived) == vars(problem)


def test_every_error_of_dulys_is_a_public_name() -> None:
    # Those of commands and of the test kit are told to a person, and caught by no program.
    told = (
        "duly.cli",
        "duly.server",
        "duly.app.loading",
        "duly.testing",
        "duly.prove",
        "duly.demo",
    )
    errors = [kind for kind in subclasses(DulyError) if not kind.__module__.startswith(told)]
    assert {kind.__name__ for kind in errors} <= set(duly.errors.__all__)


EVENT = duly.Event(
    id="evt_1",
    type="paid",
    source="shop",
    tenant=None,
    body=b"a=b",
    headers={"a": "b"},
    form=(("a", "b"),),
    time=None,
    received_at=datetime(2026, 1, 1, tzinfo=UTC),
)
LETTER = duly.types.DeadLetter(
    id="0198c3a2-5d1e-7b4f-9c60-8a2f41d7e305",
    name="charge",
    queue="default",
    source=None,
    event_id=None,
    type=None,
    payload={"order": 7},
    attempts=1,
    rescues=0,
    max_attempts=1,
    created_at=EVENT.received_at,
    dead_at=EVENT.received_at,
    failure=Failure("ValueError", "no", None, 1),
    unknown=(UnknownEffect("charge", "key"),),
)
ANSWERS: list[object] = [
    duly.types.Enqueued(LETTER.id, first=False),
    duly.types.Worked(done=1, lost=2),
    LETTER,
    duly.types.Replayed((LETTER.id,), dry_run=True),
    duly.types.Stats({"default": QueueStats("default", 1, 0, 0, 0, 0, timedelta(1))}, ()),
    duly.First(None, 3),
    duly.Duplicate(None, [1], True, True),
    duly.types.Forgotten("evt_1", "paid", ("handle",), 2),
    EVENT,
]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: type(answer).__name__)
def test_every_answer_survives_the_way_to_another_process(answer: object) -> None:
    assert pickle.loads(pickle.dumps(answer)) == answer
