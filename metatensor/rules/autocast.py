"""How autocast casts the arguments of operators: one table for the cpu and one for accelerators.

The tables contain the operators that PyTorch's documentation of automatic mixed precision lists, by the names used
there. They also contain operators that PyTorch implements by calling listed operators, but that are single
operators here. The policies are

* **lower**: floating-point arguments are cast to the autocast's dtype;
* **float32**: they are cast to float32;
* **dtype**: the argument ``dtype`` is set to float32, unless the call gives a dtype;
* **promote**: the arguments are cast to float32 if any of them does not have the autocast's dtype;
* **state**: they are cast to the autocast's dtype if the state of a recurrent step has that dtype, else to float32;
* **refuse**: the call raises RuntimeError.

An entry ``interpolate:mode=nearest,linear`` applies only to calls whose argument ``mode`` is one of these values.

float64 arguments are never cast, and neither are the arguments of in-place calls and calls with out=. Operators that
are not listed run in the dtypes of their arguments.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from metatensor._core import autocast as policies
from metatensor._core.op import registry

__all__ = ["table"]

_BOTH_LOWER = (
    "addbmm addmm baddbmm bmm conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d "
    "linalg.vecdot linear lstm matmul mm prelu rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell scaled_dot_product_attention"
)
_BOTH_FLOAT32 = (
    "binary_cross_entropy_with_logits cdist cosine_embedding_loss cross_entropy hinge_embedding_loss huber_loss kl_div "
    "l1_loss margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss nll_loss poisson_nll_loss "
    "smooth_l1_loss soft_margin_loss triplet_margin_loss"
)

CPU = {
    "lower": _BOTH_LOWER,
    "float32": _BOTH_FLOAT32
    + " adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d binary_cross_entropy cholesky cholesky_inverse cholesky_solve "
    "ctc_loss fft.fft fft.fft2 fft.fftn fft.hfft fft.ifft fft.ifft2 fft.ifftn fft.ihfft fft.irfft fft.irfft2 fft.irfftn "
    "fft.rfft fft.rfft2 fft.rfftn fractional_max_pool2d fractional_max_pool3d geqrf grid_sample grid_sampler inverse "
    "linalg.cholesky linalg.cholesky_ex linalg.cond linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh "
    "linalg.householder_product linalg.inv linalg.inv_ex linalg.lstsq linalg.matrix_rank linalg.qr linalg.solve linalg.svd "
    "linalg.svdvals linalg.tensorinv linalg.tensorsolve lu_solve max_pool3d max_unpool2d max_unpool3d nanquantile orgqr "
    "ormqr pad:mode=reflect,replicate pinverse polar prod qr quantile stft svd trace triangular_solve view_as_complex",
    "promote": "cat stack index_copy",
    "state": "gru gru_cell lstm_cell",
}
"""For tensors on the cpu."""

ACCELERATOR = {
    "lower": _BOTH_LOWER
    + " addmv addr chain_matmul convolution einsum gru gru_cell linalg.multi_dot lstm_cell mv",
    "float32": _BOTH_FLOAT32
    + " acos asin cosh cosine_similarity dist div:input=number erfinv exp expm1 gaussian_nll_loss group_norm layer_norm "
    "log log10 log1p log2 logsumexp native_layer_norm normalize pairwise_distance pdist pow reciprocal renorm "
    "rms_norm rsqrt sinh softplus square tan interpolate:mode=nearest,linear,bilinear,bicubic,trilinear,nearest-exact",
    "dtype": "cumprod cumsum linalg.matrix_norm linalg.vector_norm log_softmax norm prod softmax softmin sum",
    "promote": "addcdiv addcmul atan2 bilinear cat cross dot grid_sample grid_sampler index_put inner linalg.cross scatter_add stack "
    "tensordot vdot",
    "refuse": "binary_cross_entropy",
}
"""For tensors on other devices."""

_POLICIES = {
    "lower": policies.LOWER,
    "float32": policies.FLOAT32,
    "dtype": policies.FLOAT32_DTYPE,
    "promote": policies.PROMOTE,
    "state": policies.STATE,
    "refuse": policies.REFUSE,
}


@cache
def table(cpu: bool) -> dict[Any, tuple[int, str | None, frozenset[str] | None]]:
    """Return the policies for the cpu or for other devices, as ``{op: (policy, argument, values)}``.

    If ``argument`` is not None, the policy applies only to calls where the argument of this name has one of the values.
    """
    made: dict[Any, tuple[int, str | None, frozenset[str] | None]] = {}
    for policy, names in (CPU if cpu else ACCELERATOR).items():
        for entry in names.split():
            name, _, condition = entry.partition(":")
            argument, _, values = condition.partition("=")
            found = [registry[n] for n in (name, f"nn.functional.{name}", f"special.{name}") if n in registry]
            if not found:
                raise LookupError(f"there is no operator {name}")
            only = (argument, frozenset(values.split(","))) if condition else (None, None)
            made.update(dict.fromkeys(found, (_POLICIES[policy], *only)))
    return made
