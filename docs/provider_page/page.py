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
    "taken, refused", "handshake",
)  # fmt: skip

OPENING = """\
# Providers

<!-- Written by `make docs` from the profiles in src/duly/webhooks/providers: do not edit. -->

The {count} providers that duly knows by name. For any other, [write your own](own-provider.md).
What the words mean, and what the gate promises, is on the page about [the gate](gate.md).

{table}

A place is written as the profiles write it: `body:data.id` is the key `id` in the object `data` of
the JSON body, `header:…` a header, `form:…` a field of a form, `query:…` a parameter of the URL.
Parts joined by `+` are one id together, and a part with `?` may be missing. "Not published" means
that the provider does not say; duly does not guess.

The programs below are run by the tests, in order, as one. Each has a genuine delivery made by
`duly.sign`, in place of the provider, and verifies it. In your code, headers and body come from the
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
    """All of them at one glance."""
    rows = [HEADINGS, ("---",) * len(HEADINGS), *map(row, providers)]
    return "\n".join(f"| {' | '.join(cells)} |".replace("| --- ", "|---") for cells in rows)


def row(provider: Provider) -> tuple[str, ...]:
    """A provider as a line of the table."""
    anchor = re.sub(r"[^a-z0-9 -]", "", title(provider).lower()).replace(" ", "-")
    return (
        f"[{title(provider)}](#{anchor})",
        in_short(provider.schemes[0]),
        worth_in_short(provider),
        tolerance(provider),
        known(provider.ack_timeout),
        retries(provider),
        statuses(provider),
        "answered" if provider.handshakes else "none",
    )


def section(provider: Provider) -> str:
    """All that is known of one provider, and its program."""
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
    """What is said of every provider, in this order; an empty one is left out."""
    first, *others = map(in_full, provider.schemes)
    return [
        ("Signature", first),
        *(("Or", other) for other in others),
        ("Event id", identity(provider)),
        ("Same id on retries", STABLE[provider.id_stable]),
        ("Batches", batches(provider)),
        ("Type", place(provider.type)),
        ("Time", place(provider.time)),
        ("Ordering version", place(provider.version)),
        ("Tolerance", tolerance(provider)),
        ("Answer within", known(provider.ack_timeout)),
        ("Retries for", retries(provider)),
        ("Status", statuses(provider, " when taken", " when refused")),
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
    """A duration that the provider may keep to itself."""
    return UNKNOWN if time is None else duration(time)


def retries(provider: Provider) -> str:
    """For how long an event may come again."""
    return duration(provider.retry_horizon) if provider.retry_horizon else "none known"


def statuses(provider: Provider, taken: str = "", refused: str = "") -> str:
    """What an endpoint answers."""
    reject = provider.reject or Code.BAD_SIGNATURE.status
    return f"{provider.success}{taken}, {reject}{refused}"


def tolerance(provider: Provider) -> str:
    """How old a signed time may be, where there is one."""
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


def place(text: str | None) -> str:
    """Where a fact is, the first choice first."""
    return "nowhere" if text is None else ", else ".join(map(together, text.split(" | ")))


def together(parts: str) -> str:
    """The places that are one fact."""
    return " + ".join(map(code, parts.split(" + ")))


def identity(provider: Provider) -> str:
    """Where the id is, and which of its places are signed."""
    if provider.id is None:
        return "none; the digest of the body stands in"
    told = [f"{together(parts)} ({worth(provider, parts)})" for parts in provider.id.split(" | ")]
    return ", else ".join(told)


def covering(provider: Provider, parts: str) -> list[Any]:
    """The schemes that sign all parts of an id."""
    places = [parse_selector(part) for part in parts.split(" + ")]
    return [scheme for scheme in provider.schemes if all(map(scheme.covers, places))]


def worth(provider: Provider, parts: str) -> str:
    """Whether anybody but the sender could put another id there."""
    signing = covering(provider, parts)
    if len(signing) in (0, len(provider.schemes)):
        return "signed" if signing else "not signed"
    return "signed where the signature is in " + either(
        [scheme.describe_location() for scheme in signing]
    )


def worth_in_short(provider: Provider) -> str:
    """The same for a cell: the first choice, under the first scheme."""
    if provider.id is None:
        return "none"
    parts = provider.id.split(" | ")[0]
    signed = "signed" if provider.schemes[0] in covering(provider, parts) else "not signed"
    return f"{together(parts)}, {signed}"
