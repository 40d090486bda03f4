

cdef class Marker:
    """What stands on the machine's stack for something that is no value."""


cdef class Empty


cdef class Known(Marker):
    cdef readonly str name
    cdef readonly object call           # callable(machine, args) -> value; None where it may only be named
    cdef readonly object value          # what it stands for where it is an argument or a value; None for nothing
    cdef readonly bint new              # whether NEWOBJ may call it too
    cdef readonly int code              # what `Machine.quick` knows it by; 0 where `call` is all there is
    cdef readonly Empty part            # what an empty one is while it is an item of a tuple; None for most


cdef class Empty(Marker):
    cdef readonly Known known           # what makes one


cdef class Inert(Marker):
    cdef readonly str name


cdef class Kept(Inert):
    cdef public object state            # its arguments, items and state, whatever they were


cdef class Record:
    cdef readonly str name              # of its class, which is not here
    cdef public object state            # what BUILD gave it


cdef str describe(object value)
cdef object survey(object root, double* steps)
cdef object replaced(object value, object value_of, dict done)
