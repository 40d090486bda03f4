"""Distributions of users, written for PyTorch."""

import re
from pathlib import Path

import pytest

import metatensor as mt
from metatensor import distributions as ours
from metatensor.distributions._parametric import Parametric


def test_a_subclass_outside():
    class Shifted(ours.Distribution):
        arg_constraints = {"shift": ours.constraints.real}
        support = ours.constraints.real

        def __init__(self, shift, validate_args=None):
            self.shift = shift
            super().__init__(shift.shape, validate_args=validate_args)

        def rsample(self, sample_shape=()):
            return self.shift.expand(self._extended_shape(sample_shape))

    d = Shifted(mt.tensor([1.0, 2.0]))
    assert d.sample((3,)).shape == (3, 2)
    with pytest.raises(NotImplementedError):
        d.log_prob(mt.tensor(1.0))
    with pytest.raises(NotImplementedError):
        d.expand((2, 2))

    class Named(ours.Normal):
        def __init__(self, name):
            super().__init__(0.0, 1.0)

    with pytest.raises(NotImplementedError):
        Named("a").expand((2,))


def test_a_family_in_the_style_of_pyro():
    """Overrides expand, calls the constructor of Distribution on a new object, uses lazy_property and dependent supports."""

    class Truncated(ours.Distribution):
        arg_constraints = {"loc": ours.constraints.real, "top": ours.constraints.dependent}
        has_rsample = True

        def __init__(self, loc, top, validate_args=None):
            self.loc, self.top = ours.utils.broadcast_all(loc, top)
            super().__init__(self.loc.shape, validate_args=validate_args)

        @ours.constraints.dependent_property(is_discrete=False, event_dim=0)
        def support(self):
            return ours.constraints.less_than(self.top)

        @ours.utils.lazy_property
        def width(self):
            return self.top - self.loc

        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(Truncated, _instance)
            batch_shape = mt.Size(batch_shape)
            new.loc, new.top = self.loc.expand(batch_shape), self.top.expand(batch_shape)
            super(Truncated, new).__init__(batch_shape, validate_args=False)
            new._validate_args = self._validate_args
            return new

        def rsample(self, sample_shape=()):
            shape = self._extended_shape(sample_shape)
            return self.top - self.width * mt.rand(shape)

        def log_prob(self, value):
            if self._validate_args:
                self._validate_sample(value)
            return -self.width.log().expand(value.shape)

    assert Truncated.support.event_dim == 0 and not Truncated.support.is_discrete
    d = Truncated(mt.zeros(3), 2.0)
    wide = d.expand((5, 3))
    assert "width" not in d.__dict__ and d.width.tolist() == [2.0, 2.0, 2.0] and "width" in d.__dict__
    assert wide.sample((2,)).shape == (2, 5, 3) and wide._validate_args
    assert ours.Independent(wide, 1).log_prob(wide.sample()).shape == (5,)
    with pytest.raises(ValueError, match="support"):
        wide.log_prob(mt.full((3,), 2.5))
    assert repr(d) == "Truncated(loc: metatensor.Size([3]), top: metatensor.Size([3]))"


def test_a_subclass_that_extends_expand():
    class Masked(ours.Normal):
        def __init__(self, loc, scale, mask, validate_args=None):
            self.mask = mask
            super().__init__(loc, scale, validate_args=validate_args)

        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(Masked, _instance)
            new.mask = self.mask.expand(batch_shape)
            return super().expand(batch_shape, _instance=new)

        def log_prob(self, value):
            return super().log_prob(value) * self.mask

    d = Masked(mt.zeros(2), 1.0, mt.tensor([1.0, 0.0])).expand((4, 2))
    assert type(d) is Masked and d.batch_shape == (4, 2) and d.log_prob(d.sample())[:, 1].abs().sum() == 0


def test_a_plain_subclass_expands():
    class Renamed(ours.Gamma):
        arg_constraints = {}

    d = Renamed(mt.ones(3), 2.0).expand((2, 3))
    assert type(d) is Renamed and d.rate.shape == (2, 3) and d.sample().shape == (2, 3)


def test_a_declared_family_and_one_derived_from_it():
    class Angle(Parametric):
        arg_constraints = {"loc": ours.constraints.real}

        def __init__(self, loc):
            self._set_parameters(None, loc=loc)

        def _draw(self, shape):
            return self.loc.expand(shape)

    class Named(Angle):
        def __init__(self, name):
            super().__init__(mt.zeros(2))
            self.name = name

    assert Angle(mt.zeros(2)).expand((3, 2)).sample().shape == (3, 2)
    with pytest.raises(NotImplementedError, match="Named has a constructor of its own"):
        Named("a").expand((3, 2))
    for absent in ("rsample", "entropy"):
        with pytest.raises(NotImplementedError, match=absent):
            getattr(Angle(0.0), absent)()
    with pytest.raises(NotImplementedError, match="icdf"):
        Angle(0.0).icdf(mt.tensor(0.5))


def test_a_transformed_family():
    class SquashedNormal(ours.TransformedDistribution):
        """A policy distribution as used in reinforcement learning."""

        def __init__(self, loc, scale):
            self.loc, self.scale = loc, scale
            super().__init__(ours.Normal(loc, scale), [ours.TanhTransform(cache_size=1)])

        @property
        def mode(self):
            return self.loc.tanh()

    d = SquashedNormal(mt.zeros(2, 3), mt.ones(2, 3))
    action = d.rsample()
    assert d.log_prob(action).shape == (2, 3) and bool(d.log_prob(action).isfinite().all())
    assert repr(d.support) == "Interval(lower_bound=-1.0, upper_bound=1.0)"
    with pytest.raises(NotImplementedError):
        d.expand((4, 2, 3))


def test_an_exponential_family_outside():
    class Geometricish(ours.ExponentialFamily):
        arg_constraints = {"rate": ours.constraints.positive}
        support = ours.constraints.nonnegative
        _mean_carrier_measure = 0

        def __init__(self, rate):
            self.rate = rate
            super().__init__(rate.shape)

        @property
        def _natural_params(self):
            return (-self.rate,)

        def _log_normalizer(self, eta):
            return -(-eta).log()

        _mean_statistics = property(lambda self: (1 / self.rate,))

    rate = mt.tensor([0.5, 3.0])
    assert Geometricish(rate).entropy().tolist() == pytest.approx(ours.Exponential(rate).entropy().tolist())
    found = ours.kl_divergence(Geometricish(rate), Geometricish(rate + 1))
    assert found.tolist() == pytest.approx(ours.kl_divergence(ours.Exponential(rate), ours.Exponential(rate + 1)).tolist())


def test_the_page_on_writing_a_distribution():
    page = (Path(__file__).parents[2] / "docs" / "distributions.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "docs/distributions.md", "exec"), {"__name__": "page"})
