"""Data types and type promotion. The promotion table is PyTorch's."""
cimport cython

from metatensor._core.slots cimport forbid_new
from metatensor._core.types cimport KIND_BOOL, KIND_COMPLEX, KIND_FLOAT, KIND_INT, KIND_OTHER


# The library name in reprs. It is "torch" if metatensor replaces PyTorch: `torch.float32`.
_spelling = "metatensor"


def spelling():
    """Return the library name that reprs show."""
    return _spelling


def set_spelling(str name not None):
    """Set the library name in the reprs of dtypes, sizes, layouts and memory formats."""
    global _spelling
    _spelling = name


@cython.final
@cython.binding(False)
cdef class DType:
    """A data type. There is one object per data type: compare with `is`.

    Attributes
    ----------
    name : str
        The name, "float32".
    itemsize : int
        The size of one element in bytes.
    is_floating_point, is_complex, is_signed : bool
        The category of the numbers.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.float32.itemsize
    4
    """

    @property
    def is_floating_point(self):
        return self.kind == KIND_FLOAT

    @property
    def is_complex(self):
        return self.kind == KIND_COMPLEX

    def to_real(self):
        """Return the dtype of the real part: float32 for complex64. Return a dtype that is not complex unchanged."""
        return to_real(self)

    def to_complex(self):
        """Return the complex dtype whose parts have this dtype: complex64 for float32.

        Raises
        ------
        RuntimeError
            If there is no such dtype.
        """
        return to_complex(self)

    def __repr__(self):
        return f"{_spelling}.{self.name}"

    def __reduce__(self):
        return (dtype_by_name, (self.name,))

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


forbid_new(DType)

# (name, alias, itemsize, kind, signed), in the order of the enum in dtype.pxd
_TABLE = [
    ("uint8", None, 1, KIND_INT, 0), ("int8", None, 1, KIND_INT, 1),
    ("int16", "short", 2, KIND_INT, 1), ("int32", "int", 4, KIND_INT, 1),
    ("int64", "long", 8, KIND_INT, 1), ("float16", "half", 2, KIND_FLOAT, 1),
    ("float32", "float", 4, KIND_FLOAT, 1), ("float64", "double", 8, KIND_FLOAT, 1),
    ("complex32", "chalf", 4, KIND_COMPLEX, 1), ("complex64", "cfloat", 8, KIND_COMPLEX, 1),
    ("complex128", "cdouble", 16, KIND_COMPLEX, 1), ("bool", None, 1, KIND_BOOL, 0),
    ("qint8", None, 1, KIND_OTHER, 1), ("quint8", None, 1, KIND_OTHER, 0),
    ("qint32", None, 4, KIND_OTHER, 1), ("bfloat16", None, 2, KIND_FLOAT, 1),
    ("quint4x2", None, 1, KIND_OTHER, 0), ("quint2x4", None, 1, KIND_OTHER, 0),
    ("bits1x8", None, 1, KIND_OTHER, 0), ("bits2x4", None, 1, KIND_OTHER, 0),
    ("bits4x2", None, 1, KIND_OTHER, 0), ("bits8", None, 1, KIND_OTHER, 0),
    ("bits16", None, 2, KIND_OTHER, 0),
    ("float8_e5m2", None, 1, KIND_FLOAT, 1), ("float8_e4m3fn", None, 1, KIND_FLOAT, 1),
    ("float8_e5m2fnuz", None, 1, KIND_FLOAT, 1), ("float8_e4m3fnuz", None, 1, KIND_FLOAT, 1),
    ("uint16", None, 2, KIND_INT, 0), ("uint32", None, 4, KIND_INT, 0),
    ("uint64", None, 8, KIND_INT, 0),
] + [(f"uint{n}", None, 1, KIND_OTHER, 0) for n in range(1, 8)] \
  + [(f"int{n}", None, 1, KIND_OTHER, 1) for n in range(1, 8)] + [
    ("float8_e8m0fnu", None, 1, KIND_FLOAT, 0), ("float4_e2m1fn_x2", None, 1, KIND_FLOAT, 1),
]

cdef list _dtypes = []
_by_name = {}


cdef _fill():
    cdef DType d
    for code, (name, alias, itemsize, kind, signed) in enumerate(_TABLE):
        d = DType.__new__(DType)
        d.code = code
        d.name = name
        d.alias = alias
        d.itemsize = itemsize
        d.kind = kind
        d.is_signed = signed
        _dtypes.append(d)
        _by_name[name] = d
        if alias is not None:
            _by_name[alias] = d
    assert len(_dtypes) == N_DTYPES

_fill()


def dtype_by_name(str name not None):
    """Return the dtype with a name or alias, such as "float32" or "float". Raise ValueError for an unknown name."""
    try:
        return _by_name[name]
    except KeyError:
        raise ValueError(f"unknown dtype {name!r}") from None


def names():
    """Return a dict from every name and alias to its dtype."""
    return dict(_by_name)


cdef DType by_code(int code):
    return <DType>_dtypes[code]


# Promotion ------------------------------------------------------------------

