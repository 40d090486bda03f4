"""Operators that are recorded as other operators.

Some operators have one kernel here, but gradients need intermediate results, such as the statistics of `layer_norm`. While
gradients are recorded, a call of such an operator runs as a function that calls others::

    recorded_as("nn.functional.layer_norm", lambda input, *args: ops.native_layer_norm(input, *args)[0])

The meta kernel checks the arguments first, except for operators that draw random numbers.
"""
from importlib import import_module

from metatensor._core.op cimport COMPOSITE, FUNCTIONAL, IN_PLACE, RANDOM, Call, Overload, call
from metatensor._core.overriding cimport ABSENT
from metatensor._core.tensor cimport Tensor
from metatensor._core.late import later

cdef dict _bodies = {}      # qualified name -> function, its place, or None for the decomposition


def recorded_as(str name not None, body=None):
    """Run an operator as the function `body` while gradients are recorded.

    Parameters
    ----------
    name : str
        The operator, ``"mse_loss"``, or an overload of it, ``"max.dim"``.
    body : callable or str, optional
        A function of the operator's arguments in schema order. If it returns NotImplemented, the call runs as usual. A str names
        a function of `metatensor.rules.gradients`: ``"losses.cross_entropy"``. Default: the operator's decomposition.
    """
    _bodies[name] = body


def found_body(place):
    """Return a function of `metatensor.rules.gradients` given its place, ``"module.function"``. Functions are returned as they are."""
    if not isinstance(place, str):
        return place
    module, _, name = place.rpartition(".")
    return getattr(import_module(f"metatensor.rules.gradients.{module}"), name)


def recorded_names():
    """Return the names of the overloads that are recorded as others."""
    return sorted(_bodies)


cdef object _found(str name):
    body = _bodies.get(name, ABSENT)
    if body is ABSENT:
        return False
    return later("decompositions")()[name] if body is None else found_body(body)


cdef object run_steps(Call* c, Overload ov):
    """Run a call as the steps of its operator. Return ABSENT if it has none."""
    cdef int i
    if ov.steps is None:
        ov.steps = _found(ov.qualname)
    if ov.steps is False or c.out != NULL:
        return ABSENT
    body = ov.steps
    if not ov.flags & (RANDOM | COMPOSITE):
        if ov.meta != NULL:
            ov.meta(c)
    result = body(*[<object>c.args[i] for i in range(ov.nslots)])
    if result is NotImplemented:
        return ABSENT
    if c.variant == IN_PLACE:
        return call("copy_", (<object>c.args[0], result))
    return result
