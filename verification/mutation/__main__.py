"""Runs the command."""

import signal
import sys

from verification.mutation.command import main

# The same way out as for Ctrl-C: what was started must not stay.
signal.signal(signal.SIGTERM, signal.default_int_handler)
try:
    sys.exit(main())
except KeyboardInterrupt:
    sys.exit(130)
