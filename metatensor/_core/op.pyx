"""Operators, their callables and their registry.

A declaration is stored as text and parsed when the op is first called or inspected.
"""
import sys
from types import SimpleNamespace

cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from metatensor._core.dtype cimport DType
from metatensor._core.slots cimport forbid_new, type_set, use_vectorcall
from metatensor._core.structseq cimport bind_method, make_structseq, new_structseq, set_structseq
from metatensor._core.tensor cimport N_SLOTS, Tensor, hooks, slot_ops
from metatensor._core.types cimport MAX_ARGS, MAX_DIMS, SET_DIMS, dim_t

from metatensor._core.dtype import spelling
from metatensor._core.schema import parse
from metatensor._core.late import later

cdef extern from "Python.h":
    Py_ssize_t PySequence_Fast_GET_SIZE(object o) noexcept
    PyObject** PySequence_Fast_ITEMS(object o) noexcept
    long long PyLong_AsLongLongAndOverflow(object o, int* overflow) except? -1
    int PyErr_CheckSignals() except -1
    void PyObject_GC_UnTrack(PyObject* o) noexcept

cdef extern from *:
    """
    /* Read an int of one digit without a call. Return 0 for other objects. */
    static inline int mt_small_int(PyObject *o, int64_t *to) {
        if (!PyLong_CheckExact(o)) { return 0; }
    #if PY_VERSION_HEX >= 0x030C0000
        if (!PyUnstable_Long_IsCompact((PyLongObject *)o)) { return 0; }
        *to = (int64_t)PyUnstable_Long_CompactValue((PyLongObject *)o);
    #else
        if (Py_SIZE(o) != 1) { return 0; }
        *to = (int64_t)((PyLongObject *)o)->ob_digit[0];
    #endif
        return 1;
    }
    """
    bint small_int "mt_small_int" (PyObject* o, dim_t* to) noexcept

registry = {}           # name -> Op, in-place variants included
by_family = {}          # declaring module -> list of Op, for the documentation
cdef dict _registry = registry
cdef void* entry_function = NULL    # dispatch sets both
cdef void* entry_method = NULL
cdef list _waiting = []
cdef list _none = []                # the overloads of all ops that are not prepared: never changed, only replaced


@cython.final
cdef class Overload:
    """One schema of an op, with its meta kernel."""

    def __dealloc__(self):
        PyMem_Free(self.slots)

    @property
    def argument_names(self):
        return tuple([<object>self.slots[i].name for i in range(self.nslots)])

    @property
    def op(self):
        return self.op

    @property
    def is_composite(self):
        return self.flags & COMPOSITE != 0

    @property
    def is_view(self):
        return self.flags & VIEW != 0

    @property
    def is_host(self):
        """Whether the body returns the final result without kernels: it reads metadata or copies values to the host."""
        return self.flags & HOST != 0


cdef object _library():
    return later("library")


@cython.final
cdef class Op:
    """An operator. It is callable and registered under `name`.

    A call binds the arguments to one of the schemas (`schemas`) and runs the meta
    kernel. On a device with data it then runs the device's kernel.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.relu.name
    'relu'
    >>> mt.relu.schemas
    ('relu(Tensor input) -> Tensor',)
    """

    @property
    def __name__(self):
        return self.name.rpartition(".")[2].rpartition("::")[2]

    @property
    def __qualname__(self):
        return self.name

    @property
    def __module__(self):
        return "metatensor"

    @property
    def __doc__(self):
        from metatensor._core.docstrings import operator_doc
        return operator_doc(self)

    @property
    def __signature__(self):
        from metatensor._core.describe import op_signature
        return op_signature(self)

    @property
    def __kwdefaults__(self):
        from metatensor._core.describe import keyword_defaults
        return keyword_defaults(self)

    @property
    def schemas(self):
        """The schema texts, one per overload."""
        prepare(self)
        return tuple([(<Overload>ov).text for ov in (self.overloads if self.base is None
                                                     else self.base.overloads)])

    @property
    def overloads(self):
        prepare(self)
        return tuple(self.overloads)

    @property
    def functional(self):
        """The functional op of an in-place variant, otherwise the op itself."""
        return self if self.base is None else self.base

    @property
    def short_doc(self):
        return self.doc

    def kernel(self, device, *, override=False):
        """Return a decorator that registers a kernel for a device type. See `metatensor.library.kernel`."""
        return _library().kernel(self.name, device, override=override)

    def decomposition(self, function):
        """Register a decomposition. Use it as a decorator. See `metatensor.library.decomposition`."""
        return _library().decomposition(self.name)(function)

    def gradient(self, *function_or_names, **rules):
        """Declare the gradient, as a decorator or with a function per argument. See `metatensor.library.gradient`."""
        return _library().gradient(self.name, *function_or_names, **rules)

    def flops(self, function):
        """Register a FLOP rule. Use it as a decorator. See `metatensor.library.flops`."""
        return _library().flops(self.name)(function)

    def __repr__(self):
        return f"<op {self.name}>"

    def __reduce__(self):
        return (op_by_name, (self.name,))

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


