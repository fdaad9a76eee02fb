"""duly's tables come and go with the user's transaction, under the names the user chose."""

import pytest

import duly
from tests.stores.join.places import Place
from tests.stores.join.ways import ALL, Way

every_way = pytest.mark.parametrize("way", ALL, ids=str)
postgres_ways = pytest.mark.parametrize(
    "way", [way for way in ALL if way.store == "postgres"], ids=str
)
sqlite_ways = pytest.mark.parametrize("way", [way for way in ALL if way.store == "sqlite"], ids=str)
TABLES = {"claims", "versions", "meta"}


def prefixed(prefix: str) -> set[str]:
    return {f"{prefix}{name}" for name in TABLES}


@every_way
async def test_migrate_commits_and_rolls_back_with_the_users_transaction(
    way: Way, empty_place: Place, scope: str
) -> None:
    async with way.open(empty_place.url) as user:
        await user.begin()
        assert await user.migrate()
        await user.rollback()
        assert not prefixed("duly_") & empty_place.tables()
        await user.begin()
        assert await user.migrate()
        assert not prefixed("duly_") & empty_place.tables()
        await user.commit()
        assert prefixed("duly_") <= empty_place.tables()
        await user.begin()
        assert await user.migrate() == []
        assert (await user.dedup(scope, "evt")).first
        await user.commit()
    assert empty_place.claims(scope) == ["evt"]


@every_way
async def test_missing_tables_are_named_with_what_makes_them(
    way: Way, empty_place: Place, scope: str
) -> None:
    async with way.open(empty_place.url) as user:
        await user.begin()
        with pytest.raises(duly.errors.SchemaMismatch, match="duly migrate"):
            async with user.once(scope, "evt"):
                pytest.fail("there is no ledger")
        assert await user.fetch("SELECT 1") == [(1,)]
        await user.rollback()


@every_way
@pytest.mark.parametrize("said", ["argument", "environment"])
async def test_a_prefix_keeps_a_ledger_of_its_own(
    way: Way, empty_place: Place, scope: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"prefix": "shop_"} if said == "argument" else {}
    if said == "environment":
        monkeypatch.setenv("DULY_PREFIX", "shop_")
    async with way.open(empty_place.url) as user:
        await user.begin()
        await user.migrate(**options)
        assert (await user.dedup(scope, "evt", **options)).first
        async with user.once(scope, "other", **options) as turn:
            assert turn.first
        assert await user.newer("order-1", 1, **options)
        assert await user.prune(**options) == 0
        await user.commit()
    assert prefixed("shop_") <= empty_place.tables()
    assert not prefixed("duly_") & empty_place.tables()
    assert empty_place.claims(scope, prefix="shop_") == ["evt", "other"]


@postgres_ways
@pytest.mark.parametrize("said", ["argument", "environment"])
async def test_a_schema_keeps_a_ledger_of_its_own(
    way: Way, empty_place: Place, scope: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"schema": "audit"} if said == "argument" else {}
    if said == "environment":
        monkeypatch.setenv("DULY_SCHEMA", "audit")
    async with way.open(empty_place.url) as user:
        await user.begin()
        await user.migrate(**options)
        assert (await user.dedup(scope, "evt", **options)).first
        await user.commit()
    assert empty_place.claims(scope, prefix="audit.duly_") == ["evt"]


@sqlite_ways
async def test_a_schema_is_refused_where_there_is_none(way: Way, place: Place, scope: str) -> None:
    async with way.open(place.url) as user:
        await user.begin()
        with pytest.raises(duly.errors.UsageError, match="prefix="):
            await user.dedup(scope, "evt", schema="audit")
        await user.rollback()
