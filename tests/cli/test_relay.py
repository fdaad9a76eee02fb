"""``duly relay``: told to end, it loses nothing; what it gave back is sent again with its id."""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.cli.main import main
from duly.relay.settings import CONCURRENCY, PER_DESTINATION
from duly.server.shutdown import TOGETHER
from tests.outbox.receivers import Receiver
from tests.support.processes.forked import Forked, run_forked
from tests.support.processes.leading import PATIENCE, until
from tests.support.serving import Served, clean, rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

# The canary of a secret: base64 of words that say so.
SECRET = "whsec_Y2FuYXJ5IG9mIGEgc2VjcmV0IG9mIGEgdGVzdA=="
# A transport that says that it was called, and waits until it is let go.
APP = """
import os
import time
from pathlib import Path

import duly

app = duly.Duly(os.environ["SHOP_URL"], egress=duly.Egress(allow=[os.environ["SHOP_THERE"]]))
app.signer("ours", secret=os.environ["SHOP_SECRET"])
HERE = Path(__file__).parent


@app.transport("mail")
def mail(message):
    (HERE / "begun").touch()
    while not (HERE / "go").exists():
        time.sleep(0.01)
"""
MESSAGES = "SELECT destination, state, attempts, rescues FROM duly_outbox ORDER BY created_at"
# Seconds for which the one that is leased will be.
LEFT = "SELECT lease_until / 1000000 - unixepoch() FROM duly_outbox"
SENT = "SELECT count(*) FROM duly_history WHERE outcome = 'sent'"


@pytest.fixture
def there() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture(params=["postgres", "sqlite"])
def url(request: pytest.FixtureRequest) -> str:
    name = "own_postgres_url" if request.param == "postgres" else "sqlite_url"
    found: str = request.getfixturevalue(name)
    return found


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


def staged(url: str, there: Receiver, *paths: str, **more: Any) -> list[str]:
    """A message to each of these paths, or through the transport; their ids."""
    app = duly.Duly(url, egress=duly.Egress(allow=[there.url]))
    app.signer("ours", secret=SECRET)
    app.transport("mail")(not_here)
    ids = [
        app.send(path if ":" in path else there.url + path, json=path, **more).id for path in paths
    ]
    app.close()
    return ids


def not_here(message: duly.types.Message) -> None:
    """Sent by another process."""


def environment(url: str, there: Receiver) -> dict[str, str]:
    return {**clean(), "SHOP_SECRET": SECRET, "SHOP_URL": url, "SHOP_THERE": there.url}


@contextmanager
def relaying(here: Path, url: str, there: Receiver, *options: str) -> Iterator[Served]:
    """A relay process until the block ends."""
    log = here / "log"
    with (
        log.open("w") as stderr,
        Forked(
            [sys.executable, "-W", "error", "-m", "duly", "relay", "shop:app", *options],
            cwd=here,
            env=environment(url, there),
            stderr=stderr,
            text=True,
        ) as process,
    ):
        try:
            yield Served(process, log)
        finally:
            process.kill()


def relayed(here: Path, *words: str, url: str, there: Receiver, code: int = 0) -> str:
    """A relay that ends by itself; what it said."""
    ran = run_forked(
        [sys.executable, "-W", "error", "-m", "duly", "relay", *words],
        cwd=here,
        env=environment(url, there),
        timeout=PATIENCE,
    )
    assert ran.returncode == code, ran.stderr
    assert SECRET not in ran.stderr
    return ran.stderr


def tell_again(relay: Served) -> None:
    """A signal that cannot be taken for a part of the one before."""
    time.sleep(TOGETHER + 0.05)
    relay.tell(signal.SIGTERM)


def ids_of(there: Receiver) -> list[str]:
    """The idempotency keys of what arrived."""
    return [request.headers["idempotency-key"] for request in there.requests]


