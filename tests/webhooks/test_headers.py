"""Headers are found in any case, in any shape that servers hand them over, and only once."""

from __future__ import annotations

import http.client
import io
from email.message import EmailMessage, Message
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from wsgiref.headers import Headers

import pytest

from duly.errors import Rejected, UsageError
from duly.webhooks import Code
from tests.support.sizes import mostly_wide
from tests.webhooks.genuine import PROVIDERS, delivered, source, verified

if TYPE_CHECKING:
    from collections.abc import Callable

SIGNED = {name: delivered(name, id="msg-1", type="thing.done") for name in PROVIDERS}
SIGNATURES = {
    "stripe": "Stripe-Signature",
    "github": "X-Hub-Signature-256",
    "slack": "X-Slack-Signature",
    "shopify": "X-Shopify-Hmac-Sha256",
    "twilio": "X-Twilio-Signature",
    "standard-webhooks": "webhook-signature",
    "svix": "svix-signature",
    "square": "x-square-hmacsha256-signature",
    "paddle": "Paddle-Signature",
    "sendgrid": "X-Twilio-Email-Event-Webhook-Signature",
    "discord": "X-Signature-Ed25519",
    "gitlab": "webhook-signature",
    "zoom": "x-zm-signature",
    "hubspot": "X-HubSpot-Signature-v3",
    "linear": "Linear-Signature",
}
TIMES = {
    "slack": "X-Slack-Request-Timestamp",
    "standard-webhooks": "webhook-timestamp",
    "svix": "svix-timestamp",
    "sendgrid": "X-Twilio-Email-Event-Webhook-Timestamp",
    "discord": "X-Signature-Timestamp",
    "gitlab": "webhook-timestamp",
    "zoom": "x-zm-request-timestamp",
    "hubspot": "X-HubSpot-Request-Timestamp",
}
REPEATABLE = [*SIGNATURES.items(), *TIMES.items()]


class Word(StrEnum):
    """Text of another class than str."""

    JSON = "application/json"


class Told(str):
    """Text as frameworks mark it: a class of its own."""

    __slots__ = ()


def message(headers: dict[str, str], made: Message) -> Message:
    for name, value in headers.items():
        made[name] = value
    return made


