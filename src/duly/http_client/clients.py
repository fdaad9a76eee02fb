"""``job.http``: httpx clients for a job, behind the egress guard.

An unsafe call must be named, so that two calls of one job never share an idempotency key and the
same call has the same key in every attempt.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import httpx

from duly.core.errors import UsageError
from duly.jobs.tx import refuse_inside

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

Address: TypeAlias = "httpx.URL | str"
Streamed: TypeAlias = "AbstractContextManager[httpx.Response]"
AsyncStreamed: TypeAlias = "AbstractAsyncContextManager[httpx.Response]"
SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
# The extension that carries the name of a call through httpx, which has no parameter for it.
NAMED = "duly.key"
HEADER = "Idempotency-Key"
INSTEAD = (
    "a transaction cannot contain a call. Stage it with tx.send(…), or make the call in a job "
    "without tx"
)


class CallKeys:
    """Adds the idempotency keys to the calls of one job.

    Args:
        key_of: the key of a call by its name.
    """

    def __init__(self, key_of: Callable[[str], str]) -> None:
        self._key_of = key_of
        # The digest of the request sent under each name so far.
        self._seen: dict[str, bytes] = {}

    def add_key(self, request: httpx.Request, body: bytes | None, only: str | None) -> None:
        """Add the key of a call; refuse an unsafe call without a name."""
        if request.method.upper() in SAFE:
            return
        refuse_inside("job.http", INSTEAD, would="would have happened")
        name = request.extensions.get(NAMED, only)
        if name is None:
            raise UsageError(
                f"{request.method} may change something, so a repeated attempt must carry the key "
                'of the first: name the call, as in job.http.post(url, key="charge", …)'
            )
        self._refuse_second(name, request, body)
        request.headers[HEADER] = self._key_of(name)

    def _refuse_second(self, name: str, request: httpx.Request, body: bytes | None) -> None:
        """Refuse a second, different request under one name; repeating the first is fine."""
        multipart = request.headers.get("content-type", "").startswith("multipart/")
        # The boundary of such a body is a new one each time.
        content = b"" if multipart else body or b""
        digest = hashlib.sha256(f"{request.method} {request.url}\0".encode() + content).digest()
        if self._seen.setdefault(name, digest) != digest:
            raise UsageError(
                f"another call of this job is named {name!r}, and this one would carry its key: "
                "give each call a name of its own, and a repeated one the same request"
            )


class KeyedTransport(httpx.BaseTransport):
    """The guarded transport with the keys of one job; closing it keeps the connections open."""

    def __init__(
        self, inner: httpx.BaseTransport, naming: CallKeys, name: str | None = None
    ) -> None:
        self._inner = inner
        self._naming = naming
        self._name = name

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Add the key and send the request."""
        unsafe = request.method.upper() not in SAFE
        self._naming.add_key(request, request.read() if unsafe else None, self._name)
        return self._inner.handle_request(request)


