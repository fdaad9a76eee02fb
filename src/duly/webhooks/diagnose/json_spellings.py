"""One JSON value in the ways in which senders write JSON, to find the one that was signed."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

# The layouts: compact as in JavaScript, spaced as in Python, and indented.
LAYOUTS: Final[tuple[dict[str, Any], ...]] = (
    {"separators": (",", ":")},
    {"separators": (", ", ": ")},
    {"separators": (",", ": "), "indent": 2},
    {"separators": (",", ": "), "indent": 4},
    {"separators": (",", ": "), "indent": "\t"},
)
ASCII: Final = (False, True)
SORTED: Final = (False, True)
# Characters that some writers escape though they need not: PHP the slash, Go what HTML knows.
ESCAPES: Final[tuple[tuple[tuple[str, str], ...], ...]] = (
    (),
    (("/", "\\/"),),
    (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("\u2028", "\\u2028")),
)
ENDS: Final = ("", "\n")


def spellings_of_json(value: Any) -> Iterator[bytes]:
    """Each way once, the usual ones first."""
    for order, layout, plain in product(SORTED, LAYOUTS, ASCII):
        text = json.dumps(value, ensure_ascii=plain, sort_keys=order, **layout)
        for escapes, end in product(ESCAPES, ENDS):
            written = text
            for character, escape in escapes:
                written = written.replace(character, escape)
            yield (written + end).encode()
