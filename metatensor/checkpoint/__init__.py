"""Checkpoints: `load` their tensors onto any device, or `inspect` what is in them without reading it.

Which format a file has is decided by its content, never by its name. A format is an object with the four members
of `Format`; other packages add theirs through the hook ``metatensor_checkpoint_formats``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.formats import Format
from metatensor.checkpoint.loading import inspect, load
from metatensor.checkpoint.model import Checkpoint, TensorInfo
from metatensor.checkpoint.places import Places
from metatensor.checkpoint.unsupported import UnsupportedTensor

if TYPE_CHECKING:
    from metatensor.checkpoint.converting import convert
    from metatensor.checkpoint.into import load_into
    from metatensor.checkpoint.saving import save

__all__ = [
    "Checkpoint", "CheckpointError", "Format", "Places", "TensorInfo", "UnsupportedTensor", "convert", "inspect", "load", "load_into",
    "save",
]  # fmt: skip

# Loaded when first asked for: they need more than reading does.
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
