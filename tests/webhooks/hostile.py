"""Bodies that a reader of JSON or of forms may stumble over, as raw text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

# Values as they stand in JSON text, legal or not.
VALUES: tuple[str, ...] = (
    "null", "true", "false", "0", "-0", "1", "-1", "0.0", "-0.0", "1e2",
    "1E400", "-1e999", "1e-999",
    "NaN", "Infinity", "-Infinity", "9" * 400, "9" * 401, "9" * 5000, "-" + "9" * 5000,
    "9223372036854775807", "9223372036854775808", "-9223372036854775809", "1767225600",
    "1767225600000", "1767225600000000", "1e17", "253402300800", "99999999999999999", "0.1",
    "1767225600.5", "1e11", "-62135596801",
    '""', '" "', '"x"', '"\\u0000"', '"\\ud800"', '"\\udc00\\ud800"', '"\\ud83d\\ude00"', '"\\n"',
    '"body_' + "0" * 64 + '"', '"body_' + "A" * 64 + '"', '"' + "x" * 5000 + '"', '"nan"', '"inf"',
    '"1e999"', '"1_0"', '"\u0661"', '"2026-01-01T00:00:00Z"', '"2026-01-01"', '"20260101T000000Z"',
    '"0001-01-01T00:00:00+23:59"', '"9999-12-31T23:59:59.999999-23:59"', '"2026-W01-1T00:00Z"',
    '"2026-01-01T24:00:00Z"', '"2026-01-01T00:00:00+99:99"', '"1767225600"', '"url_verification"',
    '"endpoint.url_validation"', '"question"', '"\U0001f600"',
    "[]", "{}", '["x"]', '{"id":"x"}', "[[[[]]]]", "[" * 99 + "]" * 99, "[" * 10_000 + "]" * 10_000,
    '{"a":' * 200 + "1" + "}" * 200, '"[[[[[["', "tru", "01", "+1", "'x'", "", ",",
)  # fmt: skip

# Whole bodies that are odd from their first byte on.
BODIES: tuple[bytes, ...] = (
    b"",
    b" ",
    b"\r\n\t ",
    b"\0",
    b"\xef\xbb\xbf",
    b"\xef\xbb\xbf{}",
    b"\xef\xbb\xbf\xef\xbb\xbf{}",
    '{"id":"x"}'.encode("utf-16"),
    '{"id":"x"}'.encode("utf-32-be"),
    b'{"id":"\xff"}',
    b'{"id":"\xed\xa0\x80"}',
    b'{"id":"a","id":"b"}',
    b'{"id":"a","i\\u0064":"b"}',
    b"[" * 10_000,
    b"]" * 10_000,
    b'["' + b"[" * 10_000 + b'"]',
    b'"' + b'\\"' * 300 + b"[" * 101,
    b"{" * 200 + b'"hmacSignature"',
    b"&".join(b"a%d=%d" % (n, n) for n in range(999)),
    b"&".join(b"a%d=%d" % (n, n) for n in range(3000)),
    b"&=&=&&%",
    b"payload=%7B%7D&payload=1",
    b"payload=%ED%A0%80",
    b"payload=" + b"%5B" * 200,
    b"MessageSid=a&MessageSid=b&MessageStatus=",
    b"trigger_id=x&command=%2Fgo&payload={}",
    b"id=%00&type=%FF&time=nan",
)


def raw_object(size: int) -> bytes:
    """An object of many keys that looks signed."""
    keys = b",".join(b'"a%d":0' % one for one in range(size))
    return b'{"hmacSignature":0,' + keys + b',"a0":1}'


# Values that headers should not have; text as a careless server may pass it on.
HEADERS: tuple[str | bytes | list[str], ...] = (
    "", " ", "\0", "\r\nX: y", "\xff", "\u0100", "\ud800", b"", b"\xff\x00", "x" * 30_000, "0",
    "-1", "1e9", "\u0661", "9" * 13, "9" * 5000, "=", ",", ",,,", ".", "..", "v1,", "v1,=",
    "v1," * 9, "v1,AA== " * 9, "v1a,AA==", "t=", "t=1", "t=1,t=2,v1=00", "t=1,v1=", "sha256=",
    "sha1=", "Basic ", "Basic =", "Basic Og==", "Bearer ", "Bearer ..", "e30.e30.", "e30.e30.AA",
    "bnVsbA.W10.", "eyJhbGciOiJub25lIn0.e30.", "application/x-www-form-urlencoded",
    "2026-01-01T00:00:00Z",
    "0001-01-01T00:00:00+23:59", "nan", "body_" + "0" * 64, [], ["a"], ["a", "b"],
)  # fmt: skip

# Bodies that took a time which grew with the square of their size, and a size that shows it.
SLOW: dict[str, tuple[Callable[[int], bytes], int]] = {
    "a text of escaped quotes that never ends": (
        lambda size: b"hmacSignature" + b"[" * 101 + b'"' + b'\\"' * size,
        12_000,
    ),
    "an object of many keys, one of them twice": (raw_object, 8_000),
    "a batch in which every object repeats a key": (
        lambda size: b"[" + b",".join([b'{"eventId":1,"eventId":2}'] * size) + b"]",
        4_000,
    ),
    "thousands of brackets": (lambda size: b'{"hmacSignature":' + b"[]" * size, 100_000),
    "a number of many digits": (lambda size: b'{"hmacSignature":' + b"9" * size + b"}", 300_000),
}

Tree = Mapping[str, "Tree | str"]


def text_of(tree: Tree, repeated: Sequence[str] = ()) -> str:
    """JSON text with raw values at its leaves; keys that are repeated stand there twice."""
    members = []
    for key, value in tree.items():
        text = value if isinstance(value, str) else text_of(value, repeated)
        members.append(f"{json.dumps(key)}:{text}")
        if key in repeated:
            members.append(f'{json.dumps(key)}:"again"')
    return "{" + ",".join(members) + "}"


def planted(values: Mapping[tuple[str, ...], str]) -> dict[str, Tree | str]:
    """A tree with a raw value at the end of each path."""
    tree: dict[str, Tree | str] = {}
    for path, value in values.items():
        node = tree
        for key in path[:-1]:
            below = node.get(key)
            if not isinstance(below, dict):
                below = node[key] = {}
            node = below
        node[path[-1]] = value
    return tree


def raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
