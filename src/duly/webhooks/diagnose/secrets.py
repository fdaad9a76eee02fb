"""The secret: of another source, under another key id, or written down in another form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from duly.core.errors import Code, UsageError
from duly.webhooks.diagnose.case import (
    Guess,
    RejectedCase,
    VerifyAttempt,
    carries_signature,
    source_like,
    without_end,
)
from duly.webhooks.providers import provider_named, provider_names
from duly.webhooks.schemes.encodings import lenient_base64, lenient_hex
from duly.webhooks.secrets import Secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PREFIX: Final = "whsec_"
QUOTES: Final = "\"'`"
# How the tokens begin that call an API; none of them signs a webhook.
API_KEY_PREFIXES: Final = (
    "sk_", "rk_", "pk_", "xoxb-", "xoxp-", "xapp-", "ghp_", "github_pat_", "glpat-", "shpat_",
)  # fmt: skip


def text_of(value: Any) -> str | None:
    """A secret given as bytes that is text after all."""
    try:
        return value.decode() if isinstance(value, bytes) else None
    except UnicodeDecodeError:
        return None


def changed_text(change: Callable[[str], str | bytes | None]) -> Callable[[Any], Any]:
    """A change for secrets that are text."""
    return lambda value: change(value) if isinstance(value, str) else None


# What may have happened to a secret, undone; each answers None where it cannot have.
SECRET_TRANSFORMS: Final[tuple[tuple[Callable[[Any], Any], str], ...]] = (
    (
        changed_text(lambda text: text.strip(QUOTES)),
        "has quotes around it: take them off in your settings",
    ),
    (
        changed_text(lambda text: text[7:].strip() if text[:7].lower() == "bearer " else None),
        "begins with the word Bearer: leave it out",
    ),
    (
        changed_text(lambda text: PREFIX + text),
        f"lacks its beginning: the sender uses it with {PREFIX}",
    ),
    (
        changed_text(lambda text: text.removeprefix(PREFIX)),
        f"must be given without its beginning {PREFIX}",
    ),
    (
        changed_text(lambda text: lenient_hex(text.removeprefix(PREFIX))),
        "stands for bytes in hexadecimal: pass bytes.fromhex(…) of it",
    ),
    (
        changed_text(lambda text: lenient_base64(text.removeprefix(PREFIX))),
        "stands for bytes in base64: pass base64.b64decode(…) of it",
    ),
    (
        changed_text(str.encode),
        "is used by the sender as plain text: pass it as bytes, with .encode()",
    ),
    (
        changed_text(lambda text: text.removeprefix(PREFIX).encode()),
        f"is used by the sender as plain text without its {PREFIX}: pass that as bytes",
    ),
    (text_of, "was given as bytes, but is text in the provider's form: pass it as a string"),
    (
        lambda value: value.strip() if isinstance(value, bytes) else None,
        "has white space or a line break around it: use .strip()",
    ),
    (changed_text(unquote), "is escaped as in a URL: pass urllib.parse.unquote(…) of it"),
)


def suspect_secret_form(case: RejectedCase) -> Iterator[Guess]:
    """The right secret in the wrong form."""
    for secret in case.lenient.secrets:
        for turn, what in SECRET_TRANSFORMS:
            changed = transform_secret(secret, turn)
            source = None if changed is None else source_like(case.source, [changed])
            if source is not None:
                yield VerifyAttempt(source, case.delivery, f"The secret {secret.name!r} {what}.")


def transform_secret(secret: Secret, turn: Callable[[Any], Any]) -> Secret | None:
    """A secret in another form; silent, so that no frame that raises holds the value."""
    try:
        value = turn(secret.reveal())
        if value is None or value == secret.reveal():
            return None
        return Secret(value, name=secret.name, key_id=secret.key_id)
    except UsageError:
        return None


def suspect_key_id(case: RejectedCase) -> Iterator[Guess]:
    """The right key, under another id than the delivery names."""
    if case.problem.code is not Code.UNKNOWN_KEY:
        return
    for secret in case.lenient.secrets:
        source = source_like(case.source, [without_key_id(secret)])
        if source is not None:
            yield VerifyAttempt(
                source,
                case.delivery,
                f"The key {secret.name!r} made this signature, but the delivery names another id "
                f"for it than key_id={secret.key_id!r}: correct it, or leave it out.",
            )


def without_key_id(secret: Secret) -> Secret:
    """A key without its id."""
    return Secret(secret.reveal(), name=secret.name)


def suspect_legacy_scheme(case: RejectedCase) -> Iterator[Guess]:
    """Signed in a way that this source has switched off."""
    source = None if case.source.legacy else source_like(case.source, legacy=True)
    if source is not None:
        yield VerifyAttempt(
            source,
            case.delivery,
            f"The delivery was signed the older way, which legacy=False refuses: have {case.title} "
            f"send {case.schemes[0].describe_location()}, or make the source with legacy=True.",
        )


def suspect_other_source(case: RejectedCase) -> Iterator[Guess]:
    """Meant for another source, or signed with its secret."""
    for other in case.others:
        lenient = source_like(other, legacy=True)
        if lenient is not None:
            yield VerifyAttempt(
                lenient,
                case.delivery,
                f"It is a genuine delivery of the source {other.name!r}: was it sent to the path "
                f"of {case.source.name!r} by mistake, or are the two secrets exchanged?",
            )
        for secret in other.secrets:
            source = source_like(case.source, [without_end(secret)])
            if source is not None:
                yield VerifyAttempt(
                    source,
                    case.delivery,
                    f"The delivery was signed with the secret {secret.name!r} of the source "
                    f"{other.name!r}: are the secrets of the two exchanged?",
                )


def suspect_other_provider(case: RejectedCase) -> Iterator[Guess]:
    """The right secret, but another provider's way to sign."""
    for name in provider_names():
        provider = provider_named(name)
        if name == case.source.provider.name or not any(
            carries_signature(scheme, case.delivery) for scheme in provider.schemes
        ):
            continue
        source = source_like(case.source, provider=provider, legacy=True)
        if source is not None:
            yield VerifyAttempt(
                source,
                case.delivery,
                f"The secret is right, but the delivery is signed the way of "
                f"{provider.title or name}: make the source with the provider {name!r}.",
            )


def suspect_unknown_key(case: RejectedCase) -> Iterator[Guess]:
    """A key id that is nowhere in this source."""
    if case.problem.code is Code.UNKNOWN_KEY:
        known = ", ".join(sorted(repr(one.key_id) for one in case.source.secrets)[:8])
        yield (
            "The delivery names a key that this source does not have: fetch the provider's key "
            f"set again (it has {known})."
        )


def suspect_api_key(case: RejectedCase) -> Iterator[Guess]:
    """A secret that is plainly something else."""
    for secret in case.source.secrets:
        if looks_like_api_key(secret):
            yield (
                f"The secret {secret.name!r} looks like a key that calls the API of {case.title}, "
                "not like the signing secret of a webhook: copy that one from its settings."
            )


def looks_like_api_key(secret: Secret) -> bool:
    """Whether a secret begins like the token of an API."""
    value = secret.reveal()
    return isinstance(value, str) and value.startswith(API_KEY_PREFIXES)
