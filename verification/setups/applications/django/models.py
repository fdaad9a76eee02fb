"""The shop's table."""

from django.db import models


class Entry(models.Model):
    number = models.BigAutoField(primary_key=True)
    event = models.TextField()
    kind = models.TextField()

    class Meta:
        app_label = "shop"
        db_table = "entries"
