"""Markers, which represent names on the pickle machine's stack, and a check of the finished result."""
cimport cython
from collections import Counter, OrderedDict, defaultdict
from cpython.object cimport PyObject

cdef extern from "Python.h":
    Py_ssize_t refcount "Py_REFCNT"(PyObject* p)

MAX_DEPTH = 200
"""Greatest nesting depth of containers in a result."""
MAX_WALK = 10_000_000
"""Largest number of steps that walking a result may take if shared containers are visited every time."""

cdef type ODICT = OrderedDict
cdef type COUNTER = Counter
cdef type DEFAULTDICT = defaultdict


cdef class Marker:
    pass


cdef class Known(Marker):
    """A name that pickles may use.

    ``call(machine, args)`` performs a call. Without it, the name cannot be called. ``value`` is what the name means
    if it is not called. If ``new`` is true, the opcode NEWOBJ may call it too. If ``empty`` is true, a call without
    arguments whose result is immediately put into a tuple creates a placeholder instead of an object. Most of the
    placeholders for a state dict are dropped. If one remains in the result, its object is created at the end.
    """

    def __init__(self, str name, call=None, value=None, new=False, int code=0, empty=False):
        self.name = name
        self.call = call
        self.value = value
        self.new = new
        self.code = code
        if empty:
            self.part = Empty.__new__(Empty)
            self.part.known = self

    def __repr__(self):
        return f"<{self.name}>"


cdef class Empty(Marker):
    """Placeholder for an empty container inside a tuple.

    The container is made only if it becomes part of the result.
    """


cdef class Inert(Marker):
    """Placeholder for an unknown name and for the results of calling it."""

    def __init__(self, str name):
        self.name = name

    def __repr__(self):
        return f"<{self.name}: unknown>"


@cython.trashcan(True)
cdef class Kept(Inert):
    """Placeholder for the result of calling an unknown name.

    It keeps the arguments and state, which may contain tensors.
    """


@cython.trashcan(True)
cdef class Record:
    """An object whose class is defined only in the file, with the class's name and the object's state."""

    def __init__(self, str name):
        self.name = name

    def __repr__(self):
        return f"<{self.name}>"


cdef str describe(object value):
    """Return a short description of a value for a message."""
    if isinstance(value, Known):
        return (<Known>value).name
    if isinstance(value, Inert):
        return (<Inert>value).name
    if isinstance(value, Empty):
        return f"an empty {(<Empty>value).known.name}"
    if value is None or type(value) is bool or type(value) is float:
        return repr(value)
    if type(value) is int:
        return repr(value) if value.bit_length() <= 80 else f"an integer of {value.bit_length():,} bits"
    if type(value) is str or type(value) is bytes:
        text = repr(value[:60])
        return text if len(value) <= 60 else text + "..."
    name = type(value).__name__
    return ("an " if name[:1].lower() in "aeiou" else "a ") + name[:80]


# The result -----------------------------------------------------------------------

@cython.final
cdef class _Frame:
    """A container that is being walked."""
    cdef object container
    cdef bint shared            # whether there may be other references to it
    cdef list children          # non-empty containers in it
    cdef list flags             # whether each of them is shared
    cdef Py_ssize_t at
    cdef int height             # greatest height of the children walked so far
    cdef double steps


cdef inline int _scan_one(_Frame frame, object item, bint* marked) except -1:
    cdef type cls = type(item)
    if cls is tuple or cls is list or cls is dict or cls is set or cls is frozenset or cls is ODICT or cls is DEFAULTDICT or cls is COUNTER:
        if len(item):
            # The container and this function's argument are two references. A third may be a variable of the caller.
            frame.flags.append(refcount(<PyObject*>item) > 2)
            frame.children.append(item)
    elif cls is Record:
        frame.flags.append(refcount(<PyObject*>item) > 2)
        frame.children.append(item)
    elif isinstance(item, Marker):
        marked[0] = True
    return 0


