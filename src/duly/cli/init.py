"""``duly init``: write a small commented app that runs and can be tried at once."""

from __future__ import annotations

import os
import sys
import uuid
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from duly.app.output import add_json_option, print_answer
from duly.cli.templates.rendering import AppTemplate
from duly.core.errors import UsageError
from duly.core.extras import install_command
from duly.webhooks import provider_named

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
examples:
  duly init                                  app.py: Stripe, on SQLite
  duly init shop.py --provider github        another file, another provider
  duly init shop --postgres                  shop/app.py, on the PostgreSQL of DATABASE_URL

A file that is there already is left as it is, unless --force is given."""

FILE_NAME = "app.py"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "path",
        nargs="?",
        default=FILE_NAME,
        metavar="PATH",
        help=f"the file to write, or the folder to write {FILE_NAME} to (default {FILE_NAME})",
    )
    parser.add_argument(
        "--provider",
        default="stripe",
        metavar="NAME",
        help="whose webhooks it receives (default stripe; `duly deliver --list` names them all)",
    )
    parser.add_argument(
        "--postgres", action="store_true", help="keep everything in the database of DATABASE_URL"
    )
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the file, and print the next steps."""
    path = checked_file(arguments.path)
    app = AppTemplate(provider_named(arguments.provider), path.stem, arguments.postgres)
    write_file(path, app.text(), force=arguments.force)
    steps = app.steps()
    folder = [] if path.parent == Path() else [f"cd {path.parent}"]
    lines = [f"wrote {path}; now", *(f"  {step}" for step in [*folder, *steps])]
    print_answer(arguments, "\n".join(lines), {"file": str(path), "steps": [*folder, *steps]})
    if arguments.postgres and not (find_spec("psycopg") and find_spec("psycopg_pool")):
        print(
            f"duly: the app needs psycopg and psycopg_pool: {install_command('postgres')}",
            file=sys.stderr,
        )
    return 0


def checked_file(given: str) -> Path:
    """Return the file to write; its name must be importable, and no module that the app uses."""
    path = Path(given) if given.endswith(".py") else Path(given) / FILE_NAME
    if not path.stem.isidentifier() or path.stem in {"duly", "psycopg", *sys.stdlib_module_names}:
        raise UsageError(
            f"{path.name} cannot be imported as a module of its own: use letters, digits and "
            f"underscores, and no name of Python's or duly's, as in {FILE_NAME}"
        )
    return path


def write_file(path: Path, text: str, *, force: bool) -> None:
    """Write the whole file or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        temporary.write_text(text, encoding="utf-8")
        if force:
            temporary.replace(path)
        else:
            os.link(temporary, path)  # unlike a rename, it never takes the place of another file
    except FileExistsError:
        raise UsageError(f"{path} is there already: use --force to replace it") from None
    finally:
        temporary.unlink(missing_ok=True)
