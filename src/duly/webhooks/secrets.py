"""What only the sender and the receiver know, kept out of everything that people read.

A `Secret` shows its name and never its value: not in a repr, not in an f-string, not in a
traceback that prints local variables, and it refuses to be pickled. The functions that touch a
value hold it in frames that raise nothing; what they have to complain about is raised by a caller
who only holds the `Secret`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NoReturn, TypeAlias

from duly.core.errors import UsageError
from duly.core.exports import export
from duly.core.validation import kind

# How often a name is seen in a log line, and how rarely a person needs more.
NAME_LENGTH = 100
BAD_NAME = f"the name of a secret must be 1 to {NAME_LENGTH} printable characters"
NOT_PICKLED = (
    "a secret is not pickled, so that it reaches no cache, queue or log: pass its name, and read "
    "the value from your settings where it is used"
)

Value: TypeAlias = "str | bytes | Mapping[str, object]"
# One secret, several, or a mapping from names to secrets.
Secrets: TypeAlias = "Value | Secret | Iterable[Value | Secret]"


@export
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
        self.not_after: datetime | None
        self.key_id: str | None
        problem = problem_with(value)
        del value  # a traceback that prints locals shows this frame
        self.name, self.not_after, self.key_id = "", None, None
        if problem is not None:
            raise UsageError(problem)
        if key_id is not None and (kind(key_id) != "a str" or not key_id):
            raise UsageError("key_id must be a string, the id under which the sender names the key")
        self.key_id = key_id
        self.name = "" if name is None else checked_name(name)
        self.not_after = checked_end(not_after)

    def reveal(self) -> Value:
        """The value itself. Do not keep it in a variable of a function that may raise."""
        return self._value

    def text(self) -> str | None:
        """The value as text; None for a key that is no text."""
        if isinstance(self._value, bytes):
            return self._value.decode("utf-8", "replace")
        return self._value if isinstance(self._value, str) else None

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
        return isinstance(other, Secret) and comparable_parts(self) == comparable_parts(other)

    def __hash__(self) -> int:
        return hash((self.name, self.not_after, self.key_id))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise UsageError(NOT_PICKLED)


def comparable_parts(secret: Secret) -> tuple[object, ...]:
    """What makes two secrets the same."""
    return (secret.reveal(), secret.name, secret.not_after, secret.key_id)


def problem_with(value: object) -> str | None:
    """What is wrong with a secret, said without showing it."""
    if not isinstance(value, str | bytes | Mapping):
        return f"a secret must be a string or bytes, not {kind(value)}: check your settings"
    if not value:
        return "a secret must not be empty: anyone could sign with it; check your settings"
    if isinstance(value, str):
        if value != value.strip() and not value.startswith("-----BEGIN"):
            return "a secret must not begin or end with white space: use value.strip()"
        if not value.isascii() and any("\ud800" <= one <= "\udfff" for one in value):
            return "a secret must be text that can be written as UTF-8: pass bytes for a raw key"
    return None


def checked_name(name: str) -> str:
    """A name that a person gave to a secret."""
    if not is_name(name):
        raise UsageError(BAD_NAME)
    return name


def is_name(name: object) -> bool:
    """Whether something can be the name of a secret."""
    return isinstance(name, str) and 1 <= len(name) <= NAME_LENGTH and name.isprintable()


def checked_end(not_after: object) -> datetime | None:
    """The moment a secret ends; a naive one would end at another hour on another machine."""
    if not_after is None:
        return None
    if not isinstance(not_after, datetime) or not_after.utcoffset() is None:
        raise UsageError("not_after must be an aware datetime: datetime(2026, 1, 31, tzinfo=UTC)")
    return not_after


class Hidden:
    """What a caller passed as secrets, on its way to be wrapped: no repr shows it."""

    __slots__ = ("given",)

    def __init__(self, given: object) -> None:
        self.given = given

    def __repr__(self) -> str:
        return "Hidden()"


def hide(given: object) -> Any:
    """What a caller passed, hidden if it is not yet; it goes by the type of what it hides."""
    return given if isinstance(given, Hidden) else Hidden(given)


def secrets_of(given: Any) -> tuple[Secret, ...]:
    """The secrets of a source, given as one, as several, or by name."""
    given = hide(given)
    found = secrets_or_problems(given)
    problem = next((one for one in found if isinstance(one, str)), None)
    if problem is not None:
        raise UsageError(problem)
    secrets = [one for one in found if isinstance(one, Secret)]
    if not secrets:
        raise UsageError(
            "a source must have at least one secret: without it nothing can be verified"
        )
    return with_unique_names(
        [one.named(str(number)) for number, one in enumerate(secrets, start=1)]
    )


def secrets_or_problems(hidden: Hidden) -> list[Secret | str]:
    """Each of them wrapped, or what is wrong with it; nothing is raised where a value is held."""
    given = hidden.given
    if isinstance(given, Mapping) and "kty" not in given:  # one JSON Web Key is no list of names
        return [secret_or_problem(value, name) for name, value in given.items()]
    if isinstance(given, str | bytes | Secret | Mapping) or not isinstance(given, Iterable):
        return [secret_or_problem(given, None)]
    return [secret_or_problem(value, None) for value in given]


def secret_or_problem(value: object, name: object) -> Secret | str:
    """One value as a secret, or what is wrong with it."""
    if name is not None and not is_name(name):
        return BAD_NAME
    given_name = None if name is None else str(name)
    if isinstance(value, Secret):
        if value.name and given_name not in (None, value.name):
            return f"a secret must have one name, not {value.name!r} and {given_name!r}"
        return value if given_name is None else value.named(given_name)
    if not isinstance(value, str | bytes | Mapping):
        return f"a secret must be a string or bytes, not {kind(value)}: {advice(value)}"
    return problem_with(value) or Secret(value, name=given_name)


def advice(value: object) -> str:
    """What to do about a value that is no secret."""
    published = isinstance(value, list) and value and isinstance(value[0], Mapping)
    return "use duly.webhooks.Keyset for a JWKS document" if published else "check your settings"


def with_unique_names(secrets: list[Secret]) -> tuple[Secret, ...]:
    """Refuse two secrets under one name: the report of which one matched would say nothing."""
    names = [secret.name for secret in secrets]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two secrets are named {twice!r}: use a name of its own for each")
    return tuple(secrets)


def starts_with(secret: Secret, start: str) -> bool:
    """Whether a secret is text that begins like this."""
    value = secret.reveal()
    return isinstance(value, str) and value.startswith(start)
