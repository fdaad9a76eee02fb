"""What a flow can be struck at, and what became of a case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from verification.crash_matrix.cases import Case
    from verification.crash_matrix.traps import Passed


class Verdict(NamedTuple):
    """What became of a case."""

    case: Case
    violations: list[str]
    # Stopped with a lease until others had taken that; or without one, while they went on; or until
    # they gave up waiting for what it had locked.
    zombies: int = 0
    passed_by: int = 0
    waited_for: int = 0
    # What late ones tried to end, and could not.
    refused: int = 0
    # Whether the recovery was killed, too.
    doubly: bool = False
    # The boundary is there in one unharmed run of the flow and not in the next.
    unsteady: bool = False


class Plan(NamedTuple):
    """Where a flow can be struck, and how many such places only one of two unharmed runs had."""

    passed: list[Passed]
    unsteady: int


class Beside(NamedTuple):
    """How one ended that was stopped, what was wrong, and who had what when it went on."""

    code: int
    found: list[str]
    leases: set[Any]
