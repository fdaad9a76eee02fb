"""What the shop promises, each event sent as its provider would: ``python manage.py test``.

Each is a TransactionTestCase: duly's own connections cannot see into a transaction that the test
never commits, which is what a TestCase is.
"""

from io import StringIO

from django.core import mail
from django.core.management import call_command
from django.test import TransactionTestCase

from duly.testing import django_test_database, isolated
from orders.hooks import app
from orders.models import Payment, Stock
from shopsite.wsgi import application

PAID = {
    "id": "evt_1",
    "type": "payment_intent.succeeded",
    "data": {"object": {"id": "pi_1", "amount": 1200}},
}


class ShopTest(TransactionTestCase):
    """The shop on Django's test database."""

    def setUp(self) -> None:
        """Everything that a test needs of duly."""
        self.trial = self.enterContext(isolated(app, url=django_test_database("default")))

    def mailed(self) -> list[str]:
        """What customers were told."""
        return [str(one.subject) for one in mail.outbox]

    def test_a_payment_announced_twice_is_recorded_once(self) -> None:
        """Twenty copies at one instant, as if Stripe had lost our answers."""
        answers = self.trial.deliver("stripe", PAID, times=20, at_once=True)
        self.assertEqual(answers.counts, {"accepted": 1, "duplicate": 19})
        self.assertEqual(self.trial.run_jobs().done, ["record_payment", "send_receipt"])
        [message] = self.trial.run_relay()
        told = {"type": "payment.recorded", "payment": "pi_1", "cents": 1200}
        self.assertEqual(message.json, told)
        self.assertEqual(Payment.objects.count(), 1)
        self.assertEqual(self.mailed(), ["Your payment pi_1"])

    def test_an_older_count_of_the_warehouse_changes_nothing(self) -> None:
        """The newest version wins, in any order of delivery."""
        for id, version, left in (("a", 2, 7), ("b", 1, 9), ("b", 1, 9)):
            count = {"item": "assam", "left": left, "version": version}
            self.trial.deliver("warehouse", {"type": "stock.changed", "data": count}, id=id)
        self.assertEqual(Stock.objects.get().left, 7)

    def test_an_order_and_its_confirmation_go_together(self) -> None:
        """A request that fails leaves neither."""
        asked = {"item": "assam", "email": "ann@example.com"}
        placed = self.client.post("/orders", asked, content_type="application/json")
        self.assertEqual(placed.status_code, 201)
        with self.assertRaises(KeyError):
            self.client.post("/orders", {"item": "assam"}, content_type="application/json")
        self.assertEqual(self.trial.run_jobs().done, ["confirm_order"])
        self.assertEqual(self.mailed(), [f"Your order {placed.json()['order']}"])

    def test_a_customer_is_reminded_once(self) -> None:
        """Even if cron runs the command several times."""
        asked = {"item": "assam", "email": "ann@example.com"}
        self.client.post("/orders", asked, content_type="application/json")
        self.trial.run_jobs()
        call_command("remind_unpaid", stdout=StringIO())
        call_command("remind_unpaid", stdout=StringIO())
        self.assertEqual(self.trial.run_jobs().done, ["remind"])

    def test_the_site_lets_deliveries_through(self) -> None:
        """Through Django's middleware, and outside of ATOMIC_REQUESTS."""
        answer = self.trial.deliver("stripe", PAID, site=application, path="/hooks/stripe")
        self.assertEqual(answer.word, "accepted")
