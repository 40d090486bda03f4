"""Numeric limits of dtypes: `finfo` and `iinfo`."""

from __future__ import annotations

import math
from typing import Any

from metatensor._core import dtype as _dtypes

__all__ = ["finfo", "iinfo"]

# name -> (bits of the fraction, exponent of the smallest normal number, largest number, decimal digits)
_FLOATS = {
    "float64": (52, -1022, math.ldexp(2 - 2.0**-52, 1023), 15),
    "float32": (23, -126, math.ldexp(2 - 2.0**-23, 127), 6),
    "float16": (10, -14, 65504.0, 3),
    "bfloat16": (7, -126, math.ldexp(2 - 2.0**-7, 127), 2),
    "float8_e5m2": (2, -14, 57344.0, 0),
    "float8_e4m3fn": (3, -6, 448.0, 0),
    "float8_e5m2fnuz": (2, -15, 57344.0, 0),
    "float8_e4m3fnuz": (3, -7, 240.0, 0),
    "float8_e8m0fnu": (0, -127, math.ldexp(1.0, 127), 0),
}
# PyTorch reports half of the spacing after 1 for this dtype.
_EPS = {"float8_e5m2fnuz": 0.125}
_INTS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


class finfo:
    """Numeric limits of a floating-point dtype.

    Parameters
    ----------
    type : dtype, optional
        A floating-point dtype, or a complex one, which stands for the dtype of its parts. Default: the default dtype.

    Attributes
    ----------
    bits : int
        The size of a number in bits.
    eps : float
        The difference between 1 and the next larger number. For float8_e5m2fnuz it is half of that, as in PyTorch.
    max, min : float
        The largest and the smallest number.
    tiny, smallest_normal : float
        The smallest positive number of full precision.
    resolution : float
        10**-d, where d is the number of decimal digits that the dtype can always represent.
    dtype : str
        The name of the dtype.

    Raises
    ------
    TypeError
        If `type` is not such a dtype.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.finfo(mt.float16).max
    65504.0
    """

    def __init__(self, type: Any = None) -> None:
        given = _dtypes.get_default_dtype() if type is None else type
        if not isinstance(given, _dtypes.DType):
            raise TypeError(f"finfo(): a dtype is needed, got {given!r}")
        name = given.to_real().name if given.is_complex else given.name
        if name not in _FLOATS:
            raise TypeError(f"finfo(): {name} is not a floating-point dtype; see iinfo")
        fraction, exponent, self.max, digits = _FLOATS[name]
        self.dtype = name
        self.bits = _dtypes.dtype_by_name(name).itemsize * 8
        self.eps = _EPS.get(name, math.ldexp(1.0, -fraction))
        self.tiny = self.smallest_normal = math.ldexp(1.0, exponent)
        self.min = self.tiny if name == "float8_e8m0fnu" else -self.max
        self.resolution = 10.0**-digits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        return f"finfo({', '.join(f'{n}={getattr(self, n):g}' for n in names)}, dtype={self.dtype})"


class iinfo:
    """Numeric limits of an integer dtype.

    Parameters
    ----------
    type : dtype
        A dtype from int8 to int64 or uint8 to uint64.

    Attributes
    ----------
    bits : int
        The size of a number in bits.
    max, min : int
        The largest and the smallest number.
    dtype : str
        The name of the dtype.

    Raises
    ------
    TypeError
        If `type` is not such a dtype.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.iinfo(mt.int8).max
    127
    """

    def __init__(self, type: Any) -> None:
        name = type.name if isinstance(type, _dtypes.DType) else repr(type)
        if not isinstance(type, _dtypes.DType) or name not in _INTS:
            raise TypeError(f"iinfo(): an integer dtype is needed, got {name}; see finfo")
        self.dtype = name
        self.bits = type.itemsize * 8
        self.max = 2 ** (self.bits - type.is_signed) - 1
        self.min = -self.max - 1 if type.is_signed else 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
