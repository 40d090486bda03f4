"""The backend of the cuda device: the array kit over CuPy, plus device indices, streams and pinned memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from metatensor import Tensor
from metatensor.devices import OutOfMemoryError
from metatensor.devices.array_kit import ArrayBackend
from metatensor.devices.array_kit.memory import Ledger, human_bytes
from metatensor.devices.array_kit.registry import KIT, KernelTable
from metatensor.devices.dlpack import DLDeviceType
from metatensor_cuda.driver import import_cupy, probe
from metatensor_cuda.streams import CudaEvent, CudaStream

__all__ = ["TABLE", "CudaBackend", "kernel"]

TABLE = KernelTable("metatensor-cuda", parent=KIT)
kernel = TABLE.kernel

# Copies of at least this many bytes to the host go through page-locked memory, which the GPU writes to directly.
PINNED = 1 << 16


class CudaBackend(ArrayBackend):
    """The backend for all GPUs of this process. Tests pass `cupy` and `special` to replace CuPy's modules."""

    dlpack_types = (DLDeviceType.kDLCUDA, DLDeviceType.kDLCUDAManaged)

    def __init__(self, cupy: Any = None, special: Any = "cupyx.scipy.special") -> None:
        self._missing = ""
        if cupy is None:
            cupy, self._missing = import_cupy()
        super().__init__("cuda", cupy, special=special, table=TABLE)
        self._ledgers: dict[int, Ledger] = {}
        self._reserved: dict[int, int] = {}
        self._count = 0

    # Devices ----------------------------------------------------------------------

    def device_count(self) -> int:
        # Once GPUs have been found, their number is fixed. Until then each call probes again, because one may appear.
        if not self._count and not self._missing:
            self._count = probe(self.xp)[0]
        return self._count

    def unavailable_reason(self) -> str:
        return self._missing or probe(self.xp)[1]

    def current_index(self) -> int:
        self.check_index(0)
        return int(self.xp.cuda.runtime.getDevice())

    def set_current_index(self, index: int) -> None:
        self.check_index(index)
        self.xp.cuda.runtime.setDevice(index)

    def properties(self, index: int | None = None) -> dict[str, Any]:
        with self.on(index) as device:
            known = self.xp.cuda.runtime.getDeviceProperties(device.id)
            name = known["name"]
            return {
                "name": name.decode() if isinstance(name, bytes) else str(name),
                "total_memory": known["totalGlobalMem"],
                "major": known["major"],
                "minor": known["minor"],
                "multi_processor_count": known["multiProcessorCount"],
                "max_threads_per_multi_processor": known["maxThreadsPerMultiProcessor"],
                "shared_memory_per_block": known["sharedMemPerBlock"],
                "warp_size": known["warpSize"],
            }

    def synchronize(self, index: int | None = None) -> None:
        self.on(index).synchronize()

    def device_of(self, array: Any) -> str:
        return f"cuda:{array.device.id}"

    def on(self, index: int | None) -> Any:
        """Return a context manager that makes device ``index`` current. None or -1 stands for the current device."""
        if index is None or index < 0:
            index = self.current_index()
        self.check_index(index)
        return self.xp.cuda.Device(index)

    def _at(self, tensor: Any) -> Any:
        """Return a context manager that makes the device of a tensor's memory current."""
        return self.xp.cuda.Device(tensor.untyped_storage().data.device.id)

    # Streams --------------------------------------------------------------------

    def stream(self, index: int, priority: int = 0) -> CudaStream:
        with self.on(index) as device:
            return CudaStream(self, device.id, self.xp.cuda.Stream(non_blocking=True, priority=priority or None))

    def external_stream(self, handle: int, index: int) -> CudaStream:
        """Return a stream for the handle of an existing CUDA stream."""
        with self.on(index) as device:
            if hasattr(self.xp.cuda.Stream, "from_external"):
                return CudaStream(self, device.id, self.xp.cuda.Stream.from_external(_Foreign(handle)))
            return CudaStream(self, device.id, self.xp.cuda.ExternalStream(handle, device.id))

    def current_stream(self, index: int) -> CudaStream:
        with self.on(index) as device:
            return CudaStream(self, device.id, self.xp.cuda.get_current_stream())

    def default_stream(self, index: int) -> CudaStream:
        with self.on(index) as device:
            return CudaStream(self, device.id, self.xp.cuda.Stream(null=True))

    def event(self, index: int, timing: bool = False) -> CudaEvent:
        return CudaEvent(self, index, timing)

    # Memory ---------------------------------------------------------------------

    def allocate(self, nbytes: int, index: int = 0) -> Any:
        with self.on(index) as device:
            try:
                flat = self.xp.empty(nbytes, "u1")
            except (MemoryError, ValueError) as error:
                raise self.out_of_memory(nbytes, device.id) from error
            self.track(flat)
            return flat

    def resize(self, handle: Any, old: int, new: int, index: int = 0) -> Any:
        with self.on(handle.device.id) as device:
            return super().resize(handle, old, new, device.id)

    def track(self, array: Any) -> None:
        index = array.device.id
        self._ledger(index).track(array, array.nbytes)
        self._reserved[index] = max(self._reserved.get(index, 0), self.xp.get_default_memory_pool().total_bytes())

    def pinned(self, nbytes: int) -> Any:
        from metatensor.devices.pinning import PinnedBlock

        with self.on(None):
            try:
                memory = self.xp.cuda.alloc_pinned_memory(nbytes)
            except (MemoryError, self.xp.cuda.runtime.CUDARuntimeError) as error:
                raise OutOfMemoryError(f"cuda: the host cannot page-lock {human_bytes(nbytes)} ({nbytes} bytes)") from error
        return np.frombuffer(memory, np.uint8, nbytes).view(PinnedBlock)

    def out_of_memory(self, nbytes: int | None = None, index: int | None = None, doing: str = "") -> OutOfMemoryError:
        with self.on(index) as device:
            text = str(super().out_of_memory(nbytes, device.id, doing)).replace("cuda:", f"cuda:{device.id}:", 1)
            stats = self.memory_stats(device.id)
        free, total, kept = (stats[key] for key in ("device_bytes.free", "device_bytes.total", "reserved_bytes.all.current"))
        return OutOfMemoryError(
            f"{text}, {human_bytes(kept)} are held by CuPy's pool, and {human_bytes(free)} of the GPU's {human_bytes(total)} are free"
        )

    def empty_cache(self) -> None:
        for index in range(self.device_count()):
            with self.on(index):
                self.xp.get_default_memory_pool().free_all_blocks()
        if self.device_count():
            self.xp.get_default_pinned_memory_pool().free_all_blocks()

    def memory_stats(self, index: int | None = None) -> dict[str, int]:
        """Return statistics of tensors (from the kit), of CuPy's memory pool, and of the device, in bytes.

        ``reserved_bytes.all.current`` and ``.peak`` describe the memory that the pool has reserved on the device. The
        peak is sampled only at allocations. ``active_bytes.all.current`` is the part in use, including temporary arrays
        and CuPy's own arrays. ``device_bytes.free`` and ``.total`` describe the whole device.
        """
        with self.on(index) as device:
            free, total = self.xp.cuda.runtime.memGetInfo()
            pool = self.xp.get_default_memory_pool()
            reserved = pool.total_bytes()
            return self._ledger(device.id).stats() | {
                "active_bytes.all.current": pool.used_bytes(),
                "reserved_bytes.all.current": reserved,
                "reserved_bytes.all.peak": max(reserved, self._reserved.get(device.id, 0)),
                "device_bytes.free": free,
                "device_bytes.total": total,
            }

    def reset_peak_memory_stats(self, index: int | None = None) -> None:
        with self.on(index) as device:
            self._ledger(device.id).reset_peak()
            self._reserved.pop(device.id, None)

    def _ledger(self, index: int) -> Ledger:
        return self._ledgers.setdefault(index, Ledger())

    # Interchange ------------------------------------------------------------------

    def dlpack(self, tensor: Any, **options: Any) -> Any:
        with self._at(tensor):
            return super().dlpack(tensor, **options)

    def from_dlpack(self, producer: Any, copy: bool | None = None) -> Any:
        with self.on(int(producer.__dlpack_device__()[1])):
            return super().from_dlpack(producer, copy)

    def cuda_array_interface(self, tensor: Any) -> dict[str, Any]:
        """Return CuPy's description of the memory and its stream. Dtypes that CuPy does not have become raw bytes."""
        with self._at(tensor):
            known = dict(self.asarray(tensor).__cuda_array_interface__)
        fmt = self.format(tensor.dtype)
        if fmt.opaque or (fmt.half and fmt.raw.kind == "u"):
            known["typestr"] = f"<V{tensor.itemsize}"
            known["descr"] = [("", known["typestr"])]
        return known

    def from_cuda_array(self, producer: Any) -> Any:
        array = self.xp.asarray(producer)
        return self.adopt(array, device=self.device_of(array))

    # Computation on the device that holds the tensors ------------------------------------

    def copy(self, dst: Any, src: Any) -> None:
        with self._at(dst):
            self._assign(dst, self._bring_over(src), src)

    def _bring_over(self, tensor: Any) -> Any:
        """Return a tensor's array on the current GPU. Kernels and assignments cannot use arrays of two GPUs."""
        if tensor.device.type != self.type:
            return self.asarray(tensor)
        here = self.xp.cuda.runtime.getDevice()
        with self._at(tensor) as device:
            if device.id == here:
                return self.asarray(tensor)
            dense = self.xp.ascontiguousarray(self.asarray(tensor)).reshape(tuple(tensor.shape))
        return dense.copy()

    def upload(self, host: np.ndarray) -> Any:
        # The copy must block: an asynchronous one would read page-locked memory while Python may already change it.
        return self.xp.asarray(host, blocking=True)

    def download(self, array: Any) -> np.ndarray:
        if array.nbytes < PINNED:
            return self.xp.asnumpy(array)
        try:
            room = self.pinned(array.nbytes)
        except OutOfMemoryError:
            return self.xp.asnumpy(array)
        host = np.asarray(room).view(array.dtype).reshape(array.shape)
        return self.xp.asnumpy(array, out=host)

    def to_host(self, tensor: Any) -> Any:
        with self._at(tensor):
            return super().to_host(tensor)

    def from_host(self, tensor: Any, data: Any) -> None:
        with self._at(tensor):
            super().from_host(tensor, data)

    def kernel(self, name: str) -> Callable[..., Any] | None:
        inner = super().kernel(name)
        if inner is None:
            return None

        def call(out: Any, *args: Any) -> Any:
            with self.on(_index(out, args)):
                return inner(out, *args)

        call.__name__ = call.__qualname__ = inner.__name__
        return call


class _Foreign:
    """Wraps a stream handle in the ``__cuda_stream__`` protocol."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


def _index(out: Any, args: tuple[Any, ...]) -> int | None:
    """Return the device index of a call: that of its first output or, if it has none, of its first cuda argument."""
    for value in (out, *args):
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, Tensor) and item.device.type == "cuda":
                index: int = item.untyped_storage().data.device.id
                return index
    return None


@TABLE.kernel("_to_copy.move", half="tensors", override=True)
def move(kit: Any, out: Any, input: Any, *_: Any) -> None:
    """Copy by tensors. The kit's own kernel would receive arrays, and arrays of two GPUs cannot be combined."""
    kit.copy(out, input)
