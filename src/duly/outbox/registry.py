"""What an app can send: its transports, its signers and its egress guard."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from duly.core.errors import UsageError
from duly.core.functions import mode_of, requested_parameters
from duly.core.host import HOST, Host
from duly.core.keys import Key, as_bytes, digest
from duly.core.retry import Backoff
from duly.core.validation import checked_count, checked_duration, checked_key, checked_start, kind
from duly.outbox.egress import Egress
from duly.outbox.message import (
    ATTEMPTS,
    BACKOFF,
    MOST_ATTEMPTS,
    SCOPE,
    NewMessage,
    checked_content,
    checked_headers,
    checked_method,
    request_bytes,
)
from duly.outbox.relay_liveness import RelayLiveness

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duly.core.functions import Mode
    from duly.outbox.message import Message

# Longer than any retry of a caller, and short enough that tomorrow's message is a new one.
WINDOW = timedelta(hours=24)
# Of a transport of the user's own.
TIMEOUT = timedelta(seconds=30)
WEB = ("http", "https")
NAME = re.compile(r"[a-z][a-z0-9+.-]{0,39}")
WANTED = ("message", "key")
# What a message is addressed to; longer things belong in its body.
LONGEST = 2048
# Printable, for any transport.
ADDRESS = re.compile(r"[^\x00-\x20\x7f]+")


class Signer(Protocol):
    """Signs messages: adds headers to each attempt."""

    @property
    def blocks(self) -> bool:
        """True if it may block."""

    def headers(self, message: Message) -> Mapping[str, str]:
        """The headers that prove the sender."""

    def texts_to_hide(self) -> list[str]:
        """Secrets to redact in logs and records."""


@dataclass(frozen=True, slots=True)
class Transport:
    """A sender of the user's own."""

    name: str
    call: Callable[..., Any]
    wants: frozenset[str]
    mode: Mode
    attempts: int
    timeout: timedelta
    concurrency: int
    backoff: Backoff


class OutboxRegistry:
    """The transports and signers of an application by name, and its egress guard."""

    def __init__(self, egress: Egress = Egress(), host: Host = HOST) -> None:  # noqa: B008
        self._host = host
        self.egress = egress
        self.transports: dict[str, Transport] = {}
        self.signers: dict[str, Signer] = {}
        self.relay_liveness = RelayLiveness(host)

    @property
    def is_configured(self) -> bool:
        """True if a transport, a signer or an egress guard is set up."""
        return bool(self.transports or self.signers or self.egress != Egress())

    def add_transport(self, transport: Transport) -> None:
        """Add a sender of the user's own."""
        known = self.transports.get(transport.name)
        if known is not None and known.call != transport.call:
            raise UsageError(
                f"there is a transport {transport.name} already: give this one a new name"
            )
        self.transports[transport.name] = transport

    def add_signer(self, name: str, signer: Signer) -> None:
        """Add a signer."""
        if name in self.signers:
            raise UsageError(
                f"there is a signer {name} already: to exchange its key, give it all that are good"
            )
        self.signers[name] = signer

    def new(
        self,
        url: object,
        *,
        json: object = None,
        data: object = None,
        headers: object = None,
        sign: object = None,
        key: object = None,
        window: object = WINDOW,
        method: object = "POST",
        delay: object = None,
        at: object = None,
        attempts: object = None,
    ) -> NewMessage:
        """A message to stage, checked; nothing has been written when this raises."""
        destination = self.destination(url)
        assert isinstance(url, str)  # noqa: S101  # that was looked at just now
        body, content = checked_content(json, data)
        length = checked_duration("window", window)
        wait, moment = checked_start(delay, at)
        if key is None and window != WINDOW:
            raise UsageError(
                "window= is how long key= is known: give key= as well, or leave it out"
            )
        sent = {} if headers is None else checked_headers(headers)
        if content is not None and "content-type" not in {name.lower() for name in sent}:
            sent = {"Content-Type": content, **sent}
        message = self._host.new_id()
        self.relay_liveness.note_staged()
        claim = None if key is None else claim_of(url, key)
        transport = self.transports.get(destination)
        usual = ATTEMPTS if transport is None else transport.attempts
        return NewMessage(
            message,
            destination,
            request_bytes(checked_method(method), url, sent),
            body,
            None if sign is None else self.signer_named(sign, destination),
            wait,
            moment,
            usual if attempts is None else checked_count("attempts", attempts, most=MOST_ATTEMPTS),
            claim,
            length,
        )

    def destination(self, url: object) -> str:
        """What a message is queued by: the origin of a URL, or the name of a transport."""
        if not isinstance(url, str):
            raise UsageError(f"url must be a string, not {kind(url)}")
        if len(url) > LONGEST:
            raise UsageError(
                f"this address has {len(url):,} characters, the most is {LONGEST:,}: put the rest "
                "into the body"
            )
        scheme = url.partition(":")[0].lower()
        if scheme in WEB:
            return self.egress.check(url).origin
        if scheme not in self.transports or ":" not in url:
            known = ", ".join(f"{name}:…" for name in ("https", *sorted(self.transports)))
            address = f"{scheme[:20]}:" if ":" in url else "an address without a scheme"
            raise UsageError(
                f"nothing sends to {address} (there is {known}). Write the whole URL, "
                "https://example.com/path, or register a transport of your own, @app.transport"
                '("name")'
            )
        to = url.partition(":")[2]
        if not to or to.startswith("//"):
            raise UsageError(f"whom to? Write {scheme}:address, as in mail:ann@example.com")
        if not ADDRESS.fullmatch(url) or not url.isprintable():
            raise UsageError("the address of a message must be printable and without spaces")
        return scheme

    def backoff(self, destination: str) -> Backoff:
        """How long a message waits after an error."""
        transport = self.transports.get(destination)
        return BACKOFF if transport is None else transport.backoff

    def signer_named(self, sign: object, destination: str) -> str:
        """The name of a signer that is registered."""
        if not isinstance(sign, str) or sign not in self.signers:
            known = ", ".join(sorted(self.signers)) or "none yet"
            named = isinstance(sign, str) and NAME.fullmatch(sign) is not None
            asked = repr(sign) if named else "such name"  # it may be the secret itself
            raise UsageError(
                f"sign= is the name of a signer, and there is no {asked}: register it with "
                f'app.signer("ours", secret=…), then write sign="ours" (there is {known})'
            )
        if destination in self.transports:
            raise UsageError(
                f"the transport {destination} sends by itself: sign there, leave out sign="
            )
        return sign


