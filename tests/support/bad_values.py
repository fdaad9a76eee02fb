"""Values that no parameter of duly may take, by the parameter's name.

A value that holds the canary stands for a secret or a body: no message may repeat it.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from itertools import repeat

CANARY = "hunter2-canary"
MEGABYTE = 1024 * 1024
NAN = float("nan")


class Hostile:
    """An object that fights whoever prints it."""

    def __repr__(self) -> str:
        raise RuntimeError(CANARY)

    __str__ = __repr__


class Talkative:
    """An object that tells its secret to whoever prints it."""

    def __repr__(self) -> str:
        return CANARY


class Nowhere(tzinfo):
    """A time zone that does not know its offset: its datetimes only look aware."""

    def utcoffset(self, moment: datetime | None, /) -> timedelta | None:
        return None

    def dst(self, moment: datetime | None, /) -> timedelta | None:
        return None

    def tzname(self, moment: datetime | None, /) -> str | None:
        return None


NAIVE = datetime(2026, 1, 1)
ODD = datetime(2026, 1, 1, tzinfo=Nowhere())
ODDITIES: list[object] = [Hostile(), Talkative(), object(), NAN, 1.5, [], {}, {CANARY: 1}, ...]

LENGTHS: list[object] = [
    0,
    5,
    True,
    CANARY,
    timedelta(0),
    timedelta(microseconds=-1),
    timedelta.min,
    timedelta.max,
    timedelta(days=36_525, microseconds=1),
    *ODDITIES,
]
KEYS: list[object] = [
    None,
    "",
    b"",
    0,
    True,
    bytearray(b"a"),
    memoryview(b"a"),
    CANARY * MEGABYTE,
    b"x" * (MEGABYTE + 1),
    *ODDITIES,
]
IDENTIFIERS: list[object] = [
    "",
    0,
    True,
    b"duly_",
    "Duly_",
    "1duly",
    "x" * 42,
    'duly_"; DROP TABLE duly_claims; --',
    "duly_\0",
    "duly_\ud800",
    "duly_\n",
    *ODDITIES,
]
BAD: dict[str, list[object]] = {
    "target": [None, 0, True, CANARY, b"", *ODDITIES],
    "store": [None, 0, True, CANARY, b"", *ODDITIES],
    "scope": [None, "", 0, True, b"shop", CANARY * 30, "a\0", "a\nb", "\ud800", *ODDITIES],
    "key": KEYS,
    "resource": KEYS,
    "keys": [
        None,
        CANARY,
        CANARY.encode(),
        5,
        [None],
        ["a", ""],
        ["a", 1],
        [Hostile()],
        [Talkative()],
        ["a", CANARY * MEGABYTE],
        ["a"] * 10_001,
        repeat("a"),
        object(),
        Hostile(),
    ],
    "ttl": LENGTHS,
    "lease": LENGTHS,
    "wait": [timedelta(microseconds=-1), timedelta.max, 0, True, CANARY, *ODDITIES],
    "body": [0, True, CANARY, *ODDITIES],
    "prefix": IDENTIFIERS,
    "schema": IDENTIFIERS,
    "clock": [
        0,
        CANARY,
        NAIVE,
        lambda: None,
        lambda: CANARY,
        lambda: NAIVE,
        lambda: ODD,
        lambda: 5,
        *ODDITIES,
    ],
    "version": [
        None,
        True,
        b"1",
        "",
        CANARY * 100,
        2**63,
        -(2**63) - 1,
        10**5000,
        NAIVE,
        ODD,
        UTC,
        *ODDITIES,
    ],
    "tie": ["", "APPLY", CANARY, True, 0, *ODDITIES],
    "limit": [None, 0, -1, True, 2**63, 10**5000, CANARY, *ODDITIES],
    "work": [None, 0, CANARY, *ODDITIES],
    "url": [
        None,
        0,
        b"memory:",
        "",
        CANARY,
        f"mysql://ann:{CANARY}@127.0.0.1:1/shop",
        f"postgresql://ann:{CANARY}@[::1/shop",
        f"postgresql://ann:{CANARY}@ho\N{ACCOUNT OF}st/shop",
        f"postgresql://ann:{CANARY}@127.0.0.1:1/shop?nonsense={CANARY}",
        f"postgresql://ann:{CANARY}@127.0.0.1:1/shop?{CANARY}",
        f"postgresql://ann:{CANARY}@127.0.0.1:1/sh\0op",
        f"postgresql://ann:{CANARY}@127.0.0.1:1/\ud800",
        f"postgresql://ann:{CANARY}@127.0.0.1:1/%zz",
        "memory:shop",
        "sqlite:",
        "sqlite://",
        "sqlite:///",
        "sqlite://shop.db",
        "sqlite:///:memory:",
        "sqlite:///shop.db?mode=ro",
        "sqlite:///shop%00.db",
        "sqlite:///shop\ud800.db",
        *ODDITIES,
    ],
    "durability": [None, "", "ANY", True, CANARY, *ODDITIES],
    "connections": [None, 0, -1, True, 10**6, CANARY, *ODDITIES],
    "result": [
        (1, 2),
        {1: 2},
        {"a": (1,)},
        {1, 2},
        b"bytes",
        NAN,
        float("inf"),
        10**5000,
        "x" * (MEGABYTE + 1),
        Hostile(),
        Talkative(),
        [Talkative()],
        object(),
        UTC,
        ...,
    ],
    "tx": [0, True, CANARY, *ODDITIES],
}
CHOICES: list[object] = [None, "", "NO", True, 0, CANARY, *ODDITIES]
SECRETS: list[object] = [
    None,
    "",
    b"",
    0,
    True,
    " edged",
    "\ud800",
    f"{CANARY}\n",
    [""],
    [CANARY, ""],
    [None],
    {"old": CANARY, "new": ""},
    [Hostile()],
    [CANARY, Talkative()],
    bytearray(b"a"),
    *ODDITIES,
]
URLS: list[object] = [None, 0, True, b"https://example.com", *ODDITIES]
# The same for the gate, which knows no store: its words mean other things.
BAD_AT_THE_GATE: dict[str, list[object]] = {
    "source": [None, "", 0, True, b"stripe", "no such provider", *ODDITIES],
    "provider": [None, "", 0, True, b"stripe", "no such provider", *ODDITIES],
    "headers": [0, True, 1.5, CANARY, {5: CANARY}, [5], ["a"], [(5, 5)], object(), Hostile(), ...],
    "body": [None, 0, True, CANARY, *ODDITIES],
    "secrets": SECRETS,
    "secret": SECRETS,
    "value": [one for one in SECRETS if not isinstance(one, dict) or not one],
    "now": [True, CANARY, NAIVE, ODD, UTC, NAN, 1e13, -1e13, 10**5000, object(), Hostile(), ...],
    "url": URLS,
    "method": [None, 0, True, b"POST", *ODDITIES],
    "id": ["", 0, True, b"id", "caf\u00e9", "a\nb", CANARY + "\0", *ODDITIES],
    "type": ["", 0, True, b"type", "caf\u00e9", "a\nb", CANARY + "\0", *ODDITIES],
    "name": ["", 0, True, b"name", "a\nb", CANARY * 30, *ODDITIES],
    "tolerance": [0, 5, True, CANARY, timedelta(0), timedelta(-1), *ODDITIES],
    "missing_id": CHOICES,
    "parse": CHOICES,
    "replayed_body": CHOICES,
    "legacy": [None, 0, 1, "no", CANARY, *ODDITIES],
    "limits": [None, 0, True, CANARY, *ODDITIES],
    "not_after": [0, True, CANARY, NAIVE, ODD, UTC, *ODDITIES],
    "key_id": ["", 0, True, b"key", *ODDITIES],
    "others": [None, 0, True, CANARY, [CANARY], [5], object(), Hostile(), ...],
}
SWITCHES: list[object] = [None, 0, 1, "yes", CANARY, *ODDITIES]
DURATIONS: list[object] = [
    0,
    5,
    True,
    CANARY,
    timedelta(0),
    timedelta(-1),
    timedelta.max,
    *ODDITIES,
]
NAMES: list[object] = [None, "", 0, True, b"shop", "a/b", "a\nb", "\ud800", "x" * 300, *ODDITIES]
COUNTS: list[object] = BAD["limit"]
# And for an application; what is optional there is not among its bad values.
BAD_IN_AN_APP: dict[str, list[object]] = {
    "url": [one for one in BAD["url"] if one is not None],
    "begin": [0, True, CANARY, *ODDITIES],
    "prefix": IDENTIFIERS,
    "schema": IDENTIFIERS,
    "clock": BAD["clock"],
    "durability": BAD["durability"],
    "connections": BAD["connections"],
    "deadline": LENGTHS,
    "body_deadline": LENGTHS,
    "queue": COUNTS,
    "egress": [None, 0, True, CANARY, b"", ["https://example.com"], *ODDITIES],
}
BAD_IN_A_SOURCE: dict[str, list[object]] = {
    "name": NAMES,
    "secret": SECRETS,
    "provider": ["", 0, True, b"stripe", "no such provider", *ODDITIES],
    "tenant": [0, True, CANARY, *ODDITIES],
    "inline": SWITCHES,
    "window": DURATIONS,
    "body_retention": LENGTHS,
    "max_body": COUNTS,
    "headers": [None, 0, True, CANARY, b"x", [5], [None], ["a b"], [""], ["cookie"], [Hostile()]],
    "decompress": SWITCHES,
    "url": [0, True, b"https://example.com", "no scheme", *ODDITIES],
    **{
        name: BAD_AT_THE_GATE[name]
        for name in ("tolerance", "missing_id", "parse", "replayed_body", "legacy", "limits")
    },
}
BAD_IN_A_CALL: dict[str, list[object]] = {
    "source": ["unknown", *NAMES],
    "pattern": [None, "", 0, True, b"*", CANARY * 50, *ODDITIES],
    "name": ["", 0, True, b"name", "a\nb", "\ud800", "<x>", CANARY * 30, *ODDITIES],
    "event_id": [None, "", 0, True, b"evt_1", "unknown", "\ud800", "a\0b", *ODDITIES],
    "tenant": [None, "", 0, True, b"a", "a\0", "\ud800", CANARY * 30, *ODDITIES],
    "headers": BAD_AT_THE_GATE["headers"],
    "body": BAD_AT_THE_GATE["body"],
    "method": BAD_AT_THE_GATE["method"],
    "url": [0, True, b"https://example.com", *ODDITIES],
    "remote": [0, True, b"192.0.2.1", *ODDITIES],
    "alias": [None, "", 0, True, b"default", *ODDITIES],
}
