"""Compiled attribute look-up and calls of modules.

A module keeps its parameters, buffers and submodules in three dicts in its ``__dict__``, which `_register` writes.
``ModuleBase`` is the C part of `metatensor.nn.Module`: a ``__dict__`` at a fixed offset and a vectorcall entry.
`module_getattr` becomes ``Module.__getattr__``, so that ``super().__getattr__`` works. Classes that do not override
it use `getattr_module`, which finds members without a failed look-up first.

Overrides in subclasses (``__getattr__``, ``__call__``, ``forward`` on an instance) are respected: the fast path is
used only if the class still has the original. A dict key may be an instance of a str subclass whose ``__eq__`` runs
arbitrary code, so no borrowed reference is kept across a look-up.
"""
cimport cython
from cpython.object cimport PyObject, PyTypeObject
from cpython.pythread cimport PyThread_get_thread_ident
from cpython.ref cimport Py_XDECREF, Py_XINCREF
from metatensor.nn._cpython cimport (
    PY_VECTORCALL_ARGUMENTS_OFFSET, Py_DECREF, PyDict_Check, PyDict_GetItemWithError, PyDict_SetItem, PyDict_Size,
    PyErr_Format, PyErr_Occurred, PyFunction_Check, PyLong_FromUnsignedLong, PyObject_CallFunctionObjArgs,
    PyObject_GetAttr, PyObject_Vectorcall, PyTuple_GetItem, PyUnicode_CheckExact, PyUnicode_FromObject,
    PyVectorcall_NARGS, Py_TYPE, _PyType_Lookup, descrgetfunc, getattrofunc, mt_enable_vectorcall, mt_getattro,
    mt_put_error, mt_take_error, mt_tp_call, ternaryfunc, vectorcallfunc,
)
from metatensor.nn._following cimport enter_module, leave_module, n_followers

from collections import OrderedDict

cdef str PARAMETERS = "_parameters"
cdef str BUFFERS = "_buffers"
cdef str MODULES = "_modules"
cdef str FORWARD = "forward"
cdef str FORWARD_HOOKS = "_forward_hooks"
cdef str FORWARD_PRE_HOOKS = "_forward_pre_hooks"
cdef str BACKWARD_HOOKS = "_backward_hooks"
cdef str BACKWARD_PRE_HOOKS = "_backward_pre_hooks"
cdef str CALL_SUPER_INIT = "call_super_init"
cdef str GETATTR = "__getattr__"
cdef str GETATTRIBUTE = "__getattribute__"

# While a thread follows calls and attributes of modules: its functions, by the number of the thread. See `intercept_modules`.
cdef dict INTERCEPTORS = {}
cdef Py_ssize_t intercepting = 0            # the length of INTERCEPTORS

# Attributes that few modules need. They are created on first access.
cdef dict LAZY = {
    "_non_persistent_buffers_set": set,
    "_forward_hooks": OrderedDict,
    "_forward_hooks_with_kwargs": OrderedDict,
    "_forward_hooks_always_called": OrderedDict,
    "_forward_pre_hooks": OrderedDict,
    "_forward_pre_hooks_with_kwargs": OrderedDict,
    "_backward_hooks": OrderedDict,
    "_backward_pre_hooks": OrderedDict,
    "_state_dict_hooks": OrderedDict,
    "_state_dict_pre_hooks": OrderedDict,
    "_load_state_dict_pre_hooks": OrderedDict,
    "_load_state_dict_post_hooks": OrderedDict,
}

# Hooks on all modules, filled by metatensor.nn._hooks.
global_forward_hooks = OrderedDict()
global_forward_pre_hooks = OrderedDict()
global_backward_hooks = OrderedDict()
global_backward_pre_hooks = OrderedDict()
cdef PyObject* every_forward_hook = <PyObject*>global_forward_hooks
cdef PyObject* every_forward_pre_hook = <PyObject*>global_forward_pre_hooks
cdef PyObject* every_backward_hook = <PyObject*>global_backward_hooks
cdef PyObject* every_backward_pre_hook = <PyObject*>global_backward_pre_hooks

# Set by `install`.
cdef object call_with_hooks = None          # (module, args, kwargs) -> result
cdef object add_module_note = None          # (exception, module) -> None
cdef getattrofunc hook_getattro = NULL      # CPython's slot for a class with __getattr__


