"""Compiled assignment and deletion of module attributes, and the ``register_*`` methods.

The ``module_*`` functions become special methods of ``Module``. They are functions of the Python class instead of
slots of the C class because ``object.__setattr__(module, ...)`` and ``super(Module, self).__setattr__(...)`` must
keep working. CPython rejects both for a class with a C-level slot. Each member is in exactly one of the module's
three dicts and not among its plain attributes.
"""
from cpython.object cimport PyObject, PyObject_GenericSetAttr, PyTypeObject
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport T_BUFFER, T_NONLEAF
from metatensor.nn._base cimport ModuleBase, attributes, checked, exact, item, member, owned, reads_plainly
from metatensor.nn._cpython cimport PyErr_Occurred, PyType_IsSubtype, Py_TYPE, _PyType_Lookup

from collections import OrderedDict

cdef str PARAMETERS = "_parameters"
cdef str BUFFERS = "_buffers"
cdef str MODULES = "_modules"
cdef str TEMPORARY = "_non_persistent_buffers_set"
cdef str REGISTER_PARAMETER = "register_parameter"

# Global registration hooks, filled by metatensor.nn._hooks.
global_parameter_hooks = OrderedDict()
global_buffer_hooks = OrderedDict()
global_module_hooks = OrderedDict()
cdef object parameter_hooks = global_parameter_hooks
cdef object buffer_hooks = global_buffer_hooks
cdef object module_hooks = global_module_hooks

cdef PyTypeObject* PARAMETER_TYPE = NULL


cdef enum Kind:
    PLAIN
    TENSOR
    PARAMETER
    BUFFER
    MODULE


cdef inline Kind kind_of(object value) except *:
    """Return the kind of member that ``value`` becomes when it is assigned to a module."""
    cdef PyTypeObject* cls = Py_TYPE(<PyObject*>value)
    if PyType_IsSubtype(cls, <PyTypeObject*>Tensor):
        if PyType_IsSubtype(cls, PARAMETER_TYPE):
            return PARAMETER
        # For a tensor subclass, Parameter(x) and Buffer(x) keep the class of x and set an attribute instead.
        if getattr(value, "_is_param", False):
            return PARAMETER
        return BUFFER if getattr(value, "_is_buffer", False) else TENSOR
    if PyType_IsSubtype(cls, <PyTypeObject*>ModuleBase):
        return MODULE
    return PLAIN


cdef inline object group(ModuleBase self, str name):
    """Return one of the three dicts of members (possibly an OrderedDict), or None before ``Module.__init__``."""
    cdef PyObject* found = item(attributes(<PyObject*>self), <PyObject*>name)
    return None if found == NULL and PyErr_Occurred() == NULL else owned(checked(found))


cdef inline bint holds(object members, str name) except -1:
    return members is not None and len(members) != 0 and name in members


cdef inline object _marked(object buffer):
    """Set the flag by which error messages recognize a buffer, and return the buffer."""
    if isinstance(buffer, Tensor):
        (<Tensor>buffer).flags |= T_BUFFER
    return buffer


cdef int forget(ModuleBase self, str name, str keep) except -1:
    """Remove ``name`` from the plain attributes and from all groups except ``keep``."""
    cdef dict attrs = <dict>attributes(<PyObject*>self)
    cdef object members
    cdef str other
    if name in attrs:
        del attrs[name]
    for other in (PARAMETERS, BUFFERS, MODULES):
        if other is not keep:
            members = group(self, other)
            if holds(members, name):
                del members[name]
    if keep is not BUFFERS:
        forget_temporary(attrs, name)
    return 0


cdef int forget_temporary(dict attrs, str name) except -1:
    names = attrs.get(TEMPORARY)
    if names:
        names.discard(name)
    return 0


