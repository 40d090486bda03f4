"""Functions shared with the other contraction ops."""
from metatensor._core.tensor cimport Tensor

# Return `t` with its dimensions in `order`, or `t` itself if they are already in that order.
cdef Tensor permuted(Tensor t, list order)
