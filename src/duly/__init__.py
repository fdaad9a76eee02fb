"""duly makes webhooks and background jobs safe to retry: each event takes effect once.

At-least-once delivery plus idempotent processing is an effectively-once effect. This package holds
the application (`Duly`), the verbs of the ledger, and the values that handlers use. The errors are
in `duly.errors`, what the verbs return in `duly.types`, and the awaited verbs in `duly.aio`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duly import aio, errors, types
    from duly import django as django
    from duly.app.duly import Duly
    from duly.core.answers import Duplicate, First
    from duly.core.retry import Backoff, Dead, NotYet, Retry
    from duly.idempotency import dedup, dedup_many, fence, migrate, newer, once, prune
    from duly.inbox.event import Event
    from duly.jobs.job import Job
    from duly.jobs.tx import Tx
    from duly.outbox.egress import Egress
    from duly.stores.open import store
    from duly.webhooks.diagnose.explain import explain
    from duly.webhooks.provider import Provider
    from duly.webhooks.secrets import Secret
    from duly.webhooks.sign import sign
    from duly.webhooks.source import Source
    from duly.webhooks.verify import verify

__version__ = "0.1.0"

# Where each name is written. `import duly` loads none of these modules: each is loaded when one of
# its names is asked for, so that a program pays for the app, the worker, the relay and the webhooks
# only if it uses them. The imports above tell type checkers the same; tests/repo/test_importing.py
# compares the two.
_NAMES = {
    "duly.core.answers": ("Duplicate", "First"),
    "duly.core.retry": ("Backoff", "Dead", "NotYet", "Retry"),
    "duly.app.duly": ("Duly",),
    "duly.webhooks.diagnose.explain": ("explain",),
    "duly.webhooks.provider": ("Provider",),
    "duly.webhooks.secrets": ("Secret",),
    "duly.webhooks.sign": ("sign",),
    "duly.webhooks.source": ("Source",),
    "duly.webhooks.verify": ("verify",),
    "duly.inbox.event": ("Event",),
    "duly.jobs.job": ("Job",),
    "duly.jobs.tx": ("Tx",),
    "duly.outbox.egress": ("Egress",),
    "duly.stores.open": ("store",),
    "duly.idempotency": ("dedup", "dedup_many", "fence", "migrate", "newer", "once", "prune"),
}
# Public modules, loaded when they are asked for.
_PUBLIC_MODULES = ("aio", "django", "errors", "fastapi", "flask", "prove", "testing", "types")
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Load a public name when it is asked for, and keep it."""
        if name in _PUBLIC_MODULES:
            return import_module(f"duly.{name}")
        if name not in _MODULES:
            from duly.core.renamed import missing_name

            raise missing_name(name)
        value = getattr(import_module(_MODULES[name]), name)
        globals()[name] = value
        return value

    class _RenamedModules:
        """Asked last for a module that no other finder has; one of duly's may have been renamed."""

        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            if name.startswith("duly."):
                from duly.core.renamed import refuse_old_module

                refuse_old_module(name)

    sys.meta_path.append(_RenamedModules)


def __dir__() -> list[str]:
    """The public names, also of what is imported when it is asked for."""
    return sorted([*__all__, "__version__"])


__all__ = [
    "Backoff",
    "Dead",
    "Duly",
    "Duplicate",
    "Egress",
    "Event",
    "First",
    "Job",
    "NotYet",
    "Provider",
    "Retry",
    "Secret",
    "Source",
    "Tx",
    "aio",
    "dedup",
    "dedup_many",
    "errors",
    "explain",
    "fence",
    "migrate",
    "newer",
    "once",
    "prune",
    "sign",
    "store",
    "types",
    "verify",
]
