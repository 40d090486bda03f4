"""Arrays and functions with the behaviour of CuPy's, based on NumPy. A device is represented only by its number.

`cupy_names.json`, which tools/cupy_names.py writes from a real CuPy, lists names, parameters and the dtypes of ufuncs.
Other differences from NumPy, as observed in CuPy 14, are implemented here: arrays are not converted to NumPy arrays
implicitly and do not mix with them; results are 0-d arrays where NumPy returns scalars; indices out of bounds wrap
around; floats beyond the range of integers are clamped; most methods of ufuncs are missing.
"""

import json
from pathlib import Path

import numpy as np

NAMES = json.loads(Path(__file__).with_name("cupy_names.json").read_text())
KINDS = "biufc"

# The dtypes that ufunc.at supports, which are those with atomic operations.
AT = {
    "add": "iILefd", "maximum": "iILfd", "minimum": "iILfd", "subtract": "iI",
    "bitwise_and": "iIlL", "bitwise_or": "iIlL", "bitwise_xor": "iIlL",
}  # fmt: skip
REDUCE = ACCUMULATE = ("add", "multiply")
TAKES_HOST = {"asarray", "array", "ascontiguousarray", "asanyarray", "asfortranarray", "asnumpy", "may_share_memory",
"shares_memory"}


def refuse_host(values, name):
    """Raise TypeError for NumPy arrays, as CuPy does. NumPy scalars are accepted."""
    for value in values:
        if isinstance(value, np.ndarray):
            raise TypeError(f"{name}: Unsupported type {type(value)}")
        if isinstance(value, (list, tuple)):
            refuse_host(value, name)


def bind(name, parameters, args, kwargs):
    """Raise TypeError for arguments that CuPy's function does not accept."""
    if parameters is None:
        return
    positional, keyword, only, rest, others = [], set(), False, False, False
    for item in parameters.split():
        if item.startswith("**"):
            others = True
        elif item == "*" or item.startswith("*"):
            rest |= len(item) > 1
            only = True
        else:
            keyword.add(item.rstrip("="))
            if not only:
                positional.append(item)
    if len(args) > len(positional) and not rest:
        raise TypeError(f"{name}() takes {len(positional)} positional arguments but {len(args)} were given")
    unknown = set(kwargs) - keyword
    if unknown and not others:
        raise TypeError(f"{name}() got an unexpected keyword argument {sorted(unknown)[0]!r}")
    if name == "einsum" and set(kwargs) - {"dtype", "optimize"}:
        raise TypeError(f"Did not understand the following kwargs: {sorted(kwargs)}")


def converted(values, dtype):
    """Convert NumPy values as a GPU does: floats beyond the range of an integer dtype are clamped, and NaN becomes 0."""
    dtype = np.dtype(dtype)
    if dtype.kind not in KINDS:
        raise TypeError(f"CuPy has no arrays of {dtype}")
    if values.dtype.kind == "c" and dtype.kind != "c" and dtype.kind != "b":
        values = values.real
    if values.dtype.kind == "f" and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        whole = np.nan_to_num(np.trunc(values.astype("f8")), nan=0.0, posinf=np.inf, neginf=-np.inf)
        low, high = whole <= float(limits.min), whole >= float(limits.max)
        result = np.where(low | high, 0, whole).astype(dtype)
        return np.where(high, dtype.type(limits.max), np.where(low, dtype.type(limits.min), result))
    return values.astype(dtype)


class Flags:
    """The flags c_contiguous, f_contiguous and owndata, and no others."""

    def __init__(self, array):
        self.c_contiguous = array._host.flags.c_contiguous
        self.f_contiguous = array._host.flags.f_contiguous
        self.owndata = array.base is None


class DevicePointer:
    def __init__(self, array):
        self.ptr = array._host.__array_interface__["data"][0]
        self.device_id = array._index


