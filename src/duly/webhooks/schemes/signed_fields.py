"""A signature inside the JSON body, over some of its fields: how Adyen signs its notifications.

The body must be read before it is verified, since only the fields say what was signed. Everything
that is not among them, the rest of the body included, is not covered.
"""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from duly.core.errors import Code, Rejected, UsageError
from duly.webhooks.schemes.encodings import base64_text
from duly.webhooks.schemes.hmac import SharedKey, shared_key
from duly.webhooks.schemes.scheme import Draft, LoadedKey, Match, Scheme
from duly.webhooks.selectors import text_of
from duly.webhooks.strict_json import JsonDocument, UnreadableBody, parse_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.webhooks.delivery import Delivery
    from duly.webhooks.secrets import Secret
    from duly.webhooks.selectors import Selector


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedFields(Scheme[SharedKey]):
    """HMAC over the values of some fields of every item in the body.

    Args:
        items: the list that holds the items, and the key of each within; a body without the list
            is one item itself.
        fields: the paths of the signed fields within an item, in their order.
        signature: the path of the signature within an item.
        free: the one field that may hold the separator; in any other it could move the boundary
            between two fields without breaking the signature.
        unless: the header whose presence means that the sender signed the body as a whole.
    """

    reads_body: ClassVar[bool] = True

    items: tuple[str, str]
    fields: tuple[str, ...]
    signature: str
    free: str | None = None
    unless: str | None = None
    separator: str = ":"
    digest: str = "sha256"
    secret: str = "hex"
    legacy: bool = False

    def key(self, secret: Secret) -> SharedKey:
        return shared_key(secret, self.secret)

    def is_present(self, delivery: Delivery) -> bool:
        if self.unless is not None and delivery.has(self.unless.lower()):
            return False
        return self.signature.rpartition(".")[2].encode() in delivery.body

    def check(self, delivery: Delivery, keys: Sequence[LoadedKey[SharedKey]]) -> Match:
        try:
            body = parse_json(delivery.body)
        except UnreadableBody as problem:
            raise Rejected(Code.MALFORMED, f"the body cannot be read: {problem}") from None
        items = items_of(body.value, self.items)
        if not items:
            raise Rejected(Code.MALFORMED, "the body holds nothing that is signed")
        signers = [self.secret_of_item(body, item, keys) for item in items]
        if len({self.content(body, item) for item in items}) < len(items):
            raise Rejected(Code.MALFORMED, "the body holds one item twice")
        return signers[0], None

    def secret_of_item(
        self, body: JsonDocument, item: Any, keys: Sequence[LoadedKey[SharedKey]]
    ) -> str:
        """The secret that one item is signed with."""
        signature = text_at(body, item, self.signature)
        if not signature:
            raise Rejected(Code.MISSING_SIGNATURE, f"{self.signature} is missing in the body")
        content = self.content(body, item)
        candidate = signature.encode("utf-8", "replace")
        found = [held for held in keys if self.is_valid(held.key, content, candidate)]
        if not found:
            raise Rejected(Code.BAD_SIGNATURE, "no signature matches any secret of this source")
        return found[0].secret.name

    def content(self, body: JsonDocument, item: Any) -> bytes:
        """The signed bytes of one item."""
        values = {path: text_at(body, item, path) for path in self.fields}
        if any(self.separator in text for path, text in values.items() if path != self.free):
            raise Rejected(Code.MALFORMED, f"{self.separator!r} stands where it could mislead")
        return self.separator.join(values.values()).encode("utf-8", "replace")

    def is_valid(self, key: SharedKey, content: bytes, candidate: bytes) -> bool:
        expected = base64_text(hmac.digest(key.raw, content, self.digest))
        return hmac.compare_digest(expected, candidate)

    def make_item_signature(self, key: SharedKey, body: JsonDocument, item: Any) -> str:
        """The signature of one item."""
        try:
            content = self.content(body, item)
        except Rejected as problem:
            raise UsageError(f"the body must be one that can be signed: {problem.reason}") from None
        return base64_text(hmac.digest(key.raw, content, self.digest)).decode()

    def sign(self, draft: Draft, secret: Secret) -> None:
        try:
            body = parse_json(draft.body)
        except UnreadableBody as problem:
            raise UsageError(f"the body must be JSON to be signed: {problem}") from None
        key = self.key(secret)
        for item in items_of(body.value, self.items):
            if not isinstance(item, dict):
                raise UsageError("the body must hold objects: a signature is put inside each")
            *way, last = self.signature.split(".")
            node = item
            for name in way:
                node = node.setdefault(name, {})
                if not isinstance(node, dict):
                    raise UsageError(f"{self.signature} must have room: {name} is no object")
            node[last] = self.make_item_signature(key, body, item)
        draft.body = json.dumps(body.value, ensure_ascii=False, separators=(",", ":")).encode()

    def covers(self, selector: Selector) -> bool:
        return selector.kind == "body" and selector.name in self.fields

    def dedup_content_of_item(self, body: JsonDocument, item: Any) -> bytes:
        return self.content(body, item)

    def describe_location(self) -> str:
        return f"{self.signature} in the body"

    def dedup_content(self, delivery: Delivery) -> bytes:
        # Not the raw body: what is not signed in it can be changed at will.
        try:
            body = parse_json(delivery.body)
            items = items_of(body.value, self.items)
            return b"\n".join(self.content(body, item) for item in items)
        except (UnreadableBody, Rejected):
            return delivery.body


def items_of(value: Any, where: tuple[str, str]) -> list[Any]:
    """The items of a body."""
    listed = value.get(where[0]) if isinstance(value, dict) else None
    if isinstance(listed, list):
        return [one.get(where[1]) if isinstance(one, dict) else None for one in listed]
    return [value]


def text_at(body: JsonDocument, item: Any, path: str) -> str:
    """A field as it is signed; a field that is not there is signed as nothing."""
    node = item
    for key in path.split("."):
        if not isinstance(node, dict):
            return ""
        if body.ambiguous(node, key):
            raise Rejected(Code.MALFORMED, f"{path} is in the body more than once")
        node = node.get(key)
    return "" if node is None or isinstance(node, dict | list) else text_of(node)
