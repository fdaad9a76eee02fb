"""Each mistake is made for real on a genuine delivery: headers, and what all explanations share."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
)

import duly
from duly.webhooks import Jwt, provider_named, provider_names
from duly.webhooks.diagnose.explain import explain
from tests.webhooks.mistakes import BODY, NOW, OVER_THE_BODY, TEXT, changed, explained, sent, source


@pytest.mark.parametrize("provider", provider_names())
def test_a_genuine_delivery_is_called_genuine_with_the_name_of_its_secret(provider: str) -> None:
    delivery = sent(provider, provider_named(provider).sample)
    options = {} if provider_named(provider).sent_at is None else {"tolerance": None}
    sentence = explained(
        source(provider, **options), delivery.headers, delivery.body, url=delivery.url
    )
    assert sentence == "Nothing is wrong: the delivery is genuine, by the secret 'main'."


def test_secrets_can_be_given_without_a_source() -> None:
    delivery = sent("stripe")
    sentence = explained("stripe", delivery.headers, delivery.body, secrets={"main": TEXT})
    assert sentence == "Nothing is wrong: the delivery is genuine, by the secret 'main'."
    sentence = explained("stripe", delivery.headers, delivery.body, secrets=["wrong", "worse"])
    assert "(2 secrets tried: '1', '2')" in sentence


@pytest.mark.parametrize("provider", provider_names())
def test_a_wrong_secret_is_the_last_thing_left_to_say(provider: str) -> None:
    delivery = sent(provider, provider_named(provider).sample)
    wrong = {
        "discord": Ed25519PrivateKey.generate().public_key().public_bytes_raw().hex(),
        "sendgrid": base64.b64encode(
            generate_private_key(SECP256R1())
            .public_key()
            .public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        ).decode(),
        "adyen": "ab" * 32,
    }.get(provider, "whsec_" + base64.b64encode(b"another").decode())
    sentence = explained(
        duly.Source(provider, {"old": wrong, "new": wrong}),
        delivery.headers,
        delivery.body,
        url=delivery.url,
    )
    assert sentence.startswith(
        "The signature fits none of the secrets over these bytes: compare the secret"
    )
    assert "(2 secrets tried: 'old', 'new')" in sentence


@pytest.mark.parametrize("provider", sorted(set(provider_names()) - {"adyen"}))
def test_a_missing_signature_is_named_with_the_header_that_is_expected(provider: str) -> None:
    sentence = explained(source(provider), {"Content-Type": "application/json"}, BODY)
    assert "There is no signature: the header " in sentence
    name = sentence.partition("the header ")[2].partition(" ")[0]
    assert name in {one.describe_location().split()[-1] for one in provider_named(provider).schemes}


def test_a_missing_signature_inside_the_body_is_named_too() -> None:
    sentence = explained(source("adyen"), {}, provider_named("adyen").sample)
    assert "additionalData.hmacSignature in the body is missing" in sentence


@pytest.mark.parametrize(
    ("sender", "title"),
    [("stripe", "Stripe"), ("slack", "Slack"), ("svix", "Svix"), ("gitlab", "GitLab"),
     ("standard-webhooks", "Standard Webhooks"), ("twilio", "Twilio"), ("adyen", "Adyen")],
)  # fmt: skip
def test_the_signature_of_another_provider_is_recognised(sender: str, title: str) -> None:
    headers = {"X-Gitlab-Event": "Push Hook"} if sender == "gitlab" else None
    delivery = sent(sender, provider_named(sender).sample, headers=headers)
    sentence = explained(
        duly.Source("github", "some other secret"), delivery.headers, delivery.body
    )
    assert f"it looks like a delivery of {title}: was it sent to the wrong source?" in sentence
    assert "the header X-Hub-Signature-256 is missing" in sentence


@pytest.mark.parametrize("provider", ["github", "stripe", "slack", "standard-webhooks"])
def test_a_header_that_came_twice_is_named(provider: str) -> None:
    delivery = sent(provider)
    name = next(name for name in delivery.headers if "signature" in name.lower())
    pairs = [*delivery.headers.items(), (name, "sha256=00")]
    sentence = explained(source(provider), pairs, delivery.body)
    assert sentence.startswith(f"The header {name.lower()} was sent more than once")


@pytest.mark.parametrize("joint", [", ", ","])
def test_a_header_that_a_proxy_joined_with_its_copy_is_named(joint: str) -> None:
    delivery = sent("github")
    value = delivery.headers["X-Hub-Signature-256"]
    headers = changed(delivery, x_hub_signature_256=value + joint + value)
    assert explained(source("github"), headers, delivery.body).startswith(
        "The header x-hub-signature-256 was sent more than once"
    )


@pytest.mark.parametrize("around", [" {} ", "{}\n", '"{}"'])
def test_white_space_and_quotes_around_headers_are_noticed(around: str) -> None:
    delivery = sent("shopify")
    value = around.format(delivery.headers["X-Shopify-Hmac-Sha256"])
    headers = changed(delivery, x_shopify_hmac_sha256=value)
    sentence = explained(source("shopify"), headers, delivery.body)
    assert sentence.startswith("The headers have white space or quotes around their values")


@pytest.mark.parametrize("provider", ["github", "stripe", "slack", "standard-webhooks", "discord"])
def test_the_names_of_an_environment_are_recognised(provider: str) -> None:
    delivery = sent(provider)
    meta = {
        "HTTP_" + name.upper().replace("-", "_"): value for name, value in delivery.headers.items()
    }
    sentence = explained(source(provider), meta, delivery.body)
    assert "as in request.META" in sentence
    assert "pass the headers themselves" in sentence


@pytest.mark.parametrize("provider", OVER_THE_BODY)
def test_an_empty_body_was_read_before(provider: str) -> None:
    delivery = sent(provider)
    sentence = explained(source(provider), delivery.headers, b"")
    assert sentence.startswith("The body is empty: something read it before duly did.")


@pytest.mark.parametrize(
    ("options", "body", "reason"),
    [
        (
            {"parse": "require"},
            b"no json, canary-body",
            "the body is no event, which this source refuses: it is not JSON",
        ),
        ({"missing_id": "reject"}, b'{"note":"canary-body"}', "names no event id"),
    ],
)
def test_what_only_a_strict_source_refuses_is_told_apart(
    options: dict[str, Any], body: bytes, reason: str
) -> None:
    delivery = sent("stripe", body)
    sentence = explained(source("stripe", **options), delivery.headers, delivery.body)
    assert sentence.startswith("The signature is right, but ")
    assert reason in sentence


def test_what_cannot_be_read_at_all_is_told_as_verify_tells_it() -> None:
    sentence = explained(source("stripe"), {"Stripe-Signature": "nonsense"}, BODY)
    assert sentence == (
        "The delivery is not one of Stripe: the signature header must hold one timestamp."
    )


def test_a_token_that_ended_is_told_as_verify_tells_it() -> None:
    ending = duly.Provider(
        "ending", Jwt(header="X-Token", algorithms=("HS256",), claims={"exp": 5})
    )
    delivery = duly.sign(ending, BODY, TEXT, now=NOW)
    sentence = explained(duly.Source(ending, TEXT), delivery.headers, delivery.body)
    assert "the token is not valid at this time" in sentence


def test_an_explanation_asks_for_the_same_types_as_verify() -> None:
    good = source("stripe")
    for arguments, options in [
        ((good, {}, "text"), {}),
        ((good, 7, b""), {}),
        ((good, {"Accept": 7}, b""), {}),
        ((good, {"Accept": [["*/*"]]}, b""), {}),
        ((good, {}, b"", "a secret too many"), {}),
        (("stripe", {}, b""), {}),
        (("strype", {}, b"", "secret"), {}),
        ((good, {}, b""), {"now": "today"}),
        ((good, {}, b""), {"url": b"https://shop.example"}),
        ((good, {}, b""), {"method": None}),
        ((good, {}, b""), {"others": good}),
        ((good, {}, b""), {"others": ["stripe"]}),
    ]:
        with pytest.raises(duly.errors.UsageError):
            explain(*arguments, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("secrets", "options"),
    [(TEXT, {"others": [7]}), (TEXT, {"url": 7}), (TEXT, {"now": "x"}), ([TEXT, ""], {})],
)
def test_a_traceback_of_a_misuse_shows_no_secret_in_its_frames(
    secrets: Any, options: dict[str, Any]
) -> None:
    with pytest.raises(duly.errors.UsageError, match=r"others|url|now|empty") as caught:
        explain("stripe", {}, b"", secrets, **options)
    frames = [frame for frame in caught.traceback if "duly" in frame.frame.f_globals["__name__"]]
    assert frames
    assert not any(TEXT in repr(frame.locals) for frame in frames)
