"""How fast a cost grows with a size, as a ratio in one run: a bound in seconds is one machine's.

What is linear costs four times as much for four times the size, what grows with the square sixteen
times; `LINEAR` lies between the two. `CONSTANT` lies between what is linear and what costs no more
beyond some size.
"""

from __future__ import annotations

from time import thread_time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Sized = TypeVar("Sized")

TIMES = 4
CONSTANT, LINEAR = 2.5, 9.0
LOOKS = 3  # the least of them counts, because a busy machine only ever makes a thing dearer


def growth(made: Callable[[int], Sized], work: Callable[[Sized], object], size: int) -> float:
    """What `work` costs at `size`, in costs of a quarter of it."""
    small, large = made(size // TIMES), made(size)
    costs = [(cost(work, small), cost(work, large)) for _ in range(LOOKS)]
    return min(dear for _, dear in costs) / min(cheap for cheap, _ in costs)


def cost(work: Callable[[Sized], object], on: Sized) -> float:
    """The time of this thread alone: others may have the machine meanwhile."""
    begun = thread_time()
    work(on)
    return thread_time() - begun
