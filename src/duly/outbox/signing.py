"""Signers of messages. Every attempt is signed anew, with the same id."""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from duly.core.errors import UsageError
from duly.core.functions import mode_of
from duly.core.validation import kind
from duly.outbox.message import OURS, TOKEN, VALUE
from duly.webhooks.schemes.scheme import MOST_CANDIDATES
from duly.webhooks.schemes.standard_webhooks import StandardWebhooks
from duly.webhooks.secrets import hide, secrets_of

if TYPE_CHECKING:
    from duly.outbox.message import Message
    from duly.webhooks.secrets import Secret

SCHEME = StandardWebhooks()
TRIAL = b"trial.0."


class StandardSigner:
    """Signs as Standard Webhooks: v1 for ``whsec_…``, v1a for ``whsk_…``; with every key it has.

    To exchange a key, give the old and the new one until every receiver knows the new.
    """

    blocks = False

    def __init__(self, secret: object) -> None:
        secret = hide(secret)  # a traceback may print this frame
        self._secrets = secrets_of(secret)
        if len(self._secrets) > MOST_CANDIDATES:
            raise UsageError(
                f"a signer has at most {MOST_CANDIDATES} keys: receivers look at no more"
            )
        for one in self._secrets:
            if SCHEME.only_verifies(one):
                raise UsageError(
                    "this is a public key, which cannot sign: give the private one, whsk_…"
                )
            SCHEME.make_signature(one, TRIAL)  # or the first message would find out

    def headers(self, message: Message) -> Mapping[str, str]:
        """The three headers of the specification; the id stays, the time is now."""
        at = str(int(time.time()))
        content = b"%b.%b.%b" % (message.id.encode(), at.encode(), message.body or b"")
        signatures = [SCHEME.make_signature(one, content).decode() for one in self._valid_secrets()]
        return {
            SCHEME.id_header: message.id,
            SCHEME.time_header: at,
            SCHEME.signature_header: " ".join(signatures),
        }

    def _valid_secrets(self) -> list[Secret]:
        """The keys whose ``not_after`` has not passed."""
        now = time.time()
        good = [one for one in self._secrets if not one.ended(now)]
        if not good:
            raise UsageError("every key of this signer has passed its not_after: give it a new one")
        return good

    def texts_to_hide(self) -> list[str]:
        """The keys as texts, to be redacted in logs and records."""
        return [text for secret in self._secrets if (text := secret.text()) is not None]


class OwnSigner:
    """A function of the user's that returns headers. It may fetch a token, and block."""

    blocks = True

    def __init__(self, call: object) -> None:
        if not callable(call) or mode_of(call, "this signer") == "async":
            raise UsageError(
                "a signer is a function of the message that returns headers: write `def`"
            )
        try:
            inspect.signature(call).bind(None)
        except (TypeError, ValueError):
            raise UsageError(
                "a signer is a function of the message that returns headers: give it one parameter"
            ) from None
        self._call = call

    def headers(self, message: Message) -> Mapping[str, str]:
        """What the function returned, if it can be sent."""
        found: Any = self._call(message)
        if not isinstance(found, Mapping):
            raise UsageError(f"a signer must return a mapping of headers, not {kind(found)}")
        for name, value in found.items():
            if not isinstance(name, str) or not TOKEN.fullmatch(name):
                raise UsageError("a signer returned what is not the name of a header")
            if name.lower() in OURS or name.lower() == "idempotency-key":
                raise UsageError(f"the header {name} is written by the client that sends")
            if not isinstance(value, str) or not VALUE.fullmatch(value):
                raise UsageError(f"the header {name} of a signer must be printable ASCII")
        return found

    def texts_to_hide(self) -> list[str]:
        """Nothing: its secrets are not known here."""
        return []
