"""Whether a delivery is genuine, worked out a second time in the plainest way.

Two deliveries are the same to a scheme where they share a reading; a delivery is genuine where one
of its readings is right. The hashes and keys are asked directly, not by way of the gate.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, utils

from tests.webhooks.signed_contents import Reading, Statement, read

if TYPE_CHECKING:
    from tests.webhooks.arena import Arrival, Case


def readings(case: Case, arrival: Arrival) -> set[Reading]:
    """Every way to read an arrival under every scheme of its source."""
    return {found for scheme, _ in case.source.schemes for found in read(scheme, arrival)}


def genuine(case: Case, arrival: Arrival) -> bool:
    """Whether any reading is right from its first statement to its last."""
    return any(all(right(case, one) for one in found) for found in readings(case, arrival))


def right(case: Case, statement: Statement) -> bool:
    """Whether a signature is the one that the case's key makes."""
    content = b"".join(statement.parts)
    kind, _, detail = statement.how.partition(" ")
    key = case.keys.plain
    if kind == "Token":
        return bool(statement.signature == key)
    if kind == "Hmac" or detail.startswith("HS"):
        digest = detail.replace("HS", "sha")
        return isinstance(key, bytes) and (
            hmac.new(key, content, digest).digest() == statement.signature
        )
    if kind == "PlainDigest":
        return hashlib.new(detail, key + content).digest() == statement.signature
    return not isinstance(key, bytes) and by_public_key(key, detail, statement.signature, content)


def by_public_key(key: Any, detail: str, signature: bytes, content: bytes) -> bool:
    """The same for public keys."""
    size = re.search(r"\d+", detail)
    digest: hashes.HashAlgorithm = getattr(hashes, f"SHA{size[0] if size else 256}")()
    try:
        if detail.startswith("RS"):
            key.verify(signature, content, padding.PKCS1v15(), digest)
        elif detail.startswith("ES"):
            key.verify(as_der(signature), content, ec.ECDSA(digest))
        elif detail.startswith("sha"):
            key.verify(signature, content, ec.ECDSA(digest))
        else:
            key.verify(signature, content)
    except (InvalidSignature, TypeError):  # a key of another kind takes other arguments
        return False
    return True


def as_der(signature: bytes) -> bytes:
    """Two numbers side by side, as DER writes them."""
    half = len(signature) // 2
    return utils.encode_dss_signature(
        int.from_bytes(signature[:half], "big"), int.from_bytes(signature[half:], "big")
    )
