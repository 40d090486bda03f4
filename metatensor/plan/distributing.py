"""`distribute_parameters`: parameters of a module as distributed tensors, without communication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import metatensor as mt
from metatensor.distributed.tensor import DTensor, Replicate, distribute_tensor
from metatensor.nn.modules.module import Module

__all__ = ["distribute_parameters"]


def distribute_parameters(module: Module, mesh: Any, placements: Mapping[str, Sequence[Any]]) -> Module:
    """Replace parameters by distributed ones, each rank keeping its part of the whole tensor that it has. Nothing is sent.

    Parameters
    ----------
    module : Module
        The module, with the same values on each rank. It is changed. Tied parameters stay tied; those that are distributed already
        stay as they are.
    mesh : DeviceMesh
        The ranks.
    placements : dict of str to sequence of Placement
        A placement for each dimension of the mesh, by name of the parameter. Other parameters are replicated.

    Returns
    -------
    Module
        The module itself.

    Raises
    ------
    ValueError
        If the module has no parameter of a name, a placement does not fit, or names of one parameter have different placements.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributed.tensor import Shard, init_device_mesh
    >>> mesh = init_device_mesh("meta", (2,))
    >>> with mt.device("meta"):
    ...     linear = mt.nn.Linear(4, 6)
    >>> linear = mt.plan.distribute_parameters(linear, mesh, {"weight": [Shard(0)]})
    >>> tuple(linear.weight.to_local().shape), tuple(linear.bias.to_local().shape)
    ((3, 4), (6,))
    >>> mt.distributed.destroy_process_group()
    """
    wanted: dict[int, tuple[str, tuple[Any, ...]]] = {}
    named = dict(module.named_parameters(remove_duplicate=False))
    for name, where in placements.items():
        if name not in named:
            raise ValueError(f"distribute_parameters: {type(module).__name__} has no parameter {name!r}")
        first, known = wanted.setdefault(id(named[name]), (name, tuple(where)))
        if known != tuple(where):
            raise ValueError(f"distribute_parameters: {first} and {name} are one parameter, which cannot be placed both as {known} "
                             f"and as {tuple(where)}")  # fmt: skip
    made: dict[int, Any] = {}
    owners = [(child, name, p) for child in module.modules() for name, p in child._parameters.items() if p is not None]
    for child, name, p in owners:
        if isinstance(p, DTensor) or isinstance(p.data, DTensor):
            continue
        if id(p) not in made:
            where = wanted[id(p)][1] if id(p) in wanted else (Replicate(),) * mesh.ndim
            local = distribute_tensor(p.detach(), mesh, where, src_data_rank=None)
            made[id(p)] = mt.nn.Parameter(local, requires_grad=p.requires_grad)
        child._parameters[name] = made[id(p)]
    return module
