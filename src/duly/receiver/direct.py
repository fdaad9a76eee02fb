"""`app.receive()`: a delivery from a framework without an adapter, a script or a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.core.errors import UsageError
from duly.core.validation import kind
from duly.receiver.pipeline import allows, method_not_allowed
from duly.receiver.request import Request, refuse_encoding, too_large
from duly.receiver.responses import RequestRefused
from duly.webhooks.delivery import Delivery, checked_body, fields_of

if TYPE_CHECKING:
    from duly.inbox.route import Route
    from duly.receiver.responses import Reply
    from duly.webhooks.delivery import Headers


def check_direct_delivery(
    route: Route,
    headers: Headers,
    body: bytes,
    *,
    method: str = "POST",
    url: str | None = None,
    remote: str | None = None,
) -> tuple[Request, bytes] | Reply:
    """Check what the receiver checks of a request it read; return the reply of a refusal."""
    given: dict[str, object] = {"method": method, "url": url, "remote": remote}
    for what, value in given.items():
        if not isinstance(value, str) and (value is not None or what == "method"):
            raise UsageError(f"{what} must be a string, not {kind(value)}")
    raw = checked_body(body)
    fields = fields_of(headers)
    encoding = Delivery(fields, raw, url, method, 0.0).header_text("content-encoding")
    encoding = None if encoding is None else encoding.strip().lower()
    try:
        if not allows(route, method):
            return method_not_allowed(route)
        if "content-encoding" in fields:
            refuse_encoding(encoding or "several", decompress=route.decompress)
        if len(raw) > route.max_body:
            raise too_large(route.max_body)
    except RequestRefused as problem:
        return problem.reply
    return Request(method, headers, url or "", remote, encoding, len(raw)), raw
