"""The application that a command names, as ``module:app`` or ``path/to/file.py:app``.

Every error is one line with the file and line to look at. Source lines are not shown: the
one that fails is often the one that holds a secret.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from duly.app.duly import Duly
from duly.app.output import one_line
from duly.core.errors import UsageError
from duly.core.validation import kind

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from types import ModuleType

VARIABLE = "DULY_APP"
SETTINGS = "DJANGO_SETTINGS_MODULE"
FORMS = "shop:app, or path/to/shop.py:app"


class NoModule(UsageError):
    """There is no module of that name."""


def add_optional_argument(parser: argparse.ArgumentParser, name: str, meaning: str) -> None:
    """An argument that may be missing, wherever it stands.

    With ``nargs="?"`` argparse would take it for missing as soon as an option comes first.
    """
    parser.add_argument(name, metavar=f"[{name.upper()}]", help=meaning).required = False


def app_name(given: str | None) -> str:
    """What the command line says, or else the environment."""
    name = given or os.environ.get(VARIABLE, "")
    if not name:
        raise UsageError(f"which application? As in {FORMS}; or set {VARIABLE}")
    return name


def load_app(name: str) -> Duly:
    """Import the module and take the application out of it."""
    place, _, attribute = name.rpartition(":")
    if not place or not all(part.isidentifier() for part in attribute.split(".")):
        raise UsageError(f"{name!r:.80} does not name an application: write it like {FORMS}")
    module = import_from_file(Path(place)) if place.endswith(".py") else import_by_name(place)
    return checked_app(find_attribute(module, attribute, name), name)


def import_by_name(name: str) -> ModuleType:
    """A module by its name; the current directory is where to look first."""
    here = str(Path.cwd())
    if not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"{name!r:.80} is no name of a module: write it like {FORMS}")
    if here not in sys.path:
        sys.path.insert(0, here)

    def load() -> ModuleType:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as problem:
            if problem.name is not None and f"{name}.".startswith(f"{problem.name}."):
                raise NoModule(
                    f"there is no module {problem.name} in {here}, nor among the installed ones: "
                    f"go to the directory it is in, or name its file, like {FORMS}"
                ) from None
            raise

    return import_reporting_errors(name, load)


def import_from_file(path: Path) -> ModuleType:
    """A module by its file; what stands beside the file can be imported by it."""
    full = path.resolve()
    if not full.is_file():
        raise UsageError(f"there is no file {path} in {Path.cwd()}")
    name = full.stem
    if not name.isidentifier() or name in sys.modules or name in sys.stdlib_module_names:
        raise UsageError(
            f"{path} cannot be imported: {name!r} is no name of a module, or another module has "
            "it. Rename the file"
        )
    sys.path.insert(0, str(full.parent))
    return import_reporting_errors(str(path), lambda: importlib.import_module(name))


def import_reporting_errors(name: str, load: Callable[[], ModuleType]) -> ModuleType:
    """Import; an error of the application's own code becomes one line that says where it is."""
    try:
        return import_with_django(load)
    except NoModule:
        raise
    except UsageError as problem:
        raise UsageError(
            f"{name} cannot be imported: {one_line(problem)}{location_of(problem)}"
        ) from None
    except SystemExit:
        raise UsageError(
            f'{name} ends the program when it is imported: put that under `if __name__ == "'
            '__main__":`'
        ) from None
    except Exception as problem:
        raise UsageError(
            f"{name} cannot be imported: {type(problem).__name__}: {one_line(problem)}"
            f"{location_of(problem)}{django_hint(problem)}"
        ) from None


def import_with_django(load: Callable[[], ModuleType]) -> ModuleType:
    """Import; where Django's models need its settings first, read them as ``manage.py`` does."""
    try:
        return load()
    except Exception as problem:
        if type(problem).__name__ != "AppRegistryNotReady" or SETTINGS not in os.environ:
            raise
        sys.modules["django"].setup()
        return load()


def django_hint(problem: Exception) -> str:
    """What to do about Django's own errors of this kind, whose words are for other programs."""
    name = type(problem).__name__
    unset = name == "ImproperlyConfigured" and "settings are not configured" in str(problem)
    if name != "AppRegistryNotReady" and not unset:
        return ""
    return f": set {SETTINGS}=project.settings, as manage.py does, or call django.setup() first"


def location_of(problem: BaseException) -> str:
    """The last line of the application's own that an error went through."""
    if isinstance(problem, SyntaxError):
        return ""  # it names its line itself
    trace, place = problem.__traceback__, ""
    # duly's, Python's own, and what has no file: `<frozen …>`, code that SQLAlchemy generates.
    others = (str(Path(__file__).parents[1]), f"{Path(os.__file__).parent}{os.sep}", "<")
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(others) and "-packages" not in file:
            place = f" ({file}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return place


def find_attribute(module: ModuleType, attribute: str, name: str) -> object:
    """What the module calls by that name."""
    value: object = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            known = [key for key, one in vars(module).items() if isinstance(one, Duly)]
            hint = f"it has {', '.join(known)}" if known else "it has no duly.Duly at all"
            raise UsageError(f"there is no {attribute} in {name.rpartition(':')[0]}: {hint}")
        value = getattr(value, part)
    return value


def checked_app(value: object, name: str) -> Duly:
    """Refuse what is no application of duly's."""
    if isinstance(value, Duly):
        return value
    raise UsageError(
        f"{name} is {kind(value)}, not a duly.Duly: name the Duly itself, or serve this with a "
        "server of its own and mount the Duly in it"
    )
