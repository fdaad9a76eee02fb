"""Stripe: the object of an event follows from its type. Fields as in https://docs.stripe.com/api."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.testing.sender.samples.seeds import Seed, fixed_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.core.json_bytes import Json

    Object = dict[str, Json]

API_VERSION = "2025-03-31.basil"
AMOUNT, CURRENCY = 2000, "eur"
CUSTOMER = fixed_id("cus_")
EMAIL, NAME = "customer@example.com", "A. Customer"


def make_body(type: str, seed: Seed) -> Object:
    """The event; its id is written by the caller."""
    return {
        "id": "evt_1",
        "object": "event",
        "api_version": API_VERSION,
        "created": seed.seconds,
        "data": {"object": object_of(type, seed)},
        "livemode": False,
        "pending_webhooks": 1,
        "request": {"id": seed.token("req_", 14), "idempotency_key": None},
        "type": type,
    }


def object_of(type: str, seed: Seed) -> Object:
    """The object that an event of this type is about, in the state that the type names."""
    for prefix, make in OBJECTS.items():
        if type.startswith(prefix):
            return {**make(seed), **STATES.get(type, {})}
    kind = type.rpartition(".")[0].rpartition(".")[2] or type
    return {**base(seed, f"{kind[:12]}_", kind), "customer": CUSTOMER}


def base(seed: Seed, prefix: str, kind: str) -> Object:
    """What every object has."""
    return {
        "id": seed.token(prefix),
        "object": kind,
        "created": seed.seconds,
        "livemode": False,
        "metadata": {"order_id": "order-1"},
    }


def payment_intent(seed: Seed) -> Object:
    """A payment by card."""
    return {
        **base(seed, "pi_", "payment_intent"),
        "amount": AMOUNT,
        "amount_capturable": 0,
        "amount_received": 0,
        "capture_method": "automatic",
        "currency": CURRENCY,
        "customer": CUSTOMER,
        "description": "Order 1",
        "last_payment_error": None,
        "latest_charge": seed.token("ch_"),
        "payment_method": seed.token("pm_"),
        "payment_method_types": ["card"],
        "receipt_email": EMAIL,
        "status": "requires_payment_method",
    }


def charge(seed: Seed) -> Object:
    """A charge of a card."""
    return {
        **base(seed, "ch_", "charge"),
        "amount": AMOUNT,
        "amount_captured": AMOUNT,
        "amount_refunded": 0,
        "balance_transaction": seed.token("txn_"),
        "billing_details": {"email": EMAIL, "name": NAME},
        "captured": True,
        "currency": CURRENCY,
        "customer": CUSTOMER,
        "description": "Order 1",
        "disputed": False,
        "failure_code": None,
        "failure_message": None,
        "paid": True,
        "payment_intent": seed.token("pi_"),
        "payment_method": seed.token("pm_"),
        "payment_method_details": {
            "card": {"brand": "visa", "exp_month": 12, "exp_year": 2030, "last4": "4242"},
            "type": "card",
        },
        "receipt_email": EMAIL,
        "refunded": False,
        "status": "succeeded",
    }


def refund(seed: Seed) -> Object:
    """Money that went back."""
    return {
        **base(seed, "re_", "refund"),
        "amount": AMOUNT,
        "charge": seed.token("ch_"),
        "currency": CURRENCY,
        "payment_intent": seed.token("pi_"),
        "reason": "requested_by_customer",
        "status": "succeeded",
    }


def dispute(seed: Seed) -> Object:
    """A charge that the customer's bank questions."""
    return {
        **base(seed, "dp_", "dispute"),
        "amount": AMOUNT,
        "charge": seed.token("ch_"),
        "currency": CURRENCY,
        "payment_intent": seed.token("pi_"),
        "reason": "fraudulent",
        "status": "needs_response",
    }


def invoice(seed: Seed) -> Object:
    """An invoice of a subscription."""
    return {
        **base(seed, "in_", "invoice"),
        "amount_due": AMOUNT,
        "amount_paid": 0,
        "amount_remaining": AMOUNT,
        "attempt_count": 1,
        "attempted": True,
        "billing_reason": "subscription_cycle",
        "collection_method": "charge_automatically",
        "currency": CURRENCY,
        "customer": CUSTOMER,
        "customer_email": EMAIL,
        "lines": list_object(
            {
                "id": seed.token("il_"),
                "object": "line_item",
                "amount": AMOUNT,
                "currency": CURRENCY,
                "description": "Monthly plan",
                "quantity": 1,
            }
        ),
        "number": "SHOP-0001",
        "parent": {
            "type": "subscription_details",
            "subscription_details": {"subscription": seed.token("sub_")},
        },
        "period_end": seed.seconds,
        "period_start": seed.in_days(-30),
        "status": "open",
        "subtotal": AMOUNT,
        "total": AMOUNT,
    }


