"""Detection of formats, and formats of plugins."""

import io
import os

import pytest

import metatensor as mt
from metatensor import checkpoint, plugins


class Lines:
    """A format with one tensor per line, ``name size``."""

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


@pytest.mark.parametrize(("name", "content", "words"), [
    ("model.safetensors", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 123\n", "Git LFS.*git lfs pull"),
    ("pytorch_model.bin", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 123\n", "Git LFS"),
    ("model.pt", b"\n<!doctype html><html>404</html>", "HTML"),
    ("model.pt.gz", b"\x1f\x8b\x08" + bytes(60), "gzip"),
    ("model.h5", b"\x89HDF\r\n\x1a\n" + bytes(60), "HDF5"),
    ("model.pt", b"\x80\x04}\x94.", "a pickle without tensor data"),
])  # fmt: skip
def test_what_is_taken_for_a_checkpoint(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    for read in (mt.checkpoint.inspect, mt.load):
        with pytest.raises(checkpoint.CheckpointError, match=words):
            read(tmp_path / name)


def test_files_that_are_not_open_as_they_should_be(tmp_path):
    path = tmp_path / "a.pt"
    mt.save({"a": mt.empty(2, device="meta")}, path)
    with open(path, errors="replace") as file, pytest.raises(TypeError, match=r'a\.pt is open for text.*"rb"'):
        mt.load(file)
    out, into = os.pipe()
    os.close(into)
    with os.fdopen(out, "rb") as file, pytest.raises(io.UnsupportedOperation, match="cannot seek.*BytesIO"):
        mt.load(file)
    for thing in (None, 5, [path], object()):
        with pytest.raises(TypeError, match="expected a path, or a file"):
            mt.load(thing)
