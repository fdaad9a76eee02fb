"""``python -m duly`` is the command ``duly``."""

from __future__ import annotations

import sys

from duly.cli.main import main

sys.exit(main())
