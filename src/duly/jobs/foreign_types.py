"""Types of other libraries that a handler meets, for type checkers alone.

Nothing imports this module at run time: an application needs neither SQLAlchemy nor httpx. Where
one of them is not installed, a type checker reads what comes from it as ``Any``
(docs/decisions/0038).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession
    from sqlalchemy.orm import Session

    # Under their own names once more: that is how a type checker knows that others import them.
    from duly.http_client.clients import AsyncClient as AsyncClient  # noqa: PLC0414
    from duly.http_client.clients import Client as Client  # noqa: PLC0414

    # Classes of our own, so that the types of handlers are known in a project without SQLAlchemy:
    # pyright's strict mode refuses a parameter whose type has a part that it cannot resolve.
    class OrmSession(Session):
        """The session of a handler that blocks: SQLAlchemy's."""

    class AsyncOrmSession(AsyncSession):
        """The session of a handler that is awaited: SQLAlchemy's."""
