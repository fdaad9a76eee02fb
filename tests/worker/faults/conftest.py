"""The stores on which workers are killed: the same fixture as the receiver's faults."""

from tests.receiver.faults.conftest import url, wire  # noqa: F401  # pytest finds them here
