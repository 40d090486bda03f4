"""Distributions of deferred tensors, on meta, in half precision, under vmap, and under PyTorch's names."""

import importlib
import subprocess
import sys

import pytest

import metatensor as mt
from distribution_cases import CASES, NUMBERS, maker
from metatensor import distributions as ours


@pytest.mark.parametrize("name", [n for n in CASES if n not in NUMBERS and "Straight" not in n])
def test_deferred(name):
    """Deferred samples equal eager ones with the same seed."""
    make, _ = CASES[name]

    def draw():
        mt.manual_seed(5)
        return make(ours, maker(mt)).sample((2,))

    at_once = draw()
    with mt.deferred_init():
        later = draw()
    assert mt.is_deferred(later) and later.shape == at_once.shape and later.dtype == at_once.dtype
    mt.materialize(later)
    assert later.tolist() == at_once.tolist()


def test_checks_pass_where_there_is_no_data():
    d = ours.Normal(mt.zeros(2, device="meta"), mt.full((2,), -1.0, device="meta"))
    assert d.log_prob(mt.ones(3, 2, device="meta")).shape == (3, 2)
    assert ours.MultivariateNormal(mt.zeros(2, device="meta"), mt.zeros(2, 2, device="meta")).batch_shape == ()
    assert ours.Wishart(mt.tensor(0.5, device="meta"), mt.zeros(2, 2, device="meta")).event_shape == (2, 2)
    with pytest.raises(ValueError, match="does not broadcast"):
        d.log_prob(mt.ones(3, device="meta"))
    with pytest.raises(NotImplementedError, match="total_count"):
        ours.Binomial(mt.ones(2, device="meta"), mt.ones(2, device="meta")).enumerate_support()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", ["Normal", "Gamma", "Beta", "Dirichlet", "Exponential", "Bernoulli", "Laplace", "Gumbel", "VonMises"])
def test_dtypes(name, dtype):
    d = CASES[name][0](ours, lambda v: mt.tensor(v, dtype=getattr(mt, dtype)))
    drawn = d.sample((3,))
    assert drawn.dtype == getattr(mt, dtype) and drawn.isfinite().all()
    assert d.log_prob(drawn.clamp(0.25, 0.75) if name == "Beta" else drawn).dtype == getattr(mt, dtype) if name != "Dirichlet" else True


def test_vmap():
    loc, x = mt.arange(3.0), mt.ones(3)
    found = mt.func.vmap(lambda m, v: ours.Normal(m, 1.0, validate_args=False).log_prob(v))(loc, x)
    assert found.tolist() == pytest.approx(ours.Normal(loc, 1.0).log_prob(x).tolist())


@pytest.mark.slow
def test_modules_answer_to_pytorchs_names():
    code = """
from metatensor import torch_api
torch_api.install()
import torch.distributions as d
from torch.distributions.normal import Normal
from torch.distributions.multivariate_normal import MultivariateNormal, LowRankMultivariateNormal
from torch.distributions.studentT import StudentT
import torch.distributions.relaxed_categorical
import metatensor
assert d is metatensor.distributions and Normal is metatensor.distributions.Normal
assert d.kl.kl_divergence is d.kl_divergence and d.categorical.Categorical is d.Categorical
assert d.relaxed_categorical.ExpRelaxedCategorical
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_module_of_pytorch(torch):
    for name in dir(torch.distributions):
        theirs = getattr(torch.distributions, name)
        if type(theirs) is type(sys) and theirs.__name__.startswith("torch.distributions."):
            module = getattr(ours, name, None) or importlib.import_module(f"metatensor.distributions.{name}")
            for public in getattr(theirs, "__all__", ()):
                assert hasattr(module, public), (name, public)
    assert set(torch.distributions.__all__) == set(ours.__all__)
