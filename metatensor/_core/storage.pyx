"""Storage, the memory of tensors."""
cimport cython
from cpython.object cimport PyObject, PyTypeObject, newfunc
from cpython.ref cimport Py_INCREF
from metatensor._core.device cimport META, Device, concrete_device, backend_of
from metatensor._core.memory cimport DEATH, RESIZE, born, happened, set_watch
from metatensor._core.slots cimport set_new
from metatensor._core.thread cimport hints
from metatensor._core.types cimport dim_t
from metatensor._core.late import later

cdef extern from *:
    """
    /* Cython would save and restore the current exception around the __dealloc__ of a class, and always call it. */
    static destructor mt_freed = NULL;
    static void mt_set_freed(PyObject *type, destructor f) {
        if (mt_freed == NULL) mt_freed = ((PyTypeObject *)type)->tp_dealloc;
        ((PyTypeObject *)type)->tp_dealloc = f == NULL ? mt_freed : f;
    }
    static void mt_storage_freed(PyObject *o) { mt_freed(o); }
    """
    ctypedef void (*destructor)(PyObject*) noexcept
    void set_freed "mt_set_freed" (object type, destructor f) noexcept
    void storage_freed "mt_storage_freed" (PyObject* storage) noexcept


@cython.final
@cython.no_gc
@cython.freelist(256)
@cython.binding(False)
cdef class Storage:
    """The memory of one or more tensors: a size in bytes, a device and possibly data.

    `data` is the backend's handle, or None if there is no data, as on the meta
    device. Tensors that share a storage alias each other even without data.
    """

    @property
    def _cdata(self):
        """An int that identifies the storage while it lives."""
        return <Py_ssize_t><PyObject*>self

    @property
    def _version(self):
        return self.version

    @property
    def is_fake(self):
        """Whether the storage is deliberately without data, on a device other than meta."""
        return self.fake

    def nbytes(self):
        """Return the size in bytes."""
        return self.size_bytes

    def size(self):
        """Return the size in bytes."""
        return self.size_bytes

    def __len__(self):
        return self.size_bytes

    def __eq__(self, other):
        return self is other

    def __hash__(self):
        return <Py_hash_t>(<Py_ssize_t><PyObject*>self >> 4)

    def data_ptr(self):
        """Return the address of the memory, or 0 without data."""
        if self.data is None:
            return 0
        return backend_of(self.device).data_ptr(self.data)

    def is_shared(self):
        """Whether the memory is shared with other processes."""
        return self.data is not None and backend_of(self.device).is_shared(self.data)

    def share_memory_(self):
        """Move the bytes into memory that other processes can share, and return the storage."""
        if self.data is None:
            raise RuntimeError(f"share_memory_(): a storage on {self.device} without data cannot be shared")
        backend = backend_of(self.device)
        if not backend.is_shared(self.data):
            self.data = backend.share(self.data, self.size_bytes, self.device.number)
        return self

    def resize_(self, nbytes):
        """Change the size and return the storage. The bytes that fit into the new size are kept.

        Parameters
        ----------
        nbytes : int
            The new size in bytes.

        Raises
        ------
        RuntimeError
            If `nbytes` is negative.
        """
        later("refuse_in_trace")("resize_() of a storage")
        resize_storage(self, nbytes)
        return self

    @staticmethod
    def from_file(filename, shared=False, nbytes=0):
        """Return a cpu storage over the first bytes of a file.

        Parameters
        ----------
        filename : path
            The file.
        shared : bool
            Whether writes to the storage change the file, which is then created or extended if needed. Default False.
        nbytes : int
            The size of the storage in bytes. Default 0.
        """
        return later("from_file")(filename, shared, nbytes)

    def __getitem__(self, index):
        """Return one byte as an int, or for a slice a storage that shares the memory."""
        return later("item")(self, index)

    def __setitem__(self, index, value):
        later("as_bytes")(self)[index] = value

    def fill_(self, value):
        """Set all bytes to `value` and return the storage."""
        later("as_bytes")(self).fill_(value)
        return self

    def copy_(self, source, non_blocking=None):
        """Copy the bytes of another storage of the same size and return this one."""
        untyped = getattr(source, "untyped", None)
        if untyped is None:
            raise TypeError(f"copy_: expected a storage, got {type(source).__name__}")
        later("as_bytes")(self).copy_(later("as_bytes")(untyped()))
        return self

    def resizable(self):
        """Return True: `resize_` works on any storage."""
        return True

    def byteswap(self, dtype):
        """Reverse the order of the bytes in each element of a dtype, or in each part of a complex one."""
        later("swap_bytes")(self, dtype)

    def __copy__(self):
        return copy_storage(self)

    def __sizeof__(self):
        return sizeof(Storage) + self.size_bytes

    def tolist(self):
        """Return the bytes as a list of ints."""
        later("note_storage_read")(self, "tolist")
        return list(storage_bytes(self))

    def clone(self):
        """Return a copy of the storage on the same device."""
        return copy_storage(self)

    def cpu(self):
        """Return the storage if it is on the cpu, else a copy there."""
        return later("on_cpu")(self)

    def untyped(self):
        """Return the storage itself."""
        return self

    def element_size(self):
        """Return 1: the elements are bytes."""
        return 1

    def __reduce__(self):
        """Pickle the bytes, or the recipe for them. Tensors that share the storage share it after unpickling."""
        if self.data is None and recorded(self):
            return later("reduce_storage")(self)
        later("note_storage_read")(self, "pickle")
        data = None if self.data is None else storage_bytes(self)
        return (rebuild_storage, (str(self.device), self.size_bytes, data, self.fake))

    def __deepcopy__(self, memo):
        deep_copy_storage = later("deep_copy_storage")
        return deep_copy_storage(self, memo)

    def __repr__(self):
        return f"metatensor.UntypedStorage(device={self.device}, size={self.size_bytes})"


