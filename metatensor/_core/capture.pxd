from cpython.object cimport PyObject
from metatensor._core.device cimport Device
from metatensor._core.dtype cimport DType
from metatensor._core.modes cimport Mode
from metatensor._core.op cimport Call, Op, Overload
from metatensor._core.storage cimport Storage
from metatensor._core.tensor cimport Tensor
from metatensor._core.thread cimport ThreadState
from metatensor._core.types cimport dim_t


cdef class Value:
    cdef readonly int number            # values are numbered in the order in which they appear
    cdef readonly int storage           # storages likewise
    cdef readonly dim_t offset          # in elements
    cdef readonly tuple shape, stride
    cdef readonly DType dtype
    cdef readonly Device device
    cdef int flags                      # T_CONJ | T_NEG
    cdef readonly bint requires_grad
    cdef long long key                  # during a capture: what identifies the storage


cdef class ProgramCall:
    cdef readonly Op op
    cdef readonly tuple args
    cdef readonly dict kwargs
    cdef readonly object result         # a Value, a tuple or list of them, or None
    cdef readonly tuple writes          # the values among the arguments to which it writes
    cdef readonly bint grad             # whether grad mode was enabled
    cdef readonly bint backward         # whether a backward pass was running
    cdef readonly int module            # the number of the module that was running
    cdef readonly long long first, last     # the numbers of operators that had run before it and after it
    cdef object code
    cdef int instruction


cdef class Ticket:
    cdef readonly object generator      # the Generator, or None for the default one
    cdef readonly long long number      # counted from the generator's first ticket after the capture began


cdef enum:
    RECENT = 256                         # a power of two


cdef struct Recent:
    size_t address                      # of a tensor
    PyObject* value                     # borrowed from `by_object`


cdef class Capture(Mode):
    cdef readonly list calls
    cdef readonly list leaves           # pairs of a Value and the tensor that existed before
    cdef readonly list reads            # the calls that read values as Python numbers
    cdef readonly list storages         # for each storage its number in memory logs, or 0 if it existed before
    cdef public int module
    cdef list used                      # for each storage the index of the last call that took it
    cdef list copies                    # the calls that `copied` has added
    cdef list nodes, callers            # before each call that may make a node of the graph: the latest node, and the module
    cdef dict by_object                 # address of a tensor -> its latest value
    cdef Recent recent[RECENT]            # some of `by_object`, found faster
    cdef dict by_storage                # what identifies a storage -> the list of its values
    cdef list generators                # pairs of a Generator and its state when it was first used
    cdef set held                       # the storages of the leaves
    cdef set inputs                     # those of the arguments
    cdef int n_values
    cdef long long begun                # what `next_capture` returned
    cdef readonly DType default_dtype   # when the capture was made

    cdef long long key_of(self, Storage s)
    cdef PyObject* latest(self, size_t address) except? NULL
    cdef Value existing(self, Tensor t, long long key, list others)
    cdef int remember(self, size_t address, Value v) except -1
    cdef list counted_late(self, Tensor t, long long key)
    cdef int view_of_storage(self, Value v, list others) except -1
    cdef Value of_dtype(self, Value v, list others)
    cdef int add_view(self, str name, tuple args, Value result) except -1
    cdef Value of_storage(self, Storage s, DType dtype)
    cdef tuple with_dtype(self, Call* c, tuple args, dict kwargs, object result)
    cdef tuple with_source(self, Call* c, tuple args)
    cdef tuple with_ticket(self, Overload ov, int slot, tuple args, dict kwargs, Ticket ticket)
    cdef int calling_module(self, ThreadState state) except -1
    cdef Value value_of(self, Tensor t, bint made)
    cdef object encode(self, object argument)
    cdef tuple written(self, Call* c)
    cdef object results(self, Call* c, object result)
    cdef int copied(self, Tensor t, Tensor copy) except -1
    cdef Ticket ticket(self, object generator, tuple taken)
