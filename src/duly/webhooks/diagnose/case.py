"""A rejected delivery under examination, and the means to try what would have made it genuine.

A suspicion yields guesses. A guess is a sentence, where the evidence is plain, or a `Trial`: a
source and a delivery that differ from the given ones in one respect. If the trial verifies, its
sentence is the explanation, and it is proved: only the secret could have made it so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from duly.core.errors import Rejected, UsageError
from duly.webhooks.delivery import Delivery, Fields
from duly.webhooks.secrets import Secret
from duly.webhooks.selectors import parse_selector
from duly.webhooks.source import Source
from duly.webhooks.verify import match_signature, verify_delivery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from duly.webhooks.event_fields import VerifiedDelivery
    from duly.webhooks.provider import Provider
    from duly.webhooks.schemes.scheme import Scheme

QUERY = parse_selector("query:any")


class VerifyAttempt(NamedTuple):
    """What might have been meant, and what to say if it was."""

    source: Source
    delivery: Delivery
    sentence: str


Guess: TypeAlias = "VerifyAttempt | str"
Suspicion: TypeAlias = "Callable[[RejectedCase], Iterable[Guess]]"


@dataclass(frozen=True, slots=True)
class RejectedCase:
    """A delivery that was rejected, and everything that is known about it.

    ``lenient`` is the source without its limits of time and taste: what it verifies has a good
    signature, though something else may be wrong.
    """

    source: Source
    delivery: Delivery
    problem: Rejected
    others: tuple[Source, ...]
    lenient: Source = field(init=False)

    def __post_init__(self) -> None:
        lenient = source_like(self.source, [without_end(one) for one in self.source.secrets])
        object.__setattr__(self, "lenient", lenient or self.source)

    @property
    def title(self) -> str:
        """The provider, as people write its name."""
        return self.source.provider.title or self.source.provider.name

    @property
    def schemes(self) -> list[Scheme[Any]]:
        """The ways to sign that this source accepts, the one that is meant first."""
        listed = [scheme for scheme, _ in self.source.schemes]
        return sorted(listed, key=lambda scheme: not carries_signature(scheme, self.delivery))

    def present_schemes(self) -> Iterator[Scheme[Any]]:
        """The scheme that is meant; nothing where there is no signature to be made good."""
        if carries_signature(self.schemes[0], self.delivery):
            yield self.schemes[0]

    def trial(
        self,
        sentence: str,
        *,
        fields: Fields | None = None,
        body: bytes | None = None,
        url: str | None = None,
        method: str | None = None,
    ) -> VerifyAttempt:
        """The same source, and a delivery that differs."""
        given = self.delivery
        changed = Delivery(
            given.fields if fields is None else fields,
            given.body if body is None else body,
            given.url if url is None else url,
            given.method if method is None else method,
            given.now,
        )
        return VerifyAttempt(self.lenient, changed, sentence)


def try_verify(source: Source, delivery: Delivery) -> VerifiedDelivery | Rejected | None:
    """The outcome of `verify`; None where it needs a URL that was not passed."""
    try:
        return verify_delivery(source, delivery)
    except Rejected as problem:
        return problem
    except UsageError:
        return None


def verifies(source: Source, delivery: Delivery) -> bool:
    """Whether the signature of a delivery is good."""
    try:
        match_signature(source, delivery)
    except (Rejected, UsageError):
        return False
    return True


def carries_signature(scheme: Scheme[Any], delivery: Delivery) -> bool:
    """Whether a signature of this kind is there; one that is there twice is there."""
    try:
        return scheme.is_present(delivery)
    except Rejected:
        return True


def signs_url(case: RejectedCase) -> bool:
    """Whether the URL is among what this source's provider signs."""
    return any(scheme.covers(QUERY) for scheme in case.present_schemes())


def without_end(secret: Secret) -> Secret:
    """A secret as if it had not ended."""
    return Secret(secret.reveal(), name=secret.name, key_id=secret.key_id)


def source_like(
    source: Source,
    secrets: Iterable[Secret] | None = None,
    *,
    provider: Provider | None = None,
    legacy: bool | None = None,
) -> Source | None:
    """A lenient source with one thing changed; None where the secrets do not fit."""
    try:
        return Source(
            source.provider if provider is None else provider,
            [without_end(one) for one in source.secrets] if secrets is None else list(secrets),
            name=source.name,
            url=source.url,
            tolerance=None,
            legacy=source.legacy if legacy is None else legacy,
            limits=source.limits,
        )
    except UsageError:
        return None
