"""Batching rules, by which operators compute with all members of a batch at once.

`RULES` maps operator names to rules. A rule receives the operator, the level and the arguments, some of which are
batched. It returns batched tensors, or NotImplemented if it does not cover these arguments. In `value`, the batch
dimension comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor._core.dispatch import bound_arguments
from metatensor._core.modes import _disable_modes, _restore_modes
from metatensor._core.tensor import Tensor
from metatensor._core.thread import DisableTorchFunctionSubclass
from metatensor.func import _tree
from metatensor.func._batched import Batched, Level, wrap

__all__ = ["RULES", "broadcast", "each", "expanded", "is_batch", "named", "view", "written"]

Rule = Callable[[Any, Level, tuple[Any, ...], dict[str, Any]], Any]

RULES: dict[str, Rule] = {}


def _rule(names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names.split(), function))
        return function

    return register


def named(names: str) -> Callable[[Callable[[Any, Level, dict[str, Any]], Any]], Callable[[Any, Level, dict[str, Any]], Any]]:
    """Register a rule of functional operators that receives the arguments by name, with their defaults."""

    def register(function: Callable[[Any, Level, dict[str, Any]], Any]) -> Callable[[Any, Level, dict[str, Any]], Any]:
        def rule(func: Any, level: Level, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            found = None if func.variant else bound_arguments(func, args, kwargs)
            return NotImplemented if found is None else function(func, level, found[1])

        RULES.update(dict.fromkeys(names.split(), rule))
        return function

    return register


def is_batch(x: Any, level: Level) -> bool:
    """Return whether `x` is batched at a level."""
    return isinstance(x, Batched) and x.level is level


_is_batch = is_batch


def expanded(x: Any, level: Level) -> Any:
    """Return all members. A tensor that they share is expanded."""
    return x.value if is_batch(x, level) else x.unsqueeze(0).expand(level.size, *x.shape)


def each(result: Any, level: Level, change: Callable[[Any], Any] | None = None) -> Any:
    """Return the results for all members, after `change`, as batched tensors."""
    return _tree.tree_map(lambda y: wrap(y if change is None else change(y), level) if isinstance(y, Tensor) else y, result)


def written(x: Any, level: Level) -> Any:
    """Return a copy of a tensor that each member may change."""
    return x.clone() if is_batch(x, level) else wrap(expanded(x, level).clone(memory_format=mt.contiguous_format), level)


def _value(x: Any, level: Level) -> Any:
    return x.value if _is_batch(x, level) else x


def _plain(func: Any, *args: Any, **kwargs: Any) -> Any:
    """Run the operator on one member to check its arguments.

    Dispatch modes are disabled, so that they do not intercept this call.
    """
    level = _disable_modes()
    try:
        with DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    finally:
        _restore_modes(level)


def _aligned(x: Any, ndim: int, level: Level) -> Any:
    """Return all members, with dimensions of size 1 inserted so that each member has `ndim` dimensions. Return an
    argument that is not batched unchanged."""
    if not _is_batch(x, level):
        return x
    missing = ndim - x.dim()
    return x.value.reshape(x.value.shape[0], *(1,) * missing, *x.shape) if missing > 0 else x.value


def _at_front(x: Any, level: Level, size: int) -> Any:
    """Return all members. A tensor that all members share is expanded along a new first dimension."""
    return x.value if _is_batch(x, level) else x.unsqueeze(0).expand(size, *x.shape)


# Element-wise operators ------------------------------------------------------------------------------------------------

_UNARY = """
    abs absolute neg negative sign sgn conj_physical square reciprocal sqrt rsqrt frac nan_to_num bitwise_not logical_not
    ceil floor trunc fix round exp exp2 expm1 log log2 log10 log1p sigmoid logit sin cos tan asin acos atan sinh cosh tanh
    asinh acosh atanh sinc deg2rad rad2deg arcsin arccos arctan arcsinh arccosh arctanh erf erfc erfinv lgamma digamma i0
    relu nn.functional.relu nn.functional.relu6 nn.functional.leaky_relu nn.functional.elu selu nn.functional.selu celu
    nn.functional.celu nn.functional.gelu nn.functional.silu nn.functional.mish nn.functional.softplus
    nn.functional.logsigmoid nn.functional.sigmoid nn.functional.tanh nn.functional.hardtanh nn.functional.hardswish
    nn.functional.hardsigmoid hardshrink nn.functional.hardshrink nn.functional.softshrink threshold
    nn.functional.threshold nn.functional.softsign nn.functional.tanhshrink isnan isinf isfinite isposinf isneginf isreal
    signbit angle positive real imag special.erf special.expit special.i0 special.entr special.ndtr
    special.airy_ai special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1 special.modified_bessel_i0
    special.modified_bessel_i1 special.modified_bessel_k0 special.modified_bessel_k1 special.scaled_modified_bessel_k0
    special.scaled_modified_bessel_k1 special.spherical_bessel_j0 special.i0e special.i1 special.i1e special.erfcx
    special.log_ndtr special.ndtri mvlgamma tril triu
    clone detach detach_ to float double half bfloat16 int long short bool char byte type _to_copy
    zeros_like ones_like empty_like full_like fill fill_ zero zero_ alias conj resolve_conj resolve_neg
