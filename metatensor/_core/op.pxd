"""Operators: parsed schemas, callables, the registry, and the call record that meta kernels receive."""
from cpython.object cimport PyObject
from metatensor._core.device cimport Device
from metatensor._core.dtype cimport DType
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport MAX_ARGS, dim_t


cdef enum SlotKind:
    K_TENSOR, K_OPERAND, K_TENSORS, K_SCALAR, K_INT, K_INTS, K_FLOAT, K_FLOATS, K_BOOL, K_BOOLS
    K_STR, K_DTYPE, K_DEVICE, K_LAYOUT, K_FORMAT, K_GENERATOR, K_ANY


# The flags of `define`.
cdef enum OpFlag:
    INPLACE = 1             # also defines the in-place op `name_`; implies ELEMENTWISE
    OUT = 2                 # accepts out=
    VIEW = 4                # the result is a view of an input, so there are no kernels
    COMPOSITE = 8           # the body calls other ops, so there are no kernels or rules
    DATA = 16               # the shape of the result depends on values
    ELEMENTWISE = 32        # a kernel may write its result to the memory of an input
    RANDOM = 64             # takes a ticket from a generator; see random.pyx
    FUNCTION_ONLY = 128
    METHOD_ONLY = 256
    PROPERTY = 512          # a property of Tensor, not a function
    NO_GRAD = 1024          # results never require grad
    HOST = 2048             # its body returns the final result: Python values or changed metadata
    EXACT_OUT = 4096        # out= must have the dtype of the result
    INPLACE_ARG = 8192      # has a bool `inplace` argument that selects the in-place variant
    MIXED = 16384           # arguments may be on different devices; the body handles them
    SAFE_CAST = 32768       # the target may have any dtype, as with copy_
    ONE_VALUE = 65536       # writes one number, so elements of the target may share memory
    NO_OVERLAP = 1 << 17    # the target must not share memory with another argument
    QUIET_OUT = 1 << 18     # resizing out= does not warn
    KEEPS_SHAPE = 1 << 19   # out= with the same number of elements keeps its shape
    # dtype rules of the shared kernels
    PROMOTE = 1 << 20
    INT_TO_FLOAT = 2 << 20
    ALWAYS_BOOL = 3 << 20
    COMPLEX_TO_FLOAT = 4 << 20
    BOOL_TO_LONG = 5 << 20
    KEEP = 6 << 20
    NO_BOOL = 7 << 20
    INTEGRAL = 8 << 20
    REAL_ONLY = 9 << 20
    RULE_MASK = 15 << 20
    # options whose meaning each family of ops defines
    OPTION_A = 1 << 25
    OPTION_B = 2 << 25
    OPTION_C = 4 << 25
    OPTION_D = 8 << 25
    # more flags of ops
    NO_PARTIAL = 1 << 30    # the target must not overlap another argument in part
    MULTI_VIEW = 1 << 29    # returns several views, none of which may be modified in place while grad is enabled


cdef enum Variant:
    FUNCTIONAL = 0
    IN_PLACE = 1
    WITH_OUT = 2


cdef struct SlotSpec:
    PyObject* name          # interned str
    PyObject* default       # NULL if the argument is required
    SlotKind kind
    bint optional           # None is accepted
    bint mutated
    int repeat              # n of int[n], for which a single int is repeated n times, else 0


cdef struct Call:
    PyObject* op            # the Op that was called
    PyObject* overload      # the Overload that the arguments are bound to
    PyObject* args[MAX_ARGS]    # borrowed references, one per slot, including defaults
    PyObject* device        # the Device of the results
    PyObject* out           # the out= argument, or NULL
    PyObject* keep          # owns the temporaries: an object or nested pairs, or NULL
    int flags               # the TensorFlags of all tensor arguments combined
    int variant             # Variant
    bint mixed              # the tensor arguments are not all on one device


ctypedef object (*MetaFn)(Call* c)


cdef class Overload:
    cdef readonly str qualname      # "max.dim", the key of kernels and rules
    cdef readonly str text          # schema text
    cdef Op op
    cdef SlotSpec* slots
    cdef int nslots
    cdef int npos                   # number of positional slots
    cdef int varargs                # slot that collects the remaining positional ints, or -1
    cdef int device_slot            # slot of the device argument, or -1
    cdef int inplace_slot           # slot of the bool that selects the in-place variant, or -1
    cdef int mutates                # whether any slot is mutated
    cdef int nreturns
    cdef readonly long flags
    cdef MetaFn meta
    cdef object pymeta              # Python meta kernel or composite body, or None
    cdef object returns             # names of the results if there are several, else None
    cdef object return_type         # structseq type of the results, or None
    cdef list kernels               # by device kind: callable, False if there is none, None if not looked up yet
    cdef object decomposition       # callable, False if there is none, None if not looked up yet
    cdef object gradient            # Rule, False if there is none, None if not looked up yet
    cdef object parts               # callable that allocates the temporaries that PyTorch has on meta; False: none; None: unknown
    cdef int reading                # what `constants` must know about the arguments, 0 if not looked up yet
    cdef object refs                # owns the names and defaults of the slots


cdef class Op:
    cdef void* vectorcall
    cdef readonly str name          # "nn.functional.relu", "add_"
    cdef readonly int variant
    cdef Op base                    # for an in-place variant the functional op, else None
    cdef list texts                 # schema texts that are not parsed yet
    cdef list overloads
    cdef Overload first
    cdef bint ready
    cdef readonly long flags
    cdef str doc
    cdef object meta_data           # signature and documentation, computed on first access
    cdef object __weakref__
    cdef dict __dict__


cdef class OpMethod:
    cdef void* vectorcall
    cdef readonly Op op


cdef Op define(str schema, MetaFn meta, long flags=*, str doc=*)
cdef Op define_python(str schema, object body, long flags=*, str doc=*)
cdef int alias_op(str name, str target) except -1
cdef int prepare(Op op) except -1
cdef set_entries(void* function, void* method)
cdef Op find(str name)
cdef object make_returns(Call* c, tuple values)
cdef int set_slot(int slot, str name) except -1
cdef object call(str name, tuple args, dict kwargs=*)
cdef object as_declared(Op op, object result)
cdef int hold(Call* c, object value) except -1

# Access to arguments. Their types have been checked, their values have not.
cdef inline object arg(Call* c, int i):
    return <object>c.args[i]

cdef inline bint is_none(Call* c, int i) noexcept:
    return c.args[i] == <PyObject*>None

cdef inline Tensor tensor_arg(Call* c, int i):
    return <Tensor>c.args[i]

cdef inline bint bool_arg(Call* c, int i) except -1:
    return <object>c.args[i] is True or (<object>c.args[i] is not False and bool(<object>c.args[i]))

cdef inline Device result_device(Call* c):
    return <Device>c.device

cdef inline long op_flags(Call* c) noexcept:
    return (<Overload>c.overload).flags

cdef inline str op_name(Call* c):
    return (<Op>c.op).name

cdef dim_t int_arg(Call* c, int i) except? -1
cdef double float_arg(Call* c, int i) except? -1
cdef int dims_arg(Call* c, int i, dim_t* to) except -1
cdef int dim_arg(Call* c, int i, int ndim) except -1
cdef int wrap(Call* c, dim_t d, int ndim) except -1
cdef int dim_list(Call* c, int i, int ndim, bint* chosen) except -1
cdef DType dtype_arg(Call* c, int i, DType default)
cdef list tensors_arg(Call* c, int i)