class ndarray:
    """An array on a stand-in device of the module ``home``. Its values are in ``_host``."""

    __slots__ = ("__weakref__", "_host", "_index", "base", "home")
    __array_priority__ = 100
    __hash__ = None

    def __init__(self, home, host, index, base=None):
        self.home, self._host, self._index, self.base = home, host, index, base
        if base is None:
            home.pool(index).take(host.nbytes)

    def __del__(self):
        if getattr(self, "base", self) is None:
            self.home.pool(self._index).give(self._host.nbytes)

    def _over(self, host):
        """Return a view of the same memory."""
        return ndarray(self.home, host, self._index, self if self.base is None else self.base)

    # NumPy protocols -------------------------------------------------------------------------

    def __array__(self, *args, **kwargs):
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array explicitly.")

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if method != "__call__":
            return NotImplemented
        return getattr(self.home, ufunc.__name__)(*inputs, **kwargs)

    def __array_function__(self, function, kinds, args, kwargs):
        return getattr(self.home, function.__name__)(*args, **kwargs)

    def get(self, stream=None, order="C", out=None, blocking=True):
        if out is not None:
            if not isinstance(out, np.ndarray) or out.dtype != self._host.dtype or out.shape != self._host.shape:
                raise ValueError("Shape or dtype mismatch")
            out[...] = self._host
            return out
        return np.array(self._host, order=order)

    def set(self, arr, stream=None):
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if arr.dtype != self._host.dtype or arr.shape != self._host.shape:
            raise ValueError("Shape or dtype mismatch")
        if not self._host.flags.c_contiguous and not self._host.flags.f_contiguous:
            raise RuntimeError("Cannot set to non-contiguous array")
        self._host[...] = arr

    # Attributes ------------------------------------------------------------------------------

    @property
    def device(self):
        return self.home.cuda.Device(self._index)

    @property
    def data(self):
        return DevicePointer(self)

    @property
    def flags(self):
        return Flags(self)

    @property
    def real(self):
        return self._over(self._host.real) if self._host.dtype.kind == "c" else self

    @real.setter
    def real(self, value):
        self.real[...] = value

    @property
    def imag(self):
        return self._over(self._host.imag) if self._host.dtype.kind == "c" else self.home.zeros_like(self)

    @imag.setter
    def imag(self, value):
        self.imag[...] = value

    @property
    def shape(self):
        return self._host.shape

    dtype = property(lambda self: self._host.dtype)
    ndim = property(lambda self: self._host.ndim)
    size = property(lambda self: self._host.size)
    strides = property(lambda self: self._host.strides)
    nbytes = property(lambda self: self._host.nbytes)
    itemsize = property(lambda self: self._host.itemsize)
    T = property(lambda self: self._over(self._host.T))
    mT = property(lambda self: self._over(self._host.mT))

    def __len__(self):
        return len(self._host)

    def __bool__(self):
        return bool(self._host)

    def __int__(self):
        return int(self._host)

    def __float__(self):
        return float(self._host)

    def __complex__(self):
        return complex(self._host)

    def __iter__(self):
        return (self[i] for i in range(len(self._host)))

    def __repr__(self):
        return repr(self._host)

    def __dlpack_device__(self):
        return (2, self._index)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        self.home.asked.append(("dlpack", stream))
        return self._host.__dlpack__(max_version=max_version, copy=copy)

    @property
    def __cuda_array_interface__(self):
        known = {key: value for key, value in self._host.__array_interface__.items() if key != "version"}
        return known | {"version": 3, "stream": 1}

    # Elements ----------------------------------------------------------------------------------

    def __getitem__(self, key):
        if any(isinstance(part, (ndarray, np.ndarray, list)) for part in (key if isinstance(key, tuple) else (key,))):
            self.home._check_place(self)  # views can be created while another device is current
        found = self._host[places(self, key)]
        if not isinstance(found, np.ndarray):
            found = self._host[(*places(self, key), ...)] if isinstance(key, tuple) else self._host[places(self, key), ...]
        if np.may_share_memory(found, self._host) and found.base is not None and found.size:
            return self._over(found)
        return self._over(found) if not found.size else ndarray(self.home, np.array(found), self.home.current)

    def __setitem__(self, key, value):
        if isinstance(value, np.ndarray) and value.ndim:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        if isinstance(value, (list, tuple)):
            raise TypeError(f"Unsupported type {type(value)}")
        self.home._check_place(self, value)
        if isinstance(value, ndarray):
            value = converted(value._host, self._host.dtype) if value.dtype != self.dtype else value._host
        with np.errstate(all="ignore"):
            self._host[places(self, key)] = value

    # Methods -----------------------------------------------------------------------------------

    def astype(self, dtype, order="K", casting=None, subok=None, copy=True):
        if casting is not None or subok is not None:
            raise TypeError("casting and subok are not supported yet")
        self.home._check_place(self)
        if not copy and np.dtype(dtype) == self.dtype:
            return self
        with np.errstate(all="ignore"):
            made = converted(self._host, dtype)
        return ndarray(self.home, np.array(made, order=order, copy=made is self._host or None), self._index)

    def view(self, dtype=None, type=None):
        if type is not None:
            raise NotImplementedError("view(): type")
        if dtype is not None and np.dtype(dtype).kind not in KINDS:
            raise TypeError(f"CuPy has no arrays of {dtype}")
        return self._over(self._host.view() if dtype is None else self._host.view(dtype))

    def copy(self, order="C"):
        """Copy to the current device. This is the only way to copy from another device."""
        return ndarray(self.home, np.array(self._host, order=order), self.home.current)

    def transpose(self, *axes):
        return self._over(self._host.transpose(*axes))

    def item(self, *args):
        return self._host.item(*args)

    def tolist(self):
        return self._host.tolist()

    def tobytes(self, order="C"):
        return self._host.tobytes(order)

    def fill(self, value):
        refuse_host((value,) if np.ndim(value) else (), "fill")
        self[...] = value

    def __getattr__(self, name):
        parameters = NAMES["cupy.ndarray"].get(name, "?")
        if parameters == "?" or name.startswith("_") or not hasattr(self._host, name):
            raise AttributeError(f"'cupy.ndarray' object has no attribute {name!r}")
        return Function(self.home, getattr(self._host, name), name, parameters and parameters.removeprefix("self").strip(), self)


