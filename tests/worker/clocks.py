"""What tests of a desk are made of: a clock that is turned by hand, and a handler of nothing."""

from duly.core.host import Host
from duly.jobs.handlers import Handler

NOTHING = Handler("nothing", print, frozenset(), "sync")


class Seconds:
    """A clock that never jumps, turned by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    @property
    def host(self) -> Host:
        """The machine that has this clock."""
        return Host(monotonic=lambda: self.now)
