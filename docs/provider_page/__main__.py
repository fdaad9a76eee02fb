"""``python -m docs.provider_page``."""

import sys

from docs.provider_page.command import main

if __name__ == "__main__":
    sys.exit(main())
