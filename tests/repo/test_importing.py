"""`import duly` loads the package alone; each part is loaded when one of its names is asked for.

Counted in modules, not in milliseconds: those are one machine's. Each look is taken in a process
of its own, because this one has loaded everything.
"""

from __future__ import annotations

import ast
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import duly
from duly.cli.main import COMMANDS

# What costs time to load, or what no module of the core may need.
HEAVY = {
    "asyncio", "concurrent.futures", "email", "http", "http.client", "inspect", "logging",
    "multiprocessing", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "urllib.request",
    "psycopg", "sqlalchemy", "django", "httpx", "uvicorn", "cryptography", "rich",
}  # fmt: skip
LOOK = "import json, sys; print(json.dumps(sorted(sys.modules)))"
COMMAND_LINE = """\
from duly.cli.main import main
try:
    main({})
except SystemExit:
    pass
"""
# Python's own start loads some of these, if site-packages has .pth files.
BARE = "pass"


def loaded(program: str) -> set[str]:
    """The modules that a program loads beside those of an empty one."""
    return modules_after(program) - modules_after(BARE)


def modules_after(program: str) -> set[str]:
    told = subprocess.run(
        [sys.executable, "-c", f"{program}\n{LOOK}"], check=True, capture_output=True, text=True
    )
    return set(json.loads(told.stdout.splitlines()[-1]))


def test_the_import_alone_loads_no_part_of_duly_and_nothing_heavy() -> None:
    modules = loaded("import duly")
    assert {name for name in modules if name.partition(".")[0] == "duly"} == {"duly"}
    assert not modules & HEAVY


def test_errors_and_values_are_had_without_the_app_the_gate_and_the_stores() -> None:
    modules = loaded("from duly import Backoff, Dead, First; from duly.errors import InProgress")
    packages = {name.split(".")[1] for name in modules if name.startswith("duly.")}
    assert packages == {"core", "errors"}
    assert "asyncio" not in modules


@pytest.mark.parametrize("verb", ["verify", "sign", "explain", "Source", "Provider"])
def test_the_gate_is_had_without_the_app_the_stores_and_an_event_loop(verb: str) -> None:
    modules = loaded(f"from duly import {verb}")
    packages = {name.split(".")[1] for name in modules if name.startswith("duly.")}
    assert packages <= {"core", "webhooks"}
    assert "asyncio" not in modules


def test_the_version_and_the_list_of_names_cost_nothing() -> None:
    assert loaded("import duly; duly.__version__; dir(duly)") == loaded("import duly")


def commands_loaded_by(*words: str) -> tuple[set[str], set[str]]:
    """The commands whose modules a command line loads, and everything that it loads."""
    modules = loaded(COMMAND_LINE.format(list(words)))
    return {name for name in COMMANDS if f"duly.cli.{name}" in modules}, modules


def test_the_help_of_the_command_line_loads_no_command() -> None:
    commands, modules = commands_loaded_by("--help")
    packages = {name.split(".")[1] for name in modules if name.startswith("duly.")}
    assert packages == {"app", "cli", "core"}
    assert commands == set()
    assert "asyncio" not in modules


def test_a_command_loads_no_other_command() -> None:
    commands, _ = commands_loaded_by("init", "--help")
    assert commands == {"init"}


def test_every_public_name_is_there_and_listed() -> None:
    for name in duly.__all__:
        assert getattr(duly, name) is getattr(duly, name)
    assert set(dir(duly)) == {*duly.__all__, "__version__"}


def test_a_name_that_is_none_is_refused_as_python_does() -> None:
    with pytest.raises(AttributeError, match="module 'duly' has no attribute 'onec'"):
        duly.onec  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'onec' from 'duly'"):
        exec("from duly import onec")


def test_type_checkers_are_told_the_same_as_python() -> None:
    [tree] = [
        node
        for node in ast.parse(Path(duly.__file__).read_text()).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    told = {
        (alias.name, node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("duly.")
        for alias in node.names
    }
    assert told == set(duly._MODULES.items())
    assert {name for name, _ in told} | {"aio", "errors", "types"} == set(duly.__all__)
    assert len(duly.__all__) <= 30


@pytest.mark.parametrize("module", duly._PUBLIC_MODULES)
def test_a_public_module_is_an_attribute_once_it_is_asked_for(module: str) -> None:
    assert f"duly.{module}" in loaded(f"import duly; duly.{module}")


def test_a_database_of_django_is_named_before_django_is_loaded() -> None:
    assert "django" not in loaded("import duly; duly.django.database('default')")


def test_public_classes_are_named_as_they_are_imported_before_any_of_them_was_asked_for() -> None:
    program = (
        "import duly, importlib, json\n"
        "kinds = [getattr(importlib.import_module(module), name)"
        " for name, module in duly._MODULES.items()]\n"
        "print(json.dumps([kind.__name__ for kind in kinds"
        " if isinstance(kind, type) and kind.__module__ != 'duly']))"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert json.loads(told.stdout) == []


def test_a_pickled_value_loads_what_it_needs() -> None:
    kept = pickle.dumps(duly.Backoff())
    program = f"import pickle; value = pickle.loads({kept!r}); assert type(value).__name__"
    assert "duly.core.retry" in loaded(program)
