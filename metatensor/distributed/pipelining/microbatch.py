"""Dividing the arguments of a step into microbatches, and joining their outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import metatensor as mt
from metatensor._core.nested import map_tensors

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]


class TensorChunkSpec:
    """Says along which dimension a tensor is divided into microbatches.

    Parameters
    ----------
    split_dim : int
        The dimension.

    Examples
    --------
    >>> from metatensor.distributed.pipelining.microbatch import TensorChunkSpec
    >>> TensorChunkSpec.from_tuple((0, 1))
    (TensorChunkSpec(0), TensorChunkSpec(1))
    """

    def __init__(self, split_dim: int) -> None:
        self.split_dim = split_dim

    def __repr__(self) -> str:
        return f"TensorChunkSpec({self.split_dim})"

    @staticmethod
    def from_tuple(chunk_dims: tuple[int, ...]) -> Any:
        """Return a tuple of specs for a tuple of dimensions."""
        return _specs(chunk_dims)

    @staticmethod
    def from_dict(chunk_dims: dict[str, int]) -> Any:
        """Return a dict of specs for a dict of dimensions."""
        return _specs(chunk_dims)


class _Replicate:
    """As a spec: each microbatch receives the whole value."""


def _specs(dims: Any) -> Any:
    if isinstance(dims, dict):
        return {name: _specs(one) for name, one in dims.items()}
    if isinstance(dims, (tuple, list)):
        return type(dims)(_specs(one) for one in dims)
    return TensorChunkSpec(dims)


def split_tensor(tensor: Any, dim: int, chunks: int, name: str) -> Sequence[Any]:
    """Return the parts of a tensor along a dimension. Raise ValueError if there are fewer rows than parts."""
    if tensor.dim() == 0:
        raise ValueError(f"pipelining: {name} is a tensor without dimensions, which cannot be divided into {chunks} microbatches")
    if tensor.shape[dim] < chunks:
        raise ValueError(f"pipelining: {name} has shape {list(tensor.shape)}: {tensor.shape[dim]} rows in dimension {dim} are too few for "
                         f"{chunks} microbatches")  # fmt: skip
    parts: Sequence[Any] = mt.tensor_split(tensor, chunks, dim)
    return parts


def _divided(value: Any, spec: Any, chunks: int, name: str) -> list[Any]:
    """Return the microbatches of an argument, which may be a nested container of tensors."""
    if spec is _Replicate or isinstance(spec, _Replicate):
        return [value] * chunks
    if isinstance(value, mt.Tensor):
        if spec is not None and not isinstance(spec, TensorChunkSpec):
            raise TypeError(f"pipelining: the spec of {name} must be a TensorChunkSpec, got {type(spec).__name__}")
        return list(split_tensor(value, 0 if spec is None else spec.split_dim, chunks, name))
    if isinstance(value, dict):
        parts = {key: _divided(one, _part(spec, key, name), chunks, f"{name}[{key!r}]") for key, one in value.items()}
        return [{key: part[i] for key, part in parts.items()} for i in range(chunks)]
    if isinstance(value, (tuple, list)):
        rows = [_divided(one, _part(spec, i, name), chunks, f"{name}[{i}]") for i, one in enumerate(value)]
        made = [[row[i] for row in rows] for i in range(chunks)]
        return [type(value)(*one) if hasattr(value, "_fields") else type(value)(one) for one in made]
    return [value] * chunks


def _part(spec: Any, key: Any, name: str) -> Any:
    if isinstance(spec, (dict, tuple, list)):
        try:
            return spec[key]
        except (KeyError, IndexError):
            raise ValueError(f"pipelining: the chunk specs of {name} have no entry {key!r}") from None
    return spec


def split_args_kwargs_into_chunks(
    args: tuple[Any, ...], kwargs: dict[str, Any] | None, chunks: int, args_chunk_spec: Any = None, kwargs_chunk_spec: Any = None
) -> tuple[list[tuple], list[dict]]:
    """Divide arguments into microbatches.

    Parameters
    ----------
    args, kwargs
        The arguments. Tensors in them, also in nested containers, are divided; every microbatch receives all other values.
    chunks : int
        Number of microbatches.
    args_chunk_spec, kwargs_chunk_spec : optional
        A `TensorChunkSpec` for each argument. Default: dimension 0.

    Returns
    -------
    tuple
        The positional arguments and the keyword arguments of each microbatch.

    Raises
    ------
    ValueError
        If a tensor has fewer rows than there are microbatches, or the specs do not fit the arguments.
    """
    kwargs = {} if kwargs is None else kwargs
    if args_chunk_spec is not None and len(args_chunk_spec) != len(args):
        raise ValueError(f"pipelining: there are {len(args_chunk_spec)} chunk specs for {len(args)} positional arguments")
    if kwargs_chunk_spec is not None and set(kwargs_chunk_spec) != set(kwargs):
        raise ValueError(f"pipelining: the chunk specs are for the keyword arguments {sorted(kwargs_chunk_spec)}, and the arguments are "
                         f"{sorted(kwargs)}")  # fmt: skip
    rows = [_divided(one, None if args_chunk_spec is None else args_chunk_spec[i], chunks, f"argument {i}") for i, one in enumerate(args)]
    named = {name: _divided(one, None if kwargs_chunk_spec is None else kwargs_chunk_spec[name], chunks, f"argument {name!r}")
             for name, one in kwargs.items()}  # fmt: skip
    return [tuple(row[i] for row in rows) for i in range(chunks)], [{name: row[i] for name, row in named.items()} for i in range(chunks)]


def merge_chunks(chunks: list[Any], chunk_spec: Any) -> Any:
    """Join the outputs of microbatches: tensors are concatenated, other values must be the same in all of them.

    Parameters
    ----------
    chunks : list
        The outputs: tensors, or containers of tensors.
    chunk_spec
        A `TensorChunkSpec` for each output, or None for dimension 0.

    Raises
    ------
    ValueError
        If there are no chunks, or values other than tensors differ.
    """
    if not chunks:
        raise ValueError("pipelining: there are no outputs to join")
    return _joined(chunks, chunk_spec, "output")


def _joined(values: list[Any], spec: Any, name: str) -> Any:
    first = values[0]
    if spec is _Replicate or isinstance(spec, _Replicate):
        return first
    if isinstance(spec, (tuple, list)) and len(spec) == 1 and isinstance(first, mt.Tensor):
        spec = spec[0]
    if isinstance(first, mt.Tensor):
        if first.dim() == 0:
            return mt.stack(values)
        return mt.cat(values, 0 if spec is None else spec.split_dim)
    if isinstance(first, dict):
        return {key: _joined([one[key] for one in values], _part(spec, key, name), f"{name}[{key!r}]") for key in first}
    if isinstance(first, (tuple, list)):
        made = [_joined([one[i] for one in values], _part(spec, i, name), f"{name}[{i}]") for i in range(len(first))]
        return type(first)(*made) if hasattr(first, "_fields") else type(first)(made)
    if any(one != first for one in values[1:]):
        raise ValueError(f"pipelining: {name} of the microbatches differs: {first!r} and others")
    return first


def detached(value: Any) -> Any:
    """Return a nested value with its tensors detached."""
    return map_tensors(lambda tensor: tensor.detach(), value)
