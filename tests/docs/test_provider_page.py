"""The page of all providers says what their profiles say now, in words that people use."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from docs.provider_page.command import main
from docs.provider_page.page import page, section

from duly.webhooks import (
    BasicAuth,
    Echo,
    Handshake,
    Hmac,
    Jwt,
    Mac,
    Provider,
    SharedToken,
    provider_named,
    provider_names,
)
from duly.webhooks.examples import example_of, expected_output, program
from duly.webhooks.wording import describe_handshake, duration, in_short

PAGE = Path(__file__).parents[2] / "docs" / "providers.md"


def test_the_page_is_what_the_profiles_say_now() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run make docs"


def test_the_command_writes_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out == page()


def test_a_page_that_lags_is_told_which_command_to_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "providers.md"
    written.write_text(page(), encoding="utf-8")
    assert main(["--check", str(written)]) == 0

    written.write_text(page().replace("3 days", "4 days", 1), encoding="utf-8")
    assert main(["--check", str(written)]) == 1
    assert "make docs" in capsys.readouterr().err
    assert main(["--check", str(tmp_path / "missing.md")]) == 1


def test_the_page_is_written_by_a_module_that_can_be_run() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "docs.provider_page", "--check", str(PAGE)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("name", provider_names())
def test_a_provider_has_its_facts_its_link_and_a_working_program(name: str) -> None:
    provider = provider_named(name)
    text = section(provider)

    assert text in PAGE.read_text(encoding="utf-8")
    assert provider.docs is not None
    assert provider.docs in text
    assert " ".join(provider.notes.split()) in " ".join(text.split())
    assert f"- **Retries for:** {duration(provider.retry_horizon)}" in text or (
        not provider.retry_horizon and "- **Retries for:** none known" in text
    )
    assert expected_output(example_of(provider)).startswith(f"{provider.success} ")
    assert "duly.Source(" in program(example_of(provider))
    assert max(map(len, program(example_of(provider)).splitlines())) <= 100


@pytest.mark.parametrize(
    ("time", "words"),
    [
        (timedelta(seconds=5), "5 seconds"),
        (timedelta(seconds=1), "1 second"),
        (timedelta(days=3), "3 days"),
        (timedelta(hours=24, minutes=5), "1 day 5 minutes"),
        (timedelta(hours=7, minutes=6), "7 hours 6 minutes"),
        (timedelta(0), "0 seconds"),
    ],
)
def test_durations_are_written_for_people(time: timedelta, words: str) -> None:
    assert duration(time) == words


def test_what_is_not_published_is_not_guessed() -> None:
    quiet = Provider("quiet", Hmac(header="X-Signature"))
    text = section(quiet)
    assert "- **Answer within:** not published" in text
    assert "- **Event id:** none; the digest of the body is used" in text
    assert "- **Tolerance:** no time is signed" in text


@pytest.mark.parametrize(("stable", "words"), [(True, "yes"), (False, "no"), (None, "not said")])
def test_an_id_that_may_change_on_retries_is_marked(stable: bool | None, words: str) -> None:
    provider = Provider("acme", Hmac(header="X-Signature"), id="body:id", id_stable=stable)
    assert f"- **Same id on retries:** {words}" in section(provider)


def test_an_id_is_said_to_be_signed_only_where_the_scheme_covers_it() -> None:
    signature = Hmac(header="X-Signature")
    assert "`body:id` (signed)" in section(Provider("acme", signature, id="body:id"))
    assert "`header:X-Id` (not signed)" in section(Provider("acme", signature, id="header:X-Id"))
    both = (signature, SharedToken(place="header:X-Token"))
    assert "signed where the signature is in the header X-Signature" in section(
        Provider("acme", both, id="body:id")
    )


def test_a_scheme_that_signs_nothing_is_called_so() -> None:
    assert in_short(SharedToken(place="header:X-Token")) == "shared token, which signs nothing"
    assert in_short(BasicAuth()) == "basic authentication, which signs nothing"
    unbound = Jwt(header="Authorization", algorithms=("ES256", "RS256"))
    assert in_short(unbound) == "JWT (ES256 or RS256) over nothing but itself"


def test_a_handshake_is_told_as_a_question_and_its_answer() -> None:
    echoed = Handshake(
        when={"query:mode": "subscribe", "query:challenge": None},
        reply=Echo("query:challenge"),
        signed=False,
        method="GET",
    )
    assert describe_handshake(echoed) == (
        "for a GET request where `query:mode` is `subscribe` and `query:challenge` is there "
        "(not signed), the answer is 200 with what `query:challenge` holds"
    )
    proven = Handshake(when={"body:crc": None}, reply={"answer": Mac("body:crc", prefix="sha256=")})
    assert describe_handshake(proven).endswith("with `answer`: the HMAC-SHA256, hex, of `body:crc`")
