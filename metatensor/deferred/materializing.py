"""Record how tensors are made, and give them their data later.

Inside `deferred_init`, tensors name their future device and hold no data. Each kernel call is recorded with its
arguments and, if it draws random numbers, its position in the random stream. `materialize` runs the steps that a tensor
needs, once. The result equals that of an ordinary run bit for bit. Data belongs to storages, so ties, views and buffers
are preserved.

The `Recipe` of such a storage lists the steps that write to it.
"""

from __future__ import annotations

import threading
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from typing import Any

import metatensor as mt
from metatensor import plugins
from metatensor._core.device import Device, concrete_device
from metatensor._core.modes import _disable_modes, _restore_modes, current_modes
from metatensor._core.recorder import Recorder, suspended
from metatensor._core.recording import Recipe, Ref, Step
from metatensor._core.replaying import install_data, remove_data, replay
from metatensor._core.source_locations import add_note
from metatensor._core.storage import make_storage, recipe_of
from metatensor._core.storage_views import tensor_from_storage
from metatensor.deferred.named_tensors import CONTAINERS, named_tensors, part_of
from metatensor.deferred.parts import part_alone
from metatensor.deferred.required import groups_of, refs_of, steps_for

__all__ = ["deferred_init", "dematerialize", "is_deferred", "materialize", "materialize_slice"]


class deferred_init:
    """Context manager and decorator inside which tensors hold no data, but remember how to compute it.

    Meta tensors are created as usual. Operators whose inputs all have data are computed as usual.

    Examples
    --------
    >>> import metatensor as mt
    >>> with mt.deferred_init():
    ...     weight = mt.full((2, 3), 0.5, device="cpu")
    >>> mt.is_deferred(weight)
    True
    >>> mt.materialize(weight).tolist()
    [[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]]
    """

    def __init__(self) -> None:
        self._recorder = Recorder(True)

    def __enter__(self) -> deferred_init:
        self._recorder.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._recorder.__exit__(*error)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        from metatensor._core.decorate import run_inside

        return run_inside(self, function)


def is_deferred(tensor: Any) -> bool:
    """Return True if a tensor or storage holds no data but remembers how it was made.

    Parameters
    ----------
    tensor : Tensor or UntypedStorage
        What to test.

    Examples
    --------
    >>> import metatensor as mt
    >>> with mt.deferred_init():
    ...     x = mt.zeros(2, device="cpu")
    >>> mt.is_deferred(x), mt.is_deferred(mt.zeros(2, device="meta"))
    (True, False)
    """
    storage = part_of(tensor).untyped_storage() if isinstance(tensor, mt.Tensor) else tensor
    recipe = recipe_of(storage)
    return storage.data is None and recipe is not None and not recipe.constant


def has_values(tensor: Any) -> bool:
    """Return True if a tensor holds data, or values that can be computed on demand."""
    storage = part_of(tensor).untyped_storage()
    return storage.data is not None or recipe_of(storage) is not None


# Replaying ----------------------------------------------------------------------------------------


def run(recipes: Iterable[Recipe], device: Any = None) -> dict[Recipe, Any]:
    """Compute the final contents of recorded storages, all on ``device`` or each on its own device.

    Return new storages.
    """
    relocate = _relocation(device)
    filled: dict[Recipe, Any] = {}
    with _without_modes():
        for members, steps in groups_of(recipes):
            filled.update(_run_group(members, steps, relocate))
    return filled


def _run_group(members: list[Recipe], steps: list[Step], relocate: Callable[[Any], Any]) -> dict[Recipe, Any]:
    """Run steps in order, freeing each storage after its last use."""
    last: dict[Recipe, int] = {}
    for step in steps:
        for ref in refs_of([step.args, step.result]):
            last[ref.recipe] = step.number
    for recipe in members:
        last.pop(recipe, None)
    ends: dict[int, list[Recipe]] = {}
    for recipe, number in last.items():
        ends.setdefault(number, []).append(recipe)
    storages: dict[Recipe, Any] = {}
    for step in _without_whole(members, steps, storages, relocate):
        ending = ends.get(step.number, ())
        pair = _same_bytes(step)
        if pair is not None and pair[1] in ending:
            storages[pair[0]] = storages[pair[1]]  # reuse the source instead of copying it
        else:
            _replay_noted(step, storages, relocate)
        for recipe in ending:
            del storages[recipe]
    return storages


