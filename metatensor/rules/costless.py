"""Built-in operators that cost no FLOPs by nature (`FREE`) or by convention (`UNCOUNTED`), listed by family.

Views and element-wise operators are not listed, because flags in their declarations identify them. See
`metatensor.rules.flops`.
"""

from __future__ import annotations

__all__ = ["FREE", "UNCOUNTED"]


def _names(*families: str) -> frozenset[str]:
    return frozenset(name for family in families for name in family.split())


FACTORY = """
    arange bartlett_window blackman_window complex empty empty_like empty_permuted empty_strided eye fft.fftfreq
    fft.rfftfreq full full_like hamming_window hann_window kaiser_window linspace logspace new_empty new_empty_strided
    new_full new_ones new_tensor new_zeros ones ones_like range scalar_tensor tensor tril_indices triu_indices zeros
    zeros_like
"""
MOVES = """
    _block_diag _data _from_host _index _index_put_ _index_put_accumulate_ _repeat_interleave _repeat_interleave_by _set_data _to_copy
    _unravel_index _without_backward alias_copy argwhere bfloat16 block_diag bool byte cartesian_prod cat cdouble cfloat chalf char
    clone column_stack combinations concat concatenate constant_pad_nd contiguous copy_ cpu cuda detach detach_ diag
    diag_embed diagflat diagonal_scatter double dsplit dstack embedding expand_copy fill fill_ flip fliplr flipud
    float gather half hstack index_copy index_fill index_put index_select int is_contiguous long masked_scatter
    masked_select meshgrid native_channel_shuffle nn.functional.channel_shuffle nn.functional.embedding
    nn.functional.fold nn.functional.one_hot nn.functional.pad nn.functional.pixel_shuffle
    nn.functional.pixel_unshuffle nn.functional.unfold nonzero nonzero_static put repeat repeat_interleave resize_
    resize_as_ roll rot90 scatter select_scatter set_ short slice_scatter stack take take_along_dim tile to tolist
    tril triu type type_as unfold_copy view_copy vstack where zero_
"""

FREE = _names(FACTORY, MOVES)
"""Operators that create or move elements without arithmetic."""

