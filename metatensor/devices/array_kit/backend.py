"""`ArrayBackend`: a complete device (memory, copies, kernels, random numbers, interchange) on a NumPy-like library.

The library must have mutable, strided arrays that can be viewed as bytes, like NumPy and CuPy. A storage's handle is a
flat uint8 array (for NumPy, any object with the buffer protocol). A tensor's array is a strided view of it, never a
copy.

**Kernel arguments.** Tensors arrive as arrays. Half dtypes (float16, bfloat16, the float8 dtypes, complex32) arrive
converted to float32 or complex64. ``out`` then has that dtype too and is rounded once at the end. Kernels registered
with ``half="native"`` receive half dtypes unconverted. A tensor of another device (for example a 0-d cpu tensor) is
copied to this device first. Numbers, dtypes and None are passed unchanged.

**Kernel results.** A kernel returns None if it filled ``out``. Otherwise it returns an array with ``out``'s shape and
any dtype, which is converted as in a C cast, or a sequence of such arrays if there are several outputs. If the result
shape depends on the data, ``out`` is None and the returned arrays become tensors. The dtype of such a tensor is

* a half dtype, if a half argument was converted and the result is floating-point;
* for a ``half="native"`` kernel, the dtype of an argument that is stored with the same array dtype;
* otherwise the array's own dtype.
"""

from __future__ import annotations

import importlib
import mmap
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from metatensor._core.dtype import dtype_by_name
from metatensor._core.storage import make_storage
from metatensor._core.storage_views import tensor_from_storage
from metatensor._core.tensor import Tensor
from metatensor.devices.array_kit import interchange
from metatensor.devices.array_kit.binding import Binding, Views, quietly
from metatensor.devices.array_kit.copy import cast, convert_into, store
from metatensor.devices.array_kit.formats import Format, formats
from metatensor.devices.array_kit.memory import Ledger, give_back, human_bytes
from metatensor.devices.array_kit.random import Stream
from metatensor.devices.array_kit.registry import KIT, KernelTable
from metatensor.devices.base import DeviceBackend, OutOfMemoryError
from metatensor.devices.threads import limit_blas

if TYPE_CHECKING:
    from metatensor import dtype as DType

__all__ = ["ArrayBackend"]

_UINT8 = np.dtype("u1")


