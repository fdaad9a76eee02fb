"""A store that was used before a fork works after it, in the child and in the parent.

Each scene is a program of its own: a test runner with threads is no place to fork.
"""

import sys
from pathlib import Path

import pytest

from tests.support.processes.forked import run_forked
from tests.support.processes.leading import PATIENCE

ROOT = Path(__file__).parents[2]
BEGIN = """
import asyncio, os, sys, threading
from datetime import timedelta
import duly

url, scope = sys.argv[1:]
store = duly.store(url)
LONG = timedelta(minutes=1)  # processes that share one write lock on a busy machine

def claim(key):
    return duly.dedup(store, scope, key, wait=LONG).first

async def awaited(key):
    return (await duly.aio.dedup(store, scope, key)).first

def in_child(work):
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return child

def ended_well(child):
    assert os.waitpid(child, 0)[1] == 0, "the child failed"
"""
USED_BY_BOTH = """
def work():
    assert not claim("before")
    assert claim("child")
    assert asyncio.run(awaited("child, awaited"))
    store.close()

assert claim("before")
ended_well(in_child(work))
assert not claim("child")
assert not claim("child, awaited")
assert claim("after")
store.close()
"""
USED_AT_ONCE = """
def work(name):
    for number in range(50):
        claim(f"{name} {number}")

assert claim("before")
children = [in_child(lambda: work(f"child {number}")) for number in range(4)]
work("parent")
for child in children:
    ended_well(child)
keys = [f"{name} {number}" for name in ("parent", *(f"child {n}" for n in range(4)))
        for number in range(50)]
assert not any(answer.first for answer in duly.dedup_many(store, scope, keys))
store.close()
"""
WHILE_THREADS_WORK = """
stop = threading.Event()

def keep_claiming(name):
    number = 0
    while not stop.is_set():
        claim(f"{name} {number}")
        number += 1

assert claim("before")
threads = [threading.Thread(target=keep_claiming, args=[f"thread {n}"]) for n in range(3)]
for thread in threads:
    thread.start()
for number in range(10):
    ended_well(in_child(lambda: claim(f"child {number}")))
stop.set()
for thread in threads:
    thread.join()
assert not any(claim(f"child {number}") for number in range(10))
store.close()
"""
AWAITED_FIRST = """
async def main():
    assert await awaited("before")
    ended_well(in_child(work))
    assert await awaited("after")
    await store.aclose()

def work():
    assert not claim("before")
    store.close()

asyncio.run(main())
"""
# Its parent is gone, and others open and close the file: were the orphan's locks not its own, that
# would remove the log which it writes to, and with it all that it was told is committed.
ORPHANED = """
import subprocess

OTHER = "import sys, duly\\nwith duly.store(sys.argv[1]) as s: duly.dedup(s, 'other', 'key')"
gone, parent_lives = os.pipe()
answer, orphan_lives = os.pipe()

def parent():
    assert claim("parent")
    in_child(orphan)

def orphan():
    os.close(parent_lives)
    assert claim("orphan")
    os.read(gone, 1)
    for number in range(2):
        subprocess.run([sys.executable, "-c", OTHER, url], check=True)
        assert claim(f"orphan {number}")
    subprocess.run([sys.executable, "-c", OTHER, url], check=True)
    os.write(orphan_lives, b"!")

ended_well(in_child(parent))
os.close(parent_lives)
os.close(orphan_lives)
assert os.read(answer, 1) == b"!", "the orphan failed"
keys = ["parent", "orphan", "orphan 0", "orphan 1"]
assert not any(answer.first for answer in duly.dedup_many(store, scope, keys))
store.close()
"""
# What handlers run in: a transaction of duly's own that is open to the user's code.
OPENED = """
from duly.core.onestep import finish

async def handle(runner, name):
    async with runner.open_transaction(wait=LONG) as opened:
        await opened.session.execute("INSERT INTO duly_meta (name, value) VALUES (:name, 'x')",
                                     {"name": f"{scope} {name}"})

def work():
    finish(handle(store.sync_runner, "child"))
    asyncio.run(handle(store.async_runner, "child, awaited"))

async def main():
    await handle(store.async_runner, "before, awaited")
    ended_well(in_child(work))
    await handle(store.async_runner, "after, awaited")

store.migrate()
finish(handle(store.sync_runner, "before"))
ended_well(in_child(lambda: finish(handle(store.sync_runner, "first child"))))
asyncio.run(main())
finish(handle(store.sync_runner, "after"))

async def count(session):
    return sum(row["name"].startswith(scope) for row in await session.rows("meta_read"))

assert finish(store.sync_runner.run_autocommit(count, wait=LONG)) == 7
store.close()
"""
MEMORY = """
child = os.fork()
if child == 0:
    sys.exit(0)  # through every exit handler
ended_well(child)
assert claim("after")
store.close()
"""


def play(scene: str, url: str, scope: str) -> None:
    """Run a scene; newer Pythons warn of every fork beside threads, which is what is tried here."""
    options = ["-W", "error", "-W", "ignore:This process:DeprecationWarning"]
    ended = run_forked(
        [sys.executable, *options, "-c", BEGIN + scene, url, scope], cwd=ROOT, timeout=PATIENCE
    )
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.fixture(params=["postgres_url", "sqlite_url"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    return found


def test_a_store_used_before_a_fork_works_in_the_child_and_in_the_parent(
    url: str, scope: str
) -> None:
    play(USED_BY_BOTH, url, scope)


def test_a_store_used_before_a_fork_is_used_by_all_at_once(url: str, scope: str) -> None:
    play(USED_AT_ONCE, url, scope)


def test_a_fork_inside_an_event_loop_leaves_both_colours_usable(url: str, scope: str) -> None:
    play(AWAITED_FIRST, url, scope)


def test_handlers_run_in_a_child_as_in_its_parent(url: str, scope: str) -> None:
    play(OPENED, url, scope)


@pytest.mark.slow
def test_a_fork_while_other_threads_write_never_hangs(url: str, scope: str) -> None:
    play(WHILE_THREADS_WORK, url, scope)


def test_what_a_child_was_told_is_committed_outlives_its_parent(
    sqlite_url: str, scope: str
) -> None:
    play(ORPHANED, sqlite_url, scope)


def test_a_temporary_store_stays_when_a_child_exits(scope: str) -> None:
    play("claim('before')" + MEMORY, "memory:", scope)
