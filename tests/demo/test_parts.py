"""The parts of a storm by themselves: events, deliveries, traffic, what is shown."""

from __future__ import annotations

import io
import sys
from collections import Counter
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.demo.context import CounterIndex, SharedCounters
from duly.demo.databases import StormProgress
from duly.demo.display import Phase, PlainDisplay, Snapshot, display_for
from duly.demo.events import HUB_SOURCE, SHARES, SHOP, WHOLE, Catalog, EventKind
from duly.demo.ledger import LedgerLine, Unit
from duly.demo.processes import Faults, ProcessState, Role, Slot
from duly.demo.report import marks, row, verdict
from duly.demo.sender_connection import SenderAnswer, SenderConnection
from duly.demo.settings import Settings
from duly.demo.shop import key_of, secret_of
from duly.demo.traffic import DeliveryKind, DeliveryWriter, PlannedDelivery, Traffic
from tests.demo.shops import read

if TYPE_CHECKING:
    from duly.demo.events import StormEvent

pytestmark = pytest.mark.slow

SEED = 7


def test_one_seed_gives_one_set_of_events_of_every_kind() -> None:
    one, other = Catalog(SEED), Catalog(SEED)
    events = [one.event(number) for number in range(5000)]

    assert events == [other.event(number) for number in range(5000)]
    assert events != [Catalog(8).event(number) for number in range(5000)]
    kinds = Counter(event.kind for event in events)
    for kind, share in SHARES.items():
        assert 0 < kinds[kind] < 4 * 5000 * share / WHOLE
    assert any(event.gift for event in events)


def test_no_event_kills_from_where_it_is_calm() -> None:
    calm = Catalog(SEED, calm_from=0)

    assert all(calm.event(number).kind is not EventKind.KILLER for number in range(5000))


def one_of(kind: EventKind, source: str = SHOP) -> StormEvent:
    catalog = Catalog(SEED)
    return next(
        event
        for event in map(catalog.event, range(10_000))
        if event.kind is kind and event.source == source
    )


SHOP_SOURCE = duly.Source("standard-webhooks", secret_of(SEED, SHOP))
HUB = duly.Source("github", key_of(SEED, HUB_SOURCE).hex())


@pytest.mark.parametrize(
    ("sort", "genuine"),
    [
        (DeliveryKind.GENUINE, True), (DeliveryKind.CHANGED, True),
        (DeliveryKind.FORGED, False), (DeliveryKind.STALE, False),
    ],
)  # fmt: skip
def test_a_delivery_is_what_it_is_said_to_be(sort: DeliveryKind, genuine: bool) -> None:
    event = one_of(EventKind.CHANGED)
    headers, body = read(DeliveryWriter(SEED).request(PlannedDelivery(event, sort)))

    if not genuine:
        with pytest.raises(duly.errors.Rejected):
            duly.verify(SHOP_SOURCE, headers, body)
        return
    found = duly.verify(SHOP_SOURCE, headers, body)
    assert (found.id, found.type) == (event.id, event.type)
    assert (body == event.body()) == (sort is DeliveryKind.GENUINE)


def test_a_conflict_has_the_same_id_and_a_replay_the_same_body() -> None:
    event = one_of(EventKind.CONFLICT, HUB_SOURCE)
    found = {}
    for sort in (DeliveryKind.GENUINE, DeliveryKind.CONFLICT, DeliveryKind.REPLAYED):
        headers, body = read(DeliveryWriter(SEED).request(PlannedDelivery(event, sort)))
        found[sort] = (duly.verify(HUB, headers, body).id, body)

    assert found[DeliveryKind.CONFLICT][0] == found[DeliveryKind.GENUINE][0] == event.id
    assert found[DeliveryKind.CONFLICT][1] != found[DeliveryKind.GENUINE][1]
    assert found[DeliveryKind.REPLAYED][0] != event.id
    assert found[DeliveryKind.REPLAYED][1] == found[DeliveryKind.GENUINE][1]


def test_traffic_is_copied_shuffled_and_not_all_genuine() -> None:
    traffic = Traffic(Catalog(SEED), Random(1), later=10.0)
    sent = []
    while traffic.events < 2000:
        delivery = traffic.next(0.0, new=True)
        assert delivery is not None
        sent.append(delivery)
    traffic.close()
    while traffic.planned_count:
        delivery = traffic.next(11.0, new=True)
        assert delivery is not None
        sent.append(delivery)

    genuine = [one.event.number for one in sent if one.kind is DeliveryKind.GENUINE]
    copies = Counter(genuine)
    assert len(copies) == 2000
    assert 0.25 < sum(count > 1 for count in copies.values()) / 2000 < 0.35
    assert genuine != sorted(genuine)
    sorts = Counter(one.kind for one in sent)
    assert sorts[DeliveryKind.FORGED] > 0
    assert sorts[DeliveryKind.STALE] > 0
    assert traffic.next(99.0, new=True) is None


