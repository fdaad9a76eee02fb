"""The conformance cases of Postel, read where they lie; the project holds no copy of them.

One YAML file is one case: a request, the keys it is signed with, and what a receiver must make of
it. ``DULY_POSTEL_VECTORS`` names the folder; without it, the one beside the repository is taken.
The receiver that the cases are written for is described here as well, so that the gate alone and a
whole server are asked about the same one.
"""

from __future__ import annotations

import base64
import hmac
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.webhooks import Code, Provider, Secret, StandardWebhooks

VARIABLE: Final = "DULY_POSTEL_VECTORS"
NOW: Final = 1767225600
MOMENT: Final = re.compile(r"\{\{now(?:([+-]\d+)([smh]))?\}\}")
UNITS: Final = {"s": 1, "m": 60, "h": 3600}
# The receiver's words for what ours mean; a signature that is missing is a header that is.
CODES: Final = {
    Code.MALFORMED: "MALFORMED_HEADER",
    Code.MISSING_SIGNATURE: "MALFORMED_HEADER",
    Code.BAD_SIGNATURE: "SIGNATURE_INVALID",
    Code.STALE_TIMESTAMP: "TIMESTAMP_TOO_OLD",
    Code.UNKNOWN_KEY: "UNKNOWN_KEY_ID",
}
# What the receiver is to have seen before the case is tried.
SEEN_BEFORE: Final = "pre_seen_"
TOLERANCE: Final = timedelta(seconds=300)
BY_KEY_ID: Final = Provider(
    "by-key-id",
    StandardWebhooks(key_id=r"(kid_[^.]+)\."),
    id="header:webhook-id",
    type="body:type",
)


@dataclass(frozen=True, slots=True)
class Case:
    """One request, ready to be sent, and what each copy of it must be answered."""

    name: str
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    outcomes: tuple[str, ...]
    schema: dict[str, Any] | None

    def __str__(self) -> str:
        return self.name

    @property
    def seen_before(self) -> bool:
        """Whether the receiver must know its id already."""
        return self.headers.get("webhook-id", "").startswith(SEEN_BEFORE)

    @property
    def expected(self) -> str:
        """The answer at the gate, which has no memory: what is a duplicate is genuine there."""
        return "accept" if self.outcomes[0] == "duplicate" else self.outcomes[0]


def folder() -> Path:
    """Where the cases are looked for."""
    named = os.environ.get(VARIABLE)
    beside = Path(__file__).parents[3].parent / "shared" / "data" / "postel"
    return Path(named) if named else beside


def missing() -> str | None:
    """What to say where the cases are not at hand."""
    if (folder() / "_keys").is_dir():
        return None
    return f"no conformance cases of Postel in {folder()}: name their folder in {VARIABLE}"


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def key(name: str, half: str = "key_material") -> str:
    """A key of the fixtures; ``public_key`` is the receiver's half of a pair."""
    found: str = read(folder() / "_keys" / f"{name.removesuffix('.yaml')}.yaml")[half]
    return found


def secrets() -> list[Secret]:
    """What the receiver knows: two secrets, a public key, and one that has ended."""
    ended = datetime(2025, 1, 1, tzinfo=UTC)
    return [
        Secret(key("hmac_primary"), name="primary"),
        Secret(key("hmac_secondary"), name="secondary"),
        Secret(key("ed25519_a", "public_key"), name="a", key_id="kid_a"),
        Secret(key("ed25519_b", "public_key"), name="b", key_id="kid_b", not_after=ended),
    ]


def cases() -> list[Case]:
    """Every case of a receiver."""
    paths = [path for path in sorted(folder().rglob("*.yaml")) if path.parent.name != "_keys"]
    found = [told for told in map(read, paths) if told.get("mode", "receiver") == "receiver"]
    return [case_of(told) for told in found]


def case_of(told: dict[str, Any]) -> Case:
    given = told["input"]
    headers = {name: MOMENT.sub(moment, value) for name, value in given["headers"].items()}
    body = base64.b64decode(given["body_b64"])
    if told["signature_mode"] == "computed":
        headers |= signature(headers, body, key(told["secrets"][0]["fixture"]))
    schema = told["expected"].get("response_body_schema")
    return Case(told["id"], given["method"], given["url"], headers, body, outcomes(told), schema)


def moment(found: re.Match[str]) -> str:
    """A moment by the pinned clock, in Unix seconds."""
    number, unit = found.groups()
    return str(NOW + (0 if number is None else int(number) * UNITS[unit]))


def signature(headers: dict[str, str], body: bytes, secret: str) -> dict[str, str]:
    """The header that the case leaves for us to compute; without duly, which is what is tested."""
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    kind, _, text = secret.partition("_")
    raw = base64.b64decode(text)
    if kind == "whsec":
        version, made = "v1", hmac.digest(raw, content, "sha256")
    else:
        version, made = "v1a", Ed25519PrivateKey.from_private_bytes(raw).sign(content)
    return {"webhook-signature": f"{version},{base64.b64encode(made).decode()}"}


def outcomes(told: dict[str, Any]) -> tuple[str, ...]:
    """What the copies must be answered, in no order: accept, duplicate, or the error's code."""
    expected = told["expected"]
    if expected.get("outcome") == "reject":
        return (str(expected["error_code"]),)
    found = tuple(sorted(expected.get("outcomes", [expected.get("outcome")])))
    assert len(found) == told.get("concurrency", 1), told["id"]
    return found
