"""`vmap`: a function of one member as a function of batches."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.func import _tree
from metatensor.func._batched import Batched, Level, wrap

__all__ = ["vmap"]


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """``func`` for all members of a batch: its arguments have one more dimension, ``in_dims``, its results ``out_dims``.

    ``in_dims`` is an int, or a nest of ints and None (all members have this in common) as the positional arguments
    are. ``randomness`` says what random operators do: "error", "different" numbers for each member, or the "same".
    ``chunk_size`` members are computed at once. ValueError where these do not fit the arguments.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"vmap: randomness must be 'error', 'different' or 'same', got {randomness!r}")
    if chunk_size is not None and not chunk_size > 0:
        raise ValueError(f"vmap: chunk_size must be positive, got {chunk_size}")

    def over_batches(*args: Any, **kwargs: Any) -> Any:
        if any(not isinstance(dim, int) and dim is not None for dim in _tree.flatten(out_dims)):
            raise ValueError(f"vmap({_name(func)}): out_dims must be ints or None, or a nest of them, got {out_dims!r}")
        dims = _dims_of(func, in_dims, args)
        leaves = _tree.flatten(args)
        sizes = [leaf.shape[dim] for leaf, dim in zip(leaves, dims, strict=True) if dim is not None]
        if not sizes:
            raise ValueError(f"vmap({_name(func)}): expected at least one tensor to map over")
        if len(set(sizes)) > 1:
            raise ValueError(f"vmap({_name(func)}): the mapped dimensions must have one size, got {sizes}")
        step = sizes[0] if chunk_size is None else chunk_size
        if sizes[0] <= step:
            return _run(func, args, kwargs, leaves, dims, sizes[0], out_dims, randomness)
        parts = []
        for at in range(0, sizes[0], step):
            count = min(step, sizes[0] - at)
            some = [leaf if dim is None else leaf.narrow(dim, at, count) for leaf, dim in zip(leaves, dims, strict=True)]
            parts.append(_run(func, args, kwargs, some, dims, count, out_dims, randomness))
        columns = zip(*map(_tree.flatten, parts), strict=True)
        where = _out_dims_of(func, parts[0], out_dims)
        joined = [part[0] if dim is None else mt.cat(part, dim) for part, dim in zip(columns, where, strict=True)]
        return _tree.unflatten(parts[0], joined)

    try:
        return functools.wraps(func)(over_batches)
    except AttributeError:
        return over_batches


def _name(func: Any) -> str:
    return getattr(func, "__name__", None) or repr(func)


def _dims_of(func: Any, in_dims: Any, args: tuple[Any, ...]) -> list[int | None]:
    """The mapped dimension of each leaf of the arguments, or None."""
    where = f"vmap({_name(func)}, in_dims={in_dims!r})"
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(f"{where}: in_dims must be an int or a tuple, got {type(in_dims).__name__}")
    if not args:
        raise ValueError(f"{where}: expected at least one argument by position")
    dims = _tree.broadcast_prefix(in_dims, args)
    if dims is None:
        raise ValueError(f"{where}: {_tree.structure(in_dims)} does not fit the arguments, {_tree.structure(args)}")
    for at, (leaf, dim) in enumerate(zip(_tree.flatten(args), dims, strict=True)):
        if dim is None:
            continue
        if not isinstance(dim, int):
            raise ValueError(f"{where}: expected ints and None, got {dim!r}")
        if not isinstance(leaf, Tensor):
            raise ValueError(f"{where}: cannot map over a {type(leaf).__name__}; give None for it")
        if not -leaf.dim() <= dim < leaf.dim():
            raise ValueError(f"{where}: a tensor of {leaf.dim()} dimensions has no dimension {dim}")
        dims[at] = dim % leaf.dim()
    return dims


def _out_dims_of(func: Any, outputs: Any, out_dims: Any) -> list[int | None]:
    """Where the batch goes in each leaf of the results."""
    if isinstance(outputs, Tensor):
        if isinstance(out_dims, tuple) and len(out_dims) == 1:
            return list(out_dims)
        dims = [out_dims] if isinstance(out_dims, int) or out_dims is None else None
    else:
        dims = _tree.broadcast_prefix(out_dims, outputs)
    if dims is None:
        raise ValueError(
            f"vmap({_name(func)}, out_dims={out_dims!r}): {_tree.structure(out_dims)} does not fit what it returns, "
            f"{_tree.structure(outputs)}"
        )
    return dims


def _run(
    func: Any, args: Any, kwargs: Any, leaves: list[Any], dims: list[int | None], size: int, out_dims: Any, randomness: str
) -> Any:
    """Call the function with batches and take the results apart."""
    with Level(size, randomness) as level:
        given = [leaf if dim is None else wrap(leaf.movedim(dim, 0), level) for leaf, dim in zip(leaves, dims, strict=True)]
        outputs = func(*_tree.unflatten(args, given), **kwargs)
    where = _out_dims_of(func, outputs, out_dims)
    found = [_taken_apart(func, leaf, dim, level) for leaf, dim in zip(_tree.flatten(outputs), where, strict=True)]
    return _tree.unflatten(outputs, found)


def _taken_apart(func: Any, output: Any, dim: int | None, level: Level) -> Any:
    """A result with its batch as dimension ``dim``."""
    value = output.value if isinstance(output, Batched) and output.level is level else None
    if dim is None:
        if value is not None:
            raise ValueError(f"vmap({_name(func)}): what it returns differs from member to member, so that out_dims cannot be None")
        return output
    if not isinstance(output, Tensor):
        raise ValueError(f"vmap({_name(func)}): expected tensors to be returned, got {type(output).__name__}")
    if not -output.dim() - 1 <= dim <= output.dim():
        raise IndexError(f"vmap({_name(func)}): a result of {output.dim() + 1} dimensions has no dimension {dim} (out_dims)")
    if value is not None:
        return value.movedim(0, dim)
    return output.expand(level.size, *output.shape).movedim(0, dim)