@cython.final
cdef class OpMethod:
    """An op as a method of Tensor."""

    def __get__(self, obj, cls):
        return self if obj is None else bind_method(self, obj)

    @property
    def __name__(self):
        return self.op.__name__

    @property
    def __qualname__(self):
        return f"Tensor.{self.op.__name__}"

    @property
    def __doc__(self):
        from metatensor._core.docstrings import operator_doc
        return operator_doc(self.op, method=True)

    @property
    def __signature__(self):
        from metatensor._core.describe import op_signature
        return op_signature(self.op)

    def __repr__(self):
        return f"<method {self.op.name} of Tensor>"

    def __reduce__(self):
        return (getattr, (Tensor, self.__name__))


@cython.final
cdef class OpProperty:
    """An op as a property of Tensor."""
    cdef readonly Op op

    def __get__(self, obj, cls):
        cdef PyObject* args[1]
        if obj is None:
            return self
        if not isinstance(obj, Tensor):
            raise TypeError(f"{self.op.name}: expected a Tensor, got {type(obj).__name__}")
        args[0] = <PyObject*>obj
        return hooks.invoke(<PyObject*>self.op, args, 1)

    @property
    def __doc__(self):
        from metatensor._core.docstrings import operator_doc
        return operator_doc(self.op, is_property=True)


cdef Py_ssize_t _offset(object probe, void** field):
    return <char*>field - <char*><PyObject*>probe

cdef Op _probe_op = Op.__new__(Op)
cdef OpMethod _probe_method = OpMethod.__new__(OpMethod)
use_vectorcall(Op, _offset(_probe_op, &_probe_op.vectorcall), False)
use_vectorcall(OpMethod, _offset(_probe_method, &_probe_method.vectorcall), True)
forbid_new(Op)
forbid_new(OpMethod)
forbid_new(OpProperty)
forbid_new(Overload)


# Declaring ------------------------------------------------------------------------

cdef class _Declared:
    """A declaration that is not parsed yet."""
    cdef str text
    cdef MetaFn meta
    cdef object pymeta
    cdef long flags


cdef Op _new_op(str name, int variant, Op base, str doc, long flags):
    cdef Op op = Op.__new__(Op)
    op.name = name = sys.intern(name)       # attributes are found faster by interned names
    op.variant = variant
    op.base = base
    op.doc = doc
    op.flags = flags
    op.texts = []
    op.overloads = _none
    op.vectorcall = entry_function
    if entry_function == NULL:
        _waiting.append(op)
    if name in _registry:
        raise RuntimeError(f"the op {name!r} is already defined")
    _registry[name] = op
    return op


cdef int _expose_method(Op op, str name) except -1:
    cdef OpMethod m = OpMethod.__new__(OpMethod)
    m.op = op
    m.vectorcall = entry_method
    if entry_method == NULL:
        _waiting.append(m)
    return type_set(Tensor, name, m)


