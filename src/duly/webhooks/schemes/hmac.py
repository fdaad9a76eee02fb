"""Schemes with a shared secret in the signature: HMAC, and the keyed hash that came before it."""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import TYPE_CHECKING, Final, NoReturn

from duly.core.errors import Code, Rejected, UsageError
from duly.webhooks.schemes.encodings import checked_digest, is_key_file, lenient_base64, lenient_hex
from duly.webhooks.schemes.signature import Signature
from duly.webhooks.secrets import NOT_PICKLED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duly.webhooks.delivery import Delivery
    from duly.webhooks.schemes.scheme import LoadedKey, Match
    from duly.webhooks.secrets import Secret


class SharedKey:
    """The bytes of a shared secret, which show in no repr, and its HMACs made ready."""

    __slots__ = ("begun", "raw")

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.begun: dict[str, hmac.HMAC] = {}

    def mac(self, content: bytes, digest: str) -> bytes:
        """The HMAC of the content. The key goes in once; a copy of that state is cheap."""
        begun = self.begun.get(digest)
        if begun is None:
            begun = self.begun[digest] = hmac.new(self.raw, digestmod=digest)
        made = begun.copy()
        made.update(content)
        return made.digest()

    def __repr__(self) -> str:
        return "SharedKey()"

    def __reduce__(self) -> NoReturn:
        raise UsageError(NOT_PICKLED)

    def __copy__(self) -> SharedKey:
        return self

    def __deepcopy__(self, memo: object) -> SharedKey:
        return self


def webhook_secret(text: str) -> bytes | None:
    """``whsec_`` and base64, as Standard Webhooks writes its keys; the prefix may be missing."""
    return lenient_base64(text.removeprefix("whsec_"))


METHOD_AND_URL: Final = re.compile(rb"[A-Za-z]{3,7}https?://")
HEX_KEY: Final = re.compile("[0-9a-fA-F]{64}")

# What the text of a secret stands for.
FORMS: Final[dict[str, tuple[Callable[[str], bytes | None], str]]] = {
    "text": (str.encode, "plain text"),
    "hex": (lenient_hex, "hexadecimal digits, two for each byte"),
    "base64": (lenient_base64, "base64"),
    "whsec": (webhook_secret, "whsec_ followed by base64"),
}


def shared_key(secret: Secret, form: str) -> SharedKey:
    """The key behind a secret of this form."""
    key = read_key(secret, form)
    if key is None:
        raise UsageError(
            f"the secret {secret.name!r} must be {FORMS[form][1]}: copy it again from the "
            "provider's settings, or pass bytes if it is the raw key"
        )
    return key


def read_key(secret: Secret, form: str) -> SharedKey | None:
    """The same, silent, so that no frame that raises holds the value."""
    value = secret.reveal()
    raw = FORMS[form][0](value) if isinstance(value, str) else value
    # A public key is no secret: as a shared secret it would let anyone sign.
    usable = isinstance(raw, bytes) and not is_key_file(raw) and not hex_in_base64(value, form)
    return SharedKey(raw) if usable and isinstance(raw, bytes) else None


