"""`implicit_replication`, functions on parts, and context parallelism."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from metatensor.distributed.tensor._dtensor import DTensor
from metatensor.distributed.tensor._planning import implicit_replication
from metatensor.distributed.tensor.experimental._context_parallel import context_parallel, ring_attention, ulysses_attention

__all__ = ["context_parallel", "implicit_replication", "local_map", "ring_attention", "ulysses_attention"]


def local_map(
    func: Callable[..., Any] | None = None, out_placements: Any = None, in_placements: Any = None, in_grad_placements: Any = None,
    device_mesh: Any = None, *, redistribute_inputs: bool = False,
) -> Any:  # fmt: skip
    """Return a function that calls ``func`` on the parts of distributed tensors and distributes its results.

    Parameters
    ----------
    func : callable
        Receives plain tensors. Without it, return a decorator.
    out_placements : sequence of Placement, or a tuple of these
        Placements of the result, or of each result. None for a result that is not a tensor.
    in_placements : tuple of (sequence of Placement or None), optional
        Placements that each argument must have. None for an argument that is not a distributed tensor.
    in_grad_placements : tuple of (sequence of Placement or None), optional
        Placements of the gradients of the arguments.
    device_mesh : DeviceMesh, optional
        Default: the mesh of the first distributed argument.
    redistribute_inputs : bool
        Redistribute arguments with other placements instead of raising an error.

    Raises
    ------
    ValueError
        If an argument has other placements than ``in_placements`` says.
    """
    if func is None:
        return functools.partial(
            local_map, out_placements=out_placements, in_placements=in_placements, in_grad_placements=in_grad_placements,
            device_mesh=device_mesh, redistribute_inputs=redistribute_inputs,
        )  # fmt: skip

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        mesh, parts = device_mesh, []
        for position, one in enumerate(args):
            if isinstance(one, DTensor):
                mesh = mesh or one.device_mesh
                wanted = None if in_placements is None else in_placements[position]
                if wanted is not None and tuple(wanted) != one.placements:
                    if not redistribute_inputs:
                        raise ValueError(f"local_map: argument {position} is placed {one.placements}; in_placements says {tuple(wanted)}")
                    one = one.redistribute(placements=wanted)
                one = one.to_local(grad_placements=None if in_grad_placements is None else in_grad_placements[position])
            parts.append(one)
        result = func(*parts, **kwargs)
        if mesh is None:
            return result
        several = isinstance(result, (tuple, list))
        places = tuple(out_placements) if several else (out_placements,)
        found = [value if place is None else DTensor.from_local(value, mesh, place) for value, place in
                 zip(result if several else (result,), places)]  # fmt: skip
        return type(result)(found) if several else found[0]

    return run
