"""Runs the command."""

import sys

from matrix.command import main

sys.exit(main())
