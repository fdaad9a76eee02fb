"""Text for people to read, cut to a length, with everything that looks like a secret left out.

Places are found first and hidden afterwards, in one step: what one rule hides cannot keep another
from seeing its own. A long text is searched near the parts that are shown only, and far enough
beyond them that no secret is cut in two before it is found. Every expression takes time in
proportion to the text: each repetition ends where the next part can begin, so that there is
nothing to try again. It uses no possessive quantifier for that, because Python 3.11.0 to 3.11.4
match those differently over groups (tests/repo/test_patterns.py).
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MARK = "[redacted]"
# Shorter values occur by chance, and hiding those would hide the message.
SHORTEST = 4
# How far beyond the shown parts a secret can reach that is found by its form. Web servers take no
# longer header, and a private key of 16,384 bits has 13,000 characters.
REACH = 16_384

# By their own form: keys of the signature schemes, Stripe, AWS, GitHub, GitLab, Docker, npm,
# SendGrid, Google, Slack, and tokens that are signed JSON.
KEYS = re.compile(
    r"(?:whsec|whpk|whsk|[srp]k_(?:live|test))_[\w+/=-]{4,}"
    r"|\bsk-[\w-]{20,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{8,}"
    r"|(?:gh[pousr]_|github_pat_)\w{8,}"
    r"|(?:glpat-|dckr_pat_|npm_)[\w-]{8,}"
    r"|\bSG\.[\w-]{8,}\.[\w-]{8,}"
    r"|\bAIza[\w-]{20,}"
    r"|hooks\.slack\.com/services/[\w/-]{8,}"
    r"|xox[abeprs]-[\w-]{8,}"
    r"|\beyJ[\w-]{16,}(?:\.[\w-]*){0,4}"
)
# What follows the name of an HTTP scheme, unless it is the prose about it.
CREDENTIALS = re.compile(
    r"\b(?:bearer|basic)(?:\s+|%20|\+)"
    r"(?!(?:auth\w*|tokens?|credentials?|scheme|realm)\b)([^\s\"',;<>]{4,})",
    re.IGNORECASE,
)
# A whole line, or as much as is in quotes: these have parts that only servers tell apart. With a
# comma as in lists of pairs, which is how servers hand headers on: `(b'cookie', b'x')`.
HEADERS = re.compile(
    r"(?:authorization|cookie)(?:(?:\\?[\"'])?[ \t]*[=:]|\\?[\"'],)[ \t]*(?![ \t])"
    r"(?:b(?=\\?[\"']))?(?:\\?[\"'])?([^\"'\\\r\n]+)",
    re.IGNORECASE,
)
# `password=x`, `"password": "x"`, `'api_key': 'x'`, `\"token\": \"x\"`, with anything before the
# word. Exactly one group matches: the value, without its quotes.
PAIRS = re.compile(
    r"(?:password|passwd|passphrase|pwd|secret|token|credential"
    r"|signature|(?:api|access|account|private|signing|encryption)[_-]?key)"
    r"(?:[_-]?key(?:[_-]?base)?)?"
    r"(?:\\?[\"'])?[ \t]*(?:=>|[=:]{1,2})[ \t]*(?:[bru]{1,2}(?=[\"']))?"
    r"(?:\"((?:[^\"\\]|\\.)+)|'((?:[^'\\]|\\.)+)"
    r"|\\\"((?:[^\"\\]|\\{3}\"|\\[^\"])+)|\\'((?:[^'\\]|\\{3}'|\\[^'])+)"
    r"|((?:[^\s&\"'<>\\]|\\(?![nrt\"']))+))",
    re.IGNORECASE | re.DOTALL,
)
# To its end, with any marks on its lines, or as far as it looks like one.
PRIVATE_KEYS = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:[^-]|-(?!----(?:BEGIN|END) ))*-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"|(?:[\w+/=\s\\:,.()]|-(?!-))*)"
)
PATTERNS = (KEYS, CREDENTIALS, HEADERS, PAIRS, PRIVATE_KEYS)

URLS = re.compile(r"://([^\s\"'<>]*)")
PORT = re.compile(r"\d{1,5}[/?#]")


def redact_and_trim(text: str, secrets: Sequence[str], head: int, tail: int) -> str:
    """The text without its secrets: all of it, or its two ends and how much is missing."""
    needles = spellings(secrets)
    reach = REACH + max(map(len, needles), default=0)
    if len(text) <= head + tail + 2 * reach:
        whole = redact(text, needles, 0, len(text))
        if len(whole) <= head + tail:
            return whole
        front, back, total = whole[:head], whole[len(whole) - tail :], len(whole)
    else:
        total = len(text)
        front = redact(text[: head + reach], needles, 0, head)[:head]
        back = redact(text[-tail - reach :], needles, reach, tail + reach)
        back = back[max(len(back) - tail, 0) :]
    return f"{front}\n[… {total - head - tail:,} characters left out …]\n{back}"


def redact(text: str, needles: Sequence[str], start: int, stop: int) -> str:
    """The part of a text between two places, with a mark for every secret that touches it."""
    parts: list[str] = []
    done = start
    for first, last in sorted(secret_spans(text, needles)):
        if last <= done or first >= stop:
            continue
        if first > done:
            parts.append(text[done:first])
        if first > done or not parts:  # else it goes on where the last one ended
            parts.append(MARK)
        done = last
    return "".join([*parts, text[done:stop]])


def secret_spans(text: str, needles: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where secrets are, in any order, overlapping or not."""
    for needle in needles:
        at = text.find(needle)
        while at >= 0:
            yield at, at + len(needle)
            at = text.find(needle, at + 1)
    for pattern in PATTERNS:
        for match in pattern.finditer(text):
            yield match.span(match.lastindex or 0)
    for match in URLS.finditer(text):
        yield from password_spans(match.group(1), match.start(1))


def password_spans(run: str, offset: int) -> Iterator[tuple[int, int]]:
    """The passwords of the addresses in a run of text without spaces, up to the last ``@``."""
    for address in run.split("://"):
        colon, at = address.find(":"), address.rfind("@")
        first = colon + 1
        if 0 < first < at and "/" not in address[:colon] and not PORT.match(address, first):
            yield offset + first, offset + at
        offset += len(address) + len("://")


def spellings(secrets: Sequence[object]) -> list[str]:
    """The secrets as they are written in messages: as they are, quoted, in JSON, and in URLs."""
    found: dict[str, None] = {}
    for secret in secrets:
        if not isinstance(secret, str) or len(secret) < SHORTEST or not secret.strip():
            continue
        trimmed = secret.strip()  # a file's last line break is no part of what is sent
        value = trimmed if len(trimmed) >= SHORTEST else secret
        text = clean_text(value)
        for spelling in (
            text,
            clean_text(repr(value)[1:-1]),
            json.dumps(value)[1:-1],
            json.dumps(text, ensure_ascii=False)[1:-1],
            quote(text, safe=""),
            quote_plus(text),
        ):
            found[spelling] = None
    return list(found)


def clean_text(text: str) -> str:
    """Text that every database and JSON reader takes: no NUL, no lone surrogate, nothing lost."""
    # Called on the class: a subclass of str may have methods of its own.
    return str.encode(text, "utf-8", "backslashreplace").decode().replace("\0", "\\x00")
