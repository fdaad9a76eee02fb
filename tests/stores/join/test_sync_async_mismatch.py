"""A verb in the wrong colour names its twin before anything is done."""

from collections.abc import Callable
from typing import Any

import pytest

import duly
from tests.stores.join.places import Place
from tests.stores.join.ways import ALL, Way

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "dedup": lambda verb, target: verb(target, "scope", "key"),
    "dedup_many": lambda verb, target: verb(target, "scope", ["key"]),
    "once": lambda verb, target: verb(target, "scope", "key"),
    "newer": lambda verb, target: verb(target, "resource", 1),
    "prune": lambda verb, target: verb(target),
    "migrate": lambda verb, target: verb(target),
}


@pytest.mark.parametrize("way", ALL, ids=str)
@pytest.mark.parametrize("name", CALLS)
async def test_a_verb_in_the_wrong_colour_names_its_twin(way: Way, place: Place, name: str) -> None:
    async with way.open(place.url) as user:
        if way.colour == "async":
            with pytest.raises(duly.errors.SyncAsyncMismatch, match=rf"use duly\.aio\.{name}\b"):
                CALLS[name](getattr(duly, name), user.connection)
        else:
            with pytest.raises(duly.errors.SyncAsyncMismatch, match=rf"use duly\.{name}\b"):
                called = CALLS[name](getattr(duly.aio, name), user.connection)
                await called
        assert not user.in_transaction() or way.name.endswith("always-in-transaction")
