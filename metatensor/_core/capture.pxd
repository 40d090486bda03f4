from metatensor._core.device cimport Device
from metatensor._core.dtype cimport DType
from metatensor._core.integer_map cimport IntegerMap
from metatensor._core.modes cimport Mode
from metatensor._core.op cimport Call, Op, Overload
from metatensor._core.random cimport Generator
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
    cdef long long key                  # during a capture: what identifies the storage,
    cdef int older                      # and the number of the value of this storage before this one, or -1


cdef class ProgramCall:
    cdef readonly Op op
    cdef readonly tuple args
    cdef dict options                   # the keyword arguments, or None
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


cdef struct StorageUse:
    int newest                          # the number of its newest value, or -1
    bint held                           # whether it existed before
    bint is_input                       # whether it is that of an argument
    Py_ssize_t used                     # the index of the last call that took it


cdef class Capture(Mode):
    cdef readonly list calls
    cdef readonly list leaves           # pairs of a Value and the tensor that existed before
    cdef readonly list reads            # the calls that read values as Python numbers
    cdef public int module
    cdef list copies                    # the calls that `copied` has added
    cdef list marks                     # the calls that `note_custom_function` has added
    cdef dict dropped                   # by the number of the result of a call that `drop_marks` left out, its argument
    cdef list nodes, callers            # before each call that may make a node of the graph: the latest node, and the module
    cdef list values                    # by number
    cdef StorageUse* storages           # by number
    cdef int n_storages, room
    cdef IntegerMap by_object           # address of a tensor -> the number of its latest value
    cdef IntegerMap by_storage          # what identifies a storage -> its number
    cdef list generators                # pairs of a Generator and its state when it was first used
    cdef long long first_generator      # the serial number of the first generator that is created during the capture
    cdef object ends                    # an exception to raise after the call that is being handled, or None
    cdef long long begun                # what `next_capture` returned
    cdef readonly DType default_dtype   # when the capture was made

    cdef long long key_of(self, Storage s)
    cdef Value latest(self, Tensor t)
    cdef int storage_of(self, long long key) noexcept
    cdef list values_of(self, int storage)
    cdef int add_storage(self, long long key) except -1
    cdef int add_value(self, Value v, int storage) except -1
    cdef Value existing(self, Tensor t, long long key, int storage)
    cdef int counted_late(self, Tensor t, long long key) except -2
    cdef int view_of_storage(self, Value v, int storage) except -1
    cdef Value of_dtype(self, Value v, list others)
    cdef int add_view(self, str name, tuple args, Value result) except -1
    cdef Value of_storage(self, Storage s, DType dtype)
    cdef tuple with_dtype(self, Call* c, tuple args, dict kwargs, object result)
    cdef tuple with_source(self, Call* c, tuple args)
    cdef tuple with_ticket(self, Overload ov, int slot, tuple args, dict kwargs, object ticket)
    cdef int calling_module(self, ThreadState state) except -1
    cdef Value value_of(self, Tensor t, bint made)
    cdef object encode(self, object argument)
    cdef tuple written(self, Call* c)
    cdef object results(self, Call* c, object result)
    cdef int leave_out(self, set dead) except -1
    cdef int copied(self, Tensor t, Tensor copy) except -1
    cdef int note_state(self, Generator g) except -1
    cdef object ticket(self, object generator, tuple taken)


cdef Capture active_capture()