def _without_whole(
    members: list[Recipe], steps: list[Step], storages: dict[Recipe, Any], relocate: Callable[[Any], Any]
) -> list[Step]:
    """Return the steps that are left to do after computing, if possible, only that part of a tensor that is copied.

    The steps of a shard compute the whole tensor and copy a part of it. Such a part is added to ``storages``.
    """
    place = next((i for i, step in enumerate(steps) if _copied_part(step) is not None), 0)
    source = _copied_part(steps[place]) if place else None
    if source is None or source.recipe in members:
        return steps
    if any(ref.recipe is source.recipe for step in steps[place + 1 :] for ref in refs_of([step.args, step.result])):
        return steps
    whole = make_storage("meta", source.recipe.nbytes)
    view = tensor_from_storage(whole, source.dtype, source.size, source.stride, source.offset)
    part = part_alone(source.recipe, steps[:place], view, relocate(source.recipe.device), relocate)
    if part is None or not _own(part, None) or part.stride() != steps[place].result.stride:
        return steps
    storages[steps[place].result.recipe] = part.untyped_storage()
    return steps[place + 1 :]


def _copied_part(step: Step) -> Ref | None:
    """Return the recorded tensor of which a step copies a proper part to a storage of its own, or None."""
    if step.name not in ("copy", "clone") or not isinstance(step.result, Ref):
        return None
    made, source = step.result, step.args[1 if step.op is None else 0]
    if not isinstance(source, Ref) or not made.covers() or source.covers() or source.flags or made.flags:
        return None
    alike = source.dtype is made.dtype and source.size == made.size and made.recipe.device is source.recipe.device
    return source if alike and made.recipe is not source.recipe else None


def _replay_noted(step: Step, storages: dict[Recipe, Any], relocate: Callable[[Any], Any]) -> None:
    """Run `replay`. Add the line where the tensor was made to any error."""
    try:
        replay(step, storages, relocate)
    except Exception as error:
        made_at = next((ref.recipe.made_at for ref in refs_of([step.result, step.args])), None)
        if made_at is not None:
            add_note(error, f"(in {step.name}, for the deferred tensor that was made at {made_at[0]}:{made_at[1]})")
        raise


def _same_bytes(step: Step) -> tuple[Recipe, Recipe] | None:
    """Return the target and the source if a step copies a whole storage to one with the same layout, else None."""
    if step.name not in ("copy", "clone"):
        return None
    made, source = step.result, step.args[1 if step.op is None else 0]
    if not isinstance(source, Ref) or not (made.covers() and source.covers()) or made.recipe.device is not source.recipe.device:
        return None
    alike = made.recipe.nbytes == source.recipe.nbytes and all(
        getattr(made, name) == getattr(source, name) for name in ("dtype", "size", "stride", "offset", "flags")
    )
    return (made.recipe, source.recipe) if alike else None


@contextmanager
def _without_modes() -> Iterator[None]:
    """Disable recording and all modes, including autocast, inside the block."""
    level = _disable_modes()
    try:
        with suspended(), mt.no_grad():
            yield
    finally:
        _restore_modes(level)


def _relocation(device: Any) -> Callable[[Any], Any]:
    """Return a function that maps a recipe's devices and tensors to ``device``."""
    if device is None:
        return lambda value: value
    target = concrete_device(device)

    def relocate(value: Any) -> Any:
        if isinstance(value, Device):
            return target if value.type != "meta" else value
        return value.to(target)

    return relocate


forbidden = threading.local()  # `now` is true while this thread runs an operator inside `assert_no_materialization`
_KEPT_BYTES = 1 << 22
_SMALL_BYTES = 1 << 16
_FREE_BYTES = 512  # constants up to this size may be computed even inside assert_no_materialization
_latest: tuple[Any, ...] = (None, 0, None)  # (weak reference to a Recipe, its last step, its storage)


def value_of(tensor: Any) -> Any:
    """Return a tensor with the values that a deferred one will have. The caller must not write to it.

    The deferred tensor is unchanged.
    """
    global _latest
    recipe = recipe_of(tensor.untyped_storage())
    known, number, made = _latest
    if known is None or known() is not recipe or number != recipe.writers[-1].number:
        made = filled(tensor.untyped_storage())
        _latest = (weakref.ref(recipe), recipe.writers[-1].number, made) if recipe.nbytes <= _KEPT_BYTES else (None, 0, None)
    with suspended(), mt.no_grad():
        return _over(made, tensor)


