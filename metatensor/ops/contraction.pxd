"""Functions shared with the other contraction ops."""
from metatensor._core.tensor cimport Tensor

# Return `t` with its dimensions in `order`; `t` itself if they are in that order already.
cdef Tensor permuted(Tensor t, list order)
