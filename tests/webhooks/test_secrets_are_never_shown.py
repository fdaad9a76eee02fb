"""A secret is never shown: not printed, not logged, not in a traceback with locals, not pickled.

The canary is looked for in every way it could be written. Of a traceback only the frames inside
duly's own files count: what the caller's frame holds is the caller's.
"""

from __future__ import annotations

import base64
import copy
import dataclasses
import hashlib
import io
import logging
import pickle
import traceback
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly import Secret, Source
from duly.errors import DulyError, Rejected, UsageError
from duly.webhooks import BasicAuth, Hmac, Jwt, Provider, SharedToken
from tests.support.bad_values import NAIVE
from tests.support.sizes import mostly_wide
from tests.webhooks.genuine import (
    ASYMMETRIC,
    NOW,
    PROVIDERS,
    URL,
    WHSEC,
    delivered,
    keys,
    source,
    verified,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DULY = str(Path(duly.__file__).parent)
SEED = "hunter2-canary-of-the-gate"
TOKENS = Provider("tokens", SharedToken(place="header:X-Token"), id="body:id")
BASIC = Provider("basic", BasicAuth(), id="body:id")
JWT = Provider("jwt", Jwt(header="X-Jwt", algorithms=("HS256",), body_claim="sha256"))
HEXED = Provider("hexed", Hmac(header="X-Sum", secret="hex"))
UNPICKLED = (UsageError, TypeError, AttributeError, pickle.PicklingError)
EARLIER = datetime.fromtimestamp(NOW - 1).astimezone()


def writings(seed: str) -> list[str]:
    """The seed, the key made from it, and how either could be written."""
    found = []
    for raw in (seed.encode(), hashlib.sha256(seed.encode()).digest()):
        encoded = base64.b64encode(raw).decode().rstrip("=")
        safe = base64.urlsafe_b64encode(raw).decode().rstrip("=")
        found += [raw.hex(), raw.hex().upper(), encoded, safe, repr(raw)[2:-1], str(list(raw))]
    return [seed, *found]


def hidden(*shown: object) -> None:
    """None of the texts or bytes holds the canary."""
    for one in shown:
        text = one.decode("latin-1") if isinstance(one, bytes) else str(one)
        for written in writings(SEED):
            assert written not in text, "a secret was shown"


def frames(problem: BaseException) -> Iterator[traceback.FrameSummary]:
    """The frames of an error and of all that led to it, inside duly only, with their locals."""
    told: list[traceback.TracebackException | None] = [
        traceback.TracebackException.from_exception(problem, capture_locals=True)
    ]
    while told:
        one = told.pop()
        if one is not None:
            yield from (frame for frame in one.stack if frame.filename.startswith(DULY))
            told += [one.__cause__, None if one.__suppress_context__ else one.__context__]


def logged(problem: BaseException) -> str:
    """What a log shows of an error."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    record = logging.LogRecord(
        "shop", logging.ERROR, "shop.py", 1, "no: %s %r", (problem, problem), None
    )
    record.exc_info = (type(problem), problem, problem.__traceback__)
    handler.emit(record)
    return stream.getvalue()


def silent(kind: type[DulyError], call: Callable[[], object]) -> None:
    """The call raises, and neither the error nor any frame of duly's shows the canary."""
    with pytest.raises(kind) as caught:
        call()
    problem = caught.value
    hidden(str(problem), repr(problem), problem.args, vars(problem), logged(problem))
    hidden("".join(traceback.format_exception(problem)))
    seen = list(frames(problem))
    assert seen
    for frame in seen:
        for name, value in (frame.locals or {}).items():
            for written in writings(SEED):
                assert written not in value, f"{frame.name} shows it as {name}"


def printed(thing: object) -> list[object]:
    """Every usual way to print an object."""
    return [repr(thing), str(thing), format(thing), f"{thing}", f"{thing!r:>9}", "%s" % (thing,)]  # noqa: UP031


def forms(provider: str) -> list[object]:
    """The secret itself, and each object that was made from it."""
    where = source(provider, SEED)
    held = [one for _, several in where.schemes for one in several]
    return [*where.secrets, where, *held, *(one.key for one in held), where.schemes]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_nothing_made_from_a_secret_prints_it(provider: str) -> None:
    if provider in ASYMMETRIC:
        assert keys(provider).receiver not in "".join(map(repr, forms(provider)))
    for thing in forms(provider):
        hidden(*printed(thing))
        hidden(repr(copy.copy(thing)), repr(copy.deepcopy(thing)))
        if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
            hidden(dataclasses.asdict(thing), dataclasses.astuple(thing))
        with pytest.raises(TypeError):
            vars(thing)


@pytest.mark.parametrize(
    "protocol",
    mostly_wide(range(pickle.HIGHEST_PROTOCOL + 1), shown=pickle.HIGHEST_PROTOCOL.__eq__),
)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_nothing_made_from_a_secret_can_be_pickled(provider: str, protocol: int) -> None:
    where = source(provider, SEED)
    for thing in (*where.secrets, where, [where.secrets], {"key": where.secrets[0]}):
        with pytest.raises(UNPICKLED):
            pickle.dumps(thing, protocol)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_key_that_a_source_has_made_ready_can_be_pickled(provider: str) -> None:
    for _, several in source(provider, SEED).schemes:
        for held in several:
            for thing in (held, held.key):
                with pytest.raises(UNPICKLED):
                    pickle.dumps(thing)


def test_a_secret_can_be_printed_in_any_width() -> None:
    hidden(f"{Secret(SEED, name='a'):>60}", f"{Secret(SEED):x<60}", f"{Secret(SEED)!s:^60}")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_was_verified_and_what_was_signed_prints_no_secret(provider: str) -> None:
    signed = delivered(provider, seed=SEED)
    found = verified(source(provider, SEED), signed)
    hidden(*printed(found), *printed(signed), *printed(found.events), found.headers)
    assert signed.headers


SPOILED: dict[str, dict[str, object]] = {
    "unsigned": {"headers": {}},
    "another body": {"body": b'{"id":"other"}'},
    "twice the headers": {"headers": [("Authorization", "a"), ("authorization", "b")]},
    "much later": {"now": NOW + 90_000_000},
    "headers that are none": {"headers": 5},
    "text for a body": {"body": "text"},
    "a naive now": {"now": NAIVE},
}
# No time is signed, or no header is: such a delivery is genuine all the same.
GENUINE = {("much later", name) for name in ("github", "shopify", "square", "twilio", "adyen")}
GENUINE |= {(reason, "adyen") for reason in ("unsigned", "twice the headers")}


@pytest.mark.parametrize(
    ("reason", "provider"),
    [(one, name) for one in SPOILED for name in PROVIDERS if (one, name) not in GENUINE],
)
def test_no_rejection_and_no_misuse_of_verify_shows_it(reason: str, provider: str) -> None:
    signed, given = delivered(provider, seed=SEED), keys(provider, SEED).receiver
    told: dict[str, Any] = {"headers": signed.headers, "body": signed.body, "now": NOW}
    arguments = told | {"url": signed.url} | SPOILED[reason]
    silent(DulyError, lambda: duly.verify(provider, secrets=given, **arguments))
    silent(DulyError, lambda: duly.verify(source(provider, SEED), **arguments))
    silent(DulyError, lambda: duly.verify(provider, secrets={"old": given}, **arguments))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_strict_source_shows_it(provider: str) -> None:
    given = keys(provider, SEED).receiver
    ended = Source(provider, Secret(given, not_after=EARLIER), url=URL)
    silent(Rejected, lambda: verified(ended, delivered(provider, seed=SEED)))
    silent(Rejected, lambda: verified(source(provider, SEED), delivered(provider, seed="wrong")))
    if provider not in {"adyen", "twilio"}:  # they sign nothing but JSON, or a form
        broken = delivered(provider, b"{", seed=SEED)
        silent(Rejected, lambda: verified(source(provider, SEED, parse="require"), broken))


OPTIONS: list[dict[str, object]] = [
    {"url": "no url"},
    {"tolerance": 5},
    {"missing_id": "perhaps"},
    {"parse": 5},
    {"replayed_body": None},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_no_misuse_of_a_source_shows_it(options: dict[str, Any]) -> None:
    for given in (SEED, [SEED], {"old": SEED}, SEED.encode()):
        silent(UsageError, partial(Source, "github", given, **options))


def spoiled_secrets() -> Iterator[tuple[Any, Any]]:
    """Sources that cannot be made, each with the canary somewhere in its secrets."""
    yield from (("stripe", given) for given in (f" {SEED}", f"{SEED}\n", SEED + "\ud800"))
    yield from (("stripe", [SEED, bad]) for bad in ("", None, 5, " edged"))
    yield from (("stripe", [bad, SEED]) for bad in ("", None, 5, " edged"))
    yield "stripe", {"old": SEED, "new": ""}
    yield "stripe", [Secret(SEED, name="a"), Secret("other", name="a")]
    yield "stripe", [SEED, Secret("other", name="1")]
    yield "stripe", bytearray(SEED.encode())
    yield "strip", SEED
    yield 5, SEED
    yield from ((name, f"whsec_{SEED}!") for name in sorted(WHSEC))
    yield from ((name, f"{prefix}{SEED}") for name in ("svix", "discord") for prefix in ("whpk_",))
    yield from ((name, SEED) for name in ("adyen", "discord", "sendgrid", BASIC, HEXED))
    yield from ((name, f"-----BEGIN {SEED}") for name in ("svix", "discord", "sendgrid"))
    yield from ((name, [{"kty": "OKP", "d": SEED}]) for name in ("svix", "discord", "sendgrid"))
    yield "sendgrid", keys("sendgrid", SEED).sender


@pytest.mark.parametrize("place", range(len(list(spoiled_secrets()))))
def test_no_refused_secret_shows_itself_or_its_neighbour(place: int) -> None:
    provider, given = list(spoiled_secrets())[place]
    silent(UsageError, lambda: Source(provider, given))
    silent(UsageError, lambda: duly.verify(provider, {}, b"", given))
    silent(UsageError, lambda: duly.sign(provider, b"", given, id="\0"))


@pytest.mark.parametrize("bad", [{"not_after": NAIVE}, {"name": ""}, {"name": 5}])
def test_no_misuse_of_a_secret_shows_it(bad: dict[str, Any]) -> None:
    silent(UsageError, lambda: Secret(SEED, **bad))


UNSIGNABLE: list[dict[str, object]] = [
    {"body": "text"},
    {"id": "\N{SNOWMAN}"},
    {"now": NAIVE},
]


@pytest.mark.parametrize("options", UNSIGNABLE, ids=str)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_misuse_of_sign_shows_it(provider: str, options: dict[str, Any]) -> None:
    arguments = {"body": b"{}", "url": URL} | options
    private = keys(provider, SEED).sender
    silent(UsageError, lambda: duly.sign(provider, secret=private, **arguments))
    silent(UsageError, lambda: duly.sign(provider, secret=[private], **arguments))


def test_no_failure_to_sign_shows_it() -> None:
    silent(UsageError, lambda: duly.sign("square", b"{}", SEED))
    silent(UsageError, lambda: duly.sign("discord", b"{}", f"whsk_{SEED}"))
    silent(UsageError, lambda: duly.sign(BASIC, b"{}", SEED))


@pytest.mark.parametrize("provider", [TOKENS, BASIC, JWT], ids=lambda one: str(one.name))
def test_a_scheme_that_carries_the_secret_shows_it_in_no_rejection(provider: Provider) -> None:
    secret = f"{SEED}:{SEED}"
    signed = duly.sign(provider, b"{", secret, now=NOW)
    ended = Source(provider, Secret(secret, not_after=EARLIER))
    strict = Source(provider, secret, parse="require")
    for where in (ended, strict, Source(provider, "another:secret")):
        silent(Rejected, partial(duly.verify, where, signed.headers, signed.body, now=NOW))
    hidden(repr(duly.verify(provider, signed.headers, signed.body, secret, now=NOW)))
