"""``duly prove``: runs a handler as life will, and compares the result with that of one clean run.

It is delivered twice, many times at once, out of order; killed after each of its statements and
calls; paused until another worker has done its job. Each time the database and the calls to the
outside must be as after a single run. `assert_effectively_once` is the same inside a test.
"""

from duly.prove.assertion import assert_effectively_once

__all__ = ["assert_effectively_once"]
