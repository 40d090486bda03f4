"""What other contractions use."""
from metatensor._core.tensor cimport Tensor

# The dimensions of `t` in `order`; `t` itself where that is their order already.
cdef Tensor permuted(Tensor t, list order)
