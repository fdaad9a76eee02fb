"""What is left out of a run is left out on purpose, and is there in another form."""

import pytest

from tests.support import sizes
from tests.support.interpreters import ROOT
from tests.support.sizes import in_this_form, mostly_long, mostly_wide


def test_what_is_not_shown_is_marked_long_and_not_lost() -> None:
    shown, long = mostly_long("ab", lambda letter: letter == "a")
    assert shown == "a"
    assert long == pytest.param("b", marks=pytest.mark.long)


def test_what_is_not_shown_is_marked_wide_and_not_lost() -> None:
    shown, wide = mostly_wide("ab", lambda letter: letter == "a")
    assert shown == "a"
    assert wide == pytest.param("b", marks=pytest.mark.wide)


@pytest.mark.parametrize("mark", ["plain", "wide", "long"])
def test_each_test_runs_in_one_form_and_in_the_full_one(
    mark: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mark != "plain":
        request.applymarker(getattr(pytest.mark, mark))
    found = []
    for form in ("plain", "wide", "long"):
        monkeypatch.setattr(sizes, "WIDE", form == "wide")
        monkeypatch.setattr(sizes, "LONG", form == "long")
        if in_this_form(request.node):
            found.append(form)
    assert found == list(dict.fromkeys([mark, "long"]))


def test_every_change_is_tried_in_the_short_form_and_in_the_wide_one() -> None:
    steps = (ROOT / ".ci" / "run").read_text().splitlines()
    assert steps.index("make test") < steps.index("make test-wide")
