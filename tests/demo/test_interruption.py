"""A storm that is cut short cleans up behind itself."""

from __future__ import annotations

import signal
import sys
import tempfile
from typing import TYPE_CHECKING

import pytest

from duly.cli.main import main
from duly.demo.command import Quit, Signals
from tests.demo.storms import Storm
from tests.support.processes import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

BEGUN = "the storm: "


@pytest.fixture
def storm(tmp_path: Path) -> Storm:
    """One that has begun, and would last for long."""
    begun = Storm(tmp_path, "--seconds", "600", "--workers", "1", "--ingress", "1")
    begun.read_until(BEGUN)
    return begun


def test_ctrl_c_ends_the_faults_and_still_balances_the_books(storm: Storm) -> None:
    storm.process.send_signal(signal.SIGINT)

    output = storm.end()

    assert storm.process.returncode == 0, output
    assert "✓" in output
    assert "✗" not in output
    assert storm.left_behind() == []


def test_a_request_to_end_leaves_nothing_behind(storm: Storm) -> None:
    storm.process.send_signal(signal.SIGTERM)

    assert "✓" not in storm.end()
    assert storm.process.returncode == 128 + signal.SIGTERM
    assert storm.left_behind() == []


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_processes_and_folder_go_even_if_the_orchestrator_is_killed(storm: Storm) -> None:
    assert storm.processes()

    storm.process.kill()
    storm.end()

    until(lambda: storm.left_behind() == [] or None)


def test_a_reader_that_stops_reading_ends_it(storm: Storm) -> None:
    assert storm.process.stdout is not None
    storm.process.stdout.close()

    assert storm.process.wait() == 141
    assert storm.process.stderr is not None
    assert storm.process.stderr.read() == ""
    storm.process.stderr.close()
    assert storm.left_behind() == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["memory:"], "sqlite:///path/to/new.db or postgresql://"),
        (["--cluster", "data"], "--cluster is for a server"),
        (["--workers", "0"], "from 1 to 16"),
        (["--seconds", "5", "--deliveries", "5"], "not allowed with"),
    ],
)
def test_what_cannot_work_is_refused_with_the_remedy(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert refused(arguments) == 2
    assert said in capsys.readouterr().err


def test_a_file_that_is_there_already_is_not_touched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    precious = tmp_path / "shop.db"
    precious.write_text("precious")

    assert refused([f"sqlite:///{precious}"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert precious.read_text() == "precious"
    assert [*tmp_path.iterdir()] == [precious]


def refused(arguments: list[str]) -> int | str | None:
    """The exit code of a command that does not begin."""
    try:
        return main(["demo", *arguments])
    except SystemExit as ending:  # of argparse
        return ending.code


def test_the_first_ctrl_c_hurries_and_the_second_quits() -> None:
    with Signals() as signals:
        assert not signals.is_interrupted()
        signal.raise_signal(signal.SIGINT)
        assert signals.is_interrupted()
        with pytest.raises(Quit) as quitting:
            signal.raise_signal(signal.SIGINT)
    assert quitting.value.code == 128 + signal.SIGINT