cdef Op _define(str schema, MetaFn meta, object pymeta, long flags, str doc):
    cdef Py_ssize_t bracket = schema.index("("), dot
    cdef str head = schema[:bracket].strip()
    cdef str name = head, overload = None, first
    cdef Op op, variant
    cdef OpProperty prop
    cdef _Declared d = _Declared.__new__(_Declared)
    d.text = schema
    d.meta = meta
    d.pymeta = pymeta
    # The last dotted part is the name of an overload if the rest is the name of an op.
    dot = head.rfind(".")
    if dot > 0 and head[:dot] in _registry:
        name, overload = head[:dot], head[dot + 1:]
    if flags & INPLACE:
        flags |= ELEMENTWISE
    d.flags = flags
    first = schema[bracket + 1:].lstrip()
    if flags & INPLACE and not first.startswith("Tensor"):
        raise RuntimeError(f"{head}: an op with an in-place variant takes a Tensor first")
    if overload is not None:
        op = <Op>_registry[name]
        if op.variant or op.base is not None:
            raise RuntimeError(f"{head}: an in-place variant has no overloads of its own")
        for other in op.texts:
            if (<_Declared>other).text.partition("(")[0].strip() == head:
                raise RuntimeError(f"the overload {head!r} is already defined")
        op.ready = False
        op.texts.append(d)
        op.flags |= flags
        if name + "_" in _registry:
            (<Op>_registry[name + "_"]).ready = False
    else:
        op = _new_op(name, FUNCTIONAL, None, doc, flags)
        op.texts.append(d)
    if "." not in name and "::" not in name and overload is None:
        if flags & PROPERTY:
            prop = OpProperty.__new__(OpProperty)
            prop.op = op
            type_set(Tensor, name, prop)
        elif not flags & FUNCTION_ONLY and first.startswith("Tensor") and not first.startswith("Tensor[]"):
            _expose_method(op, name)
    if flags & INPLACE and name + "_" not in _registry:
        variant = _new_op(name + "_", IN_PLACE, op, doc, flags)
        if "." not in name:
            _expose_method(variant, name + "_")
    return op


cdef Op define(str schema, MetaFn meta, long flags=0, str doc=""):
    """Define a built-in op, or another overload (`name.overload`) of one."""
    return _define(schema, meta, None, flags, doc)


cdef Op define_python(str schema, object body, long flags=0, str doc=""):
    """Define an op whose meta kernel or composite body is a Python callable."""
    return _define(schema, NULL, body, flags, doc)


def define_op(schema, body, flags=0, doc=""):
    """Define an op with a Python meta kernel and return it.

    Raise RuntimeError if the name is already in use, SchemaError if the schema is malformed.
    """
    parse(schema)
    return _define(schema, NULL, body, flags, doc)


def set_meta(op, function):
    """Set the meta function of an op that was defined without one. Raise RuntimeError if it already has one."""
    cdef Op target = <Op?>op
    cdef _Declared d
    for d in target.texts:
        if d.meta != NULL or d.pymeta is not None:
            raise RuntimeError(f"{target.name}: a meta function is registered already")
        d.pymeta = function
    for ov in target.overloads:
        (<Overload>ov).pymeta = function


cdef int alias_op(str name, str target) except -1:
    """Register a second name for an op, its in-place variant and its methods."""
    cdef Op op = <Op>_registry[target]
    if name in _registry:
        raise RuntimeError(f"the op {name!r} is already defined")
    _registry[name] = op
    if "." not in name and not op.flags & (FUNCTION_ONLY | PROPERTY):
        _expose_method(op, name)
    if op.flags & INPLACE and not target.endswith("_"):
        _registry[name + "_"] = _registry[target + "_"]
        if "." not in name:
            _expose_method(<Op>_registry[target + "_"], name + "_")
    return 0


cdef int set_slot(int slot, str name) except -1:
    """Make an operator slot of Tensor call the op `name`."""
    slot_ops[slot] = <PyObject*>_registry[name]     # the registry keeps it alive
    return 0


