"""Kinds of operators, for costs that are known by kind only."""

from __future__ import annotations

import functools

from metatensor.rules import costless

__all__ = ["kind_of"]

_BY_KIND = {
    "product": """mm bmm matmul addmm addbmm baddbmm addmv mv dot vdot inner linalg.vecdot linalg.matmul nn.functional.linear
        nn.functional.bilinear _scaled_mm _int_mm _grouped_mm""",
    "convolution": "convolution convolution_backward conv_tbc " + " ".join(
        f"nn.functional.conv{form}{n}d" for form in ("", "_transpose") for n in (1, 2, 3)),
    "attention": "nn.functional.scaled_dot_product_attention " + " ".join(
        f"_scaled_dot_product_{form}{half}" for form in ("flash_attention", "efficient_attention", "flash_attention_for_cpu")
        for half in ("", "_backward")),
    "recurrence": "lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell",
    "softmax": """softmax log_softmax nn.functional.softmax nn.functional.log_softmax nn.functional.softmin _softmax_backward_data
        _log_softmax_backward_data _safe_softmax logsumexp nn.functional.cross_entropy""",
    "normalization": costless.NORMALISATION + """ native_layer_norm_backward native_group_norm_backward native_batch_norm_backward
        _batch_norm_forward _fused_rms_norm_backward""",
    "pooling": costless.POOLING + " _max_pool_backward _avg_pool_backward _adaptive_avg_pool_backward _upsample_backward",
    "gather": "embedding nn.functional.embedding nn.functional.embedding_bag _embedding_bag gather index_select take take_along_dim "
              "_index masked_select _masked_select nn.functional.nll_loss",
    "scatter": """scatter scatter_add index_add index_copy index_put _index_put_ _index_put_accumulate_ embedding_dense_backward
        _embedding_bag_backward nll_loss_backward scatter_reduce index_reduce masked_scatter""",
    "sorting": "sort argsort topk msort kthvalue median mode unique unique_consecutive searchsorted",
    "copy": costless.FACTORY + costless.MOVES,
    "reduction": costless.REDUCTION,
    "random": """rand randn randint rand_like randn_like randperm bernoulli multinomial normal uniform_ normal_ bernoulli_ random_
        exponential_         nn.functional.dropout dropout native_dropout""",
}  # fmt: skip
_KINDS: dict[str, str] = {}
for _kind, _names in _BY_KIND.items():
    for _name in _names.split():
        _KINDS.setdefault(_name, _kind)


@functools.cache
def kind_of(op: str) -> str:
    """Return the kind (one of ``KINDS_OF_WORK``) of an operator by its name: in-place variants are of the same kind.

    An operator in no list and without FLOPs is element-wise.

    Examples
    --------
    >>> from metatensor.analysis.kinds import kind_of
    >>> kind_of("mm"), kind_of("mul_"), kind_of("embedding_dense_backward")
    ('product', 'elementwise', 'scatter')
    """
    found = _KINDS.get(op) or _KINDS.get(op.removesuffix("_"))
    return found or ("other" if "::" in op or op.startswith(("linalg.", "fft.", "_fft", "_linalg")) else "elementwise")
