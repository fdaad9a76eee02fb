"""Reads the user's SQL, as far as a story needs it: what it does, to which table, and how."""

from __future__ import annotations

import re

NAME = r'(?:["`\[]?[\w$]+["`\]]?\.)?["`\[]?(?P<table>[\w$]+)["`\]]?'
WRITES = re.compile(
    rf"\b(?P<verb>INSERT(?:\s+OR\s+\w+)?\s+INTO|REPLACE\s+INTO|UPDATE(?:\s+OR\s+\w+)?|DELETE\s+FROM"
    rf"|COPY(?=\s+[\w.\"$]+\s*(?:\([^)]*\))?\s+FROM\b))"
    rf"\s+(?:ONLY\s+)?{NAME}",
    re.IGNORECASE,
)
READS = re.compile(rf"\b(?:FROM|JOIN)\s+(?:ONLY\s+)?{NAME}", re.IGNORECASE)
# A column that is set to something made of itself: balance = balance + 1, also inside coalesce().
DELTA = re.compile(
    r'["`\[]?\b(?P<column>\w+)["`\]]?\s*=\s*(?:coalesce|ifnull)?\s*\(*\s*'
    r'(?:["`\[]?\w+["`\]]?\.)?["`\[]?(?P=column)\b["`\]]?[^=]*?(?:\+|-|\*|/|\|\|)',
    re.IGNORECASE | re.DOTALL,
)
LONGEST = 100


def verb_of(text: str) -> str:
    """INSERT, UPDATE, DELETE, or nothing where it writes nothing."""
    found = WRITES.search(text)
    if found is None:
        return ""
    word = found["verb"].split()[0].upper()
    return "INSERT" if word in ("REPLACE", "COPY") else word


def written_table(text: str) -> str | None:
    """The table that a statement writes to."""
    found = WRITES.search(text)
    return None if found is None else found["table"].lower()


def read_tables(text: str) -> set[str]:
    """The tables that a statement reads from, where it only reads."""
    if WRITES.search(text) is not None:
        return set()
    return {found["table"].lower() for found in READS.finditer(text)}


def is_delta(text: str) -> bool:
    """Whether an update adds to what is there, and so must not be done twice."""
    return verb_of(text) == "UPDATE" and DELTA.search(text) is not None


def shorten(text: str) -> str:
    """A statement shortened to one line."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1].rstrip()}…"
