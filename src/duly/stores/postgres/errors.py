"""PostgreSQL's errors as duly's, by SQLSTATE, each with what to do about it."""

from __future__ import annotations

from duly.core.errors import DulyError, InProgress, NotJoinable, SchemaMismatch

LOCK_NOT_AVAILABLE = "55P03"
SERIALIZATION_FAILURE, DEADLOCK = "40001", "40P01"
IN_FAILED_TRANSACTION = "25P02"
UNDEFINED_TABLE, UNDEFINED_COLUMN, INVALID_SCHEMA = "42P01", "42703", "3F000"
UNDEFINED_FUNCTION = "42883"
# What duly's own statements raise, through the function that the migrations make.
BODY_WITHOUT_EVENT = "UD001"

# The whole transaction may be run again after these; the last statement alone never.
RERUN = frozenset({SERIALIZATION_FAILURE, DEADLOCK})


class PostgresErrorTranslator:
    """Turns PostgreSQL's errors into ones that say what to do; leaves the rest as they are.

    Both drivers name the SQLSTATE ``sqlstate``, so neither has to be imported here. Not a
    generator, because it surrounds each statement.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if isinstance(problem, Exception):
            known = duly_error_for(getattr(problem, "sqlstate", None), problem)
            if known is not None:
                raise known from problem


# The context in which errors of the driver become duly's; it has no state, so there is one.
translate_errors = PostgresErrorTranslator()


def duly_error_for(sqlstate: str | None, problem: Exception) -> DulyError | None:
    """The duly error for an SQLSTATE that has one."""
    if sqlstate == LOCK_NOT_AVAILABLE:
        return InProgress(
            "another transaction holds this key and did not end within the wait: try again. If "
            "this was your own transaction and wait= was not given, roll it back first"
        )
    if sqlstate == BODY_WITHOUT_EVENT:
        return InProgress(
            "another transaction took the key of an event after its body was claimed here: receive "
            "each event of the batch alone"
        )
    if sqlstate == IN_FAILED_TRANSACTION:
        return NotJoinable("this transaction has failed: roll it back, then run it again")
    if sqlstate in (UNDEFINED_TABLE, UNDEFINED_COLUMN, UNDEFINED_FUNCTION, INVALID_SCHEMA):
        first_line = str(problem).splitlines()[0]
        return SchemaMismatch(
            f"duly's tables are not as this version needs them ({first_line}): run "
            "`duly migrate postgresql://...` and check prefix= and schema= if you set them"
        )
    return None
