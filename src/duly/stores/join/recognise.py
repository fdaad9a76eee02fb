"""Recognising what the user handed over, and joining the transaction that is theirs.

Types are recognised by name, along the whole inheritance, so that nothing is imported unless it
was passed. What is not in the table is refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from duly.core.clock import Clock
from duly.core.defaults import Names
from duly.core.errors import NotJoinable, SyncAsyncMismatch
from duly.core.session import Session
from duly.stores.join.drivers import DRIVERS, Driver, Mode, driver_session, type_names
from duly.stores.join.hints import describe, refusal

__all__ = ["Mode", "join", "recognise"]

Joiner = Callable[[Any, Names, Clock | None], Session]


@dataclass(frozen=True, slots=True)
class JoinableType:
    """One type of connection: its colour, and how to make a session of it."""

    mode: Mode
    join: Joiner


def join(target: object, names: Names, clock: Clock | None, *, mode: Mode, verb: str) -> Session:
    """A session over the user's connection, in the colour of the verb that was called."""
    kind = recognise(target)
    if kind is None:
        raise NotJoinable(refusal(target))
    if kind.mode != mode:
        twin = twin_of(verb, kind.mode)
        raise SyncAsyncMismatch(f"{describe(target)} is {kind.mode}: use {twin}")
    return kind.join(target, names, clock)


def twin_of(verb: str, mode: Mode) -> str:
    """How to call a verb in the other colour: one of the package, or one of an app."""
    if verb.startswith("app."):
        return f"await app.aio.{verb[4:]}(…)" if mode == "async" else f"{verb}(…)"
    return f"duly.aio.{verb} and await it" if mode == "async" else f"duly.{verb}"


def recognise(target: object) -> JoinableType | None:
    """The kind of a connection, by the names of its classes."""
    return next(
        (JOINABLE_TYPES[name] for name in type_names(target) if name in JOINABLE_TYPES), None
    )


def join_driver(driver: Driver) -> JoinableType:
    """The kind of a driver's own connections: nobody else keeps books about them."""
    return JoinableType(
        driver.mode,
        lambda connection, names, clock: driver_session(
            driver, driver.adapter(connection), names, clock
        ),
    )


def join_sqlalchemy(target: Any, names: Names, clock: Clock | None) -> Session:
    """A ``Connection``, a ``Session``, or the ``scoped_session`` that stands for one."""
    from duly.stores.join.sqlalchemy import sync_session

    return sync_session(target, names, clock)


def join_sqlalchemy_async(target: Any, names: Names, clock: Clock | None) -> Session:
    """An ``AsyncConnection``, an ``AsyncSession``, or the ``async_scoped_session`` for one."""
    from duly.stores.join.sqlalchemy import async_session

    return async_session(target, names, clock)


def join_django(target: Any, names: Names, clock: Clock | None) -> Session:
    """``django.db.connections[alias]``, or ``django.db.connection``, which stands for one."""
    from duly.stores.join.django import sync_session

    return sync_session(target, names, clock)


JOINABLE_TYPES: dict[str, JoinableType] = {
    **{name: join_driver(driver) for name, driver in DRIVERS.items()},
    "sqlalchemy.Connection": JoinableType("sync", join_sqlalchemy),
    "sqlalchemy.Session": JoinableType("sync", join_sqlalchemy),
    "sqlalchemy.scoped_session": JoinableType("sync", join_sqlalchemy),
    "sqlalchemy.AsyncConnection": JoinableType("async", join_sqlalchemy_async),
    "sqlalchemy.AsyncSession": JoinableType("async", join_sqlalchemy_async),
    "sqlalchemy.async_scoped_session": JoinableType("async", join_sqlalchemy_async),
    "django.BaseDatabaseWrapper": JoinableType("sync", join_django),
    "django.ConnectionProxy": JoinableType("sync", join_django),
}
