"""The part of the pickle machine that handles names, calls, states and keys.

The machine never imports anything, and calls only what its tables contain.
"""
from collections import Counter, OrderedDict, defaultdict

from cpython.dict cimport PyDict_GetItem, PyDict_SetItem
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from libc.string cimport memchr
from metatensor.checkpoint._keys cimport HashTableModel, is_number, key_cost
from metatensor.checkpoint._stack cimport Stack, charge
from metatensor.checkpoint._values cimport Empty, Inert, Kept, Known, Marker, describe, replaced, survey
from metatensor.checkpoint._keys import NoKey
from metatensor.checkpoint.errors import CheckpointError

cdef enum:
    FEW = 8                             # up to this many keys, assume that all are compared
    PLAIN = 256                         # up to this many keys, lookups of numbers are not charged

MAX_ATTRIBUTE = 1000
"""Longest name of an attribute."""
MAX_NAMES = 1000
"""Largest number of unknown names in a pickle. More are an error even if the machine is tolerant."""

cdef type ODICT = OrderedDict
cdef type COUNTER = Counter
cdef type DEFAULTDICT = defaultdict


def _set_state(instance, state):
    """Perform the opcode BUILD on an instance of a class that the user allows."""
    if hasattr(instance, "__setstate__"):
        instance.__setstate__(state)
        return
    slots = None
    if type(state) is tuple and len(state) == 2:
        state, slots = state
    if state:
        instance.__dict__.update(state)
    for name, value in (slots or {}).items():
        setattr(instance, name, value)


