"""The secret to sign with: from the option, the environment or a prompt, and never shown again."""

from __future__ import annotations

import os
import sys
from getpass import getpass
from typing import TYPE_CHECKING

from duly.core.errors import UsageError
from duly.webhooks import Ecdsa, Ed25519, Hmac, Secret, SignedFields, StandardWebhooks

if TYPE_CHECKING:
    from duly.webhooks.provider import Provider

HIDDEN = "***"
SHORTEST_HIDDEN = 6


def variable_of(provider: Provider) -> str:
    """The environment variable that holds what to sign with.

    It is that of the application, where both sides share one secret; of a pair of keys the
    application holds the public one, under another name.
    """
    name = provider.name.upper().replace("-", "_")
    pair = isinstance(provider.schemes[0], Ed25519 | Ecdsa)
    if pair:
        return f"{name}_PRIVATE_KEY"
    return f"{name}_SECRET" if name.endswith("_WEBHOOKS") else f"{name}_WEBHOOK_SECRET"


def form_of(provider: Provider) -> str:
    """What the secret to sign with looks like."""
    match provider.schemes[0]:
        case StandardWebhooks(must_begin=""):
            return "whsec_ and base64, or a private key: whsk_ and base64"
        case StandardWebhooks():
            return "a signing token, whsec_ and base64; or the older secret token, plain text"
        case Ed25519():
            return "an Ed25519 private key, in hex or PEM; the receiver has its public key"
        case Ecdsa():
            return "an ECDSA private key, base64 DER or PEM; the receiver has its public key"
        case SignedFields(secret="hex") | Hmac(secret="hex"):
            return "an HMAC key in hex"
        case _:
            return "a secret of plain text, used as it stands"


def signer_for(provider: Provider, given: str | None) -> Secret:
    """The secret of this provider's source, under the name of the place where it was found."""
    variable = variable_of(provider)
    if given is not None:
        return Secret(given.strip(), name="--secret")
    if os.environ.get(variable):
        return Secret(os.environ[variable].strip(), name=variable)
    if sys.stdin is not None and sys.stdin.isatty():
        return Secret(ask_secret(provider).strip(), name="prompt")
    raise UsageError(
        f"which secret? {provider.title} signs with {form_of(provider)}. Set {variable}, or give "
        "--secret"
    )


def ask_secret(provider: Provider) -> str:
    """The secret as a person types it, unseen."""
    try:
        return getpass(f"Secret of {provider.title} ({form_of(provider)}): ")
    except EOFError:
        return ""  # refused like any empty secret, with a sentence that says why


def without_secret(text: str, secret: Secret) -> str:
    """A text in which the secret does not stand; a very short one would be found in any word."""
    value = secret.reveal()
    shows = isinstance(value, str) and len(value) >= SHORTEST_HIDDEN
    return text.replace(str(value), HIDDEN) if shows else text
