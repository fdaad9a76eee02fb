"""``duly serve`` tells at once what is wrong, and then where to POST; its log shows no secret."""

from __future__ import annotations

import json
import signal
import socket
from typing import TYPE_CHECKING

import pytest

import duly
from tests.support.processes import until
from tests.support.serving import APP, SECRET, asked, refused, rows, served

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

TABLE = "CREATE TABLE paid (event TEXT NOT NULL, process INTEGER NOT NULL)"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP)
    rows(url_in(tmp_path), TABLE)
    return tmp_path


def url_in(here: Path) -> str:
    return f"sqlite:///{here / 'shop.db'}"


def test_it_says_where_to_post_who_handles_it_and_what_to_try(here: Path) -> None:
    with served(here, "shop:app", SHOP_URL=url_in(here)) as server:
        assert server.process.stdout is not None
        told = [server.lines[0], *(server.process.stdout.readline() for _ in range(7))]
        assert server.get("/readyz").status == 200
        assert server.get("/healthz").body == {"status": "alive"}
    assert f"serves shop:app at {server.url} (" in told[0]
    assert told[1].split() == ["store", url_in(here)]
    assert f"POST {server.url}/stripe  Stripe, 3 handlers, inline" in told[2]
    assert f"POST {server.url}/later  Stripe, 1 handler, as jobs\n" in told[3]
    assert told[4] == "  worker  queue default (10 at a time): later\n"
    assert told[5].endswith(f"GET {server.url}/readyz\n")
    # The source whose handlers want what `duly deliver` sends; its secret is not for the screen.
    assert told[7].endswith(f"-m duly deliver stripe {server.url}/later\n")
    assert SECRET not in "".join(told)


def test_an_app_can_be_named_by_its_file_and_by_the_environment(here: Path) -> None:
    beside = here / "deep"
    beside.mkdir()
    (beside / "inner.py").write_text("from neighbour import app as found\n")
    (beside / "neighbour.py").write_text(APP)
    checked = refused(here, "deep/inner.py:found", "--check", SHOP_URL=url_in(here))
    assert (checked.returncode, checked.stderr) == (0, "")
    checked = refused(here, "--check", SHOP_URL=url_in(here), DULY_APP="deep/inner.py:found")
    assert (checked.returncode, checked.stderr) == (0, "")
    assert checked.stdout.startswith("deep/inner.py:found can be served\n")
    assert "Stripe, 3 handlers, inline: mark_paid, slow, broken\n" in checked.stdout
    options = ("deep/inner.py:found", "--check", "--log-json", "--log-level", "error")
    told = json.loads(refused(here, *options, SHOP_URL=url_in(here)).stdout)
    assert told["sources"][1]["handlers"] == ["later"]


def test_the_store_is_shown_with_its_whole_path_and_no_port_where_none_is_known(here: Path) -> None:
    options = ("shop:app", "--check", "--port", "0")
    checked = refused(here, *options, SHOP_URL="sqlite:///a%20shop.db")
    assert (checked.returncode, checked.stderr) == (0, "")
    assert f"  store   sqlite:///{here}/a%20shop.db\n" in checked.stdout
    assert "  stripe  POST /stripe  Stripe, 3 handlers, inline: " in checked.stdout
    assert "warning" not in checked.stdout
    told = json.loads(refused(here, *options, "--log-json", SHOP_URL=url_in(here)).stdout)
    assert (told["url"], told["warnings"]) == (None, [])


def test_it_says_which_worker_runs_the_jobs_and_where_there_is_none(here: Path) -> None:
    for options, told in [
        (["--concurrency", "3"], "queue default (3 at a time): later"),
        (["--no-worker"], "none here; jobs wait for one: duly worker shop:app"),
    ]:
        checked = refused(here, "shop:app", "--check", *options, SHOP_URL=url_in(here))
        assert f"\n  worker  {told}\n" in checked.stdout
    (here / "other.py").write_text(MADE + STRIPE.format(", inline=True"))
    checked = refused(here, "other:app", "--check")
    assert "\n  worker  none: nothing here runs as a job\n" in checked.stdout
    told = json.loads(refused(here, "other:app", "--check", "--log-json").stdout)
    assert told["worker"] is None


MADE = "import duly\napp = duly.Duly('memory:')\n"
STRIPE = "app.source('stripe', secret='whsec_example_of_a_test'{})\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (MADE, "warning: this app has no sources, so nothing can be received: add app.source("),
        (MADE + STRIPE.format(""), "warning: stripe has no handlers, so its events are recorded"),
    ],
)
def test_an_app_that_can_do_nothing_is_served_with_a_warning(
    here: Path, text: str, told: str
) -> None:
    (here / "other.py").write_text(text)
    assert f"\n{told}" in refused(here, "other:app", "--check").stdout
    document = json.loads(refused(here, "other:app", "--check", "--log-json").stdout)
    assert [f"warning: {one}".startswith(told) for one in document["warnings"]] == [True]
    with served(here, "other:app") as server:
        assert server.process.stdout is not None
        until_warned = iter(server.process.stdout.readline, "")
        assert any(line.startswith(told) for line in until_warned)


