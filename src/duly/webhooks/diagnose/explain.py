"""Why a delivery was rejected: the most likely mistake, in a sentence that a person can act on.

The delivery is verified again, and again with one thing changed at a time, until the signature
comes out right: what had to be changed is what went wrong. It takes many times as long as to
verify, so ask for it when a person asks, not for every delivery that is rejected. A server that
asks by itself hands over a `pace`, which ends the search when it has taken long enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import time
from typing import TYPE_CHECKING, Final, NamedTuple

from duly.core.errors import Code, Rejected, UsageError
from duly.core.validation import kind
from duly.webhooks.delivery import Delivery, checked_body, fields_with_care, seconds_of
from duly.webhooks.diagnose import SUSPICIONS
from duly.webhooks.diagnose.case import RejectedCase, signs_url, try_verify, verifies
from duly.webhooks.event_fields import VerifiedDelivery
from duly.webhooks.secrets import hide
from duly.webhooks.source import Source
from duly.webhooks.verify import source_of

if TYPE_CHECKING:
    from duly.webhooks.delivery import Headers, Moment
    from duly.webhooks.provider import Provider
    from duly.webhooks.secrets import Secrets

# More names than this do not help.
MOST_NAMES = 8
UNEXPLAINED, UNFINISHED = "unexplained", "unfinished"
# Every kind of diagnosis there is.
KINDS: Final = frozenset({*(kind for kind, _ in SUSPICIONS), UNEXPLAINED, UNFINISHED})


class Diagnosis(NamedTuple):
    """The most likely mistake: its kind, one of `KINDS`, and the sentence for people."""

    kind: str
    sentence: str


def run_to_the_end() -> bool:
    """The pace of a person who asks: as long as it takes."""
    return True


def explain(  # noqa: PLR0913  # what a request is made of, each by its name
    source: str | Provider | Source,
    headers: Headers,
    body: bytes,
    secrets: Secrets | None = None,
    *,
    now: Moment = None,
    url: str | None = None,
    method: str = "POST",
    others: Iterable[Source] = (),
) -> str:
    """Say what is most likely wrong with a delivery that `verify` rejects.

    The sentence holds neither a secret nor anything of the body, and is safe to log.

    Args:
        source: a provider's name, a `Provider`, or a `Source`.
        headers: a mapping or a list of pairs, in text or bytes, in any case.
        body: the raw bytes, as they were passed to `verify`.
        secrets: one secret, several, or a mapping from names to secrets; none with a `Source`.
        now: when it arrived; the system's clock where none is given.
        url: the full URL that was passed to `verify`.
        method: the method of the request.
        others: further sources that the delivery may have been meant for.
    """
    # A traceback that prints local variables shows this frame: what is secret leaves it at once.
    secrets = None if secrets is None else hide(secrets)
    trusted = source_of(source, secrets)
    known = checked_others(others)
    url = trusted.url if url is None else url
    delivery = delivery_of(headers, body, url, method, now)
    found = try_verify(trusted, delivery)
    if isinstance(found, VerifiedDelivery):
        return f"Nothing is wrong: the delivery is genuine, by the secret {found.secret!r}."
    problem = found or Rejected(Code.BAD_SIGNATURE, "the URL that was signed is not known")
    return diagnose(RejectedCase(trusted, delivery, problem, known)).sentence


def delivery_of(
    headers: object, body: object, url: object, method: object, now: object
) -> Delivery:
    """What the caller passed, checked: a wrong type is the caller's mistake, not the sender's."""
    if url is not None and not isinstance(url, str):
        raise UsageError(f"url must be the full URL as a string, not {kind(url)}")
    if not isinstance(method, str):
        raise UsageError(f"method must be a string such as 'POST', not {kind(method)}")
    moment = time() if now is None else seconds_of(now)
    return Delivery(fields_with_care(headers), checked_body(body), url, method, moment)


def checked_others(others: object) -> tuple[Source, ...]:
    """The other sources, which must be made already."""
    if not isinstance(others, Iterable) or isinstance(others, str | bytes):
        raise UsageError(f"others must be a list of Source, not {kind(others)}")
    found = tuple(others)
    for one in found:
        if not isinstance(one, Source):
            raise UsageError(f"others must be a list of Source, there is {kind(one)} among them")
    return found


def diagnose(case: RejectedCase, pace: Callable[[], bool] = run_to_the_end) -> Diagnosis:
    """The first guess that is evident, or that makes the signature good.

    ``pace`` is called before each guess; the search ends where it returns False.
    """
    for suspected, suspicion in SUSPICIONS:
        for guess in suspicion(case):
            if isinstance(guess, str):
                return Diagnosis(suspected, guess)
            if not pace():
                return Diagnosis(UNFINISHED, sentence_when_unfinished(case))
            if verifies(guess.source, guess.delivery):
                return Diagnosis(suspected, guess.sentence)
    return Diagnosis(UNEXPLAINED, sentence_when_unexplained(case))


def sentence_when_unfinished(case: RejectedCase) -> str:
    """What is left to say when the search was ended."""
    return (
        f"{case.problem.reason}. The search for the cause was ended before it tried everything: "
        "pass a recorded delivery to duly.explain()."
    )


def sentence_when_unexplained(case: RejectedCase) -> str:
    """What is left to say when nothing fits."""
    if case.problem.code is not Code.BAD_SIGNATURE:
        return f"The delivery is not one of {case.title}: {case.problem.reason}."
    names = [repr(secret.name) for secret in case.source.secrets]
    more = ", …" if len(names) > MOST_NAMES else ""
    tried = f"{len(names)} secret{'s' * (len(names) > 1)} tried: "
    return (
        "The signature fits none of the secrets over these bytes: compare the secret with the "
        f"settings of {case.title} ({tried}{', '.join(names[:MOST_NAMES])}{more}), or look for "
        f"what changed {'the body or the URL' if signs_url(case) else 'the body'} on its way."
    )
