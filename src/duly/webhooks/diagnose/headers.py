"""The headers: missing, named otherwise, sent twice, or another provider's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.webhooks.diagnose.case import Guess, RejectedCase, carries_signature, signs_url
from duly.webhooks.providers import provider_named, provider_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.webhooks.delivery import Delivery, Fields
    from duly.webhooks.provider import Provider


def suspect_header_names(case: RejectedCase) -> Iterator[Guess]:
    """Names as a CGI environment writes them, or with underscores."""
    fields = case.delivery.fields
    cgi: Fields = {name.removeprefix("http_").replace("_", "-"): fields[name] for name in fields}
    if cgi.keys() != fields.keys():
        yield case.trial(
            "The headers have underscores in their names, as in request.META or an environment: "
            "pass the headers themselves, such as request.headers.",
            fields=cgi,
        )


def suspect_repeated_header(case: RejectedCase) -> Iterator[Guess]:
    """A header that came twice, as two or joined into one."""
    fields = case.delivery.fields
    for name, value in fields.items():
        for one in dict.fromkeys(value if isinstance(value, list) else halves(case, name)):
            yield case.trial(
                f"The header {name} was sent more than once, and one of its values is right: "
                "does a proxy add it again?",
                fields={**fields, name: one},
            )


def halves(case: RejectedCase, name: str) -> list[str]:
    """The value of a header that is twice the same with a comma between."""
    text = case.delivery.header_text(name) or ""
    for joint in (", ", ","):
        half = (len(text) - len(joint)) // 2
        if half > 0 and text == text[:half] + joint + text[:half]:
            return [text[:half]]
    return []


def suspect_header_values(case: RejectedCase) -> Iterator[Guess]:
    """White space or quotes around values."""
    fields = case.delivery.fields
    bare: Fields = {name: strip_quotes(value) for name, value in fields.items()}
    if bare != fields:
        yield case.trial(
            "The headers have white space or quotes around their values: pass them as they came.",
            fields=bare,
        )


def strip_quotes(value: Any) -> Any:
    """A value without what is around it."""
    if isinstance(value, str):
        return value.strip().strip("\"'")
    return value.strip().strip(b"\"'") if isinstance(value, bytes) else value


def suspect_missing_signature(case: RejectedCase) -> Iterator[Guess]:
    """No signature at all, or that of another provider."""
    if any(case.present_schemes()):
        return
    expected = case.schemes[0].describe_location()
    other = likely_sender(case)
    if other is not None:
        yield (
            f"There is no signature of {case.title} ({expected} is missing), but it looks like a "
            f"delivery of {other.title or other.name}: was it sent to the wrong source?"
        )
    advice = "" if expected.endswith("body") else ", and does every proxy pass it on"
    yield (
        f"There is no signature: {expected} is missing. Is a secret set at {case.title}{advice}?"
    )


def likely_sender(case: RejectedCase) -> Provider | None:
    """The provider whose headers these are; of several, the one that most of them name."""
    known = [provider_named(name) for name in provider_names()]
    likely = [
        one
        for one in known
        if one.name != case.source.provider.name
        and any(carries_signature(scheme, case.delivery) for scheme in one.schemes)
    ]
    weighed = [
        (-count_known_headers(one, case.delivery), len(one.schemes), one.name) for one in likely
    ]
    return provider_named(min(weighed)[2]) if weighed else None


def count_known_headers(provider: Provider, delivery: Delivery) -> int:
    """How many of the headers that hold a provider's fields are there."""
    names = {
        part.name
        for selectors in provider.selectors.values()
        for parts in selectors.alternatives
        for part in parts
        if part.kind == "header"
    }
    return sum(delivery.has(name) for name in names)


def suspect_missing_url(case: RejectedCase) -> Iterator[Guess]:
    """Nothing can be said without the URL."""
    if case.delivery.url is None and signs_url(case):
        yield (
            f"{case.title} signs the URL, and none was passed: pass url= as {case.title} was "
            "given it, or give it to the source."
        )
