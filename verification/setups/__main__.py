"""Runs the command."""

import sys

from verification.setups.command import main

sys.exit(main())