def exempt_from_collection():
    """Exempt the ops defined so far from garbage collection.

    Built-in ops live as long as the process. They are half of the objects that the import creates, and each full
    collection would visit them, also those at the end of a process.
    """
    cdef Op op
    for op in _registry.values():
        PyObject_GC_UnTrack(<PyObject*>op)
        PyObject_GC_UnTrack(<PyObject*>op.texts)
        for declared in op.texts:
            PyObject_GC_UnTrack(<PyObject*>declared)
    for method in vars(Tensor).values():
        if isinstance(method, OpMethod):
            PyObject_GC_UnTrack(<PyObject*>method)


def missing_slots():
    """Return the numbers of the operator slots of Tensor that no op fills. Empty once all families are loaded."""
    return [i for i in range(<int>N_SLOTS) if slot_ops[i] == NULL]


def op_by_name(str name not None):
    """Return the op `name`, loading the plugin of its namespace if necessary. Raise AttributeError if it is unknown."""
    if name not in _registry and "::" in name:
        later("plugins").load_ops(name.partition("::")[0])
    if name not in _registry:
        raise AttributeError(f"there is no op {name!r}")
    return _registry[name]


cdef Op find(str name):
    return <Op>_registry[name]


def namespace(str prefix not None):
    """Return the ops of a namespace by name: ``namespace("nn.functional")["relu"]``. "" is the top-level namespace."""
    cdef str start = prefix + "." if prefix else ""
    cdef Op op
    out = {}
    for name, op in _registry.items():
        if start and not name.startswith(start):
            continue
        rest = sys.intern(name[len(start):]) if start else name
        if "." not in rest and "::" not in rest and not op.flags & (PROPERTY | METHOD_ONLY):
            out[rest] = op
    return out


cdef set_entries(void* function, void* method):
    """Set the vectorcall functions of Op and OpMethod. The dispatcher calls this once."""
    global entry_function, entry_method
    entry_function = function
    entry_method = method
    for o in _waiting:
        if isinstance(o, Op):
            (<Op>o).vectorcall = function
        else:
            (<OpMethod>o).vectorcall = method
    _waiting.clear()


# Parsing, on first use ---------------------------------------------------------------

cdef int prepare(Op op) except -1:
    cdef _Declared d
    cdef int i
    if op.ready:
        return 0
    if op.base is not None:
        prepare(op.base)
        op.overloads = op.base.overloads
        op.first = op.base.first
        op.ready = True
        return 0
    # Build a new list and assign it in one step, because another thread may do the same.
    made = list(op.overloads)
    for i in range(len(made), len(op.texts)):
        d = <_Declared>op.texts[i]
        made.append(_overload(op, d))
    if len(made) > len(op.overloads):
        op.overloads = made
    op.first = <Overload>op.overloads[0]
    op.ready = len(op.overloads) == len(op.texts)
    return 0


cdef Overload _overload(Op op, _Declared d):
    cdef Overload ov = Overload.__new__(Overload)
    cdef SlotSpec* s
    cdef int i, last
    schema = parse(d.text)
    arguments = schema.arguments
    if len(arguments) > MAX_ARGS:
        raise RuntimeError(f"{op.name}: at most {MAX_ARGS} arguments are supported")
    ov.qualname = schema.name
    ov.text, ov.op = d.text, op
    ov.flags = d.flags
    ov.meta = d.meta
    ov.pymeta = d.pymeta
    ov.nslots = len(arguments)
    ov.slots = <SlotSpec*>PyMem_Calloc(max(ov.nslots, 1), sizeof(SlotSpec))
    if ov.slots == NULL:
        raise MemoryError()
    ov.varargs = ov.device_slot = ov.inplace_slot = -1
    refs = [schema, tuple([sys.intern(a.name) for a in arguments if a.kwonly])]
    for i, a in enumerate(arguments):
        s = &ov.slots[i]
        name = sys.intern(a.name)
        refs += [name, a.default]
        s.name = <PyObject*>name
        s.default = NULL if a.required else <PyObject*>refs[len(refs) - 1]
        s.kind = a.kind
        s.optional = a.optional or (not a.required and a.default is None)
        s.mutated = a.mutated
        s.repeat = a.repeat
        if a.mutated:
            ov.mutates = True
        if d.flags & INPLACE_ARG and name == "inplace":
            ov.inplace_slot = i
        if a.kind == K_DEVICE:
            ov.device_slot = i
        if not a.kwonly:
            ov.npos = i + 1
    last = ov.npos - 1
    if last >= 0 and ov.slots[last].kind == K_INTS and ov.slots[last].repeat == 0:
        ov.varargs = last
    ov.refs, ov.kernels = refs, []
    names = [n for _, n in schema.returns]
    ov.nreturns = -1 if schema.returns_list else len(names)     # -1: one list of any length
    if ov.nreturns > 1 and None not in names:
        ov.returns = tuple(names)
    return ov


