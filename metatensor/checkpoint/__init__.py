"""Read and write checkpoints: `load` and `save` tensors, or `inspect` a file without reading their data.

The format of a file is detected from its content, not from its name. A format is an object with the members of
`Format`. Other packages can add formats through the hook ``metatensor_checkpoint_formats``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.formats import Format
from metatensor.checkpoint.loading import inspect, load
from metatensor.checkpoint.map_location import Places
from metatensor.checkpoint.model import Checkpoint, TensorInfo
from metatensor.checkpoint.unsupported import UnsupportedTensor

if TYPE_CHECKING:
    from metatensor.checkpoint.converting import convert
    from metatensor.checkpoint.into import load_into
    from metatensor.checkpoint.saving import save

__all__ = [
    "Checkpoint", "CheckpointError", "Format", "Places", "TensorInfo", "UnsupportedTensor", "convert", "inspect", "load", "load_into",
    "save",
]  # fmt: skip

# Imported on first use: they need more modules than reading does.
_LAZY = {
    "convert": "metatensor.checkpoint.converting",
    "load_into": "metatensor.checkpoint.into",
    "save": "metatensor.checkpoint.saving",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_LAZY[name]), name)
    return found
