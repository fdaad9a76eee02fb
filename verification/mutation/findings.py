"""What a command has found, apart from everything else that it says.

A defect may break more than it should: a name that is not there, SQL that cannot be read. Then a
command is red as well, and may even say the right words on its way; but it has noticed nothing that
a user's program would not have noticed at once.
"""

from __future__ import annotations

import re

# How a patch breaks duly instead of making it wrong.
BROKEN = re.compile(
    r"\b(?:NameError|UnboundLocalError|ImportError|ModuleNotFoundError|SyntaxError"
    r"|IndentationError|AttributeError|UndefinedTable|UndefinedColumn)\b"
    r"|syntax error|no such (?:table|column)"
)
# A test that was answered wrongly, or refused by duly, as pytest sums it up.
ASSERTED = re.compile(
    r"^FAILED \S.* - (?:AssertionError|assert |Failed: |duly\.[\w.]+: ).*$", re.MULTILINE
)
# A case of the matrix whose fault has struck, and what was wrong after it; or a flow of it in which
# something is wrong without any fault. A documented set-up says it in the same form.
VIOLATED = re.compile(
    r"^VIOLATED: .*?^  repro: |^AssertionError: \S+ is not whole unharmed: .*?$",
    re.MULTILINE | re.DOTALL,
)


def found_by(command: str, said: str) -> str:
    """What a command has found, as it said so; everything, where it says nothing else."""
    if "pytest" in command:
        return "\n".join(ASSERTED.findall(said))
    if "-m verification.crash_matrix" in command or "-m verification.setups" in command:
        return "\n".join(VIOLATED.findall(said))
    return said


def broke(said: str) -> str:
    """How duly was broken rather than made wrong, where it was."""
    met = BROKEN.search(said)
    return met[0] if met else ""