@cython.auto_pickle(False)
@cython.binding(False)
cdef class ModuleBase:
    """ModuleBase(*args, **kwargs)\n--\n\nThe compiled part of `metatensor.nn.Module`, which is the class to use."""
    # `inspect.signature` reads the first line of the docstring if a class has no __init__ of its own.

    def __cinit__(self):
        cdef PyTypeObject* cls = Py_TYPE(<PyObject*>self)
        self.vectorcall = <vectorcallfunc>vectorcall_module
        if mt_getattro(cls)[0] == hook_getattro:
            prepare_class(cls)

    def __init__(self, *args, **kwargs):
        cdef dict attrs = <dict>attributes(<PyObject*>self)
        cdef PyTypeObject* cls = Py_TYPE(<PyObject*>self)
        cdef PyObject* wanted = _PyType_Lookup(cls, <PyObject*>CALL_SUPER_INIT)
        cdef bint cooperative = wanted != NULL and <object>wanted is True
        if not cooperative and (args or kwargs):
            raise TypeError(
                f"Module.__init__() takes no arguments, but {type(self).__name__} passed {[*args, *kwargs]}"
            )
        attrs["training"] = True
        attrs[PARAMETERS] = {}
        attrs[BUFFERS] = {}
        attrs[MODULES] = {}
        if cooperative:
            super(ModuleBase, self).__init__(*args, **kwargs)

    def __call__(self, *args, **kwargs):
        """Run the hooks and ``forward``. An exception gets a note with the module's path."""
        if not n_followers:
            return owned(call_from_outside(<PyObject*>self, args, kwargs))
        told = enter_module(<PyObject*>self)
        try:
            return owned(call_from_outside(<PyObject*>self, args, kwargs))
        finally:
            leave_module(told)


cdef int prepare_class(PyTypeObject* cls) except -1:
    """Install the compiled attribute look-up and call in a subclass of Module, unless it overrides them.

    CPython restores its own slot if ``__getattr__`` is set on the class or a base later.
    """
    if (_PyType_Lookup(cls, <PyObject*>GETATTR) == <PyObject*>module_getattr_method
            and _PyType_Lookup(cls, <PyObject*>GETATTRIBUTE) == <PyObject*>plain_getattribute):
        mt_getattro(cls)[0] = getattr_module
    if mt_tp_call(cls)[0] == base_call:     # before CPython 3.12 a Python class does not inherit the flag
        mt_enable_vectorcall(cls, vectorcall_offset)
    return 0


cdef bint reads_plainly(PyObject* module) noexcept:
    """Return True if the module's attributes are looked up by `getattr_module`."""
    return mt_getattro(Py_TYPE(module))[0] == getattr_module


# ---- reading attributes ---------------------------------------------------------------------------------------

cdef PyObject* getattr_module(PyObject* self, PyObject* name) noexcept:
    """Implement ``tp_getattro``: the look-up of `object`, then parameters, buffers and submodules."""
    cdef PyTypeObject* cls = Py_TYPE(self)
    cdef PyObject* attrs = attributes(self)
    cdef PyObject* found
    cdef PyObject* on_class
    if not PyUnicode_CheckExact(name):
        return getattr_odd_name(self, name)
    on_class = _PyType_Lookup(cls, name)
    if on_class != NULL and Py_TYPE(on_class).tp_descr_set != NULL and Py_TYPE(on_class).tp_descr_get != NULL:
        return bind(on_class, self, cls)
    found = item(attrs, name)
    if found == NULL:
        if PyErr_Occurred() != NULL:
            return NULL
        on_class = _PyType_Lookup(cls, name)
        if on_class != NULL:
            if intercepting and PyFunction_Check(on_class):
                return intercepted(2, self, name, bind(on_class, self, cls))
            return bind(on_class, self, cls)
        found = member(attributes(self), name)
        if found == NULL:
            return missing(self, name)
        if intercepting:
            return intercepted(1, self, name, found)
    return found


cdef inline PyObject* bind(PyObject* on_class, PyObject* self, PyTypeObject* cls) noexcept:
    cdef PyObject* result
    Py_XINCREF(on_class)
    if Py_TYPE(on_class).tp_descr_get == NULL:
        return on_class
    result = (<descrgetfunc>Py_TYPE(on_class).tp_descr_get)(on_class, self, <PyObject*>cls)
    Py_DECREF(on_class)
    return result


