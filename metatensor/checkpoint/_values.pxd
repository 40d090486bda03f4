

cdef class Marker:
    """An object on the machine's stack that is not a value."""


cdef class Empty


cdef class Known(Marker):
    cdef readonly str name
    cdef readonly object call           # callable(machine, args) -> value; None if it cannot be called
    cdef readonly object value          # its meaning as an argument or a value; None if it has none
    cdef readonly bint new              # whether NEWOBJ may call it too
    cdef readonly int code              # code for `Machine.quick`; 0 if only `call` handles it
    cdef readonly Empty part            # placeholder for an empty container inside a tuple; usually None


cdef class Empty(Marker):
    cdef readonly Known known           # its constructor


cdef class Inert(Marker):
    cdef readonly str name


cdef class Kept(Inert):
    cdef public object state            # its arguments, items and state


cdef class Record:
    cdef readonly str name              # name of its class, which is defined only in the file
    cdef public object state            # set by BUILD


cdef str describe(object value)
cdef object survey(object root, double* steps)
cdef object replaced(object value, object value_of, dict done)
