"""Random factories and in-place fills."""

from .harness import suite, table

CASES = table(
    "random",
    """
_sample_dirichlet | m._sample_dirichlet(a)
_standard_gamma | m._standard_gamma(a) | np.random.standard_gamma(a)
bernoulli | m.bernoulli(a)
multinomial | m.multinomial(row, 2)
normal | m.normal(a, b) | np.random.normal(a, b)
normal_ | y.normal_() | np.random.standard_normal((2, 3))
poisson | m.poisson(a) | np.random.poisson(a)
rand | m.rand(2, 3, device=dev) | np.random.rand(2, 3)
rand_like | m.rand_like(a) | np.random.random_sample((2, 3))
randint | m.randint(0, 9, (2, 3), device=dev) | np.random.randint(0, 9, (2, 3))
randint_like | m.randint_like(i, 9) | np.random.randint(0, 9, (2, 3))
randn | m.randn(2, 3, device=dev) | np.random.randn(2, 3)
randn_like | m.randn_like(a) | np.random.standard_normal((2, 3))
randperm | m.randperm(4, device=dev) | np.random.permutation(4)
uniform_ | y.uniform_() | np.random.uniform(size=(2, 3))
cauchy_ | y.cauchy_()
exponential_ | y.exponential_() | np.random.standard_exponential((2, 3))
geometric_ | y.geometric_(0.5)
log_normal_ | y.log_normal_()
random_ | y.random_()
""",
)

Random = suite(CASES)
