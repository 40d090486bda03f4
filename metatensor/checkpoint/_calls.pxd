from metatensor.checkpoint._keys cimport HashTableModel
from metatensor.checkpoint._stack cimport Stack
from metatensor.checkpoint._values cimport Inert, Known, Marker


cdef class Calls(Stack):
    cdef readonly object source         # for use by handlers; the machine ignores it
    cdef dict table                     # b"module\nname" -> a value or a Known
    cdef dict allowed                   # like `table`, for names that the user allows
    cdef set callables                  # ids of the allowed objects that this pickle has named
    cdef dict builders                  # type -> callable(machine, instance, state)
    cdef object persist                 # callable(machine, id) -> value, or None
    cdef readonly dict unknown          # unknown name -> offset of its first use
    cdef readonly bint tolerant         # whether unknown names are accepted
    cdef dict hash_models              # id of a container -> its HashTableModel
    cdef HashTableModel latest       # the HashTableModel used last

    cdef object quick(self, Known known, tuple args)
    cdef object persistent(self, object id)
    cdef object value_of(self, Marker marker)
    cdef object call(self, object function, object args, bint new)
    cdef int put(self, object mapping, object key, object value) except -1
    cdef HashTableModel hash_model(self, object container, object key)
    cdef int add(self, object target, object key) except -1
    cdef int attribute(self, object cls, object name) except -1
    cdef object named(self, bytes key)
    cdef object global_(self)
    cdef object stack_global(self)
    cdef object plain(self, object value)
    cdef object kept(self, Inert unknown, object args)
    cdef int keep(self, object unknown, object more) except -1
    cdef object guarded(self, str name, object function, tuple args, dict kwargs=*)
    cdef object with_keywords(self)
    cdef int build(self) except -1
    cdef int attributes(self, object mapping, object state) except -1
