"""The URL or the method, where they are signed: proxies change them, and frameworks do too."""

from __future__ import annotations

import re
from itertools import islice, product
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, quote, unquote, urlsplit

from duly.webhooks.diagnose.case import Guess, RejectedCase, signs_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from duly.webhooks.delivery import Delivery
    from duly.webhooks.secrets import Secret

METHODS: Final = ("POST", "PUT", "GET", "PATCH", "DELETE")
# Where proxies write what they were asked for.
HOSTS: Final = ("x-forwarded-host", "x-original-host", "x-host", "host")
TARGETS: Final = (
    "x-original-uri", "x-original-url", "x-forwarded-uri", "x-rewrite-url", "x-envoy-original-path",
    "x-replaced-path",
)  # fmt: skip
PREFIXES: Final = ("x-forwarded-prefix", "x-script-name", "x-forwarded-path")
FORWARDED: Final = re.compile(r'(?:^|[;,\s])(host|proto)="?([^";,\s]+)', re.IGNORECASE)
# Each is one signature to compute.
MOST: Final = 1500
LONGEST: Final = 200


def suspect_changed_url(case: RejectedCase) -> Iterator[Guess]:
    """Another URL than the one that was signed."""
    if case.delivery.url is None or not signs_url(case):
        return
    likely = [one for one in (case.source.url, case.delivery.url) if one is not None]
    every = (url for one in likely for url in (one, *islice(likely_urls(case.delivery, one), MOST)))
    for candidate in dict.fromkeys(every):
        yield case.trial(
            f"The URL was changed on the way: the signature was made for "
            f"{redact_url(candidate, case.source.secrets)}. Pass that as url=, or have the proxy "
            "hand on the host and the protocol.",
            url=candidate,
        )


def suspect_changed_method(case: RejectedCase) -> Iterator[Guess]:
    """Another method than the one that was signed."""
    for one in METHODS:
        if one != case.delivery.method.upper():
            yield case.trial(
                f"The signature was made for the method {one}: pass method= as it was requested.",
                method=one,
            )


def likely_urls(delivery: Delivery, given: str) -> Iterator[str]:
    """What the sender may have called, by the given URL and by what proxies say."""
    try:
        parts = urlsplit(given)
    except ValueError:
        return
    schemes = unique([parts.scheme, *protocols(delivery), "https", "http"])
    hosts = unique(one for host in own_hosts(delivery, parts) for one in ports(host, delivery))
    targets = unique(own_targets(delivery, parts))
    for target, host, scheme in product(targets, hosts, schemes):
        yield f"{scheme}://{host}{target}"


def unique(texts: Iterable[str | None]) -> list[str]:
    """Each text once, and none that is empty."""
    return list(dict.fromkeys(text for text in texts if text))


def first_value(delivery: Delivery, name: str) -> str:
    """The first of the values that proxies have added one behind the other."""
    return (delivery.header_text(name) or "").partition(",")[0].strip()


def forwarded_values(delivery: Delivery, wanted: str) -> list[str]:
    """What the standard header for proxies says."""
    stated = FORWARDED.findall((delivery.header_text("forwarded") or "")[:2000])
    return [value for name, value in stated if name.lower() == wanted]


def protocols(delivery: Delivery) -> list[str]:
    """The protocols that proxies say the sender used."""
    return [
        first_value(delivery, "x-forwarded-proto").lower(),
        *forwarded_values(delivery, "proto"),
    ]


def own_hosts(delivery: Delivery, parts: SplitResult) -> list[str]:
    """The names that the endpoint may have."""
    stated = [first_value(delivery, name) for name in HOSTS]
    own = [parts.netloc, parts.netloc.rpartition("@")[2]]
    return unique([*own, *stated, *forwarded_values(delivery, "host")])


def ports(host: str, delivery: Delivery) -> list[str]:
    """A host with and without a port."""
    name = re.sub(r":[0-9]*$", "", host)
    numbers = unique(["443", "80", first_value(delivery, "x-forwarded-port")])
    return [name, host, name.lower(), *(f"{name}:{number}" for number in numbers)]


def own_targets(delivery: Delivery, parts: SplitResult) -> Iterator[str]:
    """The paths, each with and without the query."""
    query = f"?{parts.query}" if parts.query else ""
    yield parts.path + query
    for name in TARGETS:
        stated = first_value(delivery, name)
        target = "/" + stated.split("://", 1)[1].partition("/")[2] if "://" in stated else stated
        yield from (target, target + query)
    for path in likely_paths(delivery, parts.path):
        yield from (path + query, path, f"{path}#{parts.fragment}")


def likely_paths(delivery: Delivery, path: str) -> Iterator[str]:
    """The path with and without its last slash, a prefix, its first parts, and its escapes."""
    yield from (path, path.rstrip("/"), path.rstrip("/") + "/")
    for name in PREFIXES:
        stated = first_value(delivery, name).rstrip("/")
        yield from (stated + path, stated + path.rstrip("/"))
    for start in (match.start() for match in islice(re.finditer("/", path), 1, 6)):
        yield path[start:]
    plain = path.encode("utf-8", "replace")
    yield from (unquote(path), quote(plain, safe="/%"), quote(plain))


def redact_url(text: str, secrets: Iterable[Secret]) -> str:
    """A URL for people: no user, no values of its query, and nothing at all if it is secret."""
    if any(shows_secret(secret, text) for secret in secrets):
        return "a URL that holds the secret"
    whole, mark, query = text.partition("?")
    whole = re.sub(r"://[^/]*@", "://…@", whole)
    names = "&".join(f"{one.partition('=')[0]}=…" for one in query.split("&")) if mark else ""
    plain = "".join(one for one in whole + mark + names if one.isprintable())
    return plain if len(plain) <= LONGEST else plain[:LONGEST] + "…"


def shows_secret(secret: Secret, text: str) -> bool:
    """Whether a text shows a secret."""
    value = secret.reveal()
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    return isinstance(value, str) and (value in text or value in unquote(text))
