"""The tables of the shop. duly's are beside them, in the same database."""

from django.db import models


class Order(models.Model):
    """What a customer ordered."""

    item = models.CharField(max_length=50)
    email = models.EmailField()
    paid = models.BooleanField(default=False)


class Payment(models.Model):
    """A payment from Stripe. No constraint prevents a second row for an event."""

    event = models.CharField(max_length=100)
    payment = models.CharField(max_length=100)
    cents = models.BigIntegerField()


class Stock(models.Model):
    """How much is left of an item, as the warehouse counted it."""

    item = models.CharField(max_length=50, primary_key=True)
    left = models.IntegerField()
