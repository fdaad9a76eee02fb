"""What a refusal must be: an error of duly's that says what to do and repeats no secret."""

import re
from collections.abc import Callable, Iterator

import pytest

import duly
from tests.support.bad_values import CANARY

# Words of advice: a message without any of them only complains.
ADVICE = re.compile(
    r"\b(must|use|pass|write|run|call|set|split|store|return|answer|check|try|look|is an"
    r"|leave|give|allow|wrap|put|choose|takes|which|name one|1 to|register|needs|is two|asks? for"
    r"|is a function|such as|has five fields|is no cron expression: Bad)\b",
    re.IGNORECASE,
)
SENTENCE = 20


def told(problem: BaseException | None) -> Iterator[str]:
    """The message of an error and of all that led to it: a log shows the whole chain."""
    while problem is not None:
        yield str(problem)
        problem = problem.__cause__ or (
            None if problem.__suppress_context__ else problem.__context__
        )


def refused(name: str, parameter: str, call: Callable[[], object]) -> None:
    """The call ends in an error of duly's whose message helps and tells no secret."""
    with pytest.raises(duly.errors.DulyError) as caught:
        call()
    message = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert len(message) > SENTENCE, message
    assert ADVICE.search(message), message
    assert CANARY not in "".join(told(caught.value)), f"{name} repeats its {parameter}"
