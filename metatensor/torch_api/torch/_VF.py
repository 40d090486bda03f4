"""Operators under the module from which older code imports them: ``from torch import _VF``."""

import metatensor as _mt

globals().update({
    name: getattr(_mt, name)
    for name in (
        "broadcast_tensors", "cartesian_prod", "cdist", "chain_matmul", "einsum", "gru", "gru_cell", "istft", "lstm", "lstm_cell",
        "meshgrid", "norm", "rnn_relu", "rnn_relu_cell", "rnn_tanh", "rnn_tanh_cell", "split", "stft", "tensordot", "unique_consecutive",
        "unique_dim", "unravel_index",
    )
    if hasattr(_mt, name)
})  # fmt: skip
