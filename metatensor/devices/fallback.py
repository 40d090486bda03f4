"""Run the cpu's kernels for other devices: copy the arguments to the host, compute, and copy the results back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metatensor._core.device import Device, backend_for
from metatensor._core.nested import map_tensors
from metatensor._core.op import registry
from metatensor._core.storage import make_storage
from metatensor._core.storage_views import tensor_from_storage
from metatensor._core.tensor import Tensor

__all__ = ["host_kernel"]


def host_kernel(name: str, backend: Any, host: Any = None) -> Callable[..., Any] | None:
    """Return the cpu's kernel of operator `name`, wrapped as a kernel of `backend`, or None if there is none.

    `host` is the backend that computes, by default the cpu device's. All arguments are copied before anything is
    written, so results may share memory with arguments. Arguments that the schema marks as written are copied back too.
    """
    from metatensor.library import find_kernel

    host = backend_for("cpu") if host is None else host
    found = find_kernel(name, "cpu", host)
    if found is None:
        return None
    written = _written(name)

    def fallback(out: Any, *args: Any) -> Any:
        brought = [_bring(value, host) for value in args]
        outs = map_tensors(lambda tensor: _fresh(tensor, host, "cpu"), out)
        result = found(outs, *brought)
        if out is None:
            # The result shapes depend on the data, or the operator writes only to its arguments.
            result = _send(result, backend, _index(args))
        else:
            for target, source in zip(_tensors(out), _tensors(outs if result is None else result), strict=True):
                _store(target, source, backend, host)
            result = None
        for place in written:
            for target, source in zip(_tensors(args[place]), _tensors(brought[place]), strict=True):
                if not any(_same_elements(target, result) for result in _tensors(out)):
                    _store(target, source, backend, host)
        return result

    return fallback


def _same_elements(a: Tensor, b: Tensor) -> bool:
    """Return True if two tensors refer to the same elements of one storage, as a tensor and its `detach()` do."""
    if a is b:
        return True
    shared = a.untyped_storage() is b.untyped_storage() and a.storage_offset() == b.storage_offset()
    return shared and a.shape == b.shape and a.stride() == b.stride()


def _written(name: str) -> list[int]:
    """Return the positions of the arguments that the operator's schema marks as written."""
    from metatensor._core.schema import parse

    op = registry.get(name) or registry[name.rpartition(".")[0]]
    text = next(overload.text for overload in op.functional.overloads if overload.qualname == name)
    return [place for place, argument in enumerate(parse(text).arguments) if argument.mutated]


def _tensors(value: Any) -> list[Tensor]:
    """Return the tensors in `value` as a list. `value` is a tensor, a sequence or anything else."""
    if isinstance(value, Tensor):
        return [value]
    return [item for item in value if isinstance(item, Tensor)] if isinstance(value, (tuple, list)) else []


def _index(args: Any) -> int:
    """Return the index of the device that holds the arguments."""
    return next((t.device.index or 0 for value in args for t in _tensors(value)), 0)


def _fresh(like: Tensor, backend: Any, device: str, index: int = 0) -> Tensor:
    """Return an uninitialized tensor on `device` with the shape, strides and dtype of `like`."""
    reach = sum((extent - 1) * step for extent, step in zip(like.shape, like.stride(), strict=True)) + 1
    nbytes = reach * like.itemsize if like.numel() else 0
    return tensor_from_storage(make_storage(device, nbytes, backend.allocate(nbytes, index)), like.dtype, like.shape, like.stride(), 0)


def _bring(value: Any, host: Any) -> Any:
    def bring(tensor: Tensor) -> Tensor:
        if tensor.device.type == "cpu":
            return tensor
        moved = _fresh(tensor, host, "cpu")
        if tensor.numel():
            host.from_host(moved, bytes(backend_for(tensor.device.type).to_host(tensor)))
        return moved

    return Device("cpu") if isinstance(value, Device) else map_tensors(bring, value)


def _store(target: Tensor, source: Tensor, backend: Any, host: Any) -> None:
    if target.numel():
        backend.from_host(target, bytes(host.to_host(source)))


def _send(result: Any, backend: Any, index: int) -> Any:
    if isinstance(result, (tuple, list)):
        return tuple(_send(item, backend, index) for item in result)
    if not isinstance(result, Tensor):
        return result
    moved = _fresh(result, backend, backend.type, index)
    if result.numel():
        backend.from_host(moved, bytes(backend_for("cpu").to_host(result)))
    return moved