def _results_repr(self):
    """Return the printed form of several results, each on its own line."""
    fields = [f"\n{name}={value!r}" for name, value in zip(type(self).__match_args__, self)]
    return f"{type(self).__module__}.{type(self).__name__}({','.join(fields)})"


cdef object make_returns(Call* c, tuple values):
    """Return several results as a named tuple if the schema names them, else as a tuple."""
    cdef Overload ov = <Overload>c.overload
    cdef object seq
    cdef Py_ssize_t i
    if ov.returns is None:
        return values
    if ov.return_type is None:
        name = f"{spelling()}.return_types.{ov.op.__name__}"
        ov.return_type = make_structseq(name.encode(), ov.returns)
        ov.return_type.__repr__ = _results_repr
    seq = new_structseq(ov.return_type)
    for i in range(len(values)):
        set_structseq(seq, i, values[i])
    return seq


cdef object call(str name, tuple args, dict kwargs=None):
    """Call an op by name, from compiled code that is not performance-critical."""
    cdef Op op = <Op>_registry[name]
    PyErr_CheckSignals()    # so that a loop of calls can be interrupted
    return as_declared(op, op(*args) if kwargs is None else op(*args, **kwargs))


cdef object as_declared(Op op, object result):
    """Return `result` if it matches the schema. Raise TypeError if a mode or an override returned something else."""
    if type(result) is tuple and len(<tuple>result) == op.first.nreturns:
        for each in <tuple>result:
            if not isinstance(each, Tensor):
                break
        else:
            return result
    if (isinstance(result, Tensor) and op.first.nreturns == 1) or any([
            (<list>(<Overload>ov).refs)[0]._admits(result, Tensor) for ov in op.overloads]):
        return result
    raise TypeError(f"{op.name}(): a mode or an override returned {type(result).__name__}, unlike the schema")


cdef int hold(Call* c, object value) except -1:
    """Keep a temporary alive until the call ends."""
    cdef object kept = value if c.keep == NULL else (<object>c.keep, value)
    Py_INCREF(kept)
    if c.keep != NULL:
        Py_DECREF(<object>c.keep)
    c.keep = <PyObject*>kept
    return 0


# Access to arguments ------------------------------------------------------------------

cdef dim_t int_arg(Call* c, int i) except? -1:
    cdef int beyond = 0
    cdef dim_t value = PyLong_AsLongLongAndOverflow(<object>c.args[i], &beyond)
    if beyond:
        raise RuntimeError(f"{op_name(c)}(): {<object>c.args[i]} is beyond 64 bits")
    return value


cdef double float_arg(Call* c, int i) except? -1:
    return float(<object>c.args[i])


