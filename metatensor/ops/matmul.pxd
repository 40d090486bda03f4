"""Matrix products: shape rules that other families may use."""
from metatensor._core.layout cimport Layout
from metatensor._core.op cimport Call
from metatensor._core.tensor cimport Tensor

# Sizes of `a @ b` with PyTorch's rules for vectors and batches; RuntimeError where they do not fit.
cdef int product_sizes(Call* c, Tensor a, Tensor b, Layout* to) except -1
# RuntimeError unless the dtypes are one; names are those of the arguments.
cdef int same_dtype(Call* c, Tensor a, Tensor b, str name_a, str name_b) except -1
