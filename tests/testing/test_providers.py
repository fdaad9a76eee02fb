"""Deliveries of every provider are taken if they are genuine, and refused if they are not."""

import base64
from pathlib import Path
from typing import Literal

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

import duly
from duly.testing import Trial, isolated
from duly.webhooks.examples import example_of
from duly.webhooks.providers import provider_named, provider_names
from duly.webhooks.sign import fitting_scheme
from duly.webhooks.wording import signs_time

FORBIDDEN = 403
WRONG: tuple[Literal["body", "signature"], ...] = ("body", "signature")


def secret_of(name: str) -> str:
    """What a user's settings hold: a secret, or a public key whose other half nobody here has."""
    match name:
        case "discord":
            return public_bytes().hex()
        case "sendgrid":
            key = ec.generate_private_key(ec.SECP256R1()).public_key()
            told = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
            return base64.b64encode(told).decode()
        case "standard-webhooks-v1a":
            return "whpk_" + base64.b64encode(public_bytes()).decode()
        case _:
            return example_of(provider_named(name)).secret


def public_bytes() -> bytes:
    return Ed25519PrivateKey.generate().public_key().public_bytes_raw()


def a_receiver(folder: Path, name: str) -> duly.Duly:
    app = duly.Duly(f"sqlite:///{folder / 'real.db'}")
    provider = name.removesuffix("-v1a")
    app.source(name, provider=provider, secret=secret_of(name))
    app.on(name)(handle)
    return app


def handle(event: duly.Event, tx: duly.Tx) -> None: ...


def done(trial: Trial) -> int:
    return len(trial.run_jobs().done)


@pytest.mark.parametrize("name", [*provider_names(), "standard-webhooks-v1a"])
def test_a_genuine_delivery_is_taken_once_and_one_that_is_not_is_refused(
    name: str, tmp_path: Path
) -> None:
    provider = provider_named(name.removesuffix("-v1a"))
    with isolated(a_receiver(tmp_path, name)) as trial:
        assert trial.deliver(name, times=2).statuses == [provider.success] * 2
        assert trial.deliver(name, times=3, at_once=True).statuses == [provider.success] * 3
        assert done(trial) == 2

        for wrong in WRONG:
            refused = trial.deliver(name, wrong=wrong)
            assert refused.word == "BAD_SIGNATURE"
            assert refused.status == (provider.reject or FORBIDDEN)
        assert done(trial) == 0


@pytest.mark.parametrize("name", provider_names())
async def test_the_same_holds_awaited(name: str, tmp_path: Path) -> None:
    provider = provider_named(name)
    with isolated(a_receiver(tmp_path, name)) as trial:
        taken = await trial.deliver.aio(name, times=2, at_once=True)
        assert taken.statuses == [provider.success] * 2
        refused = await trial.deliver.aio(name, wrong="body")
        assert refused.word == "BAD_SIGNATURE"
        assert (await trial.run_jobs.aio()).done == ["handle"]


@pytest.mark.parametrize("name", provider_names())
def test_an_old_signature_is_refused_where_one_says_its_time(name: str, tmp_path: Path) -> None:
    provider = provider_named(name)
    with isolated(a_receiver(tmp_path, name)) as trial:
        scheme = fitting_scheme(provider.schemes, duly.Secret(secret_of(name)))
        if provider.tolerance is not None and (signs_time(scheme) or provider.sent_at_selector):
            assert trial.deliver(name, wrong="time").word == "STALE_TIMESTAMP"
            assert trial.deliver(name, age=provider.tolerance / 2).status == provider.success
        else:
            with pytest.raises(duly.errors.UsageError, match="takes deliveries of any age"):
                trial.deliver(name, wrong="time")


def test_a_source_forgets_the_key_that_it_was_lent(tmp_path: Path) -> None:
    app = a_receiver(tmp_path, "discord")
    source = app.router.route_named("discord").source
    before = source.secrets, source.schemes
    with isolated(app) as trial:
        assert trial.deliver("discord").status == 204
        assert len(source.secrets) == 2
    assert (source.secrets, source.schemes) == before
