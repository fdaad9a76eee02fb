"""duly in Django: a database of Django's for ``Duly(begin=…)``, and sources as views.

``Duly(begin=duly.django.database("default"))`` and ``path("hooks/", include(urls(app)))``. Django
is imported when `view` or `urls` is asked for, and not before.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from duly.core.errors import UsageError
from duly.core.exports import UPGRADING
from duly.core.validation import kind
from duly.stores.orm.begin import DjangoAlias

if TYPE_CHECKING:
    from duly.django.views import urls, view

__all__ = ["database", "urls", "view"]


def database(alias: str = "default") -> DjangoAlias:
    """Name one of Django's databases for ``Duly(begin=…)``; handlers then run inside ``atomic``."""
    if kind(alias) != "a str" or not alias:
        raise UsageError("database(alias) takes the name of a database in Django's settings")
    return DjangoAlias(alias)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Load `view` and `urls`, and Django with them."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from duly.django import views

        return getattr(views, name)


class OldFunction(ModuleType):
    """This module, which was a function before it was a module."""

    def __call__(self, *_: object, **__: object) -> None:
        """Say what to call instead."""
        raise UsageError(
            f'duly.django("default") is now duly.django.database("default"): {UPGRADING}'
        )


sys.modules[__name__].__class__ = OldFunction
