"""Calls of a module with other parameters and buffers in place of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    """Call ``module(*args, **kwargs)`` with some of its parameters and buffers replaced during the call.

    Parameters
    ----------
    module : Module
        Module to call.
    parameters_and_buffers : mapping
        Tensors by dotted name. The module's own tensors are used for other names. A name that the module does not have
        becomes an attribute during the call.
    args : optional
        Arguments: a tuple, a single value, or None for no arguments.
    kwargs : mapping, optional
        Keyword arguments.
    tie_weights : bool
        If a tensor has several names in the module, replace it under all of them. Default True.
    strict : bool
        Require that the names are exactly those of the module. Default False.

    Returns
    -------
    object
        Result of the call.

    Raises
    ------
    RuntimeError
        If ``strict`` and the names differ.
    AttributeError
        If a name belongs to a submodule that does not exist.
    ValueError
        If several names of a tied tensor are given different tensors.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.nn.utils.stateless import functional_call
    >>> layer = mt.nn.Linear(2, 1, bias=False, device="cpu")
    >>> functional_call(layer, {"weight": mt.ones(1, 2, device="cpu")}, mt.ones(3, 2, device="cpu")).flatten()
    tensor([2., 2., 2.])
    """
    modules = dict(_named_modules(module))
    own = {
        (f"{path}.{name}" if path else name): (members, name)
        for path, child in modules.items()
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
    for name in unexpected:
        if name.rpartition(".")[0] not in modules:
            raise AttributeError(f"functional_call: {type(module).__name__} has no submodule for {name!r}")
        own[name] = vars(modules[name.rpartition(".")[0]]), name.rpartition(".")[2]
    before = {name: own[name][0].get(own[name][1], _ABSENT) for name in replacements}
    try:
        for name, tensor in replacements.items():
            members, key = own[name]
            members[key] = tensor
        given = () if args is None else args if isinstance(args, tuple) else (args,)
        return module(*given, **(kwargs or {}))
    finally:
        for name, tensor in before.items():
            members, key = own[name]
            if tensor is _ABSENT:
                del members[key]
            else:
                members[key] = tensor


_ABSENT: Any = object()


def _named_modules(module: Module, path: str = "", above: tuple[Module, ...] = ()) -> Iterator[tuple[str, Module]]:
    """Yield all submodules under each of their names. A module that contains itself is not entered again."""
    yield path, module
    for name, child in module._modules.items():
        if child is not None and child is not module and child not in above:
            yield from _named_modules(child, f"{path}.{name}" if path else name, (*above, module))


def _for_ties(own: dict[str, Any], given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the replacements. Those for a tied tensor are repeated under all of its names."""
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