def test_what_was_staged_is_sent_and_the_end_says_what_became_of_it(
    here: Path, own_postgres_url: str, there: Receiver
) -> None:
    there.answer("/gone", 410)
    there.answer("/busy", 409, headers={"Retry-After": "60"})  # not again before the end
    good = staged(own_postgres_url, there, "/paid", "/paid", sign="ours")
    bad = staged(own_postgres_url, there, "/gone", "/busy")
    told = relayed(here, "shop:app", "--until-idle", url=own_postgres_url, there=there)
    assert told.endswith(" ended: 2 sent, 1 retried, 1 dead\n")
    assert "`duly outbox show` tells more" in told
    assert sorted(ids_of(there)) == sorted(good + bad)
    assert [state for _, state, _, _ in rows(own_postgres_url, MESSAGES)] == ["dead", "ready"]
    assert rows(own_postgres_url, SENT) == [(2,)]


def test_what_is_on_its_way_arrives_at_the_end_and_what_was_held_is_given_back(
    here: Path, url: str, there: Receiver
) -> None:
    go = there.hold("/slow")
    first, *_ = staged(url, there, *["/slow"] * 3)
    with relaying(here, url, there, "--per-destination", "1") as relay:
        until(lambda: there.requests or None)
        relay.tell(signal.SIGTERM)
        relay.log_tells("draining: messages on their way are waited for")
        assert relay.process.poll() is None
        go.set()
        assert relay.ended() == 0
        assert re.search(r" draining: .*\n.* sent .*\n.* ended: 1 sent\n$", relay.log())
    assert ids_of(there) == [first]
    assert rows(url, MESSAGES) == [(there.url, "ready", 0, 0)] * 2


def test_a_second_signal_gives_back_what_is_on_its_way_and_it_is_sent_again_with_its_id(
    here: Path, sqlite_url: str, there: Receiver
) -> None:
    go = there.hold("/slow")
    [message] = staged(sqlite_url, there, "/slow", attempts=1)
    with relaying(here, sqlite_url, there, "--grace", "3600") as relay:
        until(lambda: there.requests or None)
        relay.tell(signal.SIGTERM)
        relay.log_tells("draining")
        tell_again(relay)
        assert relay.ended() == 128 + signal.SIGTERM
        assert " giving back the messages on their way, which may have arrived\n" in relay.log()
    assert rows(sqlite_url, MESSAGES) == [(there.url, "ready", 0, 1)]
    go.set()
    told = relayed(here, "shop:app", "--until-idle", url=sqlite_url, there=there)
    assert told.endswith(" ended: 1 sent, 1 resent\n")
    assert ids_of(there) == [message, message]


def test_what_is_not_through_in_time_is_given_back(
    here: Path, sqlite_url: str, there: Receiver
) -> None:
    there.hold("/slow")
    staged(sqlite_url, there, "/slow")
    with relaying(here, sqlite_url, there, "--grace", "0.2") as relay:
        until(lambda: there.requests or None)
        relay.tell(signal.SIGINT)
        assert relay.ended() == 0
    assert rows(sqlite_url, MESSAGES) == [(there.url, "ready", 0, 1)]


def test_a_transport_that_hangs_does_not_keep_the_process(
    here: Path, sqlite_url: str, there: Receiver
) -> None:
    staged(sqlite_url, there, "mail:ann@example.com")
    with relaying(here, sqlite_url, there, "--grace", "0.2") as relay:
        until(lambda: (here / "begun").exists() or None)
        relay.tell(signal.SIGTERM)
        assert relay.ended() == 0
        assert relay.log().endswith(" ended: 1 retried\n")
    assert rows(sqlite_url, MESSAGES) == [("mail", "ready", 0, 1)]


