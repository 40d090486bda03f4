"""Files of exported programs."""

from __future__ import annotations

import json
from typing import Any

from metatensor.checkpoint import CheckpointError
from metatensor.program import saving
from metatensor.program.sizes import saving as sized
from metatensor.torch_api.torch.export._archives import load_archive
from metatensor.torch_api.torch.export.exported_program import ExportedProgram

__all__ = ["load", "save"]

_NAMES = "torch.export.json"


def save(
    ep: ExportedProgram, f: Any, *, extra_files: dict[str, Any] | None = None, opset_version: dict[str, int] | None = None,
    pickle_protocol: int = 2,
) -> None:  # fmt: skip
    """Save an exported program. The file has metatensor's format (see `Program.save`), which PyTorch cannot read.

    Parameters
    ----------
    ep : ExportedProgram
        The program.
    f : str, path or binary file
        Where to write.
    extra_files : dict, optional
        Further contents by name, which `load` returns.
    opset_version, pickle_protocol
        Have no effect: the file has its own version number, and nothing in it is pickled.

    Raises
    ------
    TypeError
        If `ep` is not an exported program.
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"torch.export.save: expected an ExportedProgram, got {type(ep).__name__}")
    head = {"names": ep._names, "non_persistent": ep._non_persistent, "functional": ep._functional}
    write: Any = sized.save if isinstance(ep.program, sized.SizedProgram) else saving.save
    write(ep.program, f, extra={**(extra_files or {}), _NAMES: json.dumps(head)})


def load(
    f: Any, *, extra_files: dict[str, Any] | None = None, expected_opset_version: dict[str, int] | None = None
) -> ExportedProgram:
    """Read an exported program that `save` or PyTorch's ``torch.export.save`` wrote, without the source of its module.

    Parameters
    ----------
    f : str, path or binary file
        The file.
    extra_files : dict, optional
        The keys name extra contents of the file. The values are replaced by these contents.
    expected_opset_version
        Has no effect: the file contains its version.

    Raises
    ------
    CheckpointError
        If the file is not an exported program, or is damaged.
    NotImplementedError
        If a file of PyTorch calls operators that metatensor does not have. The message lists them.
    """
    archived = load_archive(f, extra_files)
    if archived is not None:
        return archived
    extra: dict[str, Any] = {**(extra_files or {}), _NAMES: None}
    program = saving.load(f, extra=extra)
    if extra_files is not None:
        extra_files.update({key: extra[key].decode() if isinstance(extra[key], bytes) else extra[key] for key in extra_files})
    try:
        head = {} if extra[_NAMES] is None else json.loads(extra[_NAMES])
        names, skipped, functional = head.get("names"), head.get("non_persistent", []), bool(head.get("functional", False))
        if names is not None and not all(isinstance(name, str) for name in (*names, *skipped)):
            raise TypeError
    except (ValueError, TypeError, AttributeError):
        raise CheckpointError(str(getattr(f, "name", f)), f"its member {_NAMES} is malformed") from None
    numbered = _numbered(program)
    if names is not None and len(names) != len(numbered):
        raise CheckpointError(str(getattr(f, "name", f)), f"it names {len(names)} arguments, but has {len(numbered)}")
    try:
        return ExportedProgram(program, numbered if names is None else names, skipped, functional=functional)
    except KeyError as error:
        raise CheckpointError(str(getattr(f, "name", f)), f"it replaces {error}, which it does not have") from None


def _numbered(program: Any) -> list[str]:
    """Return names for the arguments of a program that was saved without names."""
    from metatensor.torch_api.torch.export.exported_program import _opened
    from metatensor.utils import _pytree as pytree

    return [f"x{i}" for i, _ in enumerate(pytree.tree_leaves(_opened(program.arguments)))]
