"""Time: a good signature that is too old or too new, or a time that is not as it was signed."""

from __future__ import annotations

import dataclasses
import re
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

from duly.webhooks.diagnose.case import Guess, RejectedCase, source_like, try_verify
from duly.webhooks.event_fields import VerifiedDelivery, parse_iso_time
from duly.webhooks.schemes.encodings import UNITS
from duly.webhooks.schemes.signature import Signature

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.webhooks.source import Source

HOUR: Final = 3600
# A clock on local time is wrong by whole hours, give or take what a delivery needs to arrive.
NEAR_AN_HOUR: Final = 90
WORDS: Final = {"s": "seconds", "ms": "milliseconds", "us": "microseconds"}
NUMBER: Final = re.compile(r"[0-9]{1,18}")
# Who writes a time anew rounds it otherwise, or is a moment late.
SLIPS: Final = range(-3, 4)


def suspect_time_unit(case: RejectedCase) -> Iterator[Guess]:
    """The time counts something else than the profile says."""
    for scheme in case.present_schemes():
        if not isinstance(scheme, Signature) or is_timely(case, case.lenient):
            continue
        for other in UNITS.keys() - {scheme.unit}:
            changed = dataclasses.replace(scheme, unit=other)
            provider = dataclasses.replace(case.source.provider, scheme=changed)
            source = source_like(case.source, provider=provider, legacy=True)
            if source is not None and is_timely(case, source):
                yield (
                    f"The signature is right, but its time counts {WORDS[other]} where this "
                    f"source expects {WORDS[scheme.unit]}: write unit={other!r} in the scheme."
                )


def is_timely(case: RejectedCase, source: Source) -> bool:
    """Whether the signature is right and of this time."""
    found = try_verify(source, case.delivery)
    if not isinstance(found, VerifiedDelivery) or found.sent_at is None:
        return False
    return abs(case.delivery.now - found.sent_at.timestamp()) <= (case.source.tolerance or HOUR)


def suspect_good_signature(case: RejectedCase) -> Iterator[Guess]:
    """The signature is right; something else was refused."""
    found = try_verify(case.lenient, case.delivery)
    if not isinstance(found, VerifiedDelivery):
        return
    for secret in case.source.secrets:
        if secret.name == found.secret and secret.not_after and secret.ended(case.delivery.now):
            yield (
                f"The delivery was signed with the secret {secret.name!r}, which ended on "
                f"{secret.not_after.isoformat(timespec='seconds')}: finish the change of secrets "
                "at the provider, or give it a later not_after."
            )
    sent, tolerance = found.sent_at, case.source.tolerance
    age = 0.0 if sent is None else case.delivery.now - sent.timestamp()
    if tolerance is not None and age > tolerance:
        yield too_old(age, tolerance)
    if tolerance is not None and -age > case.source.ahead:
        yield too_new(-age, case.source.ahead)
    yield f"The signature is right, but {case.problem.reason}."


def too_old(age: float, tolerance: float) -> str:
    """What to say of an old signature."""
    advice = time_zone(age) or (
        "was it held back in a queue or sent again by hand, or is the clock of this machine ahead?"
    )
    return (
        f"The signature is right, but it was made {age:.0f} seconds ago and this source allows "
        f"{tolerance:.0f}: {advice}"
    )


def too_new(ahead: float, tolerance: float) -> str:
    """What to say of a signature from the future."""
    advice = time_zone(ahead) or "the clock of this machine seems to be behind."
    return (
        f"The signature is right, but it was made {ahead:.0f} seconds in the future and this "
        f"source allows {tolerance:.0f}: {advice}"
    )


def time_zone(skew: float) -> str | None:
    """What to say of a skew that looks like a time zone."""
    hours = round(skew / HOUR)
    if not 1 <= hours <= 14 or abs(skew - hours * HOUR) > NEAR_AN_HOUR:
        return None
    return (
        f"that is close to {hours} whole hour{'s' * (hours > 1)}, so one of the two clocks may be "
        "set to local time instead of UTC."
    )


def suspect_changed_time(case: RejectedCase) -> Iterator[Guess]:
    """The header with the time is not as it was signed."""
    for scheme in case.present_schemes():
        header: str | None = getattr(scheme, "time_header", None)
        if header is None:
            continue
        stated = case.delivery.header_text(header) or ""
        for candidate in likely_times(stated, case.delivery.header_text("date") or ""):
            if candidate != stated:
                yield case.trial(
                    f"The header {header} was changed on the way: the signature was made for the "
                    f"time {candidate}.",
                    fields={**case.delivery.fields, header: candidate},
                )


def likely_times(stated: str, date: str) -> dict[str, None]:
    """The times that a sender may have written, in seconds or in a finer unit."""
    found = [int(one) for one in NUMBER.findall(stated[:100])[:3]]
    found += [int(one) for one in (parse_date(stated), parse_date(date)) if one is not None]
    near = [one + slip for one in found for slip in SLIPS]
    near += [one // per for one in found for per in (1_000, 1_000_000)]
    near += [one * per for one in found for per in (1_000, 1_000_000)]
    return dict.fromkeys(str(one) for one in near if one >= 0)


def parse_date(text: str) -> float | None:
    """A written date as seconds since 1970."""
    try:
        moment = parse_iso_time(text[:100]) or parsedate_to_datetime(text[:100])
        return moment.timestamp()
    except (ValueError, TypeError, IndexError, OverflowError, OSError):
        return None