cdef int _join(int a, int b):
    """Return the code that two dtype codes promote to, or -1 if PyTorch defines none."""
    cdef DType x = by_code(a), y = by_code(b)
    if a == b:
        return a
    if x.kind == KIND_OTHER or y.kind == KIND_OTHER:
        return -1
    eights = (F8E5M2, F8E4M3FN, F8E5M2FNUZ, F8E4M3FNUZ, F8E8M0)
    if a in eights or b in eights:
        return -1
    # uint16, uint32 and uint64 promote only with floating-point dtypes
    wide = (U16, U32, U64)
    if (a in wide and y.kind != KIND_FLOAT) or (b in wide and x.kind != KIND_FLOAT):
        return -1
    if a in wide or b in wide:
        return b if a in wide else a
    if a == F4E2M1X2 or b == F4E2M1X2:
        return -1
    if x.kind < y.kind:
        a, b, x, y = b, a, y, x
    # now x has the higher category
    if x.kind == KIND_COMPLEX:
        if y.kind == KIND_COMPLEX:
            return max(a, b)
        if b == F64:
            return C128
        if a == C32 and b in (F32, BF16):
            return C64
        return a
    if x.kind == KIND_FLOAT:
        if y.kind != KIND_FLOAT:
            return a
        if (a == F16 and b == BF16) or (a == BF16 and b == F16):
            return F32
        if a in (F16, BF16):
            return b
        if b in (F16, BF16):
            return a
        return max(a, b)
    if y.kind == KIND_BOOL:
        return a
    if a == U8 or b == U8:
        other = b if a == U8 else a
        return I16 if other == I8 else other
    return max(a, b)


cdef _fill_promotion():
    cdef int a, b
    for a in range(N_DTYPES):
        for b in range(N_DTYPES):
            promotion[a][b] = _join(a, b)

_fill_promotion()


cdef DType promote(DType a, DType b):
    cdef int code
    if a is b:
        return a
    code = promotion[a.code][b.code]
    if code < 0:
        raise RuntimeError(f"promotion of {a.name} with {b.name} is not supported")
    return by_code(code)


cdef DType to_real(DType a):
    if a.kind != KIND_COMPLEX:
        return a
    return by_code(F16 if a.code == C32 else F32 if a.code == C64 else F64)


cdef DType to_complex(DType a):
    if a.kind == KIND_COMPLEX:
        return a
    if a.code == F16:
        return by_code(C32)
    if a.code == F32 or a.code == BF16:
        return by_code(C64)
    if a.code == F64:
        return by_code(C128)
    raise RuntimeError(f"{a.name} has no complex counterpart")


cdef bint can_cast_to(DType source, DType to) noexcept:
    """Return True if PyTorch allows writing a result of dtype `source` to a tensor of dtype `to`."""
    if source.kind == KIND_COMPLEX and to.kind != KIND_COMPLEX:
        return False
    if source.kind == KIND_FLOAT and to.kind in (KIND_INT, KIND_BOOL):
        return False
    return not (source.kind == KIND_INT and to.kind == KIND_BOOL)


cdef int number_kind(object value) noexcept:
    """Return the DTypeKind of a Python number."""
    if value is True or value is False:
        return KIND_BOOL
    if isinstance(value, float):
        return KIND_FLOAT
    if isinstance(value, complex):
        return KIND_COMPLEX
    return KIND_INT


cdef DType of_number(object value):
    """Return the dtype of a tensor made from a Python number."""
    cdef int kind = number_kind(value)
    if kind == KIND_BOOL:
        return by_code(BOOL)
    if kind == KIND_INT:
        return by_code(I64)
    return default_float() if kind == KIND_FLOAT else default_complex()


# The default dtype is per process, as in PyTorch --------------------------------

cdef DType _default = by_code(F32)


cdef DType default_float():
    return _default


cdef DType default_complex():
    return to_complex(_default)


def get_default_dtype():
    """Return the default floating-point dtype, float32 unless `set_default_dtype` changed it.

    Tensors made from Python floats have this dtype.
    """
    return _default


def set_default_dtype(d):
    """Set the default floating-point dtype of the process.

    Parameters
    ----------
    d : dtype
        float16, bfloat16, float32 or float64.

    Raises
    ------
    TypeError
        If `d` is anything else.
    """
    global _default
    if not isinstance(d, DType) or (<DType>d).code not in (F16, BF16, F32, F64):
        raise TypeError(f"set_default_dtype: only floating-point types are supported, got {d!r}")
    _default = d


def promote_types(type1, type2):
    """Return the dtype that two dtypes promote to. The table is PyTorch's.

    Raises
    ------
    RuntimeError
        If no promotion is defined, for example between a float8 dtype and another, or between uint16 and int32.
    TypeError
        If an argument is not a dtype.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.promote_types(mt.int64, mt.float16)
    metatensor.float16
    """
    if not isinstance(type1, DType) or not isinstance(type2, DType):
        raise TypeError("promote_types: expected two dtypes, got "
                        f"{type(type1).__name__} and {type(type2).__name__}")
    return promote(<DType>type1, <DType>type2)


def can_cast(from_, to):
    """Return True if a result of dtype `from_` can be written to a tensor of dtype `to`.

    A complex dtype cannot be cast to a real one, a floating-point dtype not to an integer one or bool, and an integer
    dtype not to bool.

    Raises
    ------
    TypeError
        If an argument is not a dtype.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.can_cast(mt.int64, mt.float32), mt.can_cast(mt.float32, mt.int64)
    (True, False)
    """
    if not isinstance(from_, DType) or not isinstance(to, DType):
        raise TypeError("can_cast: expected two dtypes")
    return can_cast_to(<DType>from_, <DType>to)
