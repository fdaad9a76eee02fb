"""Fuzz the schemes of the gate: all of them, or those that are named.

A crash is shown with the command that repeats it; its input stays under .cache/fuzz.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

from verification.fuzz.campaign import fuzzed
from verification.fuzz.targets import NAMES, seeds, target

SECONDS = 20
MISSING = (
    "fuzz: atheris is not installed, and this is Python {}.{}. It has wheels for CPython 3.11 to "
    "3.14 on Linux: run `make fuzz` with one of those, or `pip install 'atheris>=3'`."
)


def arguments_of(words: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m verification.fuzz",
        description=__doc__,
        epilog="schemes:\n  " + "\n  ".join(NAMES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("scheme", nargs="*", help="one or several; all where none is named")
    parser.add_argument("--runs", type=int, help="stop each scheme after so many executions")
    parser.add_argument(
        "--seconds", type=int, help=f"stop each scheme after so long ({SECONDS} unless --runs)"
    )
    parser.add_argument("--input", type=Path, help="try one saved input, without atheris")
    arguments = parser.parse_args(words)
    for name in set(arguments.scheme) - set(NAMES):
        parser.error(f"no scheme {name!r}; use some of: {', '.join(NAMES)}")
    if arguments.input is not None and len(arguments.scheme) != 1:
        parser.error("--input needs the one scheme that it was found with")
    return arguments


def repeat(name: str, path: Path) -> int:
    """Try one saved input; whatever it breaks is raised."""
    target(name)(path.read_bytes())
    print(f"fuzz: {name}: {path} breaks nothing")
    return 0


def main(words: list[str]) -> int:
    """Fuzz, and return the exit code: 1 for a crash, 3 where atheris is missing."""
    arguments = arguments_of(words)
    if arguments.input is not None:
        return repeat(arguments.scheme[0], arguments.input)
    if find_spec("atheris") is None:
        print(MISSING.format(*sys.version_info), file=sys.stderr)
        return 3
    seconds = SECONDS if arguments.seconds is None and arguments.runs is None else arguments.seconds
    outcomes = []
    for name in arguments.scheme or NAMES:
        outcomes.append(fuzzed(name, seeds(name), runs=arguments.runs, seconds=seconds))
        print(outcomes[-1], flush=True)
    crashed = [one for one in outcomes if not one.good]
    for one in crashed:
        print(f"fuzz: repeat it with: {one.reproduction()}", flush=True)
    total = sum(one.executions for one in outcomes)
    print(f"fuzz: {total:,} executions, {len(outcomes)} schemes, {len(crashed)} crashed")
    return 1 if crashed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
