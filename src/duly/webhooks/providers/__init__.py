"""The shelf of known providers: one small file each, found by name."""

from __future__ import annotations

import difflib
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from duly.core.errors import UsageError

if TYPE_CHECKING:
    from duly.webhooks.provider import Provider


@cache
def provider_names() -> tuple[str, ...]:
    """The names of all known providers, in alphabetical order."""
    return tuple(sorted(module.name.replace("_", "-") for module in iter_modules(__path__)))


@cache
def provider_named(name: str) -> Provider:
    """A known provider; its file is only read when it is asked for."""
    if name not in provider_names():
        close = difflib.get_close_matches(name, provider_names(), n=1)
        # Not the name itself: with the arguments in another order it is the secret.
        hint = f"did you mean {close[0]!r}? The providers" if close else "the known ones"
        raise UsageError(
            f"there is no provider of this name: {hint} are {', '.join(provider_names())}; write "
            "any other with duly.Provider(…)"
        )
    found: Provider = import_module(f"{__name__}.{name.replace('-', '_')}").PROVIDER
    return found
