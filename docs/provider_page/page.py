"""The page itself: a table of all providers, then a section for each."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any

from duly.webhooks import Code, provider_named, provider_names
from duly.webhooks.examples import PREAMBLE, example_of, expected_output, program
from duly.webhooks.selectors import parse_selector
from duly.webhooks.wording import (
    code,
    describe_handshake,
    duration,
    either,
    in_full,
    in_short,
    signs_time,
)

if TYPE_CHECKING:
    from datetime import timedelta

    from duly.webhooks import Provider

UNKNOWN = "not published"
STABLE = {True: "yes", False: "no", None: "not said"}
HEADINGS = (
    "provider", "signature", "event id", "tolerance", "answer within", "retries for",
    "accepted, refused", "handshake",
)  # fmt: skip

OPENING = """\
# Providers

<!-- Written by `make docs` from the profiles in src/duly/webhooks/providers: do not edit. -->

The {count} providers that duly knows by name. For any other, [write your own](own-provider.md).
[Webhooks](webhooks.md) explains the terms and what the verification promises.

{table}

A selector is written as in the profiles: `body:data.id` is the key `id` in the object `data` of
the JSON body, `header:…` a header, `form:…` a field of a form, `query:…` a parameter of the URL.
Parts joined by `+` form one id, and a part with `?` may be missing. "Not published" means
that the provider does not say; duly does not guess.

The tests run the programs below, in order, as one. Each signs a genuine delivery with `duly.sign`,
in place of the provider, and verifies it. In your code, headers and body come from the
request, the secret comes from your settings, and `now=` is left out. Providers with public keys
need the extra `crypto`.

```python
{preamble}```
"""


def page() -> str:
    """The whole page."""
    providers = sorted(map(provider_named, provider_names()), key=title)
    opening = OPENING.format(count=len(providers), table=table(providers), preamble=PREAMBLE)
    return "\n".join([opening, *map(section, providers)])


def title(provider: Provider) -> str:
    """The name as people write it."""
    return provider.title or provider.name


def table(providers: list[Provider]) -> str:
    """The table of all providers."""
    rows = [HEADINGS, ("---",) * len(HEADINGS), *map(row, providers)]
    return "\n".join(f"| {' | '.join(cells)} |".replace("| --- ", "|---") for cells in rows)


def row(provider: Provider) -> tuple[str, ...]:
    """A provider as a line of the table."""
    anchor = re.sub(r"[^a-z0-9 -]", "", title(provider).lower()).replace(" ", "-")
    return (
        f"[{title(provider)}](#{anchor})",
        in_short(provider.schemes[0]),
        short_identity(provider),
        tolerance(provider),
        known(provider.ack_timeout),
        retries(provider),
        statuses(provider),
        "answered" if provider.handshakes else "none",
    )


def section(provider: Provider) -> str:
    """The section of one provider, with its program."""
    link = (
        "" if provider.docs is None else f" · [{title(provider)}'s documentation]({provider.docs})"
    )
    example = example_of(provider)
    return "\n".join(
        [
            f"## {title(provider)}\n",
            f"`{provider.name}`{link}\n",
            f"{filled(provider.notes)}\n",
            *(filled(f"- **{name}:** {text}") for name, text in facts(provider) if text),
            f"\n```python\n{program(example)}```\n",
            f"```text\n{expected_output(example)}```\n",
        ]
    )


def facts(provider: Provider) -> list[tuple[str, str]]:
    """The fields of a provider, in this order; empty ones are left out."""
    first, *others = map(in_full, provider.schemes)
    return [
        ("Signature", first),
        *(("Or", other) for other in others),
        ("Event id", identity(provider)),
        ("Same id on retries", STABLE[provider.id_stable]),
        ("Batches", batches(provider)),
        ("Type", selectors(provider.type)),
        ("Time", selectors(provider.time)),
        ("Ordering version", selectors(provider.version)),
        ("Tolerance", tolerance(provider)),
        ("Answer within", known(provider.ack_timeout)),
        ("Retries for", retries(provider)),
        ("Status", statuses(provider, " if accepted", " if refused")),
        ("Handshake", "; ".join(map(describe_handshake, provider.handshakes)) or "none"),
    ]


def filled(paragraph: str) -> str:
    """A paragraph, or an item of a list, in lines of readable length."""
    indent = "  " if paragraph.startswith("- ") else ""
    return textwrap.fill(
        paragraph,
        100,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def known(time: timedelta | None) -> str:
    """A duration, or a note that the provider does not publish it."""
    return UNKNOWN if time is None else duration(time)


def retries(provider: Provider) -> str:
    """How long the provider retries an event."""
    return duration(provider.retry_horizon) if provider.retry_horizon else "none known"


def statuses(provider: Provider, accepted: str = "", refused: str = "") -> str:
    """The statuses that an endpoint answers."""
    reject = provider.reject or Code.BAD_SIGNATURE.status
    return f"{provider.success}{accepted}, {reject}{refused}"


def tolerance(provider: Provider) -> str:
    """How old a signed time may be, or a note that none is signed."""
    if provider.sent_at is None and not any(map(signs_time, provider.schemes)):
        return "no time is signed"
    if provider.tolerance is None:
        return "any age"
    where = "" if provider.sent_at is None else f", by {code(provider.sent_at)}"
    return duration(provider.tolerance) + where


def batches(provider: Provider) -> str:
    """Where the events of one delivery are, if there can be several."""
    if provider.items is None:
        return ""
    listed = f"the list {code(provider.items)}" if provider.items else "the body is a list"
    inside = "" if provider.item is None else f", or rather its {code(provider.item)},"
    return f"{listed}; each item{inside} is an event"


def selectors(text: str | None) -> str:
    """The selectors of a field, in order of preference."""
    return "not given" if text is None else ", else ".join(map(joined_selector, text.split(" | ")))


def joined_selector(parts: str) -> str:
    """The selectors whose values form one field."""
    return " + ".join(map(code, parts.split(" + ")))


def identity(provider: Provider) -> str:
    """The selectors of the id, and which of them are signed."""
    if provider.id is None:
        return "none; the digest of the body is used"
    choices = [
        f"{joined_selector(parts)} ({signed_by(provider, parts)})"
        for parts in provider.id.split(" | ")
    ]
    return ", else ".join(choices)


def signing_schemes(provider: Provider, parts: str) -> list[Any]:
    """The schemes that sign all parts of an id."""
    found = [parse_selector(part) for part in parts.split(" + ")]
    return [scheme for scheme in provider.schemes if all(map(scheme.covers, found))]


def signed_by(provider: Provider, parts: str) -> str:
    """Say whether the id is covered by a signature."""
    signing = signing_schemes(provider, parts)
    if len(signing) in (0, len(provider.schemes)):
        return "signed" if signing else "not signed"
    return "signed where the signature is in " + either(
        [scheme.describe_location() for scheme in signing]
    )


def short_identity(provider: Provider) -> str:
    """The identity for a table cell: the first choice, under the first scheme."""
    if provider.id is None:
        return "none"
    parts = provider.id.split(" | ")[0]
    signed = "signed" if provider.schemes[0] in signing_schemes(provider, parts) else "not signed"
    return f"{joined_selector(parts)}, {signed}"
