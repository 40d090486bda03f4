"""The backend: the array kit over CuPy, plus device indices, synchronisation and the memory pool's figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metatensor.devices.array_kit import ArrayBackend
from metatensor.devices.array_kit.memory import Ledger
from metatensor.devices.array_kit.registry import KIT, KernelTable
from metatensor.devices.dlpack import DLDeviceType
from metatensor_cuda.driver import import_cupy, probe

__all__ = ["TABLE", "CudaBackend", "kernel"]

TABLE = KernelTable("metatensor-cuda", parent=KIT)
kernel = TABLE.kernel


class CudaBackend(ArrayBackend):
    """All GPUs of this process. ``cupy`` is for tests: the library to use in CuPy's stead."""

    dlpack_types = (DLDeviceType.kDLCUDA, DLDeviceType.kDLCUDAManaged)

    def __init__(self, cupy: Any = None) -> None:
        self._missing = ""
        if cupy is None:
            cupy, self._missing = import_cupy()
        special = "cupyx.scipy.special" if cupy is not None and cupy.__name__ == "cupy" else "scipy.special"
        super().__init__("cuda", cupy, special=special, table=TABLE)
        self._ledgers: dict[int, Ledger] = {}
        self._count = 0

    # What there is --------------------------------------------------------------

    def device_count(self) -> int:
        # What was found once stays; what is missing may come, so that is asked again.
        if not self._count and not self._missing:
            self._count = probe(self.xp)[0]
        return self._count

    def unavailable_reason(self) -> str:
        return self._missing or probe(self.xp)[1]

    def current_index(self) -> int:
        self.check_index(0)
        return self.xp.cuda.runtime.getDevice()

    def set_current_index(self, index: int) -> None:
        self.check_index(index)
        self.xp.cuda.runtime.setDevice(index)

    def properties(self, index: int | None = None) -> dict[str, Any]:
        with self._on(index) as device:
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

    def empty_cache(self) -> None:
        self.xp.get_default_memory_pool().free_all_blocks()

    def synchronize(self, index: int | None = None) -> None:
        self._on(index).synchronize()

    def device_of(self, array: Any) -> str:
        return f"cuda:{array.device.id}"

    def _on(self, index: int | None) -> Any:
        """The context in which device ``index`` is the current one."""
        if index is None or index < 0:
            index = self.current_index()
        self.check_index(index)
        return self.xp.cuda.Device(index)

    # Memory ---------------------------------------------------------------------

    def allocate(self, nbytes: int, index: int = 0) -> Any:
        with self._on(index) as device:
            try:
                flat = self.xp.empty(nbytes, "u1")
            except (MemoryError, ValueError) as error:
                raise self.out_of_memory(nbytes, device.id) from error
            self.track(flat)
            return flat

    def track(self, array: Any) -> None:
        self._ledger(array.device.id).track(array, array.nbytes)

    def memory_stats(self, index: int | None = None) -> dict[str, int]:
        """The kit's figures, the pool's (``reserved_bytes.all.current``), and the device's free and total bytes."""
        with self._on(index) as device:
            free, total = self.xp.cuda.runtime.memGetInfo()
            pool = self.xp.get_default_memory_pool()
            return self._ledger(device.id).stats() | {
                "reserved_bytes.all.current": pool.total_bytes(),
                "device_bytes.free": free,
                "device_bytes.total": total,
            }

    def reset_peak_memory_stats(self, index: int | None = None) -> None:
        with self._on(index) as device:
            self._ledger(device.id).reset_peak()

    def _ledger(self, index: int) -> Ledger:
        return self._ledgers.setdefault(index, Ledger())

    # Interchange ------------------------------------------------------------------

    def dlpack(self, tensor: Any, **options: Any) -> Any:
        with self._on(tensor.device.index):
            return super().dlpack(tensor, **options)

    def from_dlpack(self, producer: Any, copy: bool | None = None) -> Any:
        with self._on(int(producer.__dlpack_device__()[1])):
            return super().from_dlpack(producer, copy)

    def cuda_array_interface(self, tensor: Any) -> dict[str, Any]:
        """CuPy's description of the memory, its stream included; dtypes that CuPy lacks are bytes of that size."""
        with self._on(tensor.device.index):
            known = dict(self.asarray(tensor).__cuda_array_interface__)
        fmt = self.format(tensor.dtype)
        if fmt.opaque or (fmt.half and fmt.raw.kind == "u"):
            known["typestr"] = f"<V{tensor.itemsize}"
            known["descr"] = [("", known["typestr"])]
        return known

    def from_cuda_array(self, producer: Any) -> Any:
        array = self.xp.asarray(producer)
        return self.adopt(array, device=self.device_of(array))

    # Work, each on the device where its tensors are ---------------------------------

    def copy(self, dst: Any, src: Any) -> None:
        with self._on(dst.device.index):
            source = self.asarray(src)
            if src.device.index not in (None, dst.device.index):
                source = source.copy()  # onto this device: assignment does not cross devices
            self._assign(dst, source, src)

    def to_host(self, tensor: Any) -> Any:
        with self._on(tensor.device.index):
            return super().to_host(tensor)

    def from_host(self, tensor: Any, data: Any) -> None:
        with self._on(tensor.device.index):
            super().from_host(tensor, data)

    def kernel(self, name: str) -> Callable[..., Any] | None:
        inner = super().kernel(name)
        if inner is None:
            return None

        def call(out: Any, *args: Any) -> Any:
            with self._on(_index(out, args)):
                return inner(out, *args)

        call.__name__ = call.__qualname__ = inner.__name__
        return call


def _index(out: Any, args: tuple[Any, ...]) -> int | None:
    """The device index of a call: that of its first output or, without one, of its first cuda argument."""
    for value in (out, *args):
        for item in value if isinstance(value, (list, tuple)) else (value,):
            device = getattr(item, "device", None)
            if device is not None and device.type == "cuda":
                return device.index
    return None
