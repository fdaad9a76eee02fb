"""``deliver``: genuine deliveries through the receiving path of an application, in this process."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypedDict

from duly.app.options import checked_switch
from duly.app.sync import loop_is_running
from duly.core.errors import UsageError
from duly.core.exports import show_keywords
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
    from typing import Unpack

    from duly.app.duly import Duly
    from duly.testing.deliveries import Payload, Wrong
    from duly.webhooks.sign import Signed
    from duly.webhooks.source import Source

# As the test clients of Django and Starlette call it: their sites believe that name.
ORIGIN = "https://testserver"
# More copies at one instant need more threads than a test should have.
MOST_AT_ONCE = 200
MOST_TIMES = 100_000


class DeliverOptions(TypedDict, total=False):
    """The options of `Deliver`, which explains each."""

    id: str | None
    type: str | None
    times: int
    at_once: bool
    headers: Mapping[str, str] | None
    wrong: Wrong | None
    age: timedelta | None
    secret: object
    site: object
    path: str | None


class Copies(NamedTuple):
    """A delivery, and how often it is made."""

    delivery: RequestedDelivery
    times: int
    at_once: bool


class Deliver:
    """Delivers events to one application: signed as by their provider, verified by the app.

    ``deliver(…)`` is sync and goes through WSGI, ``await deliver.aio(…)`` through ASGI; with
    ``site=`` each goes through what the site is.
    """

    def __init__(self, app: Duly) -> None:
        self._app = app
        self._keys = SigningKeys()

    @show_keywords(DeliverOptions, times=1, at_once=False)
    def __call__(
        self, source: str, payload: Payload = None, **options: Unpack[DeliverOptions]
    ) -> Answers:
        """Deliver an event, and return the answers that its sender got.

        Args:
            source: the name of a source of the app.
            payload: what the body says, as a dictionary or list; or its bytes, its text, or the
                ``pathlib.Path`` of a file, which are sent as they are. Unless given, the sample of
                the provider's profile, as a fresh event.
            **options: ``id`` is the event id and ``type`` its type, written where this provider
                has them. ``times`` is how many copies, each as its sender would sign it;
                ``at_once`` sends all of them at the same instant. ``headers`` are further headers.
                ``wrong`` is what is not genuine about it: the ``signature`` is a stranger's, the
                ``body`` was changed after it was signed, or the ``time`` is too long ago. ``age``
                is how long ago it was signed. ``secret`` is what to sign with, unless with the
                source's own. ``site`` is the ASGI or WSGI application that the app is mounted in,
                to go through that, and ``path`` where the source is there, ``/source`` unless
                given.
        """
        options = with_hidden_secret(options)
        copies = self._copies(source, payload, **options)
        site = options.get("site")
        target = self._app.wsgi if site is None else site
        if is_asgi(target):
            if loop_is_running():
                raise UsageError("this site is awaited, and so is the test: await deliver.aio(…)")
            return asyncio.run(self._deliver_in_own_loop(target, copies))
        if copies.at_once:
            return self._deliver_at_once(target, copies)
        return Answers([call_wsgi(target, self._sign_attempt(copies)) for _ in range(copies.times)])

    @show_keywords(DeliverOptions, times=1, at_once=False)
    async def aio(
        self, source: str, payload: Payload = None, **options: Unpack[DeliverOptions]
    ) -> Answers:
        """`deliver(…)`, awaited."""
        options = with_hidden_secret(options)
        copies = self._copies(source, payload, **options)
        site = options.get("site")
        return await self._deliver_async(self._app if site is None else site, copies)

    def _copies(  # noqa: PLR0913  # what a delivery is made of, each by its name
        self,
        source: str,
        payload: Payload,
        *,
        id: str | None = None,
        type: str | None = None,
        times: int = 1,
        at_once: bool = False,
        headers: Mapping[str, str] | None = None,
        wrong: Wrong | None = None,
        age: timedelta | None = None,
        secret: object = None,
        site: object = None,  # noqa: ARG002  # where they go is not what they are
        path: str | None = None,
    ) -> Copies:
        """What to deliver, checked."""
        wanted = DeliveryRequest(
            payload, id, type, headers, checked_wrong(wrong), age, secret, path
        )
        delivery = self._build_delivery(source, wanted)
        return Copies(delivery, checked_copies(times, at_once), at_once)

    def _build_delivery(self, name: str, wanted: DeliveryRequest) -> RequestedDelivery:
        refuse_foreign(self._app)
        source, now = self._app.router.route_named(name).source, self._now()
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

    def _sign_attempt(self, copies: Copies) -> Signed:
        return copies.delivery.sign_attempt(self._now())

    def _deliver_at_once(self, target: Any, copies: Copies) -> Answers:
        """Copies on as many threads, which begin together."""
        signed, barrier = self._sign_attempt(copies), threading.Barrier(copies.times)

        def post(_: int) -> Answer:
            barrier.wait()
            return call_wsgi(target, signed)

        with ThreadPoolExecutor(copies.times, "duly-deliver") as threads:
            return Answers(list(threads.map(post, range(copies.times))))

    async def _deliver_async(self, target: Any, copies: Copies) -> Answers:
        if not copies.at_once:
            return Answers(
                [await call_site(target, self._sign_attempt(copies)) for _ in range(copies.times)]
            )
        signed = self._sign_attempt(copies)
        posts = [call_site(target, signed) for _ in range(copies.times)]
        return Answers(await asyncio.gather(*posts))

    async def _deliver_in_own_loop(self, target: Any, copies: Copies) -> Answers:
        """Deliver in an event loop of its own, and close what that leaves open."""
        try:
            return await self._deliver_async(target, copies)
        finally:
            await self._app.receiver.metrics.aclose()
            await self._app.process.release_loop()

    def close(self) -> None:
        """Remove the lent keys from the sources."""
        self._keys.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def with_hidden_secret(options: DeliverOptions) -> DeliverOptions:
    """The options for a frame that a failed test may print: the secret does not show itself."""
    secret = options.get("secret")
    return options if secret is None else {**options, "secret": hide(secret)}


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