def bytes_of(tensor: Any) -> Any:
    """Return the elements that a deferred tensor will have, in C order, as a bytes-like object.

    If no device can compute them, small constants are computed with Python's numbers. Otherwise raise RuntimeError.
    """
    recipe = recipe_of(tensor.untyped_storage())
    device = "cpu" if recipe.constant else recipe.device.type
    try:
        backend = plugins.backend(device)
    except RuntimeError as error:
        from metatensor.deferred.constants import bytes_on_host, elements

        data = bytes_on_host(recipe, steps_for([recipe])) if recipe.nbytes <= _SMALL_BYTES and not tensor.is_conj() else None
        if data is None or tensor.is_neg():
            what = f"a tensor of shape {list(tensor.shape)} on {tensor.device}"
            raise RuntimeError(f"the values of {what} are computed on {device}, but no such device is installed "
                               f"(the package may be metatensor-{device}): {error}") from error  # fmt: skip
        return elements(data, tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset())
    return backend.to_host(value_of(tensor))


def filled(storage: Any) -> Any:
    """Return a new storage with the data that a deferred one will have.

    Constants of a fake device are computed on the cpu.
    """
    recipe = recipe_of(storage)
    if any(ref.recipe.nbytes > _FREE_BYTES for step in _if_forbidden(recipe) for ref in refs_of([step.args, step.result])):
        _check_allowed()
    return run([recipe], "cpu" if recipe.constant else None)[recipe]


def _if_forbidden(recipe: Recipe) -> list[Step]:
    """Return the steps that would compute a recorded storage if materialization is forbidden, else an empty list."""
    return steps_for([recipe]) if _is_forbidden() else []


def _over(storage: Any, tensor: Any) -> Any:
    """Return a plain tensor with the layout of ``tensor`` over another storage."""
    made = tensor_from_storage(storage, tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset())
    made = made.conj() if tensor.is_conj() else made
    return made._neg_view() if tensor.is_neg() else made


def copy_of(tensor: Any) -> Any:
    """Return a copy of a tensor with data, without recording it."""
    with _without_modes():
        return tensor.detach().clone()


def checksum(tensor: Any) -> int | None:
    """Return a checksum of memory that NumPy could modify, or None for other memory."""
    if tensor.device.type != "cpu" or tensor.untyped_storage().data is None:
        return None
    with _without_modes():
        plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
        array = (plain if plain.dim() else plain.reshape(1)).view(mt.uint8)
        return zlib.adler32(array.numpy())


# Materializing ------------------------------------------------------------------------------------


def tensors_of(obj: Any) -> list[Any]:
    """Return the tensors in a module or nested container, and their gradients.

    A module's plain attributes are included. Of distributed tensors, the parts of this process are returned.
    """
    found: dict[int, Any] = {}
    for entry in named_tensors(obj):
        tensor = entry.value
        while tensor is not None and id(tensor) not in found:
            found[id(tensor)] = tensor
            tensor = tensor.grad
    return [part_of(tensor) for tensor in found.values()]


def materialize(obj: Any, *, device: Any = None, dtype: Any = None, executor: Any = None) -> Any:
    """Compute the data of deferred tensors in place.

    Parameters
    ----------
    obj : Tensor, nn.Module or container
        What to materialize. An iterator, such as ``model.parameters()``, is converted to a list.
    device : device or str, optional
        Where to compute the data. By default each tensor's own device.
    dtype : dtype, optional
        Convert floating-point tensors to this floating-point or complex dtype.
    executor : concurrent.futures.Executor, optional
        Compute independent groups of tensors in the executor's workers.

    Returns
    -------
    object
        ``obj`` itself, or the list made from an iterator. A module's parameters and buffers that already held data are
        moved and converted as `Module.to` does. Meta or fake tensors beside deferred ones are unchanged.

    Raises
    ------
    TypeError
        If ``obj`` is not a tensor, module or container, or if ``dtype`` is not floating-point or complex.
    RuntimeError
        If ``device`` is meta, if there are tensors on meta but no deferred ones, or inside `assert_no_materialization`.
        Also if a step needs a tensor with data that has been modified since it was recorded. In these cases no tensor
        receives data.

    Examples
    --------
    >>> import metatensor as mt
    >>> with mt.deferred_init(), mt.device("cpu"):
    ...     model = mt.nn.Linear(8, 4)
    >>> model = mt.materialize(model, dtype=mt.float64)
    >>> model.weight.dtype, mt.is_deferred(model.weight)
    (metatensor.float64, False)
    """
    _check_allowed()
    obj, device, dtype = _checked("materialize", obj, device, dtype)
    if executor is not None and not hasattr(executor, "submit"):
        raise TypeError(f"materialize: expected an executor as in concurrent.futures, got {type(executor).__name__}")
    if dtype is not None:
        _convert_distributed(obj, dtype)
    tensors = tensors_of(obj)
    if dtype is not None:
        _convert(tensors, dtype)
    storages = _deferred_storages(tensors)
    if not storages and any(tensor.is_meta for tensor in tensors):
        raise RuntimeError(
            "materialize: these tensors are on meta and have no recorded values. Build the model inside "
            "metatensor.deferred_init(), or give it memory and values: model.to_empty(device=...), metatensor.load_into(model, path)"
        )
    recipes = [recipe_of(storage) for storage in storages]
    if executor is None:
        filled = run(recipes, device)
    else:
        from metatensor.deferred.recipes import run_with

        filled = run_with(executor, recipes, device)
    for storage, recipe in zip(storages, recipes, strict=True):
        if storage.data is None:  # otherwise another thread was first and may have written to it since
            install_data(storage, filled[recipe])
    if isinstance(obj, mt.nn.Module) and (device is not None or dtype is not None):
        _move_rest(obj, device, dtype)
    return obj


