"""Gradient rules of operators."""
from metatensor._core.op cimport Overload
from metatensor._core.types cimport MAX_ARGS

cdef enum:
    MAX_PARAMETERS = 24
    MAX_NAMER = 8


cdef enum Source:
    FROM_GRAD, FROM_GRADS, FROM_SAVED, FROM_META, FROM_WANTED


cdef enum What:
    KEEP_ARGUMENT, KEEP_RESULT, KEEP_LAYOUT


cdef struct Parameter:
    Source source
    int index               # number of the saved value or of the output


# A value that the nodes of a rule save.
cdef struct Kept:
    What what
    int index               # number of the argument or of the result
    unsigned long long wanted_by   # bit set of the functions that take it
    int kept_as             # for a layout: the number of the saved value that is the tensor itself, or -1


cdef class Function:
    """A function of a rule."""
    cdef object body
    cdef int n_parameters, slot         # slot: number of the argument that it differentiates by, or -1 for a joint function
    cdef Parameter parameters[MAX_PARAMETERS]


cdef class Rule:
    """The gradient of an overload."""
    cdef readonly str name              # name of its nodes
    cdef object through                 # function that computes the operator by calling others, or None
    cdef Overload direct                # the overload whose rule records calls that `by_others` need not compute, or None
    cdef int direct_result              # the number of the result of `direct` that is the result, or -1 if it has only one
    cdef int direct_ndim                # the dimensions that the first two arguments must have for this, or 0
    cdef object through_write           # the same for the in-place variant; it writes to its first argument and returns it
    cdef str in_place                   # name of the nodes of the in-place variant, or None if it is the same
    cdef Rule written                   # rule of the in-place variant, or None if it is the same
    cdef object namer                   # function that returns the name of the node for arguments of the call, or None
    cdef int namer_slots[MAX_NAMER]     # numbers of the arguments that the namer takes
    cdef int n_namer
    cdef int named_by                   # the namer's only argument if it may be None (then `name` is used), else -1
    cdef bint sparing                   # whether only values that a wanted gradient needs are kept
    cdef bint last_first                # whether the gradient of the last argument is handed on first
    cdef bint strided                   # whether `through` is used only if the first two arguments are not both contiguous
    cdef dict named                     # name -> NamedRule
    cdef object default_named           # name that the namer returns if its arguments are absent or false, or None
    cdef list functions
    cdef int n_slots, n_kept, n_constant
    cdef bint lists                     # whether an argument is a list of tensors
    cdef bint numbers                   # whether a differentiable argument may be a number
    cdef bint plain                     # whether calls that write to no argument are recorded by `record_plain`
    cdef int slots[MAX_ARGS]            # arguments with a gradient, in order: one edge each, or one per member of a list
    cdef int function_of[MAX_ARGS]      # for each argument with a gradient, the number of its function
    cdef int constant[MAX_ARGS]         # other arguments that may be tensors: they must not require grad
    cdef Kept kept[MAX_PARAMETERS]
    cdef unsigned long long outputs     # bit set of the outputs that have gradients
    cdef Overload overload
    cdef object called(self, str name)


cdef class NamedRule:
    """A rule with the node name for one kind of call."""
    cdef readonly str name
    cdef readonly Rule rule


cdef object prepared(Overload ov)
cpdef str default_name(str name)


cdef inline object rule_of(Overload ov):
    """Return the Rule of an overload, or False if it has none."""
    if ov.gradient is None:
        ov.gradient = prepared(ov)
    return ov.gradient
