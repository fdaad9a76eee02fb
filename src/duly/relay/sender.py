"""One attempt to send a message: by HTTP, or through the user's own transport."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections import Counter
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, TypeVar

from duly.core.errors import EgressRefused, UsageError
from duly.core.functions import refuse_unawaited
from duly.core.retry import NotYet, Outcome
from duly.http_client.job_clients import needs_http
from duly.outbox.message import message_of
from duly.outbox.outcome import Answered, Stuck, Unreached, Unsendable, Unsigned
from duly.outbox.registry import is_web
from duly.service.threads import run_on_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    import httpx

    from duly.http_client.async_transport import AsyncGuardedTransport
    from duly.outbox.lease import LeasedMessage
    from duly.outbox.message import Message
    from duly.outbox.registry import OutboxRegistry, Transport

logger = logging.getLogger("duly")
T = TypeVar("T")
# Calls of one signer that may hang; a signer may ask a server for a token.
MOST_SIGNING = 100
# Seconds that a coroutine has to end after it is cancelled.
OBEYING = 1.0
# Pieces of a response that are read: each costs some time.
MOST_PARTS = 200
# Seconds for the body of a response, of which nothing is kept.
READING = 2.0
# Parsed URLs that are cached.
MOST_ADDRESSES = 256


@cache
def user_agent() -> str:
    """The User-Agent of the relay."""
    try:
        return f"duly/{version('duly')}"
    except PackageNotFoundError:
        return "duly"


def root_cause(problem: BaseException) -> str:
    """Return the operating system's message at the root of an error, or the error's own."""
    at: BaseException | None = problem
    while at is not None:
        if isinstance(at, OSError) and at.strerror:
            return at.strerror
        at = at.__cause__ or at.__context__
    return str(problem)


@dataclass(slots=True)
class ThreadCall:
    """A call on a thread: whether it has ended, and whether it was abandoned."""

    ended: bool = False
    abandoned: bool = False


class Sender:
    """Sends messages, in one event loop."""

    def __init__(self, outgoing: OutboxRegistry) -> None:
        self._outgoing = outgoing
        self._guarded: AsyncGuardedTransport | None = None
        self._agent = user_agent()
        self._addresses: dict[str, httpx.URL] = {}
        # Abandoned calls whose threads have not come back.
        self._hung: Counter[str] = Counter()
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Load the HTTP client, on a thread and before the first message: it takes a while."""
        try:
            self._http_transport()
        except ImportError:  # told where a message needs it
            return

    def timeout(self, destination: str) -> float:
        """Seconds that one attempt may take."""
        transport = self._outgoing.transports.get(destination)
        limit = self._outgoing.egress.deadline if transport is None else transport.timeout
        return limit.total_seconds()

    async def send(self, leased: LeasedMessage, most: float) -> None:
        """Send it; return if it has arrived, else raise what went wrong.

        ``most`` is how many seconds are left of its lease.
        """
        message = message_of(leased)
        limit = min(self.timeout(leased.destination), most)
        bound = asyncio.timeout(limit)
        try:
            async with bound:
                if is_web(leased.destination):
                    await self._send_by_http(leased, message, bound)
                else:
                    await self._send_by_transport(leased.destination, message)
        except TimeoutError as problem:
            if not bound.expired():  # the transport's own
                raise
            raise Unreached(f"there was no answer within {limit:.3g} seconds") from problem

    async def _send_by_http(
        self, leased: LeasedMessage, message: Message, bound: asyncio.Timeout
    ) -> None:
        try:
            import httpx
        except ImportError as problem:
            raise Unsendable(str(needs_http("sending by HTTP"))) from problem
        self._check_egress(message)
        headers = httpx.Headers({"User-Agent": self._agent})
        headers.update(message.headers)
        headers["Idempotency-Key"] = message.key
        headers.update(await self._signature(leased, message))
        try:
            url = self._parse_url(message.url)
            request = httpx.Request(message.method, url, headers=headers, content=message.body)
            response = await self._http_transport().handle_async_request(request)
        except httpx.InvalidURL as problem:
            raise EgressRefused(f"this is no URL: {problem}") from problem
        except httpx.LocalProtocolError as problem:  # nothing was sent: it says nothing of them
            raise Unsigned(f"this request cannot be written: {problem}") from problem
        except httpx.TransportError as problem:
            raise Unreached(f"{type(problem).__name__}: {root_cause(problem)}") from problem
        bound.reschedule(None)  # the status is known, and the rest has a bound of its own
        await self._drain_response(response)
        if not response.is_success:
            told = response.headers
            raise Answered(response.status_code, told.get("retry-after"), told.get("location"))

    def _parse_url(self, url: str) -> httpx.URL:
        """Parse a URL, with a cache: messages go to the same few, and parsing is slow."""
        import httpx

        found = self._addresses.get(url)
        if found is None:
            if len(self._addresses) >= MOST_ADDRESSES:
                self._addresses.clear()
            found = self._addresses[url] = httpx.URL(url)
        return found

    def _check_egress(self, message: Message) -> None:
        """Refuse a URL that this process does not allow: another relay may send it.

        During a deploy the guards of two processes differ. Addresses are checked on connect.
        """
        try:
            self._outgoing.egress.check(message.url)
        except EgressRefused as problem:
            raise Unsendable(str(problem)) from problem

    async def _drain_response(self, response: Any) -> None:
        """Read the response to its end, so that the connection can be reused; or close it.

        The status is the outcome: a body that breaks or drips changes nothing.
        """
        import httpx

        read = parts = 0
        try:
            async with asyncio.timeout(READING):
                async for part in response.stream:
                    read, parts = read + len(part), parts + 1
                    if read > self._outgoing.egress.limit or parts > MOST_PARTS:
                        break
        except (httpx.TransportError, TimeoutError) as problem:
            logger.debug("the rest of a response was not read: %r", problem)
        finally:
            await response.aclose()

    async def _signature(self, leased: LeasedMessage, message: Message) -> Mapping[str, str]:
        if leased.signer is None:
            return {}
        signer = self._outgoing.signers.get(leased.signer)
        if signer is None:
            raise Unsendable(
                f"this process has no signer {leased.signer}: register it with app.signer(…)"
            )
        try:
            if not signer.blocks:
                return signer.headers(message)
            name = f"signer {leased.signer}"
            return await self._call_on_thread(name, MOST_SIGNING, lambda: signer.headers(message))
        except Stuck:
            raise
        except Exception as problem:  # it is the user's, or its key is over
            raise Unsigned(f"the signer {leased.signer} failed: {problem}") from problem

    def _http_transport(self) -> AsyncGuardedTransport:
        if self._guarded is None:
            from duly.http_client.async_transport import AsyncGuardedTransport

            # How much of a response is read is decided here, and nothing is decompressed.
            self._guarded = AsyncGuardedTransport(
                self._outgoing.egress, limit=sys.maxsize, unpacked=False
            )
        return self._guarded

    async def _send_by_transport(self, name: str, message: Message) -> None:
        transport = self._outgoing.transports.get(name)
        if transport is None:
            raise Unsendable(
                f"this process has no transport {name}: register it with @app.transport({name!r})"
            )
        offered = {"message": message, "key": message.key}
        wanted = {one: offered[one] for one in transport.wants}
        try:
            answer = await self._call_transport(transport, wanted)
        except NotYet as problem:
            answer = problem
        refuse_unawaited(answer, f"transport {name}")
        if isinstance(answer, NotYet):
            raise UsageError(f"transport {name} said NotYet, which is for jobs: say Retry(after=…)")
        if isinstance(answer, Outcome):
            raise answer
        if isinstance(answer, type) and issubclass(answer, Outcome):
            raise UsageError(f"transport {name} returned the class {answer.__name__}: call it")

    async def _call_transport(self, transport: Transport, wanted: dict[str, object]) -> object:
        """Call a transport; a sync one runs on a thread of its own."""
        if transport.mode == "async":
            return await await_or_abandon(transport.call(**wanted))
        name = f"transport {transport.name}"
        return await self._call_on_thread(
            name, transport.concurrency, lambda: transport.call(**wanted)
        )

    def count_hung(self, destination: str) -> int:
        """How many abandoned calls of a transport have not come back."""
        return self._hung.get(f"transport {destination}", 0)

    async def _call_on_thread(self, name: str, most: int, call: Callable[[], T]) -> T:
        """Make a blocking call on a thread; refused if too many of its kind hang."""
        with self._lock:
            if self._hung[name] >= most:
                raise Stuck(f"{self._hung[name]} earlier calls of {name} hang")
        state = ThreadCall()

        def call_and_count() -> T:
            try:
                return call()
            finally:
                with self._lock:
                    state.ended = True
                    self._hung[name] -= state.abandoned

        try:
            return await run_on_thread(call_and_count)
        except asyncio.CancelledError:
            with self._lock:
                state.abandoned = not state.ended
                self._hung[name] += state.abandoned
            raise

    async def close(self) -> None:
        """Close every connection."""
        if self._guarded is not None:
            await self._guarded.aclose()


async def await_or_abandon(call: Coroutine[Any, Any, object]) -> object:
    """Await a coroutine; if it is cancelled and does not end, leave it behind."""
    task = asyncio.ensure_future(contain_system_exit(call))
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # it was seen
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task}, timeout=OBEYING)
        raise
    return task.result()


async def contain_system_exit(call: Coroutine[Any, Any, object]) -> object:
    """Await a call; ``sys.exit()`` in it is an error of the call, not the end of the event loop."""
    try:
        return await call
    except SystemExit as problem:
        raise RuntimeError(repr(problem)) from problem