def _checked(name: str, obj: Any, device: Any, dtype: Any) -> tuple[Any, Any, Any]:
    """Return the arguments in normalized form. Raise TypeError or RuntimeError for invalid ones."""
    if isinstance(obj, Iterator):
        obj = list(obj)
    known = isinstance(obj, (mt.Tensor, mt.nn.Module, *CONTAINERS)) or (is_dataclass(obj) and not isinstance(obj, type))
    if not known:
        raise TypeError(f"{name}: expected a tensor, a module or a container of them, got {type(obj).__name__}")
    if device is not None:
        device = mt.device(device)
        if device.type == "meta":
            raise RuntimeError(f"{name}: the meta device holds no data; mt.to_meta gives a copy there")
    if dtype is not None:
        if not isinstance(dtype, mt.dtype):
            raise TypeError(f"{name}: expected a dtype, got {dtype!r}")
        if not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"{name}: the dtype must be floating-point or complex, not {dtype}")
    return obj, device, dtype


def _is_forbidden() -> bool:
    """Return True inside `assert_no_materialization`, or while an operator runs under it."""
    return getattr(forbidden, "now", False) or any(getattr(mode, "forbids_data", False) for mode in current_modes())


def _check_allowed() -> None:
    if _is_forbidden():
        raise RuntimeError("materialize: assert_no_materialization forbids it, as well as reading the values of deferred tensors")


def _move_rest(module: Any, device: Any, dtype: Any) -> None:
    """Apply `Module.to` to tensors that already hold data."""
    target = None if device is None else mt.device(device)

    def moved(tensor: Any) -> Any:
        if part_of(tensor).untyped_storage().data is None:
            return tensor
        return tensor.to(target, dtype if tensor.is_floating_point() else None)

    with suspended():
        module._apply(moved)


def _deferred_storages(tensors: list[Any]) -> list[Any]:
    found: dict[Any, None] = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if is_deferred(tensor):
            found[storage] = None
    return list(found)


def _convert_distributed(obj: Any, dtype: Any) -> None:
    """Record a conversion of the deferred parts of distributed floating-point tensors."""
    with _without_modes():
        for entry in named_tensors(obj):
            tensor = entry.value
            if part_of(tensor) is not tensor and is_deferred(tensor) and tensor.is_floating_point():
                tensor.data = tensor.detach().to(dtype)


def _convert(tensors: list[Any], dtype: Any) -> None:
    """Record a conversion of the deferred floating-point tensors. Tensors that share a storage still share one."""
    groups: dict[Any, list[Any]] = {}
    for tensor in tensors:
        if is_deferred(tensor) and tensor.dtype.is_floating_point:
            groups.setdefault(tensor.untyped_storage(), []).append(tensor)
    with _without_modes():
        for storage, group in groups.items():
            kind = group[0].dtype
            if kind is dtype or any(t.dtype is not kind for t in group):
                continue
            count = storage.nbytes() // kind.itemsize
            whole = tensor_from_storage(storage, kind, (count,), (1,)).to(dtype).untyped_storage()
            for tensor in group:
                tensor.data = tensor_from_storage(whole, dtype, tensor.shape, tensor.stride(), tensor.storage_offset())


