"""A configured sender: a provider, its secrets, and how strictly it is read."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from duly.core.errors import UsageError
from duly.core.exports import export
from duly.core.validation import checked_scope, kind
from duly.webhooks.provider import Provider
from duly.webhooks.providers import provider_named
from duly.webhooks.schemes.scheme import LoadedKey, Scheme
from duly.webhooks.secrets import Secret, hide, secrets_of
from duly.webhooks.strict_json import (
    DEFAULT_LIMITS,
    Limits,
    ParsedBody,
    looks_like_form,
    parse_form,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.webhooks.quick_check import QuickSignature
    from duly.webhooks.secrets import Secrets

MissingId = Literal["body", "reject"]
Parse = Literal["accept", "require"]
ReplayedBody = Literal["conflict", "process"]
AS_THE_PROVIDER: Final = "provider"
# How far ahead of us a sender's clock may be, however long its retries may take.
AHEAD: Final = 300.0


@export
class Source:
    """A provider with its secrets, made ready once and used for every delivery.

    Args:
        provider: a provider's name, or a `Provider`.
        secrets: one secret, several, or a mapping from names to secrets; `Secret` adds an end.
        name: the name of the source; the provider's where none is given.
        url: the URL as the provider was given it, for providers that sign it.
        tolerance: how old a signed time may be; None for any age. The provider's unless given.
        missing_id: what becomes of a delivery without an id: its ``body`` is the key, or
            ``reject``.
        parse: whether a body that is not sound JSON is an event all the same.
        replayed_body: what a known body under a fresh, unsigned id is to the inbox.
        legacy: whether signatures are accepted for which the provider has something better.
        limits: how much of a body is read as JSON.
    """

    __slots__ = (
        "_quick", "ahead", "ends", "legacy", "limits", "missing_id", "more_to_check", "name",
        "one_scheme", "parse", "provider", "replayed_body", "schemes", "secrets", "tolerance",
        "url",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913  # every option by keyword, so that editors and help() show them
        self,
        provider: str | Provider,
        secrets: Secrets,
        *,
        name: str | None = None,
        url: str | None = None,
        tolerance: timedelta | Literal["provider"] | None = AS_THE_PROVIDER,
        missing_id: MissingId = "body",
        parse: Parse = "accept",
        replayed_body: ReplayedBody = "conflict",
        legacy: bool = True,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        secrets = hide(secrets)  # a traceback that prints locals shows this frame
        self.provider = provider_of(provider)
        self.name = self.provider.name if name is None else checked_scope(name)
        self.secrets = secrets_of(secrets)
        self.url = checked_url(url)
        self.tolerance = checked_tolerance(self.provider, tolerance)
        self.missing_id = checked_choice("missing_id", missing_id, get_args(MissingId))
        self.parse = checked_choice("parse", parse, get_args(Parse))
        self.replayed_body = checked_choice("replayed_body", replayed_body, get_args(ReplayedBody))
        self.legacy = checked_legacy(legacy)
        self.limits = checked_limits(limits)
        self.schemes = load_keys_by_scheme(self.provider, self.secrets, legacy=legacy)
        # Made when the first delivery is checked: many a source is made for a single one.
        self._quick: QuickSignature | None = None
        # Asked for every delivery, so answered once.
        self.ahead = min(self.tolerance or 0.0, AHEAD)
        self.one_scheme = len(self.schemes) == 1
        self.ends = any(secret.not_after is not None for secret in self.secrets)
        self.more_to_check = bool(
            self.provider.handshakes or self.provider.sent_at or missing_id == "reject"
        ) or (parse == "require" or any(scheme.reads_body for scheme, _ in self.schemes))

    def parse_json(self, body: bytes) -> Any:
        """The JSON of a verified body; None where it is not sound JSON."""
        return ParsedBody(body, self.limits, self.provider, watched=()).json

    def parse_form(self, body: bytes) -> tuple[tuple[str, str], ...]:
        """The fields of a verified body; none where it is no form."""
        is_form = self.provider.forms and looks_like_form(body)
        return tuple(parse_form(body)) if is_form else ()

    def texts_to_hide(self) -> list[str]:
        """The secrets as texts, to keep them out of logs and listings."""
        return [text for secret in self.secrets if (text := secret.text()) is not None]

    def __repr__(self) -> str:
        # A traceback may print a source that was refused half-way.
        name, secrets = getattr(self, "name", None), getattr(self, "secrets", None)
        provider = getattr(getattr(self, "provider", None), "name", None)
        return f"Source({name!r}, provider={provider!r}, secrets={secrets!r})"


def provider_of(provider: object) -> Provider:
    """A provider, by its name or as it is."""
    if isinstance(provider, Provider):
        return provider
    if isinstance(provider, str):
        return provider_named(provider)
    raise UsageError(
        f"provider must be a name such as 'stripe', or a Provider, not {kind(provider)}"
    )


KeysByScheme = tuple[tuple[Scheme[Any], tuple[LoadedKey[Any], ...]], ...]


def load_keys_by_scheme(
    provider: Provider, secrets: Sequence[Secret], *, legacy: bool
) -> KeysByScheme:
    """Every scheme with the keys that fit it; a secret that fits none is refused."""
    schemes = [scheme for scheme in provider.schemes if legacy or not scheme.legacy]
    if not schemes:
        raise UsageError(f"{provider.name} has no scheme that is not legacy: use legacy=True")
    for secret in secrets:
        problems = [
            problem for scheme in schemes if (problem := problem_with_secret(scheme, secret))
        ]
        if len(problems) == len(schemes):
            raise problems[0]
    return tuple(
        (scheme, held)
        for scheme in schemes
        if (
            held := tuple(
                LoadedKey(one, scheme.key(one))
                for one in secrets
                if not problem_with_secret(scheme, one)
            )
        )
    )


def problem_with_secret(scheme: Scheme[Any], secret: Secret) -> UsageError | None:
    """Why a secret cannot be used with a scheme."""
    try:
        scheme.key(secret)
    except UsageError as problem:
        return problem
    return None


def checked_url(url: object) -> str | None:
    """A full URL, or none."""
    if url is not None and (not isinstance(url, str) or "://" not in url):
        raise UsageError("url must be the full URL that the provider was given, with its https://")
    return url


def checked_tolerance(provider: Provider, tolerance: object) -> float | None:
    """The tolerance in seconds."""
    if tolerance == AS_THE_PROVIDER:
        tolerance = provider.tolerance
    if tolerance is None:
        return None
    if not isinstance(tolerance, timedelta) or tolerance <= timedelta(0):
        raise UsageError("tolerance must be a timedelta longer than 0, or None to take any age")
    return tolerance.total_seconds()


def checked_legacy(legacy: object) -> bool:
    """Yes or no."""
    if not isinstance(legacy, bool):
        raise UsageError(f"legacy must be True or False, not {kind(legacy)}")
    return legacy


def checked_limits(limits: object) -> Limits:
    """How much is read."""
    if not isinstance(limits, Limits):
        raise UsageError(f"limits must be duly.webhooks.Limits(…), not {kind(limits)}")
    return limits


def describe_value(value: object) -> str:
    """A word that is not among the options, or what stands in its place."""
    return repr(value[:20]) if isinstance(value, str) and value.isidentifier() else kind(value)


def checked_choice(name: str, value: Any, options: tuple[str, ...]) -> Any:
    """One of a few words."""
    if not isinstance(value, str) or value not in options:
        raise UsageError(
            f"{name} must be {' or '.join(map(repr, options))}, not {describe_value(value)}"
        )
    return value
