"""Runs one target under atheris, in a process of its own, until libFuzzer ends it.

atheris has wheels for some Pythons only and no types, so it is imported by its name.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def main(arguments: list[str]) -> None:
    """Fuzz the target that the first argument names; the rest are libFuzzer's own options."""
    name, *options = arguments
    atheris: Any = import_module("atheris")
    with atheris.instrument_imports(include=["duly.webhooks"]):
        import duly.webhooks  # noqa: F401  # counted from here on, before anything else imports it
    from verification.fuzz.targets import target

    atheris.Setup([sys.argv[0], *options], target(name))
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
