"""``deliver``: genuine deliveries through the receiving path of an application, in this process."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self

from duly.app.options import checked_switch
from duly.app.sync import loop_is_running
from duly.core.errors import UsageError
from duly.core.validation import checked_count
from duly.testing.answers import Answer, Answers
from duly.testing.client import call_asgi, call_wsgi, is_asgi
from duly.testing.clocks import time_of
from duly.testing.deliveries import (
    DeliveryRequest,
    RequestedDelivery,
    age_of,
    checked_wrong,
    event_for,
)
from duly.testing.guard import refuse_foreign
from duly.testing.keys import SigningKeys
from duly.webhooks.secrets import hide, secrets_of
from duly.webhooks.sign import fitting_scheme

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from duly.app.duly import Duly
    from duly.testing.deliveries import Payload, Wrong
    from duly.webhooks.sign import Signed
    from duly.webhooks.source import Source

# As the test clients of Django and Starlette call it: their sites believe that name.
ORIGIN = "https://testserver"
# More copies at one instant need more threads than a test should have.
MOST_AT_ONCE = 200
MOST_TIMES = 100_000


class Deliver:
    """Delivers events to one application: signed by their provider, read by the app's own gate.

    ``deliver(…)`` blocks and goes the way of WSGI, ``await deliver.aio(…)`` that of ASGI; with
    ``site=`` the way of whatever the site is.
    """

    def __init__(self, app: Duly) -> None:
        self._app = app
        self._keys = SigningKeys()

    def __call__(  # noqa: PLR0913  # what a delivery is made of, each by its name
        self,
        source: str,
        payload: Payload = None,
        *,
        id: str | None = None,
        type: str | None = None,
        times: int = 1,
        at_once: bool = False,
        headers: Mapping[str, str] | None = None,
        wrong: Wrong | None = None,
        age: timedelta | None = None,
        secret: object = None,
        site: object = None,
        path: str | None = None,
    ) -> Answers:
        """Deliver an event, and return what its sender was told.

        Args:
            source: the name of a source of the app.
            payload: what the body says, as a dictionary or list; or its bytes, its text, or the
                ``pathlib.Path`` of a file, which are sent as they are. Unless given, the sample of
                the provider's profile, as a fresh event.
            id: the event id, written where this provider has it.
            type: the event type, the same.
            times: how many copies, each as its sender would sign it.
            at_once: send all copies at the same instant, instead of one after the other.
            headers: further headers.
            wrong: what is not genuine about it: the ``signature`` is a stranger's, the ``body`` was
                changed after it was signed, or the ``time`` is too long ago.
            age: how long ago it was signed.
            secret: what to sign with, unless with the source's own secret.
            site: the ASGI or WSGI application that the app is mounted in, to go through that.
            path: where the source is, there; ``/source`` unless given.
        """
        secret = None if secret is None else hide(secret)  # a failed test may print this frame
        wanted = DeliveryRequest(
            payload, id, type, headers, checked_wrong(wrong), age, secret, path
        )
        parcel = self._build_delivery(source, wanted)
        count = checked_copies(times, at_once)
        target = self._app.wsgi if site is None else site
        if is_asgi(target):
            if loop_is_running():
                raise UsageError("this site is awaited, and so is the test: await deliver.aio(…)")
            return asyncio.run(self._deliver_in_own_loop(target, parcel, count, at_once=at_once))
        if at_once:
            return self._deliver_at_once(target, parcel, count)
        return Answers([call_wsgi(target, self._sign_attempt(parcel)) for _ in range(count)])

    async def aio(  # noqa: PLR0913
        self,
        source: str,
        payload: Payload = None,
        *,
        id: str | None = None,
        type: str | None = None,
        times: int = 1,
        at_once: bool = False,
        headers: Mapping[str, str] | None = None,
        wrong: Wrong | None = None,
        age: timedelta | None = None,
        secret: object = None,
        site: object = None,
        path: str | None = None,
    ) -> Answers:
        """The same, awaited."""
        secret = None if secret is None else hide(secret)  # a failed test may print this frame
        wanted = DeliveryRequest(
            payload, id, type, headers, checked_wrong(wrong), age, secret, path
        )
        parcel = self._build_delivery(source, wanted)
        count = checked_copies(times, at_once)
        target = self._app if site is None else site
        return await self._deliver_async(target, parcel, count, at_once=at_once)

    def _build_delivery(self, name: str, wanted: DeliveryRequest) -> RequestedDelivery:
        refuse_foreign(self._app)
        source, now = self._app.site.route_named(name).source, self._now()
        given = wanted.secret
        signer = self._keys.signing_secret(source, now) if given is None else secrets_of(given)[0]
        scheme = fitting_scheme(source.provider.schemes, signer)
        age = age_of(source, scheme, wanted)
        return RequestedDelivery(
            source,
            self._keys.unknown_secret(source, signer) if wanted.wrong == "signature" else signer,
            event_for(source.provider, wanted, now - age),
            f"{ORIGIN}{path_of(source, wanted.path)}",
            wanted.headers,
            age,
            wanted.wrong,
        )

    def _now(self) -> datetime:
        return time_of(self._app.store.clock)

    def _sign_attempt(self, parcel: RequestedDelivery) -> Signed:
        return parcel.sign_attempt(self._now())

    def _deliver_at_once(self, target: Any, parcel: RequestedDelivery, count: int) -> Answers:
        """Copies on as many threads, which begin together."""
        signed, gate = self._sign_attempt(parcel), threading.Barrier(count)

        def post(_: int) -> Answer:
            gate.wait()
            return call_wsgi(target, signed)

        with ThreadPoolExecutor(count, "duly-deliver") as threads:
            return Answers(list(threads.map(post, range(count))))

    async def _deliver_async(
        self, target: Any, parcel: RequestedDelivery, count: int, *, at_once: bool
    ) -> Answers:
        if not at_once:
            return Answers(
                [await call_site(target, self._sign_attempt(parcel)) for _ in range(count)]
            )
        signed = self._sign_attempt(parcel)
        posts = [call_site(target, signed) for _ in range(count)]
        return Answers(await asyncio.gather(*posts))

    async def _deliver_in_own_loop(
        self, target: Any, parcel: RequestedDelivery, count: int, *, at_once: bool
    ) -> Answers:
        """The same in an event loop that is gone afterwards, and must leave nothing open."""
        try:
            return await self._deliver_async(target, parcel, count, at_once=at_once)
        finally:
            await self._app.receiver.metrics.aclose()
            await self._app.process.release_loop()

    def close(self) -> None:
        """Have the sources forget the keys that they were lent."""
        self._keys.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def call_site(target: Any, signed: Signed) -> Answer:
    """The answer of a site of either kind, awaited."""
    if is_asgi(target):
        return await call_asgi(target, signed)
    return await asyncio.to_thread(call_wsgi, target, signed)


def checked_copies(times: object, at_once: object) -> int:
    """How many copies there are to be."""
    most = MOST_AT_ONCE if checked_switch("at_once", at_once) else MOST_TIMES
    return checked_count("times", times, most=most)


def path_of(source: Source, path: object) -> str:
    """Where in the site the source is."""
    if path is None:
        return f"/{source.name}"
    if not isinstance(path, str) or not path.startswith("/"):
        raise UsageError('path must begin with a slash: path="/webhooks/orders"')
    return path
