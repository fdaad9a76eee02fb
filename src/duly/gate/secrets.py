"""What only the sender and the receiver know, kept out of everything that people read.

A `Secret` shows its name and never its value: not in a repr, not in an f-string, not in a
traceback that prints local variables, and it refuses to be pickled. The functions that touch a
value hold it in frames that raise nothing; what they have to complain about is raised by a caller
who only holds the `Secret`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NoReturn, TypeAlias

from duly._kernel.errors import Misuse
from duly._kernel.inputs import kind

# How often a name is seen in a log line, and how rarely a person needs more.
NAME_LENGTH = 100

Value: TypeAlias = "str | bytes | Mapping[str, object]"


class Secret:
    """One secret, or one public key, of a source: its value, its name, and when it ends.

    A string is read as the provider writes it (``whsec_…``, hex, base64, PEM, or plain text);
    bytes are the key itself; a mapping is a JSON Web Key.
    """

    __slots__ = ("_value", "key_id", "name", "not_after")

    def __init__(
        self,
        value: Value,
        *,
        name: str | None = None,
        not_after: datetime | None = None,
        key_id: str | None = None,
    ) -> None:
        self._value = value
        problem = problem_with(value)
        del value  # a traceback that prints locals shows this frame
        if problem is not None:
            raise Misuse(problem)
        self.name = "" if name is None else checked_name(name)
        self.not_after = checked_end(not_after)
        self.key_id = key_id

    def reveal(self) -> Value:
        """The value itself. Do not keep it in a variable of a function that may raise."""
        return self._value

    def named(self, name: str) -> Secret:
        """The same secret with a name, where it has none yet."""
        if self.name:
            return self
        return Secret(self._value, name=name, not_after=self.not_after, key_id=self.key_id)

    def ended(self, now: float) -> bool:
        """Whether it may no longer be used."""
        return self.not_after is not None and now > self.not_after.timestamp()

    def __repr__(self) -> str:
        until = "" if self.not_after is None else f", not_after={self.not_after.isoformat()!r}"
        return f"Secret(name={self.name!r}{until})"

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and parts(self) == parts(other)

    def __hash__(self) -> int:
        return hash((self.name, self.not_after, self.key_id))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise Misuse(
            "a secret is not pickled, so that it reaches no cache, queue or log: pass its name, "
            "and read the value from your settings where it is used"
        )


def parts(secret: Secret) -> tuple[object, ...]:
    """What makes two secrets the same."""
    return (secret.reveal(), secret.name, secret.not_after, secret.key_id)


def problem_with(value: object) -> str | None:
    """What is wrong with a secret, said without showing it."""
    if not isinstance(value, str | bytes | Mapping):
        return f"a secret must be a string or bytes, not {kind(value)}: check your settings"
    if not value:
        return "a secret must not be empty: anybody could sign with it; check your settings"
    if isinstance(value, str):
        if value != value.strip():
            return "a secret must not begin or end with white space: use value.strip()"
        if not value.isascii() and any("\ud800" <= one <= "\udfff" for one in value):
            return "a secret must be text that can be written as UTF-8: pass bytes for a raw key"
    return None


def checked_name(name: object) -> str:
    """A name that a person gave to a secret."""
    if not isinstance(name, str) or not 1 <= len(name) <= NAME_LENGTH or not name.isprintable():
        raise Misuse(f"the name of a secret must be 1 to {NAME_LENGTH} printable characters")
    return name


def checked_end(not_after: object) -> datetime | None:
    """The moment a secret ends; a naive one would end at another hour on another machine."""
    if not_after is None:
        return None
    if not isinstance(not_after, datetime) or not_after.tzinfo is None:
        raise Misuse("not_after must be an aware datetime: datetime(2026, 1, 31, tzinfo=UTC)")
    return not_after


def secrets_of(given: object) -> tuple[Secret, ...]:
    """Whatever way the secrets of a source were given: one, several, or by name."""
    wrapped = one_by_one(given)
    del given
    if not wrapped:
        raise Misuse("a source must have at least one secret: without it nothing can be verified")
    return distinct([one.named(str(place)) for place, one in enumerate(wrapped, start=1)])


def one_by_one(given: object) -> list[Secret]:
    """Each of them wrapped; nothing here holds more than one value at a time."""
    if isinstance(given, Mapping):
        return [secret_of(value, str(name)) for name, value in given.items()]
    if isinstance(given, str | bytes | Secret) or not isinstance(given, Iterable):
        return [secret_of(given, None)]
    return [secret_of(value, None) for value in given]


def secret_of(value: object, name: str | None) -> Secret:
    """One value wrapped."""
    if isinstance(value, Secret):
        return value if name is None else value.named(name)
    return Secret(value, name=name)  # type: ignore[arg-type]  # refused there if it is no value


def distinct(secrets: list[Secret]) -> tuple[Secret, ...]:
    """Refuse two secrets under one name: the report of which one matched would say nothing."""
    names = [secret.name for secret in secrets]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Misuse(f"two secrets are named {twice!r}: use a name of its own for each")
    return tuple(secrets)
