"""Random operators under `vmap`. They draw the numbers of all members with one call, or numbers that the members share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor._core.dispatch import bound_arguments
from metatensor._core.tensor import Tensor
from metatensor.func import _tree
from metatensor.func._batched import Level, NoBatch, by_body, by_parts, by_rule, wrap, writes
from metatensor.func._rules import RULES, each, expanded, is_batch

__all__ = ["drawn", "drawn_by_all"]

# Operators that fill their first argument, or return a tensor like it, with numbers that do not depend on its values.
_FILLING = frozenset((
    "normal_", "uniform_", "exponential_", "cauchy_", "geometric_", "log_normal_", "bernoulli_", "random_", "rand_like", "randn_like",
    "randint_like",
))  # fmt: skip
# Operators whose numbers belong to the elements or rows of their first argument.
_BY_ELEMENT = _FILLING | {
    "bernoulli", "poisson", "dropout", "nn.functional.dropout", "native_dropout", "nn.functional.alpha_dropout", "alpha_dropout",
    "rrelu", "nn.functional.rrelu", "normal", "_standard_gamma", "_sample_dirichlet",
}  # fmt: skip

_RULES: dict[str, Callable[[Any, Level, dict[str, Any]], Any]] = {}


def _rule(names: str) -> Callable[[Any], Any]:
    def register(function: Any) -> Any:
        _RULES.update(dict.fromkeys(names.split(), function))
        return function

    return register


# Calls with batched arguments -----------------------------------------------------------------------------------------------


def drawn(func: Any, level: Level, args: tuple[Any, ...], kwargs: dict[str, Any], mutated: Any) -> Any:
    """Run a random operator with batched arguments."""
    way = _apart if level.randomness == "different" else _shared
    result = way(func, level, args, kwargs)
    if result is NotImplemented and func.functional.name in _RULES:
        found = bound_arguments(func, args, kwargs)
        result = NotImplemented if found is None else _RULES[func.functional.name](func, level, found[1])
    if result is NotImplemented and func.variant == 1:
        result = func.functional(*args, **kwargs)
    elif result is NotImplemented:
        result = by_body(func, level, args, kwargs, None)
        result = by_parts(func, level, args, kwargs, None) if result is NotImplemented else result
        if kwargs.get("inplace") and isinstance(result, Tensor) and result is not args[0]:
            mutated = args[0]
    if mutated is not None and isinstance(result, Tensor) and result is not mutated:
        mutated.copy_(result)
    return result if mutated is None or result is NotImplemented else mutated


def _inside(level: Level, call: Callable[[], Any]) -> Any:
    """Make a call whose random operators draw for all members."""
    level.inside_member += 1
    try:
        return call()
    finally:
        level.inside_member -= 1


def _apart(func: Any, level: Level, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Draw different numbers for the members with one call."""
    if not args or not level.size:
        return NotImplemented
    first, others = args[0], _tree.flatten([args[1:], kwargs])
    if func.functional.name not in _BY_ELEMENT:
        if func.functional.name not in RULES:
            return NotImplemented
        # The rules of other operators compute with all members at once, so each member gets its own random numbers.
        return _inside(level, lambda: by_rule(func, level, args, kwargs, None))
    if not is_batch(first, level) or any(isinstance(x, Tensor) for x in others):
        return NotImplemented
    result = _inside(level, lambda: func(first.value, *args[1:], **kwargs))
    return first if func.variant or writes(func) else each(result, level)


