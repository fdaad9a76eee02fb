"""Adyen: `Adyen.util` signs and verifies payment notifications and whole payloads."""

from __future__ import annotations

import json
from typing import Any

from Adyen.util import (
    generate_notification_sig,
    generate_payload_sig,
    is_valid_hmac_notification,
    is_valid_hmac_payload,
)
from hypothesis import strategies as st

from duly.webhooks import Signed
from tests.webhooks.peers.peer import HEX_KEYS, RAW_BODIES, TEXTS, Keys, Request, Usual, only

FIELDS = (
    "pspReference",
    "originalReference",
    "merchantAccountCode",
    "merchantReference",
    "eventCode",
    "success",
)
# Texts and whole amounts, as in Adyen's own examples. The library would sign a JSON true as "True"
# and a null as "None", where duly takes "true" and nothing.
# duly allows the colon in the merchant's own reference alone: it parts the fields, and what may
# stand in two of them could be moved from one to the other.
CODES = TEXTS.filter(lambda text: ":" not in text)
ITEMS = st.fixed_dictionaries(
    {
        "pspReference": CODES,
        "merchantAccountCode": CODES,
        "merchantReference": TEXTS,
        "amount": st.fixed_dictionaries(
            {"value": st.integers(0, 10**12), "currency": st.sampled_from(["EUR", "JPY"])}
        ),
        "eventCode": CODES,
        "success": st.sampled_from(["true", "false"]),
    },
    optional={"originalReference": CODES, "reason": TEXTS},
)


def notification(item: dict[str, Any]) -> bytes:
    """A body with one item; the library looks at the first alone."""
    whole = {"live": "false", "notificationItems": [{"NotificationRequestItem": item}]}
    return json.dumps(whole, ensure_ascii=False).encode()


def item_of(body: bytes) -> dict[str, Any]:
    item: dict[str, Any] = json.loads(body)["notificationItems"][0]["NotificationRequestItem"]
    return item


class AdyenNotification(Usual):
    """A payment notification, with its signature inside the body."""

    name = "adyen-notification"
    provider = "adyen"
    signer = only("adyen", 0)
    keys = HEX_KEYS
    bodies = ITEMS.map(notification)

    def signs(self, request: Request, keys: Keys) -> Signed:
        item = item_of(request.body)
        signature = generate_notification_sig(item, keys.signing).decode()
        item["additionalData"] = {"hmacSignature": signature}
        return Signed({}, notification(item), None, "POST")

    def accepts(self, delivery: Signed, keys: Keys, moment: int) -> bool:
        # It takes what has been parsed; a body that is no such JSON ends before it is asked.
        try:
            return bool(is_valid_hmac_notification(json.loads(delivery.body), keys.verifying))
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            return False

    def covered(self, delivery: Signed) -> object:
        # Eight fields and the signature itself: the rest of the body is not signed.
        try:
            item = item_of(delivery.body)
            amount = item["amount"]["value"], item["amount"]["currency"]
            signature = item["additionalData"]["hmacSignature"]
        except (ValueError, KeyError, TypeError):
            return None
        return *(item.get(name, "") for name in FIELDS), *amount, signature


class AdyenPayload(Usual):
    """A platform or management event, with its signature in a header over all bytes."""

    name = "adyen-payload"
    provider = "adyen"
    signer = only("adyen", 1)
    keys = HEX_KEYS
    # What holds this word is a payment notification, whose signature is looked for inside.
    bodies = RAW_BODIES.filter(lambda body: b"hmacSignature" not in body)

    def signs(self, request: Request, keys: Keys) -> Signed:
        signature = generate_payload_sig(request.body, keys.signing).decode()
        return Signed({"HmacSignature": signature}, request.body, None, "POST")

    def accepts(self, delivery: Signed, keys: Keys, moment: int) -> bool:
        signature = delivery.headers["HmacSignature"]
        return bool(is_valid_hmac_payload(signature, keys.verifying, delivery.body))
