"""The conformance cases of Postel, read where they lie; the project holds no copy of them.

One YAML file is one case: a request, the keys it is signed with, and what a receiver must make of
it. ``DULY_POSTEL_VECTORS`` names the folder; without it, the one beside the repository is taken.
"""

from __future__ import annotations

import base64
import hmac
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.gate import Code

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


@dataclass(frozen=True, slots=True)
class Case:
    """One request, ready to be sent, and the answer that it must get at the gate."""

    name: str
    method: str
    headers: dict[str, str]
    body: bytes
    expected: str

    def __str__(self) -> str:
        return self.name


def folder() -> Path:
    """Where the cases are looked for."""
    named = os.environ.get(VARIABLE)
    beside = Path(__file__).parents[2].parent / "shared" / "data" / "postel"
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


def cases() -> list[Case]:
    """Every case that sends a delivery; the one that asks for the public keys is the server's."""
    paths = [path for path in sorted(folder().rglob("*.yaml")) if path.parent.name != "_keys"]
    found = [told for told in map(read, paths) if told.get("mode", "receiver") == "receiver"]
    return [case_of(told) for told in found if told["input"]["method"] == "POST"]


def case_of(told: dict[str, Any]) -> Case:
    given = told["input"]
    headers = {name: MOMENT.sub(moment, value) for name, value in given["headers"].items()}
    body = base64.b64decode(given["body_b64"])
    if told["signature_mode"] == "computed":
        headers |= signature(headers, body, key(told["secrets"][0]["fixture"]))
    return Case(told["id"], given["method"], headers, body, expected(told["expected"]))


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


def expected(told: dict[str, Any]) -> str:
    """The answer at the gate, which has no memory: what is a duplicate there is genuine here."""
    if told.get("outcome") == "reject":
        return str(told["error_code"])
    return "accept"
