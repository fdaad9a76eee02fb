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
    ("time_unit", clocks.unit),
    ("good_signature", clocks.good_signature),
    ("legacy_scheme", keys.legacy),
    ("header_names", headers.renamed),
    ("repeated_header", headers.repeated),
    ("header_values", headers.dressed),
    ("key_id", keys.key_id),
    ("other_source", keys.other_source),
    ("secret_form", keys.form),
    ("other_provider", keys.other_provider),
    ("missing_signature", headers.missing),
    ("missing_url", headers.no_url),
    ("empty_body", bodies.empty),
    ("changed_body", bodies.undone),
    ("changed_url", urls.url),
    ("changed_method", urls.method),
    ("changed_time", clocks.altered_time),
    ("unknown_key", keys.unknown_key),
    ("body_length", bodies.length),
    ("lossy_body", bodies.replaced),
    ("api_key", keys.calls_an_api),
)
