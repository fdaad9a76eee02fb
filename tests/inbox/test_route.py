"""A source's name, memory and headers are checked where it is written, with the figure to use."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import duly
from duly.core.clock import MICROSECOND
from duly.inbox.route import (
    AS_NEEDED,
    checked_max_body,
    checked_name,
    checked_window,
    kept_headers,
    shortest_retention,
)
from duly.webhooks import Hmac, SharedToken, provider_named
from tests.webhooks.genuine import PROVIDERS, keys, source

DAYS = timedelta(days=1)
MINUTES = timedelta(minutes=1)
# For how long each provider may repeat an event, and what it signed may still be taken: the least
# that is safe to remember.
LEAST = {
    "adyen": 30 * DAYS + 5 * MINUTES,
    "discord": 15 * MINUTES,
    "github": 5 * MINUTES,
    "gitlab": 5 * MINUTES,
    "hubspot": 1 * DAYS + 5 * MINUTES,
    "linear": timedelta(hours=7, minutes=6),
    "paddle": 3 * DAYS + timedelta(seconds=5),
    "sendgrid": 1 * DAYS + 5 * MINUTES,
    "shopify": 1 * DAYS + 5 * MINUTES,
    "slack": 1 * DAYS + 5 * MINUTES,
    "square": 3 * DAYS + 5 * MINUTES,
    "standard-webhooks": timedelta(days=3, hours=3, minutes=40, seconds=5),
    "stripe": 3 * DAYS + 5 * MINUTES,
    "svix": timedelta(days=1, hours=3, minutes=40, seconds=5),
    "twilio": 5 * MINUTES,
    "zoom": 90 * MINUTES,
}


@pytest.fixture
def app() -> Iterator[duly.Duly]:
    made = duly.Duly("memory:")
    yield made
    made.close()


def test_every_provider_has_its_figure_here() -> None:
    assert LEAST.keys() == set(PROVIDERS)
    assert len(LEAST) == 16


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_source_may_forget_an_event_that_its_provider_may_still_repeat(provider: str) -> None:
    mine, least = source(provider), LEAST[provider]
    profile = provider_named(provider)
    assert shortest_retention(mine) == least
    assert least >= profile.retry_horizon
    assert checked_window(least, mine) == least // MICROSECOND
    with pytest.raises(duly.errors.UsageError, match="is too short for") as caught:
        checked_window(least - MICROSECOND, mine)
    # The figures that make it unsafe, and the one to use.
    for figure in (profile.retry_horizon, least, profile.title):
        assert str(figure) in str(caught.value)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_source_remembers_for_thirty_days_or_longer_if_its_provider_needs_that(
    provider: str,
) -> None:
    kept = checked_window(AS_NEEDED, source(provider))
    assert kept == max(30 * DAYS, LEAST[provider]) // MICROSECOND
    assert checked_window(None, source(provider)) is None


def test_a_longer_tolerance_needs_a_longer_memory() -> None:
    stripe = source("stripe", tolerance=2 * DAYS)
    assert shortest_retention(stripe) == 5 * DAYS
    assert shortest_retention(source("stripe", tolerance=4 * DAYS)) == 4 * DAYS
    assert shortest_retention(source("stripe", tolerance=None)) == 3 * DAYS
    assert (
        checked_window(AS_NEEDED, source("stripe", tolerance=40 * DAYS)) == 40 * DAYS // MICROSECOND
    )


@pytest.mark.parametrize("window", [0, 30, "30 days", True, timedelta(0), -DAYS, timedelta.max, []])
def test_a_memory_that_is_no_duration_is_refused(window: object) -> None:
    with pytest.raises(duly.errors.UsageError, match=r"window must be|is too short"):
        checked_window(window, source("github"))


@pytest.mark.parametrize("name", ["a", "stripe", "Shop-1", "eu.stripe_live", "9", "x" * 100])
def test_a_name_that_is_one_part_of_a_path_is_taken(name: str) -> None:
    assert checked_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("", "a/b", "/a", "a/", ".", "..", ".a", "-a", "_a", "a b", "a?b", "a#b", "a%2fb", "a\n"),
        *("x" * 101, "caf\u00e9", "a\0", "\ud800", "\u0661", None, 0, b"stripe", ["stripe"]),
    ],
)
def test_a_name_that_is_not_one_part_of_a_path_is_refused(name: object) -> None:
    with pytest.raises(duly.errors.UsageError, match="a part of its path"):
        checked_name(name)


@pytest.mark.parametrize("name", ["healthz", "readyz"])
def test_a_name_at_which_duly_itself_answers_is_refused(name: str) -> None:
    with pytest.raises(duly.errors.UsageError, match="choose another name"):
        checked_name(name)


def test_a_second_source_of_the_same_name_is_refused(app: duly.Duly) -> None:
    app.source("github", secret=keys("github").receiver)
    with pytest.raises(duly.errors.UsageError, match="there is a source github already"):
        app.source("github", secret=keys("github").receiver)
    app.source("github-other", provider="github", secret=keys("github").receiver)
    assert list(app.router.routes) == ["/github", "/github-other"]


def test_the_scope_of_a_source_ends_with_its_name_whoever_the_tenant_is(app: duly.Duly) -> None:
    app.source("github", secret=keys("github").receiver, tenant=lambda verified: verified.id)
    route = app.router.routes["/github"]
    assert route.scope(None) == "github"
    assert route.scope("shop") == "shop/github"
    assert route.scope("a/b") == "a/b/github"


@pytest.mark.parametrize("limit", [1, 1024, 25 * 1024 * 1024, 512 * 1024 * 1024])
def test_a_limit_is_taken_as_it_is_written(limit: int) -> None:
    assert checked_max_body(limit) == limit


@pytest.mark.parametrize("limit", [0, -1, True, 512 * 1024 * 1024 + 1, 1.5, "1 MiB", None])
def test_a_limit_that_bounds_nothing_is_refused(limit: object) -> None:
    with pytest.raises(duly.errors.UsageError, match="max_body must be a whole number"):
        checked_max_body(limit)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_headers_that_a_profile_names_are_kept_and_its_secrets_never(provider: str) -> None:
    profile = provider_named(provider)
    kept = kept_headers(profile, ["X-Shop-Domain", "x-shop-domain"])
    assert kept[:2] == ("content-type", "user-agent")
    assert kept.count("x-shop-domain") == 1
    assert all(name == name.lower() for name in kept)
    secret = {name for scheme in profile.schemes for name in scheme.secret_headers()}
    assert secret.isdisjoint(kept)
    for name in (*secret, "Authorization", "COOKIE", "proxy-authorization"):
        with pytest.raises(duly.errors.UsageError, match="holds a secret and is never stored"):
            kept_headers(profile, [name])


def test_what_is_kept_by_default() -> None:
    assert kept_headers(provider_named("github"), ()) == (
        *("content-type", "user-agent"),
        *("x-github-delivery", "x-github-event"),
    )
    assert kept_headers(provider_named("stripe"), ()) == ("content-type", "user-agent")


def test_a_token_of_a_provider_of_your_own_is_never_stored() -> None:
    schemes = (SharedToken(place="header:X-My-Token"), Hmac(header="X-Signature"))
    mine = duly.Provider("mine", schemes)
    with pytest.raises(duly.errors.UsageError, match="x-my-token holds a secret"):
        kept_headers(mine, ["X-My-Token"])
    assert "x-signature" in kept_headers(mine, ["X-Signature"])


@pytest.mark.parametrize(
    "headers", ["X-Shop", b"X-Shop", 5, None, True, [5], [None], ["a b"], [""], ["a:b"], ["\u00e9"]]
)
def test_what_is_no_list_of_header_names_is_refused(headers: Any) -> None:
    with pytest.raises(duly.errors.UsageError, match=r"list of header names|no name of a header"):
        kept_headers(provider_named("github"), headers)


def test_header_names_may_come_from_anything_that_is_iterated_once() -> None:
    names = (name for name in ("X-One", "X-Two"))
    assert kept_headers(provider_named("stripe"), names)[2:] == ("x-one", "x-two")


def test_a_source_that_was_refused_is_not_there(app: duly.Duly) -> None:
    secret = keys("github").receiver
    bad: list[dict[str, Any]] = [
        {"window": timedelta(seconds=1)},
        {"body_retention": timedelta(0)},
        {"max_body": 0},
        {"headers": ["authorization"]},
        {"tenant": "shop"},
        {"inline": "yes"},
        {"decompress": 1},
        {"secret": ""},
        {"provider": "no such"},
    ]
    for options in bad:
        with pytest.raises(duly.errors.UsageError):
            app.source("github", **{"secret": secret} | options)
        assert app.router.routes == {}
    app.source("github", secret=secret)
