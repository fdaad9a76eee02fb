"""Unknown effects: listing them, and an operator's finding of what happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from duly.core import json_bytes
from duly.core.defaults import WAIT
from duly.core.errors import UsageError
from duly.core.validation import checked_scope, kind
from duly.jobs.effects import NOT_KEPT, effects_digest
from duly.jobs.statements import EFFECTS_CLEAR, EFFECTS_OF, EFFECTS_RESOLVE, JOBS_LOCK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly.core.session import Row, Runner, Session, Value


class UnknownEffect(NamedTuple):
    """An external step of a job whose outcome is unknown."""

    name: str
    # The idempotency key that the step was taken with: what to look for on the other side.
    key: str


class EffectFinding(NamedTuple):
    """What an operator found out about an effect: its result, or None if it did not happen."""

    job: str
    effect: str
    result: bytes | None


def finding_of(job: str, effect: object, *, done: object, result: object) -> EffectFinding:
    """Check the arguments of ``app.resolve``."""
    if not isinstance(effect, str):
        raise UsageError(
            f"effect must be the name that job.effect was called with, not {kind(effect)}"
        )
    if not isinstance(done, bool):
        raise UsageError("done must be True where the effect happened, and False where it did not")
    if not done and result is not None:
        raise UsageError(
            "an effect that did not happen has no result: leave it out, or set done=True"
        )
    return EffectFinding(job, checked_scope(effect), json_bytes.encode(result) if done else None)


async def resolve(runner: Runner, finding: EffectFinding) -> None:
    """Record an operator's finding, so that the next run of the job knows."""
    # A second run after a lost reply could not tell its own work from a name that was mistyped.
    await runner.run(
        lambda session: resolve_in_transaction(session, finding), wait=WAIT, after_loss=False
    )


async def resolve_in_transaction(session: Session, finding: EffectFinding) -> None:
    """Write the finding, unless the job is running."""
    found = await session.rows(JOBS_LOCK, id=finding.job)
    if not found:
        raise UsageError(
            f"there is no job {finding.job}: check its id. One that is done or was discarded has "
            "nothing left to resolve"
        )
    [job] = found
    if job["state"] == "leased":
        raise UsageError(
            f"job {finding.job} is at work right now, and may be taking the step itself: try again "
            "when it is dead or ready"
        )
    named: dict[str, Value] = {"scope": job["scope"], "digest": digest_of(job)}
    if finding.result is None:
        rows = await session.rows(EFFECTS_CLEAR, **named, name=finding.effect)
    else:
        rows = await session.rows(
            EFFECTS_RESOLVE, **named, name=finding.effect, result=finding.result
        )
    if not rows:
        refuse_known(await session.rows(EFFECTS_OF, **named), finding)


def refuse_known(effects: Sequence[Row], finding: EffectFinding) -> None:
    """Raise why nothing was resolved, unless the same result is recorded already."""
    known = {effect["name"]: effect for effect in effects}
    one = known.get(finding.effect)
    if one is None:
        unknown = [name for name, effect in known.items() if effect["state"] != "done"]
        found = f"these are unknown: {', '.join(unknown)}" if unknown else "none is unknown"
        raise UsageError(
            f"job {finding.job} has no effect {finding.effect!r:.80} to resolve ({found}): check "
            "its name"
        )
    stored = one["result"]
    if finding.result is None or stored is None or bytes(stored) != finding.result:
        raise UsageError(
            f"effect {finding.effect!r:.80} of job {finding.job} is known: it was recorded as "
            "done, and that is not changed. Replay the job to use its result"
        )


async def unknown_effects(
    session: Session, jobs: Sequence[Row]
) -> Mapping[bytes, tuple[UnknownEffect, ...]]:
    """The unknown effects of these jobs, by the digest that names a job's effects."""
    each: list[dict[str, Value]] = [
        {"scope": job["scope"], "digest": digest_of(job)} for job in jobs
    ]
    found: dict[bytes, tuple[UnknownEffect, ...]] = {}
    for effect in await session.rows_each(EFFECTS_OF, each):
        if effect["state"] != "done" or effect["result"] == NOT_KEPT:
            name = bytes(effect["digest"])
            found[name] = (*found.get(name, ()), UnknownEffect(effect["name"], effect["key"]))
    return found


def digest_of(job: Row) -> bytes:
    """The digest that names the effects of a job."""
    return effects_digest(job["scope"], job["id"], job["event_id"], job["name"])
