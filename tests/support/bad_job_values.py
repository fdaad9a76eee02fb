"""Values that no verb about jobs may take, by the parameter's name."""

from collections.abc import Iterator
from datetime import UTC, timedelta
from itertools import repeat

from tests.support.bad_values import (
    BAD,
    BAD_IN_A_CALL,
    CANARY,
    COUNTS,
    DURATIONS,
    KEYS,
    LENGTHS,
    NAIVE,
    ODD,
    ODDITIES,
    Hostile,
)


class Endless:
    """More than anybody may take, for whoever does not count."""

    def __iter__(self) -> Iterator[str]:
        yield from map(str, range(50_000))
        raise AssertionError("somebody would read for ever")


QUEUES: list[object] = ["", 0, True, b"mail", "a b", "a/b", "a\n", "\ud800", "x" * 101, *ODDITIES]
TIMES: list[object] = [0, 5, True, CANARY, NAIVE, ODD, UTC, *ODDITIES]
WAITS: list[object] = [one for one in LENGTHS if one != timedelta(0) or one == 0]
# How a handler is registered; where None means the usual, it is not among the bad values.
BAD_IN_A_HANDLER: dict[str, list[object]] = {
    "name": BAD_IN_A_CALL["name"],
    "queue": [None, *QUEUES],
    "attempts": [*COUNTS, 1001],
    "timeout": [*DURATIONS, timedelta(microseconds=999), timedelta(days=1, microseconds=1)],
    "backoff": [None, 0, True, CANARY, timedelta(1), *ODDITIES],
    "order": [0, True, CANARY, ("a",), ["a", "b"], ("a", ""), ("a", 1), ("a", "b", "c"), *ODDITIES],
    "tie": BAD["tie"],
    "refetch": [0, True, CANARY, *ODDITIES],
    "many": [*(one for one in COUNTS if one is not None), 1, 1001],
}
BAD_IN_A_SCHEDULE: dict[str, list[object]] = BAD_IN_A_HANDLER | {
    "expression": [
        None,
        "",
        0,
        True,
        b"* * * * *",
        "* * * *",
        "@daily",
        "61 * * * *",
        "0 0 31 2 *",
        "\ud800 * * * *",
        "*" * 5000,
        *ODDITIES,
    ],
    "tz": [None, "", 0, True, b"UTC", "Europe/Atlantis", "../UTC", "a\0", "\ud800", UTC, *ODDITIES],
    "missed": [None, "", "ALL", 0, True, b"all", ["all"], *ODDITIES],
}
# And for the verbs about jobs.
BAD_IN_A_JOB: dict[str, list[object]] = {
    "job": [None, "", 0, True, b"send", "unknown", print, *ODDITIES],
    "payload": BAD["result"],
    "payloads": [
        None,
        0,
        True,
        CANARY,
        b"",
        {},
        {"a": 1},
        [1, object()],
        [{1: 2}],
        range(10_001),
        Endless(),
        object(),
        Hostile(),
    ],
    "key": [one for one in KEYS if one is not None],
    "keys": [
        *(one for one in BAD["keys"] if one is not None and not isinstance(one, repeat)),
        Endless(),
        ["a"],
        ["a", "a"],
        ["a", b"a"],
        ["a", None],
        ["a", []],
        ["a", {}],
    ],
    "window": [None, *LENGTHS],
    "delay": WAITS,
    "at": TIMES,
    "priority": [None, True, 1.5, "1", 32_768, -32_769, 10**5000, CANARY, *ODDITIES],
    "queue": QUEUES,
    "tx": BAD["tx"],
    "until": [None, "", "IDLE", True, 0, CANARY, *ODDITIES],
    "concurrency": [*COUNTS, 1001],
    "queues": [
        "default",
        {},
        [],
        0,
        True,
        [None],
        ["a b"],
        {"default": 0},
        {"default": 1001},
        {"default": True},
        {"default": CANARY},
        {"a b": 1},
        {1: 1},
        object(),
        Hostile(),
    ],
    "lease": [*LENGTHS, timedelta(milliseconds=99)],
    "grace": WAITS,
    "name": BAD["scope"],
    "call": [None, 0, True, CANARY, *ODDITIES],
    "unknown": [None, "", "RETRY", True, 0, CANARY, *ODDITIES],
    "not_done": [
        None,
        0,
        CANARY,
        ValueError,
        [ValueError],
        (1,),
        (ValueError, CANARY),
        (KeyboardInterrupt,),
        (BaseException,),
        object(),
        Hostile(),
    ],
}