def module_setattr(ModuleBase self not None, name, value):
    """Register a parameter, buffer or module under ``name``. Set any other value as a plain attribute.

    Raises
    ------
    AttributeError
        For a parameter, buffer or module if ``Module.__init__`` has not run yet.
    TypeError
        If ``name`` belongs to a parameter, buffer or submodule and ``value`` is neither of that kind nor None.
    """
    cdef str key = exact(name)
    cdef Kind kind = kind_of(value)
    cdef object members = group(self, PARAMETERS)
    if members is None:
        if kind == PARAMETER or kind == MODULE or kind == BUFFER:
            raise not_initialised(self, key, value)
        PyObject_GenericSetAttr(self, key, value)
        return
    if kind == PARAMETER:
        forget(self, key, PARAMETERS)
        set_parameter(self, key, value)
        return
    if holds(members, key):
        if value is not None:
            raise wrong_kind(self, key, value, "parameter", "a Parameter")
        set_parameter(self, key, None)
        return
    members = group(self, MODULES)
    if kind == MODULE:
        forget(self, key, MODULES)
        members[key] = run_hooks(module_hooks, self, key, value)
        return
    if holds(members, key):
        if value is not None:
            raise wrong_kind(self, key, value, "submodule", "a Module")
        members[key] = run_hooks(module_hooks, self, key, None)
        return
    members = group(self, BUFFERS)
    if kind == BUFFER:
        self.register_buffer(key, value, value.persistent)
    elif holds(members, key):
        if value is not None and kind != TENSOR:
            raise wrong_kind(self, key, value, "buffer", "a Tensor")
        members[key] = _marked(run_hooks(buffer_hooks, self, key, value))
    else:
        PyObject_GenericSetAttr(self, key, value)


def module_delattr(ModuleBase self not None, name):
    """Delete a parameter, buffer, submodule or plain attribute. Raise AttributeError if there is none."""
    cdef str key = exact(name)
    cdef str which
    cdef object members
    for which in (PARAMETERS, BUFFERS, MODULES):
        members = group(self, which)
        if holds(members, key):
            del members[key]
            if which is BUFFERS:
                forget_temporary(<dict>attributes(<PyObject*>self), key)
            return
    object.__delattr__(self, key)


cdef int set_parameter(ModuleBase self, str name, object value) except -1:
    """Call `register_parameter`, or the subclass's override of it."""
    if _PyType_Lookup(Py_TYPE(<PyObject*>self), <PyObject*>REGISTER_PARAMETER) == <PyObject*>register_parameter_method:
        store_parameter(self, group(self, PARAMETERS), name, value)
    else:
        self.register_parameter(name, value)
    return 0


# ---- registering ----------------------------------------------------------------------------------------------

def register_parameter(ModuleBase self not None, name, param):
    """Register a parameter of this module.

    Parameters
    ----------
    name : str
        Name of the attribute.
    param : Parameter or None
        None reserves the name. `parameters` and `state_dict` omit such a name.

    Raises
    ------
    KeyError
        If ``name`` is empty, contains a dot or is in use for something else.
    TypeError
        If ``param`` is neither a `Parameter` nor None.
    ValueError
        If ``param`` is the result of an operation, not a leaf.

    Examples
    --------
    >>> import metatensor as mt
    >>> module = mt.nn.Module()
    >>> module.register_parameter("scale", mt.nn.Parameter(mt.ones(3)))
    >>> [name for name, _ in module.named_parameters()]
    ['scale']
    """
    cdef object members = group(self, PARAMETERS)
    if members is None:
        raise not_initialised(self, name, param)
    if param is not None and kind_of(param) != PARAMETER:
        raise wrong_kind(self, new_name(self, members, name, "parameter"), param, "parameter", "a Parameter")
    store_parameter(self, members, name, param)


cdef int store_parameter(ModuleBase self, object members, object name, object param) except -1:
    """Store a parameter or None under a checked name, after running the registration hooks."""
    cdef str key = new_name(self, members, name, "parameter")
    if param is not None and (<Tensor>param).flags & T_NONLEAF:
        raise ValueError(
            f"cannot register '{key}' of {type(self).__name__}: a parameter must be a leaf, not the result "
            "of an operation; compute it in forward() from parameters instead"
        )
    members[key] = None if param is None else run_hooks(parameter_hooks, self, key, param)
    return 0


