"""The same proof inside a test: `assert_effectively_once`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duly.app.duly import Duly
from duly.core.errors import UsageError
from duly.core.validation import kind
from duly.prove.asks import EventAsk, JobAsk
from duly.prove.case_runner import ProofRequest
from duly.prove.loader import by_name, from_object, load_site, refuse_open_files
from duly.prove.prover import ProofOptions, prove_handler
from duly.prove.recording import CannedAnswers
from duly.prove.report import tried_text, wrap_text

if TYPE_CHECKING:
    from duly.prove.asks import Ask
    from duly.prove.loader import Load
    from duly.prove.proof import Verdict


def assert_effectively_once(  # noqa: PLR0913  # each by its name
    app: Duly | str,
    event: object = None,
    *,
    source: str = "",
    effects: Iterable[str] | Callable[[Any], Any] | None = None,
    answers: Mapping[str, Any] | None = None,
    job: str | None = None,
    payload: Any = None,
    id: str | None = None,  # the word that everybody uses
    type: str | None = None,
    secret: str | None = None,
    through: Any = None,
    path: str | None = None,
    let_through: Iterable[tuple[str, int]] = (),
    only: str | None = None,
    disposable: bool = False,
) -> None:
    """Fail unless the handler of an event takes effect once in every case that is tried.

    It is delivered twice, 20 times at once, in another order if later events are given, killed
    after each of its statements and calls, paused past its lease, and let fail once; each time in a
    process of its own that is forked from this one. Then the database is put back as it was.

    Args:
        app: the application, or its name as in ``shop:app``.
        event: the body as a dict, as JSON in text or bytes, or the path of a file; or several of
            them, in their order.
        source: the source it comes from, where several could have sent it.
        effects: the names of the tables to compare; or a function of a connection to the database,
            whose value is compared instead. All tables that are not duly's unless given.
        answers: what outgoing calls are answered, as ``--answers`` of ``duly prove``.
        job: the name of a job to prove instead of an event.
        payload: what it is enqueued with.
        id: the event id, where it travels in a header.
        type: the event type, where it travels in a header.
        secret: what to sign with, unless with the source's own secret; a source that holds the
            public key of Ed25519 or ECDSA is lent a pair of duly's own.
        through: your own site, ASGI or WSGI, or its name as in ``web:api``, to deliver through it;
            what its routes do before they hand the event to duly is then proved, too.
        path: where it takes the event: ``/webhooks/orders``.
        let_through: hosts and ports that may really be connected to.
        only: the one case to try, such as ``kill:7``.
        disposable: whether a PostgreSQL database may be filled and restored under any name.

    Raises:
        AssertionError: with the story of the first case that did not end as a single run does.
        UsageError: if it cannot be proved as it is, for example because a single run fails.
    """
    __tracebackhide__ = True
    given = {} if answers is None else dict(answers)
    CannedAnswers(given)  # refused before anything is run
    wishes = ProofRequest(
        asks_of((event, job, payload), EventAsk(source, b"", id, type, secret, path)),
        tables_of(effects),
        effects if callable(effects) else None,
        given,
        frozenset(let_through),
        only,
    )
    if (through is None) != (path is None):
        raise UsageError("through= is the site, and path= where it takes the event: give both")
    load = load_of(app, through)
    refuse_open_files()
    verdict = prove_handler(load, wishes, ProofOptions(disposable=disposable), lambda _: None)
    if verdict.finding is not None:
        raise AssertionError(failure_message(verdict))


def load_of(app: Duly | str, through: Any) -> Load:
    """The application and its site, each by its name or as it is."""
    if not isinstance(app, str):
        site = load_site(through) if isinstance(through, str) else through
        return from_object(close_connections(app), site)
    if through is None or isinstance(through, str):
        return by_name(app, through)
    load = by_name(app)
    return lambda: load()._replace(site=through)


def asks_of(given: tuple[object, str | None, Any], form: EventAsk) -> tuple[Ask, ...]:
    """What is delivered."""
    event, job, payload = given
    if (event is None) == (job is None):
        raise UsageError("what should be proved? Give an event, or job=")
    if job is not None:
        return (JobAsk(job, payload),)
    events = list(event) if isinstance(event, list | tuple) else [event]
    if not events:
        raise UsageError("what should be proved? The list of events is empty")
    return tuple(replace(form, body=body_of(one)) for one in events)


def body_of(event: object) -> bytes:
    """The raw bytes of an event."""
    if isinstance(event, bytes):
        return event
    if isinstance(event, Mapping):
        return json.dumps(event).encode()
    if isinstance(event, str) and event.lstrip()[:1] in ("{", "["):
        return event.encode()
    if isinstance(event, str | Path):
        return read_event_file(Path(event))
    raise UsageError(f"an event is a dict, bytes or the path of a file, not {kind(event)}")


def read_event_file(file: Path) -> bytes:
    """What is in the file of an event."""
    try:
        return file.read_bytes()
    except OSError as problem:
        raise UsageError(
            f"{file} cannot be read: {problem.strerror}. An event is a dict, JSON as text or "
            "bytes, or the path of a file"
        ) from None


def tables_of(effects: object) -> tuple[str, ...] | None:
    """The tables to compare; none where a function says what counts."""
    if effects is None:
        return None
    if callable(effects):
        return ()
    if isinstance(effects, str) or not isinstance(effects, Iterable):
        raise UsageError(
            'effects must be a list of tables, ["orders"], or a function of a connection'
        )
    return tuple(str(one).lower() for one in effects)


def close_connections(app: object) -> Duly:
    """An application without connections of its own; its next use opens new ones."""
    if not isinstance(app, Duly):
        raise UsageError(f"app must be a duly.Duly, or its name as in shop:app, not {kind(app)}")
    if app.store.capabilities.durable:  # or it would forget everything
        app.store.close()
    return app


def failure_message(verdict: Verdict) -> str:
    """What the test says."""
    finding = verdict.finding
    if finding is None:
        return ""
    lines = [
        f"not safe to repeat: {finding.mistake.name}",
        *wrap_text(finding.story),
        f"only this case: assert_effectively_once(…, only={finding.case.name!r})",
        *wrap_text(f"tried: {tried_text(verdict)}"),
    ]
    return "\n".join(lines)
