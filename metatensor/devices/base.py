"""What a device owes the dispatcher: memory, copies, and kernels by op name.

A backend is one object per device type. The dispatcher looks it up once (`metatensor.plugins.backend`), asks it
once for each op's kernel, and from then on calls only `allocate`, the kernel, `copy`, `to_host` and `from_host`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from metatensor.devices.basics import NAMES, basic_kernel
from metatensor.devices.streams import Event, Stream

if TYPE_CHECKING:
    from metatensor import Tensor

__all__ = ["DeviceBackend", "OutOfMemoryError"]


class OutOfMemoryError(RuntimeError):
    """A device could not provide the memory asked of it; the message says how much, and how much is in use."""


class DeviceBackend:
    """Base class of devices; a subclass has to say its `type`, a class attribute, and to provide a few methods.

    They are `allocate`, `to_host`, `from_host` and, for more than making, filling and moving tensors, `kernel`.

    Sizes and strides that tensors report are in elements; handles, sizes here and memory figures are in bytes.
    Methods may be called from any thread. ``index`` is a device's number within its type, from 0.
    """

    type: str = ""
    """The device type, as in ``mt.device("cpu")``: letters, digits and underscores."""

    dlpack_types: tuple[int, ...] = ()
    """The places of memory, in DLPack's numbering (`metatensor.devices.dlpack`), that `from_dlpack` takes arrays from."""

    dtypes: frozenset[str] | None = None
    """Names of the dtypes that the device computes with, or None for all. Tensors of the others can be held, moved and
    viewed there; its kernels are not called for them, but NotImplementedError is raised."""

    fallback: str | None = None
    """``"cpu"`` where the operators that this device has no kernel for, and that do not decompose into others, shall be
    computed by the cpu device: their arguments are copied to the host, and their results back. The same then holds for dtypes
    that are not in `dtypes`. None (the default) for NotImplementedError instead."""

    draws_parts: bool = False
    """Whether the kernels of ``rand``, ``randn``, ``uniform_`` and ``normal_`` take tickets with a third item: the number of
    the first element, where they fill a part of a draw. Parts of deferred tensors are then made without the whole."""

    def device_count(self) -> int:
        """How many devices of this type can be used now; 0 where the hardware or its driver is missing."""
        return 1

    def is_available(self) -> bool:
        """Whether there is at least one device to use."""
        return self.device_count() > 0

    def unavailable_reason(self) -> str:
        """One sentence on why `is_available` is false and what would help; empty where it is true."""
        return "" if self.is_available() else f"no {self.type} device was found"

    def allocate(self, nbytes: int, index: int) -> Any:
        """A handle to ``nbytes`` (at least 0) of fresh, uninitialised memory on device ``index``.

        The core keeps it as ``storage.data`` and drops it with the storage; what it is concerns only this class.
        Raises `OutOfMemoryError` where there is not enough, `RuntimeError` for an index that does not exist.
        """
        raise NotImplementedError(f"{self._name()} does not implement allocate()")

    def resize(self, handle: Any, old: int, new: int, index: int) -> Any:
        """A handle to ``new`` bytes that begin with as many of the ``old`` ones in ``handle`` as fit.

        Raises `RuntimeError` where the memory is not this backend's own, as it may be seen elsewhere.
        """
        raise NotImplementedError(f"{self._name()} does not implement resize(): its storages cannot change size")

    def share(self, handle: Any, nbytes: int, index: int) -> Any:
        """A handle to the same bytes in memory that processes forked from this one share; RuntimeError by default."""
        raise RuntimeError(f"share_memory_: memory of {self.type} cannot be shared with other processes")

    def is_shared(self, handle: Any) -> bool:
        """Whether a handle is to memory that processes forked from this one share."""
        return False

    def data_ptr(self, handle: Any) -> int:
        """The address of a handle's first byte, where there is such a thing; else 0."""
        return 0

    def copy(self, dst: Tensor, src: Tensor) -> None:
        """Write ``src`` into ``dst``: both on this type, of one shape, any strides, any two dtypes.

        Values convert as by a C cast: fractions are cut off, complex to real drops the imaginary part, and
        anything but zero is true. A tensor that is a lazy conjugate or negation (``is_conj``, ``is_neg``) stands for
        the conjugated or negated values of its memory, here as in `to_host` and `from_host`.

        The default goes by way of the host, where NumPy converts between dtypes.
        """
        data = self.to_host(src)
        self.from_host(dst, data if dst.dtype is src.dtype else _convert(data, src.dtype.name, dst.dtype.name))

    def to_host(self, tensor: Tensor) -> Any:
        """The elements of ``tensor`` in C order, contiguous, as a bytes-like object; waits for pending work.

        It may be the tensor's own memory: read it before that changes.
        """
        raise NotImplementedError(f"{self._name()} does not implement to_host()")

    def from_host(self, tensor: Tensor, data: Any) -> None:
        """Fill ``tensor`` (any strides) from ``data``, bytes-like: its elements, of its dtype, in C order."""
        raise NotImplementedError(f"{self._name()} does not implement from_host()")

    def map_host(self, data: memoryview, index: int) -> Any:
        """A handle to the memory of ``data`` itself, which may be written to; None (the default) where it must be copied.

        For `metatensor.load` with ``mmap``: the memory is a private map of a file, and begins at a multiple of 8 bytes.
        """
        return None

    def host_bytes(self, tensor: Tensor, data: Any) -> Any:
        """What `to_host` returns of the elements in memory, and `from_host` stores of those it is given, ``data``.

        They are conjugated or negated where the tensor is lazily so. Raises RuntimeError where they are not as many
        bytes as the tensor has.
        """
        given, due = memoryview(data).nbytes, tensor.numel() * tensor.itemsize
        if given != due:
            raise RuntimeError(f"{self.type}: a tensor of shape {tuple(tensor.shape)} and {tensor.dtype.name} has {due} bytes, not {given}")
        if not due or not (tensor.is_conj() or tensor.is_neg()):
            return data
        return _convert(data, tensor.dtype.name, tensor.dtype.name, tensor.is_conj(), tensor.is_neg())

    def out_of_memory(self, nbytes: int, index: int = 0) -> OutOfMemoryError:
        """The error to raise where ``nbytes`` could not be had."""
        used = self.memory_stats(index).get("allocated_bytes.all.current")
        text = f"{self.type}: cannot allocate {nbytes} bytes"
        return OutOfMemoryError(text if used is None else f"{text}; {used} are in use by tensors")

    def kernel(self, name: str) -> Callable[..., Any] | None:
        """The callable that computes op ``name`` ("add", "max.dim", "nn.functional.conv2d"), or None.

        It is called as ``kernel(out, *args)``: ``args`` has every slot of the schema in order, defaults filled
        in; ``out`` is the tensor to fill (a tuple for several results), or None for an op whose result shape
        depends on the data, where the kernel returns the result. The answer is kept: one call per op.

        Where a subclass has none, this method of the base class is asked: it makes and fills tensors by the five
        methods that every device has.
        """
        return basic_kernel(self, name)

    def kernel_names(self) -> set[str]:
        """Names of the ops this device has kernels for, for reports; it need not be fast."""
        return set(NAMES)

    def numpy(self, tensor: Tensor) -> Any:
        """A NumPy array over the tensor's memory. TypeError (the default) where that is not the host's."""
        raise TypeError(f"numpy: the data of this tensor is on {tensor.device}; copy it with tensor.cpu() first")

    def dlpack(self, tensor: Tensor, **options: Any) -> Any:
        """A DLPack capsule of the tensor's memory; ``options`` are ``stream`` and ``max_version`` of ``__dlpack__``."""
        raise BufferError(f"{self.type} tensors cannot be exported by DLPack")

    def dlpack_device(self, tensor: Tensor) -> tuple[int, int]:
        """Device type and number of the tensor's memory, in DLPack's numbering."""
        raise BufferError(f"{self.type} tensors cannot be exported by DLPack")

    def from_dlpack(self, producer: Any, copy: bool | None = None) -> Tensor:
        """A tensor over the memory of a DLPack producer, or with ``copy`` true a copy of it."""
        raise BufferError(f"{self.type} takes no arrays by DLPack")

    def cuda_array_interface(self, tensor: Tensor) -> dict[str, Any]:
        """What ``__cuda_array_interface__`` says of the tensor. AttributeError (the default) where the memory is not CUDA's."""
        raise AttributeError(f"__cuda_array_interface__: the data of this tensor is on {tensor.device}")

    def from_cuda_array(self, producer: Any) -> Tensor:
        """A tensor over the memory of an object with ``__cuda_array_interface__``, where the memory here is CUDA's."""
        raise BufferError(f"{self.type} takes no arrays of CUDA")

    def current_index(self) -> int:
        """The index of the device that is meant where only the type is named."""
        return 0

    def set_current_index(self, index: int) -> None:
        """Make device ``index`` the one that is meant where only the type is named; RuntimeError where that is fixed."""
        self.check_index(index)
        if index != self.current_index():
            raise RuntimeError(f"{self.type}: the current device is always {self.type}:{self.current_index()}")

    def properties(self, index: int | None = None) -> dict[str, Any]:
        """What is known of a device: its "name"; where there is such a thing "total_memory" in bytes, "major", "minor", ..."""
        self.check_index(index or 0)
        return {"name": self.type}

    def empty_cache(self) -> None:
        """Give back memory that no tensor uses and that is kept for later."""

    def synchronize(self, index: int | None = None) -> None:
        """Wait until everything asked of device ``index`` (None: the current one) is done."""

    def memory_stats(self, index: int | None = None) -> dict[str, int]:
        """Figures in bytes and counts, by name ("allocated_bytes.current", "allocated_bytes.peak", ...)."""
        return {}

    def reset_peak_memory_stats(self, index: int | None = None) -> None:
        """Let the peak start again from what is in use now."""

    def pinned(self, nbytes: int) -> Any:
        """A handle, for the cpu device, to page-locked memory that copies to and from this device take less time with.

        NotImplementedError (the default) where there is no such thing; see `metatensor.devices.pinning`.
        """
        raise NotImplementedError(f"{self.type} has no page-locked memory")

    def stream(self, index: int, priority: int = 0) -> Stream:
        """A new stream of work for device ``index``; by default the one that there is."""
        self.check_index(index)
        return Stream(self, index)

    def current_stream(self, index: int) -> Stream:
        """The stream that work on device ``index`` goes into in this thread."""
        return self.stream(index)

    def default_stream(self, index: int) -> Stream:
        """The stream that work on device ``index`` goes into unless another is made current."""
        return self.stream(index)

    def event(self, index: int, timing: bool = False) -> Event:
        """A new event, to record in streams of device ``index``."""
        self.check_index(index)
        return Event(self, index, timing)

    def check_index(self, index: int) -> None:
        """Raise `RuntimeError` unless device ``index`` of this type exists."""
        count = self.device_count()
        if not 0 <= index < count:
            if not count:
                raise RuntimeError(f"{self.type}: no device is available: {self.unavailable_reason()}")
            there = "there is 1 device" if count == 1 else f"there are {count} devices"
            raise RuntimeError(f"{self.type}:{index} does not exist: {there} of this type")

    def _name(self) -> str:
        return f"{type(self).__module__}.{type(self).__qualname__}"

    def __repr__(self) -> str:
        return f"<{self._name()} type={self.type!r}>"


def _convert(data: Any, source: str, target: str, conj: bool = False, neg: bool = False) -> Any:
    """Dense elements of one dtype as those of another, conjugated or negated."""
    import numpy as np

    from metatensor.devices.array_kit.copy import convert_into
    from metatensor.devices.array_kit.formats import formats

    known = formats()
    values = np.frombuffer(data, np.uint8).view(known[source].raw)
    out = np.empty(values.shape, known[target].raw)
    with np.errstate(all="ignore"):
        convert_into(np, out, known[target], values, known[source], conj, neg)
    return out.view(np.uint8)