def register_buffer(ModuleBase self not None, name, tensor, bint persistent=True):
    """Register a buffer: a tensor that is part of the module's state but not a parameter.

    Parameters
    ----------
    name : str
        Name of the attribute.
    tensor : Tensor or None
        None reserves the name. `buffers` and `state_dict` omit such a name.
    persistent : bool
        Include the buffer in the `state_dict`. Default True.

    Raises
    ------
    KeyError
        If ``name`` is empty, contains a dot or is in use for something else.
    TypeError
        If ``tensor`` is neither a Tensor nor None.

    Examples
    --------
    >>> import metatensor as mt
    >>> module = mt.nn.Module()
    >>> module.register_buffer("mean", mt.zeros(3))
    >>> list(module.state_dict())
    ['mean']
    """
    cdef object members = group(self, BUFFERS)
    if members is None:
        raise not_initialised(self, name, tensor)
    cdef str key = new_name(self, members, name, "buffer")
    if tensor is not None and not isinstance(tensor, Tensor):
        raise wrong_kind(self, key, tensor, "buffer", "a Tensor")
    members[key] = _marked(run_hooks(buffer_hooks, self, key, tensor))
    if persistent:
        forget_temporary(<dict>attributes(<PyObject*>self), key)
    else:
        self._non_persistent_buffers_set.add(key)


def add_module(ModuleBase self not None, name, module):
    """Register a submodule.

    Parameters
    ----------
    name : str
        Name of the attribute.
    module : Module or None
        None reserves the name.

    Raises
    ------
    KeyError
        If ``name`` is empty, contains a dot or is in use for something else.
    TypeError
        If ``module`` is neither a Module nor None.

    Examples
    --------
    >>> import metatensor as mt
    >>> model = mt.nn.Module()
    >>> model.add_module("act", mt.nn.ReLU())
    >>> model.act
    ReLU()
    """
    if module is not None and not isinstance(module, ModuleBase):
        raise TypeError(f"{type(module).__name__} is not a Module (added to {type(self).__name__} as {name!r})")
    cdef object members = group(self, MODULES)
    if members is None:
        raise not_initialised(self, name, module)
    cdef str key = new_name(self, members, name, "module")
    members[key] = run_hooks(module_hooks, self, key, module)


cdef str new_name(ModuleBase self, object members, object name, str what):
    """Return ``name`` as a plain str, after checking that it is valid for a member and not in use."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a {what} must be a str, not {type(name).__name__}")
    cdef str key = exact(name)
    if not key:
        raise KeyError(f"the name of a {what} must not be empty")
    if "." in key:
        raise KeyError(f"the name of a {what} must not contain a dot: {key!r}")
    if key not in members and in_use(self, key):
        raise KeyError(f"{type(self).__name__} already has an attribute {key!r}")
    return key


cdef bint in_use(ModuleBase self, str name) except -1:
    cdef PyTypeObject* cls = Py_TYPE(<PyObject*>self)
    cdef PyObject* found
    if reads_plainly(<PyObject*>self) and _PyType_Lookup(cls, <PyObject*>name) == NULL:
        found = item(attributes(<PyObject*>self), <PyObject*>name)
        if found == NULL and PyErr_Occurred() == NULL:
            found = member(attributes(<PyObject*>self), <PyObject*>name)
        if found == NULL and PyErr_Occurred() == NULL:
            return False
        owned(checked(found))
        return True
    return hasattr(self, name)


cdef inline object run_hooks(object hooks, ModuleBase self, str name, object value):
    if len(hooks) == 0:
        return value
    for hook in list(hooks.values()):
        changed = hook(self, name, value)
        if changed is not None:
            value = changed
    return value


cdef object not_initialised(ModuleBase self, object name, object value):
    cls = type(self).__name__
    return AttributeError(
        f"{cls}.{name} = {type(value).__name__}(...) comes before Module.__init__(): "
        f"call super().__init__() first in {cls}.__init__"
    )


cdef object wrong_kind(ModuleBase self, str name, object value, str what, str expected):
    return TypeError(
        f"cannot assign {type(value).__name__} to the {what} '{name}' of {type(self).__name__}: "
        f"expected {expected} or None"
    )


cdef object register_parameter_method = register_parameter


def install(parameter_class):
    """Register the Parameter class. `metatensor.nn.parameter` calls it once."""
    global PARAMETER_TYPE
    PARAMETER_TYPE = <PyTypeObject*>parameter_class