"""
_BROADCAST = """
    add sub mul div floor_divide remainder fmod pow float_power subtract multiply divide true_divide atan2 arctan2 hypot
    complex polar special.zeta special.xlog1py
    xlogy ldexp copysign nextafter heaviside gcd lcm eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and
    bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift not_equal less less_equal greater greater_equal rsub
    maximum minimum fmax fmin clamp clamp_min clamp_max clip lerp addcmul addcdiv logaddexp logaddexp2 isclose masked_fill
    where special.xlogy copy_ igamma igammac
""" + " ".join(
    f" special.{kind}" for kind in (
        "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w",
        "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
        "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
        "shifted_chebyshev_polynomial_w",
    )
)  # fmt: skip


_FORMATS = (None, mt.preserve_format, mt.contiguous_format)


@_rule(_UNARY)
def _unary(func: Any, level: Level, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply an element-wise operator to all members at once. The batch dimension does not affect the results."""
    if any(isinstance(x, Batched) for x in _tree.flatten([args[1:], kwargs])):
        return NotImplemented
    value = args[0].value
    if kwargs.get("memory_format") not in _FORMATS:
        return _formatted(func, level, value, args, kwargs)
    result = func(value, *args[1:], **kwargs)
    return wrap(result, level) if result.shape == value.shape else NotImplemented


