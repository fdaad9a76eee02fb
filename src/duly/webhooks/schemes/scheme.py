"""What every scheme offers: is it there, is it right, how is it made, and what does it cover."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

from duly.core.errors import Code, Rejected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.webhooks.delivery import Delivery
    from duly.webhooks.secrets import Secret
    from duly.webhooks.selectors import Selector
    from duly.webhooks.strict_json import JsonDocument

Key = TypeVar("Key")

# More signatures than any rotation needs; every one of them costs the receiver a comparison.
MOST_CANDIDATES = 8


@dataclass(frozen=True, slots=True)
class LoadedKey(Generic[Key]):
    """A secret made ready for one scheme. Its key is not shown."""

    secret: Secret
    key: Key = field(repr=False)


# Which secret a delivery was signed with, and when, where the scheme says so.
Match: TypeAlias = tuple[str, float | None]


@dataclass(slots=True)
class Draft:
    """A delivery that is being signed: a scheme adds to its headers, its body or its URL."""

    body: bytes
    id: str
    timestamp: int
    url: str | None
    method: str
    headers: dict[str, str]

    def set_header(self, name: str, value: str) -> None:
        """Set a header; names are compared without case."""
        self.headers = {one: v for one, v in self.headers.items() if one.lower() != name.lower()}
        self.headers[name] = value


class Scheme(ABC, Generic[Key]):
    """One way to sign a delivery."""

    __slots__ = ()

    # Whether the sender has something better; a source can refuse it.
    legacy: bool
    # Whether the body must be read to be checked; then it must be sound for the next reader too.
    reads_body: ClassVar[bool] = False

    @abstractmethod
    def key(self, secret: Secret) -> Key:
        """The secret made ready; `UsageError` where it is not of the form that the scheme needs."""

    @abstractmethod
    def is_present(self, delivery: Delivery) -> bool:
        """Whether a delivery carries a signature of this kind, right or wrong."""

    @abstractmethod
    def check(self, delivery: Delivery, keys: Sequence[LoadedKey[Key]]) -> Match:
        """The secret that matches, or `Rejected`."""

    @abstractmethod
    def sign(self, draft: Draft, secret: Secret) -> None:
        """Make the draft a genuine delivery."""

    @abstractmethod
    def covers(self, selector: Selector) -> bool:
        """Whether what a selector finds cannot be changed without breaking the signature."""

    @abstractmethod
    def describe_location(self) -> str:
        """Where the signature is looked for, as a person would say it."""

    def secret_headers(self) -> tuple[str, ...]:
        """The headers that hold the secret itself, by lower-case name: they are not kept."""
        return ()

    def only_verifies(self, secret: Secret) -> bool:  # noqa: ARG002
        """Whether the secret of a source is a public key, with which nothing can be signed."""
        return False

    def dedup_content(self, delivery: Delivery) -> bytes:
        """What makes two deliveries the same one; not what varies from attempt to attempt."""
        return delivery.body

    def dedup_content_of_item(self, body: JsonDocument, item: Any) -> bytes:  # noqa: ARG002
        """The same for one item of a batch."""
        return json.dumps(item, sort_keys=True).encode()


def with_key_id(keys: Sequence[LoadedKey[Key]], key_id: str | None) -> Sequence[LoadedKey[Key]]:
    """The keys of this id; where no key of the source has an id, all of them."""
    if key_id is None:
        return keys
    fitting = [held for held in keys if held.secret.key_id == key_id]
    if fitting or (keys and all(held.secret.key_id is None for held in keys)):
        return fitting or keys
    raise Rejected(Code.UNKNOWN_KEY, "the delivery names a key that this source does not have")
