"""A stand-in for CuPy on machines without a GPU, based on NumPy's functions.

The arrays and functions are those of `devices.fake_arrays`, with exactly the names that CuPy has. Devices, streams,
events, memory pools and errors of the driver are simulated. There may be any number of devices, each with its own
memory pool, and each thread has a current device. Arrays of other devices are rejected, as without peer access.
"""

import threading
import time
from types import SimpleNamespace

import numpy as np

from devices.fake_arrays import KINDS, NAMES, Function, Ufunc, bare, ndarray

FREE, TOTAL = 1 << 33, 1 << 34
PROPERTIES = {
    "totalGlobalMem": TOTAL, "major": 9, "minor": 0, "multiProcessorCount": 132, "maxThreadsPerMultiProcessor": 2048,
    "sharedMemPerBlock": 49152, "warpSize": 32,
}  # fmt: skip


class CUDARuntimeError(RuntimeError):
    def __init__(self, status, text=""):
        super().__init__(text)
        self.status = status


class OutOfMemoryError(MemoryError):
    """A stand-in for cupy.cuda.memory.OutOfMemoryError."""


class Pool:
    """The memory pool of one device: bytes in use, and bytes kept for reuse."""

    def __init__(self, limit):
        self.used, self.total, self.limit = 0, 0, limit

    def take(self, nbytes):
        if self.used + nbytes > self.limit:
            raise OutOfMemoryError(f"Out of memory allocating {nbytes:,} bytes (allocated so far: {self.used:,} bytes).")
        self.used += nbytes
        self.total = max(self.total, self.used)

    def give(self, nbytes):
        self.used -= nbytes

    def free_all_blocks(self, stream=None):
        self.total = self.used

    def used_bytes(self):
        return self.used

    def total_bytes(self):
        return self.total

    def free_bytes(self):
        return self.total - self.used


class Numpy:
    """The names of one of CuPy's modules, with the functions of NumPy or SciPy."""

    def __init__(self, home, name, module):
        self.home, self.__name__, self.module = home or self, name, module

    def __getattr__(self, name):
        known = NAMES.get(self.__name__, {})
        if name.startswith("__") or name not in known:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        found = getattr(self.module, name, None)
        if found is None:
            raise NotImplementedError(f"the stand-in for CuPy does not do {self.__name__}.{name}")
        if isinstance(known[name], list):
            found = Ufunc(self.home, found, name, known[name])
        elif f"{self.__name__}.{name}" in ("cupy.linalg", "cupy.fft"):
            found = Numpy(self.home, f"{self.__name__}.{name}", found)
        elif callable(found) and not isinstance(found, type):
            found = Function(self.home, found, name, known[name])
        setattr(self, name, found)
        return found


