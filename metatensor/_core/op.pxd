"""Operators: parsed schemas, the callables, the registry, and what a meta kernel sees of a call."""
from cpython.object cimport PyObject
from metatensor._core.device cimport Device
from metatensor._core.dtype cimport DType
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport MAX_ARGS, dim_t


cdef enum SlotKind:
    K_TENSOR, K_OPERAND, K_TENSORS, K_SCALAR, K_INT, K_INTS, K_FLOAT, K_FLOATS, K_BOOL, K_BOOLS
    K_STR, K_DTYPE, K_DEVICE, K_LAYOUT, K_FORMAT, K_GENERATOR, K_ANY


# What `define` takes as flags.
cdef enum OpFlag:
    INPLACE = 1             # there is `name_` too, and ELEMENTWISE unless said otherwise
    OUT = 2                 # takes out=
    VIEW = 4                # the result shares storage with an input: no kernel anywhere
    COMPOSITE = 8           # the body calls other ops: no kernel, no rules of its own
    DATA = 16               # the result's shape depends on values
    ELEMENTWISE = 32        # a kernel may write over its own input
    RANDOM = 64             # draws a ticket from a generator
    FUNCTION_ONLY = 128
    METHOD_ONLY = 256
    PROPERTY = 512          # a property of Tensor, no function
    NO_GRAD = 1024          # results never require grad
    HOST = 2048             # returns Python values, or only changes metadata: finished by its body
    EXACT_OUT = 4096        # out= must have exactly the result's dtype
    INPLACE_ARG = 8192      # has a bool `inplace` argument that selects the in-place variant
    MIXED = 16384           # arguments may be on different devices; the body decides
    SAFE_CAST = 32768       # in-place and out= may cast the result freely (copy_ and the like)
    ONE_VALUE = 65536       # of a number: in place, elements that share memory are no matter
    APART = 1 << 17         # what is written may share no memory with another argument
    QUIET_OUT = 1 << 18     # out= of another shape is resized without a warning
    KEEPS_SHAPE = 1 << 19   # out= with as many elements as the result keeps its shape
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
    # a further choice within a family
    OPTION_A = 1 << 25
    OPTION_B = 2 << 25
    OPTION_C = 4 << 25
    OPTION_D = 8 << 25
    # more of the first kind
    TOGETHER = 1 << 29      # returns several views: where gradients are recorded, none may be changed in place


cdef enum Variant:
    FUNCTIONAL = 0
    IN_PLACE = 1
    WITH_OUT = 2


cdef struct SlotSpec:
    PyObject* name          # interned str
    PyObject* default       # NULL where the argument is required
    SlotKind kind
    bint optional           # None is accepted
    bint mutated
    int repeat              # int[n]: an int stands for n of them; 0 where it does not


cdef struct Call:
    PyObject* op            # the Op that was called
    PyObject* overload      # the Overload that its arguments fit
    PyObject* args[MAX_ARGS]    # borrowed, one for each slot, defaults filled in
    PyObject* device        # Device of the results
    PyObject* out           # what was given as out=, or NULL
    PyObject* keep          # owned: the temporaries, or NULL
    int flags               # TensorFlags of the tensor arguments, or-ed
    int variant             # Variant
    bint mixed              # the tensor arguments are not all on one device


ctypedef object (*MetaFn)(Call* c)


cdef class Overload:
    cdef readonly str qualname      # "max.dim": the key of kernels and rules
    cdef readonly str text          # the schema
    cdef Op op
    cdef SlotSpec* slots
    cdef int nslots
    cdef int npos                   # positional ones
    cdef int varargs                # slot that takes the rest of the positional ints, or -1
    cdef int device_slot            # or -1
    cdef int inplace_slot           # of a bool that selects the in-place variant, or -1
    cdef int mutates                # some slot is written to
    cdef int nreturns
    cdef readonly long flags
    cdef MetaFn meta
    cdef object pymeta              # Python meta kernel or composite body, or None
    cdef object returns             # names of several results, or None
    cdef object return_type         # structseq type for them, or None
    cdef list kernels               # by device kind: callable, False (known to lack), or None (not asked)
    cdef object decomposition       # callable or None
    cdef object refs                # keeps the slots' names and defaults alive


cdef class Op:
    cdef void* vectorcall
    cdef readonly str name          # "nn.functional.relu", "add_"
    cdef readonly int variant
    cdef Op base                    # the op that this is the in-place variant of, or None
    cdef list texts                 # declarations that are not parsed yet
    cdef list overloads
    cdef Overload first
    cdef bint ready
    cdef readonly long flags
    cdef str doc
    cdef object meta_data           # signature and the like, made when asked for
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

# Reading arguments. They have been checked for type, not for value.
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