def hex_in_base64(value: object, form: str) -> bool:
    """Whether 32 bytes in hex stand where base64 should: so are Ed25519 keys written, not these."""
    return form == "whsec" and isinstance(value, str) and HEX_KEY.fullmatch(value) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hmac(Signature[SharedKey]):
    """HMAC over a template, with any digest of the standard library.

    Several digests are tried one after the other; ``{digest}`` in the prefix then says which.

    Args:
        header: where the signature is.
        signed: what is signed, such as ``"{timestamp}.{body}"``; `Template` lists the parts.
        prefix: what stands before the signature in the header, such as ``"sha256="``.
        fields: `NamedFields` for a header of ``name=value`` pairs, instead of a prefix.
        encoding: ``hex``, ``base64`` or ``base64url``.
        timestamp: the header that holds the timestamp, where ``fields`` names none.
        unit: what the timestamp counts: ``s``, ``ms`` or ``us``.
        aliases: other names of the header.
        only_if: a header and the value that it must have for this scheme to be meant.
        legacy: whether the sender has something better; a source can refuse it.
        digest: the hash, or the hashes that are accepted.
        secret: what the text of a secret stands for: ``text``, ``hex``, ``base64``, ``whsec``.
    """

    digest: str | tuple[str, ...] = "sha256"
    secret: str = "text"
    # The hashes that are accepted, the one to sign with first, and what stands before each.
    prefixes: tuple[tuple[str, bytes], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super(Hmac, self).__post_init__()
        if self.secret not in FORMS:
            raise UsageError(f"secret must be one of {', '.join(FORMS)}, not {self.secret!r:.40}")
        digests = (self.digest,) if isinstance(self.digest, str) else self.digest
        prefix = "" if self.fields else self.prefix
        prefixes = [(checked_digest(one), prefix.replace("{digest}", one)) for one in digests]
        object.__setattr__(self, "prefixes", tuple((one, text.encode()) for one, text in prefixes))

    def key(self, secret: Secret) -> SharedKey:
        return shared_key(secret, self.secret)

    def after_prefix(self, header: bytes) -> list[bytes]:
        """The whole header where the prefix names a digest that is accepted."""
        known = any([header.startswith(prefix) for _, prefix in self.prefixes])
        return [header] if known else []

    def matches(
        self, key: SharedKey, contents: Sequence[bytes], candidates: Sequence[bytes]
    ) -> bool:
        matched = False
        for digest, prefix in self.prefixes:
            for content in contents:
                expected = prefix + self.encoded(key.mac(content, digest))
                if self.encoding == "hex":  # as the candidates are, their prefix included
                    expected = expected.lower()
                for candidate in candidates:
                    matched |= compare_digest(expected, candidate)
        return matched

    def make_signature(self, secret: Secret, content: bytes) -> bytes:
        digest, prefix = self.prefixes[0]
        return prefix + self.encoded(self.key(secret).mac(content, digest))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainDigest(Signature[SharedKey]):
    """A hash over the secret and the content, for the old signatures that are no HMAC.

    Such a hash can be continued: anyone who has seen one can sign the same content with padding and
    words of their own behind it. The padding is never text, so only text is accepted.
    """

    digest: str = "sha256"

    def check(self, delivery: Delivery, keys: Sequence[LoadedKey[SharedKey]]) -> Match:
        # The signature of a longer template, taken for that of the body alone, would make a body
        # of the method and the URL.
        if METHOD_AND_URL.match(delivery.body):
            raise Rejected(Code.BAD_SIGNATURE, "the body begins like a request")
        return super(PlainDigest, self).check(delivery, keys)

    def __post_init__(self) -> None:
        super(PlainDigest, self).__post_init__()
        checked_digest(self.digest)

    def key(self, secret: Secret) -> SharedKey:
        return shared_key(secret, "text")

    def matches(
        self, key: SharedKey, contents: Sequence[bytes], candidates: Sequence[bytes]
    ) -> bool:
        matched = False
        for content in filter(is_text, contents):
            expected = self.expected_digest(key, content)
            for candidate in candidates:
                matched |= compare_digest(expected, candidate)
        return matched

    def expected_digest(self, key: SharedKey, content: bytes) -> bytes:
        raw = hashlib.new(self.digest, key.raw + content).digest()
        return self.encoded(raw)

    def make_signature(self, secret: Secret, content: bytes) -> bytes:
        return self.prefix.encode() + self.expected_digest(self.key(secret), content)


def is_text(content: bytes) -> bool:
    """Whether bytes are UTF-8 without NUL, which the padding of a hash never is."""
    try:
        return "\0" not in content.decode()
    except UnicodeDecodeError:
        return False
