"""One proof from beginning to end: processes, databases, cases, and the restore."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from duly.core.errors import UsageError
from duly.prove.case_runner import CaseRunner
from duly.prove.databases.database_set import NewFileUsed
from duly.prove.databases.discovery import file_of, is_sqlite, open_proof_database
from duly.prove.databases.open_by_others import refuse_in_use
from duly.prove.fork_server import PATIENCE, ForkServer
from duly.prove.interrupts import Interruptions
from duly.prove.proof import Proof

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.prove.case_runner import ProofRequest
    from duly.prove.loader import Load
    from duly.prove.proof import Verdict

# Files that only some cases use; more of them are names that are made anew in each run.
WIDENINGS = 4


@dataclass(frozen=True, slots=True)
class ProofOptions:
    """How a proof is made.

    Args:
        keep: where the databases of a failing case are kept for a person.
        disposable: whether a PostgreSQL database may be dropped under any name.
        patience: how many seconds one process may take.
    """

    keep: Path | None = None
    disposable: bool = False
    patience: float = PATIENCE


def prove_handler(
    load: Load, request: ProofRequest, options: ProofOptions, show: Callable[[str], None]
) -> Verdict:
    """Prove an application's handler of one event, or find out why that cannot be said."""
    if options.keep is not None and options.keep.exists() and not options.keep.is_dir():
        raise UsageError(
            f"{options.keep} is a file, and --keep needs a folder, which it makes itself"
        )
    with Interruptions() as interruptions:
        folder = Path(tempfile.mkdtemp(prefix="duly-prove-"))
        nursery = ForkServer(load, options.patience)
        try:
            with interruptions.allow_interrupts():
                told, asks = nursery.describe_app(request.asks)
            request = replace(request, asks=asks, allowed=request.allowed | told.database)
            with open_proof_database(
                told.url, told.names, folder, disposable=options.disposable
            ) as where:
                if is_sqlite(told.url):
                    refuse_in_use([file_of(told.url)], nursery.proof_processes)
                player = CaseRunner(nursery, told, request, where, folder)
                judge = partial(run_proof, player, request, options, show)
                verdict = run_and_restore(player, interruptions, judge)
                verdict.notes += told.time.notes
                return verdict
        finally:
            nursery.close()
            shutil.rmtree(folder, ignore_errors=True)


def run_and_restore(
    case_runner: CaseRunner, interruptions: Interruptions, judge: Callable[[], Verdict]
) -> Verdict:
    """Run the proof; restore the databases in any case."""
    try:
        with interruptions.allow_interrupts():
            return judge()
    finally:
        # A signal may have come while the block above was being left.
        interruptions.defer_interrupts()
        case_runner.restore_original()


def run_proof(
    case_runner: CaseRunner,
    request: ProofRequest,
    options: ProofOptions,
    show: Callable[[str], None],
) -> Verdict:
    """The proof; it begins again where a case has used a file that the single run had not."""
    files: list[str] = []
    while len(files) < WIDENINGS:
        proof = Proof(case_runner, request)
        try:
            verdict = proof.run(show)
        except NewFileUsed as wider:
            files.append(str(wider))
            show(f"{wider} is used as well: once more from the beginning")
            continue
        if verdict.finding is not None and options.keep is not None:
            proof.repeat_failed_case()
            options.keep.mkdir(parents=True, exist_ok=True)
            verdict.kept = case_runner.save_copies(options.keep)
        return verdict
    raise UsageError(
        f"the handler uses other SQLite files in each run ({', '.join(files)}), which cannot "
        "be compared: let them have one name, or be in memory"
    )
