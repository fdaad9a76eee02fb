"""What a campaign says at its end, and how far it is before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from verification.simulation.campaign import FAULTS, THINGS

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

    from verification.simulation.campaign import Campaign, Tally

BAR = 30


def progress(tally: Tally, schedules: int) -> str:
    """How far it is, on one line."""
    filled = BAR * tally.schedules // schedules
    broken = f", {len(tally.broken)} BROKEN" if tally.broken else ""
    return (
        f"[{'#' * filled}{'.' * (BAR - filled)}] {tally.schedules:,} of {schedules:,} schedules, "
        f"{pace(tally):,.0f}/s{broken}"
    )


def pace(tally: Tally) -> float:
    """Schedules a second."""
    return tally.schedules / max(tally.seconds, 0.001)


def report(tally: Tally, campaign: Campaign) -> str:
    """The books, for people."""
    last = campaign.seed + tally.schedules - 1
    text = [
        f"{tally.schedules:,} schedules, seeds {campaign.seed:,} to {last:,}: "
        f"{len(tally.broken)} broken promises",
        f"{tally.steps:,} steps in {tally.seconds:,.1f} s: {pace(tally):,.1f} schedules/s, "
        f"{tally.steps / max(tally.schedules, 1):,.0f} steps each",
        "",
        "what was done to them",
        *table(tally.faults, FAULTS),
        "",
        "what happened",
        *table(tally.seen, THINGS),
    ]
    text += [f"\nNEVER HAPPENED, so nothing is proved about it: {one}" for one in tally.missing]
    for one in tally.broken:
        text += [f"\nBROKEN {one.promise}: {one.told}", f"repro: {one.reproduction}"]
    return "\n".join(text)


def table(counts: Counter[str], known: Sequence[str]) -> list[str]:
    """Counts under their names: those that must not be zero first."""
    names = [*known, *sorted(set(counts) - set(known))]
    width = max(len(name) for name in names)
    return [f"  {name:<{width}}  {counts[name]:>11,}" for name in names]


def document(tally: Tally, campaign: Campaign) -> dict[str, Any]:
    """The books, for programs."""
    return {
        "schedules": tally.schedules,
        "seed": campaign.seed,
        "steps": tally.steps,
        "seconds": round(tally.seconds, 3),
        "schedules_per_second": round(pace(tally), 2),
        "faults": {name: tally.faults[name] for name in sorted({*FAULTS, *tally.faults})},
        "seen": {name: tally.seen[name] for name in sorted({*THINGS, *tally.seen})},
        "missing": tally.missing,
        "broken": [{**one._asdict(), "repro": one.reproduction} for one in tally.broken],
        "good": tally.good,
    }
