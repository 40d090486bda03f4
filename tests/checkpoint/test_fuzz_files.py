"""Read a few thousand changed files. `python tests/checkpoint/fuzz_files.py 100000` reads more."""

import pytest

from checkpoint import fuzz_files

pytest.importorskip("numpy")


@pytest.mark.slow
def test_changed_files(tmp_path):
    count = 2000
    tally, _, _ = fuzz_files.fuzz(count, seed=1, folder=tmp_path, limit=4 * fuzz_files.SECONDS)
    assert count // 3 < sum(refused for _, refused in tally.values()) < count
    assert all(refused for _, refused in tally.values())
