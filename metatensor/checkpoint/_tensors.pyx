"""The pickle machine for PyTorch's files. It creates storages and tensors without calling Python code."""
from collections import OrderedDict

from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeUTF8
from metatensor._core.device cimport Device
from metatensor._core.dtype cimport DType
from metatensor._core.layout cimport Layout, add_dims, extent, mul_dims
from metatensor._core.storage cimport new_storage
from metatensor._core.tensor cimport Tensor, over_storage, set_requires_grad
from metatensor._core.types cimport KIND_COMPLEX, MAX_DIMS, T_CONJ, T_NEG, dim_t
from metatensor.checkpoint._pickle cimport Machine
from metatensor.checkpoint._stack cimport charge, remember
from metatensor.checkpoint._values cimport Inert, Known, Marker, describe
from metatensor.checkpoint._zip cimport Directory

cdef extern from "Python.h":
    long long as_long_long "PyLong_AsLongLongAndOverflow"(object n, int* overflow) except? -1

# Codes of calls that `quick` handles, for the argument ``code`` of `Known`.
TENSOR, TENSOR_V2, TENSOR_V3, PARAMETER, ORDERED = 1, 2, 3, 4, 5

cdef enum:
    HOOKS = 5                           # equals ORDERED, as a C constant

cdef type ODICT = OrderedDict
cdef object make_subclass = Tensor._make_subclass
cdef object parameter_class = None


cdef inline int expect(Reader* r, unsigned char op) noexcept:
    if r.ok and r.p < r.end and r.p[0] == op:
        r.p += 1
    else:
        r.ok = False
    return 0


cdef inline long long read_int(Reader* r) noexcept:
    """Read BININT1, BININT2 or BININT."""
    cdef const unsigned char* p = r.p
    cdef Py_ssize_t left = r.end - p
    if r.ok and left >= 2 and p[0] == b'K':
        r.p += 2
        return p[1]
    if r.ok and left >= 3 and p[0] == b'M':
        r.p += 3
        return p[1] | p[2] << 8
    if r.ok and left >= 5 and p[0] == b'J':
        r.p += 5
        return <int>(p[1] | p[2] << 8 | p[3] << 16 | <unsigned int>p[4] << 24)
    r.ok = False
    return 0


cdef inline Py_ssize_t read_index(Reader* r, unsigned char short_, unsigned char long_) noexcept:
    """Read a memo opcode with an index of one byte or four."""
    cdef const unsigned char* p = r.p
    cdef Py_ssize_t left = r.end - p
    if r.ok and left >= 2 and p[0] == short_:
        r.p += 2
        return p[1]
    if r.ok and left >= 5 and p[0] == long_:
        r.p += 5
        return p[1] | p[2] << 8 | p[3] << 16 | <Py_ssize_t>p[4] << 24
    r.ok = False
    return 0


cdef class StorageType(Marker):
    """A storage class named by a persistent id."""

    def __init__(self, str name, DType dtype=None):
        self.name = name
        self.dtype = dtype

    def __repr__(self):
        return f"<{self.name}>"


cdef class StorageRef(Marker):
    """A storage of the file."""

    def __repr__(self):
        return f"<storage {self.key!r}>"


