"""Says of a class which public module it is imported from, wherever it is written.

Tracebacks, `help()`, pickles and the stored errors of jobs name a class by its module. The public
classes are set here, at their definition, because `duly` itself loads them only when asked for.
"""

from __future__ import annotations

from typing import TypeVar

Kind = TypeVar("Kind", bound=type)


def export(kind: Kind) -> Kind:
    """Name a class of `duly`; the outermost decorator of a public class."""
    kind.__module__ = "duly"
    return kind


def export_error(kind: Kind) -> Kind:
    """Name a class of `duly.errors`."""
    kind.__module__ = "duly.errors"
    return kind


def export_type(kind: Kind) -> Kind:
    """Name a class of `duly.types`."""
    kind.__module__ = "duly.types"
    return kind
