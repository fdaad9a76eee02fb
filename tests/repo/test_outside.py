"""What users can name changes on purpose only: it is compared with a snapshot."""

import pytest

from tests.repo.render_outside import FOLDER, SNAPSHOTS

REMEDY = "if that is meant: python -m tests.repo.render_outside, and read the diff"


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_what_users_can_name_is_what_the_snapshot_says(name: str) -> None:
    kept = FOLDER.joinpath(f"{name}.txt").read_text().splitlines()
    assert list(SNAPSHOTS[name]()) == kept, REMEDY
