"""Rules for gradients."""
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
    int index               # of the saved value or the output


# Something that the nodes of a rule save.
cdef struct Kept:
    What what
    int index               # of the argument or the result
    unsigned long long wanted_by   # the functions that take it
    int kept_as             # of the layout of an argument: the number of the saved value that is the argument itself, or -1


cdef class Function:
    """A function of a rule."""
    cdef object body
    cdef int n_parameters, slot         # slot: the argument whose gradient it returns, or -1 for a joint function
    cdef Parameter parameters[MAX_PARAMETERS]


cdef class Rule:
    """The gradient of an overload."""
    cdef readonly str name              # of its nodes
    cdef object through                 # function that computes the operator by others, or None
    cdef object through_write           # the same for the in-place variant: it writes to the first argument and returns that
    cdef str in_place                   # the name of the nodes of the in-place variant, or None
    cdef Rule written                   # the rule of the in-place variant, or None if it has the same
    cdef object namer                   # function of the call's arguments that returns the name, or None
    cdef int namer_slots[MAX_NAMER]     # the arguments that it takes
    cdef int n_namer
    cdef int named_by                   # the only argument of the namer, if it may be None: then the name is `name`; or -1
    cdef bint sparing                   # nothing is kept that no wanted gradient needs
    cdef bint strided                   # `through` is for calls whose first two arguments are not both contiguous
    cdef dict named                     # name -> NamedRule
    cdef object default_named           # what the namer gives if its arguments are absent or false, or None
    cdef list functions
    cdef int n_slots, n_kept
    cdef bint lists                     # an argument is a list of tensors
    cdef bint numbers                   # an argument may be a number
    cdef bint plain                     # calls that write to nothing are recorded by `record_plain`
    cdef int slots[MAX_ARGS]            # arguments with a gradient, in order: one edge each, lists one for each member
    cdef int function_of[MAX_ARGS]      # by argument with a gradient: the number of its function
    cdef Kept kept[MAX_PARAMETERS]
    cdef unsigned long long outputs     # the outputs that have gradients, a bit each
    cdef Overload overload
    cdef object called(self, str name)


cdef class NamedRule:
    """A rule whose nodes have a name that depends on the call."""
    cdef readonly str name
    cdef readonly Rule rule


cdef object prepared(Overload ov)
cpdef str default_name(str name)


cdef inline object rule_of(Overload ov):
    """Return the Rule of an overload, or False if it has none."""
    if ov.gradient is None:
        ov.gradient = prepared(ov)
    return ov.gradient
