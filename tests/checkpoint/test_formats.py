"""Choosing the format, and formats that plugins bring."""

import io

import pytest

import metatensor as mt
from metatensor import checkpoint, plugins


class Lines:
    """A format of one tensor to a line, ``name size``."""

    name = "lines"
    suffixes = (".lines",)

    def matches(self, head, size):
        return head.startswith(b"LINES")

    def _read(self, file, name):
        if not file.read(6) == b"LINES\n":
            raise checkpoint.CheckpointError(name, "no LINES")
        return dict(line.split() for line in file.read().decode().splitlines())

    def inspect(self, file, name):
        infos = {key: checkpoint.TensorInfo("float32", (int(n),), 4 * int(n), 0) for key, n in self._read(file, name).items()}
        return checkpoint.Checkpoint(name, self.name, 0, infos)

    def load(self, file, name, place):
        return {key: mt.empty(int(n), device=place("cpu")) for key, n in self._read(file, name).items()}


@pytest.fixture
def lines(monkeypatch):
    monkeypatch.setattr(plugins, "formats", lambda: {"lines": Lines()})


def test_a_plugins_format_by_content(lines):
    assert mt.load(io.BytesIO(b"LINES\na 3\n"), "meta")["a"].shape == (3,)
    assert checkpoint.inspect(io.BytesIO(b"LINES\na 3\n")).parameters == 3


def test_a_plugins_format_by_name_only_for_the_message(lines, tmp_path):
    path = tmp_path / "x.lines"
    path.write_bytes(b"something else")
    with pytest.raises(checkpoint.CheckpointError, match=r"x\.lines: no LINES"):
        mt.load(path, "meta")


def test_the_message_lists_the_formats(lines):
    with pytest.raises(checkpoint.CheckpointError, match=r"safetensors, .*PyTorch \(zip\), .*lines"):
        mt.load(io.BytesIO(b"nothing that is known"), "meta")


def test_errors_carry_file_and_reason():
    error = checkpoint.CheckpointError("a.bin", "it is cut")
    assert (error.file, error.reason, str(error)) == ("a.bin", "it is cut", "a.bin: it is cut")
    assert isinstance(error, ValueError)
