"""The interface between a device and the dispatcher: memory, copies, and kernels by operator name.

A backend is one object per device type. The dispatcher gets it from `metatensor.plugins.backend` once, and the kernel
of each operator from the backend once. From then on it calls only `allocate`, the kernel, `copy`, `to_host` and
`from_host`.
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
    """Raised if a device cannot allocate memory. The message states the requested size and the memory in use."""


class DeviceBackend:
    """Base class of all devices.

    A subclass sets the class attribute `type` and implements `allocate`, `to_host` and `from_host`. With these alone it
    can create, fill and move tensors. To compute anything else, it implements `kernel`.

    Tensors report sizes and strides in elements. The sizes of handles, the sizes passed to these methods and the memory
    statistics are in bytes. Any thread may call any method. The parameter ``index`` is always the number of a device
    within its type, counted from 0.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.devices import DeviceBackend
    >>> isinstance(mt.plugins.backend("meta"), DeviceBackend)
    True
    """

    type: str = ""
    """The device type, as in ``mt.device("cpu")``. It consists of letters, digits and underscores."""

    dlpack_types: tuple[int, ...] = ()
    """The DLPack device types (`metatensor.devices.dlpack.DLDeviceType`) whose memory `from_dlpack` accepts."""

    dtypes: frozenset[str] | None = None
    """Names of the dtypes that the device computes with, or None for all of them.

    Tensors of any other dtype can be stored, moved and viewed on the device, but computing with them raises
    NotImplementedError."""

    fallback: str | None = None
    """Set to ``"cpu"`` to let the cpu device compute operators that have no kernel here and no decomposition.

    Arguments are copied to the host and results are copied back. The same applies to dtypes that are not in `dtypes`.
    With None (the default) such calls raise NotImplementedError."""

    draws_parts: bool = False
    """Whether the kernels of ``rand``, ``randn``, ``uniform_`` and ``normal_`` can generate part of a draw.

    The ticket of such a kernel may have a third item, the index of the first element to generate. This lets metatensor
    generate parts of deferred random tensors without the rest."""

    policy: Any = None
    """A `metatensor.rules.policies.KernelPolicy` that says how the device computes operators, or None.

    `metatensor.analysis.policy` finds it by the type of the device."""

    def device_count(self) -> int:
        """Return the number of usable devices of this type. It is 0 if the hardware or its driver is missing."""
        return 1

    def is_available(self) -> bool:
        """Return True if at least one device is usable."""
        return self.device_count() > 0

    def unavailable_reason(self) -> str:
        """Return one sentence that explains why no device is available and how to fix it, or "" if one is available."""
        return "" if self.is_available() else f"no {self.type} device was found"

    def allocate(self, nbytes: int, index: int) -> Any:
        """Allocate uninitialized memory on device ``index`` and return a handle to it.

        The core stores the handle as ``storage.data`` and drops it together with the storage. Only this class
        interprets it.

        Parameters
        ----------
        nbytes : int
            Size in bytes, at least 0.
        index : int
            Number of the device.

        Raises
        ------
        OutOfMemoryError
            If there is not enough memory.
        RuntimeError
            If device ``index`` does not exist.
        """
        raise NotImplementedError(f"{self._name()} does not implement allocate()")

    def resize(self, handle: Any, old: int, new: int, index: int) -> Any:
        """Return a handle to ``new`` bytes that begin with the contents of ``handle``, truncated if necessary.

        Parameters
        ----------
        handle : Any
            The memory to resize.
        old, new : int
            The size in bytes before and after.
        index : int
            Number of the device.

        Raises
        ------
        RuntimeError
            If other objects may use the memory because this backend did not allocate it.
        """
        raise NotImplementedError(f"{self._name()} does not implement resize(): its storages cannot change size")

    def share(self, handle: Any, nbytes: int, index: int) -> Any:
        """Copy ``handle`` to memory that forked processes share and return the new handle. RuntimeError by default."""
        raise RuntimeError(f"share_memory_: memory of {self.type} cannot be shared with other processes")

    def is_shared(self, handle: Any) -> bool:
        """Return True if forked processes share the memory of ``handle``."""
        return False

    def data_ptr(self, handle: Any) -> int:
        """Return the address of the first byte of ``handle``, or 0 if the memory has no address."""
        return 0

    def copy(self, dst: Tensor, src: Tensor) -> None:
        """Copy the elements of ``src`` to ``dst``, converting them to the dtype of ``dst``.

        Both tensors are on this device type and have the same shape. Their strides and dtypes may be anything.

        Values convert as in a C cast: fractions are truncated, a cast from complex to real discards the imaginary part,
        and every nonzero value becomes True. The values of a lazily conjugated or negated tensor (``is_conj``,
        ``is_neg``) are the conjugates or negatives of those in its memory. The same holds in `to_host` and `from_host`.

        The default implementation copies through the host, where NumPy converts between dtypes.
        """
        data = self.to_host(src)
        self.from_host(dst, data if dst.dtype is src.dtype else _convert(data, src.dtype.name, dst.dtype.name))

    def to_host(self, tensor: Tensor) -> Any:
        """Return the elements of ``tensor`` in C order as a contiguous bytes-like object.

        This waits for pending work. The result may share the tensor's memory, so read it before the tensor changes.
        """
        raise NotImplementedError(f"{self._name()} does not implement to_host()")

    def from_host(self, tensor: Tensor, data: Any) -> None:
        """Fill ``tensor`` (any strides) from the bytes-like ``data``: its elements in C order, in its dtype."""
        raise NotImplementedError(f"{self._name()} does not implement from_host()")

    def map_host(self, data: memoryview, index: int) -> Any:
        """Return a handle that uses the memory of ``data`` directly, or None (the default) if it must be copied.

        `metatensor.load` calls this for ``mmap=True``. The memory is a private, writable mapping of a file, and its
        address is a multiple of 8.
        """
        return None

    def host_bytes(self, tensor: Tensor, data: Any) -> Any:
        """Resolve lazy conjugation and negation for `to_host` and `from_host`.

        ``data`` holds the elements of ``tensor`` in C order, as they are in memory (for `to_host`) or as the caller
        passed them (for `from_host`). If the tensor is lazily conjugated or negated, return ``data`` conjugated or
        negated. Otherwise return it unchanged.

        Raises
        ------
        RuntimeError
            If the size of ``data`` differs from the size of the tensor.
        """
        given, due = memoryview(data).nbytes, tensor.numel() * tensor.itemsize
        if given != due:
            raise RuntimeError(f"{self.type}: a tensor of shape {tuple(tensor.shape)} and {tensor.dtype.name} has {due} bytes, not {given}")
        if not due or not (tensor.is_conj() or tensor.is_neg()):
            return data
        return _convert(data, tensor.dtype.name, tensor.dtype.name, tensor.is_conj(), tensor.is_neg())

    def out_of_memory(self, nbytes: int, index: int = 0) -> OutOfMemoryError:
        """Return the exception to raise if ``nbytes`` bytes cannot be allocated."""
        used = self.memory_stats(index).get("allocated_bytes.all.current")
        text = f"{self.type}: cannot allocate {nbytes} bytes"
        return OutOfMemoryError(text if used is None else f"{text}; {used} are in use by tensors")

    def kernel(self, name: str) -> Callable[..., Any] | None:
        """Return the function that computes operator ``name`` ("add", "max.dim", "nn.functional.conv2d"), or None.

        The dispatcher calls it as ``kernel(out, *args)``. ``args`` holds every argument of the schema in order, with
        defaults filled in. ``out`` is the tensor to fill, or a tuple of tensors for several results. It is None for an
        operator whose result shape depends on the data: the kernel then returns the result. The dispatcher asks once
        per operator and caches the answer.

        This base method offers kernels that create and fill tensors using only `allocate`, `copy` and `from_host`. The
        dispatcher also uses them if the method of a subclass returns None.
        """
        return basic_kernel(self, name)

    def kernel_names(self) -> set[str]:
        """Return the names of all operators with a kernel on this device. Only reports call this, so it may be slow."""
        return set(NAMES)

    def numpy(self, tensor: Tensor) -> Any:
        """Return a NumPy array that shares the tensor's memory. The default implementation raises TypeError."""
        raise TypeError(f"numpy: the data of this tensor is on {tensor.device}; copy it with tensor.cpu() first")

    def dlpack(self, tensor: Tensor, **options: Any) -> Any:
        """Return a DLPack capsule of ``tensor``. ``options`` are ``stream`` and ``max_version`` of ``__dlpack__``."""
        raise BufferError(f"{self.type} tensors cannot be exported by DLPack")

    def dlpack_device(self, tensor: Tensor) -> tuple[int, int]:
        """Return the DLPack device type and device number of the tensor's memory."""
        raise BufferError(f"{self.type} tensors cannot be exported by DLPack")

    def from_dlpack(self, producer: Any, copy: bool | None = None) -> Tensor:
        """Return a tensor that shares the memory of a DLPack producer, or a copy of it if ``copy`` is true."""
        raise BufferError(f"{self.type} does not accept arrays by DLPack")

    def cuda_array_interface(self, tensor: Tensor) -> dict[str, Any]:
        """Return the value of ``__cuda_array_interface__``. The default implementation raises AttributeError."""
        raise AttributeError(f"__cuda_array_interface__: the data of this tensor is on {tensor.device}")

    def from_cuda_array(self, producer: Any) -> Tensor:
        """Return a tensor that shares the memory of an object with ``__cuda_array_interface__``. CUDA devices only."""
        raise BufferError(f"{self.type} does not accept CUDA arrays")

    def current_index(self) -> int:
        """Return the index of the current device, which is used if a device is named without an index."""
        return 0

    def set_current_index(self, index: int) -> None:
        """Make device ``index`` the current one. Raise RuntimeError if this type has a fixed current device."""
        self.check_index(index)
        if index != self.current_index():
            raise RuntimeError(f"{self.type}: the current device is always {self.type}:{self.current_index()}")

    def properties(self, index: int | None = None) -> dict[str, Any]:
        """Return properties of a device: "name" and, if known, "total_memory" (bytes), "major", "minor" and others."""
        self.check_index(index or 0)
        return {"name": self.type}

    def empty_cache(self) -> None:
        """Release cached memory that no tensor uses."""

    def synchronize(self, index: int | None = None) -> None:
        """Wait until all work submitted to device ``index`` (None: the current one) has finished."""

    def memory_stats(self, index: int | None = None) -> dict[str, int]:
        """Return memory statistics by name, in bytes or counts ("allocated_bytes.all.current", ...)."""
        return {}

    def reset_peak_memory_stats(self, index: int | None = None) -> None:
        """Reset the recorded peak to the memory currently in use."""

    def pinned(self, nbytes: int) -> Any:
        """Allocate page-locked host memory for fast copies to and from this device. Return a handle for the cpu device.

        The default raises NotImplementedError. See `metatensor.devices.pinning`.
        """
        raise NotImplementedError(f"{self.type} has no page-locked memory")

    def stream(self, index: int, priority: int = 0) -> Stream:
        """Create a stream on device ``index``. The default returns an object for the device's only stream."""
        self.check_index(index)
        return Stream(self, index)

    def current_stream(self, index: int) -> Stream:
        """Return the stream to which this thread submits work on device ``index``."""
        return self.stream(index)

    def default_stream(self, index: int) -> Stream:
        """Return the stream of device ``index`` that is used unless another stream is current."""
        return self.stream(index)

    def event(self, index: int, timing: bool = False) -> Event:
        """Create an event that can be recorded in streams of device ``index``."""
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
    """Convert dense elements from dtype ``source`` to ``target``, optionally conjugating or negating them."""
    import numpy as np

    from metatensor.devices.array_kit.copy import convert_into
    from metatensor.devices.array_kit.formats import formats

    known = formats()
    values = np.frombuffer(data, np.uint8).view(known[source].raw)
    out = np.empty(values.shape, known[target].raw)
    with np.errstate(all="ignore"):
        convert_into(np, out, known[target], values, known[source], conj, neg)
    return out.view(np.uint8)
