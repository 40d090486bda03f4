"""Type aliases for annotations."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, Any, Union

import metatensor as mt
from metatensor._core.device import Device as Device_

__all__ = ["Device", "FileLike", "IntLikeType", "Number", "Storage"]

Number = Union[int, float, bool]  # noqa: UP007  isinstance accepts it on Python 3.10 too
Device = Union[Device_, str, int, None]  # noqa: UP007
FileLike = Union[str, os.PathLike, IO[bytes]]  # noqa: UP007
Storage = mt.UntypedStorage
IntLikeType = BoolLikeType = FloatLikeType = Number
_TensorOrTensors = Union[mt.Tensor, Sequence[mt.Tensor]]  # noqa: UP007
_TensorOrTensorsOrGradEdge = Any
_dtype = mt.dtype
_device = mt.device
_size = Union[mt.Size, list, tuple]  # noqa: UP007
_layout = mt.layout
_int, _float, _bool, _complex, _qscheme = int, float, bool, complex, Any
_Number = (int, float, bool)
SymInt = int
