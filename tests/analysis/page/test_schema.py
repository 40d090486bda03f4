"""docs/report-schema.md names every key of the JSON form."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs/report-schema.md"
MAPS = {"flops_by_op", "flops_uncounted_ops", "resident", "by_op", "by_module", "source", "categories", "peak_by_category",
        "peak_by_operator", "peak_by_module", "peak_by_line", "inputs", "output"}  # fmt: skip


def keys_of(value):
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            if key not in MAPS:
                yield from keys_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from keys_of(item)


@pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not here")
def test_every_key_is_described(training, inference):
    described = set(re.findall(r"`([a-z_]+)`", PAGE.read_text(encoding="utf-8")))
    found = {key for report in (training, inference, training.profile) for key in keys_of(report.to_dict())}
    assert len(found) > 80 and found <= described, sorted(found - described)
