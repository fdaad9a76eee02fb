"""An application that was made and used before a fork serves in every process after it.

Servers that load the application once and fork their workers do just that. Each scene is a program
of its own: a test runner with threads is no place to fork.
"""

import sys

import pytest

import duly
from tests.receiver.faults.books import EFFECTS, Books
from tests.receiver.faults.shops import Mode, signed
from tests.stores.test_forks import ROOT
from tests.support.processes.forked import run_forked
from tests.support.processes.leading import PATIENCE

pytestmark = pytest.mark.slow

BEGIN = """
import asyncio, logging, os, sys, time
from tests.receiver.faults.doors import asked, called
from tests.receiver.faults.shops import shop_app, signed

url, mode = sys.argv[1:]
app = shop_app(url, mode)
logging.disable()  # that no worker is alive is no news here

def post(name):
    return called(app, signed(name)).said

def awaited(name):
    return asyncio.run(asked(app, signed(name))).said

def in_child(work, *values):
    child = os.fork()
    if child == 0:
        try:
            work(*values)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return child

def ended_well(child):
    for _ in range(1000):
        if (ended := os.waitpid(child, os.WNOHANG))[0]:
            assert ended[1] == 0, "the child failed"
            return
        time.sleep(0.02)  # between two looks: waitpid has no deadline of its own
    os.kill(child, 9)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")
"""
PREFORK = """
def work(name):
    assert post("before") == "duplicate"
    for number in range(10):
        assert post(f"{name}_{number}") == "accepted"
        assert post(f"shared_{number}") in ("accepted", "duplicate")
    app.close()

assert post("before") == "accepted"
children = [in_child(work, f"child_{number}") for number in range(4)]
for number in range(10):
    assert post(f"parent_{number}") == "accepted"
for child in children:
    ended_well(child)
assert post("child_0_0") == "duplicate"
app.close()
"""
AWAITED = """
def work():
    assert awaited("before") == "duplicate"
    assert awaited("child") == "accepted"
    assert post("child_blocking") == "accepted"
    os._exit(0)

assert awaited("before") == "accepted"
ended_well(in_child(work))
assert awaited("child") == "duplicate"
assert awaited("after") == "accepted"
os._exit(0)
"""
COUNTED = """
def work():
    assert post("child") == "accepted"
    app.close()

assert post("before") == "accepted"
ended_well(in_child(work))
app.close()
"""

WORKERS = ("parent", "shared", *(f"child_{number}" for number in range(4)))


def play(scene: str, url: str, mode: str) -> None:
    """Run a scene; newer Pythons warn of every fork beside threads, which is what is tried here."""
    options = ["-W", "error", "-W", "ignore:This process:DeprecationWarning"]
    options += ["-W", "ignore::ResourceWarning"]  # what a loop that ended left behind
    ended = run_forked(
        [sys.executable, *options, "-c", BEGIN + scene, url, mode], cwd=ROOT, timeout=PATIENCE
    )
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.fixture
def books(url: str) -> Books:
    """The tables of a database that the application finds ready."""
    with duly.store(url):
        found = Books(url)
        found.ask(EFFECTS)
    return found


def test_workers_that_were_forked_after_the_first_request_serve(books: Books, mode: Mode) -> None:
    play(PREFORK, books.url, mode)
    names = {"before", *(f"{who}_{n}" for n in range(10) for who in WORKERS)}
    books.check({name: signed(name).body for name in names}, names, inline=mode != "deferred")
    books.alone()


def test_an_awaited_application_serves_after_a_fork(books: Books, mode: Mode) -> None:
    play(AWAITED, books.url, mode)
    names = {"before", "child", "child_blocking", "after"}
    books.check({name: signed(name).body for name in names}, names, inline=mode != "deferred")


def test_each_delivery_is_counted_by_one_process(books: Books) -> None:
    play(COUNTED, books.url, "deferred")
    counted = books.ask("SELECT sum(n) FROM duly_counters WHERE name = 'accepted'")
    assert [int(total) for (total,) in counted] == [2]