cdef class TensorMachine(Machine):
    """A machine whose persistent ids are storages and whose calls create tensors over them, without reading their data.

    ``place`` (`Places`) determines each storage's device. With a ``directory``, a storage is the member ``prefix`` +
    key, which must exist and have the right size. For the other parameters see `Machine`.
    """

    def __init__(self, str file, dict table, place, Directory directory=None, str prefix="", **options):
        super().__init__(file, table, **options)
        self.place = place
        self.fixed = place.fixed
        self.directory = directory
        self.prefix = prefix
        self.storages = {}
        self.views = {}
        self.fillings = []
        self.sources = {}
        maker = table.get(b"torch._utils\n_rebuild_tensor_v2")
        self.maker = NULL if maker is None else <PyObject*>maker     # the table keeps it alive

    def device_of(self, str location not None):
        """Return the device for data saved at ``location``."""
        return self.fixed if self.fixed is not None else self.place(location, 0)

    def later(self, tensor, data):
        """Record that a tensor must be filled from an array or another tensor once all values are known."""
        self.fillings.append((tensor, data))

    def charge_values(self, nbytes, owner, available):
        """Charge for a tensor of ``nbytes`` bytes whose values come from ``owner``.

        For the first tensor from ``owner``, ``available`` bytes are free.
        """
        charge(self, 320)
        if id(owner) not in self.sources:
            self.sources[id(owner)] = owner
            nbytes -= available
        if nbytes > 0:
            self.spend(min(nbytes, 1 << 62))

    cdef object quick(self, Known known, tuple args):
        global parameter_class
        cdef Tensor made
        cdef Py_ssize_t n = len(args)
        cdef int code = known.code
        if code == ORDERED:
            if n == 0:
                charge(self, 400)
                return ODICT()
            return known.call(self, args)
        for item in args:
            if isinstance(item, Inert):
                return item
        if code == TENSOR_V2 and (n == 6 or n == 7):
            made = self.tensor(args[0], None, args[1], args[2], args[3], args[4])
            if n == 7 and args[6] is not None:
                self.lazy(made, args[6])
            return made
        if code == TENSOR_V3 and (n == 7 or n == 8):
            if type(args[6]) is not DType:
                raise self.wrong(f"{known.name}: expected a dtype, got {describe(args[6])}")
            made = self.tensor(args[0], args[6], args[1], args[2], args[3], args[4])
            if n == 8 and args[7] is not None:
                self.lazy(made, args[7])
            return made
        if code == TENSOR and n == 4:
            return self.tensor(args[0], None, args[1], args[2], args[3], False)
        if code == PARAMETER and n == 3:
            if type(args[0]) is not Tensor or type(args[1]) is not bool:
                raise self.wrong(f"{known.name} takes a tensor and a bool, got {describe(args[0])} and {describe(args[1])}")
            if parameter_class is None:
                from metatensor.nn import Parameter
                parameter_class = Parameter
            charge(self, 300)
            try:
                return make_subclass(parameter_class, args[0], args[1])
            except RuntimeError as error:
                raise self.wrong(f"{known.name}: {error}") from None
        raise self.wrong(f"{known.name} does not take {n} arguments")

    cdef bint record(self) except -1:
        """Execute the whole call that makes a tensor, if the next opcodes have the form that torch.save writes.

        Otherwise read nothing and return False.

        The current position is after the name of the function and a mark. Strings and tuples in the call are not stored
        in the memo, because normally nothing refers to them. If an opcode does, `Stack.recall` causes a second run
        without this shortcut.
        """
        cdef Reader r
        cdef Layout lay
        cdef StorageRef ref
        cdef StorageType kind
        cdef str key, location
        cdef long long numel
        cdef const unsigned char* text = NULL
        cdef const unsigned char* put = NULL
        cdef Py_ssize_t length = 0
        cdef object item
        cdef bint grad
        r.p, r.end, r.ok = self.data + self.at, self.data + self.end, True
        if self.persist is not None or self.end - self.at < 32 or r.p[0] != b'(':
            return False
        r.p += 1
        item = self.remembered(&r)
        if not r.ok or type(item) is not str or item != "storage":
            return False
        item = self.remembered(&r)
        if not r.ok or type(item) is not StorageType:
            return False
        kind = <StorageType>item
        key = None
        if r.end - r.p >= 5 and r.p[0] == b'X':
            length = r.p[1] | r.p[2] << 8 | r.p[3] << 16 | <Py_ssize_t>r.p[4] << 24
            text = r.p + 5
            if length > 1000 or length > r.end - text:
                return False
            r.p = text + length
            put = r.p
            self.forgotten(&r)
        else:
            item = self.remembered(&r)
            if not r.ok or type(item) is not str or len(item) > 1000:
                return False
            key = <str>item
        item = self.remembered(&r)
        if not r.ok or type(item) is not str or len(item) > 100:
            return False
        location = <str>item
        numel = read_int(&r)
        expect(&r, b't')
        self.forgotten(&r)
        expect(&r, b'Q')
        lay.offset = read_int(&r)
        lay.ndim = self.read_ints(&r, lay.sizes)
        if self.read_ints(&r, lay.strides) != lay.ndim or not r.ok or r.p == r.end or (r.p[0] != 0x88 and r.p[0] != 0x89):
            return False
        grad = r.p[0] == 0x88
        r.p += 1
        item = self.remembered(&r)
        if not r.ok or type(item) is not Known or (<Known>item).code != HOOKS:
            return False
        expect(&r, b')')
        expect(&r, b'R')
        self.forgotten(&r)
        expect(&r, b't')
        self.forgotten(&r)
        expect(&r, b'R')
        if not r.ok or numel < 0 or lay.offset < 0 or kind.dtype is None:
            return False
        if key is None:
            try:
                key = PyUnicode_DecodeUTF8(<const char*>text, length, NULL)
            except UnicodeDecodeError:
                return False
            charge(self, 64 + 4 * length)
            self.push(key)              # into the memo: another tensor over this storage refers to its key
            r.p, text = put, r.p
            remember(self, read_index(&r, b'q', b'r'))
            r.p = text
            self.pop()
        ref = self.storage(kind, key, location, numel)
        made = self.placed(ref, kind.dtype, &lay, grad)
        self.pop()                      # the function
        self.at = r.p - self.data
        self.skipped = True
        self.push(made)
        return True

    cdef object remembered(self, Reader* r):
        """Return the memo entry that the next opcode fetches. Clear ``ok`` if the opcode does not fetch one."""
        cdef Py_ssize_t index = read_index(r, b'h', b'j')
        if r.ok and index < self.memo_room and self.memo[index] != NULL:
            return <object>self.memo[index]
        r.ok = False
        return None

    cdef int forgotten(self, Reader* r) except -1:
        """Skip the next opcode if it stores to a free memo index.

        Clear ``ok`` if it stores to a used one or not at all.
        """
        cdef Py_ssize_t index = read_index(r, b'q', b'r')
        if r.ok and (index > self.end or (index < self.memo_room and self.memo[index] != NULL)):
            r.ok = False
        return 0

    cdef int read_ints(self, Reader* r, dim_t* into) except -1:
        """Read a tuple of small integers and return its length."""
        cdef int n = 0
        cdef bint marked = r.p < r.end and r.p[0] == b'('
        if r.p < r.end and r.p[0] == b')':
            r.p += 1
            return 0
        if marked:
            r.p += 1
        while r.ok and r.p < r.end and n < 16 and (r.p[0] == b'K' or r.p[0] == b'M' or r.p[0] == b'J'):
            into[n] = read_int(r)
            if into[n] < 0:
                r.ok = False
            n += 1
        if marked:
            expect(r, b't')
        elif 1 <= n <= 3:
            expect(r, <unsigned char>(0x84 + n))
        else:
            r.ok = False
        self.forgotten(r)
        return n

    def reset(self):
        """Discard what an abandoned run has created."""
        self.storages.clear()
        self.views.clear()
        self.fillings.clear()
        self.sources.clear()
        if self.directory is not None:
            self.directory.forget()

    cdef Tensor tensor(self, object storage, DType dtype, object offset, object sizes, object strides, object grad):
        """Return a tensor over a storage after checking all arguments."""
        cdef Layout lay
        cdef StorageRef ref
        cdef Py_ssize_t n, i
        cdef int over = 0, more = 0
        if type(storage) is not StorageRef:
            raise self.wrong(f"{describe(storage)} is not a storage, but a tensor needs one")
        ref = <StorageRef>storage
        if dtype is None:
            dtype = ref.dtype
            if dtype is None:
                raise self.wrong("a tensor over a storage of bytes needs a dtype")
        if not isinstance(sizes, tuple) or not isinstance(strides, tuple) or type(offset) is not int:
            raise self.wrong(f"a tensor of size {describe(sizes)}, stride {describe(strides)} and offset {describe(offset)}: "
                             "a tuple, a tuple and an integer are needed")
        if type(grad) is not bool:
            raise self.wrong(f"requires_grad must be a bool, got {describe(grad)}")
        n = len(<tuple>sizes)
        if n != len(<tuple>strides) or n > MAX_DIMS:
            raise self.wrong(f"a tensor has {n} sizes and {len(<tuple>strides)} strides; at most {MAX_DIMS} dimensions are allowed")
        lay.ndim = <int>n
        for i in range(n):
            size, stride = (<tuple>sizes)[i], (<tuple>strides)[i]
            if type(size) is not int or type(stride) is not int:
                raise self.wrong(f"size {describe(size)} and stride {describe(stride)} of dimension {i} must be integers")
            lay.sizes[i] = as_long_long(size, &over)
            lay.strides[i] = as_long_long(stride, &more)
            if over or more or lay.sizes[i] < 0 or lay.strides[i] < 0:
                raise self.wrong(f"size {describe(size)} or stride {describe(stride)} of dimension {i} is negative or beyond 63 bits")
        lay.offset = as_long_long(offset, &over)
        if over or lay.offset < 0:
            raise self.wrong(f"the storage offset {describe(offset)} is negative or beyond 63 bits")
        return self.placed(ref, dtype, &lay, grad)

    cdef Tensor placed(self, StorageRef ref, DType dtype, Layout* lay, bint grad):
        """Return a tensor over a storage. The layout has no negative numbers. Raise if it exceeds the storage."""
        cdef Tensor made
        cdef dim_t start, need
        charge(self, 320 + 16 * lay.ndim)
        try:
            if ref.begin % dtype.itemsize:
                raise RuntimeError(f"the storage begins at byte {ref.begin}, between two elements of {dtype.name}")
            need = extent(lay.ndim, lay.sizes, lay.strides)
            if need:
                need = mul_dims(add_dims(need, lay.offset), dtype.itemsize)
            start = add_dims(lay.offset, ref.begin // dtype.itemsize)
            mul_dims(start, dtype.itemsize)
            if need > ref.nbytes:
                raise self.wrong(f"a tensor of size {[lay.sizes[i] for i in range(min(lay.ndim, 9))]}, "
                                 f"stride {[lay.strides[i] for i in range(min(lay.ndim, 9))]} and offset {lay.offset} needs "
                                 f"{need:,} bytes, but its storage {ref.key[:40]!r} has {ref.nbytes:,}")
            made = over_storage(ref.storage, dtype, lay.ndim, lay.sizes, lay.strides, start)
            if grad:
                set_requires_grad(made, True)
        except RuntimeError as error:
            raise self.wrong(f"an invalid tensor: {error}") from None
        return made

    cdef int lazy(self, Tensor made, object metadata) except -1:
        """Set a tensor's conjugate and negative flags from its metadata."""
        if type(metadata) is not dict:
            raise self.wrong(f"the metadata of a tensor must be a dict, got {describe(metadata)}")
        for name, value in (<dict>metadata).items():
            if name == "conj" and type(value) is bool and made.dtype.kind == KIND_COMPLEX:
                made.flags |= T_CONJ if value else 0
            elif name == "neg" and type(value) is bool and (not value or made.dtype.is_complex or made.dtype.is_floating_point
                                                            and made.dtype.itemsize > 1):
                made.flags |= T_NEG if value else 0
            else:
                raise self.wrong(f"unknown metadata of a tensor: {describe(name)} = {describe(value)}")
        return 0

    cdef object persistent(self, object id):
        cdef StorageRef ref
        cdef long long numel
        cdef int over = 0
        if self.persist is not None:
            return self.persist(self, id)
        first = (<tuple>id)[0] if type(id) is tuple and <tuple>id else None
        if type(first) is str and first == "module" and len(<tuple>id) == 4:
            return (<tuple>id)[1]       # a class with its source code, in the older format
        if type(first) is not str or first != "storage" or not 5 <= len(<tuple>id) <= 6:
            raise self.wrong(f"a persistent id must be ('storage', class, key, location, size), got {describe(id)}")
        kind, key, location, size = (<tuple>id)[1], (<tuple>id)[2], (<tuple>id)[3], (<tuple>id)[4]
        if isinstance(kind, Inert):
            return kind
        if type(kind) is not StorageType:
            raise self.wrong(f"{describe(kind)} is not a storage class")
        if type(key) is not str or type(location) is not str or type(size) is not int or len(key) > 1000 or len(location) > 100:
            raise self.wrong(f"a storage cannot have key {describe(key)}, location {describe(location)} and size {describe(size)}")
        numel = as_long_long(size, &over)
        if over:
            raise self.wrong(f"a storage cannot have {describe(size)} elements")
        ref = self.storage(<StorageType>kind, key, location, numel)
        if len(<tuple>id) == 6 and (<tuple>id)[5] is not None:
            return self.view(ref, (<tuple>id)[5])
        return ref

    cdef StorageRef storage(self, StorageType kind, str key, str location, long long numel):
        """Return the storage for a key, created at its first use."""
        cdef StorageRef ref
        cdef DType dtype = kind.dtype
        cdef Py_ssize_t found
        cdef long long nbytes
        if numel < 0 or numel > (<long long>1 << 62) // (1 if dtype is None else dtype.itemsize):
            raise self.wrong(f"a storage cannot have {numel:,} elements")
        nbytes = numel * (1 if dtype is None else dtype.itemsize)
        found = -1
        if self.directory is not None:
            try:
                found = self.directory.find_next(self.prefix, key)
            except UnicodeEncodeError:      # no member has such a name
                pass
        ref = self.storages.get(key) if found < 0 else None
        if ref is None:
            if self.directory is not None:
                if found < 0:
                    found = self.directory.find(self.prefix + key)
                    if found >= 0:
                        self.directory.entries[found].taken = True
                        self.directory.hint = found + 1
                if found < 0:
                    raise self.wrong(f"storage {key[:40]!r} is not in the file: there is no member {(self.prefix + key)[:60]!r}")
                if self.directory.entries[found].size != nbytes:
                    raise self.wrong(f"storage {key[:40]!r} claims {nbytes:,} bytes, but its member has "
                                     f"{self.directory.entries[found].size:,}")
            ref = StorageRef.__new__(StorageRef)
            ref.storage = new_storage(self.fixed if self.fixed is not None else <Device?>self.place(location, nbytes), nbytes)
            ref.dtype = dtype
            ref.key = key
            ref.location = location
            ref.nbytes = nbytes
            charge(self, 240)
            self.storages[key] = ref
        elif ref.nbytes != nbytes or (ref.dtype is not dtype and ref.dtype is not None and dtype is not None):
            raise self.wrong(f"storage {key[:40]!r} has {nbytes:,} bytes here, but had {ref.nbytes:,} before, or another dtype")
        elif ref.dtype is not dtype:
            ref = self.typed(ref, dtype)
        return ref

    cdef StorageRef typed(self, StorageRef whole, DType dtype):
        """Return the same storage with another dtype."""
        cdef StorageRef ref = StorageRef.__new__(StorageRef)
        charge(self, 80)
        ref.storage, ref.key, ref.location = whole.storage, whole.key, whole.location
        ref.begin, ref.nbytes = whole.begin, whole.nbytes
        ref.dtype = dtype
        return ref

    cdef StorageRef view(self, StorageRef whole, object view):
        """Return a part of a storage. The older format describes it by (key, offset, size), in elements."""
        cdef long long item = 1 if whole.dtype is None else whole.dtype.itemsize
        if type(view) is not tuple or len(<tuple>view) != 3 or type((<tuple>view)[0]) is not str:
            raise self.wrong(f"a view of a storage must be (key, offset, size), got {describe(view)}")
        key, offset, size = <tuple>view
        if len(key) > 1000:
            raise self.wrong(f"the key of a storage's view is too long: {describe(key)}")
        if type(offset) is not int or type(size) is not int or not 0 <= offset <= whole.nbytes or not 0 <= size <= whole.nbytes \
                or (offset + size) * item > whole.nbytes:
            raise self.wrong(f"a view of {describe(size)} elements from {describe(offset)} on extends beyond storage {whole.key[:40]!r}")
        found = self.views.get((whole.key, key))
        if found is None:
            found = self.typed(whole, whole.dtype)
            (<StorageRef>found).begin, (<StorageRef>found).nbytes = offset * item, size * item
            self.views[whole.key, key] = found
        elif (<StorageRef>found).begin != offset * item or (<StorageRef>found).nbytes != size * item:
            raise self.wrong(f"the view {key[:40]!r} of storage {whole.key[:40]!r} is defined twice, differently")
        return found

    cdef object value_of(self, Marker marker):
        if type(marker) is StorageRef:
            from metatensor.checkpoint.torch_names import storage_value
            return storage_value(self, marker)
        if type(marker) is Known and (<Known>marker).value is None:
            from metatensor.checkpoint.torch_names import class_value
            value = class_value(marker)
            if value is not None:
                return value
        return Machine.value_of(self, marker)
