"""Built-in operators that cost no FLOPs by nature (`FREE`) or by convention (`UNCOUNTED`), family by family.

Views and element-wise operators say so in their declarations and are not listed. See `metatensor.rules.flops`.
"""

from __future__ import annotations

__all__ = ["FREE", "UNCOUNTED"]


def _names(*families: str) -> frozenset[str]:
    return frozenset(name for family in families for name in family.split())


FACTORY = """
    arange complex empty empty_like empty_permuted empty_strided eye from_file full full_like linspace logspace
    new_empty new_empty_strided new_full new_ones new_tensor new_zeros ones ones_like range scalar_tensor tensor
    tril_indices triu_indices zeros zeros_like
"""
MOVES = """
    _block_diag _from_host _repeat_interleave _repeat_interleave_by _to_copy _unsafe_index alias_copy argwhere
    bfloat16 block_diag bool byte cartesian_prod cat cdouble cfloat chalf char clone column_stack combinations concat
    concatenate constant_pad_nd contiguous copy copy_ cpu cuda detach detach_ diag diag_embed diagflat
    diagonal_scatter double dsplit dstack embedding expand_copy fill fill_ flip fliplr flipud float gather half hstack
    index index_copy index_fill index_put index_select int is_contiguous long masked_scatter masked_select meshgrid
    native_channel_shuffle nn.functional.channel_shuffle nn.functional.embedding nn.functional.fold
    nn.functional.one_hot nn.functional.pad nn.functional.pixel_shuffle nn.functional.pixel_unshuffle
    nn.functional.unfold nonzero nonzero_static pin_memory put repeat repeat_interleave resize_ resize_as_ roll rot90
    scatter select_scatter set_ short slice_scatter stack swap_tensors take take_along_dim tile to to_dense tolist
    tril triu type type_as unfold_copy vander view_copy vstack where zero_
"""

FREE = _names(FACTORY, MOVES)
"""They make or move numbers and compute none."""

POINTWISE = """
    addr angle bincount bucketize clamp_ copysign cross dequantize fake_quantize_per_channel_affine
    fake_quantize_per_tensor_affine fmax fmin frexp ger histc histogram isclose isfinite isin isinf isnan isneginf
    isposinf isreal linalg.cross logaddexp logaddexp2 maximum minimum nn.functional.celu nn.functional.glu
    nn.functional.prelu nn.functional.rrelu nn.functional.selu nn.functional.softsign nn.functional.tanhshrink
    nn.functional.threshold outer polar positive prelu quantize_per_tensor rsub searchsorted signbit tril_ triu_
"""
REDUCTION = """
    all allclose amax amin aminmax any argmax argmin argsort corrcoef count_nonzero cov cummax cummin cumprod cumsum
    cumulative_trapezoid diff dist equal index_add index_reduce is_nonzero item kthvalue linalg.matrix_norm
    linalg.norm linalg.vector_norm log_softmax logcumsumexp logdet_ logsumexp max mean median min mode msort
    nan_to_num nanmean nanmedian nanquantile nansum nn.functional.gumbel_softmax nn.functional.log_softmax
    nn.functional.softmax nn.functional.softmin norm norm_except_dim prod quantile renorm scatter_add scatter_reduce
    segment_reduce softmax sort special.log_softmax special.logsumexp special.softmax std std_mean sum topk trace
    trapezoid trapz unique unique_consecutive unique_dim var var_mean
"""
NORMALISATION = """
    _fused_rms_norm _native_batch_norm_legit _weight_norm batch_norm batch_norm_stats fused_rms_norm group_norm
    instance_norm layer_norm native_batch_norm native_group_norm native_layer_norm nn.functional._batch_norm_eval
    nn.functional._batch_norm_stats nn.functional._batch_norm_train nn.functional._batch_statistics
    nn.functional._instance_norm nn.functional._instance_norm_eval nn.functional._instance_norm_train
    nn.functional.batch_norm nn.functional.group_norm nn.functional.instance_norm nn.functional.layer_norm
    nn.functional.local_response_norm nn.functional.normalize nn.functional.rms_norm rms_norm weight_norm
"""
POOLING = " ".join(
    f"nn.functional.{name}{rank}d{ending} {name}{rank}d{ending}"
    for name in ("max_pool", "avg_pool", "lp_pool", "adaptive_avg_pool", "adaptive_max_pool", "max_unpool", "fractional_max_pool")
    for rank in (1, 2, 3)
    for ending in ("", "_with_indices")
)
SAMPLING = """
    affine_grid_generator embedding_renorm_ grid_sampler grid_sampler_2d grid_sampler_3d nn.functional.affine_grid
    nn.functional.embedding_bag nn.functional.grid_sample nn.functional.interpolate nn.functional.upsample
    nn.functional.upsample_bilinear nn.functional.upsample_nearest
"""
RANDOM = """
    bernoulli binomial dropout multinomial native_dropout normal poisson rand rand_like randint randint_like randn
    randn_like randperm
"""
LOSS = " ".join(
    f"nn.functional.{name}"
    for name in (
        "binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cosine_similarity cross_entropy "
        "gaussian_nll_loss hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss "
        "multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss nll_loss pairwise_distance "
        "poisson_nll_loss smooth_l1_loss soft_margin_loss triplet_margin_loss triplet_margin_with_distance_loss"
    ).split()
)

UNCOUNTED = _names(POINTWISE, REDUCTION, NORMALISATION, POOLING, SAMPLING, RANDOM, LOSS, "cosine_similarity pairwise_distance")
"""They compute in proportion to their elements, which the convention does not count."""
