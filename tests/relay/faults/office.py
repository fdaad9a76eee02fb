"""The application that `duly relay tests.relay.faults.office:app` sends for.

Whoever starts that tells it where its database is, and where it may send to.
"""

from __future__ import annotations

import os

from tests.relay.faults.posts import sender

app = sender(os.environ["POST_URL"], os.environ["POST_ORIGIN"])
