"""Proofs of the sample applications, as `duly prove` makes them, without its command line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duly.app.loading import load_app
from duly.core.defaults import names
from duly.prove.asks import EventAsk
from duly.prove.case_runner import ProofRequest
from duly.prove.loader import Subject, load_site
from duly.prove.prover import ProofOptions, prove_handler
from duly.prove.recording import by_http_client, by_httpx, by_outbox, by_smtplib  # noqa: F401
from duly.prove.trace import names_by_statement

if TYPE_CHECKING:
    from duly.prove.loader import Load
    from duly.prove.proof import Verdict

# Read and imported once, before the forks.
names_by_statement(names())
ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "mistakes" / "shop.py"
EVENTS = ROOT / "examples" / "mistakes" / "events"
APPS = Path(__file__).parent / "apps"


def shop(file: Path, database: str, site: str | None = None) -> Load:
    """A sample application over a database; imported in the process that asks for it."""

    def load() -> Subject:
        os.environ["SHOP_DATABASE"] = database
        app = load_app(f"{file}:app")
        return Subject(app, None if site is None else load_site(f"{file.stem}:{site}"))

    return load


def event(name: str, path: str | None = None) -> EventAsk:
    """A sample event by its name."""
    return EventAsk("", (EVENTS / f"{name}.json").read_bytes(), path=path)


def proof(load: Load, *names: str, path: str | None = None, **wishes: Any) -> Verdict:
    """The verdict on how an application handles sample events."""
    asks = tuple(event(name, path) for name in names)
    # A busy machine may take its time.
    manner = ProofOptions(disposable=True, patience=200)
    return prove_handler(load, ProofRequest(asks, **wishes), manner, lambda _: None)
