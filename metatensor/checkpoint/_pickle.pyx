"""The pickle machine: an interpreter of pickles that neither imports nor calls anything of their choosing.

A pickle is a program for a stack machine. This one knows the names in a table that its maker gives it and those
that the user allows; any other becomes an `Inert` placeholder, is listed, and is an error at the end. What a program
may use is bounded: objects are charged against a limit that grows with the pickle's own size, the memo cannot be
larger than the pickle, copies are charged, keys are such that hashing and comparing them costs little, and the
result is neither cyclic nor nested beyond `MAX_DEPTH` nor exponentially large when walked (`_values.pyx`).
"""
from collections import Counter, OrderedDict, defaultdict
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_GetItem, PyDict_SetItem
from cpython.list cimport PyList_Append
from cpython.object cimport PyObject
from libc.string cimport memchr
from metatensor.checkpoint._stack cimport Stack, byte, charge, push, recall, remember, word
from metatensor.checkpoint._values cimport Empty, Inert, Known, Marker, describe, is_plain_key, key_problem, replaced, survey
from metatensor.checkpoint._stack import MAX_DIGITS, Truncated
from metatensor.checkpoint.errors import CheckpointError

cdef extern from "Python.h":
    int PyGC_Enable()
    int PyGC_Disable()

ALLOWANCE = 64 << 20
"""Bytes that objects of a pickle may take, whatever its size."""
PER_BYTE = 256
"""Bytes that they may take beyond it for each byte of the pickle. Opcodes proper need less than that."""
MAX_NAMES = 1000

cdef type ODICT = OrderedDict
cdef type COUNTER = Counter
cdef type DEFAULTDICT = defaultdict


def _set_state(instance, state):
    """What BUILD does to an instance of a class that the user allows."""
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