class FakeCupy(Numpy):
    """The module cupy, with ``count`` devices of ``limit`` bytes. ``failure`` is (status, text) of a driver error."""

    ndarray = ndarray

    def __init__(self, count=2, failure=None, driver=12040, needed=12090, limit=1 << 40, properties=None):
        super().__init__(None, "cupy", np)
        self.count, self.failure, self.limit, self.here = count, failure, limit, threading.local()
        self.pools = {}
        self.synchronized, self.asked, self.streams = [], [], {}
        self.lib = SimpleNamespace(stride_tricks=SimpleNamespace(as_strided=self._as_strided))
        self.cuda = Cuda(self, driver, needed, PROPERTIES | (properties or {}))

    @property
    def special(self):
        """The stand-in for cupyx.scipy.special."""
        import scipy.special

        return Numpy(self, "cupyx.scipy.special", scipy.special)

    @property
    def current(self):
        return getattr(self.here, "device", 0)

    @current.setter
    def current(self, index):
        self.here.device = index

    def pool(self, index):
        return self.pools.setdefault(index, Pool(self.limit))

    def get_default_memory_pool(self):
        return self.pool(self.current)

    def get_default_pinned_memory_pool(self):
        return SimpleNamespace(free_all_blocks=lambda: self.asked.append("pinned freed"))

    # Arrays ------------------------------------------------------------------------------------

    def _check_place(self, *values):
        for value in values:
            if isinstance(value, (list, tuple)):
                self._check_place(*value)
            elif isinstance(value, ndarray) and value._index != self.current:
                raise ValueError(
                    f"Array device must be same as the current device: array device = {value._index} while current = {self.current}"
                )

    def _own(self, result, given):
        """Convert the result of a NumPy function to arrays of this module. Views remain views of the arguments."""
        if isinstance(result, (list, tuple)):
            items = [self._own(item, given) for item in result]
            return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
        if isinstance(result, np.generic):
            result = np.asarray(result)
        if not isinstance(result, np.ndarray):
            return result
        if result.dtype.kind not in KINDS or result.dtype.char in "gG":
            raise TypeError(f"CuPy has no arrays of {result.dtype}")
        for item in _flat(given):
            if result is item._host:
                return item
            if result.base is not None and np.may_share_memory(result, item._host):
                return item._over(result)
        return ndarray(self, result if result.base is None else np.array(result), self.current)

    def _made(self, shape, nbytes, make):
        self.pool(self.current).take(nbytes)
        self.pool(self.current).give(nbytes)
        return ndarray(self, make(), self.current)

    def empty(self, shape, dtype=float, order="C"):
        sizes = shape if isinstance(shape, tuple) else tuple(shape) if isinstance(shape, list) else (shape,)
        nbytes = int(np.prod([int(size) if isinstance(size, (int, np.integer)) else size.__index__() for size in sizes], dtype=object))
        dtype = np.dtype(dtype)
        if dtype.kind not in KINDS:
            raise TypeError(f"CuPy has no arrays of {dtype}")

        def make():
            made = np.empty(sizes, dtype, order)
            made.reshape(-1, order="A").view("u1")[...] = 0xA5  # so that uninitialized memory is noticed
            return made

        return self._made(shape, nbytes * dtype.itemsize, make)

    def array(self, obj, dtype=None, copy=True, order="K", subok=False, ndmin=0, *, blocking=False):
        if isinstance(obj, ndarray):
            host = obj._host
        elif isinstance(obj, (list, tuple)) and obj and all(isinstance(item, ndarray) for item in obj):
            self._check_place(*obj)
            host = np.stack([item._host for item in obj])
        else:
            host = np.asarray(obj, None if dtype is None else np.dtype(dtype))
        dtype = host.dtype if dtype is None else np.dtype(dtype)
        if dtype.kind not in KINDS:
            raise ValueError(f"Unsupported dtype {dtype}")
        with np.errstate(all="ignore"):
            return ndarray(self, np.array(host, dtype, order=order, ndmin=ndmin, copy=True), self.current)

    def asarray(self, a, dtype=None, order=None, *, blocking=False):
        if isinstance(a, ndarray) and a._index == self.current and dtype in (None, a.dtype):
            return a
        return self.array(a, dtype, order=order or "K")

    def asnumpy(self, a, stream=None, order="C", out=None, *, blocking=True):
        return a.get(stream, order, out) if isinstance(a, ndarray) else np.asarray(a, order=order)

    def from_dlpack(self, array):
        class Host:  # NumPy would treat arrays that claim to be on a GPU as host arrays
            def __dlpack_device__(self):
                return (1, 0)

            def __dlpack__(self, **options):
                return array.__dlpack__(**{key: value for key, value in options.items() if key != "dl_device"})

        kind, index = array.__dlpack_device__()
        if int(kind) not in (2, 13):
            raise TypeError(f"CuPy array cannot be created from device type {kind}")
        made = ndarray(self, np.from_dlpack(Host()), int(index), base=array)
        return made

    def ascontiguousarray(self, a, dtype=None):
        a = self.asarray(a, dtype)
        return a if a._host.flags.c_contiguous and a.ndim else self._own(np.ascontiguousarray(a._host), (a,))

    def _as_strided(self, x, shape=None, strides=None):
        return x._over(np.lib.stride_tricks.as_strided(x._host, shape, strides))

    def may_share_memory(self, a, b, max_work=None):
        return a._index == b._index and np.may_share_memory(bare(a), bare(b))


def _flat(values):
    for value in values:
        if isinstance(value, ndarray):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _flat(value)


