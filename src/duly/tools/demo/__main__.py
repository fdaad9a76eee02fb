"""``python -m duly.tools.demo``."""

import sys

from duly.tools.demo.command import main

if __name__ == "__main__":
    sys.exit(main())
