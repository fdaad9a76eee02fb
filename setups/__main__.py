"""Runs the command."""

import sys

from setups.command import main

sys.exit(main())