cdef PyObject* item(PyObject* holder, PyObject* name) noexcept:
    """Return a new reference to ``holder[name]``.

    Return NULL without an exception if ``holder`` is not a dict or does not have the key. Return NULL with an exception
    if the look-up fails.
    """
    cdef PyObject* found
    if not PyDict_Check(holder):
        return NULL
    Py_XINCREF(holder)
    found = PyDict_GetItemWithError(holder, name)
    Py_XINCREF(found)
    Py_DECREF(holder)
    return found


cdef PyObject* member(PyObject* attrs, PyObject* name) noexcept:
    """Return a new reference to the parameter, buffer or submodule ``name``, or NULL, possibly with an exception."""
    cdef PyObject* found
    Py_XINCREF(attrs)
    found = member_of(attrs, <PyObject*>PARAMETERS, name)
    if found == NULL and PyErr_Occurred() == NULL:
        found = member_of(attrs, <PyObject*>BUFFERS, name)
        if found == NULL and PyErr_Occurred() == NULL:
            found = member_of(attrs, <PyObject*>MODULES, name)
    Py_DECREF(attrs)
    return found


cdef inline PyObject* member_of(PyObject* attrs, PyObject* group, PyObject* name) noexcept:
    cdef PyObject* members = item(attrs, group)
    cdef PyObject* found
    if members == NULL:
        return NULL
    found = item(members, name)
    Py_DECREF(members)
    return found


cdef PyObject* missing(PyObject* self, PyObject* name) noexcept:
    """Create and return a lazy attribute, or raise AttributeError. Keep an exception that is already pending."""
    cdef PyObject* factory
    cdef PyObject* made
    if PyErr_Occurred() != NULL:
        return NULL
    factory = PyDict_GetItemWithError(<PyObject*>LAZY, name)
    if factory == NULL:
        return PyErr_Format(AttributeError, "'%.200s' object has no attribute '%U'", Py_TYPE(self).tp_name, name)
    made = PyObject_Vectorcall(factory, NULL, 0, NULL)
    if made != NULL and PyDict_SetItem(attributes(self), name, made) < 0:
        Py_DECREF(made)
        return NULL
    return made


cdef PyObject* getattr_odd_name(PyObject* self, PyObject* name) noexcept:
    """Look up a name that is an instance of a str subclass as a plain str, so that its ``__eq__`` does not run."""
    cdef PyObject* plain = PyUnicode_FromObject(name)
    cdef PyObject* result = NULL
    if plain != NULL:
        result = getattr_module(self, plain)
        Py_DECREF(plain)
    return result


def module_getattr(ModuleBase self not None, name):
    """Return the parameter, buffer or submodule called ``name``. Raise AttributeError if there is none."""
    cdef str plain = exact(name)
    cdef PyObject* found = member(attributes(<PyObject*>self), <PyObject*>plain)
    if found == NULL:
        found = missing(<PyObject*>self, <PyObject*>plain)
    elif intercepting:
        found = intercepted(1, <PyObject*>self, <PyObject*>plain, found)
    return owned(checked(found))


cdef str exact(object name):
    """Return ``name`` as a plain str, so that looking it up runs no user code."""
    if PyUnicode_CheckExact(<PyObject*>name):
        return <str>name
    return owned(checked(PyUnicode_FromObject(<PyObject*>name)))


# ---- calling --------------------------------------------------------------------------------------------------

cdef inline bint hooked(PyObject* self) except -1:
    """Return True if this module has hooks or there are global ones."""
    if PyDict_Size(every_forward_hook) or PyDict_Size(every_forward_pre_hook) or PyDict_Size(every_backward_hook) \
            or PyDict_Size(every_backward_pre_hook):
        return True
    return holds_hooks(self, <PyObject*>FORWARD_PRE_HOOKS) or holds_hooks(self, <PyObject*>FORWARD_HOOKS) \
        or holds_hooks(self, <PyObject*>BACKWARD_HOOKS) or holds_hooks(self, <PyObject*>BACKWARD_PRE_HOOKS)


cdef inline bint holds_hooks(PyObject* self, PyObject* group) except -1:
    """Return True if the module has hooks in ``group``, or a value that is not a dict, which the slow path reports."""
    cdef PyObject* hooks = item(attributes(self), group)
    cdef bint some
    if hooks == NULL:
        if PyErr_Occurred() != NULL:
            checked(NULL)
        return False
    some = not PyDict_Check(hooks) or PyDict_Size(hooks) != 0
    Py_DECREF(hooks)
    return some


