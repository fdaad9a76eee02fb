"""The application that `duly relay tests.faults.relaying.office:app` sends for.

Whoever starts that tells it where its database is, and where it may send to.
"""

from __future__ import annotations

import os

from tests.faults.relaying.posts import sender

app = sender(os.environ["POST_URL"], os.environ["POST_ORIGIN"])
