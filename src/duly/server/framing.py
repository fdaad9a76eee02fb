"""Where a request ends, and what makes that uncertain: RFC 9112 beyond what the parser checks.

The parser refuses most ambiguous requests by itself (two lengths, a length beside chunks, a folded
line). It accepts what stands here, so `find_fault` refuses it: a reader in front of this server
could take such a request for another one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from duly.receiver.responses import Fault, refusal_reply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.receiver.responses import Reply

    Headers = Sequence[tuple[bytes, bytes]]

VERSIONS: Final = ("1.0", "1.1")
# A name or an address, in brackets where it has colons, and a port. The value may be empty.
HOST: Final = re.compile(
    rb"(?:[A-Za-z0-9\-._~!$&'()*+,;=%]*|\[[A-Za-z0-9\-._~!$&'()*+,;=%:]+\])(?::[0-9]*)?"
)
CLOSE: Final = {"connection": "close"}
# Protocols that the parser reads as if they were HTTP, and does not tell from it.
FOREIGN: Final = (b"RTSP/", b"ICE/")

MALFORMED: Final = refusal_reply(Fault.MALFORMED, "this is not a request of HTTP/1.1", CLOSE)
TUNNEL: Final = refusal_reply(Fault.NOT_IMPLEMENTED, "this server opens no tunnels", {})
VERSION: Final = refusal_reply(Fault.MALFORMED, "only HTTP/1.0 and HTTP/1.1 are served here", CLOSE)
ONE_HOST: Final = refusal_reply(Fault.MALFORMED, "a request must have one Host header", CLOSE)
ODD_HOST: Final = refusal_reply(Fault.MALFORMED, "Host is not the name of a host", CLOSE)
NO_CHUNKS: Final = refusal_reply(
    Fault.MALFORMED, "a Transfer-Encoding must end with chunked, and needs HTTP/1.1", CLOSE
)
CODING: Final = refusal_reply(
    Fault.NOT_IMPLEMENTED, "no Transfer-Encoding but chunked is read here", {}
)


def find_fault(method: bytes, version: str, headers: Headers) -> Reply | None:
    """Return the refusal of a request whose head is complete, or None for a sound one."""
    if method == b"CONNECT":  # what follows its head belongs to no request
        return TUNNEL
    if version not in VERSIONS:
        return VERSION
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) > 1 or (not hosts and version != "1.0"):
        return ONE_HOST
    if hosts and HOST.fullmatch(hosts[0].strip(b" \t")) is None:
        return ODD_HOST
    codings = [value for name, value in headers if name == b"transfer-encoding"]
    return find_fault_of_coding(version, codings) if codings else None


def find_foreign_targets(received: bytes, *, first: bool) -> frozenset[bytes]:
    """Return the targets of request lines that name another protocol than HTTP.

    The parser does not say which protocol it read, so its name is looked for in what was received.
    ``first`` says that the request begins there. Where one begins behind the end of another is not
    known, and then the same words in the body of the other are enough for a refusal.

    It reads all that was received, so a caller asks once for each piece and not for each request:
    thousands of small ones fit into one piece.
    """
    if not any(name in received for name in FOREIGN):
        return frozenset()
    lines = received.lstrip(b"\r\n").split(b"\n", 1 if first else -1)
    parts = (line.rstrip(b"\r").rpartition(b" ") for line in (lines[:1] if first else lines))
    return frozenset(
        words.rstrip(b" ").rpartition(b" ")[2]
        for words, _, protocol in parts
        if protocol.startswith(FOREIGN)
    )


def find_fault_of_coding(version: str, values: Sequence[bytes]) -> Reply | None:
    """Return the refusal of a Transfer-Encoding that is not exactly ``chunked``, or None."""
    codings = [part.strip(b" \t").lower() for part in b",".join(values).split(b",")]
    if version == "1.0" or codings[-1] != b"chunked" or codings.count(b"chunked") > 1:
        return NO_CHUNKS
    return None if codings == [b"chunked"] else CODING


def write_head(method: bytes, target: bytes, version: str, headers: Headers) -> bytes:
    """Write a request's head again without its Upgrade headers."""
    lines = [b"%b %b HTTP/%b" % (method, target, version.encode())]
    lines += [b"%b: %b" % (name, value) for name, value in headers if name != b"upgrade"]
    return b"\r\n".join([*lines, b"", b""])