cdef PyObject* vectorcall_module(PyObject* self, PyObject** args, size_t nargsf, PyObject* kwnames) except NULL:
    """Implement ``module(...)``. An overridden ``__call__`` tells followers when it comes to `ModuleBase.__call__`."""
    cdef tuple told
    if not n_followers or mt_tp_call(Py_TYPE(self))[0] != base_call:
        return call_directly(self, args, nargsf, kwnames)
    told = enter_module(self)
    try:
        return call_directly(self, args, nargsf, kwnames)
    finally:
        leave_module(told)


cdef PyObject* call_directly(PyObject* self, PyObject** args, size_t nargsf, PyObject* kwnames) except NULL:
    """Call a module. Call ``forward`` directly if there are no hooks and ``__call__`` is not overridden."""
    cdef PyTypeObject* cls = Py_TYPE(self)
    cdef PyObject* own
    cdef PyObject* forward
    cdef PyObject* result
    cdef PyObject* kept
    cdef PyObject** shifted
    if mt_tp_call(cls)[0] != base_call or intercepting or hooked(self):
        return call_packed(self, args, nargsf, kwnames)
    own = item(attributes(self), <PyObject*>FORWARD)
    if own == NULL and PyErr_Occurred() != NULL:
        return NULL
    forward = _PyType_Lookup(cls, <PyObject*>FORWARD)
    if own == NULL and nargsf & PY_VECTORCALL_ARGUMENTS_OFFSET and forward != NULL and PyFunction_Check(forward):
        shifted = args - 1                  # PY_VECTORCALL_ARGUMENTS_OFFSET lets the callee overwrite args[-1]
        kept = shifted[0]
        shifted[0] = self
        Py_XINCREF(forward)
        result = PyObject_Vectorcall(forward, shifted, PyVectorcall_NARGS(nargsf) + 1, kwnames)
        Py_DECREF(forward)
        shifted[0] = kept
    else:
        Py_XDECREF(own)
        forward = PyObject_GetAttr(self, <PyObject*>FORWARD)
        if forward == NULL:
            return NULL
        result = PyObject_Vectorcall(forward, args, nargsf, kwnames)
        Py_DECREF(forward)
    if result == NULL:
        note_failure(self)
    return result


cdef PyObject* call_packed(PyObject* self, PyObject** args, size_t nargsf, PyObject* kwnames) except NULL:
    """Call the module with its arguments in a tuple and a dict, as hooks and an overridden ``__call__`` require."""
    cdef tuple positional = pack_positional(args, PyVectorcall_NARGS(nargsf))
    cdef dict keywords = pack_keywords(args + PyVectorcall_NARGS(nargsf), kwnames)
    cdef ternaryfunc call = mt_tp_call(Py_TYPE(self))[0]
    if call == base_call:
        return call_from_outside(self, positional, keywords)
    return checked(call(self, <PyObject*>positional, <PyObject*>keywords))


cdef PyObject* call_from_outside(PyObject* self, tuple args, dict kwargs) except NULL:
    """Call the module, or what this thread calls instead of modules."""
    cdef object outcome
    if intercepting:
        handlers = INTERCEPTORS.get(PyThread_get_thread_ident())
        if handlers is not None:
            outcome = (<tuple>handlers)[0](<object>self, args, kwargs)
            Py_XINCREF(<PyObject*>outcome)
            return <PyObject*>outcome
    return call_module(self, args, kwargs)


cdef PyObject* call_module(PyObject* self, tuple args, dict kwargs) except NULL:
    cdef object outcome
    try:
        if hooked(self):
            outcome = call_with_hooks(<object>self, args, kwargs)
        else:
            outcome = (<object>self).forward(*args, **kwargs)
    except Exception as error:
        try_note(error, <object>self)
        raise
    Py_XINCREF(<PyObject*>outcome)
    return <PyObject*>outcome


cdef tuple pack_positional(PyObject** args, Py_ssize_t n):
    cdef Py_ssize_t i
    return tuple([<object>args[i] for i in range(n)])


