"""Messages: checked, staged in the open transaction, and as a transport sees them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from duly.core import json_bytes
from duly.core.clock import from_microseconds
from duly.core.errors import UsageError
from duly.core.exports import export_type
from duly.core.retry import Backoff
from duly.core.validation import kind
from duly.ledger.insert_if_new import KeyedRow, insert_if_new
from duly.outbox.statements import OUTBOX_INSERT, SENDS_RETAKE

if TYPE_CHECKING:
    from datetime import datetime

    from duly.core.keys import Key
    from duly.core.session import Session, Value
    from duly.outbox.lease import LeasedMessage

# The scope of every message, and of the keys that they are known by.
SCOPE = "send"
# Twenty attempts last about two days: longer than an outage that goes unnoticed.
ATTEMPTS = 20
MOST_ATTEMPTS = 1000
BACKOFF = Backoff(first=timedelta(seconds=10), factor=3, cap=timedelta(hours=8))
# What a receiver takes in one request; larger things belong in a store, with a link to them.
MOST_BYTES = 1024 * 1024
MOST_HEADERS = 50
METHODS = ("POST", "PUT", "PATCH", "DELETE", "GET")
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
# Printable, with no space at its edges.
VALUE = re.compile(r"([!-~]([ -~]{0,4094}[!-~])?)?")
# What the client writes itself, or would let one request pass for two.
OURS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer"}
    | {"upgrade", "expect", "accept-encoding", "proxy-connection"}
)
SECRET = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key"})
SIGNED = "webhook-"


class NewMessage(NamedTuple):
    """A message to stage, chosen before the first statement. Times are in microseconds."""

    id: str
    destination: str
    request: bytes
    body: bytes | None
    signer: str | None
    delay: int
    at: int | None
    attempts: int
    claim: Key | None
    window: int


@export_type
class Staged(NamedTuple):
    """The message that will be sent: a new one, or the one that a first caller staged."""

    id: str
    first: bool

    @property
    def duplicate(self) -> bool:
        """True if the key was known, and no message was added."""
        return not self.first


@export_type
@dataclass(frozen=True, slots=True)
class Message:
    """A message as a transport sees it.

    Args:
        id: the same in every attempt, and what the other side may know it by.
        url: where to, as it was staged; ``to`` is the part behind the name of the transport.
        headers: what was staged with it.
        body: the bytes, or None.
        attempt: 1 for the first try since it was staged or replayed; more means that it may have
            arrived before.
        created_at: when it was staged.
    """

    id: str
    method: str
    url: str
    headers: dict[str, str]
    body: bytes | None
    attempt: int
    created_at: datetime

    @property
    def key(self) -> str:
        """The idempotency key: the id, under the name that other services have for it."""
        return self.id

    @property
    def to(self) -> str:
        """What stands behind the name of the transport: for ``mail:ann@example.com`` the rest."""
        return self.url.partition(":")[2]

    @property
    def json(self) -> Any:
        """The body, read as JSON."""
        return None if self.body is None else json.loads(self.body)

    @property
    def text(self) -> str:
        """The body, read as UTF-8."""
        return "" if self.body is None else self.body.decode()


def message_of(leased: LeasedMessage) -> Message:
    """The message that a transport is given."""
    request = json.loads(leased.request)
    return Message(
        leased.id,
        request["method"],
        request["url"],
        dict(request["headers"]),
        leased.body,
        leased.attempts + leased.rescues + 1,
        from_microseconds(leased.created_at),
    )


def request_bytes(method: str, url: str, headers: Mapping[str, str]) -> bytes:
    """The request of a message as it is stored, beside its body."""
    request = {"method": method, "url": url, "headers": dict(headers)}
    return json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode()


def checked_method(method: object) -> str:
    """A method that a message may have."""
    if not isinstance(method, str) or method.upper() not in METHODS:
        raise UsageError(f"method must be one of {', '.join(METHODS)}")
    return method.upper()


def checked_header(name: object, value: object) -> tuple[str, str]:
    """A header that can be sent and may be stored."""
    if not isinstance(name, str) or not TOKEN.fullmatch(name):
        raise UsageError(
            "the name of a header must be letters, digits and dashes, at most 100: leave out "
            "spaces and colons"
        )
    lower = name.lower()
    if lower in OURS:
        raise UsageError(f"the header {name} is written by the client that sends: leave it out")
    if lower == "idempotency-key":
        raise UsageError("the header Idempotency-Key is the id of the message: leave it out")
    if lower in SECRET:
        raise UsageError(
            f"a message never holds a secret, and {name} is one: register a signer that adds it "
            "(@app.signer) and pass sign="
        )
    if lower.startswith(SIGNED):
        raise UsageError(f"the header {name} is written by the signer: register one and pass sign=")
    if not isinstance(value, str):
        raise UsageError(f"the header {name} must be text, not {kind(value)}: write str(…)")
    if not VALUE.fullmatch(value):
        raise UsageError(
            f"the header {name} must be printable ASCII, at most 4,096 characters, and "
            "without spaces at its edges"
        )
    return name, value


def checked_headers(headers: object) -> dict[str, str]:
    """The headers of a message."""
    if not isinstance(headers, Mapping):
        raise UsageError(f"headers must be a mapping from names to text, not {kind(headers)}")
    pairs = [checked_header(name, value) for name, value in headers.items()]
    if len(pairs) > MOST_HEADERS or len({name.lower() for name, _ in pairs}) < len(pairs):
        raise UsageError(f"headers must have at most {MOST_HEADERS} names, and each of them once")
    return dict(pairs)


def checked_content(json_value: object, data: object) -> tuple[bytes | None, str | None]:
    """The body of a message, and what kind it is."""
    if data is None:
        if json_value is None:
            return None, None
        return json_bytes.encode(json_value, "json"), "application/json"
    if json_value is not None:
        raise UsageError("give json= or data=, not both")
    if isinstance(data, bytes | bytearray | memoryview):
        return checked_size(bytes(data)), "application/octet-stream"
    try:
        if isinstance(data, str):
            return checked_size(data.encode()), "text/plain; charset=utf-8"
        if isinstance(data, Mapping):
            form = urlencode(checked_form(data), doseq=True).encode()
            return checked_size(form), "application/x-www-form-urlencoded"
    except UnicodeEncodeError:
        raise UsageError("data holds a lone surrogate, which is no text: leave it out") from None
    raise UsageError(f"data must be bytes, text or a mapping for a form, not {kind(data)}")


def checked_form(data: Mapping[Any, Any]) -> dict[str, list[str]]:
    """The fields of a form, each with one value or several."""
    fields: dict[str, list[str]] = {}
    for name, value in data.items():
        values = list(value) if isinstance(value, list | tuple) else [value]
        plain = all(isinstance(one, str | int | float) for one in values)
        if not isinstance(name, str) or not plain or any(isinstance(one, bool) for one in values):
            raise UsageError(
                "data for a form must be text by name, or lists of it: write str(…), and leave "
                "out None"
            )
        fields[name] = [str(one) for one in values]
    return fields


def checked_size(body: bytes) -> bytes:
    """A body that is not too large."""
    if len(body) > MOST_BYTES:
        raise UsageError(
            f"data has {len(body):,} bytes, the most is {MOST_BYTES:,}: store it, and send where"
        )
    return body


async def stage(session: Session, message: NewMessage) -> Staged:
    """Stage one message in the open transaction, or find the one that its key led to before."""
    row: dict[str, Value] = {
        "id": message.id,
        "scope": SCOPE,
        "destination": message.destination,
        "request": message.request,
        "body": message.body,
        "signer": message.signer,
        "delay": message.delay,
        "at": message.at,
        "max_attempts": message.attempts,
    }
    found = message.id
    if message.claim is None:
        await session.rows(OUTBOX_INSERT, **row)
    else:
        found = await insert_if_new(
            session,
            KeyedRow(
                message.claim,
                message.id,
                message.window,
                OUTBOX_INSERT,
                row,
                SENDS_RETAKE,
                "this message",
            ),
        )
    if found == message.id:
        session.new_work.add("messages")
    return Staged(found, first=found == message.id)
