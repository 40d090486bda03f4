"""Functions of layers under their top-level names, where arguments have another order, as in PyTorch."""

import pytest

import metatensor as mt
from ops.against import agree, attempt, raises_alike, tensors_of

REDUCED = {
    "binary_cross_entropy_with_logits": ((3, 4), (3, 4), (4,), (4,)),
    "hinge_embedding_loss": ((3, 4), (3, 4)),
    "kl_div": ((3, 4), (3, 4)),
    "cosine_embedding_loss": ((3, 4), (3, 4), (3,)),
    "margin_ranking_loss": ((3,), (3,), (3,)),
    "triplet_margin_loss": ((3, 4), (3, 4), (3, 4)),
}


@pytest.mark.torch
@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_losses(name, reduction):
    tensors = [t.abs() + 0.1 for t in tensors_of(0, *REDUCED[name])]
    agree(lambda m, *t: getattr(m, name)(*t, reduction=reduction), *tensors, tolerance=1e-5)


@pytest.mark.torch
@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("flags", [(True, False), (False, True)])
def test_poisson(reduction, flags):
    agree(lambda m, a, b: m.poisson_nll_loss(a, b, *flags, 1e-8, reduction), *(t.abs() for t in tensors_of(0, (3,), (3,))),
          tolerance=1e-5)  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_ctc(reduction):
    import torch

    (x,) = tensors_of(0, (7, 2, 5))
    targets, lengths, target_lengths = torch.ones(2, 3, dtype=torch.int64), torch.tensor([7, 6]), torch.tensor([3, 2])
    agree(lambda m, *t: m.ctc_loss(*t, 0, reduction), x.log_softmax(2), targets, lengths, target_lengths, tolerance=1e-4)
    agree(lambda m, x, t: m.ctc_loss(x, t, [7, 6], [3, 2], 0, reduction), x.log_softmax(2), targets, tolerance=1e-4)


@pytest.mark.torch
def test_normalisation():
    x, weight, bias, mean, var = tensors_of(0, (2, 4, 3), (4,), (4,), (4,), (4,))
    var = var.abs() + 1
    close = {"tolerance": 1e-5}
    agree(lambda m, x, w, b: m.group_norm(x, 2, w, b, 1e-4, True), x, weight, bias, **close)
    agree(lambda m, x: m.layer_norm(x, (4, 3)), x, **close)
    agree(lambda m, x, w: m.layer_norm(x.mT, (4,), w, eps=1e-3), x, weight, **close)
    agree(lambda m, x, w: m.rms_norm(x.mT, (4,), w, 1e-3), x, weight, **close)
    for training in (True, False):
        agree(lambda m, x, w, b, r, v, t=training: m.batch_norm(x, w, b, r, v, t, 0.1, 1e-5, True), x, weight, bias, mean, var, **close)
        agree(lambda m, x, w, b, r, v, t=training: m.instance_norm(x, w, b, r, v, t, 0.1, 1e-5, True), x, weight, bias, mean, var, **close)
    agree(lambda m, x: m.batch_norm(x, None, None, None, None, False, 0.1, 1e-5, False), x)


@pytest.mark.torch
def test_others():
    a, b, w, bias = tensors_of(0, (5, 3), (5, 4), (2, 3, 4), (2,))
    agree(lambda m, *t: m.bilinear(*t), a, b, w, bias, tolerance=1e-5)
    for dim in (-2, -1, 0, 1, 2, 3):
        agree(lambda m, t, d=dim: m.norm_except_dim(t, 2, d), w, tolerance=1e-5)
    x, kernel, bias = tensors_of(0, (7, 2, 3), (3, 3, 4), (4,))
    for pad in (0, 1):
        agree(lambda m, *t, p=pad: m.conv_tbc(*t, p), x, kernel, bias, tolerance=1e-5)
        agree(lambda m, *t, p=pad: m.nn.functional.conv_tbc(*t, p), x, kernel, bias, tolerance=1e-5)


@pytest.mark.torch
@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.conv_tbc(m.ones(2, 3), m.ones(1, 3, 4), m.ones(4)),
        lambda m: m.conv_tbc(m.ones(2, 2, 3), m.ones(1, 2, 4), m.ones(4)),
        lambda m: m.conv_tbc(m.ones(2, 2, 3), m.ones(1, 3, 4), m.ones(3)),
        lambda m: m.layer_norm(m.ones(2, 3), (2,)),
        lambda m: m.group_norm(m.ones(2, 3), 2),
        lambda m: m.batch_norm(m.ones(2, 3), None, None),
    ],
)
def test_errors(call):
    import torch

    there, here = attempt(call, torch, []), attempt(call, mt, [])
    assert isinstance(there, Exception) and raises_alike(here, there), (here, there)


def test_reductions_are_numbers():
    with pytest.raises(ValueError, match="kl_div.*reduction"):
        mt.kl_div(mt.ones(2), mt.ones(2), 3)
    with pytest.raises(TypeError):
        mt.kl_div(mt.ones(2), mt.ones(2), "sum")


def test_norm_of_the_elements_of_a_vector():
    assert mt.norm_except_dim(mt.tensor([1.0, -2.0]), 3).tolist() == [1.0, 2.0]


def test_native_losses_broadcast():
    f, i = mt.ones(2, 3), mt.ones(2, 3, dtype=mt.int64)
    assert mt.margin_ranking_loss(f, mt.ones(()), i).shape == (2, 3)
    assert mt.margin_ranking_loss(f, f, i[None]).shape == (1, 2, 3)
    assert mt.binary_cross_entropy_with_logits(mt.ones(1), f).shape == (2, 3)
    with pytest.raises(RuntimeError):
        mt.binary_cross_entropy_with_logits(f, mt.ones(1))
    with pytest.raises(ValueError):
        mt.nn.functional.binary_cross_entropy_with_logits(mt.ones(1), f)


def test_the_native_affine_grid_raises_as_a_product_of_matrices():
    for theta, error in ((mt.ones(1, 1, 2, 3), RuntimeError), (mt.ones(2, 3), IndexError)):
        with pytest.raises(error):
            mt.affine_grid_generator(theta, [1, 1, 3, 4], False)
