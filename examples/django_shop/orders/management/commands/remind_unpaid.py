"""``python manage.py remind_unpaid``: for cron, and safe to run twice."""

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand

from orders.hooks import app, remind
from orders.models import Order


class Command(BaseCommand):
    """Enqueues a reminder for each order that is not paid."""

    help = "remind customers of orders that they have not paid, once a week at most"

    def handle(self, **_: Any) -> None:
        """One job for each order. The key is known for a week: a second run adds none."""
        unpaid = list(Order.objects.filter(paid=False))
        enqueued = app.enqueue_many(
            remind,
            [{"order": order.pk, "email": order.email} for order in unpaid],
            keys=[f"remind/{order.pk}" for order in unpaid],
            window=timedelta(days=7),
        )
        added = sum(one.first for one in enqueued)
        self.stdout.write(f"{added} of {len(unpaid)} customers are reminded")
        app.close()