def places(array, key):
    """Convert an index to one for NumPy. Indices that are out of bounds wrap around if they are in arrays."""
    parts = key if isinstance(key, tuple) else (key,)
    held = [part._host if isinstance(part, ndarray) else np.asarray(part) if isinstance(part, list) else part for part in parts]
    taken = sum(part.ndim if _is_mask(part) else part is not None and part is not Ellipsis for part in held)
    axis, found = 0, []
    for part in held:
        if part is Ellipsis:
            axis += array.ndim - taken
        elif isinstance(part, np.ndarray) and not _is_mask(part):
            if part.dtype.kind not in "iu":
                raise IndexError(f"arrays used as indices must be of integer or boolean type. (actual: {part.dtype})")
            size = array.shape[axis] if axis < array.ndim else 0
            part = part.astype(np.int64) % size if size and part.size else part
            axis += 1
        elif _is_mask(part):
            axis += part.ndim
        elif part is not None:
            axis += 1
        found.append(part)
    return tuple(found) if isinstance(key, tuple) else found[0]


def _is_mask(part):
    return isinstance(part, np.ndarray) and part.dtype.kind == "b"


def _operators():
    def forward(ufunc):
        def run(self, other):
            return getattr(self.home, ufunc)(self, other)
        return run

    def backward(ufunc):
        def run(self, other):
            return getattr(self.home, ufunc)(other, self)
        return run

    def inplace(ufunc):
        def run(self, other):
            getattr(self.home, ufunc)(self, other, self)
            return self
        return run

    for name, ufunc in {
        "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "floordiv": "floor_divide", "mod": "remainder",
        "pow": "power", "lshift": "left_shift", "rshift": "right_shift", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
        "matmul": "matmul",
    }.items():  # fmt: skip
        setattr(ndarray, f"__{name}__", forward(ufunc))
        setattr(ndarray, f"__r{name}__", backward(ufunc))
        if name != "matmul":
            setattr(ndarray, f"__i{name}__", inplace(ufunc))
    comparisons = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}
    for name, ufunc in comparisons.items():
        setattr(ndarray, f"__{name}__", forward(ufunc))
    for name, ufunc in {"neg": "negative", "pos": "positive", "invert": "invert", "abs": "absolute"}.items():
        setattr(ndarray, f"__{name}__", lambda self, ufunc=ufunc: getattr(self.home, ufunc)(self))


