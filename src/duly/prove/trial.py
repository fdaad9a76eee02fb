"""One proof from beginning to end: the processes, the databases, the cases, and all put back."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from duly.core.errors import Misuse
from duly.prove.databases.bases import Widened
from duly.prove.databases.finding import file_of, ground, is_sqlite
from duly.prove.databases.using import refuse_in_use
from duly.prove.interrupting import Interruptions
from duly.prove.nursery import PATIENCE, Nursery
from duly.prove.playing import Player
from duly.prove.proof import Proof

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.prove.playing import Wishes
    from duly.prove.proof import Verdict
    from duly.prove.where import Load

# Files that only some cases use; more of them are names that are made anew in each run.
WIDENINGS = 4


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
    with Interruptions() as interruptions:
        folder = Path(tempfile.mkdtemp(prefix="duly-prove-"))
        nursery = Nursery(load, manner.patience)
        try:
            with interruptions.heard():
                told, asks = nursery.told(wishes.asks)
            wishes = replace(wishes, asks=asks, allowed=wishes.allowed | told.database)
            with ground(told.url, told.names, folder, disposable=manner.disposable) as where:
                if is_sqlite(told.url):
                    refuse_in_use([file_of(told.url)], nursery.ours)
                player = Player(nursery, told, wishes, where, folder)
                judge = partial(judged, player, wishes, manner, show)
                verdict = put_back(player, interruptions, judge)
                verdict.notes += told.time.notes
                return verdict
        finally:
            nursery.close()
            shutil.rmtree(folder, ignore_errors=True)


def put_back(player: Player, interruptions: Interruptions, judge: Callable[[], Verdict]) -> Verdict:
    """The proof, and the databases as they were at its end, whatever happens."""
    try:
        with interruptions.heard():
            return judge()
    finally:
        interruptions.hold()  # a signal may have come while the block above was being left
        player.end()


def judged(player: Player, wishes: Wishes, manner: Manner, show: Callable[[str], None]) -> Verdict:
    """The proof; it begins again where a case has used a file that the single run had not."""
    files: list[str] = []
    while len(files) < WIDENINGS:
        proof = Proof(player, wishes)
        try:
            verdict = proof.run(show)
        except Widened as wider:
            files.append(str(wider))
            show(f"{wider} is used as well: once more from the beginning")
            continue
        if verdict.finding is not None and manner.keep is not None:
            proof.repeat()
            manner.keep.mkdir(parents=True, exist_ok=True)
            verdict.kept = player.keep(manner.keep)
        return verdict
    raise Misuse(
        f"the handler uses other SQLite files in each run ({', '.join(files)}), which nobody can "
        "compare: let them have one name, or be in memory"
    )
