"""One proof from beginning to end: the processes, the databases, the cases, and all put back."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from duly._kernel.errors import Misuse
from duly.tools.proving.databases.files import refuse_in_use
from duly.tools.proving.databases.finding import file_of, ground, is_sqlite
from duly.tools.proving.nursery import PATIENCE, Nursery
from duly.tools.proving.playing import Player
from duly.tools.proving.proof import Proof

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.tools.proving.databases.finding import Ground
    from duly.tools.proving.playing import Wishes
    from duly.tools.proving.proof import Verdict
    from duly.tools.proving.where import Load


@dataclass(frozen=True, slots=True)
class Manner:
    """How a proof is made.

    Args:
        keep: where the databases of a failing case are kept for a person.
        disposable: whether a PostgreSQL database may be dropped whatever its name is.
        patience: how many seconds one process may take.
    """

    keep: Path | None = None
    disposable: bool = False
    patience: float = PATIENCE


def tried(load: Load, wishes: Wishes, manner: Manner, show: Callable[[str], None]) -> Verdict:
    """Prove an application's handler of one event, or find out why that cannot be said."""
    if manner.keep is not None and manner.keep.exists() and not manner.keep.is_dir():
        raise Misuse(f"{manner.keep} is a file, and --keep needs a folder, which it makes itself")
    folder = Path(tempfile.mkdtemp(prefix="duly-prove-"))
    nursery = Nursery(load, manner.patience)
    try:
        told, asks = nursery.told(wishes.asks)
        wishes = replace(wishes, asks=asks, allowed=wishes.allowed | told.database)
        player = Player(nursery, told, wishes, folder)
        with ground(told.url, told.names, folder, disposable=manner.disposable) as where:
            if is_sqlite(told.url):
                refuse_in_use(file_of(told.url).resolve(), nursery.session)
            verdict = put_back(player, where, wishes, manner, show)
            verdict.notes += told.time.notes
            return verdict
    finally:
        nursery.close()
        shutil.rmtree(folder, ignore_errors=True)


def put_back(
    player: Player, where: Ground, wishes: Wishes, manner: Manner, show: Callable[[str], None]
) -> Verdict:
    """The proof, and the databases as they were at its end, whatever happens."""
    try:
        proof = Proof(player, wishes)
        verdict = proof.run(where, show)
        if verdict.finding is not None and manner.keep is not None:
            proof.repeat()
            manner.keep.mkdir(parents=True, exist_ok=True)
            verdict.kept = player.keep(manner.keep)
        return verdict
    finally:
        player.end()
