"""``:name`` parameters in the spelling of each driver.

The text is cut into pieces first, so that a colon inside quotes, comments or a ``::cast`` is never
taken for a parameter, and a percent sign never for a placeholder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

Style = Literal["named", "pyformat", "dollar"]

PIECE = re.compile(
    r"""
      (?P<skip> --[^\n\r]*                        # comment to the end of the line
              | /\*.*?\*/                         # comment in brackets
              | (?<!\w)[eE]'(?:[^'\\]|\\.|'')*'   # string with backslash escapes
              | '(?:[^']|'')*'                    # string
              | "(?:[^"]|"")*"                    # quoted identifier
              | (?<![\w$])(?P<tag>\$([^\W\d]\w*)?\$).*?(?P=tag)  # dollar-quoted string
              | ::                                # cast
      )
    | :(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    """,
    re.VERBOSE | re.DOTALL,
)
ARRAY_CAST = re.compile(r"\s*::\s*([a-z]+)\[\]")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A statement in one driver's spelling.

    ``order`` lists its parameters by position, ``arrays`` those that are arrays with the type of
    their elements.
    """

    text: str
    order: tuple[str, ...]
    arrays: tuple[tuple[str, str], ...] = ()


def prepare(text: str, style: Style) -> Prepared:
    """Rewrite ``:name`` parameters for a driver and leave everything else as it was."""
    if style == "named":
        return Prepared(text, tuple(dict.fromkeys(names_in(text))))
    places: dict[str, int] = {}
    pieces: list[str] = []
    arrays: dict[str, str] = {}
    end = 0
    for found in PIECE.finditer(text):
        pieces.append(literal(text[end : found.start()], style))
        end = found.end()
        name = found["name"]
        if name is None:
            pieces.append(literal(found[0], style))
            continue
        place = places.setdefault(name, len(places) + 1)
        cast = ARRAY_CAST.match(text, end)
        if cast is not None:
            arrays[name] = cast[1]
        pieces.append(f"${place}" if style == "dollar" else pyformat(name, is_array=bool(cast)))
    pieces.append(literal(text[end:], style))
    return Prepared("".join(pieces), tuple(places), tuple(arrays.items()))


def names_in(text: str) -> Iterator[str]:
    """The parameters of a statement, as they occur."""
    return (found["name"] for found in PIECE.finditer(text) if found["name"] is not None)


def pyformat(name: str, *, is_array: bool) -> str:
    """One psycopg placeholder. Arrays go binary, which is several times faster than their text."""
    return f"%({name}){'b' if is_array else 's'}"


def literal(text: str, style: Style) -> str:
    """Text that is not a parameter; psycopg needs every percent sign doubled."""
    return text.replace("%", "%%") if style == "pyformat" else text