def _shared(func: Any, level: Level, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Draw numbers once, for one member."""
    if func.name not in _FILLING or not is_batch(args[0], level) or any(isinstance(x, Tensor) for x in _tree.flatten([args[1:], kwargs])):
        return NotImplemented
    x = args[0]
    one = mt.empty(x.shape, dtype=x.dtype, device=x.device)
    made = _inside(level, lambda: func(one, *args[1:], **kwargs))
    return x.copy_(made) if writes(func) else wrap(made.unsqueeze(0).expand(level.size, *made.shape).clone(), level)


def _refuse_shared(func: Any, level: Level) -> None:
    if level.randomness == "same":
        raise NoBatch(f"vmap: {func.name} of values that differ between members of the batch cannot draw the same numbers for all; "
                      "use randomness='different'")


@_rule("bernoulli")
def _bernoulli(func: Any, level: Level, given: dict[str, Any]) -> Any:
    x, p = given["input"], given.get("p")
    p = x if p is None else p
    return (mt.rand(x.shape, dtype=mt.float64, device=x.device, generator=given["generator"]) < p).to(x.dtype)


@_rule("bernoulli_")
def _bernoulli_in_place(func: Any, level: Level, given: dict[str, Any]) -> Any:
    x = given["input"]
    return x.copy_(mt.rand(x.shape, dtype=mt.float64, device=x.device, generator=given["generator"]) < given["p"])


@_rule("normal")
def _normal(func: Any, level: Level, given: dict[str, Any]) -> Any:
    mean, std = given["mean"], given["std"]
    tensors = [x for x in (mean, std) if isinstance(x, Tensor)]
    shape = mt.broadcast_shapes(*(x.shape for x in tensors))
    dtype = mt.promote_types(tensors[0].dtype, tensors[-1].dtype)
    return (mt.randn(shape, dtype=dtype, device=tensors[0].device, generator=given["generator"]) * std + mean).to(dtype)


@_rule("multinomial")
def _multinomial(func: Any, level: Level, given: dict[str, Any]) -> Any:
    x, count = given["input"], given["num_samples"]
    _refuse_shared(func, level)
    rows = x.value.flatten(0, -2)
    made = _inside(level, lambda: func(rows, count, given["replacement"], generator=given["generator"]))
    return wrap(made.reshape(level.size, *x.shape[:-1], count), level)


@_rule("poisson _standard_gamma _sample_dirichlet")
def _by_rates(func: Any, level: Level, given: dict[str, Any]) -> Any:
    _refuse_shared(func, level)
    return NotImplemented


@_rule("binomial")
def _binomial(func: Any, level: Level, given: dict[str, Any]) -> Any:
    _refuse_shared(func, level)
    count, prob = mt.broadcast_tensors(given["count"], given["prob"])
    return wrap(_inside(level, lambda: func(expanded(count, level), expanded(prob, level), given["generator"])), level)


@_rule("native_dropout")
def _native_dropout(func: Any, level: Level, given: dict[str, Any]) -> Any:
    x, p = given["input"], given["p"]
    kept = mt.empty_like(x).bernoulli_(1 - p)
    return x * kept * (0 if p == 1 else 1 / (1 - p)), kept != 0


@_rule(" ".join(f"nn.functional.fractional_max_pool{n}d{end}" for n in (2, 3) for end in ("", "_with_indices")))
def _fractional_pool(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Draw the samples of a member's images, then pool those of all members."""
    x = given["input"]
    n = int(func.name.removesuffix("_with_indices")[-2])
    several = x.dim() == n + 2
    samples = given["_random_samples"]
    if samples is None:
        samples = mt.rand((x.shape[0] if several else 1, x.shape[-n - 1], n), dtype=x.dtype, device=x.device)
    whole = [expanded(y, level) for y in (x, samples)]
    images, draws = [y.flatten(0, 1) for y in whole] if several else (whole[0], whole[1].flatten(0, 1))
    result = _inside(level, lambda: func(**{**given, "input": images, "_random_samples": draws}))
    return each(result, level, lambda y: y.unflatten(0, (level.size, -1)) if several else y)


# Calls without batched arguments ----------------------------------------------------------------------------------------------


def drawn_by_all(op: Any, level: Level, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Draw different numbers for the members with a call that has no batched arguments."""
    found = bound_arguments(op, args, kwargs)
    given = {} if found is None else found[1]
    name, size = op.name, given.get("size")
    if kwargs.get("out") is None and size is not None and name in ("rand", "randn", "randint", "normal"):
        shape = (size,) if isinstance(size, int) else tuple(size)
        return wrap(op(**{**given, "size": (level.size, *shape)}), level)
    if name == "randperm" and kwargs.get("out") is None:
        order = mt.rand((level.size, given["n"]), device=given["device"], generator=given["generator"]).argsort(1)
        return wrap(order.to(given["dtype"] or mt.int64), level)
    at = next((i for i, x in enumerate(args) if isinstance(x, Tensor)), None)
    if at is None or kwargs.get("out") is not None:
        return NotImplemented
    return op(*args[:at], wrap(expanded(args[at], level), level), *args[at + 1 :], **kwargs)
