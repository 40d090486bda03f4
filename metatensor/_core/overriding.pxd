from metatensor._core.op cimport Call

cdef enum:
    CALLED_AS_METHOD = 1 << 20      # in Call.flags, in addition to the flags of tensors: the op was called as a method

cdef object ABSENT                  # returned by the functions below if nothing overrides the call

cdef tuple python_call(Call* c)
cdef object public_function(Call* c)
cdef object ask_functions(object func, list asked, tuple args, dict kwargs)
cdef bint answers_itself(Call* c) except -1
cdef object ask_dispatch(Call* c)
cdef object run_parts(Call* c, bint for_gradients)
cdef object ask_mode(Call* c, object mode)
cdef list overriding_functions(Call* c)
cdef list overriding_values(object values)