def materialize_slice(tensor: Any, index: Any, *, device: Any = None, dtype: Any = None) -> Any:
    """Compute ``tensor[index]`` of a deferred tensor, which itself stays deferred.

    The values are those that the whole tensor would have there, in any process. If each element is computed
    independently (random fills, constants, arithmetic with numbers), only the part is computed. Otherwise the whole
    tensor is in memory temporarily.

    Parameters
    ----------
    tensor : Tensor
        A deferred tensor.
    index : index expression
        The part to compute, as in ``tensor[index]``.
    device : device or str, optional
        Where to compute it. By default the tensor's own device.
    dtype : dtype, optional
        Dtype of the result. By default the tensor's.

    Returns
    -------
    Tensor
        A new tensor.

    Raises
    ------
    RuntimeError
        If ``tensor`` is not deferred, if ``device`` is meta, or inside `assert_no_materialization`.
    TypeError
        If an argument has the wrong type.

    Examples
    --------
    >>> import metatensor as mt
    >>> with mt.deferred_init():
    ...     weight = mt.ones(1000, 64, device="cpu")
    >>> mt.materialize_slice(weight, slice(0, 10)).shape, mt.is_deferred(weight)
    (metatensor.Size([10, 64]), True)
    """
    if not isinstance(tensor, mt.Tensor):
        raise TypeError(f"materialize_slice: expected a tensor, got {type(tensor).__name__}")
    if device is not None:
        device = _checked("materialize_slice", tensor, device, None)[1]
    if dtype is not None and not isinstance(dtype, mt.dtype):
        raise TypeError(f"materialize_slice: expected a dtype, got {dtype!r}")
    if not is_deferred(tensor):
        raise RuntimeError(f"materialize_slice: expected a deferred tensor, got one on {tensor.device} that "
                           f"{'holds no data' if tensor.untyped_storage().data is None else 'holds data'}")  # fmt: skip
    _check_allowed()
    recipe = recipe_of(tensor.untyped_storage())
    with _without_modes():
        target = recipe.device if device is None else concrete_device(device)
        view = _shown_part(tensor, index)
        if view is not None and not (tensor.is_conj() or tensor.is_neg()):
            alone = part_alone(recipe, steps_for([recipe]), view, target, _relocation(device))
            if alone is not None:
                return alone if _own(alone, dtype) else mt.empty_like(alone, dtype=dtype).copy_(alone)
        # Allocate the part first, so that the memory of the whole tensor can be reused for the next one.
        made = _empty_part(tensor, index, target, dtype)
        part = _over(run([recipe], device)[recipe], tensor)[index]
        return part.to(dtype or part.dtype, copy=True) if made is None else made.copy_(part)


def _shown_part(tensor: Any, index: Any) -> Any:
    """Return ``tensor[index]`` on meta, or None if it is not a view."""
    whole = _over(make_storage("meta", tensor.untyped_storage().nbytes()), tensor)
    try:
        part = whole[index]
    except (mt.DataDependentError, RuntimeError):
        return None
    return part if part.untyped_storage() is whole.untyped_storage() else None


def _own(part: Any, dtype: Any) -> bool:
    """Return True if a new tensor fills its storage and already has the requested dtype."""
    return dtype in (None, part.dtype) and part.nbytes == part.untyped_storage().nbytes() and part.is_contiguous()


def _empty_part(tensor: Any, index: Any, device: Any, dtype: Any) -> Any:
    """Return an uninitialized tensor for ``tensor[index]``, or None if its size depends on values."""
    try:
        part = _over(make_storage("meta", tensor.untyped_storage().nbytes()), tensor)[index]
    except (mt.DataDependentError, RuntimeError):
        return None
    return mt.empty_like(part, dtype=dtype, device=device)


def dematerialize(obj: Any) -> Any:
    """Remove the data of tensors that were deferred, and return ``obj``.

    The tensors can be materialized again with their original values. Changes made to the data in the meantime are lost.
    Tensors that never were deferred keep their data.

    Parameters
    ----------
    obj : Tensor, nn.Module or container
        The tensors to reset.

    Raises
    ------
    TypeError
        If ``obj`` is not a tensor, module or container.

    Examples
    --------
    >>> import metatensor as mt
    >>> with mt.deferred_init():
    ...     x = mt.ones(2, device="cpu")
    >>> x = mt.materialize(x).fill_(7)
    >>> mt.materialize(mt.dematerialize(x)).tolist()
    [1.0, 1.0]
    """
    obj = _checked("dematerialize", obj, None, None)[0]
    for tensor in tensors_of(obj):
        storage = tensor.untyped_storage()
        recipe = recipe_of(storage)
        if recipe is not None and storage.data is not None:
            remove_data(storage, recipe.device)
    return obj

