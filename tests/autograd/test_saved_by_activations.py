"""What activations that work in place save, and the gradients that follow from it."""

import pytest

import metatensor as mt
from metatensor.analysis import MemoryTracker

F = mt.nn.functional

OF_RESULT = {
    "leaky_relu": F.leaky_relu,
    "leaky_relu 0.3": lambda x, inplace: F.leaky_relu(x, 0.3, inplace=inplace),
    "elu": F.elu,
    "elu 0.7": lambda x, inplace: F.elu(x, 0.7, inplace=inplace),
    "selu": F.selu,
    "celu": F.celu,
    "celu 0.7": lambda x, inplace: F.celu(x, 0.7, inplace=inplace),
    "relu": F.relu,
}


@pytest.mark.parametrize("name", OF_RESULT)
def test_gradients_in_place_are_the_same(name, device):
    found = []
    for inplace in (False, True):
        x = mt.tensor([-2.0, -0.5, 0.3, 1.5], dtype=mt.float64, device=device, requires_grad=True)
        y = OF_RESULT[name](x * 1, inplace=inplace)
        (first,) = mt.autograd.grad((y * y).sum(), x, create_graph=True)
        (second,) = mt.autograd.grad(first.sum(), x)
        found.append(first.tolist() + second.tolist())
    assert found[0] == pytest.approx(found[1], rel=1e-12)


@pytest.mark.parametrize("name", OF_RESULT)
def test_only_the_result_is_saved(name):
    x = mt.empty(100, device="meta", requires_grad=True)
    with MemoryTracker() as memory:
        y = OF_RESULT[name](x * 1, inplace=True)
        assert memory.current == 400 and y.grad_fn.name().endswith("0" if name == "relu" else "1")


@pytest.mark.parametrize("call", [lambda x: F.elu(x, -1.0, inplace=True), lambda x: F.leaky_relu(x, -0.1, inplace=True)])
def test_results_that_do_not_tell_the_input_are_refused(call):
    x = mt.ones(3, device="cpu", requires_grad=True)
    with pytest.raises(RuntimeError, match="positive"):
        call(x * 1).sum().backward()


def test_parts_of_one_gradient_keep_all_of_its_storage():
    # As in PyTorch: without values, nobody can tell that the two leaves share a storage.
    a, b = (mt.empty(n, 4, device="meta", requires_grad=True) for n in (3, 2))
    y = mt.cat([a, b])
    (y * y).sum().backward()
    assert a.grad.untyped_storage().nbytes() == b.grad.untyped_storage().nbytes() == 5 * 4 * 4
    assert a.grad.stride() == (4, 1)


def test_gradients_with_values_share_nothing(device):
    a, b = (mt.ones(4, device=device, requires_grad=True) for _ in range(2))
    for _ in range(2):
        ((a.view(2, 2) + b.view(2, 2)) * 2).sum().backward()
    assert a.grad.tolist() == b.grad.tolist() == [4.0] * 4


def test_group_norm_saves_a_contiguous_input():
    x = mt.empty(2, 4, 5, 5, device="meta").contiguous(memory_format=mt.channels_last).requires_grad_()
    y = F.group_norm(x, 2)
    assert y.is_contiguous() and mt.autograd.grad(y.sum(), x)[0].is_contiguous()


def test_attention_with_a_mask_saves_its_weights_once():
    q = mt.empty(2, 4, 16, 8, device="meta", requires_grad=True)
    mask = mt.ones(16, 16, dtype=mt.bool, device="meta").tril()
    with MemoryTracker() as memory:
        out = F.scaled_dot_product_attention(q, q, q, attn_mask=mask)
        # The scaled query and key, the weights; and the result. The value is saved as it was given.
        assert memory.current - out.untyped_storage().nbytes() == 2 * 4096 + 8192


def test_rows_without_any_place_to_attend_to(device):
    q = mt.ones(1, 1, 2, 2, device=device, requires_grad=True)
    mask = mt.tensor([[True, False], [False, False]], device=device)
    out = F.scaled_dot_product_attention(q, q, q, attn_mask=mask)
    assert out.tolist() == [[[[1.0, 1.0], [0.0, 0.0]]]]
    (g,) = mt.autograd.grad(out.sum(), q)
    assert g.isfinite().all()


def test_self_attention_projects_once():
    names = []

    class Log(mt.DispatchMode):
        def dispatch(self, op, args, kwargs):
            names.append(op.name)
            return op(*args, **kwargs)

    with mt.device("meta"):
        layer, x, y = mt.nn.MultiheadAttention(8, 2, batch_first=True), mt.empty(3, 5, 8), mt.empty(3, 5, 8)
    for given, products in (((x, x, x), 2), ((x, y, y), 3), ((x, y, x), 4)):
        names.clear()
        with Log():
            layer(*given, need_weights=False)
        assert names.count("nn.functional.linear") == products


def test_dropout_draws_the_same_with_and_without_gradients(device):
    found = []
    for grad in (False, True):
        mt.manual_seed(0)
        x = mt.ones(3, 4, 20, device=device, requires_grad=grad)
        found.append([F.dropout(x, 0.3).tolist(), F.dropout1d(x, 0.5).tolist(),
                      F.scaled_dot_product_attention(x, x, x, dropout_p=0.4).tolist()])  # fmt: skip
    for a, b in zip(*found, strict=True):
        assert (mt.tensor(a, device="cpu") - mt.tensor(b, device="cpu")).abs().max() < 1e-6
