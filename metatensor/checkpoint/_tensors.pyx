"""The pickle machine of PyTorch's files: storages by key, and tensors over them, made without Python in between."""
from collections import OrderedDict

from metatensor._core.device cimport Device
from metatensor._core.dtype cimport DType
from metatensor._core.layout cimport Layout, add_dims, extent, mul_dims
from metatensor._core.storage cimport new_storage
from metatensor._core.tensor cimport Tensor, over_storage, set_requires_grad
from metatensor._core.types cimport KIND_COMPLEX, MAX_DIMS, T_CONJ, T_NEG, dim_t
from metatensor.checkpoint._pickle cimport Machine
from metatensor.checkpoint._stack cimport charge
from metatensor.checkpoint._values cimport Inert, Known, Marker, describe
from metatensor.checkpoint._zip cimport Directory

cdef extern from "Python.h":
    long long as_long_long "PyLong_AsLongLongAndOverflow"(object n, int* overflow) except? -1

# What `quick` knows calls by: the argument ``code`` of `Known`.
TENSOR, TENSOR_V2, TENSOR_V3, PARAMETER, ORDERED = 1, 2, 3, 4, 5

cdef type ODICT = OrderedDict
cdef object make_subclass = Tensor._make_subclass
cdef object parameter_class = None


cdef class StorageType(Marker):
    """A storage class that a persistent id names."""

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
    """A machine whose persistent ids are storages and whose calls make tensors over them.

    ``place`` says where each goes (`Places`); no data are read. With a ``directory`` a storage is the member
    ``prefix`` + key, which must be there and of its size. What else is known stands in ``table``, see `Machine`.
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

    def device_of(self, str location not None):
        """The device for what was saved at ``location``."""
        return self.fixed if self.fixed is not None else self.place(location, 0)

    def later(self, tensor, data):
        """Note that a tensor is to be filled with the values of an array or another tensor when all is known."""
        self.fillings.append((tensor, data))

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
            if type(item) is Inert:
                return item
        if code == TENSOR_V2 and (n == 6 or n == 7):
            made = self.tensor(args[0], None, args[1], args[2], args[3], args[4])
            if n == 7 and args[6]:
                self.lazy(made, args[6])
            return made
        if code == TENSOR_V3 and (n == 7 or n == 8):
            if type(args[6]) is not DType:
                raise self.wrong(f"{known.name}: the dtype must be one, got {describe(args[6])}")
            made = self.tensor(args[0], args[6], args[1], args[2], args[3], args[4])
            if n == 8 and args[7]:
                self.lazy(made, args[7])
            return made
        if code == TENSOR and n == 4:
            return self.tensor(args[0], None, args[1], args[2], args[3], False)
        if code == PARAMETER and n == 3:
            if type(args[0]) is not Tensor or type(args[1]) is not bool:
                raise self.wrong(f"{known.name} takes a tensor and a truth value, got {describe(args[0])} and {describe(args[1])}")
            if parameter_class is None:
                from metatensor.nn import Parameter
                parameter_class = Parameter
            charge(self, 300)
            try:
                return make_subclass(parameter_class, args[0], args[1])
            except RuntimeError as error:
                raise self.wrong(f"{known.name}: {error}") from None
        raise self.wrong(f"{known.name} does not take {n} arguments")

    cdef Tensor tensor(self, object storage, DType dtype, object offset, object sizes, object strides, object grad):
        """A tensor over a storage, which it must not exceed."""
        cdef Layout lay
        cdef StorageRef ref
        cdef Tensor made
        cdef Py_ssize_t n, i
        cdef int over = 0, more = 0
        cdef dim_t start, need
        if type(storage) is not StorageRef:
            raise self.wrong(f"a tensor over {describe(storage)}, which is no storage")
        ref = <StorageRef>storage
        if dtype is None:
            dtype = ref.dtype
            if dtype is None:
                raise self.wrong("a tensor without a dtype over a storage of bytes")
        if not isinstance(sizes, tuple) or not isinstance(strides, tuple) or type(offset) is not int:
            raise self.wrong(f"a tensor of size {describe(sizes)}, stride {describe(strides)} and offset {describe(offset)}: "
                             "a tuple, a tuple and an integer are needed")
        if type(grad) is not bool:
            raise self.wrong(f"requires_grad must be a truth value, got {describe(grad)}")
        n = len(<tuple>sizes)
        if n != len(<tuple>strides) or n > MAX_DIMS:
            raise self.wrong(f"a tensor of {n} sizes and {len(<tuple>strides)} strides; {MAX_DIMS} dimensions are the most")
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
        charge(self, 320 + 16 * n)
        try:
            if ref.begin % dtype.itemsize:
                raise RuntimeError(f"the storage begins at byte {ref.begin}, between two elements of {dtype.name}")
            need = extent(lay.ndim, lay.sizes, lay.strides)
            if need:
                need = mul_dims(add_dims(need, lay.offset), dtype.itemsize)
            start = add_dims(lay.offset, ref.begin // dtype.itemsize)
            mul_dims(start, dtype.itemsize)
            if need > ref.nbytes:
                raise self.wrong(f"a tensor of size {list(sizes)[:9]}, stride {list(strides)[:9]} and offset {lay.offset} needs "
                                 f"{need:,} bytes, its storage {ref.key[:40]!r} has {ref.nbytes:,}")
            made = over_storage(ref.storage, dtype, lay.ndim, lay.sizes, lay.strides, start)
            if grad:
                set_requires_grad(made, True)
        except RuntimeError as error:
            raise self.wrong(f"a tensor that cannot be: {error}") from None
        return made

    cdef int lazy(self, Tensor made, object metadata) except -1:
        """Whether a tensor stands for the conjugate or the negative of its memory."""
        if type(metadata) is not dict:
            raise self.wrong(f"the metadata of a tensor must be a dict, got {describe(metadata)}")
        for name, value in (<dict>metadata).items():
            if name == "conj" and type(value) is bool and made.dtype.kind == KIND_COMPLEX:
                made.flags |= T_CONJ if value else 0
            elif name == "neg" and type(value) is bool:
                made.flags |= T_NEG if value else 0
            else:
                raise self.wrong(f"unknown metadata of a tensor: {describe(name)} = {describe(value)}")
        return 0

    cdef object persistent(self, object id):
        cdef StorageRef ref
        cdef DType dtype
        cdef Py_ssize_t found
        cdef long long nbytes, numel
        cdef int over = 0
        if self.persist is not None:
            return self.persist(self, id)
        if type(id) is tuple and len(<tuple>id) == 4 and (<tuple>id)[0] == "module":
            return (<tuple>id)[1]       # a class with its source, in the older format
        if type(id) is not tuple or not 5 <= len(<tuple>id) <= 6 or (<tuple>id)[0] != "storage":
            raise self.wrong(f"a persistent id must be ('storage', class, key, location, size), got {describe(id)}")
        kind, key, location, size = (<tuple>id)[1], (<tuple>id)[2], (<tuple>id)[3], (<tuple>id)[4]
        if type(kind) is Inert:
            return kind
        if type(kind) is not StorageType:
            raise self.wrong(f"{describe(kind)} is no class of storages")
        if type(key) is not str or type(location) is not str or type(size) is not int or len(key) > 1000 or len(location) > 100:
            raise self.wrong(f"a storage with key {describe(key)}, location {describe(location)} and size {describe(size)}")
        dtype = (<StorageType>kind).dtype
        numel = as_long_long(size, &over)
        if over or numel < 0 or numel > (1 << 62) // (1 if dtype is None else dtype.itemsize):
            raise self.wrong(f"a storage of {describe(size)} elements")
        nbytes = numel * (1 if dtype is None else dtype.itemsize)
        found = -1
        if self.directory is not None:
            found = self.directory.find_next(self.prefix, key)
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
                    raise self.wrong(f"storage {key[:40]!r} claims {nbytes:,} bytes, its member has {self.directory.entries[found].size:,}")
            ref = StorageRef.__new__(StorageRef)
            ref.storage = new_storage(self.fixed if self.fixed is not None else <Device?>self.place(location, nbytes), nbytes)
            ref.dtype = dtype
            ref.key = key
            ref.location = location
            ref.nbytes = nbytes
            charge(self, 240)
            self.storages[key] = ref
        elif ref.nbytes != nbytes or (ref.dtype is not dtype and ref.dtype is not None and dtype is not None):
            raise self.wrong(f"storage {key[:40]!r} is {nbytes:,} bytes here, and was {ref.nbytes:,} before, or has another dtype")
        elif ref.dtype is not dtype:
            ref = self.typed(ref, dtype)
        if len(<tuple>id) == 6 and (<tuple>id)[5] is not None:
            return self.view(ref, (<tuple>id)[5])
        return ref

    cdef StorageRef typed(self, StorageRef whole, DType dtype):
        """The same storage, of another dtype."""
        cdef StorageRef ref = StorageRef.__new__(StorageRef)
        charge(self, 80)
        ref.storage, ref.key, ref.location = whole.storage, whole.key, whole.location
        ref.begin, ref.nbytes = whole.begin, whole.nbytes
        ref.dtype = dtype
        return ref

    cdef StorageRef view(self, StorageRef whole, object view):
        """Part of a storage, as files of the older format have it: (key, offset, size) in elements."""
        cdef long long item = 1 if whole.dtype is None else whole.dtype.itemsize
        if type(view) is not tuple or len(<tuple>view) != 3 or type((<tuple>view)[0]) is not str:
            raise self.wrong(f"a view of a storage must be (key, offset, size), got {describe(view)}")
        key, offset, size = <tuple>view
        if type(offset) is not int or type(size) is not int or offset < 0 or size < 0 or (offset + size) * item > whole.nbytes:
            raise self.wrong(f"a view of {describe(size)} elements from {describe(offset)} on is beyond storage {whole.key[:40]!r}")
        found = self.views.get((whole.key, key))
        if found is None:
            found = self.typed(whole, whole.dtype)
            (<StorageRef>found).begin, (<StorageRef>found).nbytes = offset * item, size * item
            self.views[whole.key, key] = found
        elif (<StorageRef>found).begin != offset * item or (<StorageRef>found).nbytes != size * item:
            raise self.wrong(f"the view {key[:40]!r} of storage {whole.key[:40]!r} is two different ones")
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