cdef _Frame _frame(object container, bint shared, bint* marked):
    cdef _Frame frame = _Frame.__new__(_Frame)
    cdef type cls = type(container)
    frame.container = container
    frame.shared = shared
    frame.children = []
    frame.flags = []
    frame.steps = 1
    if cls is Record:
        _scan_one(frame, (<Record>container).state, marked)
        return frame
    if cls is tuple or cls is list or cls is set or cls is frozenset:
        for item in container:
            _scan_one(frame, item, marked)
    else:
        for key, item in (<dict>container).items():
            if type(key) is not str:
                _scan_one(frame, key, marked)
            _scan_one(frame, item, marked)
    frame.steps = 1 + len(container)
    return frame


cdef object survey(object root, double* steps):
    """Check a result. Return a str that describes an error, or a bool that tells whether it contains markers.

    Each container is walked once, so time and memory are proportional to their total size, which is stored in
    ``steps``.
    """
    cdef bint marked = False
    cdef dict known = {}                # id of a shared container -> (height, steps), None while it is walked
    cdef list stack = []
    cdef _Frame top, above
    cdef double walked = 0
    cdef object child
    top = _Frame.__new__(_Frame)
    top.children, top.flags = [], []
    _scan_one(top, root, &marked)
    while True:
        if top.at < len(top.children):
            child = top.children[top.at]
            shared = top.flags[top.at]
            top.at += 1
            if shared:
                found = known.get(id(child), False)
                if found is None:
                    return f"{describe(child)} contains itself"
                if found is not False:
                    top.height = max(top.height, <int>found[0])
                    top.steps += <double>found[1]
                    if len(stack) + top.height > MAX_DEPTH:
                        return f"containers nested more than {MAX_DEPTH} deep"
                    continue
                known[id(child)] = None
            if len(stack) >= MAX_DEPTH:
                return f"containers nested more than {MAX_DEPTH} deep"
            stack.append(top)
            top = _frame(child, shared, &marked)
            walked += top.steps
            steps[0] = walked
            continue
        if top.steps > MAX_WALK and top.steps > 64 * walked:
            return f"shared containers that take more than {MAX_WALK:,} steps to walk"
        if not stack:
            return marked
        above = <_Frame>stack.pop()
        if top.shared:
            known[id(top.container)] = (top.height + 1, top.steps)
        above.height = max(above.height, top.height + 1)
        above.steps += top.steps
        top = above


cdef object replaced(object value, object value_of, dict done):
    """Return ``value`` with each `Marker` in it replaced by ``value_of(marker)``.

    `survey` must have checked the depth of ``value``.
    """
    cdef type cls = type(value)
    if isinstance(value, Marker):
        return value_of(value)
    if cls is not tuple and cls is not list and cls is not dict and cls is not ODICT and cls is not DEFAULTDICT and cls is not COUNTER \
            and cls is not set and cls is not frozenset and cls is not Record:
        return value
    if id(value) in done:
        return done[id(value)][1]
    made = value
    if cls is Record:
        (<Record>value).state = replaced((<Record>value).state, value_of, done)
    elif cls is tuple:
        items = [replaced(item, value_of, done) for item in value]
        if any([item is not before for item, before in zip(items, value)]):
            made = tuple(items)
    elif cls is list:
        for i, item in enumerate(value):
            value[i] = replaced(item, value_of, done)
    elif cls is set or cls is frozenset:
        items = [replaced(item, value_of, done) for item in value]
        if any([item is not before for item, before in zip(items, value)]):
            made = cls(items)
    else:
        items = [(key, item, replaced(key, value_of, done), replaced(item, value_of, done)) for key, item in value.items()]
        if any([key is not old for old, _, key, _ in items]):
            value.clear()
        for _, before, key, item in items:
            if item is not before or key not in value:
                value[key] = item
    done[id(value)] = (value, made)
    return made
