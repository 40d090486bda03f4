"""The form that calls of some functions, most of them in ``nn.functional``, have in graphs.

PyTorch writes these functions in Python. In a graph, their required arguments are positional and all others are passed
by name, including defaults. Code that reads ``node.kwargs`` relies on it.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

from metatensor._core.op import Op

__all__ = ["spelled_out"]

_SPELLED_OUT = frozenset(
    """
    adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d
    adaptive_max_pool1d_with_indices adaptive_max_pool2d_with_indices adaptive_max_pool3d_with_indices affine_grid alpha_dropout
    batch_norm binary_cross_entropy binary_cross_entropy_with_logits celu cosine_embedding_loss cross_entropy ctc_loss dropout
    dropout1d dropout2d dropout3d elu embedding embedding_bag feature_alpha_dropout fold fractional_max_pool2d fractional_max_pool3d
    fractional_max_pool2d_with_indices fractional_max_pool3d_with_indices gaussian_nll_loss glu grid_sample group_norm gumbel_softmax
    hardsigmoid hardswish hardtanh hinge_embedding_loss huber_loss instance_norm interpolate kl_div l1_loss layer_norm leaky_relu
    local_response_norm log_softmax lp_pool1d lp_pool2d lp_pool3d margin_ranking_loss max_pool1d max_pool2d max_pool3d
    max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices max_unpool1d max_unpool2d max_unpool3d mish mse_loss
    multi_head_attention_forward multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss nll_loss normalize pad
    poisson_nll_loss relu relu6 rms_norm rrelu selu silu smooth_l1_loss soft_margin_loss softmax softmin softsign tanhshrink threshold
    triplet_margin_loss triplet_margin_with_distance_loss unfold
    """.split()
)
_SPELLED_OUT_AT_TOP = frozenset("cdist norm pca_lowrank split stft svd_lowrank tensordot".split())


@cache
def _parameters(op: Op) -> tuple[inspect.Signature, list[str], dict[str, Any]] | None:
    try:
        signature = inspect.signature(op)
    except (TypeError, ValueError):
        return None
    plain = [one for one in signature.parameters.values() if one.kind is one.POSITIONAL_OR_KEYWORD]
    required = [one.name for one in plain if one.default is one.empty]
    return signature, required, {one.name: one.default for one in plain if one.default is not one.empty}


def spelled_out(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call in the form that they have in graphs."""
    if not isinstance(op, Op):
        return args, kwargs
    space, _, name = op.name.rpartition(".")
    listed = space == "nn.functional" and name in _SPELLED_OUT or not space and name in _SPELLED_OUT_AT_TOP
    known = _parameters(op) if listed else None
    if known is None:
        return args, kwargs
    signature, required, others = known
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return args, kwargs
    rest = {key: value for key, value in given.items() if key not in required and key not in others}  # keyword-only ones
    return tuple(given[key] for key in required), {key: given.get(key, value) for key, value in others.items()} | rest
