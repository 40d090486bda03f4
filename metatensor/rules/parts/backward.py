"""The temporary tensors of the formulas of gradients, where these are not expressions."""

from __future__ import annotations

from typing import Any

from metatensor._core.gradients import ops
from metatensor.rules.parts import backward_kernel, formula, statements

__all__: list[str] = []

backward_kernel("nn.functional.pad", "unfold", "prelu", "squeeze", "nextafter")
statements(
    "scatter_reduce", "index_reduce", "std_mean", "std_mean.dim", "std_mean.unbiased", "var_mean", "var_mean.dim", "var_mean.unbiased",
    "linalg.vector_norm", "norm", "dist", "linalg.lu", "tensor_split", "linalg.cholesky_ex", "linalg.cholesky", "cholesky",
    "linalg.householder_product", "aminmax", "logcumsumexp", "acosh", "special.i1e", "copysign", "dsplit", "hsplit", "vsplit",
    "median", "nanmedian", "median.dim", "nanmedian.dim", "max", "min", "max.dim", "min.dim", "mvlgamma",
    "nn.functional.binary_cross_entropy_with_logits", "linalg.lu_factor_ex",
)  # fmt: skip