class AsyncKeyedTransport(httpx.AsyncBaseTransport):
    """An async transport with the keys of one job; closing it keeps the connections open."""

    def __init__(
        self, inner: httpx.AsyncBaseTransport, naming: CallKeys, name: str | None = None
    ) -> None:
        self._inner = inner
        self._naming = naming
        self._name = name

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Add the key and send the request."""
        unsafe = request.method.upper() not in SAFE
        self._naming.add_key(request, await request.aread() if unsafe else None, self._name)
        return await self._inner.handle_async_request(request)


def with_name(options: dict[str, Any], key: str | None) -> dict[str, Any]:
    """The options of a request, with the name of the call among its extensions."""
    if key is None:
        return options
    return {**options, "extensions": {**(options.get("extensions") or {}), NAMED: key}}


class Client(httpx.Client):
    """``job.http`` in a sync handler: httpx's client, whose calls take ``key=``."""

    def __init__(self, guarded: httpx.BaseTransport, key_of: Callable[[str], str]) -> None:
        self._guarded = guarded
        self._naming = CallKeys(key_of)
        super().__init__(
            transport=KeyedTransport(guarded, self._naming),
            trust_env=False,
            follow_redirects=False,
        )

    def transport(self, key: str | None = None) -> httpx.BaseTransport:
        """A transport for a library that is built on httpx; with ``key=`` for one unsafe call."""
        return KeyedTransport(self._guarded, self._naming, key)

    def __enter__(self) -> Self:
        """Do nothing: the client is open as long as its job runs."""
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: its connections are shared with other jobs."""

    def request(
        self, method: str, url: Address, *, key: str | None = None, **options: Any
    ) -> httpx.Response:
        """Make a call; ``key=`` names it, as an unsafe one must be."""
        return super().request(method, url, **with_name(options, key))

    def stream(  # type: ignore[override]  # httpx names a private class
        self, method: str, url: Address, *, key: str | None = None, **options: Any
    ) -> Streamed:
        """Make a call, and read its response in parts."""
        return super().stream(method, url, **with_name(options, key))

    def post(self, url: Address, *, key: str | None = None, **options: Any) -> httpx.Response:
        """POST, with ``key=`` for the name of the call."""
        return self.request("POST", url, key=key, **options)

    def put(self, url: Address, *, key: str | None = None, **options: Any) -> httpx.Response:
        """PUT, with ``key=`` for the name of the call."""
        return self.request("PUT", url, key=key, **options)

    def patch(self, url: Address, *, key: str | None = None, **options: Any) -> httpx.Response:
        """PATCH, with ``key=`` for the name of the call."""
        return self.request("PATCH", url, key=key, **options)

    def delete(self, url: Address, *, key: str | None = None, **options: Any) -> httpx.Response:
        """DELETE, with ``key=`` for the name of the call."""
        return self.request("DELETE", url, key=key, **options)


class AsyncClient(httpx.AsyncClient):
    """``job.http`` in an async handler: httpx's client, whose calls take ``key=``."""

    def __init__(
        self,
        guarded: httpx.AsyncBaseTransport,
        key_of: Callable[[str], str],
        must_await: Callable[[str, Coroutine[Any, Any, httpx.Response]], Awaitable[httpx.Response]],
    ) -> None:
        self._guarded = guarded
        self._must_await = must_await
        self._naming = CallKeys(key_of)
        super().__init__(
            transport=AsyncKeyedTransport(guarded, self._naming),
            trust_env=False,
            follow_redirects=False,
        )

    def transport(self, key: str | None = None) -> httpx.AsyncBaseTransport:
        """A transport for a library that is built on httpx; with ``key=`` for one unsafe call."""
        return AsyncKeyedTransport(self._guarded, self._naming, key)

    async def request(
        self, method: str, url: Address, *, key: str | None = None, **options: Any
    ) -> httpx.Response:
        """Make a call; ``key=`` names it, as an unsafe one must be."""
        return await super().request(method, url, **with_name(options, key))

    async def __aenter__(self) -> Self:
        """Do nothing: the client is open as long as its job runs."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Do nothing: its connections are shared with other jobs."""

    def stream(  # type: ignore[override]  # httpx names a private class
        self, method: str, url: Address, *, key: str | None = None, **options: Any
    ) -> AsyncStreamed:
        """Make a call, and read its response in parts."""
        return super().stream(method, url, **with_name(options, key))

    def post(  # type: ignore[override]  # to know whether it was awaited
        self, url: Address, *, key: str | None = None, **options: Any
    ) -> Awaitable[httpx.Response]:
        """POST, with ``key=`` for the name of the call."""
        return self._must_await("job.http.post", self.request("POST", url, key=key, **options))

    def put(  # type: ignore[override]  # to know whether it was awaited
        self, url: Address, *, key: str | None = None, **options: Any
    ) -> Awaitable[httpx.Response]:
        """PUT, with ``key=`` for the name of the call."""
        return self._must_await("job.http.put", self.request("PUT", url, key=key, **options))

    def patch(  # type: ignore[override]  # to know whether it was awaited
        self, url: Address, *, key: str | None = None, **options: Any
    ) -> Awaitable[httpx.Response]:
        """PATCH, with ``key=`` for the name of the call."""
        return self._must_await("job.http.patch", self.request("PATCH", url, key=key, **options))

    def delete(  # type: ignore[override]  # to know whether it was awaited
        self, url: Address, *, key: str | None = None, **options: Any
    ) -> Awaitable[httpx.Response]:
        """DELETE, with ``key=`` for the name of the call."""
        return self._must_await("job.http.delete", self.request("DELETE", url, key=key, **options))