def customer(seed: Seed) -> Object:
    """A customer."""
    return {
        **base(seed, "cus_", "customer"),
        "id": CUSTOMER,
        "balance": 0,
        "currency": CURRENCY,
        "delinquent": False,
        "description": None,
        "email": EMAIL,
        "name": NAME,
        "phone": None,
    }


def subscription(seed: Seed) -> Object:
    """A monthly subscription of one item."""
    return {
        **base(seed, "sub_", "subscription"),
        "cancel_at_period_end": False,
        "canceled_at": None,
        "collection_method": "charge_automatically",
        "currency": CURRENCY,
        "customer": CUSTOMER,
        "ended_at": None,
        "items": list_object(
            {
                "id": seed.token("si_", 14),
                "object": "subscription_item",
                "current_period_end": seed.in_days(30),
                "current_period_start": seed.seconds,
                "price": {
                    "id": fixed_id("price_", 24),
                    "object": "price",
                    "currency": CURRENCY,
                    "product": fixed_id("prod_"),
                    "recurring": {"interval": "month", "interval_count": 1},
                    "unit_amount": AMOUNT,
                },
                "quantity": 1,
                "subscription": seed.token("sub_"),
            }
        ),
        "latest_invoice": seed.token("in_"),
        "start_date": seed.seconds,
        "status": "active",
        "trial_end": None,
    }


def checkout_session(seed: Seed) -> Object:
    """A visit to the hosted checkout."""
    return {
        **base(seed, "cs_test_", "checkout.session"),
        "amount_subtotal": AMOUNT,
        "amount_total": AMOUNT,
        "client_reference_id": "order-1",
        "currency": CURRENCY,
        "customer": CUSTOMER,
        "customer_details": {"email": EMAIL, "name": NAME},
        "expires_at": seed.in_days(1),
        "mode": "payment",
        "payment_intent": seed.token("pi_"),
        "payment_method_types": ["card"],
        "payment_status": "paid",
        "status": "complete",
        "success_url": "https://shop.example/thanks",
    }


def list_object(*items: Object) -> Object:
    """A list as Stripe writes it."""
    return {"object": "list", "data": [*items], "has_more": False}


# By the beginning of the type: the longer ones first.
OBJECTS: dict[str, Callable[[Seed], Object]] = {
    "payment_intent.": payment_intent,
    "charge.dispute.": dispute,
    "charge.refund.": refund,
    "charge.": charge,
    "refund.": refund,
    "invoice.": invoice,
    "customer.subscription.": subscription,
    "customer.": customer,
    "checkout.session.": checkout_session,
}
DECLINED: Object = {
    "code": "card_declined",
    "decline_code": "generic_decline",
    "message": "Your card was declined.",
    "type": "card_error",
}
PAID: Object = {"amount_paid": AMOUNT, "amount_remaining": 0, "status": "paid"}
UNPAID: Object = {"payment_intent": None, "payment_status": "unpaid"}
# What differs from the object above, by the whole type.
STATES: dict[str, Object] = {
    "payment_intent.succeeded": {"amount_received": AMOUNT, "status": "succeeded"},
    "payment_intent.payment_failed": {"last_payment_error": DECLINED},
    "payment_intent.processing": {"status": "processing"},
    "payment_intent.canceled": {"status": "canceled"},
    "payment_intent.requires_action": {"status": "requires_action"},
    "payment_intent.amount_capturable_updated": {
        "amount_capturable": AMOUNT,
        "capture_method": "manual",
        "status": "requires_capture",
    },
    "payment_intent.created": {"latest_charge": None, "payment_method": None},
    "charge.failed": {
        "amount_captured": 0,
        "failure_code": "card_declined",
        "failure_message": "Your card was declined.",
        "paid": False,
        "status": "failed",
    },
    "charge.refunded": {"amount_refunded": AMOUNT, "refunded": True},
    "charge.pending": {"paid": False, "status": "pending"},
    "invoice.created": {"attempt_count": 0, "attempted": False, "status": "draft"},
    "invoice.paid": PAID,
    "invoice.payment_succeeded": PAID,
    "invoice.voided": {"status": "void"},
    "invoice.marked_uncollectible": {"status": "uncollectible"},
    "customer.subscription.deleted": {"status": "canceled"},
    "customer.subscription.paused": {"status": "paused"},
    "customer.subscription.trial_will_end": {"status": "trialing"},
    "checkout.session.expired": {**UNPAID, "status": "expired"},
    "checkout.session.async_payment_failed": {"payment_status": "unpaid"},
}
