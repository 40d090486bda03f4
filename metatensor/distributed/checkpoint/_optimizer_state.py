"""States of optimizers: their initial state, and their flat form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import metatensor as mt

__all__ = ["flattened", "initialize", "unflattened"]

_NAME = "torch.distributed.checkpoint.state_dict"


def initialize(optimizer: Any) -> None:
    """Let an optimizer that has no state and no gradients make a step that changes nothing, so that its state exists."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if optimizer.state or any(p.grad is not None for p in parameters):
        return
    for p in parameters:
        if p.requires_grad:
            p.grad = mt.zeros_like(p)
    rates = [group.get("lr") for group in optimizer.param_groups]
    for group, rate in zip(optimizer.param_groups, rates):
        if rate is not None:
            group["lr"] = mt.zeros_like(rate) if isinstance(rate, mt.Tensor) else 0.0
    try:
        optimizer.step(closure=None)
    finally:
        for group, rate in zip(optimizer.param_groups, rates):
            if rate is not None:
                group["lr"] = rate
        optimizer.zero_grad(set_to_none=True)


def flattened(state_dict: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state dict with names as a flat one: ``state.<name>.<key>`` and ``param_groups.<name>.<key>``.

    Raise NotImplementedError for states that are neither tensors nor numbers.
    """
    found = {}
    for name, state in state_dict["state"].items():
        for path, value in _leaves(f"state.{name}", state):
            if not isinstance(value, (mt.Tensor, int, float)):
                raise NotImplementedError(f"{_NAME}: a flat state dict of an optimizer holds tensors and numbers, and {path!r} is of type "
                                          f"{type(value).__name__}")
            found[path] = value
    for group in state_dict["param_groups"]:
        for name in group["params"]:
            found.update({f"param_groups.{name}.{key}": value for key, value in group.items() if key != "params"})
    return found


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _leaves(f"{path}.{key}", one)
    else:
        yield path, value


def unflattened(flat: Mapping[str, Any], optimizer: Any, order: list[str]) -> dict[str, Any]:
    """Return the entries of a flat state dict that belong to an optimizer, as a state dict with names.

    ``order`` has the names of its parameters. Raise RuntimeError if the parameters of one group have different values.
    """
    own = optimizer.state_dict()
    state: dict[str, Any] = {}
    by_name: dict[str, dict[str, Any]] = {name: {} for name in order}
    for key, value in flat.items():
        kind, _, rest = key.partition(".")
        name = next((rest[:at] for at in _dots(rest) if rest[:at] in by_name), None)
        if name is None:
            continue
        if kind == "state":
            _put(state.setdefault(name, {}), rest[len(name) + 1 :].split("."), value)
        else:
            by_name[name][rest[len(name) + 1 :]] = value
    groups = []
    for group in own["param_groups"]:
        names = [order[position] for position in group["params"]]
        values: dict[str, Any] = {}
        for name in names:
            for key, value in by_name[name].items():
                if values.setdefault(key, value) != value:
                    raise RuntimeError(f"{_NAME}: {key} is {values[key]} for {names[0]!r} and {value} for {name!r}, which are in one group")
        groups.append({**values, "params": names if values else []})
    return {"state": state, "param_groups": groups}


def _dots(text: str) -> Iterator[int]:
    """Yield the positions of dots, the last one first, so that the longest name is found."""
    at = text.rfind(".")
    while at >= 0:
        yield at
        at = text.rfind(".", 0, at)


def _put(place: dict[str, Any], path: list[str], value: Any) -> None:
    for key in path[:-1]:
        place = place.setdefault(key, {})
    place[path[-1]] = value
