"""What may arrive at a gate: anything, near-misses of genuine deliveries, and hostile bodies."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from tests.webhooks.arena import names_of, sample_of
from tests.webhooks.hostile import BODIES, VALUES, planted, raw, text_of
from tests.webhooks.parts import flipped

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from tests.webhooks.arena import Arrival, Case

TYPES = (
    "application/json",
    "application/x-www-form-urlencoded",
    "Application/X-WWW-Form-URLEncoded ; x",
)
URLS = (
    "", "/", "x", "https://", "https://[::1", "https://h:99999/", "https://h:x/",
    "http://h/?token=%ff", "https://h/?bodySHA256=x&bodySHA256=y", "https://h/?" + "a=1&" * 2000,
    "https://\uff48\u2100/", "\0", "\ud800", "https://h/?challenge=\ud800", "https://h/?challenge=x&id=%ED%A0%80",
    "https://u:p@h:1/%3a%2F%3F",
)  # fmt: skip

anything = st.text(st.characters(codec=None), max_size=40)
huge = st.builds(lambda one, many: one * many, st.text(min_size=1, max_size=3), st.just(30_000))
texts = st.one_of(anything, st.text(st.characters(max_codepoint=255), max_size=200), huge)
words = st.sampled_from(
    [*TYPES, "v1,", "v1a,", "t=1,v1=", "sha256=", "Basic ", "Bearer a.b.c", "0" * 13]
)
values = st.one_of(texts, words, st.binary(max_size=60))


def odd_case(name: str) -> SearchStrategy[str]:
    return st.lists(st.booleans(), min_size=len(name), max_size=len(name)).map(
        lambda ups: "".join(
            one.upper() if up else one.lower() for one, up in zip(name, ups, strict=True)
        )
    )


def header_names(case: Case) -> SearchStrategy[str | bytes]:
    known = st.sampled_from(names_of(case))
    return st.one_of(known, known.flatmap(odd_case), known.map(str.encode), anything)


@st.composite
def headers(draw: st.DrawFn, case: Case) -> Any:
    """A mapping or pairs; text or bytes; one value or several under a name."""
    pairs = draw(st.lists(st.tuples(header_names(case), values), max_size=8))
    match draw(st.sampled_from(["mapping", "pairs", "lists"])):
        case "mapping":
            return dict(pairs)
        case "lists":
            return {name: [value] * draw(st.integers(0, 2)) for name, value in pairs}
        case _:
            return pairs


urls = st.one_of(st.sampled_from(URLS), anything, anything.map("https://h.example/in?".__add__))
methods = st.one_of(st.sampled_from(["POST", "post", "GET", "", "po\u017ft", "\ud800"]), anything)


def paths_of(case: Case) -> list[tuple[str, ...]]:
    """Every place in a JSON body that this case's provider reads."""
    told = re.findall(r"body:([\w.]+)", repr(case.provider))
    fields = getattr(case.scheme, "fields", ())
    signed = fields if isinstance(fields, tuple) else ()
    return [tuple(path.split(".")) for path in sorted({*told, *signed})]


@st.composite
def shaped(draw: st.DrawFn, case: Case) -> bytes:
    """JSON with odd values where the provider looks for its facts, alone or in a batch."""
    planting = st.dictionaries(
        st.sampled_from(paths_of(case) or [("id",)]), st.sampled_from(VALUES), max_size=6
    )
    keys = st.lists(st.sampled_from(["id", "type", "event", "eventId", "pspReference"]), max_size=2)
    texts = [text_of(planted(draw(planting)), draw(keys)) for _ in range(draw(st.integers(1, 3)))]
    texts += draw(st.lists(st.sampled_from(VALUES), max_size=1))
    provider = case.provider
    if provider.items is None or draw(st.integers(0, 3)) == 0:
        return raw(texts[0])
    inner = texts if provider.item is None else [f'{{"{provider.item}":{one}}}' for one in texts]
    listed = "[" + ",".join(inner) + "]"
    return raw(listed if provider.items == "" else f'{{"{provider.items}":{listed}}}')


def bodies_to_sign(case: Case) -> SearchStrategy[bytes]:
    """Bodies that a genuine sender could sign, and no reader would like to see."""
    forms = st.lists(st.tuples(st.sampled_from(["id", "payload", "MessageSid", "x"]), anything))
    return st.one_of(
        shaped(case),
        st.sampled_from(BODIES),
        st.sampled_from(VALUES).map(raw),
        st.binary(max_size=60),
        st.just(case.body),
        forms.map(lambda pairs: raw("&".join(f"{name}={value}" for name, value in pairs))),
    )


@st.composite
def edited(draw: st.DrawFn, text: bytes) -> bytes:
    """Bytes that are nearly the same."""
    place = draw(st.integers(0, max(0, len(text))))
    match draw(st.sampled_from(["flip", "cut", "insert", "repeat", "replace"])):
        case "flip" if text:
            return flipped(text, place * 8 % (len(text) * 8) + draw(st.integers(0, 7)))
        case "cut":
            return text[:place]
        case "insert":
            return text[:place] + draw(st.binary(max_size=4)) + text[place:]
        case "repeat":
            return text[:place] + text
        case _:
            return draw(st.binary(max_size=20))


@st.composite
def near_misses(draw: st.DrawFn, case: Case) -> Arrival:
    """A genuine delivery with some of its headers, its body, its URL or its method changed."""
    arrival = sample_of(case.name)
    pairs: list[tuple[Any, Any]] = list(arrival.headers.items())
    for _ in range(draw(st.integers(1, 3))):
        which = draw(st.integers(0, len(pairs) + 3))
        if which < len(pairs):
            name, value = pairs[which]
            changed = value if isinstance(value, bytes) else value.encode("latin-1", "replace")
            pairs[which] = (name, draw(edited(changed)))
        elif which == len(pairs):
            arrival = replace(arrival, body=draw(edited(arrival.body)))
        elif which == len(pairs) + 1:
            arrival = replace(arrival, url=draw(edited(raw(arrival.url))).decode("latin-1"))
        elif which == len(pairs) + 2 and pairs:
            pairs.append(draw(st.sampled_from(pairs)))
        else:
            arrival = replace(arrival, method=draw(methods))
    return replace(arrival, headers=pairs)
