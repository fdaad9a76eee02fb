"""Print the page of all providers, or say whether a file still is that page."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from docs.provider_page.page import page

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(words: Sequence[str] | None = None) -> int:
    """Write the page to standard output, or compare it with a file."""
    parser = argparse.ArgumentParser(
        prog="python -m docs.provider_page",
        description="Write the page of all known providers, from their profiles.",
    )
    parser.add_argument(
        "--check", metavar="FILE", type=Path, help="write nothing; exit 1 unless FILE is the page"
    )
    file: Path | None = parser.parse_args(words).check
    if file is None:
        sys.stdout.write(page())
        return 0
    if file.is_file() and file.read_text(encoding="utf-8") == page():
        return 0
    print(f"{file} is not what the profiles say now: run make docs", file=sys.stderr)
    return 1