cdef class Calls(Stack):
    """The part of `Machine` that handles names. `Machine` documents the parameters."""

    def __init__(self, str file, dict table, dict allowed=None, dict builders=None, persist=None, bint tolerant=False, source=None):
        self.file = file
        self.table = table
        self.allowed = allowed or {}
        self.builders = dict(builders or ())
        self.persist = persist
        self.tolerant = tolerant
        self.source = source
        self.callables = set()
        self.unknown = {}
        self.hash_models = {}

    # For handlers -------------------------------------------------------------

    def charge(self, nbytes):
        """Charge about ``nbytes`` that a handler is going to allocate. Raise `CheckpointError` beyond the limit."""
        self.spend(nbytes)

    def error(self, str reason):
        """Return a `CheckpointError` with the current position in the pickle."""
        return self.wrong(reason)

    def set_item(self, mapping, key, value):
        """Set ``mapping[key] = value`` after checking and charging the key."""
        self.put(mapping, key, value)

    def add_item(self, set target not None, key):
        """Add ``key`` to ``target`` after checking and charging it."""
        self.add(target, key)

    def meaning(self, Marker marker not None):
        """Return the value that a marker in the result represents."""
        return self.value_of(marker)

    def add_builder(self, cls, builder):
        """Make the opcode BUILD call ``builder(machine, instance, state)`` for instances of ``cls``."""
        self.builders[cls] = builder

    def may_call(self, value):
        """Return True if the user allows ``value`` and this pickle has named it."""
        return <size_t><PyObject*>value in self.callables

    def name_of(self, str module, str name):
        """Return the meaning of a name that is not in the table, or None. Subclasses override this."""
        return None

    def apply(self, function, args):
        """Perform the opcode REDUCE: call a named function with a tuple of arguments."""
        return self.call(function, args, False)

    def unknown_names(self):
        """Return an error that lists the unknown names."""
        cdef list names = list(self.unknown)
        cdef str text = ", ".join(names[:20])
        if len(names) > 20:
            text += f" and {len(names) - 20} more"
        where = self.base + self.unknown[names[0]]
        if any([name.startswith("torch.nn.modules.") for name in names]):
            advice = ("It was saved as a whole module, which is code: save module.state_dict() instead, or run it with "
                      "weights_only=False if you trust the file")
        else:
            advice = (f"If you know {'it' if len(names) == 1 else 'them'} and trust the file: "
                      "metatensor.serialization.add_safe_globals([...])")
        return CheckpointError(
            self.file,
            f"at byte {where:,}: it names {text}, which tensors do not need. No unknown code was run. {advice}. "
            "Its tensors can still be listed with inspect, and read with load_into and convert")

    # For subclasses to override -----------------------------------------------

    cdef object quick(self, Known known, tuple args):
        """Call a `Known` whose `code` is not 0. Subclasses can compute such calls themselves."""
        return known.call(self, args)

    cdef object persistent(self, object id):
        """Return the object for a persistent id."""
        if self.persist is None:
            raise self.wrong(f"this file cannot have persistent ids, but has {describe(id)}")
        return self.persist(self, id)

    cdef object value_of(self, Marker marker):
        """Return the value of a marker that is part of the result."""
        if isinstance(marker, Inert):
            return marker
        if isinstance(marker, Empty):
            return self.call((<Empty>marker).known, (), False)
        if isinstance(marker, Known) and isinstance((<Known>marker).value, type):
            return (<Known>marker).value
        raise self.wrong(f"{describe(marker)} is part of the result, but it is not a value")

    # Names and calls ----------------------------------------------------------

    cdef object named(self, bytes key):
        """Return the meaning of a name, ``b"module\\nname"``."""
        cdef PyObject* found = PyDict_GetItem(self.table, key)
        if found != NULL:
            return <object>found
        found = PyDict_GetItem(self.allowed, key)
        if found != NULL:
            self.callables.add(<size_t>found)
            return <object>found
        self.spend(256 + 8 * len(key))
        name = key.decode("utf-8", "replace")
        value = self.name_of(*name.split("\n"))
        if value is not None:
            return value
        name = name.replace("\n", ".")
        name = name if len(name) <= 200 and name.isprintable() else ascii(name[:200])
        if name not in self.unknown:
            if len(self.unknown) >= MAX_NAMES:
                raise self.wrong(f"it names more than {MAX_NAMES:,} things that are neither known nor allowed")
            self.unknown[name] = self.here
        return Inert(name)

    cdef object global_(self):
        """Read the two lines of GLOBAL or INST and return their meaning."""
        cdef Py_ssize_t start = self.at
        cdef const unsigned char* here = self.data + start
        cdef const unsigned char* first = <const unsigned char*>memchr(here, 10, self.end - start)
        cdef const unsigned char* second = NULL
        if first != NULL:
            second = <const unsigned char*>memchr(first + 1, 10, self.end - (first + 1 - self.data))
        if second == NULL or second - here > 4096:
            if self.end - start > 4096:
                raise self.wrong("a name has more than 4,096 bytes")
            raise self.truncated("a name")
        self.at = second + 1 - self.data
        return self.named(PyBytes_FromStringAndSize(<const char*>here, second - here))

    cdef object stack_global(self):
        name = self.pop()
        module = self.pop()
        if type(name) is not str or type(module) is not str:
            raise self.wrong(f"STACK_GLOBAL takes two strings, got {describe(module)} and {describe(name)}")
        if len(name) + len(module) > 4096 or "\n" in name or "\n" in module:
            raise self.wrong(f"STACK_GLOBAL got invalid names: {describe(module)} and {describe(name)}")
        return self.named(f"{module}\n{name}".encode("utf-8", "surrogatepass"))

    cdef object call(self, object function, object args, bint new):
        """Call a named function with ``args``, which must be a tuple. ``new`` is true for NEWOBJ."""
        cdef Known known
        cdef str opcode = "NEWOBJ" if new else "REDUCE"
        if type(function) is Known:
            known = <Known>function
            if known.call is None or (new and not known.new):
                raise self.wrong(f"{opcode} of {known.name}, which a checkpoint may name but not call")
            if type(args) is not tuple:
                if new or not known.new:
                    raise self.wrong(f"{opcode} takes a tuple of arguments, got {describe(args)}")
                args = (args,)  # TorchScript writes the members of enumerations so
            if known.code:
                return self.quick(known, <tuple>args)
            return self.guarded(known.name, known.call, (self, args))
        if isinstance(function, Inert):
            return self.kept(<Inert>function, args)
        if not self.callables or <size_t><PyObject*>function not in self.callables:
            raise self.wrong(f"{opcode} of {describe(function)}, which is not callable here")
        if type(args) is not tuple:
            raise self.wrong(f"{opcode} takes a tuple of arguments, got {describe(args)}")
        name = getattr(function, "__qualname__", "a callable")
        args = self.plain(args)
        if not new:
            return self.guarded(name, function, args)
        if not isinstance(function, type):
            raise self.wrong(f"{opcode} of {name}, which is not a class")
        return self.guarded(name, function.__new__, (function, *args))

    cdef object plain(self, object value):
        """Return ``value`` with its markers replaced, as an argument for a callable that the user allows."""
        cdef double steps = 0
        found = survey(value, &steps)
        self.spend(16 * <long long>steps)
        if type(found) is str:
            raise self.wrong(f"an argument has {found}")
        return replaced(value, self.meaning, {}) if found else value

    cdef object kept(self, Inert unknown, object args):
        """Return a placeholder for the result of calling an unknown name.

        It keeps the arguments if the machine is tolerant.
        """
        cdef Kept made
        if not self.tolerant:
            return unknown
        charge(self, 80)
        made = Kept.__new__(Kept)
        made.name = unknown.name
        made.state = None if type(args) is tuple and not <tuple>args else args
        return made

    cdef int keep(self, object unknown, object more) except -1:
        """Add items or state to the placeholder of an unknown object."""
        cdef Kept kept
        if type(unknown) is Kept:
            charge(self, 72)
            kept = <Kept>unknown
            kept.state = more if kept.state is None else (kept.state, more)
        return 0

    cdef object guarded(self, str name, object function, tuple args, dict kwargs=None):
        """Call ``function``. Turn its errors into a `CheckpointError` with the current position."""
        self.spend(256)
        try:
            return function(*args, **kwargs) if kwargs else function(*args)
        except (CheckpointError, MemoryError, OSError):
            raise
        except Exception as error:
            what = " ".join(str(error).split())
            raise self.wrong(f"{name}: {type(error).__name__}: {what[:200]}") from error

    cdef object with_keywords(self):
        """Perform the opcode NEWOBJ_EX. Only classes that the user allows accept keyword arguments."""
        kwargs = self.pop()
        args = self.pop()
        cls = self.pop()
        if isinstance(cls, Inert):
            return self.kept(<Inert>cls, args)
        if type(kwargs) is not dict or any(type(key) is not str for key in kwargs):
            raise self.wrong(f"NEWOBJ_EX takes a dict of keywords, got {describe(kwargs)}")
        if not kwargs:
            return self.call(cls, args, True)
        if not self.callables or <size_t><PyObject*>cls not in self.callables or not isinstance(cls, type):
            raise self.wrong(f"NEWOBJ_EX of {describe(cls)}, which a checkpoint may not create")
        if type(args) is not tuple:
            raise self.wrong(f"NEWOBJ_EX takes a tuple of arguments, got {describe(args)}")
        return self.guarded(cls.__qualname__, cls.__new__, (cls, *self.plain(args)), self.plain(kwargs))

    cdef int build(self) except -1:
        state = self.pop()
        instance = self.peek()
        cls = type(instance)
        if isinstance(instance, Inert):
            return self.keep(instance, state)
        if cls is ODICT or cls is COUNTER or cls is DEFAULTDICT:
            self.attributes(instance, state)
        elif cls in self.builders:
            self.guarded(cls.__name__, self.builders[cls], (self, instance, state))
        elif <size_t><PyObject*>cls in self.callables:
            self.guarded(cls.__qualname__, _set_state, (instance, self.plain(state)))
        else:
            raise self.wrong(f"BUILD of {describe(instance)}, which has no state to set")
        return 0

    cdef int attributes(self, object mapping, object state) except -1:
        """Set instance attributes of a mapping, such as an OrderedDict's ``_metadata``.

        Raise `CheckpointError` for a name that the mapping's class already uses.
        """
        cls = type(mapping)
        if type(state) is not dict:
            raise self.wrong(f"the state of {describe(mapping)} must be a dict, got {describe(state)}")
        self.spend(128 * len(state))
        for key in state:
            self.attribute(cls, key)
        mapping.__dict__.update(state)
        return 0

    cdef int attribute(self, object cls, object name) except -1:
        """Raise `CheckpointError` if a checkpoint may not set this attribute on instances of ``cls``."""
        if type(name) is not str or len(name) > MAX_ATTRIBUTE or name.startswith("__") or hasattr(cls, name):
            raise self.wrong(f"{describe(name)} cannot be set by a checkpoint as an attribute of {cls.__name__}")
        return 0

    def check_attribute(self, cls, name):
        """Raise `CheckpointError` if a checkpoint may not set this attribute on instances of ``cls``."""
        self.attribute(cls, name)

    # Keys ----------------------------------------------------------------------

    cdef HashTableModel hash_model(self, object container, object key):
        """Charge the lookup of a key that is neither str nor bytes.

        Return the container's `HashTableModel`, or None if it has none. The caller must call its `note_inserted` after
        inserting the key.
        """
        cdef HashTableModel hash_model
        cdef long long cost = 32
        cdef Py_ssize_t steps
        cdef Py_ssize_t count = len(container)
        if is_number(key):
            if count < PLAIN:
                return None
        else:
            try:
                cost = key_cost(key)
                self.spend(cost)
                hash(key)
            except CheckpointError:
                raise
            except NoKey as error:
                raise self.wrong(f"{describe(key)} cannot be a key: {error}") from None
            except Exception:
                raise self.wrong(f"{describe(key)} cannot be a key: it cannot be hashed") from None
        if count < FEW:
            self.spend(cost * count)
            return None
        hash_model = self.latest
        if hash_model is None or hash_model.container is not container:
            hash_model = self.latest = self.hash_models.get(id(container))
        if hash_model is None:
            self.spend(300)
            hash_model = self.latest = self.hash_models[id(container)] = HashTableModel(container)
        elif hash_model.count != count:
            hash_model.rebuild(count)
        steps = hash_model.steps(key)
        if hash_model.alike > 256:
            raise self.wrong("more than 256 keys have the same hash")
        self.spend(16 * steps + cost * hash_model.alike)
        return hash_model

    cdef int put(self, object mapping, object key, object value) except -1:
        cdef HashTableModel hash_model = None
        if type(key) is str or type(key) is bytes:
            if len(key) > 256:
                charge(self, len(key))          # the cost of comparing it with an equal key
        elif key is not None:
            hash_model = self.hash_model(mapping, key)
        if type(mapping) is dict:
            charge(self, 64)
            PyDict_SetItem(mapping, key, value)
        else:
            charge(self, 150)
            mapping[key] = value
        if hash_model is not None:
            hash_model.note_inserted()
        return 0

    cdef int add(self, object target, object key) except -1:
        """Add a key to a set."""
        cdef HashTableModel hash_model = None
        if type(key) is str or type(key) is bytes:
            if len(key) > 256:
                charge(self, len(key))
        elif key is not None:
            hash_model = self.hash_model(target, key)
        charge(self, 128)
        (<set>target).add(key)
        if hash_model is not None:
            hash_model.note_inserted()
        return 0
