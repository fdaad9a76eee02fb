"""What a proof that cannot be made says: where to look, and in the form that was asked for."""

from __future__ import annotations

import json
import tempfile
from typing import TYPE_CHECKING, Any

import pytest
from starlette.applications import Starlette

import duly
from duly import prove
from duly.cli import main
from duly.prove.assertion import assert_effectively_once
from tests.prove.test_assert import EVENT, SECRET, right, shop

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

SITE = """
import duly
from starlette.applications import Starlette

def page(): ...

app = duly.Duly("sqlite:///shop.db")
app.source("shop", provider="standard-webhooks", secret="whsec_" + "A" * 32)
api = Starlette()
"""


def refusal(app: duly.Duly, event: Any = EVENT, **options: Any) -> str:
    with pytest.raises(duly.errors.UsageError) as refused:
        assert_effectively_once(app, event, **options)
    app.close()
    return str(refused.value)


def test_a_delivery_that_is_not_taken_is_told_with_its_path(tmp_path: Path) -> None:
    app = shop(tmp_path / "shop.db", right)
    told = refusal(app, through=Starlette(), path="/nope")
    assert told == "the single delivery to /nope was answered 404: let it succeed first"


def test_a_site_that_is_not_there_is_told_with_those_that_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sites_of_a_shop.py").write_text(SITE)
    (tmp_path / "event.json").write_text(json.dumps(EVENT))
    monkeypatch.chdir(tmp_path)
    words = ["--event", "event.json", "--through", "sites_of_a_shop:nope", "--path", "/pay"]

    assert main.main(["prove", "sites_of_a_shop:app", *words]) == 2

    assert "there is no nope in sites_of_a_shop: it has api\n" in capsys.readouterr().err


def test_an_event_in_text_is_its_body(tmp_path: Path) -> None:
    app = shop(tmp_path / "shop.db", right)
    assert_effectively_once(app, json.dumps(EVENT), only="twice")
    app.close()


def test_a_file_that_is_not_there_is_refused_with_its_name(tmp_path: Path) -> None:
    told = refusal(shop(tmp_path / "shop.db", right), tmp_path / "nofile.json")
    assert "nofile.json cannot be read: No such file or directory" in told


def test_a_single_run_that_fails_says_in_which_line(tmp_path: Path) -> None:
    def handler(tx: duly.Tx) -> None:
        json.loads("{")

    told = refusal(shop(tmp_path / "shop.db", handler))
    assert f"({__file__}, line {handler.__code__.co_firstlineno + 1})" in told


def test_an_inline_handler_that_fails_says_why_and_in_which_line(tmp_path: Path) -> None:
    def handler(tx: duly.Tx) -> None:
        json.loads("{")

    app = shop(tmp_path / "shop.db", right)
    app.source("till", provider="standard-webhooks", secret=SECRET, inline=True)
    app.on("till", "order.*", name="served")(handler)

    told = refusal(app, source="till")

    assert "answered 500 HANDLER_FAILED" in told
    assert "JSONDecodeError: Expecting" in told
    assert f"({__file__}, line {handler.__code__.co_firstlineno + 1})" in told


@pytest.mark.parametrize("source", ["", "shop"])
@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "its type cannot be told: its body is empty"),
        (b'{"type": "order.', "its type cannot be told: its body is not JSON (Unterminated"),
        (b'{"order": 1}', "its type cannot be told: its body does not say it"),
        (b'{"type": "refund"}', "no handler for refund"),
    ],
)
def test_an_event_that_no_handler_takes_is_told_why(
    body: bytes, why: str, source: str, tmp_path: Path
) -> None:
    assert why in refusal(shop(tmp_path / "shop.db", right), body, source=source)


@pytest.mark.parametrize("source", ["", "github"])
def test_a_type_that_comes_in_a_header_is_asked_for(source: str, tmp_path: Path) -> None:
    app = duly.Duly(f"sqlite:///{tmp_path / 'shop.db'}")
    app.source("github", provider="github", secret="a secret of github's")
    app.on("github", "push", name="pushed")(right)
    told = refusal(app, {"ref": "main"}, source=source)
    assert "its type comes in the header X-GitHub-Event: give --type" in told


def test_two_files_that_are_one_event_are_told_so(tmp_path: Path) -> None:
    told = refusal(shop(tmp_path / "shop.db", right), [EVENT, {**EVENT, "type": "order.x"}, EVENT])
    assert "events 1 and 3 are one event, msg_" in told
    same = {"id": "evt_1"}
    told = refusal(shop(tmp_path / "other.db", right), [EVENT, {**EVENT, "n": 1}], **same)
    assert "events 1 and 2 are one event, evt_1: an order needs another, later event" in told


def test_a_store_in_memory_is_refused_and_leaves_no_folder_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shop_in_memory.py").write_text(SITE.replace("sqlite:///shop.db", "memory:"))
    (tmp_path / "event.json").write_text(json.dumps(EVENT))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path)

    assert main.main(["prove", "shop_in_memory:app", "--event", "event.json"]) == 2

    assert "a memory: store is one process's own" in capsys.readouterr().err
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_program_is_told_in_json_why_nothing_was_proved(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.main(["prove", "shop:app", "--json"]) == 2
    told = capsys.readouterr()
    assert json.loads(told.out)["error"].startswith("what should be proved?")
    assert "duly: what should be proved?" in told.err


def test_the_proof_in_a_test_is_had_from_its_own_package_and_its_old_place_says_so() -> None:
    assert prove.__all__ == ["assert_effectively_once"]
    with pytest.raises(ImportError, match=r"is now duly\.prove\.assert_effectively_once"):
        duly.assert_effectively_once  # type: ignore[attr-defined]  # noqa: B018