cdef dict pack_keywords(PyObject** args, PyObject* kwnames):
    cdef Py_ssize_t i
    cdef dict keywords = {}
    if kwnames != NULL:
        for i in range(len(<tuple>kwnames)):
            keywords[(<tuple>kwnames)[i]] = <object>args[i]
    return keywords


cdef void note_failure(PyObject* module) noexcept:
    """Add the module to the note of the pending exception."""
    cdef PyObject* error = mt_take_error()
    try_note(<object>error, <object>module)
    mt_put_error(error)


cdef void try_note(object error, object module) noexcept:
    try:
        add_module_note(error, module)
    except BaseException:
        pass                                # a failure here must not replace the original exception


# ---- following one thread -------------------------------------------------------------------------------------

cdef PyObject* intercepted(int which, PyObject* self, PyObject* name, PyObject* found) noexcept:
    """Return what this thread reads instead of an attribute's value `found`, a reference that is taken over."""
    cdef PyObject* number
    cdef PyObject* handlers
    cdef PyObject* handler
    cdef PyObject* result
    if found == NULL:
        return NULL
    number = PyLong_FromUnsignedLong(PyThread_get_thread_ident())
    if number == NULL:
        Py_DECREF(found)
        return NULL
    handlers = PyDict_GetItemWithError(<PyObject*>INTERCEPTORS, number)
    Py_DECREF(number)
    if handlers == NULL:
        if PyErr_Occurred() == NULL:
            return found
        Py_DECREF(found)
        return NULL
    handler = PyTuple_GetItem(handlers, which)
    Py_XINCREF(handler)
    result = PyObject_CallFunctionObjArgs(handler, self, name, found, <PyObject*>NULL)
    Py_DECREF(handler)
    Py_DECREF(found)
    return result


def intercept_modules(handlers):
    """Let this thread call functions instead of modules and when it reads their attributes, and return those before.

    ``call(module, args, kwargs)`` is called instead of modules; `call_through` is the call itself.
    ``member(module, name, value)`` returns what a parameter, buffer or submodule reads as, and ``method(module, name, bound)``
    a method. Other threads notice nothing. None ends it; so does what an earlier call returned.

    Parameters
    ----------
    handlers : tuple or None
        ``(call, member, method)``.
    """
    global intercepting
    number = PyThread_get_thread_ident()
    before = INTERCEPTORS.get(number)
    if handlers is None:
        INTERCEPTORS.pop(number, None)
    else:
        call, member_read, method_read = handlers
        INTERCEPTORS[number] = (call, member_read, method_read)
    intercepting = len(INTERCEPTORS)
    return before


def call_through(ModuleBase module not None, tuple args not None, dict kwargs not None):
    """Call a module with its hooks, also in a thread that calls something else instead. Modules inside are not exempt."""
    return owned(call_module(<PyObject*>module, args, kwargs))


# ---- wiring ---------------------------------------------------------------------------------------------------

cdef object module_getattr_method = module_getattr
cdef object plain_getattribute = object.__getattribute__
cdef ternaryfunc base_call = mt_tp_call(<PyTypeObject*>ModuleBase)[0]

cdef ModuleBase _probe = ModuleBase.__new__(ModuleBase)
cdef Py_ssize_t vectorcall_offset = <char*>&_probe.vectorcall - <char*><PyObject*>_probe
mt_enable_vectorcall(<PyTypeObject*>ModuleBase, vectorcall_offset)


class InstanceDict:
    """Descriptor that makes ``module.__dict__`` readable and assignable."""

    def __get__(self, module, cls=None):
        return self if module is None else <object>attributes(<PyObject*><ModuleBase?>module)

    def __set__(self, module, value):
        cdef ModuleLayout* layout = <ModuleLayout*><PyObject*><ModuleBase?>module
        cdef PyObject* before = layout.attributes
        if not isinstance(value, dict):
            raise TypeError(f"__dict__ must be a dict, not {type(value).__name__}")
        Py_XINCREF(<PyObject*>value)
        layout.attributes = <PyObject*>value
        Py_DECREF(before)


def install(module_class, hooked_call, note):
    """Register the Module class and the Python functions that this file calls. `metatensor.nn.module` calls it once."""
    global call_with_hooks, add_module_note, hook_getattro
    call_with_hooks = hooked_call
    add_module_note = note
    hook_getattro = mt_getattro(<PyTypeObject*>module_class)[0]
