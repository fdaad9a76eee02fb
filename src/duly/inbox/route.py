"""A source as the receiver serves it: where it is, what it may cost, and its handlers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from duly.core.clock import MICROSECOND
from duly.core.defaults import CLAIM_TTL
from duly.core.errors import UsageError
from duly.core.validation import checked_count, checked_duration, kind
from duly.jobs.handlers import Handlers

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.jobs.registry import Registries
    from duly.webhooks.event_fields import VerifiedDelivery
    from duly.webhooks.provider import Provider
    from duly.webhooks.receive_plan import ReceivePlan
    from duly.webhooks.schemes.scheme import Scheme
    from duly.webhooks.source import Source

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
RESERVED_NAMES: Final = ("healthz", "readyz")
# More than any provider sends except GitHub (25 MiB at most); raise it for a source that needs it.
MAX_BODY: Final = 1024 * 1024
LARGEST_BODY: Final = 512 * 1024 * 1024
# What says how a body is to be read, and who sent it.
ALWAYS_KEPT: Final = ("content-type", "user-agent")
# Stands for "the longer of 30 days and what this provider needs".
AS_NEEDED: Final = "as needed"
HEADER: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")


@dataclass(frozen=True, slots=True)
class Route:
    """One source, its options and its handlers."""

    source: Source
    tenant: Callable[[VerifiedDelivery], object] | None
    inline: bool
    max_body: int
    decompress: bool
    window: int | None  # microseconds; None is for ever
    body_retention: int | None
    headers: tuple[str, ...]
    # Whether the provider asks questions without a signature, which GET may carry.
    answers_handshakes: bool
    # What its handlers may enqueue.
    registries: Registries
    handlers: Handlers = field(default_factory=Handlers)
    signed_times: dict[Scheme[Any], bool] = field(default_factory=dict)

    # Reads most of its deliveries in the fewest steps; None where there is no shorter way.
    plan: ReceivePlan | None = None

    # The last part of its path, and of its scope.
    name: str = field(init=False)
    # Whether a small delivery may be received by callback: no code of the user's is in its path.
    is_fast: bool = field(init=False)
    # The stored headers: the name as it arrives, and as it is written in JSON.
    written_headers: tuple[tuple[bytes, str], ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.source.name)
        object.__setattr__(self, "is_fast", not self.inline and self.tenant is None)
        written = tuple((name.encode("latin-1"), json.dumps(name)) for name in self.headers)
        object.__setattr__(self, "written_headers", written)

    def scope(self, tenant: str | None) -> str:
        """The namespace of its events."""
        return scope_of(self.name, tenant)

    def time_is_signed(self, scheme: Scheme[Any]) -> bool:
        """Whether the time of an event can be believed under this scheme."""
        known = self.signed_times.get(scheme)
        if known is None:
            alternatives = self.source.provider.plan_for(scheme).time
            known = all(scheme.covers(part) for parts in alternatives for part in parts)
            self.signed_times[scheme] = known
        return known


def scope_of(source: str, tenant: str | None) -> str:
    """The namespace of a source's events. A name has no slash, so the last one ends the tenant."""
    return source if tenant is None else f"{tenant}/{source}"


def checked_name(name: object) -> str:
    """The name of a source, which is a part of its path."""
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        raise UsageError(
            "a source's name is a part of its path: 1 to 100 letters, digits, dots, hyphens and "
            "underscores"
        )
    if name in RESERVED_NAMES:
        raise UsageError(f"/{name} is where duly itself answers: choose another name")
    return name


def shortest_retention(source: Source) -> timedelta:
    """The shortest memory that is safe: for as long as a copy may come and still be genuine.

    A tolerance longer than the retries was chosen because retries carry their first time; it
    covers them then.
    """
    horizon = source.provider.retry_horizon
    tolerance = timedelta(seconds=source.tolerance or 0)
    return tolerance if tolerance >= horizon else horizon + tolerance


def checked_window(window: object, source: Source) -> int | None:
    """How long claims are kept; refuse to forget an event while its sender may still repeat it."""
    least = shortest_retention(source)
    if window is None:
        return None
    if window == AS_NEEDED:
        return max(CLAIM_TTL, least) // MICROSECOND
    chosen = checked_duration("window", window)
    if chosen < least // MICROSECOND:
        provider: Provider = source.provider
        raise UsageError(
            f"window={window} is too short for {source.name}: {provider.title or provider.name} "
            f"may send an event again for {provider.retry_horizon}, and this source accepts what "
            f"was signed up to {timedelta(seconds=source.tolerance or 0)} ago, so claims must be "
            f"kept for at least {least}"
        )
    return chosen


def checked_body_retention(retention: object) -> int | None:
    """How long bodies are kept."""
    return None if retention is None else checked_duration("body_retention", retention)


def checked_max_body(most: object) -> int:
    """How large a body may be."""
    return checked_count("max_body", most, most=LARGEST_BODY)


def checked_tenant(tenant: object) -> Callable[[VerifiedDelivery], object] | None:
    """The function that tells tenants apart."""
    if tenant is not None and not callable(tenant):
        raise UsageError(
            f"tenant must be a function of the verified delivery that returns a string, not "
            f"{kind(tenant)}"
        )
    return tenant


def kept_headers(provider: Provider, more: Iterable[str]) -> tuple[str, ...]:
    """The names of the headers that are stored: those a profile names, and those asked for."""
    given: object = more
    listed = isinstance(given, Iterable) and not isinstance(given, str)
    names: list[object] = list(more) if listed else [None]
    if not all(isinstance(name, str) for name in names):
        raise UsageError("headers must be a list of header names, such as ['X-Shop-Domain']")
    named = [
        part.name
        for selectors in provider.selectors.values()
        for parts in selectors.alternatives
        for part in parts
        if part.kind == "header"
    ]
    wanted = [str(name).lower() for name in names]
    for name in wanted:
        if HEADER.fullmatch(name) is None:
            raise UsageError(
                f"{name!r:.60} is no name of a header: write one such as X-Shop-Domain"
            )
    secret = {"authorization", "proxy-authorization", "cookie"}
    secret |= {name for scheme in provider.schemes for name in scheme.secret_headers()}
    if refused := secret.intersection(wanted):
        raise UsageError(
            f"the header {sorted(refused)[0]} holds a secret and is never stored: leave it out"
        )
    return tuple(dict.fromkeys([*ALWAYS_KEPT, *named, *wanted]))
