"""Custom functions in traces: a program does not contain their backward, and raises an error where a gradient needs it.

A capture lists a call of ``_without_backward`` for each result of a custom function. The run makes no such call.
"""
from cpython.object cimport PyObject
from metatensor._core.capture cimport Capture, ProgramCall, Value, active_capture
from metatensor._core.integer_map cimport map_set
from metatensor._core.lines cimport running_code
from metatensor._core.op cimport Op
from metatensor._core.tensor cimport Tensor
from metatensor._core.thread cimport ThreadState, thread_state

from metatensor._core.op import registry


def note_custom_function(list outputs not None, list inputs not None, str function not None, list written not None):
    """Note in a trace what a custom function has returned. `written` says which outputs are inputs that it changed in place."""
    cdef Capture capture = active_capture()
    if capture is not None and thread_state().walk is None:
        for output, changed in zip(outputs, written):
            _without_backward(capture, output, inputs, function, changed)


cdef int _without_backward(Capture capture, Tensor output, list inputs, str function, bint written) except -1:
    """Note that a custom function has returned `output`.

    In the program a call of ``_without_backward`` follows, which raises an error if a gradient reaches it. `inputs` are the
    tensors among the arguments of the function. `written` says that `output` is one of them and was changed in place.
    """
    cdef ThreadState state = thread_state()
    cdef Value old = <Value>capture.encode(output), v
    cdef list given = <list>capture.encode(inputs)
    if not written:
        v = _mark(capture, old, given, function, state)
        v.older, capture.storages[old.storage].newest = capture.storages[old.storage].newest, v.number
        map_set(&capture.by_object, <long long><size_t><PyObject*>output, v.number)
        return 0
    for old in capture.values_of(old.storage):
        if old.dtype.is_floating_point or old.dtype.is_complex:
            v = _mark(capture, old, [old, *given], function, state)
            v.older = old.older
            capture.values[capture.values.index(old)] = v         # from now on, the tensors that had the old value have the new one
    return 0


cdef Value _mark(Capture capture, Value old, list inputs, str function, ThreadState state):
    """Add a call of ``_without_backward``, which makes a new value with the layout of `old`."""
    cdef ProgramCall made = ProgramCall.__new__(ProgramCall)
    cdef Value v = Value.__new__(Value)
    v.key, v.offset, v.dtype, v.device, v.shape, v.stride, v.flags = (
        old.key, old.offset, old.dtype, old.device, old.shape, old.stride, old.flags)
    v.requires_grad, v.storage, v.number = True, old.storage, <int>len(capture.values)
    capture.values.append(v)
    capture.storages[old.storage].used = len(capture.calls)
    made.op = <Op>registry["_without_backward"]
    made.args, made.result, made.writes = (old, list(inputs), function), v, ()
    made.grad, made.module = True, capture.module
    made.code = running_code(&made.instruction)
    made.first = made.last = state.operators
    capture.calls.append(made)
    capture.marks.append(made)
    return v


def drop_marks(Capture capture not None):
    """If a backward pass has run, leave out the calls that `note_custom_function` added: the program contains the gradients."""
    cdef ProgramCall made
    cdef bint trains = False
    cdef set dead = set()
    cdef dict before = {}
    if not capture.marks:
        return
    for made in capture.calls:
        trains = trains or made.backward
    if not trains:
        return
    for made in capture.marks:
        dead.add(id(made))
        before[(<Value>made.result).number] = before.get((<Value>made.args[0]).number, made.args[0])
    for made in capture.calls:
        if id(made) not in dead:
            made.args, made.result = _replaced(made.args, before), _replaced(made.result, before)
            made.options, made.writes = _replaced(made.options, before), _replaced(made.writes, before)
    capture.reads[:] = [(at, name, _replaced(value, before)) for at, name, value in capture.reads]
    capture.leave_out(dead)
    capture.dropped = before


cdef object _replaced(object argument, dict by):
    """Return an argument or a result with other values, given by the numbers of those that they replace."""
    if type(argument) is Value:
        return by.get((<Value>argument).number, argument)
    if type(argument) is tuple:
        return tuple([_replaced(a, by) for a in <tuple>argument])
    if type(argument) is list:
        return [_replaced(a, by) for a in <list>argument]
    if type(argument) is dict:
        return {key: _replaced(a, by) for key, a in (<dict>argument).items()}
    return argument
