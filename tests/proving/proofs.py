"""Proofs of the sample applications, as `duly prove` makes them, without its command line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duly.tools.proving.asks import EventAsk
from duly.tools.proving.playing import Wishes
from duly.tools.proving.trial import Manner, tried
from duly.tools.proving.where import Subject
from duly.tools.serving.loading import loaded

if TYPE_CHECKING:
    from duly.tools.proving.proof import Verdict
    from duly.tools.proving.where import Load

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "mistakes" / "shop.py"
EVENTS = ROOT / "examples" / "mistakes" / "events"
APPS = Path(__file__).parent / "apps"


def shop(file: Path, database: str) -> Load:
    """A sample application over a database; imported in the process that asks for it."""

    def load() -> Subject:
        os.environ["SHOP_DATABASE"] = database
        return Subject(loaded(f"{file}:app"))

    return load


def events(*names: str) -> tuple[EventAsk, ...]:
    """Sample events by their names."""
    return tuple(EventAsk("", (EVENTS / f"{name}.json").read_bytes()) for name in names)


def proof(load: Load, *names: str, **wishes: Any) -> Verdict:
    """The verdict on how an application handles events."""
    manner = Manner(disposable=True, patience=120)
    return tried(load, Wishes(events(*names), **wishes), manner, lambda _: None)
