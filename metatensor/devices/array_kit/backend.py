"""A whole device from a NumPy-like library: memory, copies, kernels, random streams and interchange.

The library needs mutable, strided arrays with a byte-addressed view: NumPy, CuPy and their like. A storage's handle
is a flat uint8 array (for NumPy, anything with the buffer protocol), and a tensor's array is a strided view of it, never
a copy.

**What a kernel is given.** Tensors as arrays; half precision (float16, bfloat16, the float8 kinds, complex32) as
float32 or complex64 and ``out`` likewise, rounded once at the end, unless it was registered with ``half="native"``.
A tensor of another device (a 0-d cpu tensor may be mixed in) is brought over. Numbers, dtypes and None stay as they are.

**What it gives back.** None if it filled ``out``; or the values, an array of ``out``'s shape of any dtype, which are
stored as a C cast would; or, for several outputs, a sequence of those. Where the shape depends on the data, ``out`` is
None and the arrays returned become tensors: of a half dtype where a half argument was converted and the result is
float, of an argument's dtype where it is stored alike, else of the dtype that the array has.
"""

from __future__ import annotations

import importlib
import mmap
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from metatensor._core.dtype import dtype_by_name
from metatensor._core.placing import tensor_from_storage
from metatensor._core.storage import make_storage
from metatensor._core.tensor import Tensor
from metatensor.devices.array_kit import interchange
from metatensor.devices.array_kit.binding import Binding, Views, quietly
from metatensor.devices.array_kit.copy import cast, convert_into, store
from metatensor.devices.array_kit.formats import Format, formats
from metatensor.devices.array_kit.memory import Ledger, give_back, human_bytes
from metatensor.devices.array_kit.random import Stream
from metatensor.devices.array_kit.registry import KIT, KernelTable
from metatensor.devices.base import DeviceBackend, OutOfMemoryError

if TYPE_CHECKING:
    from metatensor import dtype as DType

__all__ = ["ArrayBackend"]

_UINT8 = np.dtype("u1")