_operators()


class Function:
    """A function of NumPy or SciPy, or a method of the array ``of``, with CuPy's checks."""

    def __init__(self, home, function, name, parameters, of=None):
        self.home, self.function, self.__name__, self.parameters, self.of = home, function, name, parameters, of

    def __call__(self, *args, **kwargs):
        bind(self.__name__, self.parameters, args, kwargs)
        if self.__name__ not in TAKES_HOST:
            refuse_host((*args, *kwargs.values()), self.__name__)
        given = (*args, *kwargs.values()) if self.of is None else (self.of, *args, *kwargs.values())
        self.home._check_place(*given)
        self.check(args, kwargs)
        with np.errstate(all="ignore"):
            result = self.function(*map(bare, args), **{key: bare(value) for key, value in kwargs.items()})
        return self.home._own(result, given)

    def check(self, args, kwargs):
        """Reject arguments that NumPy accepts and CuPy does not."""
        if self.__name__ in ("zeros", "ones", "full", "broadcast_to", "reshape"):
            shape = kwargs.get("shape", args[-1] if self.__name__ in ("broadcast_to", "reshape") and args else args[:1])
            if any(isinstance(item, ndarray) for item in (*_sequence(shape), *(args if self.of is not None else ()))):
                raise TypeError("'ndarray' object cannot be interpreted as an integer")
        if self.__name__ == "repeat" and isinstance(args[1] if len(args) > 1 else kwargs.get("repeats"), ndarray):
            raise ValueError("cupy.ndaray cannot be specified as `repeats` argument.")
        if self.__name__ == "unique" and args[0].dtype.kind == "b" and kwargs.get("axis") is not None:
            raise TypeError("cupy boolean subtract, the `-` operator, is deprecated")
        if self.__name__ == "bincount" and not args[0].size:
            raise ValueError("zero-size array to reduction operation cupy_max which has no identity")
        if self.__name__ == "where" and not isinstance(args[0], (ndarray, np.generic)):
            raise AttributeError(f"{type(args[0]).__name__!r} object has no attribute 'astype'")
        if self.__name__ in ("concatenate", "stack", "isin", "searchsorted"):
            flat = args[0] if isinstance(args[0], (list, tuple)) else args[:1]
            if not all(isinstance(item, ndarray) for item in flat):
                raise TypeError(f"{self.__name__}: expected cupy.ndarray, got {type(flat[0])}")


def _sequence(value):
    return [part for item in value for part in _sequence(item)] if isinstance(value, (list, tuple)) else [value]


