"""How products of matrices are recorded: their nodes, views and order."""

import pytest

import metatensor as mt

CPU = "cpu"


def test_a_linear_layer_of_a_strided_input_is_a_product_and_a_sum():
    x, w, b = (mt.empty(*size, device="meta", requires_grad=True) for size in ((2, 5, 7), (3, 5), (3,)))
    y = mt.nn.functional.linear(x.transpose(1, 2), w, b)
    assert not y._is_view() and y.grad_fn.name() == "AddBackward0"
    assert y.grad_fn.next_functions[0][0].name() == "UnsafeViewBackward0"


def test_a_product_of_a_stack_may_be_written_to():
    x, w = mt.rand(2, 5, 7, dtype=mt.float64, device=CPU), mt.rand(5, 3, dtype=mt.float64, device=CPU)
    x, w = x.transpose(1, 2).requires_grad_(), w.requires_grad_()
    y = x.matmul(w)
    y.mul_(3)
    y.sum().backward()
    assert mt.allclose(w.grad, 3 * x.detach().sum((0, 1))[:, None].expand(5, 3))
    assert mt.allclose(x.grad, 3 * w.detach().sum(1).expand(2, 7, 5))


def test_an_unsafe_view_of_no_grad_mode_is_no_view():
    import metatensor.torch_api.torch as torch

    w = mt.rand(6, dtype=mt.float64, device=CPU, requires_grad=True)
    with mt.no_grad():
        y = torch.ops.aten._unsafe_view(w, [2, 3])
    assert not y._is_view() and y.mul(w.view(2, 3)).requires_grad


@pytest.mark.parametrize("shape", [(4, 5), (2, 4, 5), (5,)])
def test_the_bias_of_a_linear_layer_accumulates_first(shape):
    """PyTorch's node multiplies by the transposed weight, whose own node comes later."""
    order = []
    w, b = mt.empty(3, 5, device="meta", requires_grad=True), mt.empty(3, device="meta", requires_grad=True)
    for name, t in (("weight", w), ("bias", b)):
        t.register_post_accumulate_grad_hook(lambda _, name=name: order.append(name))
    mt.nn.functional.linear(mt.empty(*shape, device="meta"), w, b).sum().backward()
    assert order == ["bias", "weight"]
