"""Whether a model that is built deferred, and then materialised, is what it would have been."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import metatensor as mt
from metatensor._core.storage import recipe_of, storage_bytes

__all__ = ["check_deferred_matches", "differences", "never_written"]

_UNWRITTEN = frozenset(("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"))


def check_deferred_matches(build: Callable[[], Any], *, seed: int = 0, device: Any = "cpu") -> Any:
    """Call ``build`` as it is and under `deferred_init`, from the same seed, materialise, and compare everything.

    Values, sizes, strides, offsets, dtypes, devices, classes, ``requires_grad``, Python attributes, and which tensors are
    one, or share a storage. Raises AssertionError with what differs; returns the materialised object. Tensors that were
    never written to hold arbitrary values either way, and these are not compared.
    """
    with mt.device(device):
        _seed(seed)
        eager = build()
        after = mt.default_generator.clone_state()
        _seed(seed)
        with mt.deferred_init():
            deferred = build()
    if repr(after) != repr(mt.default_generator):
        raise AssertionError(f"check_deferred_matches: random numbers were drawn otherwise: {after}, {mt.default_generator}")
    mt.materialize(deferred)
    found = differences(eager, deferred)
    if found:
        raise AssertionError("check_deferred_matches: " + "; ".join(found[:20]))
    return deferred


def _seed(seed: int) -> None:
    mt.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def places(obj: Any, path: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, Any]]:
    """Each place where a tensor stands in a module or a nest of containers, and the tensor."""
    seen = set() if seen is None else seen
    if isinstance(obj, mt.Tensor):
        yield path, obj
        if obj.grad is not None:
            yield path + ".grad", obj.grad
        return
    if isinstance(obj, mt.nn.Module):
        items: Any = [(f"{path}.{name}", value) for name, value in vars(obj).items() if name not in ("_parameters", "_buffers", "_modules")]
        for names in (obj._parameters, obj._buffers, obj._modules):
            items += [(f"{path}.{name}", value) for name, value in names.items()]
    elif isinstance(obj, dict):
        items = [(f"{path}[{key!r}]", value) for key, value in obj.items()]
    elif isinstance(obj, (list, tuple)):
        items = [(f"{path}[{i}]", value) for i, value in enumerate(obj)]
    else:
        return
    if id(obj) not in seen:
        seen.add(id(obj))
        for name, value in items:
            yield from places(value, name.lstrip("."), seen)


def differences(one: Any, other: Any) -> list[str]:
    """What differs between two models, or nests of tensors, that hold data; empty where nothing does."""
    first, second = list(places(one)), list(places(other))
    names, others = [name for name, _ in first], [name for name, _ in second]
    if names != others:
        return [f"tensors stand in other places: {sorted(set(names) ^ set(others)) or 'in another order'}"]
    found: list[str] = []
    for (name, a), (_, b) in zip(first, second, strict=True):
        for what, one_has, other_has in zip(_WHAT, _facts(a), _facts(b), strict=True):
            if one_has != other_has:
                found.append(f"{name}: {what} is {other_has}, was {one_has}")
        if a.shape == b.shape and a.dtype is b.dtype and _bytes(a) != _bytes(b) and not never_written(b):
            found.append(f"{name}: other values")
    for what, key in (("are one tensor", id), ("share a storage", lambda t: t.untyped_storage()._cdata)):
        if _groups([t for _, t in first], key) != _groups([t for _, t in second], key):
            found.append(f"other tensors {what}")
    return found


_WHAT = ("class", "shape", "stride", "offset", "dtype", "device", "requires_grad", "is_leaf", "conj", "neg", "storage's size", "attributes")


def _facts(t: Any) -> tuple[Any, ...]:
    return (type(t), t.shape, t.stride(), t.storage_offset(), t.dtype, t.device, t.requires_grad, t.is_leaf, t.is_conj(), t.is_neg(),
            t.untyped_storage().nbytes(), sorted(t.__dict__))  # fmt: skip


def _bytes(t: Any) -> bytes:
    if not t.numel() or t.is_meta:
        return b""
    with mt.no_grad():
        return storage_bytes(t.detach().resolve_conj().resolve_neg().contiguous().clone().untyped_storage())


def _groups(tensors: list[Any], key: Callable[[Any], Any]) -> list[int]:
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(key(t), len(numbers)) for t in tensors]


def never_written(tensor: Any) -> bool:
    """Whether values of a tensor that is or was deferred come, by its recipe, from memory that nothing was written to."""
    from metatensor.deferred import overwrites, read, steps_for, written

    ghost = recipe_of(tensor.untyped_storage())
    if ghost is None:
        return False
    unwritten: set[Any] = set()
    for step in steps_for([ghost]):
        made = {ref.ghost for ref in written(step)}
        if step.name in _UNWRITTEN or read(step) & unwritten:
            unwritten |= made
        else:
            unwritten -= {one for one in made if overwrites(step, one)}
    return ghost in unwritten
