"""Replay of recorded steps, and materialization of arguments that calls need."""
from cpython.object cimport PyObject
from metatensor._core.device cimport META, Device
from metatensor._core.compute cimport compute_values
from metatensor._core.op cimport FUNCTIONAL, K_TENSORS, Call, Overload, hold
from metatensor._core.recording cimport Recipe, Ref, Step
from metatensor._core.storage cimport Storage, has_record, new_storage, resize_storage
from metatensor._core.tensor cimport Tensor, over_storage
from metatensor._core.types cimport MAX_DIMS, dim_t

from metatensor._core.recording import Constant
from metatensor._core.late import later

# Values for arguments --------------------------------------------------------------------------

cdef int resolve_arguments(Call* c, Overload ov) except -1:
    """Replace arguments that have recipes by tensors with values.

    Return 1 on success, or 2 if an argument is a constant of a fake tensor, so that the values are on the cpu. Return 0
    if an argument has neither data nor a recipe.
    """
    cdef int i, found = 1
    cdef Tensor t
    for i in range(ov.nslots):
        value = <object>c.args[i]
        if isinstance(value, Tensor):
            if not has_record((<Tensor>value).storage):
                return 0
            if _is_constant((<Tensor>value).storage):
                found = 2
        elif ov.slots[i].kind == K_TENSORS and value is not None:
            for t in value:
                if not has_record(t.storage):
                    return 0
                if _is_constant(t.storage):
                    found = 2
    for i in range(ov.nslots):
        value = <object>c.args[i]
        if isinstance(value, Tensor):
            if (<Tensor>value).storage.data is None:
                _replace(c, i, _valued(<Tensor>value, ov.slots[i].mutated))
        elif ov.slots[i].kind == K_TENSORS and value is not None:
            _replace(c, i, [_valued(t, ov.slots[i].mutated) for t in value])
    return found


cdef bint _is_constant(Storage s) noexcept:
    return s.data is None and (<Recipe>s.recipe).constant


cdef object _valued(Tensor t, bint mutated):
    """Return a tensor holding `t`'s values. A deferred `t` is materialized in place if `mutated` is true."""
    materialize, value_of = later("materialize"), later("value_of")
    if t.storage.data is not None:
        return t
    return materialize(t) if mutated else value_of(t)


cdef int _replace(Call* c, int slot, object value) except -1:
    hold(c, value)
    c.args[slot] = <PyObject*>value
    return 0


# Replaying ---------------------------------------------------------------------------------------

cdef Tensor tensor_from_ref(Ref r, dict storages, object relocate):
    """Return the tensor that a Ref describes.

    The tensor uses the storage that `storages` holds for the Ref's recipe. A missing storage is added.
    """
    cdef dim_t sizes[MAX_DIMS]
    cdef dim_t strides[MAX_DIMS]
    cdef Storage s
    cdef Tensor t
    cdef Recipe recipe
    if r.raw == NULL:
        raise ValueError("replay: a Ref has no recipe")
    recipe = <Recipe>r.raw
    found = storages.get(recipe)
    if found is None:
        found = storages[recipe] = new_storage(<Device?>relocate(recipe.device), recipe.nbytes)
    s = <Storage>found
    r.layout(sizes, strides)
    t = over_storage(s, r.dtype, r.ndim, sizes, strides, r.offset)
    t.flags |= r.flags
    return t


cdef object _restored(object value, dict storages, object relocate):
    if isinstance(value, Ref):
        return tensor_from_ref(<Ref>value, storages, relocate)
    if type(value) is Constant:
        return relocate(value.value())
    if type(value) is list:
        return [_restored(v, storages, relocate) for v in value]
    if isinstance(value, Device):
        return relocate(value)
    return value


def replay(Step step not None, dict storages not None, relocate):
    """Run one step.

    Parameters
    ----------
    step : Step
        The step.
    storages : dict of Recipe to Storage
        The storages to use. Missing ones are added.
    relocate : callable
        Called with a device, it returns the device to use. Called with the tensor of a Constant, it returns the
        tensor to use.
    """
    cdef Call c
    cdef Overload ov = step.overload
    cdef int i
    cdef Tensor t
    cdef list args = [_restored(v, storages, relocate) for v in step.args]
    cdef object result = None
    cdef Device d = <Device?>relocate(step.device)
    if ov is None:
        from metatensor._core.device import backend_for
        target, source = args
        _allocate(<Tensor>target, d)
        if source.device.type == target.device.type:
            backend_for(d).copy(target, source)
        else:
            target.copy_(source)
        return
    if isinstance(step.result, tuple):
        result = tuple([tensor_from_ref(<Ref>r, storages, relocate) for r in step.result])
    elif step.result is not None:
        result = tensor_from_ref(<Ref>step.result, storages, relocate)
    if len(args) != ov.nslots:
        raise ValueError(f"replay: {ov.qualname} takes {ov.nslots} arguments, but the step has {len(args)}")
    c.op = <PyObject*>ov.op
    c.overload = <PyObject*>ov
    c.device = <PyObject*>d
    c.out = c.keep = NULL
    c.flags = 0
    c.mixed = False
    c.variant = FUNCTIONAL
    for i in range(ov.nslots):
        c.args[i] = <PyObject*>args[i]
        if isinstance(args[i], Tensor):
            t = <Tensor>args[i]
            c.flags |= t.flags
            if t.storage.data is None:
                _allocate(t, t.storage.device)
        elif ov.slots[i].kind == K_TENSORS and args[i] is not None:
            for t in args[i]:
                c.flags |= t.flags
                if t.storage.data is None:
                    _allocate(t, t.storage.device)
    compute_values(&c, ov, result)


cdef int _allocate(Tensor t, Device d) except -1:
    """Allocate uninitialized memory for a tensor that no step has written to."""
    from metatensor._core.device import backend_for
    if t.storage.data is None:
        t.storage.data = backend_for(d).allocate(t.storage.size_bytes, d.number)
    return 0


def install_data(Storage s not None, Storage filled not None):
    """Give a storage the data and device of another one. All tensors that use the storage then have them."""
    if filled.size_bytes != s.size_bytes:       # the storage was resized after the last step of its recipe
        resize_storage(filled, s.size_bytes)
    s.device = filled.device
    s.data = filled.data
    s.fake = False
    s.version += 1
    s.uncounted += 1


def remove_data(Storage s not None, device):
    """Drop the data of a storage that has a recipe."""
    s.device = <Device?>device
    s.data = None
    s.fake = s.device is not META


def give_recipe(Storage s not None, Recipe recipe not None):
    """Set the recipe of a storage without data."""
    s.recipe = recipe
