"""twilio: `RequestValidator` signs and verifies forms and JSON, with a token or a shared key."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import cast
from urllib.parse import parse_qsl, urlencode

from hypothesis import strategies as st
from multidict import MultiDict
from twilio.request_validator import HMAC_SHA1, HMAC_SHA256, RequestValidator

from duly.webhooks import Hmac, Signed, provider_named
from tests.webhooks.peers.peer import (
    TEXT_BODIES,
    TEXT_KEYS,
    TEXTS,
    Keys,
    Request,
    Usual,
    only,
    with_scheme,
)

# Few names, so that some repeat; a field may be empty, but a name may not.
NAMES = st.one_of(st.sampled_from(["To", "Body", "to", "é"]), TEXTS.filter(bool))
FORMS = st.lists(st.tuples(NAMES, TEXTS), max_size=6).map(lambda pairs: urlencode(pairs).encode())


def fields(body: bytes) -> MultiDict[str]:
    """A form as the frameworks hand it to the library, repeated fields and all."""
    return MultiDict(parse_qsl(body.decode(), keep_blank_values=True, errors="strict"))


class TwilioForm(Usual):
    """A form, signed with the account's token."""

    name = "twilio-form"
    provider = "twilio"
    signer = only("twilio")
    keys = TEXT_KEYS
    bodies = FORMS
    signs_the_url = True
    algorithm = HMAC_SHA1

    def signs(self, request: Request, keys: Keys) -> Signed:
        signature = RequestValidator(keys.signing).compute_signature(
            request.url, fields(request.body), self.algorithm
        )
        return Signed({"X-Twilio-Signature": signature}, request.body, request.url, "POST")

    def accepts(self, delivery: Signed, keys: Keys, moment: int) -> bool:
        signature = delivery.headers["X-Twilio-Signature"]
        try:
            form = fields(delivery.body)
        except UnicodeDecodeError:
            return False
        validator = RequestValidator(keys.verifying)
        return bool(validator.validate(delivery.url, form, signature, self.algorithm))

    def covered(self, delivery: Signed) -> object:
        # The fields as a set: their order, their escapes and their repetition are not signed.
        try:
            return frozenset(fields(delivery.body).items())
        except UnicodeDecodeError:
            return None


class TwilioSharedKey(TwilioForm):
    """A form, signed with a shared key."""

    name = "twilio-shared-key"
    signer = with_scheme(
        provider_named("twilio"),
        replace(cast("Hmac", provider_named("twilio").schemes[0]), digest="sha256"),
    )
    algorithm = HMAC_SHA256


class TwilioJson(Usual):
    """JSON, or any text, vouched for by its digest in the URL."""

    name = "twilio-json"
    provider = "twilio"
    signer = replace(only("twilio"), content_type="application/json")
    keys = TEXT_KEYS
    bodies = TEXT_BODIES  # it takes the body as text
    signs_the_url = True

    def signs(self, request: Request, keys: Keys) -> Signed:
        joint = "&" if "?" in request.url else "?"
        digest = hashlib.sha256(request.body).hexdigest()
        url = f"{request.url}{joint}bodySHA256={digest}"
        signature = RequestValidator(keys.signing).compute_signature(url, {})
        headers = {"X-Twilio-Signature": signature, "Content-Type": "application/json"}
        return Signed(headers, request.body, url, "POST")

    def accepts(self, delivery: Signed, keys: Keys, moment: int) -> bool:
        signature = delivery.headers["X-Twilio-Signature"]
        try:
            body = delivery.body.decode()
        except UnicodeDecodeError:
            return False
        return bool(RequestValidator(keys.verifying).validate(delivery.url, body, signature))
