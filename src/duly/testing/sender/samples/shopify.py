"""Shopify: the body follows from the topic. Fields as in https://shopify.dev/docs/api/webhooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.core.json_bytes import Json
    from duly.testing.sender.samples.seeds import Seed

    Object = dict[str, Json]

CUSTOMER, PRODUCT, VARIANT = 7000000000001, 8000000000001, 9000000000001
EMAIL, PRICE, CURRENCY = "customer@example.com", "20.00", "EUR"


def make_body(topic: str, seed: Seed) -> Object:
    """The body of a topic such as ``orders/paid``."""
    what, _, action = topic.partition("/")
    if action in ("delete", "redact"):  # of what is gone only the id is left
        return {"id": seed.number(what, 13)}
    make = RESOURCES.get(what)
    about = {} if make is None else make(seed._replace(action=action))
    return {**base(seed, what), **about}


def base(seed: Seed, what: str) -> Object:
    """What every resource has."""
    number = seed.number(what, 13)
    name = "".join(part.capitalize() for part in what.removesuffix("s").split("_"))
    return {
        "id": number,
        "admin_graphql_api_id": f"gid://shopify/{name}/{number}",
        "created_at": seed.iso,
        "updated_at": seed.iso,
    }


def order(seed: Seed) -> Object:
    """An order of one item."""
    paid = seed.action in ("paid", "fulfilled", "updated")
    return {
        "cancelled_at": seed.iso if seed.action == "cancelled" else None,
        "contact_email": EMAIL,
        "currency": CURRENCY,
        "customer": {"id": CUSTOMER, **person()},
        "email": EMAIL,
        "financial_status": "paid" if paid else "pending",
        "fulfillment_status": "fulfilled" if seed.action == "fulfilled" else None,
        "line_items": [line_item(seed)],
        "name": "#1001",
        "note": None,
        "order_number": 1001,
        "processed_at": seed.iso,
        "subtotal_price": PRICE,
        "tags": "",
        "total_price": PRICE,
        "total_tax": "3.19",
    }


def line_item(seed: Seed) -> Object:
    """What was bought."""
    return {
        "id": seed.number("line_item", 14),
        "price": PRICE,
        "product_id": PRODUCT,
        "quantity": 1,
        "sku": "CUP-1",
        "title": "Cup",
        "variant_id": VARIANT,
    }


def person() -> Object:
    """Who bought it."""
    return {
        "email": EMAIL,
        "first_name": "A.",
        "last_name": "Customer",
        "phone": None,
        "state": "enabled",
    }


def customer(seed: Seed) -> Object:
    """A customer."""
    return {
        **person(),
        "currency": CURRENCY,
        "last_order_id": seed.number("orders", 13),
        "note": None,
        "tags": "",
        "verified_email": True,
    }


def product(seed: Seed) -> Object:
    """A product in one variant."""
    number = seed.number("products", 13)
    variant: Object = {
        "id": VARIANT,
        "inventory_quantity": 10,
        "price": PRICE,
        "product_id": number,
        "sku": "CUP-1",
        "title": "Default Title",
    }
    return {
        "handle": "cup",
        "product_type": "Tableware",
        "status": "active",
        "tags": "",
        "title": "Cup",
        "variants": [variant],
        "vendor": "Shop Example",
    }


def refund(seed: Seed) -> Object:
    """Money that went back for one item."""
    item: Object = {"id": seed.number("refund_line", 13), "quantity": 1, "subtotal": 20.0}
    return {
        "order_id": seed.number("orders", 13),
        "note": None,
        "processed_at": seed.iso,
        "refund_line_items": [{**item, "line_item": line_item(seed)}],
    }


def fulfillment(seed: Seed) -> Object:
    """A parcel on its way."""
    return {
        "order_id": seed.number("orders", 13),
        "line_items": [line_item(seed)],
        "name": "#1001.1",
        "status": "success",
        "tracking_company": None,
        "tracking_number": None,
    }


def shop(_: Seed) -> Object:
    """The shop itself: what an app is told when it is removed."""
    return {
        "currency": CURRENCY,
        "domain": "shop.example",
        "email": "owner@shop.example",
        "myshopify_domain": "shop-example.myshopify.com",
        "name": "Shop Example",
    }


RESOURCES: dict[str, Callable[[Seed], Object]] = {
    "app": shop,
    "customers": customer,
    "fulfillments": fulfillment,
    "orders": order,
    "products": product,
    "refunds": refund,
    "shop": shop,
}
