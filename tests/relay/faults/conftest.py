"""An outbox and its receiver, on each store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.outbox.receivers import Receiver
from tests.receiver.faults.conftest import url, wire  # noqa: F401  # pytest finds them here
from tests.relay.faults.posts import Post

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def there() -> Iterator[Receiver]:
    """A receiver."""
    with Receiver() as made:
        yield made


@pytest.fixture
def post(url: str, there: Receiver) -> Iterator[Post]:  # noqa: F811  # a fixture
    """An outbox and its receiver."""
    with Post(url, there) as made:
        yield made
