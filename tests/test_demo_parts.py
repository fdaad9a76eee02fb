"""The parts of the demonstration: a sender that repeats itself, and a display that fits."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from random import Random

import pytest

from duly.tools.demo.audit import Check
from duly.tools.demo.crew import Faults, State
from duly.tools.demo.display import Phase, PlainDisplay, Scene, display_for
from duly.tools.demo.events import Arrival, Event, Stream
from duly.tools.demo.line import Answer, Delivery, Outcome
from duly.tools.demo.report import marks, row
from duly.tools.demo.sender import PATIENCE, Sender

EVENT = Event(number=1, amount=100, long=False)


class OneByOne(Stream):
    """Every event comes by itself, in one copy."""

    def draw(self) -> Arrival:
        return Arrival(EVENT, at_once=1, afterwards=[])


@pytest.fixture
def sender() -> Sender:
    """A sender with one delivery on its way, sent at second 0, and nothing else to send."""
    sender = Sender(OneByOne(Random(1)), window=2)
    assert next(sender.due(0.0)) == Delivery(1, EVENT)
    sender.end_stream()
    return sender


def test_the_sender_repeats_what_got_no_answer(sender: Sender) -> None:
    assert list(sender.due(PATIENCE - 0.1)) == []

    assert list(sender.due(PATIENCE)) == [Delivery(2, EVENT)]


def test_an_answer_that_comes_late_still_counts(sender: Sender) -> None:
    list(sender.due(PATIENCE))

    sender.hear(Answer(1, 1, Outcome.FIRST), PATIENCE)
    sender.hear(Answer(2, 1, Outcome.DUPLICATE), PATIENCE)

    assert sender.idle
    assert sender.books().unanswered == 0


def test_the_sender_comes_back_when_it_was_told_to(sender: Sender) -> None:
    sender.hear(Answer(1, 1, Outcome.LATER, retry_after=5.0), 0.0)

    assert list(sender.due(4.9)) == []
    assert not sender.idle
    assert list(sender.due(5.1)) == [Delivery(2, EVENT)]


def test_the_sender_is_idle_once_its_event_is_acknowledged(sender: Sender) -> None:
    assert not sender.idle

    sender.hear(Answer(1, 1, Outcome.FIRST), 0.0)

    assert sender.idle


def test_one_seed_gives_one_stream_in_which_every_event_comes_at_least_twice() -> None:
    one, other = Stream(Random("7")), Stream(Random("7"))
    arrivals = [one.draw() for _ in range(500)]

    assert arrivals == [other.draw() for _ in range(500)]
    assert min(arrival.at_once + len(arrival.afterwards) for arrival in arrivals) == 2
    assert any(arrival.event.long for arrival in arrivals)


SCENE = Scene(
    phase=Phase.DRAIN,
    elapsed=9_999.0,
    length=9_999.0,
    workers=[*State, *State],
    deliveries=1_234_567,
    rate=12_345.0,
    answers={
        Outcome.FIRST: 1_234_567,
        Outcome.DUPLICATE: 1_234_567,
        Outcome.LATER: 123_456,
        Outcome.REFUSED: 12_345,
    },
    faults=Faults(kills=12_345, stops=12_345),
)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_panel_fits_its_terminal_and_keeps_its_height(width: int) -> None:
    rich_console = pytest.importorskip("rich.console")
    from duly.tools.demo.panel import panel

    heights = set()
    for scene in (SCENE, replace(SCENE, phase=Phase.RACE, deliveries=0, rate=0.0, answers={})):
        output = io.StringIO()
        console = rich_console.Console(file=output, width=width, color_system=None)
        console.print(panel(scene, width))
        lines = output.getvalue().splitlines()
        assert max(map(len, lines)) <= width
        heights.add(len(lines))
    assert len(heights) == 1


def test_the_numbers_of_a_long_run_fit_the_plain_table() -> None:
    output = io.StringIO()
    display = PlainDisplay(output)

    display.show(replace(SCENE, phase=Phase.RACE, elapsed=0.0))
    display.show(replace(SCENE, elapsed=9_999.0))

    assert all(len(line) <= 80 for line in output.getvalue().splitlines())
    assert "1,234,567" in output.getvalue()


class Terminal(io.StringIO):
    """An output that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_without_rich_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "duly.tools.demo.panel", raising=False)
    for name in ("rich.box", "rich.console", "rich.live"):
        monkeypatch.setitem(sys.modules, name, None)

    assert isinstance(display_for(Terminal()), PlainDisplay)


def test_a_terminal_that_cannot_show_a_check_mark_gets_words() -> None:
    output = io.TextIOWrapper(io.BytesIO(), encoding="ascii")

    assert row(Check("a", 1, "b", 1), marks(output)).endswith("  ok")
    assert row(Check("a", 1, "b", 2), marks(output)).endswith("  WRONG")
