"""Arguments of distributions: rejected values and their errors, signatures, helpers."""

import inspect

import pytest

import metatensor as mt
from distribution_cases import maker
from metatensor import distributions as ours


@pytest.mark.parametrize(
    "act",
    [
        lambda d, x: d.Normal(x([0.0]), x([-1.0])),
        lambda d, x: d.Normal("a", 1.0),
        lambda d, x: d.Bernoulli(x([1.5])),
        lambda d, x: d.Bernoulli(),
        lambda d, x: d.Bernoulli(0.5, 0.5),
        lambda d, x: d.Categorical(x(0.5)),
        lambda d, x: d.Categorical(x([-0.5, 1.5])),
        lambda d, x: d.Uniform(1.0, 0.0),
        lambda d, x: d.Normal(0.0, 1.0).log_prob(3),
        lambda d, x: d.Normal(x([0.0, 1.0]), 1.0).log_prob(x([1.0, 2.0, 3.0])),
        lambda d, x: d.Exponential(1.0).log_prob(x([-1.0])),
        lambda d, x: d.Dirichlet(x([1.0, 1.0])).log_prob(x([0.5, 0.7])),
        lambda d, x: d.MultivariateNormal(x([0.0]), x([[1.0]]), x([[1.0]])),
        lambda d, x: d.MultivariateNormal(x([0.0, 0.0]), x([[1.0, 2.0], [2.0, 1.0]])),
        lambda d, x: d.Independent(d.Normal(0.0, 1.0), 1),
        lambda d, x: d.Geometric(x([0.0])),
    ],
)
def test_refused(act, torch):
    with pytest.raises(ValueError):
        act(torch.distributions, maker(torch))
    with pytest.raises(ValueError):
        act(ours, maker(mt))


def test_checks_can_be_switched_off():
    ours.Normal(0.0, -1.0, validate_args=False)
    try:
        ours.Distribution.set_default_validate_args(False)
        ours.Normal(0.0, -1.0)
    finally:
        ours.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError):
        ours.Distribution.set_default_validate_args(3)


def test_signatures(torch):
    for name in ours.__all__:
        other = getattr(torch.distributions, name)
        if inspect.isclass(other):
            mine = inspect.signature(getattr(ours, name).__init__).parameters
            assert list(mine) == list(inspect.signature(other.__init__).parameters), name


def test_helpers(torch):
    from torch.distributions import utils as theirs

    from metatensor.distributions import utils

    for t, u in ((mt, utils), (torch, theirs)):
        vec = t.tensor([1.0, 2.0, 3.0])
        assert u.vec_to_tril_matrix(vec).tolist() == [[1.0, 0.0], [2.0, 3.0]]
        assert u.vec_to_tril_matrix(vec, diag=-1).tolist() == [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [2.0, 3.0, 0.0]]
        assert u.tril_matrix_to_vec(u.vec_to_tril_matrix(vec)).tolist() == [1.0, 2.0, 3.0]
        assert u.clamp_probs(t.tensor([0.0, 1.0])).tolist()[0] > 0
        a, b = u.broadcast_all(t.zeros(2, 1, dtype=t.float64), 3)
        assert a.shape == b.shape and b.dtype == t.float64
        with pytest.raises(ValueError):
            u.broadcast_all([1.0])
