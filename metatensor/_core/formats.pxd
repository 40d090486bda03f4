cdef class MemoryFormatTag:
    cdef readonly str name
    cdef int code           # MemoryFormat in types.pxd

cdef class LayoutTag:
    cdef readonly str name

cdef LayoutTag STRIDED
