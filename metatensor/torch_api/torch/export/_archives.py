"""Exported programs in ``.pt2`` files that PyTorch wrote."""

from __future__ import annotations

import copy
from typing import Any

from metatensor.program import torch_export
from metatensor.torch_api.torch.export.exported_program import ExportedProgram

__all__ = ["ArchivedProgram", "load_archive"]


class _Module(torch_export.ExportedModule):
    """A module of a ``.pt2`` file, as ``ExportedProgram.module()`` returns it."""

    mismatch = AssertionError

    def train(self, mode: bool = True) -> Any:
        """Raise NotImplementedError: the mode was fixed at export."""
        raise NotImplementedError("an exported module keeps the mode in which it was exported; call train() or eval() before export")

    def eval(self) -> Any:
        """Raise NotImplementedError: the mode was fixed at export."""
        return self.train(False)


class ArchivedProgram(ExportedProgram):
    """An exported program of a file that PyTorch wrote.

    Its graph has the sizes of the example at export. `module` returns a module for all sizes that the file allows.

    Parameters
    ----------
    file : File
        The file.
    extra : dict, optional
        The extra files are written into this dict.
    """

    def __init__(self, file: torch_export.File, extra: dict[str, Any] | None) -> None:
        self._module = file.module(None, extra, _Module)
        program = torch_export.program_of(file, self._module, warn=False)
        kinds, tensors = dict(program.kinds), dict(program.tensors)
        persistent = [name for name, kept in file.persistent.items() if not kept and name in kinds]
        super().__init__(program.replace(kinds=kinds, tensors=tensors), file.names, persistent, file.sample())
        self.range_constraints.update(self._module.range_constraints)

    @property
    def state_dict(self) -> dict[str, Any]:
        """The parameters and persistent buffers by name, including those that no call uses."""
        return dict(self._module.state_dict(keep_vars=True))

    def module(self, check_guards: bool = True) -> Any:
        """Return a module with the arguments of the exported one. Its parameters are copies.

        Parameters
        ----------
        check_guards : bool
            Has no effect: sizes, dtypes and values that the file does not allow always raise AssertionError.
        """
        return copy.deepcopy(self._module)

    def __deepcopy__(self, memo: Any) -> ExportedProgram:
        made: Any = copy.copy(self)
        made._module = copy.deepcopy(self._module, memo)
        return made  # type: ignore[no-any-return]


def load_archive(f: Any, extra_files: dict[str, Any] | None) -> ExportedProgram | None:
    """Return the exported program of a file, or None if PyTorch did not write it."""
    start = f.tell() if hasattr(f, "tell") else 0
    try:
        with torch_export.opened(f) as file:
            return ArchivedProgram(file, extra_files)
    except torch_export.NotExported:
        if hasattr(f, "seek"):
            f.seek(start)
        return None
