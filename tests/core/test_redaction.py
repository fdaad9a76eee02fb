"""Keys of more kinds are hidden by their form, and the database's own password wherever it is."""

from __future__ import annotations

import json
from urllib.parse import quote, urlsplit, urlunsplit

import pytest

import duly
from duly.core.redaction import MARK, redact_and_trim, secret_spans
from tests.stores.join.places import Place
from tests.support.growth import LINEAR, growth

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
PASSWORD = "pä ss@wörd/1"
QUOTED = quote(PASSWORD, safe="")


@pytest.mark.parametrize(
    ("said", "left"),
    [
        (f"bad key SG.{LETTERS[:22]}.{LETTERS}, sorry", f"bad key {MARK}, sorry"),
        (f"key=AIzaSy{LETTERS[:33]}&q=1", f"key={MARK}&q=1"),
        (f"npm_{LETTERS} was refused", f"{MARK} was refused"),
        (f"login as a:dckr_pat_{LETTERS[:20]}", f"login as a:{MARK}"),
        (f"glpat-{LETTERS[:20]}", MARK),
        (f"POST https://hooks.slack.com/services/T0/B0/{LETTERS}", f"POST https://{MARK}"),
        (f"?X-Amz-Signature={LETTERS}&a=1", f"?X-Amz-Signature={MARK}&a=1"),
        (f"secret_key_base='{LETTERS}'", f"secret_key_base='{MARK}'"),
        (f"AWS_SECRET_ACCESS_KEY={LETTERS}", f"AWS_SECRET_ACCESS_KEY={MARK}"),
    ],
)
def test_keys_that_are_known_by_their_form_are_hidden(said: str, left: str) -> None:
    assert redact_and_trim(said, (), 1000, 0) == left


def test_the_key_of_a_storage_account_is_hidden() -> None:
    said = "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey=abcd1234abcd1234=="

    found = redact_and_trim(said, (), 1000, 0)

    assert "abcd1234" not in found
    assert found.startswith("DefaultEndpointsProtocol=https;AccountName=shop;AccountKey=")


PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{LETTERS}\n{LETTERS}=\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    "said",
    [
        repr(PEM.splitlines()),
        json.dumps(PEM.splitlines()),
        "> " + PEM.replace("\n", "\n> "),
        PEM.replace("\n", '\nComment: "me@shop"\n', 1),
        f"{[(b'authorization', f'Token {LETTERS}'.encode()), (b'cookie', LETTERS.encode())]}",
        json.dumps([["Authorization", f"ApiKey {LETTERS}"]]),
    ],
)
def test_keys_in_marked_lines_and_headers_in_pairs_are_hidden(said: str) -> None:
    found = redact_and_trim(said, (), 1000, 0)
    assert MARK in found
    assert LETTERS not in found


@pytest.mark.parametrize(
    "said",
    [
        "SG.1 is sold out, AIza is a name",
        "npm_config was not found",
        "no signature at https://shop.example/services/7",
    ],
)
def test_what_only_looks_a_little_like_a_key_is_kept(said: str) -> None:
    assert redact_and_trim(said, (), 1000, 0) == said


@pytest.mark.parametrize(
    ("begun", "unit"),
    [
        ("", "-----BEGIN PRIVATE KEY-----"),
        ("", '-----BEGIN PRIVATE KEY-----"'),
        ("", '-----BEGIN PRIVATE KEY-----"a-----END KEY-----'),
        ("-----BEGIN PRIVATE KEY-----", '"'),
        ("-----BEGIN PRIVATE KEY-----", "-a"),
        ("-----BEGIN PRIVATE KEY-----", "--"),
        ("SG.", "abcdefgh-"),
        ("", "SG.abcdefgh-"),
        ("eyJ", "abcdefgh."),
        ("", "bearer "),
        ("basic", " "),
        ("cookie:", " "),
        ("cookie:", " \n"),
        ("", "authorization: "),
        ("", "cookie', "),
        ("token=", " "),
        ("", "secret: "),
        ('password="', "\\a"),
        ('password=\\"', "\\"),
        ("password=", "\\x"),
        ("", "://a:"),
    ],
)
def test_no_text_makes_the_search_for_secrets_grow_faster_than_itself(
    begun: str, unit: str
) -> None:
    def made(size: int) -> str:
        return begun + unit * (size // len(unit))

    def search(text: str) -> None:
        list(secret_spans(text, []))

    assert growth(made, search, 80_000) < LINEAR


def test_the_password_of_the_database_is_in_no_error_of_a_job(
    postgres_url: str, scope: str
) -> None:
    """Neither as it is, nor as it stands in the address."""
    app = duly.Duly(with_password(postgres_url))

    @app.job(name=scope, queue=scope)
    def leak(job: duly.Job) -> None:
        raise ValueError(f"could not log in with {PASSWORD} there, nor {QUOTED} here")

    app.enqueue(leak)
    app.work()
    app.close()

    [(kept,)] = Place(postgres_url).rows(f"SELECT last_error FROM duly_jobs WHERE name = '{scope}'")
    error = json.loads(bytes(kept))
    assert error["message"] == f"could not log in with {MARK} there, nor {MARK} here"
    assert not any(part in json.dumps(error) for part in ("ss@w", "rd/1", "rd%2F1"))


def with_password(url: str) -> str:
    """The address with a password; the servers of the tests ask for none."""
    parts = urlsplit(url)
    user, host = parts.username or "postgres", parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{user}:{QUOTED}@{host}"))