class Ufunc(Function):
    """An element-wise function for the dtypes ``types``."""

    def __init__(self, home, function, name, types):
        super().__init__(home, function, name, None)
        self.types = [loop for loop in types if "E" not in loop]  # complex half dtypes exist only inside CuPy
        ins, _, outs = types[0].partition("->")
        self.nin, self.nout = len(ins), len(outs)
        self.nargs = self.nin + self.nout

    def __call__(self, *args, out=None, dtype=None, casting="same_kind", **unknown):
        if unknown:
            raise TypeError(f"Wrong arguments {unknown}")
        refuse_host((*args, out), self.__name__)
        self.home._check_place(*args, out)
        if not self.nin <= len(args) <= self.nargs:
            raise TypeError(f"Wrong number of arguments for {self.__name__}: {len(args)}")
        inputs, outs = args[: self.nin], args[self.nin :]
        if out is not None:
            if outs:
                raise ValueError("Cannot specify 'out' as both a positional and keyword argument")
            outs = out if isinstance(out, tuple) else (out,)
        if not all(isinstance(item, (ndarray, type(None))) for item in outs):
            raise TypeError("return arrays must be of ArrayType")
        loop = self.loop(inputs) if dtype is None else None
        shape = np.broadcast_shapes(*(np.shape(bare(item)) for item in inputs))
        for item in outs:
            if item is not None and np.broadcast_shapes(item.shape, shape) != item.shape:
                raise ValueError("Out shape is mismatched")
        with np.errstate(all="ignore"):
            known = {} if dtype is None else {"dtype": dtype, "casting": casting if casting != "same_kind" else "unsafe"}
            result = self.function(*map(bare, inputs), **known)
            results = result if isinstance(result, tuple) else (result,)
            if loop is not None:
                results = tuple(np.asarray(item).astype(code, copy=False) for item, code in zip(results, loop, strict=True))
            made = []
            for position, item in enumerate(results):
                target = outs[position] if position < len(outs) else None
                if target is None:
                    made.append(self.home._own(np.asarray(item), ()))
                    continue
                if not np.can_cast(np.asarray(item).dtype, target.dtype, casting):
                    raise TypeError(f"output (typecode {item.dtype.char}) could not be coerced to provided output parameter "
                                    f"(typecode {target.dtype.char}) according to the casting rule \"{casting}\"")  # fmt: skip
                target[...] = self.home._own(np.asarray(item), ())
                made.append(target)
        return tuple(made) if isinstance(result, tuple) else made[0]

    def loop(self, inputs):
        """Return the result dtypes of the first loop that accepts the inputs."""
        for types in self.types:
            ins, _, outs = types.partition("->")
            if all(_fits(item, code) for item, code in zip(inputs, ins, strict=True)):
                return outs
        kinds = tuple(getattr(item, "dtype", type(item)) for item in inputs)
        if kinds and kinds[0] == np.dtype(bool) and self.__name__ in ("subtract", "negative"):
            raise TypeError(f"cupy boolean {self.__name__}, the `-` operator, is not supported")
        raise TypeError(f"Wrong type ({kinds}) of arguments for cupy_{self.__name__}")

    def at(self, a, indices, b=None):
        if self.__name__ not in AT:
            raise NotImplementedError(f"`cupy_{self.__name__}.at` is not supported yet")
        if a.dtype.char not in AT[self.__name__] + {"l": "q", "L": "Q"}.get(AT[self.__name__][-1], ""):
            raise TypeError(f"cupy.{self.__name__}.at only supports {AT[self.__name__]}, as data type")
        refuse_host((b,), "at")
        self.home._check_place(a, b)
        self.function.at(a._host, places(a, indices), bare(b))

    def _method(self, method, known, args, kwargs):
        if self.__name__ not in known:
            raise NotImplementedError(f"`cupy_{self.__name__}.{method}` is not supported yet")
        refuse_host((*args, *kwargs.values()), method)
        return self.home._own(getattr(self.function, method)(*map(bare, args), **{k: bare(v) for k, v in kwargs.items()}), args)

    def reduce(self, array, axis=0, dtype=None, out=None, keepdims=False):
        return self._method("reduce", REDUCE, (array,), {"axis": axis, "dtype": dtype, "out": out, "keepdims": keepdims})

    def accumulate(self, array, axis=0, dtype=None, out=None):
        return self._method("accumulate", ACCUMULATE, (array,), {"axis": axis, "dtype": dtype, "out": out})

    def reduceat(self, array, indices, axis=0, dtype=None, out=None):
        return self._method("reduceat", ("add",), (array, indices), {"axis": axis, "dtype": dtype, "out": out})

    def outer(self, A, B, **kwargs):
        return self._method("outer", (self.__name__,), (A, B), kwargs)


def _fits(value, code):
    """Return True if a loop accepts an argument. A Python number fits dtypes of its own kind and of higher kinds."""
    kind = np.dtype(code).kind
    if isinstance(value, (ndarray, np.generic)):
        return np.can_cast(value.dtype, code)
    if isinstance(value, (bool, int, float, complex)):
        order = "biufc"
        least = {bool: "b", int: "i", float: "f", complex: "c"}[type(value)]
        return order.index(kind) >= order.index(least)
    raise TypeError(f"Unsupported type {type(value)}")


def bare(value):
    """Return an argument in the form that is passed to NumPy."""
    if isinstance(value, ndarray):
        return value._host
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(map(bare, value))
    return value


