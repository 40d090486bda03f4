"""Devices: interned pairs of a device type and an optional index.

Constructing a device does not load its backend. The first allocation, copy or computation on
the device loads it.
"""
import os

cimport cython
from cpython.object cimport PyObject, PyTypeObject, newfunc
from cpython.ref cimport Py_INCREF
from metatensor._core.slots cimport set_new
from metatensor._core.thread cimport ThreadState, hints, thread_state
from metatensor._core.late import later

cdef frozenset _LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")     # of device types
MAX_TYPES = 4096
"""The maximal number of device types that a process can name. Device objects are never freed."""

cdef dict _interned = {}        # (type, number) -> Device
cdef dict _kinds = {}           # type -> id
cdef list _backends = []        # id -> backend, or None while not loaded
cdef dict _parsed = {}          # text -> Device


@cython.final
@cython.binding(False)
cdef class Device:
    """A device: a type such as "cpu" or "cuda" and an optional index.

    Constructing a device neither loads its backend nor checks that the hardware is present.
    Equal devices are the same object. Used as a context manager or decorator, a device becomes the
    default device of the current thread.

    Parameters
    ----------
    type : str, int or device
        The type, ``"cuda"``, or the type and index, ``"cuda:1"``. An int n means ``"cuda:n"``.
    index : int, optional
        The index, if `type` has none.

    Raises
    ------
    RuntimeError
        If the name is malformed, the type is unknown, or the index is out of range or given twice.
    TypeError
        If an argument has another type.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.device("cuda", 1)
    device(type='cuda', index=1)
    >>> with mt.device("meta"):
    ...     mt.empty(3).device
    device(type='meta')
    """

    @property
    def index(self):
        """The index, or None."""
        return None if self.number < 0 else self.number

    def __enter__(self):
        cdef ThreadState state = thread_state()
        if self._saved is None:
            self._saved = []
        self._saved.append((state, state.device))
        _switch(state, self)
        return self

    def __exit__(self, *exc):
        # All threads share the object: find the entry of this thread.
        cdef ThreadState state = thread_state()
        cdef Py_ssize_t i
        for i in range(len(self._saved or ()) - 1, -1, -1):
            if (<tuple>self._saved[i])[0] is state:
                _switch(state, (<tuple>self._saved.pop(i))[1])
                return
        raise RuntimeError(f"device {self} was not entered in this thread")

    def __call__(self, func):
        """Return a function that calls `func` with this default device."""
        from metatensor._core.decorate import run_inside
        return run_inside(self, func)

    def __str__(self):
        return self.type if self.number < 0 else f"{self.type}:{self.number}"

    def __repr__(self):
        if self.number < 0:
            return f"device(type='{self.type}')"
        return f"device(type='{self.type}', index={self.number})"

    def __reduce__(self):
        return (Device, (str(self),))

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


cdef Device _intern(str type, int number):
    key = (type, number)
    cdef object found = _interned.get(key)
    cdef Device d
    if found is not None:
        return <Device>found
    d = Device.__new__(Device)
    d.type = type
    d.number = number
    if type not in _kinds:
        if len(_kinds) >= MAX_TYPES:
            raise RuntimeError(f"device: cannot name the type {type!r}: the limit is {MAX_TYPES:,} types per process")
        _kinds[type] = len(_backends)
        _backends.append(None)
    d.kind = _kinds[type]
    _interned[key] = d
    return d


cdef bint _is_index(str text):
    """Whether `text` is a number below 100,000, written without leading zeros."""
    return len(text) <= 5 and text.isascii() and text.isdigit() and (text[0] != "0" or text == "0")


cdef Device _parse(str spec):
    cdef str type, colon, index
    cdef Device d
    type, colon, index = spec.partition(":")
    if not (0 < len(type) <= 64 and _LETTERS.issuperset(type) and not type[0].isdigit()) or (colon and not _is_index(index)):
        raise RuntimeError(f"invalid device string: {spec!r}; expected TYPE or TYPE:INDEX")
    if type not in _kinds and type not in _NAMED:
        _check_type(type)
    d = _intern(type, int(index) if colon else -1)
    if len(_parsed) < 4096:
        _parsed[spec] = d
    return d


# Types that are accepted without a plugin: those of PyTorch and some that are common in user code.
cdef frozenset _NAMED = frozenset((
    "cpu", "cuda", "fpga", "hip", "hpu", "ideep", "ipu", "lazy", "maia", "meta", "mkldnn", "mps", "mtia", "musa", "npu", "opencl",
    "opengl", "privateuseone", "ve", "vulkan", "xla", "xpu",
))


cdef int _check_type(str type) except -1:
    """Raise RuntimeError unless a plugin provides the device type."""
    plugins = later("plugins")
    if type not in plugins.device_types():
        raise plugins.manager().unknown_type(type)
    return 0


# Programs pass the same str object again and again, so the last one is cached.
cdef object _last_spec = object()
cdef Device _last_device = None

cdef Device as_device(object spec):
    """Return the Device for a Device, a str, or an int, which is the index of a cuda device."""
    global _last_spec, _last_device
    cdef object found
    if isinstance(spec, Device):
        return <Device>spec
    if spec is _last_spec:
        return _last_device
    if isinstance(spec, str):
        found = _parsed.get(spec)
        if found is None:
            found = _parse(spec)
        _last_device = <Device>found
        _last_spec = spec
        return <Device>found
    if isinstance(spec, int) and not isinstance(spec, bool):
        if not 0 <= spec < 100000:
            raise RuntimeError(f"device index must be in [0, 100000), got {spec}")
        return _intern("cuda", spec)
    raise TypeError(f"device: expected a str, an int or a device, got {type(spec).__name__}")


