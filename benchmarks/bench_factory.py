"""Factories and conversions."""

from .harness import suite, table

CASES = table(
    "factory",
    """
arange | m.arange(4, device=dev) | np.arange(4)
arange step | m.arange(0, 8, 2, device=dev) | np.arange(0, 8, 2)
clone | m.clone(a) | np.copy(a)
copy_ | y.copy_(b) | np.copyto(y, b)
double | a.double() | a.astype(np.float64)
empty | m.empty(2, 3, device=dev) | np.empty((2, 3))
empty tuple | m.empty((2, 3), dtype=m.float32, device=dev) | np.empty((2, 3), dtype=np.float32)
empty_like | m.empty_like(a) | np.empty_like(a)
empty_strided | m.empty_strided((2, 3), (1, 2), device=dev) | np.empty((2, 3), order="F")
eye | m.eye(3, device=dev) | np.eye(3)
fill_ | y.fill_(1.0) | y.fill(1.0)
full | m.full((2, 3), 1.0, device=dev) | np.full((2, 3), 1.0)
full_like | m.full_like(a, 1.0) | np.full_like(a, 1.0)
linspace | m.linspace(0, 1, 4, device=dev) | np.linspace(0, 1, 4)
logspace | m.logspace(0, 1, 4, device=dev) | np.logspace(0, 1, 4)
new_empty | a.new_empty((2, 3)) | np.empty((2, 3))
new_zeros | a.new_zeros((2, 3)) | np.zeros((2, 3))
ones | m.ones(2, 3, device=dev) | np.ones((2, 3))
ones_like | m.ones_like(a) | np.ones_like(a)
scalar_tensor | m.scalar_tensor(1.0, device=dev) | np.array(1.0)
tensor | m.tensor([1.0, 2.0], device=dev) | np.array([1.0, 2.0])
to dtype | a.to(m.float64) | a.astype(np.float64)
tril | m.tril(s) | np.tril(s)
tril_indices | m.tril_indices(3, 3, device=dev) | np.tril_indices(3)
triu | m.triu(s) | np.triu(s)
vander | m.vander(v) | np.vander(v)
zero_ | y.zero_() | y.fill(0)
zeros | m.zeros(2, 3, device=dev) | np.zeros((2, 3))
zeros_like | m.zeros_like(a) | np.zeros_like(a)
""",
)

Factory = suite(CASES)
