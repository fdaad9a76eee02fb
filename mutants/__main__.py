"""Runs the command."""

import sys

from mutants.command import main

sys.exit(main())
