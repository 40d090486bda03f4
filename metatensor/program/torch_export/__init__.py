"""Exported programs in ``.pt2`` files, which ``torch.export.save`` of PyTorch writes.

`load` returns an `ExportedModule`, which runs for all sizes that the file allows. `program_of`, and `metatensor.program.load`,
return the `Program` for the sizes at which it was exported.
"""

from metatensor.program.torch_export.archive import File, NotExported, is_archive, load, opened
from metatensor.program.torch_export.module import ExportedModule
from metatensor.program.torch_export.specialised import program_of

__all__ = ["ExportedModule", "File", "NotExported", "is_archive", "load", "opened", "program_of"]
