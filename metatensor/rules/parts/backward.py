"""The temporary tensors of gradient formulas that are not single expressions."""

from __future__ import annotations

from typing import Any

from metatensor._core.gradients import functional, linalg, ops
from metatensor.rules.parts import FORMULAS, backward_kernel, formula, parts, statements

__all__: list[str] = []

backward_kernel("nn.functional.pad", "unfold", "prelu", "nextafter", "logit", "nn.functional.bilinear", "masked_scatter:source",
                "_weight_norm_interface")  # fmt: skip
statements(
    "scatter_reduce", "index_reduce", "std_mean", "std_mean.dim", "std_mean.unbiased", "var_mean", "var_mean.dim", "var_mean.unbiased",
    "linalg.vector_norm", "norm", "dist", "linalg.lu", "linalg.cholesky_ex", "linalg.cholesky", "cholesky", "renorm",
    "linalg.householder_product", "aminmax", "logcumsumexp", "acosh", "special.i1e", "copysign", "dsplit", "hsplit", "vsplit",
    "median", "nanmedian", "median.dim", "nanmedian.dim", "max", "min", "max.dim", "min.dim", "mvlgamma", "amax", "amin",
    "nn.functional.binary_cross_entropy_with_logits", "linalg.lu_factor_ex",
)  # fmt: skip
for _name in ("linalg.pinv",):
    FORMULAS[_name] = True


# Positions --------------------------------------------------------------------------------------------------


@formula("_index")
def index(grad: Any, input: Any, indices: Any, dims: Any) -> Any:
    zeros = grad.new_zeros(input.shape)
    return ops.empty_like(zeros), zeros


@formula("take")
def take(grad: Any, input: Any, index: Any) -> Any:
    zeros = ops.zeros_like(input)
    return ops.empty_like(zeros), zeros


@formula("trace")
def trace(grad: Any, input: Any) -> Any:
    rows, columns = input.shape
    zeros = grad.new_zeros((rows * columns,))
    places = ops.arange(min(rows, columns), device=grad.device)
    return ops.empty_like(zeros), places


def _sections(grads: tuple, input: Any, *rest: Any) -> Any:
    total = None
    for grad in grads:
        if grad is not None:
            whole = grad.new_zeros(input.shape)
            total = whole if total is None else total + whole
    return total


for _name in ("", ".number", ".indices_or_sections", ".sections", ".indices"):
    FORMULAS["tensor_split" + _name] = _sections


# Products -----------------------------------------------------------------------------------------------------


@formula("prod")
def prod(grad: Any, input: Any, dim: Any, keepdim: Any, result: Any) -> Any:
    if not input.ndim:
        return None
    values, dim = (input.reshape(-1), 0) if dim is None else (input, dim)
    one = ops.ones_like(values.narrow(dim, 0, 1))
    inner = values.narrow(dim, 0, values.shape[dim] - 1)
    before = ops.cat([one, inner], dim)
    products = before.cumprod(dim)
    after = ops.cat([one, inner.flip(dim)], dim)
    del one
    flipped = after.cumprod(dim)
    back = flipped.flip(dim)
    del flipped
    others = products * back
    return ops.empty_like(values), others, before, after


@formula("cumprod")
def cumprod(grad: Any, input: Any, dim: int, result: Any) -> Any:
    """Create the masks of the elements before, at and after the first zero."""
    if not input.ndim or not input.numel() or input.shape[dim] == 1:
        return None
    weighted = grad * result
    zero = input == 0
    zeros = ops.zeros_like(input)
    counts = zero.cumsum(dim)
    none = counts == 0
    masked = weighted.masked_fill(~none, 0)
    first = masked.flip(dim)
    second = first.cumsum(dim)
    third = second.flip(dim)
    del masked, first, second
    quotient = third / input
    before = ops.where(none, quotient, zeros)
    del third, quotient, zeros
    one = counts == 1
    del counts
    found = one.max(dim, True)
    place = ops.zeros_like(zero)
    del none
    shown = input.masked_fill(~one, 1)
    rest = shown.cumprod(dim)
    del shown
    hidden = rest.masked_fill(ops.ne(place, one), 0)
    del place
    factors = hidden.narrow(dim, 0, 1).clone()
    product = grad * rest
    total = product.sum(dim, True) * factors
    return ops.where(one, total, before), found, hidden, weighted


# Element-wise operators and losses ------------------------------------------------------------------------------


@parts("mish_backward")
def mish_backward(grad: Any, input: Any) -> Any:
    inner = ops.tanh(functional.softplus(input))
    slope = ops.sigmoid(input)
    kept = [inner, slope, input * slope, ops.ones_like(input)]
    for _ in range(4):
        kept.append(ops.empty_like(input))
    return kept


@formula("nn.functional.binary_cross_entropy:target")
def binary_cross_entropy_target(grad: Any, input: Any, target: Any, weight: Any, reduction: str) -> Any:
    logits = ops.empty_like(input)
    made = grad * logits
    return made if weight is None else made * weight


@formula("matrix_exp", "linalg.matrix_exp")
def matrix_exp(grad: Any, input: Any, *rest: Any) -> Any:
    upper = ops.cat([input, grad], -1)
    lower = ops.cat([ops.zeros_like(input), input], -1)
    both = ops.cat([upper, lower], -2)
    del upper, lower
    return linalg.matrix_exp(both)