cdef class Machine(Stack):
    """Runs pickles of one file.

    Args:
        file: what messages call it.
        table: ``b"module\\nname"`` to a value, or to a `Known`.
        allowed: the same for classes and functions that the user allows; they are called as pickles ask.
        builders: a type to ``callable(machine, instance, state)`` for BUILD.
        persist: ``callable(machine, id)`` for persistent ids.
        tolerant: keep `Inert` placeholders in the result rather than raise.
        source: free for handlers.
    """

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
        self.hashes = {}
        self.limit = ALLOWANCE

    def load(self, data, long long base=0, long long paid=-1):
        """The value of the pickle that ``data`` (bytes) begins with, and how many bytes of it that took.

        ``base`` is where they begin in the file; ``paid`` how many bytes of the file they are where that differs
        from their length, as for compressed ones. Raises `CheckpointError`, of class `Truncated` where ``data`` end too soon.
        """
        cdef const unsigned char[::1] view = data
        cdef double steps = 0
        self.buffer = data
        self.end = view.shape[0]
        self.data = &view[0] if self.end else NULL
        self.at = self.here = 0
        self.base = base
        self.spent = 0
        self.allowance = ALLOWANCE
        self.per_byte = PER_BYTE if paid < 0 else 0
        self.limit = ALLOWANCE if paid < 0 else ALLOWANCE + PER_BYTE * paid
        cdef bint collecting = PyGC_Disable()   # what is made here is no garbage, and nothing in it a cycle
        try:
            value = self.run()
            self.clear()            # what is shared shows in its references
            found = survey(value, &steps)
            if type(found) is str:
                raise self.wrong(f"its result has {found}")
            if found:
                value = replaced(value, self.meaning, {})
        except CheckpointError:
            if self.unknown and not self.tolerant:
                raise self.unknown_names() from None
            raise
        except RecursionError:
            raise self.wrong("it needs too deep a recursion") from None
        finally:
            if collecting:
                PyGC_Enable()
            self.clear()
            self.hashes.clear()
            self.buffer = None
        if self.unknown and not self.tolerant:
            raise self.unknown_names()
        return value, self.at

    # For handlers -------------------------------------------------------------

    def charge(self, nbytes):
        """Count ``nbytes`` (about) that a handler is going to allocate. `CheckpointError` beyond the limit."""
        self.spend(nbytes)

    def error(self, str reason):
        """A `CheckpointError` that names the place in the pickle."""
        return self.wrong(reason)

    def set_item(self, mapping, key, value):
        """``mapping[key] = value`` with the checks of keys."""
        self.put(mapping, key, value)

    def meaning(self, Marker marker not None):
        """What a marker among the values of a result stands for."""
        return self.value_of(marker)

    def add_builder(self, cls, builder):
        """Let BUILD of instances of ``cls`` be ``builder(machine, instance, state)``."""
        self.builders[cls] = builder

    def may_call(self, value):
        """Whether a value is something that the user allows and this pickle has named."""
        return <size_t><PyObject*>value in self.callables

    def name_of(self, str module, str name):
        """What a name that is not in the table stands for, for subclasses; None where it is not known."""
        return None

    def apply(self, function, args):
        """What REDUCE makes of a function that was named and its arguments."""
        return self.call(function, args, False)

    def unknown_names(self):
        """The error that lists the names that are not known."""
        cdef list names = list(self.unknown)
        cdef str text = ", ".join(names[:20])
        if len(names) > 20:
            text += f" and {len(names) - 20} more"
        where = self.base + self.unknown[names[0]]
        return CheckpointError(
            self.file,
            f"at byte {where:,}: it names {text}, which tensors do not need. Nothing of it was run. If you know "
            f"{'it' if len(names) == 1 else 'them'} and trust the file: metatensor.serialization.add_safe_globals([...])")

    # What subclasses change ---------------------------------------------------

    cdef object quick(self, Known known, tuple args):
        """A call of a `Known` with a code."""
        return known.call(self, args)

    cdef object persistent(self, object id):
        """What a persistent id stands for."""
        if self.persist is None:
            raise self.wrong(f"a persistent id, {describe(id)}, where none can be")
        return self.persist(self, id)

    cdef object value_of(self, Marker marker):
        """What a marker means that is a value of the result."""
        if isinstance(marker, Inert):
            return marker
        if isinstance(marker, Empty):
            return self.call((<Empty>marker).known, (), False)
        if isinstance(marker, Known) and isinstance((<Known>marker).value, type):
            return (<Known>marker).value
        raise self.wrong(f"{describe(marker)} is among its values, where it means nothing")

    # Names and calls ----------------------------------------------------------

    cdef object named(self, bytes key):
        """What a name, ``b"module\\nname"``, stands for."""
        cdef PyObject* found = PyDict_GetItem(self.table, key)
        if found != NULL:
            return <object>found
        found = PyDict_GetItem(self.allowed, key)
        if found != NULL:
            self.callables.add(<size_t>found)
            return <object>found
        name = key.decode("utf-8", "replace")
        value = self.name_of(*name.split("\n"))
        if value is not None:
            return value
        name = name.replace("\n", ".")
        name = name if len(name) <= 200 and name.isprintable() else ascii(name[:200])
        if name not in self.unknown:
            if len(self.unknown) >= MAX_NAMES:
                raise self.wrong(f"it names more than {MAX_NAMES:,} things that tensors do not need")
            self.unknown[name] = self.here
        self.spend(200)
        return Inert(name)

    cdef object global_(self):
        """GLOBAL and INST: two lines."""
        cdef Py_ssize_t start = self.at
        cdef const unsigned char* here = self.data + start
        cdef const unsigned char* first = <const unsigned char*>memchr(here, 10, self.end - start)
        cdef const unsigned char* second = NULL
        if first != NULL:
            second = <const unsigned char*>memchr(first + 1, 10, self.end - (first + 1 - self.data))
        if second == NULL or second - here > 4096:
            if self.end - start > 4096:
                raise self.wrong("a name of more than 4,096 bytes")
            raise self.truncated("a name")
        self.at = second + 1 - self.data
        return self.named(PyBytes_FromStringAndSize(<const char*>here, second - here))

    cdef object stack_global(self):
        name = self.pop()
        module = self.pop()
        if type(name) is not str or type(module) is not str:
            raise self.wrong(f"STACK_GLOBAL takes two texts, got {describe(module)} and {describe(name)}")
        if len(name) + len(module) > 4096 or "\n" in name or "\n" in module:
            raise self.wrong(f"STACK_GLOBAL with names that cannot be: {describe(module)} and {describe(name)}")
        return self.named(f"{module}\n{name}".encode("utf-8", "surrogatepass"))

    cdef object call(self, object function, object args, bint new):
        """What a call (``new``: of a class, by NEWOBJ) of what was named comes to; ``args`` must be a tuple."""
        cdef Known known
        cdef str opcode = "NEWOBJ" if new else "REDUCE"
        if type(function) is Known:
            known = <Known>function
            if known.call is None or (new and not known.new):
                raise self.wrong(f"{opcode} of {known.name}, which a checkpoint may name but not call so")
            if type(args) is not tuple:
                raise self.wrong(f"{opcode} takes a tuple of arguments, got {describe(args)}")
            if known.code:
                return self.quick(known, <tuple>args)
            return self.guarded(known.name, known.call, (self, args))
        if type(function) is Inert:
            return function
        if not self.callables or <size_t><PyObject*>function not in self.callables:
            raise self.wrong(f"{opcode} of {describe(function)}, which is nothing to call")
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
        """The value without markers, for what the user allows; what it takes to walk it is charged."""
        cdef double steps = 0
        found = survey(value, &steps)
        self.spend(16 * <long long>steps)
        if type(found) is str:
            raise self.wrong(f"an argument has {found}")
        return replaced(value, self.meaning, {}) if found else value

    cdef object guarded(self, str name, object function, tuple args, dict kwargs=None):
        """A call whose errors become ours, with the place."""
        self.spend(256)
        try:
            return function(*args, **kwargs) if kwargs else function(*args)
        except (CheckpointError, MemoryError, OSError):
            raise
        except Exception as error:
            what = " ".join(str(error).split())
            raise self.wrong(f"{name}: {type(error).__name__}: {what[:200]}") from error

    cdef object with_keywords(self):
        """NEWOBJ_EX: only for classes that the user allows."""
        kwargs = self.pop()
        args = self.pop()
        cls = self.pop()
        if type(cls) is Inert:
            return cls
        if type(kwargs) is not dict or any(type(key) is not str for key in kwargs):
            raise self.wrong(f"NEWOBJ_EX takes a dict of keywords, got {describe(kwargs)}")
        if not kwargs:
            return self.call(cls, args, True)
        if not self.callables or <size_t><PyObject*>cls not in self.callables or not isinstance(cls, type):
            raise self.wrong(f"NEWOBJ_EX of {describe(cls)}, which a checkpoint may not make so")
        if type(args) is not tuple:
            raise self.wrong(f"NEWOBJ_EX takes a tuple of arguments, got {describe(args)}")
        return self.guarded(cls.__qualname__, cls.__new__, (cls, *self.plain(args)), self.plain(kwargs))

    cdef int build(self) except -1:
        state = self.pop()
        instance = self.peek()
        cls = type(instance)
        if cls is Inert:
            return 0
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
        """Instance attributes of a mapping (an OrderedDict's ``_metadata``), none that would hide its own."""
        cls = type(mapping)
        if type(state) is not dict:
            raise self.wrong(f"the state of {describe(mapping)} must be a dict, got {describe(state)}")
        for key in state:
            if type(key) is not str or hasattr(cls, key) or key.startswith("__"):
                raise self.wrong(f"{describe(key)} cannot be an attribute of {describe(mapping)}")
        self.spend(64 * len(state))
        mapping.__dict__.update(state)
        return 0

    # Containers ---------------------------------------------------------------

    cdef int check_key(self, object key) except -1:
        problem = key_problem(key)
        if problem is not None:
            raise self.wrong(f"{describe(key)} as a key: {problem}")
        return 0

    cdef int crowd(self, object container, object key) except -1:
        """Count keys of one hash in large containers: they could be chosen to make each other slow."""
        if len(container) < 1024:
            return 0
        counts = self.hashes.setdefault(id(container), {})
        value = hash(key)
        counts[value] = counts.get(value, 0) + 1
        self.spend(100)
        if counts[value] > 256:
            raise self.wrong("more than 256 keys with one and the same hash")
        return 0

    cdef int put(self, object mapping, object key, object value) except -1:
        if not is_plain_key(key):
            self.check_key(key)
            self.crowd(mapping, key)
        charge(self, 64)
        if type(mapping) is dict:
            return PyDict_SetItem(mapping, key, value)
        mapping[key] = value
        return 0

    cdef int items(self, Py_ssize_t height) except -1:
        """SETITEMS: what is above a height, into the mapping below it."""
        cdef Py_ssize_t n = self.top - height
        cdef Py_ssize_t i
        cdef object mapping
        if n & 1:
            raise self.wrong("SETITEMS of a key without a value")
        if height <= self.fence:
            raise self.wrong("stack underflow: an opcode takes more than there is")
        mapping = <object>self.stack[height - 1]
        cls = type(mapping)
        if cls is dict or cls is ODICT or cls is DEFAULTDICT or cls is COUNTER:
            for i in range(height, self.top, 2):
                self.put(mapping, <object>self.stack[i], <object>self.stack[i + 1])
        elif cls is not Inert:
            raise self.wrong(f"setting items of {describe(mapping)}")
        return self.drop(height)

    cdef int appends(self, Py_ssize_t height) except -1:
        """APPENDS: what is above a height, to the list below it."""
        cdef object target
        cdef Py_ssize_t i
        if height <= self.fence:
            raise self.wrong("stack underflow: an opcode takes more than there is")
        target = <object>self.stack[height - 1]
        if type(target) is list:
            charge(self, 8 * (self.top - height) + 8)
            for i in range(height, self.top):
                PyList_Append(target, <object>self.stack[i])
        elif type(target) is not Inert:
            raise self.wrong(f"appending to {describe(target)}")
        return self.drop(height)

    cdef int add_items(self, Py_ssize_t height) except -1:
        cdef object target
        cdef Py_ssize_t i
        if height <= self.fence:
            raise self.wrong("stack underflow: an opcode takes more than there is")
        target = <object>self.stack[height - 1]
        if type(target) is set:
            self.fill_set(target, height)
        elif type(target) is not Inert:
            raise self.wrong(f"adding items to {describe(target)}")
        return self.drop(height)

    cdef int fill_set(self, object target, Py_ssize_t height) except -1:
        cdef Py_ssize_t i
        for i in range(height, self.top):
            self.check_key(<object>self.stack[i])
            self.crowd(target, <object>self.stack[i])
            self.spend(64)
            (<set>target).add(<object>self.stack[i])
        return 0

    # The loop -----------------------------------------------------------------

    cdef object run(self):
        """Run to STOP, and give the value that is left."""
        cdef unsigned char op
        cdef Py_ssize_t height
        cdef object a, b, c
        cdef unsigned long long n
        while True:
            self.here = self.at
            if self.at >= self.end:
                raise self.truncated("an opcode")
            op = self.data[self.at]
            self.at += 1
            # In a state dict's order: what there is most of comes first for those who read this, not for the compiler.
            if op == b'q':                              # BINPUT
                remember(self, byte(self))
            elif op == b'h':                            # BINGET
                recall(self, byte(self))
            elif op == b'r':                            # LONG_BINPUT
                remember(self, word(self))
            elif op == b'j':                            # LONG_BINGET
                recall(self, word(self))
            elif op == 0x94:                            # MEMOIZE
                remember(self, self.memo_next)
            elif op == b'(':                            # MARK
                self.mark()
            elif op == b'X':                            # BINUNICODE
                push(self, self.text(word(self)))
            elif op == 0x8c:                            # SHORT_BINUNICODE
                push(self, self.text(byte(self)))
            elif op == 0x8d:                            # BINUNICODE8
                push(self, self.text(self.number(8)))
            elif op == b'K':                            # BININT1
                push(self, byte(self))
            elif op == b'M':                            # BININT2
                push(self, <long>self.number(2))
            elif op == b'J':                            # BININT
                charge(self, 32)
                push(self, <long><int>word(self))
            elif op == b't':                            # TUPLE
                push(self, self.take(self.unmark()))
            elif op == 0x85 or op == 0x86 or op == 0x87:  # TUPLE1, TUPLE2, TUPLE3
                push(self, self.take(self.top - (op - 0x84)))
            elif op == b')':                            # EMPTY_TUPLE
                push(self, ())
            elif op == b'R':                            # REDUCE
                a = self.pop()
                b = self.pop()
                if type(b) is Known and (<Known>b).part is not None and a == () and self.is_part():
                    push(self, (<Known>b).part)
                else:
                    push(self, self.call(b, a, False))
            elif op == b'Q':                            # BINPERSID
                push(self, self.persistent(self.pop()))
            elif op == b'c':                            # GLOBAL
                push(self, self.global_())
            elif op == 0x93:                            # STACK_GLOBAL
                push(self, self.stack_global())
            elif op == b'N':                            # NONE
                push(self, None)
            elif op == 0x88:                            # NEWTRUE
                push(self, True)
            elif op == 0x89:                            # NEWFALSE
                push(self, False)
            elif op == b'}':                            # EMPTY_DICT
                charge(self, 80)
                push(self, {})
            elif op == b']':                            # EMPTY_LIST
                charge(self, 72)
                push(self, [])
            elif op == 0x8f:                            # EMPTY_SET
                charge(self, 232)
                push(self, set())
            elif op == b's':                            # SETITEM
                if self.top - 2 < self.fence:
                    raise self.wrong("stack underflow: an opcode takes more than there is")
                self.items(self.top - 2)
            elif op == b'u':                            # SETITEMS
                self.items(self.unmark())
            elif op == b'a':                            # APPEND
                self.appends(self.top - 1)
            elif op == b'e':                            # APPENDS
                self.appends(self.unmark())
            elif op == 0x90:                            # ADDITEMS
                self.add_items(self.unmark())
            elif op == b'G':                            # BINFLOAT
                charge(self, 24)
                push(self, self.double_())
            elif op == b'b':                            # BUILD
                self.build()
            elif op == 0x81:                            # NEWOBJ
                a = self.pop()
                b = self.pop()
                push(self, self.call(b, a, True))
            elif op == 0x92:                            # NEWOBJ_EX
                push(self, self.with_keywords())
            elif op == 0x80:                            # PROTO
                n = self.number(1)
                if n > 5:
                    raise self.wrong(f"pickle protocol {n}, 5 is the last that is known")
            elif op == 0x95:                            # FRAME
                n = self.number(8)
                if n > <unsigned long long>(self.end - self.at):
                    raise self.truncated(f"a frame of {n:,} bytes")
            elif op == b'.':                            # STOP
                a = self.pop()
                if self.top or self.n_marks:
                    raise self.wrong(f"{self.top:,} values and {self.n_marks:,} marks are left over at its end")
                return a
            else:
                self.seldom(op)

    cdef bint is_part(self):
        """Whether what comes next puts the result into a tuple, as PyTorch does with the hooks of each tensor."""
        cdef Py_ssize_t at = self.at
        if at + 6 > self.end:
            return False
        if self.data[at] == b'r':
            at += 5
        elif self.data[at] == b'q':
            at += 2
        elif self.data[at] == 0x94:
            at += 1
        return self.data[at] == b't'

    cdef int seldom(self, unsigned char op) except -1:
        """The opcodes that checkpoints hardly use."""
        cdef Py_ssize_t height
        if op == b'B':                                  # BINBYTES
            self.push(self.raw(self.number(4)))
        elif op == b'C':                                # SHORT_BINBYTES
            self.push(self.raw(self.number(1)))
        elif op == 0x8e:                                # BINBYTES8
            self.push(self.raw(self.number(8)))
        elif op == 0x96:                                # BYTEARRAY8
            self.push(bytearray(self.raw(self.number(8))))
        elif op == 0x8a:                                # LONG1
            self.push(self.long_(self.number(1)))
        elif op == 0x8b:                                # LONG4
            self.push(self.long_(self.length4()))
        elif op == b'T':                                # BINSTRING
            self.push(self.old_text(self.length4()))
        elif op == b'U':                                # SHORT_BINSTRING
            self.push(self.old_text(self.number(1)))
        elif op == b'I' or op == b'L':                  # INT, LONG
            self.push(self.decimal(op == b'L'))
        elif op == b'F':                                # FLOAT
            line = self.line(MAX_DIGITS)
            try:
                self.push(float(line))
            except ValueError:
                raise self.wrong(f"{describe(line)} is not a number") from None
        elif op == b'V':                                # UNICODE
            line = self.line(self.end)
            self.spend(64 + 4 * len(line))
            try:
                self.push(str(line, "raw-unicode-escape"))
            except UnicodeDecodeError:
                raise self.wrong("a text is not Unicode") from None
        elif op == b'S':                                # STRING
            self.push(self.quoted(self.line(self.end)))
        elif op == b'p':                                # PUT
            self.remember(self.index())
        elif op == b'g':                                # GET
            self.recall(self.index())
        elif op == b'l':                                # LIST
            height = self.unmark()
            self.push(list(self.take(height)))
            self.spend(72 + 8 * (self.top - height))
        elif op == b'd':                                # DICT
            height = self.unmark()
            self.dict_(self.take(height))
        elif op == 0x91:                                # FROZENSET
            height = self.unmark()
            made = set()
            self.fill_set(made, height)
            self.drop(height)
            self.spend(232)
            self.push(frozenset(made))
        elif op == b'0':                                # POP
            if self.n_marks and self.top == self.fence:
                self.unmark()
            else:
                self.pop()
        elif op == b'1':                                # POP_MARK
            self.drop(self.unmark())
        elif op == b'2':                                # DUP
            self.push(self.peek())
        elif op == b'i' or op == b'o':                  # INST, OBJ
            self.old_object(op)
        elif op == b'P':                                # PERSID
            self.push(self.persistent(self.line(4096).decode("ascii", "replace")))
        elif op >= 0x82 and op <= 0x84:
            raise self.wrong(f"EXT{(1, 2, 4)[op - 0x82]}: an extension code, which stands for a name that is nowhere in the file")
        elif op == 0x97 or op == 0x98:
            raise self.wrong("NEXT_BUFFER and READONLY_BUFFER take data from outside the file: there are none")
        else:
            raise self.wrong(f"0x{op:02x} is no opcode of pickles")
        return 0

    cdef int dict_(self, tuple pairs) except -1:
        cdef dict made = {}
        cdef Py_ssize_t i
        self.spend(80)
        if len(pairs) & 1:
            raise self.wrong("DICT of a key without a value")
        for i in range(0, len(pairs), 2):
            self.put(made, pairs[i], pairs[i + 1])
        return self.push(made)

    cdef int old_object(self, unsigned char op) except -1:
        """INST and OBJ: a class, called with what is above the mark."""
        cdef Py_ssize_t height
        if op == b'i':
            cls = self.global_()
            height = self.unmark()
            args = self.take(height)
        else:
            height = self.unmark()
            args = self.take(height)
            if not args:
                raise self.wrong("stack underflow: an opcode takes more than there is")
            cls, args = args[0], args[1:]
        return self.push(self.call(cls, args, False))
