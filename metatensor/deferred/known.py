"""Compute the values of small tensors on meta that follow from constants.

`_core/constants.pyx` records the calls that created such a tensor. This module runs them when something reads a value, on
the cpu device, or with Python's numbers if no such device is installed. Each result is computed once.
"""

from __future__ import annotations

from typing import Any

from metatensor import plugins
from metatensor._core.constants import Known, Place, arguments_of, known_of, made_of_bytes, run_call, settle
from metatensor._core.dtype import dtype_by_name, get_default_dtype, set_default_dtype
from metatensor._core.errors import DataDependentError
from metatensor._core.host import decode_numbers, encode_numbers
from metatensor._core.nested import map_tensors
from metatensor._core.storage import make_storage, storage_bytes
from metatensor._core.storage_views import tensor_from_storage

__all__ = ["compute_known", "is_constant", "known_bytes", "known_result", "known_storage_bytes"]


def is_constant(tensor: Any) -> bool:
    """Return True if a tensor is on meta and its values follow from constants."""
    return known_of(tensor.untyped_storage()) is not None


def known_bytes(tensor: Any) -> bytes:
    """Return the elements of a tensor whose values follow from constants, in C order.

    Raises
    ------
    DataDependentError
        If they cannot be computed because an operator has no kernel.
    """
    from metatensor.deferred.constants import elements

    known = known_of(tensor.untyped_storage())
    compute_known(known)
    data: bytes = known.data
    if not (tensor.is_contiguous() and len(data) == tensor.nbytes):
        data = elements(data, tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset())
    if tensor.is_conj() or tensor.is_neg():
        numbers = decode_numbers(data, tensor.dtype, (tensor.numel(),))
        numbers = [n.conjugate() for n in numbers] if tensor.is_conj() else numbers
        data = encode_numbers([-n for n in numbers] if tensor.is_neg() else numbers, tensor.dtype)[2]
    return data


def known_storage_bytes(tensor: Any) -> bytes:
    """Return all bytes of the storage of a tensor whose values follow from constants."""
    known = known_of(tensor.untyped_storage())
    compute_known(known)
    data: bytes = known.data
    return data


def compute_known(known: Known) -> None:
    """Compute the bytes of a `Known`, and of all that it depends on."""
    waiting = [known]
    while waiting:
        last = waiting[-1]
        lacking = [] if last.data is not None else [other for other in arguments_of(last) if other.data is None]
        if lacking:
            waiting += lacking
            continue
        if last.data is None:
            settle(last, _computed(last))
        waiting.pop()


def _computed(known: Known) -> Any:
    """Return the bytes of a `Known`, or of all results of its call. All that it depends on has been computed."""
    now = get_default_dtype()
    if known.default is None or known.default is now:
        return _computed_now(known)
    set_default_dtype(known.default)
    try:
        return _computed_now(known)
    finally:
        set_default_dtype(now)


def _computed_now(known: Known) -> Any:
    """Compute the bytes of a `Known` under the default dtype of its call."""
    source, op, overload, args, out, result = known.source, known.op, known.overload, known.args, known.out, known.result
    if known.data is not None:  # another thread was faster
        return known.data
    if source is not None:
        return source.data[known.index]
    if not _has_cpu():
        from metatensor.deferred.host_kernels import known_on_host

        return known_on_host(known)
    made, target = _run(op, overload, known.variant, args, out)
    if known.writes:
        return storage_bytes(target.untyped_storage())
    if isinstance(result, Place):
        return _bytes_as(result, made)
    results = [each for each in made if each is not None]  # results that were not requested
    return tuple(_bytes_as(place, each) for place, each in zip(result, results, strict=True))


def known_result(op: Any, overload: Any, args: tuple[Any, ...]) -> Any:
    """Return the result of an operator whose size depends on known values. Tensors in the result are on meta."""
    waiting = [place.known for place in args if isinstance(place, Place)]
    for known in waiting:
        compute_known(known)
    if not _has_cpu():
        from metatensor.deferred.host_kernels import result_on_host

        return result_on_host(overload.qualname, args)
    return map_tensors(_on_meta, _run(op, overload, 0, args, None)[0])


def _has_cpu() -> bool:
    try:
        plugins.backend("cpu")
    except RuntimeError:
        return False
    return True


def _run(op: Any, overload: Any, variant: int, args: tuple[Any, ...], out: Any) -> Any:
    try:
        return run_call(op, overload, variant, args, out, _storage)
    except DataDependentError:
        raise
    except NotImplementedError as error:
        raise DataDependentError(f"{overload.qualname}(): the values of a tensor on meta cannot be computed: {error}") from error


def _storage(known: Known | None, nbytes: int) -> Any:
    """Return a storage on the cpu with the bytes of a `Known`, or with zeros."""
    backend = plugins.backend("cpu")
    storage = make_storage("cpu", nbytes, backend.allocate(nbytes, 0))
    if nbytes:
        flat = tensor_from_storage(storage, dtype_by_name("uint8"), (nbytes,), (1,))
        backend.from_host(flat, bytes(nbytes) if known is None else known.data)
    return storage


def _bytes_as(place: Place, made: Any) -> bytes:
    """Return the bytes of a storage that holds a computed result with its layout on meta."""
    same = (tuple(made.shape), made.stride(), made.storage_offset()) == (place.size, place.stride, place.offset)
    if same and made.untyped_storage().nbytes() == place.nbytes and not (made.is_conj() or made.is_neg()):
        return storage_bytes(made.untyped_storage())
    storage = _storage(None, place.nbytes)
    target = tensor_from_storage(storage, place.dtype, place.size, place.stride, place.offset)
    plugins.backend("cpu").copy(target, made.resolve_conj().resolve_neg())
    return storage_bytes(storage)


def _on_meta(tensor: Any) -> Any:
    """Return a contiguous tensor on meta with the values of one on the cpu."""
    backend = plugins.backend("cpu")
    return made_of_bytes(bytes(backend.to_host(tensor)), tuple(tensor.shape), tensor.dtype)