cdef PyObject* _storage_new(PyTypeObject* t, PyObject* args, PyObject* kwargs) except NULL:
    cdef object made = later("new_untyped")
    made = made(*<tuple>args) if kwargs == NULL else made(*<tuple>args, **<dict>kwargs)
    Py_INCREF(made)
    return <PyObject*>made


set_new(Storage, <newfunc>_storage_new)


cdef long long _captures = 0        # how many captures have begun


cdef Storage new_storage(Device device, dim_t nbytes):
    cdef Storage s = Storage.__new__(Storage)
    s.size_bytes = nbytes
    s.device = device
    if hints.trackers:
        count_storage(s)
    return s


cdef int count_storage(Storage s) except -1:
    """Let the memory trackers of this thread count a storage from now on."""
    s.counted = s.size_bytes
    s.scope = born(s.counted, &s.number)
    if s.scope is None:
        s.number = -_captures
    return 0


cdef long long next_capture() noexcept:
    """Return the number of a capture that begins. Storages that other threads make from then on can be told by it."""
    global _captures
    _captures += 1
    return _captures


cdef void _freed(PyObject* s) noexcept:
    if <PyObject*>(<Storage>s).scope != <PyObject*>None:
        happened(<PyObject*>(<Storage>s).scope, (<Storage>s).number, -(<Storage>s).counted, DEATH)
    storage_freed(s)


cdef void _watch_storages(bint on) noexcept:
    if on:
        set_freed(Storage, _freed)
    else:
        set_freed(Storage, NULL)


set_watch(_watch_storages)


cdef int resize_storage(Storage s, dim_t nbytes) except -1:
    if nbytes < 0:
        raise RuntimeError(f"resize_: the size of a storage cannot be negative, got {nbytes}")
    if s.data is not None:
        backend = backend_of(s.device)
        s.data = backend.resize(s.data, s.size_bytes, nbytes, s.device.number)
    s.size_bytes = nbytes
    s.version += 1
    s.uncounted += 1
    if recorded(s):
        s.recipe.grow(nbytes)
    if s.scope is not None:
        happened(<PyObject*>s.scope, s.number, nbytes - s.counted, RESIZE)
        s.counted = nbytes
    return 0


