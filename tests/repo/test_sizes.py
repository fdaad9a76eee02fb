"""What is left out in CI is left out on purpose, and is there in the long form."""

import pytest

from tests.support.sizes import mostly_long


def test_what_is_not_shown_is_marked_long_and_not_lost() -> None:
    shown, long = mostly_long("ab", lambda letter: letter == "a")
    assert shown == "a"
    assert long == pytest.param("b", marks=pytest.mark.long)