def parsed_by_server(headers: dict[str, str]) -> object:
    """What the standard library's server hands to its handlers."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return http.client.parse_headers(io.BytesIO(lines.encode("latin-1") + b"\r\n"))


SHAPES: dict[str, Callable[[dict[str, str]], object]] = {
    "a mapping": lambda told: told,
    "lower case": lambda told: {name.lower(): value for name, value in told.items()},
    "upper case": lambda told: {name.upper(): value for name, value in told.items()},
    "a mapping that is no dict": MappingProxyType,
    "pairs": lambda told: list(told.items()),
    "lists of two": lambda told: [[name, value] for name, value in told.items()],
    "a tuple of tuples": lambda told: tuple(told.items()),
    "a generator": lambda told: ((name, value) for name, value in told.items()),
    "an iterator": lambda told: iter(told.items()),
    "pairs of bytes": lambda told: [(n.encode(), v.encode()) for n, v in told.items()],
    "a generator of bytes": lambda told: ((n.encode(), v.encode()) for n, v in told.items()),
    "a mapping of bytes": lambda told: {n.encode(): v.encode() for n, v in told.items()},
    "text to bytes": lambda told: {n: v.encode() for n, v in told.items()},
    "bytes to text": lambda told: {n.encode(): v for n, v in told.items()},
    "lists of one": lambda told: {name: [value] for name, value in told.items()},
    "tuples of one": lambda told: {name: (value,) for name, value in told.items()},
    "lists of one in bytes": lambda told: {n: [v.encode()] for n, v in told.items()},
    "text of another class": lambda told: {Told(n): Told(v) for n, v in told.items()},
    "pairs of another class": lambda told: [(Told(n), Told(v)) for n, v in told.items()],
    "email.message.Message": lambda told: message(told, Message()),
    "email.message.EmailMessage": lambda told: message(told, EmailMessage()),
    "http.client.HTTPMessage": parsed_by_server,
    "wsgiref.headers.Headers": lambda told: Headers(list(told.items())),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("provider", mostly_wide(PROVIDERS, shown="stripe".__eq__))
def test_headers_of_any_shape_and_case_say_the_same(provider: str, shape: str) -> None:
    signed = SIGNED[provider]
    plain = verified(source(provider), signed)
    found = verified(source(provider), signed, headers=SHAPES[shape](signed.headers))
    assert (found.id, found.id_kind, found.type) == (plain.id, plain.id_kind, plain.type)
    assert found.headers == plain.headers


def django_headers(told: dict[str, str]) -> object:
    from django.http.request import HttpHeaders

    return HttpHeaders({f"HTTP_{n.upper().replace('-', '_')}": v for n, v in told.items()})


def werkzeug_headers(told: dict[str, str]) -> object:
    from werkzeug.datastructures import EnvironHeaders

    return EnvironHeaders({f"HTTP_{n.upper().replace('-', '_')}": v for n, v in told.items()})


def module_headers(module: str, name: str, items: bool = False) -> Callable[[Any], object]:
    def made(told: dict[str, str]) -> object:
        known = getattr(pytest.importorskip(module), name)
        return known(list(told.items()) if items else told)

    return made


FRAMEWORKS: dict[str, Callable[[dict[str, str]], object]] = {
    "starlette.datastructures": module_headers("starlette.datastructures", "Headers"),
    "django.http": django_headers,
    "werkzeug.datastructures": werkzeug_headers,
    "httpx": module_headers("httpx", "Headers"),
    "multidict": module_headers("multidict", "CIMultiDict", items=True),
}


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("provider", ["stripe", "github", "standard-webhooks", "hubspot"])
def test_headers_of_the_frameworks_are_taken_as_they_are(provider: str, framework: str) -> None:
    reason = f"{framework} is not installed: its headers were not tried"
    pytest.importorskip(framework, reason=reason)
    signed = SIGNED[provider]
    found = verified(source(provider), signed, headers=FRAMEWORKS[framework](signed.headers))
    assert found.id == verified(source(provider), signed).id


def repeated(told: dict[str, str], name: str, second: str) -> list[object]:
    """A header sent twice, in every shape that can say so."""
    rest = [(one, value) for one, value in told.items() if one.lower() != name.lower()]
    first = next(value for one, value in told.items() if one.lower() == name.lower())
    pairs = [(name, first), *rest, (name.upper(), second)]
    with_list: list[tuple[str, object]] = [*rest, (name, [first, second])]
    return [
        pairs,
        (pair for pair in pairs),
        [(one.encode(), value.encode()) for one, value in pairs],
        dict(with_list),
        dict([*rest, (name, (first.encode(), second.encode()))]),
        {**dict(rest), name.lower(): first, name.title(): second},
        Headers(pairs),
    ]


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize(("provider", "name"), REPEATABLE)
def test_a_signature_or_time_sent_twice_is_malformed(provider: str, name: str, same: bool) -> None:
    signed = SIGNED[provider]
    value = next(value for one, value in signed.headers.items() if one.lower() == name.lower())
    for headers in repeated(signed.headers, name, value if same else "1"):
        with pytest.raises(Rejected) as caught:
            verified(source(provider), signed, headers=headers)
        assert (caught.value.code, caught.value.status) == (Code.MALFORMED, 400)


def test_an_id_sent_twice_is_no_id() -> None:
    signed = SIGNED["github"]
    found = verified(
        source("github"), signed, headers=[*signed.headers.items(), ("x-github-delivery", "other")]
    )
    assert found.id_kind == "body"
    assert "x-github-delivery" not in found.headers


@pytest.mark.parametrize(("provider", "name"), REPEATABLE)
def test_a_header_that_no_wire_can_carry_is_malformed(provider: str, name: str) -> None:
    signed = SIGNED[provider]
    rest = {one: value for one, value in signed.headers.items() if one.lower() != name.lower()}
    for value in ("\N{SNOWMAN}", "\ud800", ["\N{SNOWMAN}"]):
        with pytest.raises(Rejected) as caught:
            verified(source(provider), signed, headers=rest | {name: value})
        assert caught.value.code is Code.MALFORMED


@pytest.mark.parametrize(("provider", "name"), SIGNATURES.items())
def test_a_delivery_without_its_signature_is_told_apart(provider: str, name: str) -> None:
    signed = SIGNED[provider]
    rest = {one: value for one, value in signed.headers.items() if one.lower() != name.lower()}
    shapes: list[object] = [rest, {}, [], rest | {name: []}, rest | {name: None}]
    for headers in shapes:
        with pytest.raises(Rejected) as caught:
            verified(source(provider), signed, headers=headers)
        assert caught.value.code is Code.MISSING_SIGNATURE
        assert name.lower() in caught.value.reason.lower()


@pytest.mark.parametrize(
    "headers",
    [None, 5, 1.5, True, "Stripe-Signature: t=1", b"bytes", object(), [5], ["name"], [("a",)],
     [("a", "b", "c")], [(5, "value")], [("name", 5)], [("name", None)], {5: "value"}],
)  # fmt: skip
def test_what_is_no_header_is_a_misuse_and_says_so(headers: object) -> None:
    with pytest.raises(UsageError, match=r"header.* must be"):
        verified(source("stripe"), SIGNED["stripe"], headers=headers)


@pytest.mark.parametrize("value", [5, object(), [None], {"t": "1"}])
def test_a_signature_that_is_no_text_is_a_misuse(value: object) -> None:
    with pytest.raises(UsageError, match="must be text or bytes"):
        verified(source("stripe"), SIGNED["stripe"], headers={"Stripe-Signature": value})


def test_headers_that_nobody_asks_for_may_hold_anything() -> None:
    signed = SIGNED["stripe"]
    headers = signed.headers | {"X-Other": "\N{SNOWMAN}", "X-Word": Word.JSON}
    assert verified(source("stripe"), signed, headers=headers).id == "evt_1"
