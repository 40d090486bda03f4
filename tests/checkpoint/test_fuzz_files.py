"""A few thousand changed files; `python tests/checkpoint/fuzz_files.py 100000` reads more."""

import pytest

from checkpoint import fuzz_files

pytest.importorskip("numpy")


def test_changed_files(tmp_path):
    count = 2000
    refused, slowest, _ = fuzz_files.fuzz(count, seed=1, folder=tmp_path)
    assert count // 3 < refused < count
    assert slowest < 4 * fuzz_files.SECONDS