class ArrayBackend(DeviceBackend):
    """Backend of device type ``type`` on the array library ``xp``.

    Parameters
    ----------
    type : str
        Name of the device type.
    xp : module
        The array library, such as ``numpy`` or ``cupy``.
    dtypes : Mapping, optional
        Maps names of half dtypes to array dtypes that the library converts natively (for NumPy, those of ml_dtypes).
        Other half dtypes that the array library does not have are stored as unsigned integers.
    special : module or str, optional
        The library's module of special functions (like ``scipy.special``), or its name. A name is imported when a
        kernel first needs it.
    table : KernelTable, optional
        Kernels that take precedence over the kit's. Default: the kit's own table.
    """

    draws_parts = True

    def __init__(
        self,
        type: str,
        xp: Any,
        *,
        dtypes: Mapping[str, Any] | None = None,
        special: Any = None,
        table: KernelTable | None = None,
    ) -> None:
        self.type = type
        self.xp = xp
        self.table = table or KIT
        self.ledger = Ledger()
        self.formats = formats(dtypes)
        self.on_host = xp is np
        self._run = quietly if self.on_host else _plain
        self._special = special
        self._by_code = sorted(self.formats.values(), key=lambda fmt: dtype_by_name(fmt.name).code)
        self._dtypes: dict[Any, Any] = {}
        # Handles to memory that another object owns, by id.
        self._foreign: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self.views = Views(self, [fmt.raw for fmt in self._by_code], [fmt.decode for fmt in self._by_code])

    @property
    def special(self) -> Any:
        """The module of special functions, such as scipy.special. RuntimeError is raised if there is none."""
        if isinstance(self._special, str):
            self._special = importlib.import_module(self._special)
            limit_blas()  # SciPy loads a BLAS library of its own
        if self._special is None:
            raise RuntimeError(f"{self.type}: {self.xp.__name__} has no special functions")
        return self._special

    # Dtypes -------------------------------------------------------------------

    def format(self, dtype: DType) -> Format:
        """Return how this device stores and computes ``dtype``."""
        return self._by_code[dtype.code]

    def dtype(self, dtype: DType | None) -> Any:
        """Return the array dtype in which ``dtype`` is computed: float32 for half dtypes. Return None for None."""
        return None if dtype is None else self.format(dtype).compute

    def raw_dtype(self, dtype: DType) -> Any:
        """Return the array dtype in which ``dtype`` is stored."""
        return self.format(dtype).raw

    def dtype_of(self, array_dtype: Any) -> DType:
        """Return the metatensor dtype of an array dtype. Raise TypeError if there is none (objects, strings, dates)."""
        if not self._dtypes:
            # Skip dtypes whose bits are stored in arrays of another dtype.
            plain = {fmt.raw: name for name, fmt in self.formats.items() if not fmt.opaque and fmt.raw.name == name}
            self._dtypes = {raw: dtype_by_name(name) for raw, name in plain.items()}
        found = self._dtypes.get(np.dtype(array_dtype))
        if found is None:
            raise TypeError(f"no dtype of metatensor corresponds to arrays of {array_dtype}")
        return found

    # Memory -------------------------------------------------------------------

    def allocate(self, nbytes: int, index: int = 0) -> Any:
        """Allocate uninitialized memory: a block of host memory, or a flat uint8 array of the library."""
        if index > 0:
            self.check_index(index)
        try:
            if self.on_host:
                return self.ledger.allocate(nbytes)
            flat = self.xp.empty(nbytes, _UINT8)
        except (MemoryError, ValueError) as error:  # ValueError: more than an array can index
            raise self.out_of_memory(nbytes, index) from error
        self.track(flat)
        return flat

    def empty_cache(self) -> None:
        """Return the most recently freed large block, which is kept for reuse, to the operating system."""
        if self.on_host:
            give_back()

    def track(self, array: Any) -> None:
        """Count ``array`` in the memory statistics until it is garbage-collected."""
        self.ledger.track(array, array.nbytes)

    def flat(self, handle: Any) -> Any:
        """Return the memory of ``handle`` as a flat uint8 array."""
        return np.frombuffer(handle, _UINT8) if self.on_host else handle

    def resize(self, handle: Any, old: int, new: int, index: int = 0) -> Any:
        """Copy ``handle`` to a new block of ``new`` bytes. A smaller block holds only the first bytes.

        Raise RuntimeError for foreign or shared memory.
        """
        if id(handle) in self._foreign or isinstance(handle, mmap.mmap):
            raise RuntimeError(f"{self.type}: shared or foreign memory cannot be resized to {new} bytes")
        fresh = self.allocate(new, index)
        kept = min(old, new)
        self.flat(fresh)[:kept] = self.flat(handle)[:kept]
        return fresh

    def share(self, handle: Any, nbytes: int, index: int = 0) -> Any:
        """Copy the first ``nbytes`` bytes to memory shared with forked processes. Off the host, return ``handle``."""
        if not self.on_host:
            return handle
        shared = mmap.mmap(-1, max(nbytes, 1))
        self.flat(shared)[:nbytes] = self.flat(handle)[:nbytes]
        return shared

    def is_shared(self, handle: Any) -> bool:
        """Return True if `share` created ``handle``, or if the memory is not on the host."""
        return isinstance(handle, mmap.mmap) or not self.on_host

    def map_host(self, data: memoryview, index: int) -> Any:
        """Return a handle to the memory of ``data`` if this device is the host, else None."""
        if not self.on_host:
            return None
        flat = np.frombuffer(data, _UINT8)
        self._foreign[id(flat)] = flat
        return flat

    def data_ptr(self, handle: Any) -> int:
        """Return the address of the first byte."""
        return self.flat(handle).ctypes.data if self.on_host else handle.data.ptr

    def out_of_memory(self, nbytes: int | None = None, index: int = 0, doing: str = "") -> OutOfMemoryError:
        """Return the exception to raise if ``nbytes`` bytes cannot be allocated."""
        asked = f"cannot allocate {human_bytes(nbytes)} ({nbytes} bytes)" if nbytes is not None else "not enough memory"
        used = self.memory_stats(index).get("allocated_bytes.all.current", 0)
        return OutOfMemoryError(f"{self.type}: {asked}{doing and f' {doing}'}; {human_bytes(used)} are in use by tensors")

    def memory_stats(self, index: int | None = None) -> dict[str, int]:
        """Return bytes and counts of live allocations under PyTorch's names, such as ``allocated_bytes.all.peak``."""
        return self.ledger.stats()

    def reset_peak_memory_stats(self, index: int | None = None) -> None:
        self.ledger.reset_peak()

    # Tensors and arrays -------------------------------------------------------

    def asarray(self, tensor: Tensor) -> Any:
        """Return the tensor's memory as a strided view of its raw dtype. A tensor of another device is copied first."""
        return self.views.raw(tensor)

    def values(self, tensor: Tensor) -> Any:
        """Return the tensor as an array to compute with: a view, or a converted copy if its dtype is a half dtype."""
        return self.views.computable(tensor)

    def strided(self, flat: Any, offset: int, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        """Return a view of the flat uint8 array ``flat`` that starts at byte ``offset``. The strides are in bytes."""
        if 0 in shape:
            return self.xp.empty(shape, dtype)
        length = sum((extent - 1) * step for extent, step in zip(shape, strides, strict=True)) + dtype.itemsize
        elements = flat[offset : offset + length].view(dtype)
        return self.xp.lib.stride_tricks.as_strided(elements, shape, strides)

    def adopt(
        self, array: Any, dtype: DType | None = None, device: Any = None, strides: Any = None, owner: Any = None
    ) -> Tensor:
        """Return a tensor that shares the memory of ``array`` and keeps it alive.

        Parameters
        ----------
        array : array
            An array of the library.
        dtype : dtype, optional
            The tensor's dtype. Default: the one that corresponds to the array's.
        device : str, optional
            The tensor's device. Default: this device type.
        strides : tuple of int, optional
            Strides in elements that replace the array's own. They may differ only for dimensions of size 0 or 1, so
            that they address the same elements.
        owner : array, optional
            The array that owns the memory, if this backend created it. The memory is then counted in the statistics,
            and the tensor's storage may be resized.

        Raises
        ------
        TypeError
            If no metatensor dtype corresponds to the array's dtype.
        ValueError
            If a tensor cannot have the array's strides.
        """
        if dtype is None:
            dtype = self.dtype_of(array.dtype)
        flat, own = interchange.flat_of(self.xp, array)
        strides = own if strides is None else strides
        if owner is None:
            self._foreign[id(flat)] = flat
        else:
            self.track(owner)
        storage = make_storage(device or self.type, flat.size, flat)
        return tensor_from_storage(storage, dtype, array.shape, strides, 0)

    def _bring(self, tensor: Tensor) -> Any:
        """Copy a tensor of another device to this one and return its raw array."""
        from metatensor import plugins

        raw = self.format(tensor.dtype).raw
        data = plugins.backend(tensor.device.type).to_host(tensor)
        host = np.frombuffer(data, _UINT8) if tensor.numel() else np.empty(0, _UINT8)
        return self.upload(host.view(raw).reshape(tuple(tensor.shape)))

    # Copies -------------------------------------------------------------------

    def copy(self, dst: Tensor, src: Tensor) -> None:
        if not self.views.assign(dst, src):
            self._assign(dst, self.asarray(src), src)

    def _assign(self, dst: Tensor, source: Any, like: Tensor) -> None:
        """Store raw values in ``dst``. The tensor ``like`` gives their dtype and their conj and neg flags."""
        # If source and target are both lazily conjugated (or negated), the flags cancel out.
        conj, neg = like.is_conj() is not dst.is_conj(), like.is_neg() is not dst.is_neg()
        self._run(
            convert_into, self.xp, self.asarray(dst), self.format(dst.dtype), source, self.format(like.dtype), conj, neg
        )

    def upload(self, host: np.ndarray) -> Any:
        """Copy a NumPy array to an array of the library. On the host, return the array itself."""
        return host if self.on_host else self.xp.asarray(host)

    def download(self, array: Any) -> np.ndarray:
        """Copy an array of the library to a NumPy array, waiting for pending work. On the host, return it unchanged."""
        return array if self.on_host else self.xp.asnumpy(array)

    def to_host(self, tensor: Tensor) -> Any:
        array = self.asarray(tensor)
        if tensor.is_conj() or tensor.is_neg():
            fmt, resolved = self.format(tensor.dtype), self.xp.empty(tuple(tensor.shape), self.raw_dtype(tensor.dtype))
            self._run(convert_into, self.xp, resolved, fmt, array, fmt, tensor.is_conj(), tensor.is_neg())
            array = resolved
        host = np.ascontiguousarray(self.download(array))
        return memoryview(host.reshape(-1).view(_UINT8))

    def from_host(self, tensor: Tensor, data: Any) -> None:
        fmt = self.format(tensor.dtype)
        expected = tensor.numel() * fmt.raw.itemsize
        given = memoryview(data).nbytes
        if given != expected:
            raise RuntimeError(f"from_host: {tuple(tensor.shape)} of {tensor.dtype.name} takes {expected} bytes, got {given}")
        if not expected:
            return
        source = self.upload(np.frombuffer(data, _UINT8).view(fmt.raw).reshape(tuple(tensor.shape)))
        self._run(convert_into, self.xp, self.asarray(tensor), fmt, source, fmt, tensor.is_conj(), tensor.is_neg())

    # Interchange --------------------------------------------------------------

    def numpy(self, tensor: Tensor) -> np.ndarray:
        """Return a NumPy array that shares the tensor's memory. Raise TypeError if that is impossible."""
        if not self.on_host:
            return super().numpy(tensor)
        fmt = self.format(tensor.dtype)
        if fmt.opaque or (fmt.half and fmt.raw.kind == "u"):
            raise TypeError(f"numpy: arrays cannot hold {tensor.dtype.name}")
        return self.asarray(tensor)

    def dlpack(self, tensor: Tensor, **options: Any) -> Any:
        """Return a DLPack capsule that shares the tensor's memory.

        ``options`` are ``stream`` and ``max_version`` of ``__dlpack__``. Raise BufferError for dtypes that DLPack does
        not have, and for a stream on the host.
        """
        name, fmt = tensor.dtype.name, self.format(tensor.dtype)
        if fmt.opaque and name not in interchange.DLPACK_CODES:
            raise BufferError(f"DLPack has no type for {name}")
        given = {option: value for option, value in options.items() if value is not None}
        if self.on_host and given.pop("stream", -1) != -1:  # -1 means no synchronization
            raise BufferError(f"{self.type} has no streams, so stream must be None or -1, got {options['stream']!r}")
        return interchange.export(self.asarray(tensor), name, fmt.raw, **given)

    def dlpack_device(self, tensor: Tensor) -> tuple[int, int]:
        """Return the DLPack device type and device number of the tensor's memory."""
        kind, number = self.asarray(tensor).__dlpack_device__()
        return int(kind), int(number)

    def from_dlpack(self, producer: Any, copy: bool | None = None) -> Tensor:
        """Return a tensor that shares the memory of a DLPack producer, or a copy of it if ``copy`` is true."""
        relabelled = interchange.Relabelled(producer, False if copy is False else None)
        array = self.xp.from_dlpack(relabelled)
        dtype = None
        if relabelled.name is not None:
            dtype = dtype_by_name(relabelled.name)
            array = interchange.as_stored(array, self.format(dtype).raw)
        if copy:
            array = array.copy()
        return self.adopt(array, dtype, self.device_of(array), owner=array if copy else None)

    def device_of(self, array: Any) -> str:
        """Return the name of the device that holds ``array``."""
        return self.type

    # Random numbers -----------------------------------------------------------

    def random(self, seed: Any, ticket: int | None = None) -> Stream:
        """Return the random stream of one draw.

        Pass a seed and a ticket, or both as one tuple. The tuple may have a third item: the first element of the
        stream.
        """
        return Stream(self.xp, *seed) if ticket is None else Stream(self.xp, seed, ticket)

    # Kernels ------------------------------------------------------------------

    def kernel_names(self) -> set[str]:
        return super().kernel_names() | self.table.names()

    def kernel(self, name: str) -> Callable[..., Any] | None:
        entry = self.table.find(name)
        return None if entry is None else Binding(self, self.views, name, entry)

    # `Binding` calls the following methods for the less frequent steps of a call.

    def target(self, out: Tensor) -> Any:
        """Return an array of the computing dtype for a result of a half dtype. `finish` rounds it."""
        return self.xp.empty(tuple(out.shape), self.format(out.dtype).compute)

    def finish(self, binding: Binding, out: Tensor, target: Any, result: Any) -> None:
        """Store a kernel's result in the memory of ``out``. The kernel has returned it or written it to ``target``."""
        fmt = self.format(out.dtype)
        native = binding.is_native
        own = native or fmt.decode is None
        if result is None or result is target:
            if own:
                return
            result = target
        if getattr(result, "shape", target.shape) != target.shape:
            raise RuntimeError(
                f"{binding} returned shape {tuple(result.shape)}, but the result's shape is {tuple(target.shape)}"
            )
        store(self.xp, target if own else self.asarray(out), fmt, result, raw=native)

    def adopt_results(self, binding: Binding, results: Any, args: tuple[Any, ...]) -> Any:
        """Convert the arrays that a data-dependent kernel returned to tensors. Return other objects unchanged."""
        if isinstance(results, (list, tuple)):
            return tuple(self.adopt_results(binding, item, args) for item in results)
        if not isinstance(results, (self.xp.ndarray, np.generic)):
            return results
        array = self.xp.asarray(results)
        tensors = [arg for arg in args if isinstance(arg, Tensor)]
        dtype = None
        for tensor in tensors:
            fmt = self.format(tensor.dtype)
            if binding.is_native and fmt.raw == array.dtype:
                dtype = tensor.dtype
                break
            if not binding.is_native and fmt.encode is not None and array.dtype.kind in "fc":
                # Encode in memory order and transpose back, so that the result keeps the strides.
                order = sorted(range(array.ndim), key=lambda d: -array.strides[d])
                dense = self.xp.ascontiguousarray(cast(array.transpose(order), fmt.compute)).reshape(array.transpose(order).shape)
                array, dtype = fmt.encode(self.xp, dense).transpose(np.argsort(order)), tensor.dtype
                break
        owner = array if array.flags.owndata else _owner(array)
        if owner is None:
            array = owner = array.copy(order="C")
        device = tensors[0].device if tensors and tensors[0].device.type == self.type else None
        return self.adopt(array, dtype, device, owner=owner)


def _owner(array: Any) -> Any:
    """Return the array that owns the memory of ``array``, or None if ``array`` covers only a part of that memory."""
    owner = array.base
    seen = getattr(owner, "nbytes", None) == array.nbytes and owner.flags.owndata and min(array.strides, default=0) >= 0
    return owner if seen else None


def _plain(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)
