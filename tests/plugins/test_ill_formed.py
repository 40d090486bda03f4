"""Packages with invalid entry points, names or metadata affect only themselves, and their names are escaped in output."""

import os
import subprocess
import sys

import pytest

import metatensor as mt

from .test_faults import device, install, run, site  # noqa: F401

pytestmark = pytest.mark.slow

pytest.importorskip("click")


def command(folder, *arguments, encoding="utf-8"):
    """Return the output of a command that sees the packages in a folder."""
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    environment = os.environ | {"PYTHONPATH": path, "PYTHONIOENCODING": f"{encoding}:strict", "COLUMNS": "300"}
    done = subprocess.run([sys.executable, "-m", "metatensor", *arguments], capture_output=True, env=environment)
    return done.returncode, done.stdout.decode(encoding), done.stderr.decode("utf-8", "replace")


def package(folder, dist, entry_points, metadata="Metadata-Version: 2.1\nName: {dist}\nVersion: 1\n"):
    info = folder / f"{dist}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(metadata.format(dist=dist))
    (info / "entry_points.txt").write_text(entry_points)


@pytest.mark.parametrize("content", ["[metatensor.devices]\nnothing equal\n", "no = section\n", "[metatensor.devices\nx = y\n", "\0\1\2"])
def test_a_malformed_file_of_entry_points(site, content):  # noqa: F811
    package(site, "broken", content)
    out = run(site, "import metatensor as mt; print(mt.ones(2, device='cpu').sum().item(), mt.empty(2, device='good').device)")
    assert out == "2.0 good"


def test_metadata_without_a_name(site):  # noqa: F811
    package(site, "nameless", "[metatensor.commands]\nx = nothing_there\n", metadata="Metadata-Version: 2.1\n")
    assert run(site, "import metatensor as mt; print(mt.ones(2, device='cpu').sum().item())") == "2.0"
    assert command(site, "devices")[0] == 0


def test_names_that_are_markup_or_move_the_cursor(site):  # noqa: F811
    groups = {"devices": "[/red] = a", "commands": "[bold]x\x1b[2J = b", "formats": "\x1b]0;t = c"}
    package(site, "markup", "".join(f"[metatensor.{group}]\n{line}\n" for group, line in groups.items()))
    code, out, err = command(site, "devices")
    assert code == 0, err
    assert "[/red]" in out and "\x1b" not in out
    assert command(site, "--help")[0] == 0
    unknown = "import metatensor as mt\ntry: mt.empty(2, device='nothing')\nexcept RuntimeError as error: print(error)"
    assert "\x1b" not in run(site, unknown)


def test_a_plugin_that_ends_the_process(site):  # noqa: F811
    install(site, "acme-quits", "acme_quits", "import sys; sys.exit(3)", "commands", "quits")
    install(site, "acme-leaves", "acme_leaves", "raise SystemExit", "devices", "leaves")
    code, out, err = command(site, "--help")
    assert code == 0 and "inspect" in out, err
    code, out, err = command(site, "devices")
    assert code == 0 and "SystemExit: 3" in out and "good" in out, err


def test_formats_that_are_none(site, tmp_path_factory):  # noqa: F811
    install(site, "acme-number", "acme_number", """
        from metatensor.hookspecs import hookimpl
        @hookimpl
        def metatensor_checkpoint_formats(register):
            register(3)
    """, "formats", "number")  # fmt: skip
    install(site, "acme-fails", "acme_fails", """
        from metatensor.hookspecs import hookimpl
        class Fails:
            name = "fails"
            suffixes = 3
            def matches(self, head, size):
                return 1 / 0
        @hookimpl
        def metatensor_checkpoint_formats(register):
            register(Fails())
    """, "formats", "fails")  # fmt: skip
    file = tmp_path_factory.mktemp("files") / "x.unknown"
    file.write_bytes(b"what is this")
    out = run(site, f"import metatensor as mt\ntry: mt.load({str(file)!r})\nexcept mt.checkpoint.CheckpointError: print('refused')")
    assert out == "refused"


def test_a_terminal_without_the_letters(tmp_path):
    mt.save({"Ω.\x1b[31m重み": mt.ones(2, device="cpu")}, tmp_path / "重み.safetensors")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment |= {"PYTHONIOENCODING": "ascii:strict", "PYTHONUTF8": "1"}
    file = "重み.safetensors"
    for arguments in (["inspect", "."], ["inspect", ".", "--tree"], ["inspect", file, "--json"], ["convert", file, "Ω.npz"]):
        done = subprocess.run([sys.executable, "-m", "metatensor", *arguments], capture_output=True, env=environment, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert b"\x1b" not in done.stdout and done.stdout.isascii()


def test_names_of_devices_are_bounded():
    with pytest.raises(RuntimeError, match="invalid device string"):
        mt.device("d" * 65)
    program = """
import metatensor as mt
from metatensor._core import device
refused = 0
for i in range(10**4):
    try:
        mt.device(f"made_up_{i}")
    except RuntimeError as error:
        refused += 1
print("refused", refused, mt.device("cpu"))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})  # fmt: skip
    assert done.stdout.strip() == "refused 10000 cpu", done.stderr


def test_a_name_of_millions_of_characters(tmp_path):
    header = b'{"' + b"x" * 3_000_000 + b'.w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}'
    (tmp_path / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    for more in ([], ["--tree"]):
        code, out, err = command(tmp_path, "inspect", str(tmp_path / "x.safetensors"), *more)
        assert code == 0 and "characters)" in out and len(out) < 5000, err
