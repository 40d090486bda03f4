"""Modules of TorchScript archives, as `torch.jit.load` returns them."""

from __future__ import annotations

from typing import Any

from metatensor.program import torchscript
from metatensor.torch_api.torch.jit._programs import RecursiveScriptModule

__all__ = ["ArchivedModule", "load_archive"]


class ArchivedModule(torchscript.ScriptedModule, RecursiveScriptModule):
    """A module of an archive that PyTorch wrote. Its code is interpreted."""

    __getattr__ = torchscript.ScriptedModule.__getattr__

    def __init__(self, *args: Any) -> None:
        torchscript.ScriptedModule.__init__(self, *args)

    @property
    def program(self) -> Any:
        """Raise NotImplementedError: archive code is not tied to fixed shapes, so it is not a program."""
        raise NotImplementedError(
            f"{self.original_name}: the code of an archive is not a program; trace the module with metatensor.program.trace"
        )

    @property
    def inlined_graph(self) -> str:
        """The same as `graph`: calls of submodules are not inlined."""
        return self.graph

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Raise NotImplementedError: metatensor does not write TorchScript."""
        raise NotImplementedError("torch.jit.save: metatensor does not write TorchScript; copy the archive, or save the result of "
                                  "torch.jit.trace or metatensor.program.trace")  # fmt: skip


def load_archive(f: Any, device: Any, extra_files: dict[str, Any] | None) -> Any:
    """Return the module of an archive. Entries of `extra_files` that it does not have stay unchanged."""
    return torchscript.load(f, device=device, extra=extra_files, module_class=ArchivedModule)
