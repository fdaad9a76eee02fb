"""SQLAlchemy's unit of work keeps its books right around duly's savepoints."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
from sqlalchemy import NullPool, create_engine, inspect, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import duly
from tests.stores.join.places import Place
from tests.stores.join.sqlalchemy_handles import engine_url
from tests.stores.join.ways import WAYS, Way

BLOCKING = [way for way in WAYS if way.name.startswith("sqlalchemy-session")]
AWAITED = [way for way in WAYS if way.name.startswith("sqlalchemy-async-session")]
blocking_sessions = pytest.mark.parametrize("way", BLOCKING, ids=str)
awaited_sessions = pytest.mark.parametrize("way", AWAITED, ids=str)


class Base(DeclarativeBase):
    """The user's tables."""


class Note(Base):
    """The user's own row."""

    __tablename__ = "notes"

    note: Mapped[str] = mapped_column(primary_key=True)
    scope: Mapped[str]


@contextmanager
def session_on(way: Way, place: Place) -> Iterator[Session]:
    engine = create_engine(engine_url(place.url, way.name.split("-")[-1]), poolclass=NullPool)
    with Session(engine) as session:
        yield session
    engine.dispose()


@asynccontextmanager
async def async_session_on(way: Way, place: Place) -> AsyncIterator[AsyncSession]:
    engine = create_async_engine(engine_url(place.url, way.name.split("-")[-1]), poolclass=NullPool)
    async with AsyncSession(engine, expire_on_commit=False) as session:
        yield session
    await engine.dispose()


@blocking_sessions
def test_what_was_pending_before_a_failed_once_is_kept_and_what_came_inside_is_not(
    way: Way, place: Place, scope: str
) -> None:
    with session_on(way, place) as session:
        before, inside = Note(note=f"b {scope}", scope=scope), Note(note=f"i {scope}", scope=scope)
        session.add(before)
        with pytest.raises(ZeroDivisionError), duly.once(session, scope, "evt"):
            assert inspect(before).persistent, "pending work is flushed before the savepoint"
            before.scope = "changed"
            session.add(inside)
            session.flush()
            raise ZeroDivisionError
        assert inspect(inside).transient
        assert before.scope == scope, "what was changed inside is read again"
        assert not session.in_nested_transaction()
        session.commit()
    assert (place.claims(scope), place.notes(scope)) == ([], [f"b {scope}"])


@blocking_sessions
def test_what_is_pending_at_the_end_of_once_is_flushed_with_it(
    way: Way, place: Place, scope: str
) -> None:
    with session_on(way, place) as session:
        with duly.once(session, scope, "evt") as turn:
            session.add(Note(note=f"n {scope}", scope=scope))
            turn.result = 1
        assert not session.new
        assert session.scalars(select(Note.note).where(Note.scope == scope)).all() == [f"n {scope}"]
        session.commit()
    assert (place.claims(scope), place.notes(scope)) == (["evt"], [f"n {scope}"])


@blocking_sessions
def test_a_flush_that_fails_at_the_end_of_once_takes_the_claim_with_it(
    way: Way, place: Place, scope: str
) -> None:
    with session_on(way, place) as session:
        session.add(Note(note=f"n {scope}", scope=scope))
        session.flush()
        session.expunge_all()
        with pytest.raises(IntegrityError), duly.once(session, scope, "evt"):
            session.add(Note(note=f"n {scope}", scope=scope))
        assert duly.dedup(session, scope, "evt").first
        session.commit()
    assert (place.claims(scope), place.notes(scope)) == (["evt"], [f"n {scope}"])


@blocking_sessions
@pytest.mark.parametrize("result", [None, "a result"])
def test_a_flush_error_swallowed_inside_once_is_not_taken_for_success(
    way: Way, place: Place, scope: str, result: str | None
) -> None:
    with session_on(way, place) as session:
        session.add(Note(note=f"n {scope}", scope=scope))
        session.flush()
        session.expunge_all()
        with (
            pytest.raises(duly.errors.UsageError, match="error was swallowed"),
            duly.once(session, scope, "evt") as turn,
        ):
            session.add(Note(note=f"n {scope}", scope=scope))
            with pytest.raises(IntegrityError):
                session.flush()
            if result is not None:
                turn.result = result
        session.commit()
    assert (place.claims(scope), place.notes(scope)) == ([], [f"n {scope}"])


@blocking_sessions
def test_a_session_whose_flush_failed_is_refused_until_it_is_rolled_back(
    way: Way, place: Place, scope: str
) -> None:
    with session_on(way, place) as session:
        session.add(Note(note=f"n {scope}", scope=scope))
        session.flush()
        session.expunge_all()
        session.add(Note(note=f"n {scope}", scope=scope))
        with pytest.raises(IntegrityError):
            session.flush()
        with pytest.raises(duly.errors.NotJoinable, match="roll it back") as refused:
            duly.dedup(session, scope, "evt")
        assert scope not in str(refused.value), "parameters stay out of messages"
        session.rollback()
        assert duly.dedup(session, scope, "evt").first


@awaited_sessions
async def test_an_awaited_session_keeps_its_books_too(way: Way, place: Place, scope: str) -> None:
    async with async_session_on(way, place) as session:
        before, inside = Note(note=f"b {scope}", scope=scope), Note(note=f"i {scope}", scope=scope)
        session.add(before)
        with pytest.raises(ZeroDivisionError):
            async with duly.aio.once(session, scope, "evt"):
                session.add(inside)
                await session.flush()
                raise ZeroDivisionError
        assert inspect(inside).transient
        assert not session.in_nested_transaction()
        async with duly.aio.once(session, scope, "evt") as turn:
            session.add(inside)
            turn.result = 1
        await session.commit()
    assert place.claims(scope) == ["evt"]
    assert place.notes(scope) == [f"b {scope}", f"i {scope}"]


@blocking_sessions
def test_a_session_with_an_engine_for_each_class_is_refused(
    way: Way, place: Place, scope: str
) -> None:
    with session_on(way, place) as bound, Session(binds={Note: bound.get_bind()}) as session:
        with pytest.raises(duly.errors.NotJoinable, match="bind_arguments"):
            duly.dedup(session, scope, "evt")
        connection = session.connection(bind_arguments={"mapper": Note})
        assert duly.dedup(connection, scope, "evt").first


@awaited_sessions
async def test_the_blocking_side_of_an_awaited_session_is_refused_outside_run_sync(
    way: Way, place: Place, scope: str
) -> None:
    async with async_session_on(way, place) as session:
        _ = await session.connection()
        with pytest.raises(duly.errors.SyncAsyncMismatch, match=r"duly\.aio"):
            duly.dedup(session.sync_session, scope, "evt")
        await session.rollback()
