"""Public names and modules that were renamed, and the sentence that says the new name.

Loaded only after a name or a module was not found. docs/upgrading.md lists the same for users, and
tests/repo/test_upgrading.py tries each of its rows.
"""

from __future__ import annotations

from duly.core.exports import UPGRADING

ERRORS = (
    "DulyError", "EgressRefused", "LeaseLost", "NotJoinable", "NotStorable", "Rejected",
    "SchemaMismatch", "StaleSnapshot", "StoreRefused", "StoreUnavailable", "UnsafeStore",
)  # fmt: skip
TYPES = (
    "DeadLetter", "DeadMessage", "Enqueued", "Forgotten", "Message", "OutboxMessage", "OutboxStats",
    "Relayed", "Replayed", "Signed", "Staged", "Stats", "Store", "Worked",
)  # fmt: skip
# In `duly` itself.
NAMES = {
    "assert_effectively_once": "duly.prove.assert_effectively_once",
    "Held": "duly.errors.InProgress",
    "Misuse": "duly.errors.UsageError",
    "StillAtWork": "duly.errors.JobsPending",
    "Verified": "duly.types.VerifiedDelivery",
    "WrongColour": "duly.errors.SyncAsyncMismatch",
    **{name: f"duly.errors.{name}" for name in ERRORS},
    **{name: f"duly.types.{name}" for name in TYPES},
}
FRAMEWORKS = "duly.django, duly.fastapi and duly.flask"
MODULES = {
    "duly.edge": FRAMEWORKS,
    "duly.gate": "duly.webhooks",
    "duly.receiver.integrations": FRAMEWORKS,
    "duly.tools": "duly.testing",
}


def refuse_old_module(name: str) -> None:
    """Say where a module is that was renamed."""
    if name in MODULES:
        raise ModuleNotFoundError(f"{name} is now {MODULES[name]}: {UPGRADING}", name=name)


def missing_name(name: str) -> Exception:
    """The error of a name that `duly` does not have.

    A renamed one is an ImportError: of an AttributeError ``from duly import …`` keeps no word.
    """
    if name in NAMES:
        return ImportError(f"duly.{name} is now {NAMES[name]}: {UPGRADING}", name="duly")
    return AttributeError(f"module 'duly' has no attribute {name!r}")
