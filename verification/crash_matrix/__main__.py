"""Runs the command."""

import sys

from verification.crash_matrix.command import main

sys.exit(main())
