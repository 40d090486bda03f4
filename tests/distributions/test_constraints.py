"""Constraints and the registries of transforms onto them, compared with PyTorch's."""

import math

import pytest

import metatensor as mt
from distribution_cases import assert_close, maker, plain
from metatensor import distributions as ours


def constraint_cases(c, x):
    matrices = [[[1.0, 0.0], [0.5, 2.0]], [[1.0, 0.5], [0.5, 2.0]], [[1.0, 3.0], [3.0, 1.0]], [[1.0, 0.0], [0.6, 0.8]]]
    plain_values = [-1.0, 0.0, 0.5, 1.0, 2.0, math.nan]
    vectors = [[0.2, 0.8], [0.0, 1.0], [1.0, 1.0], [-0.5, 1.5]]
    scalars = [
        c.boolean, c.nonnegative_integer, c.positive_integer, c.integer_interval(0, 1), c.real, c.positive, c.nonnegative,
        c.greater_than(0.5), c.greater_than_eq(0.5), c.less_than(0.5), c.unit_interval, c.interval(0.0, 1.0),
        c.half_open_interval(0.0, 1.0),
    ]  # fmt: skip
    for constraint in scalars:
        yield constraint, x(plain_values)
    for constraint in (c.simplex, c.one_hot, c.multinomial(1.0), c.real_vector, c.independent(c.positive, 1)):
        yield constraint, x(vectors)
    for constraint in (c.lower_triangular, c.lower_cholesky, c.square, c.symmetric, c.corr_cholesky):
        yield constraint, x(matrices)
    yield c.positive_definite, x(matrices[1:2])
    yield c.positive_semidefinite, x(matrices[1:3])
    yield c.cat([c.positive, c.real], 0, [2, 2]), x([1.0, -1.0, 1.0, -1.0])
    yield c.stack([c.positive, c.real], 0), x([[1.0, -1.0], [1.0, -1.0]])


def test_constraints(torch):
    theirs = list(constraint_cases(torch.distributions.constraints, maker(torch)))
    for (mine, value), (other, their_value) in zip(constraint_cases(ours.constraints, maker(mt)), theirs, strict=True):
        assert mine.check(value).tolist() == other.check(their_value).tolist(), repr(other)
        assert repr(mine) == repr(other) or "object at" in repr(other)
        assert (mine.event_dim, mine.is_discrete) == (other.event_dim, other.is_discrete)
    assert ours.constraints.is_dependent(ours.Uniform.support) and not ours.constraints.is_dependent(ours.constraints.real)


@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
def test_registries(registry, torch):
    values = [0.3, -0.5, 1.2]

    def run(d, t, constraint):
        transform = getattr(d, registry)(constraint(d.constraints))
        return plain(transform(t.tensor(values)))

    for constraint in (
        lambda c: c.real, lambda c: c.positive, lambda c: c.greater_than(2.0), lambda c: c.less_than(2.0),
        lambda c: c.unit_interval, lambda c: c.interval(-1.0, 3.0), lambda c: c.simplex, lambda c: c.real_vector,
        lambda c: c.independent(c.positive, 1), lambda c: c.corr_cholesky,
    ):  # fmt: skip
        assert_close(run(ours, mt, constraint), run(torch.distributions, torch, constraint))
    with pytest.raises(NotImplementedError):
        getattr(ours, registry)(ours.constraints.boolean)