def release(Storage s not None):
    """Free the memory of a storage that tensors still refer to. Their versions do not change.

    Memory trackers count this as the end of the storage, and `refill` as the birth of another one.
    """
    if s.scope is not None:
        happened(<PyObject*>s.scope, s.number, -s.counted, DEATH)
        s.scope = None
        s.number = 0
    if s.data is not None:
        s.data = backend_of(s.device).allocate(0, s.device.number)
    s.size_bytes = 0


def refill(Storage s not None, dim_t nbytes):
    """Give a released storage uninitialized memory again. Versions do not change."""
    if s.data is not None:
        s.data = backend_of(s.device).allocate(nbytes, s.device.number)
    s.size_bytes = nbytes
    if hints.trackers and s.scope is None:
        count_storage(s)


def visible_version(Storage s not None):
    """Return the version that the tensors over a storage have, if they have no counter of their own."""
    return s.version - s.uncounted


def restore_version(Storage s not None, unsigned long long version):
    """Give a storage a version that it had before, as if it had not been written to since."""
    s.uncounted = s.version - version


def make_storage(device, nbytes, data=None):
    """Return a new storage of `nbytes` bytes on `device`. `data` is the backend's handle, or None."""
    cdef Device d = concrete_device(device)
    cdef Storage s
    if nbytes < 0:
        raise RuntimeError(f"a storage cannot have {nbytes} bytes")
    if data is not None and d is META:
        raise RuntimeError("a storage on the meta device holds no data")
    s = new_storage(d, nbytes)
    s.data = data
    return s


def make_fake_storage(device, nbytes):
    """Return a new storage without data. It is fake unless the device is meta."""
    cdef Storage s = make_storage(device, nbytes)
    s.fake = s.device is not META
    return s


def set_data(Storage s not None, data):
    """Set the backend handle of a storage. Raise RuntimeError on the meta device."""
    if s.device is META:
        raise RuntimeError("a storage on the meta device holds no data")
    s.data = data
    s.fake = False


def recipe_of(Storage s not None):
    """Return the recipe of a storage, a Recipe, or None."""
    return s.recipe if recorded(s) else None


def storage_bytes(Storage s not None):
    """Return the bytes of a storage. If it has only a recipe, compute them."""
    from metatensor._core.dtype import dtype_by_name
    if s.data is None and recorded(s):
        filled = later("filled")
        return storage_bytes(filled(s))
    from metatensor._core.storage_views import tensor_from_storage
    flat = tensor_from_storage(s, dtype_by_name("uint8"), (s.size_bytes,), (1,))
    return bytes(backend_of(s.device).to_host(flat))


def rebuild_storage(device, nbytes, data, fake=False):
    """Return a new storage with the given bytes, or without data if `data` is None. Unpickling and copying use it."""
    from metatensor._core.dtype import dtype_by_name
    from metatensor._core.storage_views import tensor_from_storage
    cdef Storage s = make_storage(device, nbytes)
    s.fake = fake
    if data is not None:
        backend = backend_of(s.device)
        s.data = backend.allocate(nbytes, s.device.number)
        backend.from_host(tensor_from_storage(s, dtype_by_name("uint8"), (nbytes,), (1,)), data)
    return s


def copy_storage(Storage s not None):
    """Return a copy of a storage on the same device. A recipe is not computed: the copy gets a recipe too."""
    later("note_storage_read")(s, "copy")
    if recorded(s) and s.data is None:
        from metatensor._core.recording import copy_recorded
        return copy_recorded(s)
    cdef Storage made = rebuild_storage(s.device, s.size_bytes, None if s.data is None else storage_bytes(s), s.fake)
    if is_known(s):
        made.recipe, made.known = s.recipe, made.version + 1
    return made
