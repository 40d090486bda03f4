"""Check that a model built under `deferred_init` and materialized equals the same model built directly."""

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
    """Build an object directly and under `deferred_init`, from the same seed, and compare the results.

    Tensors are compared by values, shape, strides, offset, dtype, device, class, ``requires_grad`` and Python
    attributes. The same names must refer to one tensor, and the same tensors must share a storage. Values of
    tensors that were never written to are arbitrary and are not compared.

    Parameters
    ----------
    build : callable
        Creates and returns the object: a tensor, a module, or nested containers of them. It is called twice.
    seed : int
        Seeds metatensor, `random` and, if it is imported, NumPy before each call.
    device : device
        The default device during both calls.

    Returns
    -------
    object
        The result of the deferred call, materialized.

    Raises
    ------
    AssertionError
        If anything differs. The message lists the differences.

    Examples
    --------
    >>> import metatensor as mt
    >>> model = mt.testing.check_deferred_matches(lambda: mt.nn.Linear(3, 2))
    >>> model.weight.shape
    metatensor.Size([2, 3])
    """
    with mt.device(device):
        _seed(seed)
        eager = build()
        after = mt.default_generator.clone_state()
        _seed(seed)
        with mt.deferred_init():
            deferred = build()
    if repr(after) != repr(mt.default_generator):
        raise AssertionError(f"check_deferred_matches: the generators differ afterwards: {after}, {mt.default_generator}")
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
    """Yield (path, tensor) for each tensor in a module or in nested containers."""
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
    """Return descriptions of the differences between two models or nested containers of tensors with data."""
    first, second = list(places(one)), list(places(other))
    names, others = [name for name, _ in first], [name for name, _ in second]
    if names != others:
        return [f"tensors are in different places: {sorted(set(names) ^ set(others)) or 'their order differs'}"]
    found: list[str] = []
    for (name, a), (_, b) in zip(first, second, strict=True):
        for what, one_has, other_has in zip(_WHAT, _facts(a), _facts(b), strict=True):
            if one_has != other_has:
                found.append(f"{name}: {what} is {other_has}, was {one_has}")
        if a.shape == b.shape and a.dtype is b.dtype and _bytes(a) != _bytes(b) and not never_written(b):
            found.append(f"{name}: the values differ")
    for what, key in (("are one tensor", id), ("share a storage", lambda t: t.untyped_storage()._cdata)):
        if _groups([t for _, t in first], key) != _groups([t for _, t in second], key):
            found.append(f"different tensors {what}")
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
    """Return True if some values of a tensor, deferred now or before, come from memory that no recorded step wrote."""
    from metatensor.deferred import overwrites, read, steps_for, written

    recipe = recipe_of(tensor.untyped_storage())
    if recipe is None:
        return False
    unwritten: set[Any] = set()
    for step in steps_for([recipe]):
        made = {ref.recipe for ref in written(step)}
        if step.name in _UNWRITTEN or read(step) & unwritten:
            unwritten |= made
        else:
            unwritten -= {one for one in made if overwrites(step, one)}
    return recipe in unwritten
