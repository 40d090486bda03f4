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
    ("convolution_backward", {"weight": "Weight of the convolution."}),
    ("multi_margin_loss_backward nll_loss_backward _nll_loss_forward", {"weight": "Weights of the classes (C,)."}),
    ("native_layer_norm_backward native_group_norm_backward", {"weight": "Factors of the normalized values."}),
    ("_max_pool_backward", {"indices": "Positions of the maxima in the input's planes."}),
    ("embedding_dense_backward", {"indices": "Rows that were read."}),
    ("_pdist_backward", {"grad": "Gradient of the distances.", "pdist": "Distances."}),
    ("_cdist_backward", {"grad": "Gradient of the distances.", "cdist": "Distances."}),
    ("_embedding_bag _embedding_bag_backward _embedding_bag_weights_backward", {
        "weight": "The table, a matrix.", "indices": "Rows to read (N,).", "grad": "Gradient of the bags.",
        "offset2bag": "Bag of each index (N,).", "bag_size": "Number of indices of each bag.",
        "maximum_indices": "Row of the maximum of each element, for mode 'max'.", "mode": "How a bag is reduced: 'sum', 'mean' or 'max'.",
    }),
    ("_upsample_backward", {"input_size": "Shape of the input.", "mode": "How values between positions were computed."}),
    ("_grid_sampler_backward", {"mode": "How values between positions were computed."}),
    ("_rrelu_with_noise", {"lower": "Lower bound of the slopes."}),
]
