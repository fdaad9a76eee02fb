"""Which databases there are: duly's by its address, files when they are first used."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from duly.prove.databases.file_list import hold_list
from duly.prove.databases.sqlite import SqliteUnderProof

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.core.defaults import Names
    from duly.prove.databases.base import RestorableDatabase


class ProofDatabase(NamedTuple):
    """Where a proof takes place."""

    # The database of duly's tables, unless it is a file.
    base: RestorableDatabase | None
    # The list of the files, as they are found.
    files: Path


def is_sqlite(url: str) -> bool:
    """Whether duly's tables are in a file."""
    return urlsplit(url).scheme == "sqlite"


def file_of(url: str) -> Path:
    """The file that an address of duly's means."""
    return Path(unquote(urlsplit(url).path.removeprefix("/"))).absolute()


def store_of(url: str, names: Names) -> Any:
    """Duly's own tables, wherever they are."""
    if is_sqlite(url):
        return SqliteUnderProof(url, file_of(url), names)
    from duly.prove.databases.postgres import PostgresUnderProof

    return PostgresUnderProof(url, names)


@contextmanager
def open_proof_database(
    url: str, names: Names, folder: Path, *, disposable: bool
) -> Iterator[ProofDatabase]:
    """The database of duly's tables, ready for cases, for this proof alone."""
    if is_sqlite(url):
        with hold_list(file_of(url)) as files:
            yield ProofDatabase(None, files)
        return
    from duly.prove.databases.postgres import RestorablePostgres

    yield ProofDatabase(RestorablePostgres(url, names, disposable=disposable), folder / "files")
