"""A shop on Django: four handlers with a mistake each, and two correct ones.

    cd examples/mistakes_django
    duly prove django_shop:app --event ../mistakes/events/points.json

One file instead of a project: settings, models, a view, and the handlers.
"""

import os
from pathlib import Path
from typing import Any

import django
from django.apps import AppConfig
from django.conf import settings

import duly

HERE = Path(__file__).resolve().parent
SECRET = "whsec_" + "c2hvcC1leGFtcGxlLXNlY3JldA=="  # development only
DATABASE = os.environ.get("SHOP_DATABASE", str(HERE / "shop.db"))


class Shop(AppConfig):
    """The application of the models below."""

    name = label = __name__
    path = str(HERE)


settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": DATABASE,
            "OPTIONS": {"transaction_mode": "IMMEDIATE"},
        }
    },
    INSTALLED_APPS=[f"{__name__}.Shop"],
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["*"],
    EMAIL_HOST="mail.shop.example",
    USE_TZ=True,
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
django.setup()

from django.core.mail import send_mail  # noqa: E402  # only after the settings
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.db import connection, models  # noqa: E402
from django.db.models import F  # noqa: E402
from django.http import HttpRequest  # noqa: E402
from django.urls import path  # noqa: E402
from django.views.decorators.csrf import csrf_exempt  # noqa: E402

from duly.django import view  # noqa: E402


class Account(models.Model):
    """What a customer has."""

    balance = models.IntegerField()


class Booking(models.Model):
    """An invoice that was paid."""

    invoice = models.CharField(max_length=50)
    at = models.DateTimeField(auto_now_add=True)


class Order(models.Model):
    """What was ordered."""

    number = models.CharField(max_length=50, unique=True)
    mailed = models.BooleanField(default=False)


class Visit(models.Model):
    """A partner that has called."""

    partner = models.CharField(max_length=50)


def prepare() -> None:
    """Make the tables, where a project has its migrations."""
    known = connection.introspection.table_names()
    with connection.schema_editor() as editor:
        for model in (Account, Booking, Order, Visit):
            if model._meta.db_table not in known:
                editor.create_model(model)
    Account.objects.get_or_create(id=7, defaults={"balance": 100})
    Order.objects.get_or_create(number="o-1")
    connection.close()


prepare()
app = duly.Duly(begin=duly.django.database("default"))
app.source("shop", provider="standard-webhooks", secret=SECRET)
app.source("partners", provider="standard-webhooks", secret=SECRET, inline=True)


# Four handlers with a mistake


@app.on("shop", "points.earned")
def add_points(event: duly.Event) -> None:
    """Delta update outside the transaction: without `tx` Django commits each statement."""
    data = event.json["data"]
    Account.objects.filter(id=data["account"]).update(balance=F("balance") + data["points"])


@app.on("shop", "invoice.paid")
def book_invoice(event: duly.Event) -> None:
    """Blind insert."""
    Booking.objects.create(invoice=event.json["data"]["invoice"])


@app.on("shop", "order.shipped")
def mail_tracking(event: duly.Event, tx: duly.Tx) -> None:  # noqa: ARG001  # it opens one
    """Check, then act: the transaction can be rolled back, and the mail cannot."""
    order = Order.objects.get(number=event.json["data"]["order"])
    if not order.mailed:
        told = f"Your order {order.number} is on its way"
        send_mail(told, "Hooray!", "shop@shop.example", [event.json["data"]["customer"]])
        order.mailed = True
        order.save()


receive = view(app, "partners")


@csrf_exempt
def partners(request: HttpRequest) -> Any:
    """Side effect before the claim: each copy of a delivery counts a visit."""
    Visit.objects.create(partner="north")
    return receive(request)


urlpatterns = [path("partners", partners)]
site = get_wsgi_application()


@app.on("partners", "partner.order")
def take_partner_order(event: duly.Event, tx: duly.Tx) -> None:  # noqa: ARG001  # it opens one
    """Correct by itself; the mistake is in the view before it."""
    Order.objects.create(number=event.json["data"]["order"])


# Two correct handlers


@app.on("shop", "payment.received")
def record_payment(event: duly.Event, tx: duly.Tx) -> None:
    """Row, message and the end of the job are one COMMIT: Django is inside `tx` already."""
    Booking.objects.create(invoice=event.json["data"]["invoice"])
    tx.send("https://books.example/payments", json=event.json["data"])


@app.on("shop", "order.paid")
def pay_order(event: duly.Event) -> None:
    """No transaction, and none is needed: a state is set, and setting it twice changes nothing."""
    Order.objects.filter(number=event.json["data"]["order"]).update(mailed=False)
    Booking.objects.update_or_create(invoice=f"order {event.json['data']['order']}")