class Cuda:
    """The stand-in for cupy.cuda."""

    def __init__(self, home, driver, needed, properties):
        self.home = home
        self.runtime = SimpleNamespace(
            CUDARuntimeError=CUDARuntimeError, getDeviceCount=self._device_count, getDevice=lambda: home.current,
            setDevice=lambda index: setattr(home, "current", index), driverGetVersion=lambda: driver,
            getDeviceProperties=lambda index: properties | {"name": f"Fake {index}".encode()}, runtimeGetVersion=lambda: needed,
            memGetInfo=lambda: (FREE - home.pool(home.current).total, TOTAL),
        )  # fmt: skip
        assert all(name in NAMES["cupy.cuda.runtime"] for name in vars(self.runtime))
        self.memory = SimpleNamespace(OutOfMemoryError=OutOfMemoryError)
        known = NAMES["cupy.cuda"]
        assert all(name in known for name in ("runtime", "memory", "Device", "Stream", "Event", "ExternalStream", "alloc_pinned_memory"))

    def _device_count(self):
        if self.home.failure is not None:
            raise CUDARuntimeError(*self.home.failure)
        return self.home.count

    def Device(self, device=None):
        return Device(self.home, self.home.current if device is None else device)

    @property
    def Stream(self):
        return Streams(self.home)

    def ExternalStream(self, ptr, device_id=-1):
        return Stream(self.home, ptr, False, None, device_id)

    def Event(self, block=True, disable_timing=False, interprocess=False):
        return Event(self.home, disable_timing)

    def get_current_stream(self, device_id=-1):
        index = self.home.current if device_id < 0 else device_id
        return self.home.streams.get((threading.get_ident(), index)) or Stream(self.home, 0, False, None, index)

    def get_elapsed_time(self, start_event, end_event):
        return (end_event.at - start_event.at) * 1000

    def alloc_pinned_memory(self, size):
        if size > self.home.limit:
            raise CUDARuntimeError(2, "cudaErrorMemoryAllocation: out of memory")
        return Pinned(size)


class Streams:
    """The class cupy.cuda.Stream, bound to the module."""

    def __init__(self, home):
        self.home = home

    def __call__(self, null=False, non_blocking=False, ptds=False, priority=None):
        return Stream(self.home, 0 if null else None, non_blocking, priority)

    def from_external(self, obj):
        return Stream(self.home, obj.__cuda_stream__()[1], False, None)


class Pinned(bytearray):
    """A stand-in for cupy.cuda.PinnedMemoryPointer: host memory with the buffer protocol, of at least the requested size."""

    def __init__(self, size):
        super().__init__(max(512, -(-size // 512) * 512))


class Device:
    """A context manager that sets the current device."""

    def __init__(self, home, index):
        self.home, self.id, self.before = home, int(index), []

    def __enter__(self):
        self.before.append(self.home.current)
        self.home.current = self.id
        return self

    def __exit__(self, *exc):
        self.home.current = self.before.pop()

    def use(self):
        self.home.current = self.id

    def synchronize(self):
        self.home.synchronized.append(self.id)

    def __eq__(self, other):
        return isinstance(other, Device) and other.id == self.id

    __hash__ = None


class Stream:
    """A queue whose work is done immediately. ``with`` makes it the current stream of its device and thread."""

    _made = 0

    def __init__(self, home, ptr, non_blocking, priority, device_id=None):
        if ptr is None:
            Stream._made += 1
            ptr = Stream._made << 12
        self.home, self.ptr, self.is_non_blocking, self.priority = home, ptr, non_blocking, priority or 0
        self.device_id, self.before, self.done = home.current if device_id in (None, -1) else device_id, [], True

    def _key(self):
        return threading.get_ident(), self.device_id

    def __enter__(self):
        self.before.append(self.home.streams.get(self._key()))
        self.use()
        return self

    def __exit__(self, *exc):
        before = self.before.pop()
        self.home.streams[self._key()] = before

    def use(self):
        if self.device_id != self.home.current:
            raise RuntimeError("a stream is used on a device that is not its own")
        self.home.streams[self._key()] = self
        return self

    def synchronize(self):
        self.home.asked.append(("synchronize", self.ptr))

    def record(self, event=None):
        event = event or Event(self.home, False)
        event.record(self)
        return event

    def wait_event(self, event):
        self.home.asked.append(("wait", self.ptr))


class Event:
    def __init__(self, home, disable_timing):
        Stream._made += 1
        self.home, self.timed, self.at, self.done, self.ptr = home, not disable_timing, None, True, Stream._made << 12

    def record(self, stream=None):
        self.at = time.perf_counter()
        self.home.asked.append(("record", 0 if stream is None else stream.ptr))

    def synchronize(self):
        self.home.asked.append(("event", self.ptr))
