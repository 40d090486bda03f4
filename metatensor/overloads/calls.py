"""Conversion of arguments between metatensor's operators and the signatures of PyTorch's dispatcher."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from metatensor._core.op import registry
from metatensor._core.schema import parse
from metatensor._core.tensor import Tensor
from metatensor.overloads.names import ONLY_TENSOR

__all__ = ["DIFFERENT", "TRANSLATED", "matched", "own_arguments", "run", "special", "translated"]

_ABSENT = object()
_TYPES = (("Tensor|Scalar", "Tensor"), ("memory_format", "MemoryFormat"), ("generator", "Generator"), ("dtype", "ScalarType"),
          ("device", "Device"), ("layout", "Layout"))  # fmt: skip


@cache
def _declared(text: str) -> list[Any]:
    return list(parse(text).arguments)


def translated(text: str, name: str, variant: int) -> str:
    """Return a schema of metatensor in the dispatcher's notation.

    If `variant` is 1, mark its first argument as mutated.
    """
    _, bracket, rest = text.partition("(")
    for ours, theirs in _TYPES:
        rest = re.sub(rf"(?<![\w]){re.escape(ours)}(?=[?\[\s(])", theirs, rest)
    if variant == 1:
        rest = re.sub(r"^Tensor\b(\([^)]*\))?", "Tensor(a!)", rest, count=1)
        rest = re.sub(r"-> .*$", "-> Tensor(a!)", rest)
    return f"{name}{bracket}{rest}"


# From a call of metatensor's operator to a signature ------------------------------------------------


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex))


def _fitting(kind: str, count: int | None, value: Any, numbers: bool) -> Any:
    """Convert `value` to an argument of type `kind`.

    Return _ABSENT if it does not fit. If `numbers`, accept numbers for tensors.
    """
    if value is None:
        return None if kind.endswith("?") else _ABSENT
    kind = kind.rstrip("?")
    base, _, rest = kind.partition("[")
    if rest:
        if isinstance(value, (list, tuple)):
            parts = [_fitting(base, None, part, numbers) for part in value]
            return _ABSENT if any(part is _ABSENT for part in parts) else parts
        if count and base == "int" and isinstance(value, int) and not isinstance(value, bool):
            return [value] * count
        return _ABSENT
    if base == "Tensor":
        fits = isinstance(value, Tensor) or (numbers and _is_number(value))
    elif base == "Scalar":
        fits = _is_number(value)
    elif base == "int":
        fits = isinstance(value, int) and not isinstance(value, bool)
    elif base == "float":
        fits = isinstance(value, (int, float)) and not isinstance(value, bool)
        value = float(value) if fits else value
    elif base == "bool":
        fits = isinstance(value, bool)
    elif base == "str":
        fits = isinstance(value, str)
    else:
        fits = not isinstance(value, (Tensor, list, tuple, str)) and not _is_number(value)
    return value if fits else _ABSENT


def _pairs(arguments: list[Any], names: tuple[str, ...], by_place: bool = True) -> dict[str, str]:
    """Map the arguments of a signature to those of metatensor by name. If `by_place`, map the others by position."""
    ours = set(names)
    found = {a.name: a.name for a in arguments if a.name in ours}
    if not by_place:
        if names and arguments and arguments[0].name == "self" and "self" not in found:
            found["self"] = names[0]
        return found
    left = [name for name in names if name not in found.values()]
    for place, argument in enumerate(arguments):
        if argument.name not in found and place < len(names) and names[place] in left and not argument.kwarg_only:
            found[argument.name] = names[place]
    return found


@lru_cache(4096)
def _pairing(target: Any, overload: Any) -> tuple[list[Any], dict[str, str], frozenset[str]]:
    """Return the arguments of an overload other than ``out``, metatensor's for them by name, and the names of all of the latter."""
    arguments = [a for a in target._schema.arguments if not a.is_out]
    pairs = _pairs(arguments, overload.argument_names)
    return arguments, pairs, frozenset((*pairs.values(), "inplace"))


