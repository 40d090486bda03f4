"""Memory formats and layouts, as arguments of functions."""
cimport cython
from metatensor._core.slots cimport forbid_new
from metatensor._core.types cimport (
    FORMAT_CHANNELS_LAST, FORMAT_CHANNELS_LAST_3D, FORMAT_CONTIGUOUS, FORMAT_PRESERVE,
)

from metatensor._core.dtype import spelling


@cython.final
cdef class MemoryFormatTag:
    """The order of the dimensions of a dense tensor in memory."""

    def __repr__(self):
        return f"{spelling()}.{self.name}"

    def __reduce__(self):
        return (_by_name, (self.name,))


@cython.final
cdef class LayoutTag:
    """The layout of a tensor in memory. Operators support only `strided`."""

    def __repr__(self):
        return f"{spelling()}.{self.name}"

    def __reduce__(self):
        return (_by_name, (self.name,))


cdef MemoryFormatTag _format(str name, int code):
    cdef MemoryFormatTag f = MemoryFormatTag.__new__(MemoryFormatTag)
    f.name = name
    f.code = code
    return f


cdef LayoutTag _layout(str name):
    cdef LayoutTag t = LayoutTag.__new__(LayoutTag)
    t.name = name
    return t


contiguous_format = _format("contiguous_format", FORMAT_CONTIGUOUS)
preserve_format = _format("preserve_format", FORMAT_PRESERVE)
channels_last = _format("channels_last", FORMAT_CHANNELS_LAST)
channels_last_3d = _format("channels_last_3d", FORMAT_CHANNELS_LAST_3D)
STRIDED = _layout("strided")
strided = STRIDED
sparse_coo = _layout("sparse_coo")
sparse_csr = _layout("sparse_csr")
sparse_csc = _layout("sparse_csc")
sparse_bsr = _layout("sparse_bsr")
sparse_bsc = _layout("sparse_bsc")
jagged = _layout("jagged")


def _by_name(str name not None):
    tag = globals().get(name)
    if not isinstance(tag, (MemoryFormatTag, LayoutTag)):
        raise ValueError(f"there is no memory format or layout {name!r}")
    return tag


forbid_new(MemoryFormatTag)
forbid_new(LayoutTag)
