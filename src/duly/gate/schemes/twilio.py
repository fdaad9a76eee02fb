"""What Twilio signs: the URL, followed by every field of the form in the order of its name.

A JSON body is not signed itself: its digest is the parameter ``bodySHA256`` of the URL that is.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, parse_qsl, urlsplit

from duly._kernel.errors import Code, Rejected
from duly.gate.places import FORM
from duly.gate.reading import Odd, form_of
from duly.gate.schemes.contents import Content

if TYPE_CHECKING:
    from duly.gate.delivery import Delivery
    from duly.gate.places import Place
    from duly.gate.schemes.base import Draft

DEFAULT_PORTS = {"https": "443", "http": "80"}


@dataclass(frozen=True, slots=True)
class UrlAndForm(Content):
    """The URL and the sorted fields, with and without the port: Twilio signs either."""

    def variants(self, delivery: Delivery, timestamp: bytes) -> list[bytes]:  # noqa: ARG002
        fields = sorted_fields(delivery)
        url = delivery.needed_url().decode()
        return [one.encode() + fields for one in dict.fromkeys((url, *ports(url)))]

    def prepare(self, draft: Draft) -> None:
        told = draft.headers.get("Content-Type", FORM)
        if not told.startswith(FORM) and draft.url is not None and "bodySHA256=" not in draft.url:
            joint = "&" if "?" in draft.url else "?"
            draft.url += f"{joint}bodySHA256={hashlib.sha256(draft.body).hexdigest()}"

    def covers(self, place: Place) -> bool:
        return place.kind in ("form", "body", "query")

    def essence(self, delivery: Delivery) -> bytes:
        # Not the raw body: its fields can be put in another order, or escaped in another way,
        # without breaking the signature.
        url = delivery.needed_url().decode()
        return (ports(url) or [url])[0].encode() + sorted_fields(delivery)


def sorted_fields(delivery: Delivery) -> bytes:
    """The fields of the form, or nothing where the URL already vouches for the body."""
    if vouched(delivery):
        return b""
    try:
        fields = form_of(delivery.body)
    except Odd:
        raise Rejected(Code.MALFORMED, "the body is neither a form nor vouched for") from None
    return "".join(name + value for name, value in sorted(set(fields))).encode()


def vouched(delivery: Delivery) -> bool:
    """Whether the URL carries the digest of this very body."""
    try:
        query = parse_qsl(urlsplit(delivery.url or "").query, max_num_fields=1000)
    except ValueError:
        return False
    told = [value for name, value in query if name == "bodySHA256"]
    digest = hashlib.sha256(delivery.body).hexdigest().encode()
    return len(told) == 1 and hmac.compare_digest(digest, told[0].encode("utf-8", "replace"))


def ports(url: str) -> list[str]:
    """The URL without its port, and with the port of its scheme where it names none."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return []
    usual = DEFAULT_PORTS.get(parts.scheme)
    if port is not None:
        return [with_host(parts, parts.netloc.rpartition(":")[0])]
    return [url] if usual is None else [url, with_host(parts, f"{parts.netloc}:{usual}")]


def with_host(parts: SplitResult, netloc: str) -> str:
    """The URL at another host, or another port of it."""
    return parts._replace(netloc=netloc).geturl()
