"""Says of a class that it is imported from `duly`, wherever it is written.

Tracebacks, `help()`, pickles and the stored errors of jobs name a class by its module. The public
classes are set here, at their definition, because `duly` itself loads them only when asked for.
"""

from __future__ import annotations

from typing import TypeVar

Kind = TypeVar("Kind", bound=type)


def export(kind: Kind) -> Kind:
    """Name the class as users import it; the outermost decorator of a public class."""
    kind.__module__ = "duly"
    return kind
