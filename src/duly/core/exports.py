"""How public names are shown: the module of a class, the keywords of a function, and old names.

Tracebacks, `help()`, pickles and the stored errors of jobs name a class by its module. The public
classes are set here, at their definition, because `duly` itself loads them only when asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Kind = TypeVar("Kind", bound=type)
Function = TypeVar("Function", bound="Callable[..., Any]")
# How the sentence ends that says the new name of something.
UPGRADING = "see docs/upgrading.md"


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


def show_keywords(
    options: Any, body: Callable[..., Any] | None = None, **defaults: object
) -> Callable[[Function], Function]:
    """Show the keys of a TypedDict in `help()`, in the place of ``**options: Unpack[…]``.

    Type checkers and editors read the TypedDict, and `inspect.signature` does not. ``body`` is the
    function that takes the options in the end: its defaults are shown.
    """

    def mark(function: Function) -> Function:
        from inspect import Parameter, signature

        known = {} if body is None else signature(body).parameters
        given = {name: one.default for name, one in known.items()} | defaults
        own = signature(function)
        *named, _ = own.parameters.values()
        spelled = [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=given.get(name),
                annotation=kind.__forward_arg__,
            )
            for name, kind in options.__annotations__.items()
        ]
        function.__signature__ = own.replace(  # type: ignore[attr-defined]
            parameters=[*named, *spelled]
        )
        return function

    return mark


def old_names(path: str, **names: str) -> Callable[[Kind], Kind]:
    """Have attributes that were renamed fail with a sentence that says the new name.

    ``path`` is how users write an object of the class.
    """

    def missing(self: object, name: str) -> Any:
        if name in names:
            raise AttributeError(f"{path}.{name} is now {path}.{names[name]}: {UPGRADING}")
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
        )

    def mark(kind: Kind) -> Kind:
        kind.__getattr__ = missing  # type: ignore[attr-defined]
        return kind

    return mark
