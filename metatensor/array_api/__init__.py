"""The Python array API standard, version 2024.12, for tensors on any device.

    xp = x.__array_namespace__()
    xp.mean(xp.abs(x), axis=0)

Functions have the standard's names, signatures and dtypes. Every function whose output shape does not depend on the
values of its inputs works on the meta device. The methods and operators of tensors follow PyTorch.
docs/interchange.md lists their differences from the standard.
"""

from math import e, inf, nan, pi

from metatensor import (
    bool,
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from metatensor.array_api import _creation, _elementwise, _manipulation, _reductions, _sets, fft, linalg
from metatensor.array_api._creation import *  # noqa: F403
from metatensor.array_api._dtypes import astype, can_cast, finfo, iinfo, isdtype, result_type
from metatensor.array_api._elementwise import *  # noqa: F403
from metatensor.array_api._info import __array_namespace_info__
from metatensor.array_api._manipulation import *  # noqa: F403
from metatensor.array_api._reductions import *  # noqa: F403
from metatensor.array_api._sets import *  # noqa: F403
from metatensor.array_api.linalg import matmul, matrix_transpose, tensordot, vecdot

__array_api_version__ = "2024.12"
newaxis = None

__all__ = [
    "__array_api_version__", "__array_namespace_info__", "astype", "bool", "can_cast", "complex128", "complex64", "e", "fft",
    "finfo", "float32", "float64", "iinfo", "inf", "int16", "int32", "int64", "int8", "isdtype", "linalg", "matmul",
    "matrix_transpose", "nan", "newaxis", "pi", "result_type", "tensordot", "uint16", "uint32", "uint64", "uint8", "vecdot",
    *_creation.__all__, *_elementwise.__all__, *_manipulation.__all__, *_reductions.__all__, *_sets.__all__,
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