POINTWISE = """
    addr angle bucketize clamp_ copysign fmax fmin frexp ger isclose isfinite isin isinf isnan isneginf isposinf isreal
    logaddexp logaddexp2 maximum minimum nn.functional.celu nn.functional.glu nn.functional.prelu nn.functional.rrelu
    nn.functional.selu nn.functional.softsign nn.functional.tanhshrink nn.functional.threshold outer polar positive
    prelu rsub searchsorted signbit tril_ triu_ vander
"""
REDUCTION = """
    _safe_softmax all allclose amax amin aminmax any argmax argmin argsort bincount count_nonzero cummax cummin cumprod cumsum dist
    equal hash_tensor histc histogram
    _histogramdd_bin_edges _histogramdd_from_bin_tensors
    index_add index_reduce is_nonzero item kthvalue linalg.matrix_norm linalg.norm linalg.vector_norm log_softmax
    logcumsumexp logsumexp max mean median min mode msort nan_to_num nanmean nanmedian nanquantile nansum
    nn.functional.log_softmax nn.functional.softmax nn.functional.softmin norm prod quantile renorm scatter_add
    scatter_reduce softmax sort special.log_softmax special.logsumexp special.softmax std std_mean sum topk trace
    unique unique_consecutive var var_mean
"""
LINEAR_ALGEBRA = """
    _linalg_det _linalg_lstsq _linalg_slogdet _linalg_solve_ex
    cholesky cholesky_inverse cholesky_solve cross det geqrf linalg.cholesky_ex linalg.cross linalg.det
    linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh linalg.householder_product linalg.inv_ex
    linalg.ldl_factor_ex linalg.ldl_solve linalg.lu linalg.lu_factor_ex linalg.lu_solve linalg.matrix_exp linalg.pinv
    linalg.qr linalg.slogdet linalg.solve_ex linalg.solve_triangular linalg.svd linalg.svdvals linalg.vander logdet
    lu_unpack orgqr ormqr slogdet triangular_solve
"""
NORMALISATION = """
    _fused_rms_norm native_batch_norm native_group_norm native_layer_norm nn.functional._batch_norm_eval
    nn.functional._batch_norm_stats nn.functional._batch_norm_train nn.functional._batch_statistics
    nn.functional._instance_norm nn.functional._instance_norm_eval nn.functional._instance_norm_train
    nn.functional.batch_norm nn.functional.group_norm nn.functional.instance_norm nn.functional.layer_norm
    nn.functional.local_response_norm nn.functional.normalize nn.functional.rms_norm
"""
POOLING = """
    adaptive_avg_pool1d adaptive_max_pool1d avg_pool1d max_pool1d max_pool1d_with_indices max_pool2d max_pool3d
    nn.functional.adaptive_avg_pool1d nn.functional.adaptive_avg_pool2d nn.functional.adaptive_avg_pool3d
    nn.functional.adaptive_max_pool1d nn.functional.adaptive_max_pool1d_with_indices nn.functional.adaptive_max_pool2d
    nn.functional.adaptive_max_pool2d_with_indices nn.functional.adaptive_max_pool3d
    nn.functional.adaptive_max_pool3d_with_indices nn.functional.avg_pool1d nn.functional.avg_pool2d
    nn.functional.avg_pool3d nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool2d_with_indices
    nn.functional.fractional_max_pool3d nn.functional.fractional_max_pool3d_with_indices nn.functional.lp_pool1d
    nn.functional.lp_pool2d nn.functional.lp_pool3d nn.functional.max_pool1d nn.functional.max_pool1d_with_indices
    nn.functional.max_pool2d nn.functional.max_pool2d_with_indices nn.functional.max_pool3d
    nn.functional.max_pool3d_with_indices nn.functional.max_unpool1d nn.functional.max_unpool2d
    nn.functional.max_unpool3d
"""
SAMPLING = """
    affine_grid_generator embedding_renorm_ grid_sampler grid_sampler_2d grid_sampler_3d nn.functional.affine_grid
    _embedding_bag _embedding_bag_backward _embedding_bag_weights_backward _masked_select
    nn.functional.embedding_bag nn.functional.grid_sample nn.functional.interpolate nn.functional.upsample
    nn.functional.upsample_bilinear nn.functional.upsample_nearest
"""
FOURIER = """
    _fft_c2c _fft_c2r _fft_r2c _overlap_add
"""
RANDOM = """
    _sample_dirichlet _standard_gamma bernoulli binomial dropout multinomial native_dropout normal poisson rand rand_like
    randint randint_like randn randn_like randperm
"""
LOSS = """
    cosine_similarity nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits
    nn.functional.cosine_embedding_loss nn.functional.cosine_similarity nn.functional.cross_entropy
    nn.functional.gaussian_nll_loss nn.functional.hinge_embedding_loss nn.functional.huber_loss nn.functional.kl_div
    nn.functional.l1_loss nn.functional.margin_ranking_loss nn.functional.mse_loss nn.functional.multi_margin_loss
    nn.functional.multilabel_margin_loss nn.functional.multilabel_soft_margin_loss nn.functional.nll_loss
    nn.functional.pairwise_distance nn.functional.poisson_nll_loss nn.functional.smooth_l1_loss
    nn.functional.soft_margin_loss nn.functional.triplet_margin_loss nn.functional.triplet_margin_with_distance_loss
    pairwise_distance
"""

BACKWARD = """
    _adaptive_avg_pool_backward _avg_pool_backward _batch_norm_forward _cdist_backward _ctc_loss _ctc_loss_backward
    _fused_rms_norm_backward _grid_sampler_backward _pdist_backward
    _log_softmax_backward_data _max_pool_backward _multilabel_margin_loss_forward _nll_loss_forward _rrelu_with_noise
    _softmax_backward_data _upsample_backward binary_cross_entropy_backward elu_backward embedding_dense_backward gelu_backward
    glu_backward hardshrink_backward hardsigmoid_backward hardswish_backward hardtanh_backward huber_loss_backward
    leaky_relu_backward log_sigmoid_backward log_sigmoid_forward mish_backward mse_loss_backward multi_margin_loss_backward
    multilabel_margin_loss_backward native_batch_norm_backward native_group_norm_backward
    native_layer_norm_backward nll_loss_backward sigmoid_backward silu_backward smooth_l1_loss_backward
    soft_margin_loss_backward softplus_backward tanh_backward threshold_backward
"""

UNCOUNTED = _names(BACKWARD, POINTWISE, REDUCTION, LINEAR_ALGEBRA, NORMALISATION, POOLING, SAMPLING, FOURIER, RANDOM, LOSS)
"""Operators whose cost is proportional to the number of elements, and matrix factorizations. They are not counted."""
