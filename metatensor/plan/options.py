"""Checks of the options of `search`: each message names the option and what it may be."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Collection, Sequence
from typing import Any

from metatensor._core.dtype import DType
from metatensor.devices.topologies import Topology

__all__ = ["check_names", "check_options"]

NUMBERS = ("tensor", "pipeline", "micro_batches", "context", "expert", "virtual_stages")
"""Options that are lists of positive integers."""
WORDS = ("precision", "recompute", "schedules", "offload", "kernels")
"""Options that are lists of names."""
EXAMPLES = {"precision": "bf16-master", "recompute": "full", "schedules": "1F1B", "offload": "none", "kernels": "activation"}


def check_options(given: dict[str, Any]) -> None:
    """Check kinds of values and ranges of numbers of the arguments of a search. Names are checked where their tables are.

    Raises
    ------
    TypeError
        If an option is of another kind.
    ValueError
        If a number is out of range, or a list is empty.
    """
    for name in NUMBERS:
        if given.get(name) is not None:
            _check_list(name, given[name], "integers of at least 1", lambda one: type(one) is int and one >= 1, 2)
    _check_list("shard", given["shard"], "integers from 0 to 3", lambda one: type(one) is int, 2)
    _check_list("sequence", given["sequence"], "True and False", lambda one: type(one) is bool, True)
    for name in WORDS:
        if not (name == "precision" and isinstance(given[name], str)) and not (name == "kernels" and given[name] in ((), [])):
            _check_list(name, given[name], "names", lambda one: isinstance(one, str), EXAMPLES[name])
    for name, least in (("global_batch", 1), ("keep", 1), ("max_memory", 0)):
        value = given[name]
        if value is None and name != "global_batch":
            continue
        if type(value) is not int:
            raise TypeError(f"search: {name} must be an integer, got {value!r}")
        if value < least:
            raise ValueError(f"search: {name} must be at least {least}, got {value}")
    if type(given["headroom"]) not in (int, float):
        raise TypeError(f"search: headroom must be a number from 0 to 1, got {given['headroom']!r}")
    if not isinstance(given["devices"], (str, Topology)) and not hasattr(given["devices"], "__fspath__"):
        raise TypeError(f"search: devices must be a text such as '8xH100', or a Topology, got {given['devices']!r}")
    if not isinstance(given["optimizer"], str) and not callable(given["optimizer"]):
        raise TypeError(f"search: optimizer must be a name such as 'adamw', or a function of parameters, got {given['optimizer']!r}")
    if given["loss"] is not None and not callable(given["loss"]):
        raise TypeError(f"search: loss must be a function of the output, got {given['loss']!r}")
    if given["gradient_dtype"] is not None and not isinstance(given["gradient_dtype"], DType):
        raise TypeError(f"search: gradient_dtype must be a dtype such as metatensor.float32, got {given['gradient_dtype']!r}")


def _check_list(name: str, values: Any, what: str, right: Any, example: Any) -> None:
    if isinstance(values, (str, bytes)) or not isinstance(values, Collection):
        shown = example if not right(values) else values
        raise TypeError(f"search: {name} must be a list of {what}, such as [{shown!r}], got {values!r}")
    if not values:
        raise ValueError(f"search: {name} is an empty list; name at least one value, or leave it out")
    for value in values:
        if not right(value):
            raise ValueError(f"search: {name} must be a list of {what}, got {value!r} in it")


def check_names(model: Any, kwargs: dict[str, Any], options: Sequence[str]) -> None:
    """Raise TypeError if the model takes no argument of a name that may be meant for an option."""
    parameters = inspect.signature(model.forward).parameters
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        return
    for name in kwargs:
        if name not in parameters:
            near = difflib.get_close_matches(name, [*options, *parameters], 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise TypeError(f"search: there is no option {name!r}, and {type(model).__name__} takes no such argument{hint}")
