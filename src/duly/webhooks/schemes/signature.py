"""A signature in a header: the shape that HMAC, Ed25519 and ECDSA share.

The header holds one signature behind a prefix (``sha256=…``), or a list of named fields
(``t=…,v1=…,v1=…``). The timestamp, where there is one, is such a field or a header of its own.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic

from duly.core.errors import Code, Rejected, UsageError
from duly.core.validation import kind
from duly.webhooks.schemes.encodings import (
    ENCODERS,
    checked_encoding,
    checked_unit,
    format_timestamp,
    parse_timestamp,
)
from duly.webhooks.schemes.scheme import MOST_CANDIDATES, Draft, Key, LoadedKey, Match, Scheme
from duly.webhooks.schemes.template import Content, content_of, delivery_of_draft, required_header

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duly.webhooks.delivery import Delivery
    from duly.webhooks.secrets import Secret
    from duly.webhooks.selectors import Selector


@dataclass(frozen=True, slots=True)
class NamedFields:
    """A header of ``name=value`` pairs: which one is a signature, and which the timestamp."""

    signature: str
    timestamp: str | None = None
    separator: str = ","
    names: tuple[bytes, bytes | None, bytes] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        time_name = None if self.timestamp is None else self.timestamp.encode()
        names = (self.signature.encode(), time_name, self.separator.encode())
        object.__setattr__(self, "names", names)

    def parse(self, header: bytes) -> tuple[list[bytes], bytes | None]:
        """The signatures and the timestamp. Fields of other names, versions among them, pass."""
        signature_name, time_name, separator = self.names
        signatures: list[bytes] = []
        times: list[bytes] = []
        for one in header.split(separator):
            name, _, value = one.partition(b"=")
            name = name.lstrip(b" ")  # some write a space behind the comma
            if name == signature_name:
                signatures.append(value)
            elif name == time_name:
                times.append(value)
        if time_name is None:
            return signatures, None
        if len(times) != 1:
            raise Rejected(Code.MALFORMED, "the signature header must hold one timestamp")
        return signatures, times[0]

    def write(self, signature: bytes, timestamp: bytes) -> bytes:
        """The header of one signature."""
        signature_name, time_name, separator = self.names
        signed = signature_name + b"=" + signature
        return signed if time_name is None else time_name + b"=" + timestamp + separator + signed


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature(Scheme[Key], Generic[Key]):
    """One or several signatures in a header, over a template of the delivery.

    Args:
        header: where the signature is.
        signed: what is signed, such as ``"{timestamp}.{body}"``.
        prefix: what stands before the signature in the header.
        fields: the names in a header of ``name=value`` pairs, instead of a prefix.
        encoding: ``hex``, ``base64`` or ``base64url``.
        timestamp: the header that holds the timestamp, where ``fields`` names none.
        unit: what the timestamp counts: ``s``, ``ms`` or ``us``.
        aliases: other names of the header.
        only_if: a header and the value that it must have for this scheme to be meant.
        legacy: whether the sender has something better; a source can refuse it.
    """

    header: str
    signed: str | Content = "{body}"
    prefix: str = ""
    fields: NamedFields | None = None
    encoding: str = "hex"
    timestamp: str | None = None
    unit: str = "s"
    aliases: tuple[str, ...] = ()
    only_if: tuple[str, str] | None = None
    legacy: bool = False
    content: Content = field(init=False, repr=False, compare=False)
    encoded: Callable[[bytes], bytes] = field(init=False, repr=False, compare=False)
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    time_header: str | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        checked_encoding(self.encoding)
        checked_unit(self.unit)
        checked_whereabouts(self.header, self.timestamp, self.fields)
        content = content_of(self.signed)
        object.__setattr__(self, "content", content)
        object.__setattr__(self, "encoded", ENCODERS[self.encoding])
        object.__setattr__(self, "names", tuple(n.lower() for n in (self.header, *self.aliases)))
        object.__setattr__(self, "time_header", self.timestamp and self.timestamp.lower())
        timed = self.timestamp or (self.fields and self.fields.timestamp)
        if isinstance(self.signed, str) and ("{timestamp}" in self.signed) != bool(timed):
            raise UsageError(
                "a scheme that signs {timestamp} must say where it is, with timestamp= or fields=, "
                "and one that does not sign it must not trust it"
            )

    @abstractmethod
    def matches(self, key: Key, contents: Sequence[bytes], candidates: Sequence[bytes]) -> bool:
        """Whether any candidate is the signature of any of the contents; all are tried."""

    @abstractmethod
    def make_signature(self, secret: Secret, content: bytes) -> bytes:
        """The signature of the content, encoded, with its prefix."""

    def is_present(self, delivery: Delivery) -> bool:
        if (
            self.only_if is not None
            and delivery.header_text(self.only_if[0].lower()) != self.only_if[1]
        ):
            return False
        return any(name in delivery.fields for name in self.names)

    def check(self, delivery: Delivery, keys: Sequence[LoadedKey[Key]]) -> Match:
        candidates, timestamp = self.read_candidates(delivery)
        signed_at = None if timestamp is None else parse_timestamp(timestamp, self.unit)
        if (
            timestamp is not None
            and timestamp.startswith(b"0")
            and self.content.has_adjacent_timestamp
        ):
            raise Rejected(Code.MALFORMED, "the timestamp begins with a zero")
        contents = self.content.variants(delivery, timestamp or b"")
        found = [one.secret.name for one in keys if self.matches(one.key, contents, candidates)]
        if not found:
            raise Rejected(Code.BAD_SIGNATURE, "no signature matches any secret of this source")
        return found[0], signed_at

    def read_candidates(self, delivery: Delivery) -> tuple[list[bytes], bytes | None]:
        """The signatures that could match, and the timestamp as it was written."""
        names = self.names
        only = delivery.header_bytes(names[0]) if len(names) == 1 else None
        header = self.signature_header(delivery) if only is None else only
        timestamp: bytes | None = None
        if self.fields is None:
            candidates = self.after_prefix(header)
        else:
            candidates, timestamp = self.fields.parse(header)
        if self.time_header is not None:
            timestamp = required_header(delivery, self.time_header)
        if not candidates:
            raise Rejected(Code.MALFORMED, f"the header {self.header} holds no known signature")
        if len(candidates) > MOST_CANDIDATES:
            raise Rejected(Code.MALFORMED, f"more than {MOST_CANDIDATES} signatures were sent")
        if self.encoding == "hex":  # in either case it is the same number
            candidates = [one.lower() for one in candidates]
        return candidates, timestamp

    def after_prefix(self, header: bytes) -> list[bytes]:
        """The one signature of a header without fields."""
        prefix = self.prefix.encode()
        return [header[len(prefix) :]] if header.startswith(prefix) else []

    def signature_header(self, delivery: Delivery) -> bytes:
        """The header under any of its names, but only one of them."""
        found = [value for name in self.names if (value := delivery.header_bytes(name)) is not None]
        if not found:
            raise Rejected(Code.MISSING_SIGNATURE, f"the header {self.header} is missing")
        if len(set(found)) > 1:
            raise Rejected(Code.MALFORMED, f"two different signatures were sent for {self.header}")
        return found[0]

    def sign(self, draft: Draft, secret: Secret) -> None:
        timestamp = format_timestamp(draft.timestamp, self.unit)
        self.content.prepare(draft)
        if self.only_if is not None:
            draft.set_header(self.only_if[0], self.only_if[1])
        if self.timestamp is not None:
            draft.set_header(self.timestamp, timestamp.decode())
        signature = self.make_signature(
            secret, self.content.to_sign(delivery_of_draft(draft), timestamp)
        )
        whole = signature if self.fields is None else self.fields.write(signature, timestamp)
        draft.set_header(self.header, whole.decode())

    def covers(self, selector: Selector) -> bool:
        return self.content.covers(selector)

    def dedup_content(self, delivery: Delivery) -> bytes:
        return self.content.dedup_content(delivery)

    def describe_location(self) -> str:
        return f"the header {self.header}"


def checked_whereabouts(header: object, timestamp: object, fields: object) -> None:
    """Refuse what would never be found in a delivery."""
    for what, name in (("header", header), ("timestamp", timestamp)):
        if name is not None and (not isinstance(name, str) or not name or ":" in name):
            raise UsageError(f"{what} must be the bare name of a header, such as 'X-Signature'")
    if fields is not None and not isinstance(fields, NamedFields):
        raise UsageError(
            f"fields must be NamedFields(signature=…, timestamp=…), not {kind(fields)}"
        )
    if fields is not None and fields.timestamp is not None and timestamp is not None:
        raise UsageError("the timestamp must be in one place: in a header, or among the fields")