class ArrayBackend(DeviceBackend):
    """The backend of device ``type`` on the array library ``xp``.

    ``dtypes`` maps names of half dtypes to array dtypes that the library converts by itself (ml_dtypes for NumPy);
    the others are stored as unsigned integers. ``special`` is its module of special functions, or that module's
    name, imported when a kernel asks for it. ``table`` holds kernels of its own over the kit's.
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
        # Handles over memory that belongs to somebody else, by id.
        self._foreign: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self.views = Views(self, [fmt.raw for fmt in self._by_code], [fmt.decode for fmt in self._by_code])

    @property
    def special(self) -> Any:
        """The library's special functions, as in scipy.special; RuntimeError where it has none."""
        if isinstance(self._special, str):
            self._special = importlib.import_module(self._special)
        if self._special is None:
            raise RuntimeError(f"{self.type}: {self.xp.__name__} comes without special functions")
        return self._special

    # Dtypes -------------------------------------------------------------------

    def format(self, dtype: DType) -> Format:
        """How a dtype is stored and computed here."""
        return self._by_code[dtype.code]

    def dtype(self, dtype: DType | None) -> Any:
        """The array dtype to compute a metatensor dtype in: float32 for the half kinds; None stays None."""
        return None if dtype is None else self.format(dtype).compute

    def raw_dtype(self, dtype: DType) -> Any:
        """The array dtype that a metatensor dtype is stored as."""
        return self.format(dtype).raw

    def dtype_of(self, array_dtype: Any) -> DType:
        """The metatensor dtype of arrays of this dtype; TypeError for one that has none (objects, strings, dates)."""
        if not self._dtypes:
            # What is stored as bits of another dtype has no arrays of its own.
            plain = {fmt.raw: name for name, fmt in self.formats.items() if not fmt.opaque and fmt.raw.name == name}
            self._dtypes = {raw: dtype_by_name(name) for raw, name in plain.items()}
        found = self._dtypes.get(np.dtype(array_dtype))
        if found is None:
            raise TypeError(f"no dtype of metatensor corresponds to arrays of {array_dtype}")
        return found

    # Memory -------------------------------------------------------------------

    def allocate(self, nbytes: int, index: int = 0) -> Any:
        """A block of host memory, or a flat uint8 array of the library; uninitialised."""
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
        """Give the last large block back to the system that was freed: it is kept for the next one."""
        if self.on_host:
            give_back()

    def track(self, array: Any) -> None:
        """Count a new array in the memory statistics until it is gone."""
        self.ledger.track(array, array.nbytes)

    def flat(self, handle: Any) -> Any:
        """A storage's handle as a flat uint8 array."""
        return np.frombuffer(handle, _UINT8) if self.on_host else handle

    def resize(self, handle: Any, old: int, new: int, index: int = 0) -> Any:
        """A handle of ``new`` bytes that begins with what fits of ``handle``; RuntimeError for memory of others."""
        if id(handle) in self._foreign or isinstance(handle, mmap.mmap):
            raise RuntimeError(f"{self.type}: memory that is not the tensor's own, or shared, cannot be resized to {new} bytes")
        fresh = self.allocate(new, index)
        kept = min(old, new)
        self.flat(fresh)[:kept] = self.flat(handle)[:kept]
        return fresh

    def share(self, handle: Any, nbytes: int, index: int = 0) -> Any:
        """On the host a block that forked processes share, with these bytes; elsewhere memory stays where it is."""
        if not self.on_host:
            return handle
        shared = mmap.mmap(-1, max(nbytes, 1))
        self.flat(shared)[:nbytes] = self.flat(handle)[:nbytes]
        return shared

    def is_shared(self, handle: Any) -> bool:
        """Whether `share` made the handle."""
        return isinstance(handle, mmap.mmap) or not self.on_host

    def map_host(self, data: memoryview, index: int) -> Any:
        """On the host the memory itself."""
        if not self.on_host:
            return None
        flat = np.frombuffer(data, _UINT8)
        self._foreign[id(flat)] = flat
        return flat

    def data_ptr(self, handle: Any) -> int:
        """The address of the first byte."""
        return self.flat(handle).ctypes.data if self.on_host else handle.data.ptr

    def out_of_memory(self, nbytes: int | None = None, index: int = 0, doing: str = "") -> OutOfMemoryError:
        """The error to raise where ``nbytes`` could not be had."""
        asked = f"cannot allocate {human_bytes(nbytes)} ({nbytes} bytes)" if nbytes is not None else "not enough memory"
        used = self.memory_stats(index).get("allocated_bytes.all.current", 0)
        return OutOfMemoryError(f"{self.type}: {asked}{doing and f' {doing}'}; {human_bytes(used)} are in use by tensors")

    def memory_stats(self, index: int | None = None) -> dict[str, int]:
        """Bytes and counts of live allocations, with PyTorch's names: ``allocated_bytes.all.peak`` and so on."""
        return self.ledger.stats()

    def reset_peak_memory_stats(self, index: int | None = None) -> None:
        self.ledger.reset_peak()

    # Tensors and arrays -------------------------------------------------------

    def asarray(self, tensor: Tensor) -> Any:
        """The tensor's memory as an array of its raw dtype: a strided view. A foreign tensor is copied over."""
        return self.views.raw(tensor)

    def values(self, tensor: Tensor) -> Any:
        """The tensor as an array to compute with: the view itself, or, of half precision, a converted copy."""
        return self.views.computable(tensor)

    def strided(self, flat: Any, offset: int, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        """A view of the flat uint8 array ``flat`` from byte ``offset`` on; strides in bytes."""
        if 0 in shape:
            return self.xp.empty(shape, dtype)
        length = sum((extent - 1) * step for extent, step in zip(shape, strides, strict=True)) + dtype.itemsize
        elements = flat[offset : offset + length].view(dtype)
        return self.xp.lib.stride_tricks.as_strided(elements, shape, strides)

    def adopt(
        self, array: Any, dtype: DType | None = None, device: Any = None, strides: Any = None, owner: Any = None
    ) -> Tensor:
        """A tensor over the memory of ``array``, which it keeps alive, of ``dtype`` (None: the array's own).

        ``owner`` is the array whose memory it is where that was made here: it is counted, and the tensor may grow.
        ``strides``, in elements, say the same as the array's own, which they replace: where a size is 0 or 1 several do.
        TypeError for dtypes without a counterpart, ValueError for strides that tensors cannot have.
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
        """A tensor of another device as an array here, raw."""
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
        """Store ``source``, raw values that mean what those of the tensor ``like`` mean, in ``dst``."""
        # Lazy conjugates and negations on both sides cancel out.
        conj, neg = like.is_conj() is not dst.is_conj(), like.is_neg() is not dst.is_neg()
        self._run(
            convert_into, self.xp, self.asarray(dst), self.format(dst.dtype), source, self.format(like.dtype), conj, neg
        )

    def upload(self, host: np.ndarray) -> Any:
        """An array of the library with the values of a NumPy array; itself where that is the library."""
        return host if self.on_host else self.xp.asarray(host)

    def download(self, array: Any) -> np.ndarray:
        """A NumPy array with the values of one of the library; waits for pending work."""
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
        """The tensor as a NumPy array over the same memory; TypeError where the memory is not the host's."""
        if not self.on_host:
            return super().numpy(tensor)
        fmt = self.format(tensor.dtype)
        if fmt.opaque or (fmt.half and fmt.raw.kind == "u"):
            raise TypeError(f"numpy: arrays cannot hold {tensor.dtype.name}")
        return self.asarray(tensor)

    def dlpack(self, tensor: Tensor, **options: Any) -> Any:
        """A DLPack capsule of the tensor, zero-copy; ``options`` are ``stream`` and ``max_version`` of ``__dlpack__``.

        BufferError for dtypes that DLPack does not have, and for a stream on the host.
        """
        name, fmt = tensor.dtype.name, self.format(tensor.dtype)
        if fmt.opaque and name not in interchange.DLPACK_CODES:
            raise BufferError(f"DLPack has no type for {name}")
        given = {option: value for option, value in options.items() if value is not None}
        if self.on_host and given.pop("stream", -1) != -1:  # -1: nothing is to be waited for
            raise BufferError(f"{self.type} has no streams, so stream must be None or -1, got {options['stream']!r}")
        return interchange.export(self.asarray(tensor), name, fmt.raw, **given)

    def dlpack_device(self, tensor: Tensor) -> tuple[int, int]:
        """Device type and number of the tensor's memory, in DLPack's numbering."""
        kind, number = self.asarray(tensor).__dlpack_device__()
        return int(kind), int(number)

    def from_dlpack(self, producer: Any, copy: bool | None = None) -> Tensor:
        """A tensor over a DLPack producer's memory; a copy of it where ``copy`` is true."""
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
        """The device, as a string, that an array of the library is on."""
        return self.type

    # Random numbers -----------------------------------------------------------

    def random(self, seed: Any, ticket: int | None = None) -> Stream:
        """The stream of one draw, from a seed and a ticket, or from the pair of them as one argument.

        For a part of a draw the one argument has a third item, the first element of it.
        """
        return Stream(self.xp, *seed) if ticket is None else Stream(self.xp, seed, ticket)

    # Kernels ------------------------------------------------------------------

    def kernel_names(self) -> set[str]:
        return super().kernel_names() | self.table.names()

    def kernel(self, name: str) -> Callable[..., Any] | None:
        entry = self.table.find(name)
        return None if entry is None else Binding(self, self.views, name, entry)

    # The rest of a call, where it is more than the kernel itself: `Binding` calls these.

    def target(self, out: Tensor) -> Any:
        """A place to compute half precision in, for values that are rounded when all is done."""
        return self.xp.empty(tuple(out.shape), self.format(out.dtype).compute)

    def finish(self, binding: Binding, out: Tensor, target: Any, result: Any) -> None:
        """Bring what a kernel wrote into ``target`` or returned into the output's memory."""
        fmt = self.format(out.dtype)
        native = binding.is_native
        own = native or fmt.decode is None
        if result is None or result is target:
            if own:
                return
            result = target
        if getattr(result, "shape", target.shape) != target.shape:
            raise RuntimeError(
                f"{binding} returned shape {tuple(result.shape)}; the result's shape is {tuple(target.shape)}"
            )
        store(self.xp, target if own else self.asarray(out), fmt, result, raw=native)

    def adopt_results(self, binding: Binding, results: Any, args: tuple[Any, ...]) -> Any:
        """Tensors of the arrays that a data-dependent kernel returned; anything else as it is."""
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
                # In the order of memory and back, so that the strides stay what they are.
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
    """The array whose memory is seen, all of it, with another shape or order of dimensions; None if there is none."""
    owner = array.base
    seen = getattr(owner, "nbytes", None) == array.nbytes and owner.flags.owndata and min(array.strides, default=0) >= 0
    return owner if seen else None


def _plain(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)
