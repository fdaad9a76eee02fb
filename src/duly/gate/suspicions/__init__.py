"""What may be wrong with a rejected delivery, in the order of likelihood and of cost.

Each suspicion is a small function from a `Case` to guesses. What can be proved comes before what
can only be supposed, and what needs no look at the body before what rewrites it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duly.gate.suspicions import bodies, clocks, fields, keys, urls

if TYPE_CHECKING:
    from duly.gate.suspicions.case import Suspicion

SUSPICIONS: Final[tuple[Suspicion, ...]] = (
    clocks.unit,
    clocks.good_signature,
    keys.legacy,
    fields.renamed,
    fields.repeated,
    fields.dressed,
    keys.key_id,
    keys.other_source,
    keys.form,
    keys.other_provider,
    fields.missing,
    fields.no_url,
    bodies.empty,
    bodies.undone,
    urls.url,
    urls.method,
    clocks.altered_time,
    keys.unknown_key,
    bodies.length,
    bodies.replaced,
    keys.calls_an_api,
)
