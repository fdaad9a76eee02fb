"""The program that the section of a provider shows, and what it prints.

Secrets, ids and types are made up here; everything else is the profile's. The same calls are made
while the page is written, so the output on the page is the program's own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly.webhooks import (
    BasicAuth,
    Ecdsa,
    Echo,
    Ed25519,
    Handshake,
    Hmac,
    Mac,
    Provider,
    SignedFields,
    StandardWebhooks,
    Template,
    UrlAndForm,
)
from duly.webhooks.sign import Signed, sign
from duly.webhooks.source import Source
from duly.webhooks.verify import verify

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NOW = 1767225600
URL = "https://shop.example/webhooks"
TOKEN = "token"  # noqa: S105  # what a handshake asks to be sent back
ID = "delivery-1"
# Types that travel in a header, and so are in no sample.
TYPES = {
    "github": "pull_request",
    "gitlab": "Merge Request Hook",
    "shopify": "orders/updated",
}
# 24 bytes that say what they are; and key pairs whose private half is 32 bytes of 0xcd.
WHSEC = "whsec_ZXhhbXBsZS1zZWNyZXQtb2YtYS1wYWdl"
HEX = "0123456789abcdef" * 4
ED25519_PUBLIC = "fc947730f49eb01427a66e050733294d9e520e545c7a27125a780634e0860a27"
ED25519_PRIVATE = "cd" * 32
ECDSA_PUBLIC = (
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEA296Qmv5UGjqHtWeFEdoUe6MdmIsGHTltqjqLIHN"
    "3379me1HmlEKr4o+pvb/IGBiKuyE85QmZjL2wZh8Kyj+Qg=="
)
ECDSA_PRIVATE = (
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3N"
    "zc3Nzc3Nzc3Nzc2hRANCAAQDb3pCa/lQaOoe1Z4UR2hR7ox2YiwYdOW2qOosgc3ffv2Z7UeaUQqv"
    "ij6m9v8gYGIq7ITzlCZmMvbBmHwrKP5C"
)

# What the sections of the page call; `outcome` is the same in earnest.
PREAMBLE = f'''\
import duly

NOW = {NOW}  # the first second of 2026; leave now= out, and the clock of the machine is asked


def receive(source, headers, body):
    """What an endpoint does with a request: its headers and its raw body."""
    event = duly.verify(source, headers, body, now=NOW)
    if event.handshake is not None:
        print(event.handshake.status, event.handshake.body)
        return
    for one in event.events:
        print(source.provider.success, one.id, one.type)
'''


@dataclass(frozen=True, slots=True)
class Example:
    """One program: what it holds, what it signs with, and what is sent."""

    provider: Provider
    secret: str
    private: str | None
    url: str | None
    id: str | None
    type: str | None

    def sign_body(self, body: bytes) -> Signed:
        """A genuine delivery."""
        return sign(
            self.provider,
            body,
            self.private or self.secret,
            id=self.id,
            type=self.type,
            now=NOW,
            url=self.url,
        )


def example_of(provider: Provider) -> Example:
    """The example of a provider; its first scheme signs."""
    secret, private = secrets_for(provider)
    return Example(
        provider,
        secret,
        private,
        url=URL if signs_url(provider) else None,
        id=ID if in_header(provider, "id") else None,
        type=TYPES.get(provider.name, "example") if in_header(provider, "type") else None,
    )


def secrets_for(provider: Provider) -> tuple[str, str | None]:
    """A secret of the form that the provider hands out, and the private half of a public key."""
    match provider.schemes[0]:
        case StandardWebhooks() | Hmac(secret="whsec"):
            return WHSEC, None
        case SignedFields(secret="hex") | Hmac(secret="hex"):
            return HEX, None
        case Ed25519():
            return ED25519_PUBLIC, ED25519_PRIVATE
        case Ecdsa():
            return ECDSA_PUBLIC, ECDSA_PRIVATE
        case BasicAuth():
            return f"{provider.name}:example-password", None
        case _:
            return f"{provider.name}-example-secret", None


def signs_url(provider: Provider) -> bool:
    """Whether the URL must be known to verify."""
    match getattr(provider.schemes[0], "signed", ""):
        case str(text) | Template(text=text):
            return "{url}" in text
        case content:
            return isinstance(content, UrlAndForm)


def in_header(provider: Provider, name: str) -> bool:
    """Whether a field travels in a header, so that `sign` must be given it."""
    selectors = provider.selectors.get(name)
    return selectors is not None and selectors.alternatives[0][0].kind == "header"


def program(example: Example) -> str:
    """The lines of the example."""
    name = json.dumps(example.provider.name)
    url = "" if example.url is None else f", url={json.dumps(example.url)}"
    signer = "source" if example.private is None else name
    return "\n".join(
        [
            *assignment_lines("body", repr_of(example.provider.sample)),
            *key_lines(example),
            f"source = duly.Source({name}, {key_name(example)}{url})",
            "",
            f"sent = duly.sign({signer}, body{arguments(example)})",
            "receive(source, sent.headers, sent.body)",
            *question_lines(example, signer),
            "",
        ]
    )


def key_name(example: Example) -> str:
    """What the source is made with."""
    return json.dumps(example.secret) if example.private is None else "public"


def key_lines(example: Example) -> list[str]:
    """The key pair, where the source holds a public key."""
    if example.private is None:
        return []
    return [
        "# A pair for this page alone; a sender keeps the private half secret.",
        *assignment_lines("public", pieces(example.secret, 76)),
        *assignment_lines("private", pieces(example.private, 76)),
    ]


def arguments(example: Example) -> str:
    """The arguments of `sign` apart from the body."""
    given = {"id": example.id, "type": example.type}
    words = ["private"] if example.private is not None else []
    words += [f"{name}={json.dumps(value)}" for name, value in given.items() if value is not None]
    words.append("now=NOW")
    if example.url is not None:
        words.append("url=source.url")
    return "".join(f", {word}" for word in words)


def question_lines(example: Example, signer: str) -> list[str]:
    """The handshakes that the provider asks, and are signed like any delivery."""
    lines = []
    for body in questions(example.provider):
        lines += [
            "",
            *assignment_lines("question", repr_of(body)),
            f"sent = duly.sign({signer}, question{arguments(example)})",
            "receive(source, sent.headers, sent.body)",
        ]
    return lines


def questions(provider: Provider) -> Iterator[bytes]:
    """The bodies of the signed questions that a provider posts."""
    for handshake in provider.handshakes:
        asked = question_values(handshake)
        if handshake.signed and all(selector.startswith("body:") for selector in asked):
            yield body_with(asked)


def question_values(handshake: Handshake) -> dict[str, object]:
    """The selectors that make a delivery this question, and those that its answer is made of."""
    whole = handshake.reply
    parts: Iterable[object] = (whole,) if isinstance(whole, Echo | Mac) else (whole or {}).values()
    asked = {where: TOKEN if value is None else value for where, value in handshake.when.items()}
    return asked | {one.place: TOKEN for one in parts if isinstance(one, Echo | Mac)}


def body_with(values: dict[str, object]) -> bytes:
    """A JSON body in which these selectors find these values."""
    body: dict[str, Any] = {}
    for selector, value in values.items():
        *way, last = selector.removeprefix("body:").split(".")
        node = body
        for key in way:
            node = node.setdefault(key, {})
        node[last] = value
    return json.dumps(body, separators=(",", ":")).encode()


def expected_output(example: Example) -> str:
    """What the program prints."""
    source = Source(example.provider, example.secret, url=example.url)
    bodies = [example.provider.sample, *questions(example.provider)]
    lines: list[str] = []
    for sent in map(example.sign_body, bodies):
        event = verify(source, sent.headers, sent.body, now=NOW)
        if event.handshake is not None:
            lines.append(f"{event.handshake.status} {event.handshake.body!r}")
        else:
            lines += [f"{example.provider.success} {one.id} {one.type}" for one in event.events]
    return "\n".join(lines) + "\n"


def repr_of(body: bytes) -> list[str]:
    """A body as literals of readable length, broken behind commas."""
    lines = [b""]
    for part in body.replace(b",", b",\0").split(b"\0"):
        if len(lines[-1]) + len(part) > 84:
            lines.append(b"")
        lines[-1] += part
    return [repr(line) for line in lines if line]


def pieces(text: str, width: int) -> list[str]:
    """A long text as literals of readable length."""
    return [json.dumps(text[start : start + width]) for start in range(0, len(text), width)]


def assignment_lines(name: str, literals: list[str]) -> list[str]:
    """An assignment, in brackets where it takes several lines."""
    if len(literals) == 1:
        return [f"{name} = {literals[0]}"]
    return [f"{name} = (", *(f"    {one}" for one in literals), ")"]
