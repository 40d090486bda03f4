"""Tests of the workspaces that libraries document."""

from __future__ import annotations

import pytest

from metatensor.analysis import workspaces
from metatensor.analysis.workspaces import Workspaces

MIB = 1 << 20


def test_sizes_are_those_that_the_libraries_document():
    assert workspaces("h100") == Workspaces(64 * MIB)
    assert workspaces("a100-80gb") == workspaces("b200") == Workspaces(2 * (2 * 4096 + 8 * 16) * 1024)
    assert workspaces("a100-80gb", transformer_engine=True).engine == 4 * MIB
    assert workspaces("b200", transformer_engine=True).engine == 32 * MIB
    assert workspaces("h100", grouped=True).engine == 5 * 32 * MIB


def test_a_setting_replaces_the_default_on_all_devices():
    assert workspaces("a100-80gb", setting=":4096:8") == workspaces("h100", setting=":4096:8") == Workspaces(64 * MIB)
    assert workspaces("h100", setting=":0:0").total == 0
    assert workspaces("h100", threads=1).cublas == 32 * MIB


def test_other_vendors_have_none():
    assert workspaces("mi300x", transformer_engine=True).total == 0


@pytest.mark.parametrize("setting", ["4096:8", ":4096", ":a:b", ""])
def test_a_setting_that_is_none(setting):
    with pytest.raises(ValueError, match="pairs of KiB and a number"):
        workspaces("h100", setting=setting)