cdef int dims_arg(Call* c, int i, dim_t* to) except -1:
    """Write an int list to `to`, which has room for MAX_DIMS values. Return its length."""
    cdef object value = <object>c.args[i]
    cdef SlotSpec* s = &(<Overload>c.overload).slots[i]
    cdef PyObject** items = NULL
    cdef Py_ssize_t length
    cdef int n, k, beyond = 0
    if isinstance(value, int):
        n = max(s.repeat, 1)
        for k in range(n):
            to[k] = value
        return n
    if not isinstance(value, tuple) and not isinstance(value, list):
        value = tuple(value)
        hold(c, value)
    length = PySequence_Fast_GET_SIZE(value)
    items = PySequence_Fast_ITEMS(value)
    if length > MAX_DIMS:
        raise RuntimeError(f"{op_name(c)}(): argument '{<object>s.name}' has more than {MAX_DIMS} values")
    n = <int>length
    for k in range(n):
        if small_int(items[k], &to[k]):
            continue
        to[k] = PyLong_AsLongLongAndOverflow(<object>items[k], &beyond)
        if beyond:
            raise RuntimeError(f"{op_name(c)}(): {value[k]} in argument '{<object>s.name}' is beyond 64 bits")
    if s.repeat > 1 and n == 1:
        for k in range(1, s.repeat):
            to[k] = to[0]
        n = s.repeat
    return n


cdef int wrap(Call* c, dim_t d, int ndim) except -1:
    """Return dimension `d` as 0 <= d < ndim. Raise IndexError if it is out of range. A 0-d tensor counts as 1-d."""
    cdef int n = ndim if ndim else 1
    if d < -n or d >= n:
        raise IndexError(f"{op_name(c)}(): dimension {d} is out of range for {ndim} dimensions; "
                         f"expected {-n} to {n - 1}")
    return d + n if d < 0 else d


cdef int dim_arg(Call* c, int i, int ndim) except -1:
    return wrap(c, int_arg(c, i), ndim)


cdef int dim_list(Call* c, int i, int ndim, bint* chosen) except -1:
    """Set `chosen` for the dimensions in an optional int list. None and () select all dimensions.

    Return the number of dimensions in the list. Raise RuntimeError if one appears twice.
    """
    cdef dim_t dims[MAX_DIMS]
    cdef int k, d, n = 0
    if ndim > SET_DIMS:
        raise RuntimeError(f"{op_name(c)}(): at most {SET_DIMS} dimensions are supported, got {ndim}")
    for k in range(ndim):
        chosen[k] = False
    if not is_none(c, i):
        n = dims_arg(c, i, dims)
    if n == 0:
        for k in range(ndim):
            chosen[k] = True
        return 0
    for k in range(n):
        d = wrap(c, dims[k], ndim)
        if ndim == 0:
            if k:
                raise RuntimeError(f"{op_name(c)}(): dimension {d} appears more than once in the list")
            continue
        if chosen[d]:
            raise RuntimeError(f"{op_name(c)}(): dimension {d} appears more than once in the list")
        chosen[d] = True
    return n


cdef DType dtype_arg(Call* c, int i, DType default):
    return default if is_none(c, i) else <DType>c.args[i]


cdef list tensors_arg(Call* c, int i):
    """Return an argument of several tensors as a list. It is not copied if it is a list already."""
    cdef object value = <object>c.args[i]
    return <list>value if type(value) is list else list(value)


# The flags of op.pxd, for Python modules.
operator_flags = SimpleNamespace(
    INPLACE=INPLACE, OUT=OUT, VIEW=VIEW, COMPOSITE=COMPOSITE, DATA=DATA, ELEMENTWISE=ELEMENTWISE,
    RANDOM=RANDOM, FUNCTION_ONLY=FUNCTION_ONLY, METHOD_ONLY=METHOD_ONLY, PROPERTY=PROPERTY, NO_GRAD=NO_GRAD,
    HOST=HOST, EXACT_OUT=EXACT_OUT, INPLACE_ARG=INPLACE_ARG, MIXED=MIXED, SAFE_CAST=SAFE_CAST,
    ONE_VALUE=ONE_VALUE, NO_OVERLAP=NO_OVERLAP, QUIET_OUT=QUIET_OUT, KEEPS_SHAPE=KEEPS_SHAPE,
    NO_PARTIAL=NO_PARTIAL,
)
