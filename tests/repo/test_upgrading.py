"""Every old name, option, module and command of docs/upgrading.md fails and says the new one."""

import importlib
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import duly
from duly.cli.main import RENAMED, main
from duly.core.renamed import MODULES, NAMES
from duly.types import Relayed, VerifiedDelivery, Worked

PAGE = Path(__file__).parents[2] / "docs" / "upgrading.md"
CODE = re.compile(r"`([^`]+)`")
CHECKOUT = "In a checkout"  # what is there is no part of the package


def rows() -> Iterator[tuple[str, str, str]]:
    """The section, an old name, and the cell that has its new name."""
    section = ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("### "):
            section = line.removeprefix("### ")
        elif line.startswith("| `") and section != CHECKOUT:
            _, before, now, _ = line.split("|")
            for old in CODE.findall(before):
                yield section, old, now


ROWS = list(rows())


def sentence(section: str, old: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What is said when the old name is used as the page writes it."""
    if section == "Commands":
        assert main(old.split()[1:]) == 2
        return capsys.readouterr().err
    with pytest.raises((ImportError, AttributeError, duly.errors.UsageError)) as told:
        if section == "Modules":
            importlib.import_module(old)
        else:
            use(old)
    return str(told.value)


def use(old: str) -> object:
    """Evaluate an old name or call."""
    call = old.replace("app.source(", 'app.source("stripe", secret="s", ').replace("…", "None")
    with closing(duly.Duly("memory:")) as app:
        names = {
            "duly": duly,
            "app": app,
            "worked": Worked(),
            "relayed": Relayed(),
            "verified": VerifiedDelivery.__new__(VerifiedDelivery),
        }
        return eval(call, names)


@pytest.mark.parametrize(("section", "old", "now"), ROWS, ids=[old for _, old, _ in ROWS])
def test_an_old_name_fails_with_a_sentence_that_says_the_new_one(
    section: str, old: str, now: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = sentence(section, old, capsys)
    new = CODE.findall(now)[0]
    words = " ".join(word for word in new.split() if not word.isupper())
    assert words in told
    assert "docs/upgrading.md" in told


@pytest.mark.parametrize("name", ["Misuse", "Rejected", "Worked"])
def test_the_import_of_an_old_name_says_it_too(name: str) -> None:
    with pytest.raises(ImportError, match=rf"duly\.{name} is now duly\.\w+\.\w+: see docs/"):
        exec(f"from duly import {name}")


def test_the_page_lists_all_that_was_renamed() -> None:
    listed = {old for _, old, _ in ROWS}
    assert {f"duly.{name}" for name in NAMES} <= listed
    assert all(any(old.startswith(module) for old in listed) for module in MODULES)
    commands = {" ".join(word for word in old.split()[1:] if word.islower()) for old in listed}
    assert set(RENAMED) <= commands