def test_what_a_killed_relay_had_is_rescued_when_its_lease_is_over(
    here: Path, sqlite_url: str, there: Receiver
) -> None:
    go = there.hold("/slow")
    [message] = staged(sqlite_url, there, "/slow")
    with relaying(here, sqlite_url, there, "--lease", "3000") as relay:
        until(lambda: there.requests or None)
        relay.process.kill()
        relay.process.wait()
    [(left,)] = rows(sqlite_url, LEFT)
    assert 2900 < left <= 3000
    rows(sqlite_url, "UPDATE duly_outbox SET lease_until = created_at")
    go.set()
    with relaying(here, sqlite_url, there) as relay:
        until(lambda: rows(sqlite_url, MESSAGES) == [] or None)
        relay.tell(signal.SIGTERM)
        assert relay.ended() == 0
        assert " ended: 1 sent, 1 resent, 1 rescued\n" in relay.log()
    assert ids_of(there) == [message, message]


def test_no_more_are_on_their_way_than_it_was_told(
    here: Path, sqlite_url: str, there: Receiver
) -> None:
    go = there.hold("/slow")
    staged(sqlite_url, there, *["/slow"] * 8)
    with relaying(
        here, sqlite_url, there, "--concurrency", "5", "--per-destination", "2", "--until-idle"
    ) as relay:
        until(lambda: len(there.requests) == 2 or None)
        go.set()
        assert relay.ended() == 0
    assert there.most_at_once("/slow") == 2
    assert len(there.requests) == 8


def test_it_says_how_it_sends_and_where_the_guard_lets_it_go(
    here: Path, sqlite_url: str, there: Receiver
) -> None:
    told = relayed(here, "shop:app", "--until-idle", url=sqlite_url, there=there)
    first, last = told.splitlines()
    assert first.endswith(
        f" INFO duly.relay relaying for shop:app, {CONCURRENCY} messages at a time "
        f"({PER_DESTINATION} to one host); "
        f"transports: https, mail; signers: ours; allowed beside the outside world: {there.url}"
    )
    assert last.endswith(" ended: there was nothing to do")
    (here / "bare.py").write_text("import duly, os\napp = duly.Duly(os.environ['SHOP_URL'])\n")
    words = ("bare:app", "--until-idle", "--log-json", "--concurrency", "7")
    begun, ended = relayed(here, *words, url=sqlite_url, there=there).splitlines()
    members = json.loads(begun)
    assert (members["concurrency"], members["per_destination"]) == (7, PER_DESTINATION)
    assert (members["transports"], members["signers"], members["allow"]) == ([], [], [])
    names = ("sent", "resent", "retried", "dead", "lost", "rescued")
    assert {name: json.loads(ended)[name] for name in names} == dict.fromkeys(names, 0)


def test_no_control_character_of_a_receiver_reaches_the_log(
    here: Path, sqlite_url: str, there: Receiver
) -> None:
    there.answer("/moved", 302, headers={"Location": "https://example.com/\x1b[31mred"})
    staged(sqlite_url, there, "/moved")
    told = relayed(here, "shop:app", "--until-idle", url=sqlite_url, there=there)
    assert " ended: 1 dead\n" in told
    assert "[31mred" in told
    assert "\x1b" not in told


def test_what_cannot_work_is_refused_in_one_line(
    here: Path, sqlite_url: str, there: Receiver
) -> None:
    nowhere = "postgresql://shop:canary5@127.0.0.1:1/shop"
    for words, address, code, remedy in [
        ([], sqlite_url, 2, "which application? As in shop:app"),
        (["shop:app"], "memory:", 2, "use `duly serve`, which has a relay"),
        (["shop:app"], nowhere, 1, "PostgreSQL could not be reached"),
    ]:
        told = relayed(here, *words, url=address, there=there, code=code)
        assert told.startswith("duly: ")
        assert told.count("\n") == 1
        assert remedy in told
        assert "canary5" not in told


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("--concurrency=0", "it must be a number of messages from 1 to 1,000"),
        ("--per-destination=1001", "it must be a number of messages from 1 to 1,000"),
        ("--lease=0.01", "it must be at least 0.1 seconds"),
        ("--grace=soon", "it must be a number of seconds, 0 to 3600"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(
    option: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["relay", "shop:app", option])
    assert f"argument {option.partition('=')[0]}: {told}" in capsys.readouterr().err
