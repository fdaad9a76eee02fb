"""What a power cut may leave of a database: the model of the disk, and both lanes of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from verification.power_loss.disk import Disk, Kept, sectors_of
from verification.power_loss.images import missing
from verification.power_loss.looking import Seen, broken
from verification.power_loss.promises import world_after
from verification.power_loss.record import (
    Named,
    Reader,
    Record,
    Resized,
    Step,
    Synced,
    Told,
    Written,
)
from verification.power_loss.recording import refuse_hollow
from verification.power_loss.states import cuts
from verification.power_loss.tracing import calls, find_strace
from verification.power_loss.unproven import Unproven

from tests.support.servers import Missing

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
# Enough states to find what is wrong, and few enough for every change; `make crash` takes them all.
EVERY, FEW = "60", "200"
SECTORS = 8
FULL, NORMAL = "'FULL' if durable", "'NORMAL' if durable"
PATIENCE = 900


def files_after(*steps: Step) -> list[dict[str, bytes]]:
    """What may be found when the power goes after the last of these steps."""
    made = list(cuts(Record([*steps, Told(("over",))], {0: "a", 1: "b"})))
    return [cut.files() for cut in made if cut.told]


def named(name: str = "a", file: int = 0) -> tuple[Step, Step]:
    """A file whose name is safe."""
    return Named(name, file, 1), Synced(None, 2)


class TestDisk:
    def test_what_was_synced_is_there_in_every_state(self) -> None:
        safe, lost = Written(0, 0, b"safe", 3), Written(0, 4, b"lost", 6)
        found = files_after(*named(), safe, Synced(0, 5), lost)
        assert {one["a"] for one in found} == {b"safe", b"safelost"}

    def test_a_sync_covers_only_what_had_ended_when_it_began(self) -> None:
        late = Written(0, 0, b"late", ended=7)
        found = files_after(*named(), late, Synced(0, began=6))
        assert {one["a"] for one in found} == {b"", b"late"}

    def test_a_sync_covers_one_file_only(self) -> None:
        steps = (*named(), Named("b", 1, 1), Synced(None, 2))
        found = files_after(*steps, Written(0, 0, b"A", 3), Written(1, 0, b"B", 4), Synced(0, 5))
        assert {one["a"] for one in found} == {b"A"}
        assert {one["b"] for one in found} == {b"", b"B"}

    def test_later_writes_may_be_there_without_earlier_ones(self) -> None:
        steps = (Written(0, 0, b"1", 3), Written(0, 1, b"2", 4), Written(0, 2, b"3", 5))
        found = {one["a"] for one in files_after(*named(), *steps)}
        assert found >= {b"", b"123", b"\x0023", b"\x00\x003"}

    def test_the_last_write_may_be_torn_at_sectors(self) -> None:
        page = bytes([1]) * 512 * SECTORS
        found = {one["a"] for one in files_after(*named(), Written(0, 0, page, 3))}
        assert {page[:512], bytes(512) + page[512:]} <= found
        assert any(one.startswith((page[:512] + bytes(512)) * 3) for one in found)

    def test_a_write_across_sectors_is_torn_where_the_file_has_them(self) -> None:
        across = Written(0, 500, b"x" * 24, 3)
        assert sectors_of(across) == [0, 1]
        disk = Disk(names={"a": 0})
        found = disk.after_a_cut([Kept(across, frozenset({1}))], [])
        assert found["a"] == bytes(512) + b"x" * 12

    def test_a_file_whose_name_was_not_synced_may_be_gone_with_all_that_is_in_it(self) -> None:
        found = files_after(Named("a", 0, 1), Written(0, 0, b"A", 2), Synced(0, 3))
        assert {one.get("a") for one in found} == {None, b"A"}

    def test_a_removed_file_may_still_be_there(self) -> None:
        steps = (*named(), Written(0, 0, b"A", 3), Synced(0, 4))
        assert {one.get("a") for one in files_after(*steps, Named("a", None, 5))} == {None, b"A"}

    def test_a_truncation_may_be_lost(self) -> None:
        steps = (*named(), Written(0, 0, b"abc", 3), Synced(0, 4), Resized(0, 1, 5))
        assert {one["a"] for one in files_after(*steps)} == {b"a", b"abc"}

    def test_no_state_is_looked_at_twice(self) -> None:
        steps = (*named(), Written(0, 0, b"1", 3), Written(0, 1, b"2", 4), Written(0, 2, b"3", 5))
        found = [cut.files()["a"] for cut in cuts(Record(list(steps), {0: "a"})) if cut.disk.names]
        assert len(found) == len(set(found))


def hexed(text: str) -> str:
    """Text as strace shows it."""
    return "".join(f"\\x{byte:02x}" for byte in text.encode())


def read(*lines: str) -> list[Step]:
    """The steps of a trace about the folder /f."""
    return Reader(Path("/f")).read(calls(lines)).steps


PLACE = hexed("/f/disk/a")
OPENED = f'7 openat(AT_FDCWD, "{PLACE}", O_RDWR|O_CREAT, 0644) = 3<{PLACE}>'


class TestRecord:
    def test_a_write_has_its_file_its_place_and_its_bytes(self) -> None:
        written = f'7 pwrite64(3<{PLACE}>, "{hexed("abc")}", 3, 40) = 3'
        assert read(OPENED, written)[1] == Written(0, 40, b"abc", 2)

    def test_calls_that_overlap_are_put_together(self) -> None:
        place = f"3<{PLACE}>"
        steps = read(
            OPENED,
            f"8 fdatasync({place} <unfinished ...>",
            f'7 pwrite64({place}, "{hexed("abc")}", 3, 0) = 3',
            "8 <... fdatasync resumed>) = 0",
        )
        assert steps[1:] == [Written(0, 0, b"abc", ended=3), Synced(0, began=2)]

    def test_a_call_that_failed_changed_nothing(self) -> None:
        refused = f'7 pwrite64(3<{PLACE}>, "{hexed("abc")}", 3, 0) = -1 ENOSPC (full)'
        assert len(read(OPENED, refused)) == 1

    def test_an_answer_is_given_when_its_first_byte_is(self) -> None:
        place, head, body = hexed("socket:[1]"), "HTTP/1.1 200 OK\r\n", '{"event": "evt_1"}'
        steps = read(
            OPENED,
            f'7 sendto(9<{place}>, "{hexed(head)}", 17, 0, NULL, 0) = 17',
            f'8 pwrite64(3<{PLACE}>, "{hexed("abc")}", 3, 0) = 3',
            f'7 sendto(9<{place}>, "{hexed(body)}", 18, 0, NULL, 0) = 18',
        )
        assert steps[1] == Told(("answered", "evt_1"))

    def test_a_refusal_is_no_answer(self) -> None:
        said = 'HTTP/1.1 503 Busy\r\n\r\n{"event": "evt_1"}'
        line = f'7 sendto(9<{hexed("socket:[1]")}>, "{hexed(said)}", 40, 0, NULL, 0) = 40'
        assert read(OPENED, line)[1:] == []

    @pytest.mark.parametrize(
        "line",
        [
            f'7 rename("{PLACE}", "{hexed("/f/disk/b")}") = 0',
            f"7 fallocate(3<{PLACE}>, 0, 0, 10) = 0",
            f'7 write(3<{PLACE}>, "{hexed("abc")}", 3) = 3',
            f'7 pwrite64(3<{PLACE}>, "{hexed("abc")}"..., 900, 0) = 900',
            f"7 mmap(NULL, 10, PROT_WRITE, MAP_SHARED, 3<{PLACE}>, 0) = 0x7f",
            "nothing that strace says",
        ],
    )
    def test_what_is_not_understood_is_refused(self, line: str) -> None:
        with pytest.raises(Unproven):
            read(OPENED, line)

    def test_a_record_in_which_too_little_happened_is_refused(self) -> None:
        with pytest.raises(Unproven, match="nothing of"):
            refuse_hollow(Record([Told(("created",))], {}))


class TestPromises:
    def test_what_was_answered_and_is_not_there_is_found(self) -> None:
        world = world_after([("sends", "orders", "paid", "evt_1"), ("answered", "evt_1")])
        assert list(broken(Seen("ok"), world)) == ["evt_1 was answered 2xx, and is not there (I1)"]

    def test_what_was_sent_out_and_is_not_known_is_found(self) -> None:
        world = world_after([("mail", "evt_1", "id-1"), ("charge", "evt_1", "key-1")])
        found = list(broken(Seen("ok"), world))
        assert len(found) == 2
        assert all("I11" in one for one in found)

    def test_what_was_pruned_need_not_be_there(self) -> None:
        told = [("sends", "orders", "paid", "old-1"), ("answered", "old-1")]
        late = [*told, ("flow", "2026-11-16T06:15:00+00:00", "prune")]
        assert list(broken(Seen("ok"), world_after(told)))
        assert not list(broken(Seen("ok"), world_after(late)))


def ran(
    *words: str, cwd: Path = ROOT, path: Sequence[Path] = (), **more: str
) -> subprocess.CompletedProcess[str]:
    """The command, run in a folder and with duly from there."""
    code = os.pathsep.join(map(str, path))
    return subprocess.run(
        [sys.executable, "-m", "verification.power_loss", *words],
        cwd=cwd,
        env={**os.environ, **({"PYTHONPATH": code} if code else {}), **more},
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


@pytest.fixture
def strace() -> str:
    """The program that records; its absence is a reason to skip."""
    found = find_strace()
    if isinstance(found, Missing):
        pytest.skip(str(found))
    return found


@pytest.mark.promise("power cut", "I1")
@pytest.mark.slow
def test_nothing_that_sqlite_acknowledged_is_lost_in_a_power_cut(strace: str) -> None:
    done = ran("sqlite", "--every", EVERY, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["violations"] == 0
    assert told["states"] > 100
    assert told["recovered"] > 4


@pytest.mark.wide
@pytest.mark.slow
def test_a_store_that_does_not_sync_each_commit_is_caught(strace: str, tmp_path: Path) -> None:
    """As every lane must: the same with a defect planted in a copy."""
    for name in ("src", "verification", "tests/support/servers"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests" / "__init__.py").touch()
    connect = tmp_path / "src" / "duly" / "stores" / "sqlite" / "connection.py"
    assert FULL in connect.read_text()
    connect.write_text(connect.read_text().replace(FULL, NORMAL))
    done = ran("sqlite", "--every", FEW, "--json", cwd=tmp_path, path=(tmp_path / "src",))
    assert done.returncode == 1, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert any("I1)" in one["problem"] for one in told["findings"])
    again = repeated(told, tmp_path)
    assert again["findings"][0]["problem"] == told["findings"][0]["problem"]


def repeated(told: dict[str, Any], folder: Path) -> dict[str, Any]:
    """One state once more, by the command that the report gives."""
    [_, _, _, *words] = told["repeat"].split()
    state = str(told["findings"][0]["state"])
    done = ran(*words, "--state", state, "--json", cwd=folder, path=(folder / "src",))
    assert done.returncode == 1, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_machine_without_loop_devices_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    done = ran("postgres", PATH=str(tmp_path / "bin"))
    assert done.returncode == 3
    assert "capability missing: loop devices" in done.stderr


@pytest.mark.long
@pytest.mark.parametrize(("options", "code"), [((), 0), (("--without-fsync",), 1)])
def test_postgres_keeps_in_a_power_cut_what_it_acknowledged(
    options: tuple[str, ...], code: int
) -> None:
    """And a server that only says that it has synced is caught."""
    lacking = missing()
    if lacking is not None:
        pytest.skip(str(lacking))
    done = ran("postgres", "--quick", "--json", *options)
    assert done.returncode == code, done.stdout + done.stderr