class Owner:
    """The owner of a connection, and the answers it got."""

    def __init__(self) -> None:
        self.answers: list[SenderAnswer | None] = []
        self.freed = 0

    def on_connection_free(self, connection: SenderConnection) -> None:
        self.freed += 1

    def on_answer(self, delivery: PlannedDelivery, answer: SenderAnswer | None) -> None:
        self.answers.append(answer)

    def on_connection_lost(self, connection: SenderConnection) -> None:
        return None


REPLY = b'HTTP/1.1 200 OK\r\nContent-Length: 22\r\n\r\n{"status": "accepted"}'


def test_an_answer_counts_once_it_is_whole() -> None:
    for cut in range(1, len(REPLY)):
        owner = Owner()
        wire = SenderConnection(owner)
        wire.delivery = PlannedDelivery(one_of(EventKind.PLAIN))

        wire.data_received(REPLY[:cut])
        assert owner.answers == []
        wire.data_received(REPLY[cut:])

        assert owner.answers == [SenderAnswer(200, "accepted")]
        assert owner.freed == 1


def test_half_an_answer_is_none() -> None:
    owner = Owner()
    wire = SenderConnection(owner)
    wire.delivery = PlannedDelivery(one_of(EventKind.PLAIN))

    wire.data_received(REPLY[:-1])
    wire.connection_lost(None)

    assert owner.answers == [None]


def scene(phase: Phase = Phase.STORM, *, number: int = 1_234_567) -> Snapshot:
    """Everything as long as it can be."""
    shared = SharedCounters()
    for place in CounterIndex:
        shared[place] = number
    settings = Settings("sqlite:///storm.db", Path("storm"), 1, None, 20.0)
    roles = [Role.INGRESS] * 4 + [Role.WORKER] * 8 + [Role.RELAY]
    slots = [Slot(role.value, role, int, at) for at, role in enumerate(roles)]
    slots[0].state, slots[1].state = ProcessState.STOPPED, ProcessState.ENDING
    faults = Faults(kills=12_345, fallen=12_345, stops=12_345, restarts=12_345)
    return Snapshot(
        phase, 9_999.0, settings, slots, shared, 12_345.0, faults, StormProgress(number, number)
    )


@pytest.mark.parametrize("width", [76, 80, 120])
def test_the_panel_fits_its_terminal_and_keeps_its_height(width: int) -> None:
    rich_console = pytest.importorskip("rich.console")
    from duly.demo.panel import panel

    heights = set()
    for shown in (scene(), scene(Phase.DRAIN, number=0)):
        output = io.StringIO()
        rich_console.Console(file=output, width=width, color_system=None).print(panel(shown, width))
        lines = output.getvalue().splitlines()
        assert max(map(len, lines)) <= width
        assert "…" not in output.getvalue()
        heights.add(len(lines))
    assert len(heights) == 1


def test_the_numbers_of_a_long_storm_fit_the_plain_table() -> None:
    output = io.StringIO()
    display = PlainDisplay(output)

    display.show(scene())
    display.show(scene(Phase.DRAIN))

    assert all(len(line) <= 80 for line in output.getvalue().splitlines())
    assert "1,234,567" in output.getvalue()


class Terminal(io.StringIO):
    """An output that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_without_rich_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "duly.demo.panel", raising=False)
    for name in ("rich.box", "rich.console", "rich.live"):
        monkeypatch.setitem(sys.modules, name, None)

    assert isinstance(display_for(Terminal()), PlainDisplay)


def test_a_terminal_that_cannot_show_a_check_mark_gets_words() -> None:
    output = io.TextIOWrapper(io.BytesIO(), encoding="ascii")

    assert row(LedgerLine("a", 1, "b", 1), marks(output)).endswith("  ok")
    assert row(LedgerLine("a", 1, "b", 2), marks(output)).endswith("  WRONG")


def test_a_long_name_does_not_move_the_numbers_of_its_line() -> None:
    lines = [LedgerLine("a", 1, "b", 1), LedgerLine("a", 1, "dead letters that came back", 10)]
    assert len({len(row(line, ("+", "-"))) for line in lines}) == 1


def test_the_money_of_a_million_events_fits_the_table() -> None:
    line = LedgerLine("amounts of those done", 350_000_000, "balance", 350_000_000, unit=Unit.CENTS)

    assert len(row(line, ("✓", "✗"))) <= 80


def test_the_last_sentence_counts_what_took_effect_and_not_what_is_dead() -> None:
    faults = SimpleNamespace(kills=3, fallen=1)
    evidence = SimpleNamespace(inbox=SimpleNamespace(total=10), dead=SimpleNamespace(total=2))
    outcome: Any = SimpleNamespace(wrong=[], lines=[], evidence=evidence, faults=faults)
    assert verdict(outcome) == (
        "Killed 4 times, yet each of 8 events took effect once; "
        "2 that can never succeed are dead letters."
    )
