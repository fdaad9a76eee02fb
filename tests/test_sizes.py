"""What is left out in CI is left out on purpose: of each two properties, some case has both."""

from itertools import product
from typing import Any

from tests.sizes import mostly_long, woven

STORES, SERVERS, WAYS = ("sqlite", "postgres"), ("asgi", "wsgi"), ("deferred", "inline", "async")
CASES = list(product(STORES, SERVERS, WAYS))


def shown(parameters: list[Any]) -> list[Any]:
    """Those that are not marked long."""
    return [one for one in parameters if not hasattr(one, "marks")]


def test_woven_cases_have_every_pair_of_properties_in_half_as_many_cases() -> None:
    chosen = shown(woven(CASES, *(lambda case, n=n: case[n] for n in range(3))))
    assert {case[:2] for case in chosen} == set(product(STORES, SERVERS))
    assert {case[1:] for case in chosen} == set(product(SERVERS, WAYS))
    assert {(case[0], case[2]) for case in chosen} == set(product(STORES, WAYS))
    assert len(chosen) == len(CASES) / 2


def test_nothing_is_lost_of_the_long_form() -> None:
    parameters = woven(CASES, lambda case: case[0], lambda case: case[1])
    assert [one.values[0] if hasattr(one, "marks") else one for one in parameters] == CASES
    [long] = [one for one in mostly_long("ab", lambda letter: letter == "a") if one != "a"]
    assert [mark.name for mark in long.marks] == ["long"]
