"""Files of traced and scripted functions and modules."""

from __future__ import annotations

import os
from typing import Any

import metatensor as mt
from metatensor.checkpoint import CheckpointError
from metatensor.checkpoint import inspect as inspect_file
from metatensor.torch_api.torch.jit._archives import load_archive
from metatensor.torch_api.torch.jit._programs import load_program

__all__ = ["load", "save"]


def save(m: Any, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
    """Save the result of `trace` or `script`.

    The file has metatensor's format for programs (see `metatensor.program.Program.save`). It is not a TorchScript archive: PyTorch
    cannot read it.

    Parameters
    ----------
    m : ScriptModule or ScriptFunction
        The function or module.
    f : str, path or binary file
        Where to write.
    _extra_files : dict, optional
        Further contents by name, which `load` returns.

    Raises
    ------
    AttributeError
        If `m` is neither traced nor scripted.
    torch.jit.Error
        If `m` is scripted, and either was not called yet or has branches that depend on values.
    """
    if not hasattr(m, "save_to_buffer"):
        raise AttributeError(f"torch.jit.save: expected the result of torch.jit.trace or torch.jit.script, got {type(m).__name__}")
    m.save(f, _extra_files)


def load(f: Any, map_location: Any = None, _extra_files: dict[str, Any] | None = None, _restore_shapes: bool = False) -> Any:
    """Read a function or module that `save` or PyTorch's ``torch.jit.save`` wrote, without its source.

    No Python code in the file is executed. The code of a TorchScript archive is interpreted; a call of an operator that metatensor
    does not have raises NotImplementedError. ``missing_operators`` of the module lists such operators.

    Parameters
    ----------
    f : str, path or binary file
        The file.
    map_location : device, optional
        Where parameters, buffers and constants are placed. Default: cpu, and meta for those that were saved without data.
    _extra_files : dict, optional
        The keys name extra contents of the file. The values are replaced by these contents, as bytes.

    Raises
    ------
    RuntimeError
        If the file is neither a program nor a TorchScript archive, or is damaged.
    ValueError
        If there is no such file.
    """
    if isinstance(f, (str, os.PathLike)) and not os.path.isfile(f):
        raise ValueError(f"torch.jit.load: there is no file {os.fspath(f)}")
    if map_location is not None and not isinstance(map_location, (str, mt.device)):
        raise TypeError(f"torch.jit.load: expected a device as map_location, got {type(map_location).__name__}")
    name = os.fspath(f) if isinstance(f, (str, os.PathLike)) else str(getattr(f, "name", "the file"))
    start = f.tell() if hasattr(f, "tell") else None
    try:
        return load_program(f, map_location, _extra_files, name)
    except CheckpointError as error:
        if start is not None:
            f.seek(start)
        if _is_archive(f):
            if start is not None:
                f.seek(start)
            try:
                return load_archive(f, map_location, _extra_files)
            except CheckpointError as damage:
                raise RuntimeError(f"torch.jit.load: {damage}") from damage
        raise RuntimeError(f"torch.jit.load: {error}") from error


def _is_archive(f: Any) -> bool:
    try:
        return inspect_file(f).format == "TorchScript"
    except (CheckpointError, OSError, TypeError):
        return False
