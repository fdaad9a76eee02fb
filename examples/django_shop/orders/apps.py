"""The application, as INSTALLED_APPS knows it."""

from django.apps import AppConfig


class Orders(AppConfig):
    """Orders, payments and stock."""

    name = "orders"
