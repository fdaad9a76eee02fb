"""What may be wrong with a rejected delivery, in the order of likelihood and of cost.

Each suspicion is a small function from a `Case` to guesses. What can be proved comes before what
can only be supposed, and what needs no look at the body before what rewrites it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duly.webhooks.diagnose import bodies, clocks, headers, urls
from duly.webhooks.diagnose import secrets as keys

if TYPE_CHECKING:
    from duly.webhooks.diagnose.case import Suspicion

# Each by the word that a log names it with.
SUSPICIONS: Final[tuple[tuple[str, Suspicion], ...]] = (
    ("time_unit", clocks.suspect_time_unit),
    ("good_signature", clocks.suspect_good_signature),
    ("legacy_scheme", keys.suspect_legacy_scheme),
    ("header_names", headers.suspect_header_names),
    ("repeated_header", headers.suspect_repeated_header),
    ("header_values", headers.suspect_header_values),
    ("key_id", keys.suspect_key_id),
    ("other_source", keys.suspect_other_source),
    ("secret_form", keys.suspect_secret_form),
    ("other_provider", keys.suspect_other_provider),
    ("missing_signature", headers.suspect_missing_signature),
    ("missing_url", headers.suspect_missing_url),
    ("empty_body", bodies.suspect_empty_body),
    ("changed_body", bodies.suspect_changed_body),
    ("changed_url", urls.suspect_changed_url),
    ("changed_method", urls.suspect_changed_method),
    ("changed_time", clocks.suspect_changed_time),
    ("unknown_key", keys.suspect_unknown_key),
    ("body_length", bodies.suspect_body_length),
    ("lossy_body", bodies.suspect_lossy_body),
    ("api_key", keys.suspect_api_key),
)