def _formatted(func: Any, level: Level, value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply an element-wise operator whose result has, for each member, the strides of a memory format."""
    member = _plain(func, *args, **kwargs)
    strides = (1 + sum((n - 1) * s for n, s in zip(member.shape, member.stride(), strict=True)), *member.stride())
    made = value.new_empty_strided((value.shape[0], *member.shape), strides, dtype=member.dtype, device=member.device)
    if func.name == "empty_like":
        return wrap(made, level)
    return wrap(made.copy_(func(value, *args[1:], **{**kwargs, "memory_format": mt.contiguous_format})), level)


def _promoted(tensors: list[Any]) -> Any:
    """Return the promoted dtype of tensors. 0-d tensors affect it only by their category if there are other tensors."""
    large = [x.dtype for x in tensors if x.dim()] or [tensors[0].dtype]
    dtype = large[0]
    for other in large[1:]:
        dtype = mt.promote_types(dtype, other)
    for x in tensors:
        if not x.dim():
            dtype = mt.result_type(mt.empty((1,), dtype=dtype, device="meta"), mt.empty((), dtype=x.dtype, device="meta"))
    return dtype


@_rule(_BROADCAST)
def broadcast(func: Any, level: Level, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply a broadcasting operator to all members.

    0-d members are converted to the result's dtype first, because the additional dimension of their `value` would
    give them more weight in type promotion.
    """
    tensors = [x for x in _tree.flatten([args, kwargs]) if isinstance(x, Tensor)]
    ndim = max(x.dim() for x in tensors)
    if ndim and any(not x.dim() and _is_batch(x, level) for x in tensors):
        dtype = _promoted(tensors[1:] if func.functional.name in ("where", "masked_fill") else tensors)
        args, kwargs = _tree.tree_map(
            lambda x: x.to(dtype) if _is_batch(x, level) and not x.dim() and x.dtype is not mt.bool else x, [args, kwargs]
        )
    given = _tree.tree_map(lambda x: _aligned(x, ndim, level), [args, kwargs])
    result = func(*given[0], **given[1])
    if result.dim() != ndim + 1:
        return NotImplemented
    return wrap(result, level)


@_rule("new_zeros new_ones new_empty new_full")
def _new(func: Any, level: Level, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Create a tensor for all members, with the shape that the operator gives one member."""
    if any(isinstance(x, Batched) for x in _tree.flatten([args[1:], kwargs])):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        shape = func(args[0], *args[1:], **kwargs).shape
    names = func.overloads[0].argument_names
    given = dict(zip(names, args)) | kwargs | {"size": (args[0].value.shape[0], *shape)}
    value = given.pop(names[0]).value
    return wrap(func(value, **given), level)


@_rule("new_empty_strided")
def _new_strided(func: Any, level: Level, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Create a tensor for all members in which each has the given strides."""
    x, size, strides = args
    extent = 1 + sum((n - 1) * s for n, s in zip(size, strides, strict=True)) if all(size) else 0
    return wrap(func(x.value, (x.value.shape[0], *size), (extent, *strides), **kwargs), level)


# Shapes ----------------------------------------------------------------------------------------------------------------


def view(func: Any, level: Level, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply a view operator to one member, and use its strides and offset for all members."""
    x = args[0]
    if not _is_batch(x, level) or not x.value.shape[0] or any(isinstance(y, Batched) for y in _tree.flatten([args[1:], kwargs])):
        return NotImplemented
    value, storage = x.value, x.untyped_storage()
    with DisableTorchFunctionSubclass(), mt.set_grad_enabled(mt.is_grad_enabled() and func.variant != 1):
        members = func(*args, **kwargs)
    if any(y.untyped_storage() is not storage or y.dtype is not x.dtype or y.is_conj() != value.is_conj() for y in _tree.flatten(members)):
        return NotImplemented
    size, step = value.shape[0], value.stride(0)

    def of_all(y: Any) -> Any:
        return wrap(value.as_strided((size, *y.shape), (step, *y.stride()), y.storage_offset()), level)

    if func.variant == 1:
        x.value = of_all(members).value
        return x
    return _tree.tree_map(of_all, members)


@_rule("view reshape flatten unflatten ravel view_as reshape_as squeeze unsqueeze")
def _reshaped(func: Any, level: Level, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Reshape all members. Copy them if there is no view of this shape."""
    found = view(func, level, args, kwargs)
    x = args[0]
    if found is NotImplemented and func.name == "view" and len(args) == 2 and isinstance(args[1], mt.dtype) and _is_batch(x, level):
        _plain(func, *args)
        return wrap(x.value.view(args[1]), level)
    if found is not NotImplemented or func.variant or any(isinstance(y, mt.dtype) for y in args[1:]):
        return found
    if not _is_batch(x, level):
        return NotImplemented
    return wrap(x.value.reshape(x.value.shape[0], *_plain(func, *args, **kwargs).shape), level)


@_rule("expand expand_as broadcast_to")
def _expanded(func: Any, level: Level, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Expand all members, by new leading dimensions and by dimensions of size 1."""
    if not _is_batch(args[0], level):
        return NotImplemented
    shape = _plain(func, *args, **kwargs).shape
    value = _aligned(args[0], len(shape), level)
    return wrap(value.expand(value.shape[0], *shape), level)


def _shifted(dim: Any, ndim: int) -> Any:
    """Convert one or several dimensions of a member to the corresponding dimensions of `value`."""
    if isinstance(dim, int) and not isinstance(dim, bool):
        if not -ndim <= dim < ndim:
            raise IndexError("no such dimension")
        return dim % ndim + 1
    if isinstance(dim, (tuple, list)):
        return [_shifted(one, ndim) for one in dim]
    raise TypeError("no dimension")


# Operators on several tensors ------------------------------------------------------------------------------------------


@_rule("cat concat concatenate stack")
def _joined(func: Any, level: Level, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Join tensors along a dimension of the members."""
    tensors = list(args[0])
    dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    size = next(x.value.shape[0] for x in tensors if _is_batch(x, level))
    ndim = max(x.dim() for x in tensors) + (func.name == "stack")
    if func.name != "stack" and ndim > 1:  # an empty vector fits tensors of any shape
        shape = next(x.shape for x in tensors if x.dim() == ndim)
        shape = [0 if d == dim % ndim else n for d, n in enumerate(shape)]
        tensors = [x.new_empty(shape) if tuple(x.shape) == (0,) else x for x in tensors]
    return wrap(func([_at_front(x, level, size) for x in tensors], dim=_shifted(dim, ndim)), level)


@_rule("matmul linalg.matmul mm bmm mv dot")
def _product(func: Any, level: Level, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Multiply matrices and vectors with a batched `matmul`."""
    a, b = args if len(args) == 2 else (args[0], kwargs["other"])
    shape = _plain(func, a, b).shape
    ndim = max(a.dim(), b.dim(), 2)

    def matrices(x: Any, at: int) -> Any:
        value = _value(x, level)
        value = value.unsqueeze(at) if x.dim() == 1 else value
        missing = ndim - max(x.dim(), 2)
        return value.reshape(value.shape[0], *(1,) * missing, *value.shape[1:]) if _is_batch(x, level) and missing else value

    left, right = matrices(a, -2), matrices(b, -1)
    result = mt.matmul(left, right)
    return wrap(result.reshape(result.shape[0], *shape), level)


@_rule("nn.functional.linear")
def _linear(func: Any, level: Level, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply a linear layer whose weight and bias are shared by all members or batched."""
    given = dict(zip(("input", "weight", "bias"), args)) | kwargs
    x, weight, bias = given["input"], given["weight"], given.get("bias")
    if not _is_batch(weight, level) and not _is_batch(bias, level):
        return wrap(func(x.value, weight, bias), level)
    product = x @ weight.mT
    return product if bias is None else product + bias


@_rule("_index")
def _indexed(func: Any, level: Level, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Index with tensors, as in ``x[i, :, j]``.

    The indexed dimensions are moved to the front first. If they were adjacent, the resulting dimensions are moved back.
    """
    x, indices, dims = args[0], list(args[1]), list(args[2])
    rank = max(index.dim() for index in indices)
    batched_input = _is_batch(x, level)
    rest = [dim for dim in range(x.dim()) if dim not in dims]
    value = x.value.permute(0, *(dim + 1 for dim in dims + rest)) if batched_input else x.permute(*dims, *rest)
    picks = [_aligned(index, rank, level) for index in indices]
    if not any(_is_batch(index, level) for index in indices):
        result = func(value, picks, tuple(range(1, len(dims) + 1)))
    elif batched_input:
        size = value.shape[0]
        members = mt.arange(size, device=value.device).reshape(size, *(1,) * rank)
        result = func(value, [members, *picks], tuple(range(len(dims) + 1)))
    else:
        result = func(value, picks, tuple(range(len(dims))))
    if rank and dims[0] > 0 and dims == list(range(dims[0], dims[0] + len(dims))):
        result = result.movedim(list(range(1, rank + 1)), list(range(dims[0] + 1, dims[0] + rank + 1)))
    return wrap(result, level)


from metatensor.func import _indices, _layers, _losses, _values  # noqa: E402, F401  they register rules
