"""Classification losses: values and metadata compared with PyTorch, definitions, errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.against import agree, tensors_of
from ops.pairs import values

F = mt.nn.functional
REDUCTIONS = ("none", "mean", "sum")


def classes(shape, high, seed=0, low=0):
    import torch

    return torch.from_numpy(np.asarray(np.random.default_rng(seed).integers(low, high, shape)))


@st.composite
def problems(draw):
    """Draw the shapes of scores and class indices."""
    lead = draw(st.sampled_from([(), (2,), (0,)]))
    space = draw(st.lists(st.integers(1, 3), max_size=3)) if lead else []
    return (*lead, 4, *space), (*lead, *space)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@given(problems(), st.sampled_from(REDUCTIONS), st.booleans(), st.sampled_from([-100, 0, 2]), st.sampled_from([0.0, 0.1, 1.0]))
@settings(max_examples=150)
def test_class_indices(problem, reduction, weighted, ignored, smoothing):
    scores, weight = tensors_of(0, problem[0], (4,))
    options = {"reduction": reduction, "ignore_index": ignored}
    arguments = [scores, classes(problem[1], 4), *([weight.abs() + 0.1] if weighted else [])]
    agree(lambda lib, *t: lib.nn.functional.nll_loss(*t, **options), *arguments, tolerance=1e-5)
    agree(lambda lib, *t: lib.nn.functional.cross_entropy(*t, label_smoothing=smoothing, **options), *arguments, tolerance=1e-5)


@pytest.mark.torch
@given(problems(), st.sampled_from(REDUCTIONS), st.booleans(), st.sampled_from([0.0, 0.1]))
@settings(max_examples=80)
def test_class_probabilities(problem, reduction, weighted, smoothing):
    scores, target, weight = tensors_of(0, problem[0], problem[0], (4,))
    arguments = [scores, target.sigmoid(), *([weight] if weighted else [])]
    call = lambda lib, *t: lib.nn.functional.cross_entropy(*t, reduction=reduction, label_smoothing=smoothing)
    agree(call, *arguments, tolerance=1e-5)


@pytest.mark.torch
@pytest.mark.parametrize(
    "scores, target",
    [((3, 4), (4,)), ((3, 4, 5), (3, 4)), ((3, 4), (3, 1)), ((4,), (2,)), ((4,), (1,)), ((), ()), ((3, 4), ()), ((3, 4, 5), (2, 5))],
)
def test_shapes(scores, target):
    arguments = *tensors_of(0, scores), classes(target, 1)
    for name in ("nll_loss", "cross_entropy"):
        agree(lambda lib, *t: getattr(lib.nn.functional, name)(*t), *arguments, tolerance=1e-5)


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "int64", "complex64"])
def test_dtypes(dtype):
    scores = tensors_of(0, (3, 4), dtype=dtype)
    agree(lambda lib, *t: lib.nn.functional.cross_entropy(*t), *scores, classes(3, 4), tolerance=3e-2 if dtype == "bfloat16" else 1e-6)
    agree(lambda lib, s, t: lib.nn.functional.cross_entropy(s, t.int()), *scores, classes(3, 4))
    agree(lambda lib, s, t: lib.nn.functional.nll_loss(s, t.byte()), *tensors_of(0, (3, 4)), classes(3, 4), tolerance=1e-6)


@pytest.mark.parametrize("bad", [-1, 4])
def test_targets_out_of_range(bad, device):
    scores, target = mt.ones(1, 4, device=device), mt.tensor([bad], device=device)
    with pytest.raises(IndexError, match=r"\[0, 4\)"):
        mt.nn.functional.nll_loss(scores, target)
    with pytest.raises(RuntimeError, match=r"\[0, 4\)"):
        mt.nn.functional.multi_margin_loss(scores, target)


@pytest.mark.torch
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape, target", [((3, 4), (3,)), ((4,), ()), ((4,), (1,)), ((3, 4), (4,)), ((0, 4), (0,)), ((3, 0), (3,))])
def test_multi_margin(reduction, shape, target):
    scores, weight = tensors_of(0, shape, (4,))
    for options in ({}, {"p": 2}, {"margin": 0.3}, {"p": 3}):
        call = lambda lib, *t: lib.nn.functional.multi_margin_loss(*t, reduction=reduction, **options)
        # For an empty batch, PyTorch reduces uninitialized memory.
        agree(call, scores, classes(target, 4), tolerance=1e-5, values=0 not in shape)
    call = lambda lib, s, t, w: lib.nn.functional.multi_margin_loss(s, t, weight=w)
    agree(call, scores, classes(target, 4), weight, tolerance=1e-5, values=0 not in shape)


@pytest.mark.torch
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(3, 4), (4,), (), (0, 4), (2, 3, 4)])
def test_multilabel_margin(reduction, shape):
    scores, target = *tensors_of(0, shape), classes(shape, 4 if shape else 1, low=-1)
    call = lambda lib, *t: lib.nn.functional.multilabel_margin_loss(*t, reduction=reduction)
    agree(call, scores, target, tolerance=1e-5, values=0 not in shape)


@pytest.mark.torch
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_ctc(reduction):
    import torch

    (log,) = tensors_of(0, (12, 3, 5))
    log = log.log_softmax(-1)
    targets, options = classes((3, 4), 5, low=1), {"reduction": reduction}
    frames, lengths = (12, 10, 4), (4, 2, 3)
    agree(lambda lib, p, t: lib.nn.functional.ctc_loss(p, t, frames, lengths, **options), log, targets, tolerance=1e-4)
    joined = torch.cat([targets[i, :n] for i, n in enumerate(lengths)])
    agree(lambda lib, p, t: lib.nn.functional.ctc_loss(p, t, frames, lengths, **options), log, joined, tolerance=1e-4)
    agree(lambda lib, *t: lib.nn.functional.ctc_loss(*t, **options), log, targets, torch.tensor(frames), torch.tensor(lengths),
          tolerance=1e-4)  # fmt: skip
    too_short = torch.tensor([2, 10, 1])
    agree(lambda lib, *t: lib.nn.functional.ctc_loss(*t, zero_infinity=True, **options), log, targets, too_short,
          torch.tensor(lengths), tolerance=1e-4)  # fmt: skip
    agree(lambda lib, *t: lib.nn.functional.ctc_loss(*t, **options), log[:, 0], targets[0], torch.tensor(12), torch.tensor(4),
          tolerance=1e-4)  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_linear_cross_entropy(reduction):
    x, w, b, w2 = tensors_of(0, (3, 4), (5, 4), (5,), (2, 3, 4))
    options = {"reduction": reduction}
    agree(lambda lib, x, w, t: lib.nn.functional.linear_cross_entropy(x, w, t, **options), x, w, classes(3, 5), tolerance=1e-4)
    agree(lambda lib, x, w, t, b: lib.nn.functional.linear_cross_entropy(x, w, t, linear_bias=b, label_smoothing=0.1, **options),
          x, w, classes(3, 5), b, tolerance=1e-4)  # fmt: skip
    agree(lambda lib, x, w, t: lib.nn.functional.linear_cross_entropy(x, w, t, **options), x, w2, classes((3, 3), 2), tolerance=1e-4)


def test_definition(device):
    scores = np.random.default_rng(0).standard_normal((3, 4))
    target = np.array([1, 0, 3])
    expected = np.log(np.exp(scores).sum(1)) - scores[range(3), target]
    x, t = mt.from_numpy(scores).to(device), mt.from_numpy(target).to(device)
    np.testing.assert_allclose(values(F.cross_entropy(x, t, reduction="none")), expected, rtol=1e-12)
    np.testing.assert_allclose(values(F.cross_entropy(x, t)), expected.mean(), rtol=1e-12)
    with pytest.raises(IndexError, match=r"\[0, 4\)"):
        F.cross_entropy(x, t + 1)


@pytest.mark.parametrize(
    "name, target, options, error, message",
    [
        ("cross_entropy", (4,), {}, ValueError, r"batch size.*\[3, 4\].*\[4\]"),
        ("cross_entropy", (3, 1), {}, RuntimeError, "without dimension 1"),
        ("cross_entropy", (3,), {"label_smoothing": 2.0}, RuntimeError, r"label_smoothing.*\[0, 1\]"),
        ("cross_entropy", (3,), {"weight": mt.empty(3, device="meta")}, RuntimeError, r"weight.*\[4\]"),
        ("nll_loss", (3,), {"reduction": "all"}, ValueError, "'none', 'mean' or 'sum'"),
        ("cross_entropy", (3, 4), {}, RuntimeError, "floating-point"),
        ("multi_margin_loss", (3,), {"p": 3}, ValueError, "1 or 2"),
        ("multilabel_margin_loss", (3, 5), {}, RuntimeError, "input's shape"),
    ],
)
def test_bad_arguments(name, target, options, error, message):
    with pytest.raises(error, match=message):
        getattr(F, name)(mt.empty(3, 4, device="meta"), mt.empty(target, dtype=mt.int64, device="meta"), **options)


@pytest.mark.torch
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (2, 0), (0, 3, 4), (0, 3, 0)])
def test_no_classes_and_no_samples(shape, reduction):
    import torch

    places = (shape[0], *shape[2:])
    for name, target in (("cross_entropy", -100), ("nll_loss", -100), ("cross_entropy", None)):
        found = []
        for m in (torch, mt):
            f = getattr(m.nn.functional, name)
            t = m.zeros(shape) if target is None else m.full(places, target)
            found.append(f(m.zeros(shape), t, reduction=reduction))
        agree(found[1], found[0])


@pytest.mark.torch
@pytest.mark.parametrize("name", ["multi_margin_loss", "multilabel_margin_loss"])
@pytest.mark.parametrize("x", ["nan 1 2", "1 nan 2", "inf 1 -inf", "3 inf 2"])
def test_no_number_exceeds_no_margin(name, x):
    import torch

    found = []
    for m in (torch, mt):
        target = m.tensor([0] if name == "multi_margin_loss" else [[0, -1, -1]])
        found.append(getattr(m.nn.functional, name)(m.tensor([[float(n) for n in x.split()]]), target))
    agree(found[1], found[0])
