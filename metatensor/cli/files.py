"""What a file is, for messages about files of the wrong kind."""

from __future__ import annotations

import os
import warnings

import click

from metatensor.checkpoint.errors import printable

__all__ = ["check_folder", "is_onnx", "is_source", "kind_of"]

_HEAD = 4096


def kind_of(path: str) -> str:
    """Return what a file is, by its content: ``"a program"``, ``"an ONNX model"``, ``"a checkpoint (safetensors)"``, ``"a text file"``."""
    from metatensor.cli.programs import is_program

    if os.path.isdir(path):
        return "a folder"
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD)
    except OSError as error:
        return f"a file that cannot be read ({error.strerror or error})"
    if not head:
        return "an empty file"
    if is_program(path):
        return "a program"
    name = _format(path)
    if name == "onnx":
        return "an ONNX model"
    if head.startswith(b"PK"):
        return "a checkpoint (PyTorch)" if _opens(path) else "a zip file without a program or a checkpoint"
    if name is not None:
        return f"a checkpoint ({name})"
    return "a text file" if _is_text(head) else "a binary file of no known format"


def is_onnx(path: str) -> bool:
    """Return True if a file has the format of an ONNX model, whatever its name is."""
    return os.path.isfile(path) and _format(path) == "onnx"


def is_source(path: str) -> bool:
    """Return True if a file may be a script: text that is not named like a program or a model."""
    if path.lower().endswith((".mtp", ".pt2", ".onnx")):
        return False
    try:
        with open(path, "rb") as file:
            return _is_text(file.read(_HEAD)) or path.endswith((".py", ".pyc"))
    except OSError:
        return True  # Python says why


def check_folder(path: str, option: str) -> None:
    """Raise a usage error unless the folder of an output file exists."""
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise click.BadParameter(printable(f"there is no folder {folder!r} for {path!r}"), param_hint=option)


def _opens(path: str) -> bool:
    """Return True if a file is a checkpoint that can be listed."""
    from metatensor.checkpoint import CheckpointError, inspect

    try:
        inspect(path)
    except (CheckpointError, OSError):
        return False
    return True


def _is_text(head: bytes) -> bool:
    return b"\0" not in head


def _format(path: str) -> str | None:
    """Return the name of the checkpoint format that the beginning of a file has, or None."""
    from metatensor.checkpoint import CheckpointError
    from metatensor.checkpoint.formats import format_of

    try:
        with open(path, "rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            name: str = format_of(file, "").name  # without the name, so that only the content decides
            return name
    except (CheckpointError, OSError):
        return None
