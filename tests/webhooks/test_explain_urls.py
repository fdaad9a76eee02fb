"""URLs and methods that are not the ones that were signed."""

from __future__ import annotations

import re

import pytest

from tests.webhooks.mistakes import BODY, FORM, TEXT, URL, explained, sent, source

PROXIED: list[tuple[str, dict[str, str]]] = [
    ("http://shop.example/hooks/in?tenant=canary-query", {}),
    ("https://shop.example:443/hooks/in?tenant=canary-query", {}),
    ("https://shop.example/hooks/in/?tenant=canary-query", {}),
    ("http://10.0.0.7:8000/hooks/in?tenant=canary-query", {"X-Forwarded-Host": "shop.example"}),
    ("http://app/hooks/in?tenant=canary-query", {"Host": "shop.example"}),
    ("http://app/hooks/in?tenant=canary-query", {"Forwarded": 'for=1.2.3.4;host="shop.example"'}),
    ("http://shop.example/in?tenant=canary-query", {"X-Forwarded-Prefix": "/hooks"}),
    ("https://shop.example/app/hooks/in?tenant=canary-query", {}),
    ("http://app/in", {"Host": "shop.example", "X-Original-Uri": "/hooks/in?tenant=canary-query"}),
    ("http://app/in", {"X-Rewrite-Url": URL, "X-Forwarded-Host": "shop.example, other.example"}),
    ("https://user:word@shop.example/hooks/in?tenant=canary-query", {}),
]


@pytest.mark.parametrize(("seen", "headers"), PROXIED)
@pytest.mark.parametrize("provider", ["square", "hubspot", "twilio"])
def test_the_url_that_was_signed_is_found_behind_a_proxy(
    provider: str, seen: str, headers: dict[str, str]
) -> None:
    if provider == "twilio" and ":443" in seen:
        seen = seen.replace(":443", ":8443").replace("https", "http")
    delivery = sent(provider, FORM if provider == "twilio" else BODY)
    sentence = explained(source(provider), {**delivery.headers, **headers}, delivery.body, url=seen)
    assert "The URL was changed on the way" in sentence
    assert re.search(r"made for https://shop\.example(:443)?/hooks/in\?tenant=…\. ", sentence)


@pytest.mark.parametrize("provider", ["square", "hubspot"])
def test_a_query_that_was_never_signed_is_found(provider: str) -> None:
    delivery = sent(provider, url="https://shop.example/in")
    seen = "https://shop.example/in?utm=canary"
    sentence = explained(source(provider), delivery.headers, delivery.body, url=seen)
    assert "made for https://shop.example/in. " in sentence


def test_a_url_that_holds_the_secret_is_not_shown() -> None:
    delivery = sent("square", url=f"https://shop.example/{TEXT}")
    seen = f"http://shop.example/{TEXT}"
    sentence = explained(source("square"), delivery.headers, delivery.body, url=seen)
    assert "made for a URL that holds the secret" in sentence


@pytest.mark.parametrize("provider", ["square", "hubspot", "twilio"])
def test_a_url_that_nobody_passed_is_asked_for(provider: str) -> None:
    delivery = sent(provider, FORM)
    sentence = explained(source(provider, url=None), delivery.headers, delivery.body)
    assert "signs the URL, and none was passed: pass url=" in sentence


@pytest.mark.parametrize("method", ["PUT", "GET", "DELETE"])
def test_a_wrong_method_is_named_where_it_is_signed(method: str) -> None:
    delivery = sent("hubspot", method=method)
    sentence = explained(source("hubspot"), delivery.headers, delivery.body)
    assert f"was made for the method {method}: pass method=" in sentence


@pytest.mark.parametrize("provider", ["square", "hubspot"])
def test_a_url_that_was_signed_without_encryption_is_found(provider: str) -> None:
    delivery = sent(provider, url="http://shop.example/in")
    seen = "https://shop.example/in"
    sentence = explained(source(provider), delivery.headers, delivery.body, url=seen)
    assert "made for http://shop.example/in. " in sentence


def test_the_user_in_a_url_is_not_shown() -> None:
    delivery = sent("square", url="https://canary:canary@shop.example/in")
    seen = "http://canary:canary@shop.example/in"
    sentence = explained(source("square"), delivery.headers, delivery.body, url=seen)
    assert "made for https://…@shop.example/in. " in sentence
