"""Descriptions of the arguments of operators that compute gradients. See `metatensor._core.glossary`."""

__all__ = ["GENERAL", "SPECIFIC"]

GENERAL = {
    "grad_out": "Gradient of the result.",
    "grad_output": "Gradient of the result.",
    "input_dtype": "Dtype of the gradient. Default: that of `grad_output`.",
    "input_scale": "Factor for negative elements before the exponential.",
    "is_target": "1 for the classes that are targets, 0 for the others.",
    "log_alpha": "Logarithms of the forward probabilities.",
    "loss": "Losses of the sequences.",
    "noise": "Slopes of the negative elements, 1 for the others.",
    "num_weights": "Number of rows of the table.",
    "output": "Result of the forward operator.",
    "output_mask": "Which of the gradients to compute. The others are None.",
    "rstd": "Reciprocals of the standard deviations.",
    "save_invstd": "Reciprocals of the standard deviations of the batch.",
    "save_mean": "Means of the batch.",
    "total_weight": "Sum of the weights of the targets.",
}

SPECIFIC = [
    ("convolution_backward", {"weight": "Weight of the convolution.", "dilation": "Distance between the elements of the kernel.",
                              "stride": "Step of the kernel: one number, or one for each spatial dimension.",
                              "transposed": "Whether the convolution was transposed."}),
    ("multi_margin_loss_backward nll_loss_backward _nll_loss_forward", {
        "weight": "Weights of the classes (C,).", "target": "Class indices.", "p": "Exponent, 1 or 2."}),
    ("multilabel_margin_loss_backward _multilabel_margin_loss_forward", {"target": "Class indices, ended by -1."}),
    ("soft_margin_loss_backward", {"target": "Labels, 1 or -1."}),
    ("smooth_l1_loss_backward", {"beta": "Threshold between the quadratic and the linear part."}),
    ("elu_backward", {"alpha": "Factor for the negative part.", "scale": "Factor for the result."}),
    ("softplus_backward", {"beta": "Steepness.", "threshold": "Value of `beta * input` above which the function is the identity."}),
    ("native_dropout_backward", {"mask": "Bool mask, true at the elements that were kept.", "scale": "Factor for the kept elements."}),
    ("native_layer_norm_backward native_group_norm_backward", {
        "weight": "Factors of the normalized values.", "bias": "Values that were added.",
        "mean": "Means that the forward operator returned.",
        "N": "Batch size.", "eps": "Number that was added to the variance."}),
    ("_fused_rms_norm_backward", {"weight": "Factors of the normalized values.", "rstd": "Reciprocals of the roots of the mean squares."}),
    ("_scaled_dot_product_*", {
        "value": "Values (N, H, S, Ev).", "unused": "Ignored.", "rng_state": "State of the random numbers, uint64.",
        "attn_bias": "Term that is added to the scores.", "attn_mask": "Term that is added to the scores.",
        "compute_log_sumexp": "Whether to return what the backward pass needs.", "out": "Result of attention.",
        "logsumexp": "Logarithms of the sums of exponentials of the scores, one for each row of the query.",
        "philox_seed": "Seed of the random numbers, int64.", "philox_offset": "Offset of the random numbers, int64.",
        "grad_out": "Gradient of the result.",
        "grad_input_mask": "Which gradients to return: of query, key, value and `attn_bias`."}),
    ("native_batch_norm_backward", {
        "train": "Whether the statistics of the batch were used.", "eps": "Number that was added to the variance."}),
    ("_adaptive_avg_pool_backward", {"n": "Number of pooled dimensions."}),
    ("_max_pool_backward", {"indices": "Positions of the maxima in the input's planes.", "n": "Number of pooled dimensions."}),
    ("embedding_dense_backward", {"indices": "Rows that were read."}),
    ("_pdist_backward", {"grad": "Gradient of the distances.", "pdist": "Distances."}),
    ("_cdist_backward", {"grad": "Gradient of the distances.", "cdist": "Distances."}),
    ("_embedding_bag _embedding_bag_backward _embedding_bag_weights_backward", {
        "weight": "The table, a matrix.", "indices": "Rows to read (N,).", "grad": "Gradient of the bags.",
        "offset2bag": "Bag of each index (N,).", "bag_size": "Number of indices of each bag.",
        "maximum_indices": "Row of the maximum of each element, for mode 'max'.", "mode": "How a bag is reduced: 'sum', 'mean' or 'max'.",
        "offsets": "Index of the first element of each bag.", "per_sample_weights": "Factors for the rows, of the shape of `indices`.",
    }),
    ("_upsample_backward", {"input_size": "Shape of the input.", "mode": "How values between positions were computed.",
                            "align_corners": "Whether the centers of the corner elements were aligned."}),
    ("_grid_sampler_backward", {"mode": "How values between positions were computed."}),
    ("_rrelu_with_noise", {"lower": "Lower bound of the slopes.", "upper": "Upper bound of the slopes.",
                           "training": "Whether `noise` is used."}),
]
