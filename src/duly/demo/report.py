"""The report of a storm: the ledger as a table, the counts, and both as documents."""

from __future__ import annotations

import platform
import sqlite3
from typing import TYPE_CHECKING, TextIO

import duly
from duly.demo.ledger import SHOWN, LedgerLine, Unit

if TYPE_CHECKING:
    from duly.core.json_bytes import Json
    from duly.demo.orchestrator import StormOutcome
    from duly.demo.settings import Settings

MARKS = ("✓", "✗")
PLAIN_MARKS = ("ok", "WRONG")


def marks(output: TextIO) -> tuple[str, str]:
    """Return the signs for right and wrong that the output can encode."""
    try:
        "".join(MARKS).encode(output.encoding or "ascii")
    except UnicodeError:
        return PLAIN_MARKS
    return MARKS


def table(lines: list[LedgerLine], signs: tuple[str, str]) -> list[str]:
    """Return the ledger in 80 columns, with examples below a line that does not balance."""
    rows = []
    for line in lines:
        rows.append(row(line, signs))
        rows += [f"      {text}" for text in line.examples[:SHOWN]]
    return ["", *rows, ""]


def row(line: LedgerLine, signs: tuple[str, str]) -> str:
    """Return both sides of a line, and its sign."""
    left, right = amount(line.left_value, line.unit), amount(line.right_value, line.unit)
    sign = signs[0] if line.balances else signs[1]
    room = 35 - len(line.right)  # a long name takes it from the number beside it
    return f"  {line.left:<23} {left:>12} = {line.right} {right:>{room}}  {sign}"


def amount(value: int, unit: Unit) -> str:
    """Format a count or an amount."""
    return f"{value / 100:,.2f}" if unit is Unit.CENTS else f"{value:,}"


def story(outcome: StormOutcome) -> list[str]:
    """Return what happened, in fewer than 80 columns."""
    answers, faults = outcome.sender_log.answers, outcome.faults
    late, durations = outcome.evidence.late, outcome.durations
    answered = (
        f"Answered: {answers['accepted']:,} accepted, {answers['duplicate']:,} duplicate, "
        f"{answers['conflict']:,} conflict, {answers['403']:,} refused,"
    )
    unavailable = sum(count for word, count in answers.items() if word[0] == "5")
    return [
        answered,
        f"  {unavailable:,} come again later, {answers['no reply']:,} nothing.",
        f"Faults: {faults.kills:,} kill -9, {faults.fallen:,} killed by what they handled, "
        f"{faults.stops:,} stopped,",
        f"  {faults.restarts:,} restarted in order{database_faults(outcome)}.",
        f"Leases given again: {outcome.evidence.figures['leases']:,}; late acks refused: "
        f"{late.refused:,}, cut off by a kill: {late.cut_off:,}.",
        *replay_lines(outcome.replayed),
        f"{outcome.sender_log.deliveries:,} deliveries in {durations.faults:,.0f} s "
        f"({outcome.sender_log.deliveries / durations.faults:,.0f} a second), "
        f"everything done after {durations.total:,.0f} s.",
        "",
    ]


def replay_lines(count: int) -> list[str]:
    """Return how many jobs the operator replayed, if any."""
    text = f"Lost with five workers by no fault of their own, and replayed: {count:,}."
    return [text] if count else []


def database_faults(outcome: StormOutcome) -> str:
    """Return what was done to the database."""
    crashes, held = outcome.nemesis.get("database crash"), outcome.nemesis.get("write lock held")
    replies, requests = outcome.lost
    text = ""
    if crashes:
        text += f"; {crashes:,} database crashes"
    if replies or requests:
        text += f"; {replies:,} replies, {requests:,} requests lost"
    if held:
        text += f"; the write lock held {held:,} times"
    return text


def verdict(outcome: StormOutcome) -> str:
    """Return the last sentence."""
    wrong, events = len(outcome.wrong), outcome.evidence.inbox.total
    if wrong:
        many = f"{wrong} of {len(outcome.lines)} lines"
        return f"{many} do not balance: this is a bug, please report it."
    kills = outcome.faults.kills + outcome.faults.fallen
    dead = outcome.evidence.dead.total
    text = f"Killed {kills:,} times, yet each of {events - dead:,} events took effect once"
    return f"{text}; {dead:,} that can never succeed are dead letters." if dead else f"{text}."


