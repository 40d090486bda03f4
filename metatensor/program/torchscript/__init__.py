"""TorchScript archives, which ``torch.jit.save`` of PyTorch writes: their code is interpreted with metatensor's operators.

`load` returns a `ScriptedModule`. `metatensor.program.trace` turns it into a program.
"""

from metatensor.program.torchscript.archive import is_archive, load
from metatensor.program.torchscript.modules import ScriptedModule

__all__ = ["ScriptedModule", "is_archive", "load"]
