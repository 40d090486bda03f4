"""Storage: the bytes that tensors view, or would view."""
cimport cython
from cpython.object cimport PyObject
from metatensor._core.device cimport META, Device, place_of, backend_of
from metatensor._core.slots cimport forbid_new
from metatensor._core.thread cimport ThreadState, hints, thread_state
from metatensor._core.types cimport dim_t
from metatensor._core.late import later


@cython.final
@cython.no_gc
@cython.freelist(256)
@cython.binding(False)
cdef class Storage:
    """The memory behind one or more tensors: a size in bytes, a device, and maybe data.

    On the meta device there is no data; two tensors that share a storage are
    aliases of each other all the same. `data` is the backend's own handle, or
    None where there is no data.
    """

    @property
    def _cdata(self):
        """An integer that is equal for the same storage and no other one alive."""
        return <Py_ssize_t><PyObject*>self

    @property
    def _version(self):
        return self.version

    @property
    def is_fake(self):
        """Whether it names a real device but holds no data."""
        return self.fake

    def nbytes(self):
        """Size in bytes."""
        return self.size_bytes

    def size(self):
        """Size in bytes."""
        return self.size_bytes

    def __len__(self):
        return self.size_bytes

    def __eq__(self, other):
        return self is other

    def __hash__(self):
        return <Py_hash_t>(<Py_ssize_t><PyObject*>self >> 4)

    def data_ptr(self):
        """An address where the backend has one; 0 on meta."""
        if self.data is None:
            return 0
        return backend_of(self.device).data_ptr(self.data)

    def resize_(self, nbytes):
        """Change the size, keeping what fits. Raises RuntimeError for a negative size."""
        resize_storage(self, nbytes)
        return self

    @staticmethod
    def from_file(filename, shared=False, nbytes=0):
        """A storage on cpu over the first `nbytes` bytes of a file; writes reach the file where `shared` is true."""
        return later("from_file")(filename, shared, nbytes)

    def __getitem__(self, index):
        """A byte, or for a slice a storage over the same memory."""
        return later("item")(self, index)

    def tolist(self):
        """The bytes, as ints."""
        return list(storage_bytes(self))

    def clone(self):
        """A storage of its own with the same bytes."""
        return copy_storage(self)

    def cpu(self):
        """The bytes on cpu: this storage where it is there."""
        return later("on_cpu")(self)

    def untyped(self):
        """This storage."""
        return self

    def element_size(self):
        """1: elements are bytes."""
        return 1

    def __reduce__(self):
        """Pickled with its bytes, or how they come about; tensors that share it share it again afterwards."""
        if self.data is None and self.recipe is not None:
            return later("reduce_storage")(self)
        data = None if self.data is None else storage_bytes(self)
        return (rebuild_storage, (str(self.device), self.size_bytes, data, self.fake))

    def __deepcopy__(self, memo):
        deep_copy_storage = later("deep_copy_storage")
        return deep_copy_storage(self, memo)

    def __repr__(self):
        return f"metatensor.UntypedStorage(device={self.device}, size={self.size_bytes})"


forbid_new(Storage)


cdef Storage new_storage(Device device, dim_t nbytes):
    cdef Storage s = Storage.__new__(Storage)
    s.size_bytes = nbytes
    s.device = device
    if hints.trackers:
        _track(s)
    return s


cdef int _track(Storage s) except -1:
    cdef ThreadState state = thread_state()
    if state.tracker is not None:
        s.token = state.tracker.birth(s)
    return 0


cdef int resize_storage(Storage s, dim_t nbytes) except -1:
    if nbytes < 0:
        raise RuntimeError(f"resize_: the size of a storage cannot be negative, got {nbytes}")
    if s.data is not None:
        backend = backend_of(s.device)
        s.data = backend.resize(s.data, s.size_bytes, nbytes, s.device.number)
    s.size_bytes = nbytes
    s.version += 1
    s.uncounted += 1
    if s.recipe is not None:
        s.recipe.grow(nbytes)
    if s.token is not None:
        s.token.resize(nbytes)
    return 0


def make_storage(device, nbytes, data=None):
    """A storage on `device` of `nbytes` bytes that adopts `data`, the backend's handle."""
    cdef Device d = place_of(device)
    cdef Storage s
    if nbytes < 0:
        raise RuntimeError(f"a storage cannot have {nbytes} bytes")
    if data is not None and d is META:
        raise RuntimeError("a storage on the meta device holds no data")
    s = new_storage(d, nbytes)
    s.data = data
    return s


def make_fake_storage(device, nbytes):
    """A storage that names a real device and holds no data, on purpose."""
    cdef Storage s = make_storage(device, nbytes)
    s.fake = s.device is not META
    return s


def set_data(Storage s not None, data):
    """Give a storage its backend handle."""
    if s.device is META:
        raise RuntimeError("a storage on the meta device holds no data")
    s.data = data
    s.fake = False


def recipe_of(Storage s not None):
    """What says how the bytes of a storage come about, or None."""
    return s.recipe


def storage_bytes(Storage s not None):
    """The bytes of a storage that holds data, or would by its recipe."""
    from metatensor._core.dtype import dtype_by_name
    if s.data is None and s.recipe is not None:
        filled = later("filled")
        return storage_bytes(filled(s))
    from metatensor._core.placing import tensor_from_storage
    flat = tensor_from_storage(s, dtype_by_name("uint8"), (s.size_bytes,), (1,))
    return bytes(backend_of(s.device).to_host(flat))


def rebuild_storage(device, nbytes, data, fake=False):
    """A storage from what `Storage.__reduce__` or a copy of a storage gives."""
    from metatensor._core.dtype import dtype_by_name
    from metatensor._core.placing import tensor_from_storage
    cdef Storage s = make_storage(device, nbytes)
    s.fake = fake
    if data is not None:
        backend = backend_of(s.device)
        s.data = backend.allocate(nbytes, s.device.number)
        backend.from_host(tensor_from_storage(s, dtype_by_name("uint8"), (nbytes,), (1,)), data)
    return s


def copy_storage(Storage s not None):
    """A storage of its own with the same bytes, on the same device."""
    if s.recipe is not None and s.data is None:
        from metatensor._core.recording import copy_recorded
        return copy_recorded(s)
    return rebuild_storage(s.device, s.size_bytes, None if s.data is None else storage_bytes(s), s.fake)
