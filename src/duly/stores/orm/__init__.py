"""Handlers' transactions that SQLAlchemy or Django opens: ``Duly(begin=…)``."""