# Types whose tensors are always on a device with an index, as in PyTorch.
cdef frozenset _NUMBERED = frozenset(("cuda", "hpu", "mps", "mtia", "musa", "npu", "xpu"))


cpdef Device concrete_device(object spec):
    """Return the device of a tensor that is created with ``device=spec``.

    The index of meta is dropped. A type such as "cuda" without an index gets the current index.
    """
    cdef Device d = as_device(spec)
    if d.kind == META.kind:
        return META
    if d.number < 0 and d is not _CPU and d.type in _NUMBERED:
        return _current(d)
    return d


cdef Device _current(Device d):
    """Return the current device of a type, or device 0 if the backend is not loaded or has no device.

    No hardware is needed here: fake tensors and checkpoints may name devices that are absent. Allocating memory on such
    a device raises.
    """
    cdef object backend = _backends[d.kind]
    return _intern(d.type, backend.current_index() if backend is not None and backend.device_count() else 0)


def _make(type, index=None):
    cdef Device d
    if index is None:
        return as_device(type)
    if not isinstance(type, str) or isinstance(index, bool) or not isinstance(index, int):
        raise TypeError("device: expected a type as str and an index as int, got "
                        f"{type!r} and {index!r}")
    d = as_device(type)
    if d.number >= 0:
        raise RuntimeError(f"device: index is given, but the type already contains one: {type!r}")
    if not 0 <= index < 100000:
        raise RuntimeError(f"device index must be in [0, 100000), got {index}")
    return _intern(d.type, index)


cdef PyObject* _device_new(PyTypeObject* t, PyObject* args, PyObject* kwargs) except NULL:
    cdef object d
    if kwargs == NULL:
        d = _make(*<tuple>args)
    else:
        d = _make(*<tuple>args, **<dict>kwargs)
    Py_INCREF(d)
    return <PyObject*>d


set_new(Device, <newfunc>_device_new)

META = _intern("meta", -1)
cdef Device _CPU = _intern("cpu", -1)


cdef Device cpu_device():
    return _CPU


# The default device --------------------------------------------------------------

cdef Device _process_default = None


cdef Device explicit_default():
    """Return the default device set by a `with` block, `set_default_device` or the environment, or None."""
    global _process_default
    cdef ThreadState state = thread_state()
    if state.device is not None:
        return <Device>state.device
    if _process_default is None and hints.default_devices == 0:
        name = os.environ.get("METATENSOR_DEFAULT_DEVICE")
        hints.default_devices = 1
        if name:
            _process_default = as_device(name)
            hints.constants += _process_default is META
    return _process_default


cdef int _switch(ThreadState state, object device) except -1:
    """Set a thread's default device."""
    hints.constants += (device is META) - (state.device is META)
    state.device = device
    return 0


cdef bint keeps_constants() except -1:
    """Whether small constants that this thread creates on meta keep their values: inside `keep_constants`, or if meta is the default."""
    return thread_state().constants != 0 or explicit_default() is META


cdef Device default_device():
    cdef Device d = explicit_default()
    if d is None:
        return _CPU
    return d if d is META else concrete_device(d)


def get_default_device():
    """Return the device of tensors that are created without a ``device`` argument.

    It is the cpu unless another device was set.
    """
    return default_device()


def set_default_device(device):
    """Set the device of tensors that are created without a ``device`` argument, in this thread.

    Parameters
    ----------
    device : device, str, int or None
        The default device. None restores the default of the process, which the environment variable
        METATENSOR_DEFAULT_DEVICE sets.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.set_default_device("meta")
    >>> mt.empty(3).device
    device(type='meta')
    >>> mt.set_default_device(None)
    """
    _switch(thread_state(), None if device is None else as_device(device))


# Backends --------------------------------------------------------------------------

cdef object _missing(Device d, exc):
    plugins = later("plugins")
    if d is _CPU and explicit_default() is None and d.type not in plugins.device_types():
        return RuntimeError(
            "no cpu device is installed; install the distribution metatensor-cpu, or work on the "
            "meta device: metatensor.set_default_device(\"meta\"), with metatensor.device(\"meta\"), "
            "or METATENSOR_DEFAULT_DEVICE=meta")
    return exc


cdef object backend_of(Device d):
    """Return the backend of a device type, loading its plugin on first use."""
    cdef object backend = _backends[d.kind]
    if backend is None:
        plugins = later("plugins")
        try:
            backend = plugins.backend(d.type)
        except RuntimeError as exc:
            better = _missing(d, exc)
            if better is exc:
                raise
            raise better from exc
        _backends[d.kind] = backend
    return backend


def backend_for(device):
    """Return the `DeviceBackend` of a device, loading its plugin on first use.

    Raises
    ------
    RuntimeError
        If no installed plugin provides the device type, or if the plugin is broken.
    """
    return backend_of(as_device(device))


def _forget_backend(str type not None):
    """Drop the cached backend of a type. The plugin manager calls this when a backend is registered."""
    if type in _kinds:
        _backends[_kinds[type]] = None
