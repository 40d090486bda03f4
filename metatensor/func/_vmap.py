"""`vmap`, which maps a function over a dimension of its arguments."""

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
    """Return a function that applies `func` to every member of a batch.

    Parameters
    ----------
    func : callable
        Function of one member. It may return a tensor or nested tuples, lists and dicts of tensors.
    in_dims : int, or nested tuple, list or dict of int and None
        Batch dimension of each tensor in the positional arguments, nested like the arguments. None means that all
        members share the argument. Default: 0 for all.
    out_dims : int, None, or nested tuple, list or dict of these
        Batch dimension of each tensor in the result. None is allowed for results that all members share. Default: 0.
    randomness : {"error", "different", "same"}
        Whether random operators in `func` raise an error, draw different numbers for each member, or draw the same
        numbers for all. Default: "error".
    chunk_size : int, optional
        Maximum number of members computed at once. Default: all.

    Returns
    -------
    callable
        Function whose positional arguments have one more dimension. Keyword arguments are passed to `func` unchanged.

    Raises
    ------
    RuntimeError
        If `randomness` is unknown. The returned function raises it if `func` is random and `randomness` is "error", or
        if `func` needs the values of one member as Python numbers.
    ValueError
        If `chunk_size` is not positive. The returned function raises it if `in_dims` or `out_dims` do not fit, or if
        batch sizes differ.

    Examples
    --------
    >>> import metatensor as mt
    >>> x, y = mt.empty(8, 5, device="meta"), mt.empty(8, 5, device="meta")
    >>> mt.func.vmap(mt.dot)(x, y).shape
    metatensor.Size([8])
    >>> mt.func.vmap(mt.outer, in_dims=(0, None))(x, mt.empty(3, device="meta")).shape
    metatensor.Size([8, 5, 3])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"vmap: randomness must be 'error', 'different' or 'same', got {randomness!r}")
    if chunk_size is not None and not chunk_size > 0:
        raise ValueError(f"vmap: chunk_size must be positive, got {chunk_size}")

    def over_batches(*args: Any, **kwargs: Any) -> Any:
        if any(not isinstance(dim, int) and dim is not None for dim in _tree.flatten(out_dims)):
            raise ValueError(f"vmap({_name(func)}): out_dims must be ints or None, or nested containers of these, got {out_dims!r}")
        dims = _dims_of(func, in_dims, args)
        leaves = _tree.flatten(args)
        sizes = [leaf.shape[dim] for leaf, dim in zip(leaves, dims, strict=True) if dim is not None]
        if not sizes:
            raise ValueError(f"vmap({_name(func)}): expected at least one tensor to map over")
        if len(set(sizes)) > 1:
            raise ValueError(f"vmap({_name(func)}): the mapped dimensions must have the same size, got {sizes}")
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
    """Return the batch dimension of each leaf of the arguments, or None for leaves that all members share."""
    where = f"vmap({_name(func)}, in_dims={in_dims!r})"
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(f"{where}: in_dims must be an int or a tuple, got {type(in_dims).__name__}")
    if not args:
        raise ValueError(f"{where}: expected at least one positional argument")
    dims = _tree.broadcast_prefix(in_dims, args)
    if dims is None:
        raise ValueError(f"{where}: {_tree.structure(in_dims)} does not match the arguments, {_tree.structure(args)}")
    for at, (leaf, dim) in enumerate(zip(_tree.flatten(args), dims, strict=True)):
        if dim is None:
            continue
        if not isinstance(dim, int):
            raise ValueError(f"{where}: expected ints and None, got {dim!r}")
        if not isinstance(leaf, Tensor):
            raise ValueError(f"{where}: cannot map over a {type(leaf).__name__}; use None for it")
        if not -leaf.dim() <= dim < leaf.dim():
            raise ValueError(f"{where}: a tensor of {leaf.dim()} dimensions has no dimension {dim}")
        dims[at] = dim % leaf.dim()
    return dims


def _out_dims_of(func: Any, outputs: Any, out_dims: Any) -> list[int | None]:
    """Return the batch dimension of each leaf of the outputs."""
    if isinstance(outputs, Tensor):
        if isinstance(out_dims, tuple) and len(out_dims) == 1:
            return list(out_dims)
        dims = [out_dims] if isinstance(out_dims, int) or out_dims is None else None
    else:
        dims = _tree.broadcast_prefix(out_dims, outputs)
    if dims is None:
        raise ValueError(
            f"vmap({_name(func)}, out_dims={out_dims!r}): {_tree.structure(out_dims)} does not match the returned structure, "
            f"{_tree.structure(outputs)}"
        )
    return dims


def _run(
    func: Any, args: Any, kwargs: Any, leaves: list[Any], dims: list[int | None], size: int, out_dims: Any, randomness: str
) -> Any:
    """Call `func` once with batched tensors and return its outputs as plain tensors."""
    with Level(size, randomness) as level:
        given = [leaf if dim is None else wrap(leaf.movedim(dim, 0), level) for leaf, dim in zip(leaves, dims, strict=True)]
        outputs = func(*_tree.unflatten(args, given), **kwargs)
    where = _out_dims_of(func, outputs, out_dims)
    found = [_taken_apart(func, leaf, dim, level) for leaf, dim in zip(_tree.flatten(outputs), where, strict=True)]
    return _tree.unflatten(outputs, found)


def _taken_apart(func: Any, output: Any, dim: int | None, level: Level) -> Any:
    """Return an output as a plain tensor with its batch dimension at `dim`."""
    value = output.value if isinstance(output, Batched) and output.level is level else None
    if dim is None:
        if value is not None:
            raise ValueError(f"vmap({_name(func)}): the result differs between members of the batch, so out_dims cannot be None")
        return output
    if not isinstance(output, Tensor):
        raise ValueError(f"vmap({_name(func)}): expected the function to return tensors, got {type(output).__name__}")
    if not -output.dim() - 1 <= dim <= output.dim():
        raise IndexError(f"vmap({_name(func)}): a result of {output.dim() + 1} dimensions has no dimension {dim}, "
                         "which out_dims requests")
    if value is not None:
        return value.movedim(0, dim)
    return output.expand(level.size, *output.shape).movedim(0, dim)
