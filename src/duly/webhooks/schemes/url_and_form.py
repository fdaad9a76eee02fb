"""What Twilio signs: the URL, followed by every field of the form in the order of its name.

A JSON body is not signed itself: its digest is the parameter ``bodySHA256`` of the URL that is.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.core.errors import Code, Rejected
from duly.webhooks.schemes.template import Content, delivery_of_draft
from duly.webhooks.selectors import FORM
from duly.webhooks.strict_json import JSON_STARTS, UnreadableBody, form_of

if TYPE_CHECKING:
    from duly.webhooks.delivery import Delivery
    from duly.webhooks.schemes.scheme import Draft
    from duly.webhooks.selectors import Selector

# The user, the host (in brackets if it is an IPv6 address), and its port.
HOST = re.compile(
    r"(?P<name>(?:[^/?#@]*@)?(?:\[[^]/?#]*\]|[^/?#:@]*))(?::(?P<port>[0-9]+))?(?=[/?#]|\Z)"
)
DEFAULT_PORTS = {"https": "443", "http": "80"}


@dataclass(frozen=True, slots=True)
class UrlAndForm(Content):
    """The URL and the sorted fields."""

    def variants(self, delivery: Delivery, timestamp: bytes) -> list[bytes]:  # noqa: ARG002
        url = delivery.required_url().decode()
        fields = sorted_fields(delivery)
        return [one.encode() + fields for one in url_spellings(url)]

    def prepare(self, draft: Draft) -> None:
        is_form = delivery_of_draft(draft).header_text("content-type") == FORM
        if is_form and draft.body[:1] in JSON_STARTS:
            draft.set_header("Content-Type", "application/json")
            is_form = False
        if not is_form and draft.url is not None and "bodySHA256=" not in draft.url:
            joint = "&" if "?" in draft.url else "?"
            draft.url += f"{joint}bodySHA256={hashlib.sha256(draft.body).hexdigest()}"

    def covers(self, selector: Selector) -> bool:
        # The fields of a form are signed without anything between them, so that they can be cut
        # apart in other places; a JSON body is vouched for as a whole.
        return selector.kind in ("body", "query")

    def dedup_content(self, delivery: Delivery) -> bytes:
        # Not the raw body: its fields can be put in another order, or escaped in another way,
        # without breaking the signature.
        url = delivery.required_url().decode()
        whole = min(url_spellings(url)).encode() + sorted_fields(delivery)
        return whole.replace(b"'", b"%27")  # wherever the URL ends and the fields begin


def sorted_fields(delivery: Delivery) -> bytes:
    """The fields of the form, or nothing where the URL already vouches for the body."""
    if "bodySHA256=" in (delivery.url or ""):
        expected = b"bodySHA256=" + hashlib.sha256(delivery.body).hexdigest().encode()
        # Only at its end: what a person wrote in a message can stand anywhere else in a URL.
        last = re.split(rb"[?&]", delivery.required_url())[-1]
        if not hmac.compare_digest(expected, last):
            raise Rejected(Code.BAD_SIGNATURE, "the URL vouches for another body")
        return b""
    if delivery.body[:1] in JSON_STARTS:
        raise Rejected(Code.BAD_SIGNATURE, "the URL does not vouch for this JSON body")
    try:
        fields = form_of(delivery.body)
    except UnreadableBody:
        raise Rejected(Code.MALFORMED, "the body is neither a form nor vouched for") from None
    return "".join(name + value for name, value in sorted(set(fields))).encode()


def url_spellings(url: str) -> list[str]:
    """A URL in every way that Twilio may have signed it: ports and quotes are not kept as sent."""
    quotes = (url, url.replace("%27", "'"), url.replace("'", "%27"))
    return list(dict.fromkeys(one for quoted in quotes for one in (quoted, *ports(quoted))))


def ports(url: str) -> list[str]:
    """The URL without its port, and with the port of its scheme where it names none.

    Cut as text: a parser would also mend what it takes for mistakes.
    """
    scheme, slashes, rest = url.partition("://")
    host = HOST.match(rest)
    if not slashes or host is None:
        return []
    name, port, path = host["name"], host["port"], rest[host.end() :]
    if port is not None:
        return [f"{scheme}://{name}{path}"]
    usual = DEFAULT_PORTS.get(scheme)
    return [] if usual is None else [f"{scheme}://{name}:{usual}{path}"]
