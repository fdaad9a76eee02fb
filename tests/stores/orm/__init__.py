"""Handlers in the user's own ORM: ``Duly(begin=…)`` with SQLAlchemy and with Django."""
