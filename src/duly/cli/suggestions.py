"""What a mistyped word was probably meant to be.

Only known words are ever printed. The mistyped one may be a secret that stands in the wrong place.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

INVALID_CHOICE = re.compile(
    r"invalid choice: (?P<given>.*) \(choose from (?P<known>.*)\)", re.DOTALL
)
UNRECOGNIZED = "unrecognized arguments: "
CHOICE = re.compile(r"[^\s',]+")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most like this one, if any is."""
    return next(iter(difflib.get_close_matches(word, list(known), n=1)), None)


def hint(words: Sequence[str], known: Iterable[str]) -> str:
    """A question to put behind a complaint; empty where nothing known is similar."""
    choices = list(known)
    found = dict.fromkeys(one for word in words if (one := nearest(word, choices)))
    return f": did you mean {' and '.join(found)}?" if found else ""


def without_values(message: str, options: Iterable[str]) -> str:
    """A complaint of argparse with a hint, and without what was typed behind an option.

    Args:
        message: what argparse says.
        options: the options of the command that refuses.
    """
    start, told, rest = message.partition(UNRECOGNIZED)
    if told:
        names = [word.partition("=")[0] for word in rest.split() if word.startswith("-")]
        listed = " ".join(names) or "there are more than the command takes"
        return f"{start}{told}{listed}{hint(names, options)}"
    match = INVALID_CHOICE.search(message)
    if match is None:
        return message
    known = CHOICE.findall(match["known"])
    start = message[: match.start()]
    return (
        f"{start}this is not one of them (choose from {match['known']})"
        f"{hint([match['given'].strip(chr(39))], known)}"
    )
