"""Calling a module with other parameters and buffers than its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from metatensor import Tensor
from metatensor.nn.module import Module

__all__ = ["functional_call"]


def functional_call(
    module: Module,
    parameters_and_buffers: Mapping[str, Tensor],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """``module(*args, **kwargs)`` with some of its parameters and buffers replaced during the call.

    Args:
        parameters_and_buffers: tensors by dotted name; the module's own stay for names that are not given.
        args: the arguments, a tuple, or one value; None for no arguments.
        tie_weights: whether what the module has under several names is replaced under all of them.
        strict: whether names that only one side has are an error.

    Raises RuntimeError in the strict case, AttributeError for a name that the module does not have, ValueError where
    tied names are given different tensors.
    """
    own = {
        (f"{path}.{name}" if path else name): (members, name)
        for path, child in module.named_modules(remove_duplicate=False)
        for members in (child._parameters, child._buffers)
        for name, tensor in members.items()
        if tensor is not None
    }
    unexpected = [name for name in parameters_and_buffers if name not in own]
    replacements = dict(parameters_and_buffers)
    if tie_weights:
        replacements.update(_for_ties(own, parameters_and_buffers))
    if strict and (unexpected or len(replacements) < len(own)):
        missing = [name for name in own if name not in replacements]
        raise RuntimeError(f"functional_call: missing names {missing}, unexpected names {unexpected}")
    if unexpected:
        raise AttributeError(f"functional_call: {type(module).__name__} has no parameter or buffer {unexpected[0]!r}")
    before = {name: own[name][0][own[name][1]] for name in replacements}
    try:
        for name, tensor in replacements.items():
            members, key = own[name]
            members[key] = tensor
        given = () if args is None else args if isinstance(args, tuple) else (args,)
        return module(*given, **(kwargs or {}))
    finally:
        for name, tensor in before.items():
            members, key = own[name]
            members[key] = tensor


def _for_ties(own: dict[str, Any], given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The other names of tensors of which one name is given."""
    names: dict[int, list[str]] = {}
    for name, (members, key) in own.items():
        names.setdefault(id(members[key]), []).append(name)
    found: dict[str, Tensor] = {}
    for group in names.values():
        values = [given[name] for name in group if name in given]
        if any(value is not values[0] for value in values[1:]):
            raise ValueError(f"functional_call: {group} are one tensor, but are given different ones")
        if values:
            found.update((name, values[0]) for name in group)
    return found