def test_nothing_is_suggested_for_a_source_whose_tenants_a_sample_does_not_name(here: Path) -> None:
    handled = "@app.on('stripe')\ndef seen(event): ...\n"
    (here / "other.py").write_text(MADE + STRIPE.format(", tenant=lambda event: 'a'") + handled)
    with served(here, "other:app") as server:
        server.tell(signal.SIGTERM)
        assert server.ended() == 0
        assert server.process.stdout is not None
        assert "try it" not in server.process.stdout.read()


MISTAKES = [
    ("", "", "which application? As in shop:app"),
    ("shop", "", "'shop' does not name an application"),
    ("shoop:app", "", "there is no module shoop in {here}, nor among the installed ones"),
    ("shop.more:app", "", "there is no module shop.more in {here}"),
    ("nowhere/shop.py:app", "", "there is no file nowhere/shop.py in {here}"),
    ("other:ap", "import duly\napp = duly.Duly('memory:')", "no ap in other: it has app"),
    ("other:app", "app = 7", "other:app is an int, not a duly.Duly"),
    ("other:app", "", "there is no app in other: it has no duly.Duly at all"),
    ("other:app", "import stripy", "Error: No module named 'stripy' ({here}/other.py, line 1)"),
    ("other:app", "\nimport os\nos.environ['NO']", "KeyError: 'NO' ({here}/other.py, line 3)"),
    ("other:app", "\nimport json\njson.loads('')", "({here}/other.py, line 3)"),
    (
        "other:app",
        "import sqlalchemy\nsqlalchemy.create_engine('nodialect://')",
        "({here}/other.py, line 2)",
    ),
    ("other:app", "app = (", "other cannot be imported: SyntaxError"),
    ("other:app", "import sys\nsys.exit(3)", "other ends the program when it is imported"),
    ("other:app", "import duly\nduly.Duly('x:')", "other cannot be imported: no store for"),
    ("my-shop.py:app", "", "'my-shop' is no name of a module, or another module has it"),
]


@pytest.mark.parametrize(("name", "text", "told"), MISTAKES)
def test_an_app_that_cannot_be_had_is_told_in_one_line(
    here: Path, name: str, text: str, told: str
) -> None:
    (here / "other.py").write_text(text)
    (here / "my-shop.py").touch()
    ended = refused(here, *([name] if name else []), SHOP_URL=url_in(here))
    assert ended.returncode == 2
    assert ended.stderr.startswith("duly: ")
    assert ended.stderr.count("\n") == 1
    assert told.format(here=here) in ended.stderr
    assert ended.stdout == ""


def test_an_error_of_the_app_does_not_show_the_line_that_holds_its_secret(here: Path) -> None:
    (here / "other.py").write_text("import duly\nduly.Duly('postgresql://u:canary5@h/d' + 7)\n")
    ended = refused(here, "other:app")
    assert "other.py, line 2" in ended.stderr
    (here / "other.py").write_text(
        "import duly\napp = duly.Duly('memory:')\napp.source('linear', secret=' canary5 ')\n"
    )
    again = refused(here, "other:app")
    assert "white space" in again.stderr
    assert "canary5" not in ended.stderr + again.stderr


def test_a_database_that_is_not_migrated_is_told_at_once_with_the_remedy(
    here: Path, empty_postgres_url: str
) -> None:
    for options in ([], ["--check"], ["--workers", "2"]):
        ended = refused(here, "shop:app", *options, SHOP_URL=empty_postgres_url)
        assert ended.returncode == 1
        assert ended.stderr.count("\n") == 1
        assert "duly migrate" in ended.stderr
        assert ended.stdout == ""


