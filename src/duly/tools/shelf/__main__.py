"""``python -m duly.tools.shelf``."""

import sys

from duly.tools.shelf.command import main

if __name__ == "__main__":
    sys.exit(main())
