"""Where the site is asked."""

import json

from django.db import connection, transaction
from django.http import JsonResponse
from django.urls import include, path
from django.views.decorators.csrf import csrf_exempt
from models import Entry
from shop import app, ship

from duly import django as duly_django


@csrf_exempt
def checkout(request):
    order = json.loads(request.body)["order"]
    with transaction.atomic():
        Entry.objects.create(event=order, kind="ordered")
        app.enqueue(ship, {"order": order}, tx=connection)
    return JsonResponse({"status": "accepted", "event": order})


urlpatterns = [
    path("hooks/", include(duly_django.urls(app))),
    path("checkout", checkout),
]
