"""Shape and dtype rules of matrix products that other families share."""
from metatensor._core.layout cimport Layout
from metatensor._core.op cimport Call
from metatensor._core.tensor cimport Tensor

# Compute the sizes of `a @ b` by PyTorch's rules for vectors and batches. Raise RuntimeError if the shapes do not fit.
cdef int product_sizes(Call* c, Tensor a, Tensor b, Layout* to) except -1
# Raise RuntimeError unless both tensors have the same dtype. The names of the arguments are used in the message.
cdef int same_dtype(Call* c, Tensor a, Tensor b, str name_a, str name_b) except -1
