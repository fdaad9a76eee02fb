"""Typed applications pass `mypy --strict` and pyright; their mistakes are found by both."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.test_documentation import blocks
from tests.typing.checkers import (
    ROOT,
    check_project_with_mypy,
    check_with_mypy,
    check_with_pyright,
    complained_lines,
    make_bare_environment,
)

pytestmark = [pytest.mark.slow, pytest.mark.wide]

APPS = Path(__file__).parent / "apps"
FASTAPI, DJANGO = ROOT / "examples" / "fastapi_shop", ROOT / "examples" / "django_shop"
# Untyped, and imported by SQLAlchemy's users in any case.
UNTYPED = "[mypy-asyncpg.*]\nignore_missing_imports = true\n"
# What a page shows without annotations is read as far as it goes. That a letter which was found a
# line above has a failure, a page knows without looking.
AS_SHOWN = """\
allow_untyped_defs = true
allow_incomplete_defs = true
allow_untyped_calls = true
allow_untyped_decorators = true
disable_error_code = var-annotated, union-attr
"""
DJANGO_ENVIRONMENT = {
    "DJANGO_SECRET_KEY": "none",
    "STRIPE_WEBHOOK_SECRET": "whsec_none",
    "WAREHOUSE_WEBHOOK_SECRET": "whsec_none",
    "BOOKS_SIGNING_SECRET": "whsec_none",
}


def test_pyright_knows_the_types_of_an_application(tmp_path: Path) -> None:
    assert check_with_pyright(APPS / "agreed.py", mode="strict", here=tmp_path) == []


def marked_lines() -> set[int]:
    text = (APPS / "refused.py").read_text()
    return {number for number, line in enumerate(text.splitlines(), 1) if "# refused" in line}


def test_mypy_agrees_with_typed_applications_and_finds_mistakes(tmp_path: Path) -> None:
    # In one run: half a minute goes into reading SQLAlchemy.
    complaints = check_with_mypy(
        *(APPS / "agreed.py", APPS / "refused.py", FASTAPI),
        config=f"mypy_path = {FASTAPI}\n{UNTYPED}",
        here=tmp_path,
        name="applications",
    )
    assert [one for one in complaints if "refused.py:" not in one] == []
    assert complained_lines(complaints) == marked_lines(), complaints


def test_pyright_finds_the_mistakes_of_an_application(tmp_path: Path) -> None:
    complaints = check_with_pyright(APPS / "refused.py", mode="standard", here=tmp_path)
    assert complained_lines(complaints) == marked_lines(), complaints


def test_an_application_without_any_library_is_typed_all_the_same(tmp_path: Path) -> None:
    bare = make_bare_environment(tmp_path / "bare")
    app = APPS / "bare.py"
    assert check_with_mypy(app, python=bare, here=tmp_path, name="bare") == []
    assert check_with_pyright(app, mode="strict", python=bare, here=tmp_path) == []


def test_pyright_agrees_with_the_example_of_fastapi(tmp_path: Path) -> None:
    found = check_with_pyright(FASTAPI, mode="strict", here=tmp_path, roots=(FASTAPI,))
    assert found == []


def test_mypy_agrees_with_the_example_of_django() -> None:
    found = check_project_with_mypy(".", folder=DJANGO, name="django", **DJANGO_ENVIRONMENT)
    assert found == []


def test_pyright_agrees_with_the_example_of_django(tmp_path: Path) -> None:
    # Not strict: the stubs tell the types of a model's fields through a plugin of mypy's.
    found = check_with_pyright(DJANGO, mode="standard", here=tmp_path, roots=(DJANGO,))
    assert found == []


def test_both_agree_with_the_examples_of_the_pages(tmp_path: Path) -> None:
    scripts = [tmp_path / f"{name}.py" for name in ("jobs", "frameworks", "outbox")]
    for script in scripts:
        shown = blocks(ROOT / "docs" / f"{script.stem}.md", "python")
        script.write_text("\n".join(shown))
    config = AS_SHOWN + UNTYPED
    assert check_with_mypy(*scripts, config=config, here=tmp_path, name="pages") == []
    found = check_with_pyright(
        *scripts, mode="standard", here=tmp_path, reportOptionalMemberAccess=False
    )
    assert found == []