def is_web(destination: str) -> bool:
    """Return True if a destination is reached by HTTP."""
    return "://" in destination


def claim_of(url: str, key: object) -> Key:
    """The claim of a message's key, at its address."""
    given = checked_key(SCOPE, key)
    return given._replace(digest=digest(as_bytes(SCOPE), as_bytes(url), given.digest))


def transport_of(
    name: object,
    call: object,
    *,
    attempts: object,
    timeout: object,
    concurrency: object,
    backoff: object,
) -> Transport:
    """A sender of the user's own, checked."""
    checked_name("the name of a transport", name, '@app.transport("mail")')
    if name in (*WEB, "ws", "wss", "file", "ftp"):
        raise UsageError(f"{name}: is a scheme of the web: give this transport another name")
    if not callable(call):
        raise UsageError(f"a transport is a function of the message, not {kind(call)}")
    if not isinstance(backoff, Backoff):
        raise UsageError(f"backoff must be a duly.Backoff(…), not {kind(backoff)}")
    checked_duration("timeout", timeout)
    return Transport(
        name,  # type: ignore[arg-type]
        call,
        transport_parameters(call, f"transport {name}"),
        mode_of(call, f"transport {name}"),
        checked_count("attempts", attempts, most=MOST_ATTEMPTS),
        timeout,  # type: ignore[arg-type]
        checked_count("concurrency", concurrency, most=1000),
        backoff,
    )


def transport_parameters(call: Callable[..., Any], what: str) -> frozenset[str]:
    """What a transport asks for, by the names of its parameters."""
    hint = "a transport's parameters are message, and key if it likes, by these names"
    wanted = requested_parameters(call, WANTED, what, hint)
    if "message" not in wanted:
        raise UsageError(
            f"{what} does not ask for message, and would not know what to send: {hint}"
        )
    return wanted


def checked_name(what: str, name: object, example: str) -> str:
    """A short word in lower case."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise UsageError(
            f"{what} must be lower-case letters, digits, dots or dashes, 40 at most: write "
            f"{example}"
        )
    return name
