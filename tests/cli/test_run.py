"""``metatensor run``, and ``--torch`` of the other commands."""

import sys

import pytest

from cli.test_process import python

pytest.importorskip("click")
pytest.importorskip("rich")
pytestmark = pytest.mark.slow

SCRIPT = """
import sys
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.fc = nn.Linear(3, width)

    def forward(self, x):
        return self.fc(x)


if __name__ == "__main__":
    print(sys.argv[1:], torch.empty(1).device, Net()(torch.ones(2, 3)).shape)
    sys.exit(7)
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_run(script):
    result = python("-m", "metatensor", "run", "--device", "meta", str(script), "--layers", "12", "-x")
    assert result.returncode == 7, result.stderr
    assert result.stdout.strip() == "['--layers', '12', '-x'] meta torch.Size([2, 4])"


def test_run_a_module(script):
    result = python("-m", "metatensor", "run", "-m", "script", "a", cwd=script.parent)
    assert (result.returncode, result.stdout.split()[0]) == (7, "['a']"), result.stderr


def test_bad_calls(script):
    for arguments, words in ((["no_such.py"], "no file"), (["--device", "a:b:c", str(script)], "--device")):
        result = python("-m", "metatensor", "run", *arguments)
        assert result.returncode == 2 and words in result.stderr


@pytest.mark.parametrize("command", ["estimate", "check"])
def test_torch(script, command):
    result = python("-m", "metatensor", command, "--torch", f"{script}:Net", "--args", "width=5", "--input", "float32[2,3]")
    assert result.returncode == 0, result.stderr
    assert "20" in result.stdout
    if "torch" not in sys.modules:
        result = python("-m", "metatensor", command, f"{script}:Net", "--input", "float32[2,3]")
        assert result.returncode in (0, 1)
