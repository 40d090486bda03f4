"""Temporary replacement of an optimizer's parameters and state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import metatensor as mt
from metatensor.optim.optimizer import Optimizer

__all__ = ["swap_in_optimizer_params_and_state"]


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, mt.Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Replace the parameters and the state of an optimizer inside a ``with`` block.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer to change.
    swapin_parameters : dict
        Parameters by name, in the order of the optimizer's own.
    swapin_optim_state : dict
        A `state_dict` for these parameters. Its tensors are not copied, so a step in the block changes them.

    Raises
    ------
    ValueError
        If the number of parameters differs from the optimizer's.
    """
    groups, state = optimizer.param_groups, optimizer.state
    replacements = list(swapin_parameters.values())
    count = sum(len(group["params"]) for group in groups)
    if len(replacements) != count:
        raise ValueError(f"swap_in_optimizer_params_and_state: got {len(replacements)} parameters, but the optimizer has {count}")
    swapped: defaultdict[Any, Any] = defaultdict(dict)
    swapped.update({replacements[i]: dict(kept) for i, kept in swapin_optim_state["state"].items()})
    optimizer.state = swapped
    optimizer.param_groups = [
        {**group, "params": [replacements[i] for i in group["params"]]} for group in swapin_optim_state["param_groups"]
    ]
    try:
        yield
    finally:
        optimizer.param_groups, optimizer.state = groups, state