def test_a_database_that_cannot_be_reached_is_told_without_its_password(here: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = f"postgresql://shop:canary5@127.0.0.1:{port}/shop"
    ended = refused(here, "shop:app", SHOP_URL=url)
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert str(port) in ended.stderr
    assert "canary5" not in ended.stderr


def test_a_port_that_is_taken_is_told_with_the_remedy(here: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = refused(here, "shop:app", "--port", port, SHOP_URL=url_in(here))
    assert ended.returncode == 1
    assert ended.stderr == (
        f"duly: port {port} of 127.0.0.1 is in use: end the other program, or choose another with "
        "--port (0 = any)\n"
    )


def test_what_cannot_work_as_written_is_refused(here: Path) -> None:
    for options, told in [
        (["--port", "65536"], "it must be a port from 0 to 65,535"),
        (["--workers", "0"], "it must be a number of processes from 1 to 512"),
        (["--drain", "-1"], "it must be a number of seconds, 0 to 3600"),
        (["--forwarded-allow-ips", "10.0.0.1"], "give both, or neither"),
        (["--host", "256.1.1.1"], "cannot be listened on"),
    ]:
        ended = refused(here, "shop:app", *options, SHOP_URL=url_in(here))
        assert ended.returncode in (1, 2)
        assert told in ended.stderr
    ended = refused(here, "shop:app", "--workers", "2", SHOP_URL="memory:")
    assert ended.returncode == 2
    assert "a memory: store belongs to one process" in ended.stderr


def test_without_its_extra_it_says_what_to_install(here: Path) -> None:
    hidden = "sys.modules['uvloop'] = None"
    with served(here, "shop:app", first=hidden, wait=False, SHOP_URL=url_in(here)) as server:
        assert server.ended() == 2
    assert "pip install '.[serve]'" in server.log()


def test_the_access_log_has_the_event_id_and_neither_body_nor_secret(here: Path) -> None:
    with served(here, "shop:app", SHOP_URL=url_in(here)) as server:
        assert server.send("evt_7", "paid", note="canary-of-the-body").status == 200
        assert server.send("evt_7", "paid", note="canary-of-the-body").body["status"] == "duplicate"
        assert server.send("evt_8", "broken", note="canary-of-the-body").status == 500
        tampered = asked(server.url, "POST", "/stripe?canary=query", b"canary-of-the-body", {})
        assert tampered.status == 403
        server.log_tells("MISSING_SIGNATURE")
    lines = [line for line in server.log().splitlines() if " duly.access " in line]
    said = [line.split(" duly.access ")[1].rpartition(" ")[0] for line in lines]
    assert said == [
        "POST /stripe 200 accepted evt_7",
        "POST /stripe 200 duplicate evt_7",
        "POST /stripe 500 HANDLER_FAILED evt_8",
        "POST /stripe 403 MISSING_SIGNATURE -",
    ]
    # The traceback of the broken handler is there, and what it gave away is not.
    assert "RuntimeError: it says *** and postgresql://u:***@h/d" in server.log()
    assert SECRET not in server.log()
    assert "pass5" not in server.log()
    assert "canary" not in server.log()


def test_a_log_for_programs_is_one_object_a_line(here: Path) -> None:
    options = ("shop:app", "--log-json")
    with served(here, *options, wait=False, SHOP_URL=url_in(here)) as server:
        server.log_tells('"serving"')
        server.url = json.loads(server.log().splitlines()[0])["url"]
        server.send("evt_7", "paid")
        server.send("evt_8", "broken")
        server.log_tells("HANDLER_FAILED")
    told = [json.loads(line) for line in server.log().splitlines()]
    first = told[0]
    assert first["sources"][0]["handlers"] == ["mark_paid", "slow", "broken"]
    assert first["store"] == url_in(here)
    access = [one for one in told if one["logger"] == "duly.access"]
    assert [(one["status"], one["said"], one["event"]) for one in access] == [
        (200, "accepted", "evt_7"),
        (500, "HANDLER_FAILED", "evt_8"),
    ]
    assert all(one["process"] == server.pid for one in told)
    assert any("it says ***" in one.get("traceback", "") for one in told)
    assert SECRET not in server.log()


def test_the_access_log_can_be_left_out(here: Path) -> None:
    with served(here, "shop:app", "--no-access-log", SHOP_URL=url_in(here)) as server:
        server.send("evt_7", "paid")
        server.send("evt_8", "broken")
        server.log_tells("handler broken failed")
    assert "duly.access" not in server.log()


def test_a_proxy_is_believed_only_if_it_is_told(here: Path) -> None:
    for options, remote in [((), "127.0.0.1"), (("--proxy-headers",), "203.0.113.9")]:
        (here / "shop.db").unlink()
        rows(url_in(here), TABLE)
        with served(here, "shop:app", *options, SHOP_URL=url_in(here)) as server:
            body = b'{"id": "evt_1", "type": "paid"}'
            headers = dict(duly.sign("stripe", body, SECRET).headers)
            headers["X-Forwarded-For"] = "203.0.113.9"
            assert asked(server.url, "POST", "/stripe", body, headers).status == 200
        assert rows(url_in(here), "SELECT remote FROM duly_events") == [(remote,)]


def test_the_log_tells_why_a_delivery_was_rejected_and_the_answer_does_not(here: Path) -> None:
    body = b'{"id": "evt_1", "type": "paid"}'
    forged = duly.sign("stripe", body, "whsec_another_secret")
    written_again = duly.sign("stripe", body, SECRET)
    with served(here, "shop:app", SHOP_URL=url_in(here)) as server:
        first = asked(server.url, "POST", "/stripe", body, dict(forged.headers))
        server.log_tells("rejected (BAD_SIGNATURE, unexplained): The signature fits none")
        compact = json.dumps(json.loads(body), separators=(",", ":")).encode()
        headers = dict(written_again.headers)
        # The diagnosis rests for a while after each: the sender comes again, as senders do.
        until(
            lambda: (
                (
                    asked(server.url, "POST", "/stripe", compact, headers).body == first.body
                    and "(BAD_SIGNATURE, changed_body): The body was parsed and written again"
                    in server.log()
                )
                or None
            )
        )
        log = server.log()
    assert SECRET not in log
    assert "whsec_another_secret" not in log
