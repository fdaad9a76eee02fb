"""The shop's own views. Each runs in a transaction: ATOMIC_REQUESTS is on."""

import json

from django.db import connection
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from orders.hooks import app, confirm_order
from orders.models import Order, Stock


@csrf_exempt
@require_POST
def place_order(request: HttpRequest) -> JsonResponse:
    """Place an order: it and the job that confirms it are one COMMIT, that of the request."""
    asked = json.loads(request.body)
    order = Order.objects.create(item=asked["item"], email=asked["email"])
    payload = {"order": order.pk, "email": order.email}
    app.enqueue(confirm_order, payload, key=f"order/{order.pk}", tx=connection)
    return JsonResponse({"order": order.pk}, status=201)


def show_stock(_: HttpRequest, item: str) -> JsonResponse:
    """What is left of an item."""
    return JsonResponse({"left": get_object_or_404(Stock, item=item).left})