def matched(
    target: Any, op: Any, overload: Any, values: dict[str, Any], given: set[str], out: Any
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Convert a call's arguments to those of the overload `target`: (args, kwargs), or None if they do not fit."""
    name = target.overloadpacket.__name__
    only_tensor = name in ONLY_TENSOR or name == "rsub" and target._overloadname == "Tensor"
    if name in ONLY_TENSOR and target._overloadname.startswith("Scalar"):
        return None
    schema = target._schema
    arguments, pairs, known = _pairing(target, overload)
    if not given <= known:
        return None
    makes = not any(isinstance(value, Tensor) for value in values.values())
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    last = 0
    for argument in arguments:
        ours = pairs.get(argument.name)
        value = values.get(ours, _ABSENT) if ours is not None else _ABSENT
        explicit = ours in given or (ours == "device" and makes)
        if argument.name == "pin_memory" and name != "_to_copy" and value in (_ABSENT, None, False):
            value, explicit = False, True
        if value is _ABSENT or (not explicit and argument.has_default_value()):
            if not argument.has_default_value():
                return None
            value = argument.default_value
        elif value is not None or not argument.has_default_value():
            numbers = only_tensor or (name == "floor_divide")
            value = _fitting(argument.type, argument.N, value, numbers)
            if value is _ABSENT:
                return None
        same = argument.has_default_value() and type(value) is type(argument.default_value) and value == argument.default_value
        if argument.kwarg_only:
            if not same and value is not None:
                kwargs[argument.name] = value
        else:
            args.append(value)
            last = last if same else len(args)
    if out is not None:
        outs = [a.name for a in schema.arguments if a.is_out]
        parts = [out] if isinstance(out, Tensor) else list(out)
        if len(outs) != len(parts):
            return None
        kwargs.update(zip(outs, parts, strict=True))
    return tuple(args[:last]), kwargs


def own_arguments(overload: Any, values: dict[str, Any], given: set[str], out: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Convert a call's arguments to positional and keyword arguments of metatensor's own schema."""
    args: list[Any] = []
    last = 0
    keywords = {a.name for a in _declared(overload.text) if a.kwonly}
    kwargs = {name: value for name, value in values.items() if name in keywords and name in given}
    for name in overload.argument_names:
        if name not in keywords:
            args.append(values[name])
            last = len(args) if name in given else last
    if out is not None:
        kwargs["out"] = out
    return tuple(args[:last]), kwargs


# Operators that have another name or other arguments in the dispatcher ---------------------------------

TRANSLATED = {"_local_scalar_dense": "item"}


def special(name: str, values: dict[str, Any], given: set[str]) -> tuple[str, str, tuple[Any, ...]] | None:
    """Return (name, overload, arguments) for a call that PyTorch dispatches to a different operator, else None."""
    if name in ("softmax", "log_softmax", "nn.functional.softmax", "nn.functional.log_softmax"):
        if values.get("dtype") is None and values.get("dim") is not None:
            return "_" + name.rpartition(".")[2], "default", (values["input"], values["dim"], False)
    elif name in ("nn.functional.conv1d", "nn.functional.conv2d", "nn.functional.conv3d"):
        n = int(name[-2])
        if values["input"].dim() == n + 2 and not isinstance(values["padding"], str):
            numbers = [_times(values[key], n) for key in ("stride", "padding", "dilation")]
            return "convolution", "default", (
                values["input"], values["weight"], values["bias"], *numbers, False, [0] * n, values["groups"])  # fmt: skip
    elif name == "square":
        return "pow", "Tensor_Scalar", (values["input"], 2)
    elif name == "matmul" and values["input"].dim() == values["other"].dim() == 2:
        return "mm", "default", (values["input"], values["other"])
    elif name == "nn.functional.embedding" and values["max_norm"] is None:
        padding = -1 if values["padding_idx"] is None else values["padding_idx"]
        options: tuple[Any, ...] = (padding, values["scale_grad_by_freq"], values["sparse"])
        while options and options[-1] in (-1, False) and type(options[-1]) is type((-1, False, False)[len(options) - 1]):
            options = options[:-1]
        return "embedding", "default", (values["weight"], values["input"], *options)
    elif name in ("_index_put_", "_index_put_accumulate_"):
        last = (True,) if "accumulate" in name else ()
        return "index_put_", "default", (values["input"], _spread(values), values["values"], *last)
    elif name == "_index":
        return "index", "Tensor", (values["input"], _spread(values))
    return None


def _times(value: Any, n: int) -> list[int]:
    if isinstance(value, int):
        return [value] * n
    return list(value) if len(value) == n else list(value) * n


def _spread(values: dict[str, Any]) -> list[Any]:
    """Return a list with each index tensor at the position of its dimension, and None in the gaps."""
    places: list[Any] = [None] * (max(values["dims"]) + 1)
    for dim, index in zip(values["dims"], values["indices"], strict=True):
        places[dim] = index
    return places


def _softmax(input: Any, dim: int, half_to_float: bool) -> Any:
    return registry["softmax"](input, dim, dtype=_float32(half_to_float))


def _log_softmax(input: Any, dim: int, half_to_float: bool) -> Any:
    return registry["log_softmax"](input, dim, dtype=_float32(half_to_float))


def _float32(wanted: bool) -> Any:
    from metatensor import float32

    return float32 if wanted else None


def _index(input: Any, indices: Any) -> Any:
    return input[tuple(slice(None) if index is None else index for index in indices)]


def _index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    return input.index_put_(tuple(indices), values, accumulate)


def _embedding(weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False) -> Any:
    padding = None if padding_idx == -1 else padding_idx
    return registry["nn.functional.embedding"](indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


def max_unpool(self: Any, indices: Any, output_size: Any, stride: Any = (), padding: Any = ()) -> Any:
    """Return the values at their indices in zeros, given the sizes of the planes."""
    start = self.dim() - len(output_size)
    made = self.new_zeros((*self.shape[:start], math.prod(output_size)))
    return made.scatter_(start, indices.flatten(start), self.flatten(start)).reshape((*self.shape[:start], *output_size))


def fractional_max_pool(self: Any, kernel_size: Any, output_size: Any, random_samples: Any) -> Any:
    """Return the maxima of windows at random positions, and their indices."""
    pool = registry[f"nn.functional.fractional_max_pool{len(kernel_size)}d"]
    return pool(self, tuple(kernel_size), tuple(output_size), return_indices=True, _random_samples=random_samples)


# Operators of PyTorch whose signatures differ from those of the operators that compute them here.
DIFFERENT: dict[str, Callable[..., Any]] = {
    "_softmax": _softmax, "_log_softmax": _log_softmax, "index": _index, "index_put_": _index_put, "embedding": _embedding,
    "max_unpool2d": max_unpool, "max_unpool3d": max_unpool,
    "fractional_max_pool2d": fractional_max_pool, "fractional_max_pool3d": fractional_max_pool,
}  # fmt: skip


# From a signature to a call of metatensor's operator ---------------------------------------------------


@lru_cache(4096)
def _naming(target: Any, overload: Any) -> tuple[dict[str, str], frozenset[str]]:
    """Return metatensor's names of an overload's arguments where they are known, and the names that it requires."""
    pairs = _pairs(target._schema.arguments, overload.argument_names, by_place=False)
    return pairs, frozenset(a.name for a in _declared(overload.text) if a.required)


def run(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the operator of metatensor that computes an overload. The arguments follow the signature of the overload."""
    packet = target.overloadpacket
    op = packet._op
    if packet.namespace != "aten":
        return op(*args, **kwargs)
    bound, outs = _bound(target, args, kwargs)
    special_run = DIFFERENT.get(packet.__name__)
    if special_run is not None and not outs:
        return special_run(*bound.values())
    positional = [bound[a.name] for a in target._schema.arguments if a.name in bound and not a.kwarg_only]
    keywords = {a.name: bound[a.name] for a in target._schema.arguments if a.name in bound and a.kwarg_only}
    for overload in op.overloads:
        pairs, required = _naming(target, overload)
        named = {pairs.get(name): value for name, value in bound.items()}
        if None not in named and required <= named.keys():
            positional, keywords = [], named
            break
    if outs:
        keywords["out"] = outs[0] if len(outs) == 1 else tuple(outs)
    return op(*positional, **keywords)


def _bound(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Return the passed arguments by name, and the ``out`` arguments. Omit keyword-only arguments that are None."""
    schema = target._schema
    places = [a for a in schema.arguments if not a.kwarg_only]
    if len(args) > len(places):
        raise TypeError(f"{target.name()}() takes {len(places)} positional arguments but {len(args)} were given")
    found = {a.name: value for a, value in zip(places, args, strict=False)}
    known = {a.name: a for a in schema.arguments}
    for name, value in kwargs.items():
        if name not in known:
            raise TypeError(f"{target.name()}() got an unexpected keyword argument {name!r}")
        if name in found:
            raise TypeError(f"{target.name()}() got multiple values for argument {name!r}")
        found[name] = value
    for argument in schema.arguments:
        if argument.name not in found and not argument.has_default_value():
            raise TypeError(f"{target.name()}() is missing the argument {argument.name!r}")
    outs = [found.pop(a.name) for a in schema.arguments if a.is_out and a.name in found]
    for argument in schema.arguments:
        value = found.get(argument.name, _ABSENT)
        if isinstance(value, bool) and argument.type.rstrip("?") in ("int", "SymInt"):
            found[argument.name] = int(value)  # the dispatcher accepts True as 1, torch's functions do not
        if argument.kwarg_only and (value is None or (argument.name == "pin_memory" and not value)):
            found.pop(argument.name, None)
    return found, outs
