"""The argument parser: its errors suggest the word that was meant, and repeat no secret.

Only known words are ever printed. A mistyped one may be a secret that stands in the wrong place.
"""

from __future__ import annotations

import argparse
import difflib
import re
from typing import TYPE_CHECKING, NoReturn

from duly.app.output import without_passwords

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

INVALID_CHOICE = re.compile(
    r"invalid choice: (?P<given>.*) \(choose from (?P<known>.*)\)", re.DOTALL
)
UNRECOGNIZED = "unrecognized arguments: "
CHOICE = re.compile(r"[^\s',]+")


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors never repeat a password or a secret."""

    def error(self, message: str) -> NoReturn:
        """Print how the command is used, and exit with 2."""
        options = [one for action in self._actions for one in action.option_strings]
        super().error(without_passwords(suggest_options(message, options)))


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most like this one, or None."""
    return next(iter(difflib.get_close_matches(word, list(known), n=1)), None)


def did_you_mean(words: Sequence[str], known: Iterable[str]) -> str:
    """Return a question to append to an error; empty where nothing known is similar."""
    choices = list(known)
    found = dict.fromkeys(one for word in words if (one := nearest(word, choices)))
    return f": did you mean {' and '.join(found)}?" if found else ""


def suggest_options(message: str, options: Iterable[str]) -> str:
    """Return argparse's error with a suggestion, and without what was typed behind an option.

    Args:
        message: argparse's error.
        options: the options of the command that refuses.
    """
    start, found, rest = message.partition(UNRECOGNIZED)
    if found:
        names = [word.partition("=")[0] for word in rest.split() if word.startswith("-")]
        listed = " ".join(names) or "there are more than the command takes"
        return f"{start}{found}{listed}{did_you_mean(names, options)}"
    match = INVALID_CHOICE.search(message)
    if match is None:
        return message
    known = CHOICE.findall(match["known"])
    return (
        f"{message[: match.start()]}this is not one of them (choose from {match['known']})"
        f"{did_you_mean([match['given'].strip(chr(39))], known)}"
    )
