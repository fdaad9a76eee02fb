"""Writes the application of a set-up into a folder, as a user would have it there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from verification.setups.catalog import Kind, Setup

APPLICATIONS = Path(__file__).parent / "applications"
BEGIN, END = "# region ", "# endregion"
FRAMEWORKS = ("fastapi", "flask")


def write_application(setup: Setup, folder: Path) -> None:
    """Write shop.py with the kinds of source that are wanted, and the site around it."""
    chosen = APPLICATIONS / setup.database.application
    if chosen.is_dir():
        for path in sorted(chosen.glob("*.py")):
            shutil.copy(path, folder)
        source = chosen / "shop.py"
    else:
        source = chosen.with_suffix(".py")
    (folder / "shop.py").write_text(keep_kind(source.read_text(), setup.kind))
    if site := website_of(setup):
        shutil.copy(site, folder / "website.py")


def website_of(setup: Setup) -> Path | None:
    """The file of the user's own site, in the forms that have one."""
    framework, _, driver = setup.form.partition("-")
    if framework not in FRAMEWORKS:
        return None
    beside = driver or setup.database.application.partition("_")[0]
    return APPLICATIONS / f"{framework}_{beside}.py"


def keep_kind(text: str, kind: Kind) -> str:
    """Leave out the regions of the other kind."""
    kept, region = [], ""
    for line in text.splitlines(keepends=True):
        if line.startswith(BEGIN):
            region = line.removeprefix(BEGIN).strip()
        elif line.startswith(END):
            region = ""
        elif kind == "both" or region in ("", kind):
            kept.append(line)
    return "".join(kept)
