"""Safe handlers for NumPy's scalars, dtypes and arrays in pickles.

Only plain dtypes, and bytes of the right length, are accepted.
"""

from __future__ import annotations

import re
from math import prod
from typing import Any

from metatensor.checkpoint._values import Known

__all__ = ["names"]

PLAIN = re.compile(r"[<>|=]?(?:b1|[iu][1248]|f(?:2|4|8|16)|c(?:8|16|32)|[SU]\d{1,6})\Z")
SCALARS = (
    "bool", "bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128", "str_", "bytes_",
)  # fmt: skip


def names() -> dict[bytes, Any]:
    """Return NumPy's part of the table of known names. NumPy itself is imported only when a file uses it."""
    found: dict[bytes, Any] = {}

    def add(module: str, name: str, call: Any = None, value: Any = None) -> None:
        found[f"{module}\n{name}".encode()] = Known(f"{module}.{name}", call, value=value)

    for core in ("numpy.core", "numpy._core"):
        add(f"{core}.multiarray", "_reconstruct", _reconstruct)
        add(f"{core}.multiarray", "scalar", _scalar)
        add(f"{core}.numeric", "_frombuffer", _frombuffer)
    add("numpy", "ndarray")
    add("numpy", "dtype", _dtype)
    for name in SCALARS:
        add("numpy", name)
    return found


def _dtype(machine: Any, args: tuple[Any, ...]) -> Any:
    """Make a dtype from (code, align, copy). The pickle opcode BUILD sets its byte order later."""
    import numpy as np

    if not args or type(args[0]) is not str or not PLAIN.match(args[0]) or len(args) > 3:
        code = repr(args[0])[:40] if args and type(args[0]) is str else "what is given"
        raise machine.error(f"numpy.dtype: {code} is not a plain dtype of numbers, bools or strings")
    made = np.dtype(args[0], False, True)
    machine.add_builder(type(made), _set_dtype)
    return made


def _set_dtype(machine: Any, dtype: Any, state: Any) -> None:
    """Set the byte order of a dtype. All other fields of ``state`` must match the dtype."""
    own = dtype.__reduce__()[2]
    if type(state) is not tuple or len(state) < 8 or state[0] not in (3, 4) or state[1] not in ("<", ">", "|", "="):
        raise machine.error("the state of a dtype must be a tuple that begins with 3 or 4 and its byte order")
    if tuple(state[2:8]) != tuple(own[2:8]) or state[8:] not in ((), (None,), ({},)):
        raise machine.error("the fields or the size in the state of a dtype differ from those of the dtype")
    dtype.__setstate__((3, state[1], *own[2:8]))


def _checked(machine: Any, dtype: Any, shape: Any, data: Any) -> Any:
    """Return ``dtype`` after checking that ``data`` has exactly as many bytes as ``dtype`` and ``shape`` require."""
    import numpy as np

    if not isinstance(dtype, np.dtype) or dtype.hasobject or dtype.fields is not None:
        raise machine.error("an array must be of a plain dtype")
    if type(data) not in (bytes, bytearray, str):
        raise machine.error("the elements of an array must be bytes")
    if type(shape) is not tuple or len(shape) > 32 or any(type(size) is not int or not 0 <= size < 2**62 for size in shape):
        raise machine.error("the shape of an array must be a tuple of sizes")
    if prod(shape) * dtype.itemsize != len(data):
        raise machine.error(f"an array of {prod(shape):,} elements of {dtype.itemsize} bytes each cannot have {len(data):,} bytes")
    machine.charge(200 + len(data))
    return dtype


def _scalar(machine: Any, args: tuple[Any, ...]) -> Any:
    """Make a scalar from (dtype, bytes)."""
    import numpy as np

    if len(args) != 2:
        raise machine.error("a number of NumPy takes a dtype and its bytes")
    data = _raw(machine, args[1])
    return np.frombuffer(data, _checked(machine, args[0], (), data), 1)[0]


def _reconstruct(machine: Any, args: tuple[Any, ...]) -> Any:
    """Make an empty array from (class, shape, code). The pickle opcode BUILD fills it later."""
    import numpy as np

    if len(args) != 3 or not isinstance(args[0], Known) or args[0].name != "numpy.ndarray":
        raise machine.error("an array of NumPy must be of class numpy.ndarray")
    machine.add_builder(np.ndarray, _set_array)
    return np.empty(0, "i1")


def _set_array(machine: Any, array: Any, state: Any) -> None:
    """Fill an array from (version, shape, dtype, is_fortran, bytes)."""
    if type(state) is not tuple or len(state) != 5 or type(state[3]) not in (bool, int) or array.size:
        raise machine.error("the state of an array must be a tuple of version, shape, dtype, order and bytes, once")
    data = _raw(machine, state[4])
    array.__setstate__((1, state[1], _checked(machine, state[2], state[1], data), bool(state[3]), data))


def _frombuffer(machine: Any, args: tuple[Any, ...]) -> Any:
    """Make an array from (bytes, dtype, shape, order)."""
    import numpy as np

    if len(args) != 4 or args[3] not in ("C", "F"):
        raise machine.error("an array of NumPy takes bytes, a dtype, a shape and an order")
    data, dtype, shape, order = args
    data = bytes(data) if type(data) is bytearray else _raw(machine, data)
    return np.frombuffer(data, _checked(machine, dtype, shape, data)).reshape(shape, order=order)


def _raw(machine: Any, data: Any) -> bytes:
    """Return ``data`` as bytes. Pickles from Python 2 may hold it as a string."""
    if type(data) is str:
        machine.charge(len(data))
        return data.encode("latin-1")
    if type(data) is not bytes:
        raise machine.error("the elements of an array must be bytes")
    return data