def opening(settings: Settings) -> str:
    """Return the first line: enough to run the same again."""
    where = "SQLite" if settings.on_sqlite else "PostgreSQL"
    size = (
        f"{settings.seconds:g} seconds"
        if settings.seconds is not None
        else f"{settings.deliveries:,} deliveries"
    )
    return (
        f"duly {duly.__version__}: {settings.ingress} ingress, {settings.workers} workers, "
        f"{settings.relays} relay on {where}, {size}, seed {settings.seed}"
    )


def document(settings: Settings, outcome: StormOutcome) -> dict[str, Json]:
    """Return the report for programs."""
    return {
        "balances": not outcome.wrong,
        "seed": settings.seed,
        "store": "sqlite" if settings.on_sqlite else "postgres",
        "seconds": round(outcome.durations.faults, 3),
        "seconds_until_done": round(outcome.durations.total, 3),
        "deliveries": outcome.sender_log.deliveries,
        "events": outcome.evidence.inbox.total,
        "answers": dict(outcome.sender_log.answers),
        "faults": {
            **outcome.nemesis,
            "killed by what they handled": outcome.faults.fallen,
            "database replies lost": outcome.lost[0],
            "database requests lost": outcome.lost[1],
            "gave up at begin or drain": outcome.faults.gave_up,
            "replaced after a hang": outcome.faults.replaced,
        },
        "leases_given_again": outcome.evidence.figures["leases"],
        "late_acks": {
            "tried": outcome.evidence.late.answered_count,
            "refused": outcome.evidence.late.refused,
            "cut_off": outcome.evidence.late.cut_off,
            "given_back": outcome.evidence.late.given_back,
        },
        "replayed": outcome.replayed,
        "messages_resent": outcome.evidence.receipts - outcome.evidence.messages.total,
        "processor_seconds": {name: round(used, 1) for name, used in outcome.durations.cpu.items()},
        "ledger": [
            {
                "left": line.left,
                "left_value": line.left_value,
                "right": line.right,
                "right_value": line.right_value,
                "balances": line.balances,
                "examples": [*line.examples[:SHOWN]],
            }
            for line in outcome.lines
        ],
    }


def command_of(settings: Settings) -> str:
    """Return the command line that repeats the storm, without the address of the database."""
    where = "" if settings.on_sqlite else " postgresql://…"
    crashed = "" if settings.cluster is None else " --cluster …"
    size = (
        f"--deliveries {settings.deliveries}"
        if settings.seconds is None
        else f"--seconds {settings.seconds:g}"
    )
    processes = f"--workers {settings.workers} --ingress {settings.ingress}"
    return f"duly demo{where} {size} {processes} --seed {settings.seed}{crashed}"


def markdown(settings: Settings, outcome: StormOutcome, log: str) -> str:
    """Return the report as a page."""
    figures = document(settings, outcome)
    faults, answers = figures["faults"], figures["answers"]
    assert isinstance(faults, dict)  # noqa: S101  # as it is made above
    assert isinstance(answers, dict)  # noqa: S101
    rows = "\n".join(
        f"| {line.left} | {amount(line.left_value, line.unit)} | {line.right} |"
        f" {amount(line.right_value, line.unit)} | {'yes' if line.balances else 'NO'} |"
        for line in outcome.lines
    )
    done = "\n".join(f"| {name} | {count:,} |" for name, count in faults.items() if count)
    counts = "\n".join(f"| {name} | {count:,} |" for name, count in sorted(answers.items()))
    where = "SQLite" if settings.on_sqlite else "PostgreSQL"
    resent = outcome.evidence.receipts - outcome.evidence.messages.total
    return f"""\
# A storm on {where}: {outcome.sender_log.deliveries:,} deliveries

    {command_of(settings)}

Seed {settings.seed}, duly {duly.__version__}, Python {platform.python_version()}, SQLite \
{sqlite3.sqlite_version}, {platform.system()}. {settings.ingress} ingress processes, \
{settings.workers} workers, {settings.relays} relay. \
The faults lasted {outcome.durations.faults:,.0f} seconds \
({outcome.sender_log.deliveries / outcome.durations.faults:,.0f} deliveries a second); everything \
was done after {outcome.durations.total:,.0f}. Every fault is in [{log}]({log}).

{verdict(outcome)}

## The ledger

| | | | | balances |
|---|---:|---|---:|---|
{rows}

## Faults

| what | times |
|---|---:|
{done}

Leases given again: {outcome.evidence.figures["leases"]:,}. Late acks: \
{outcome.evidence.late.answered_count:,} tried, {outcome.evidence.late.refused:,} refused; \
{outcome.evidence.late.cut_off:,} more were cut off by a kill before they got an answer. \
Messages sent again: {resent:,}, each with the same id.

## Answers

| answer | deliveries |
|---|---:|
{counts}
"""
