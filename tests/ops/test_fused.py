"""Attention in one kernel: its gradients for a part of the keys, compared with PyTorch, and shapes that it refuses."""

import math

import numpy as np
import pytest

import metatensor as mt


def arrays(heads=2, others=2, length=6, width=8):
    rng = np.random.default_rng(0)
    shapes = [(2, heads, length, width)] * 2 + [(2, others, length, width)] * 4
    return [rng.standard_normal(shape).astype("float32") for shape in shapes]


def close(a, b):
    return np.allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-5)


@pytest.mark.torch
@pytest.mark.parametrize("is_causal", [False, True])
def test_gradients_of_a_part_of_the_keys_are_those_of_torch(is_causal):
    torch = pytest.importorskip("torch")
    found = []
    for t, namespace in ((torch, torch.ops.aten), (mt, mt)):
        q, grad, *halves = (t.from_numpy(one.copy()) for one in arrays())
        keys, values = (t.cat(halves[:2], 2), t.cat(halves[2:], 2))
        out, rows = namespace._scaled_dot_product_flash_attention_for_cpu(q, keys, values, 0.0, False)
        found.append(namespace._scaled_dot_product_flash_attention_for_cpu_backward(
            grad, q, halves[0], halves[2], out, rows, 0.0, is_causal
        ))  # fmt: skip
    assert all(close(theirs.numpy(), ours.numpy()) for theirs, ours in zip(*found))


def forward(name, q, k, v):
    if name == "_scaled_dot_product_efficient_attention":
        out, rows, *rest = getattr(mt, name)(q, k, v, None, True)
    else:
        out, rows, *rest = getattr(mt, name)(q, k, v)
    return out, rows, rest


def backward(name, grad, q, k, v, out, rows, rest):
    f = getattr(mt, f"{name}_backward")
    if name == "_scaled_dot_product_efficient_attention":
        return f(grad, q, k, v, None, out, rows, *rest, 0.0, [True, True, True, False])[:3]
    return f(grad, q, k, v, out, rows, 0.0, False, *rest)


NAMES = ["_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_efficient_attention"]


@pytest.mark.parametrize("others", [2, 1])
@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_parts_of_the_keys_add_up(name, others, device):
    q, grad, k1, k2, v1, v2 = (mt.from_numpy(one).to(device) for one in arrays(others=others))
    k, v = mt.cat([k1, k2], 2), mt.cat([v1, v2], 2)
    results = forward(name, q, k, v)
    whole = backward(name, grad, q, k, v, *results)
    inputs = [one.clone().requires_grad_() for one in (q, k, v)]
    plain = mt.nn.functional.scaled_dot_product_attention(*inputs, enable_gqa=True)
    expected = mt.autograd.grad(plain, inputs, grad)
    assert all(mt.allclose(one, other, atol=1e-5) for one, other in zip((results[0], *whole), (plain.detach(), *expected)))
    first, second = (backward(name, grad, q, *part, *results) for part in ((k1, v1), (k2, v2)))
    assert mt.allclose(first[0] + second[0], whole[0], atol=1e-5)
    assert all(mt.allclose(mt.cat(pair, 2), one, atol=1e-5) for *pair, one in zip(first[1:], second[1:], whole[1:]))


@pytest.mark.parametrize("name", NAMES)
def test_no_sequences(name, device):
    q, k = mt.zeros(0, 4, 6, 8, device=device), mt.zeros(0, 2, 5, 8, device=device)
    out, rows, rest = forward(name, q, k, k)
    assert [one.shape for one in backward(name, out, q, k, k, out, rows, rest)] == [q.shape, k.shape, k.shape]


def test_rows_without_keys_have_no_gradient(device):
    q, grad, k, _, v, _ = (mt.from_numpy(one).to(device) for one in arrays())
    mask = mt.zeros(6, 6, device=device)
    mask[2] = -math.inf
    out, rows = mt._scaled_dot_product_flash_attention_for_cpu(q, k, v, attn_mask=mask)
    found = mt._scaled_dot_product_flash_attention_for_cpu_backward(grad, q, k, v, out, rows, 0.0, False, attn_mask=mask)
    assert rows[..., 2].isneginf().all() and not found[0][:, :, 2].any() and all(one.isfinite().all() for one in found)


@pytest.mark.parametrize("name", NAMES)
def test_results_of_other_shapes_are_refused(name):
    q, k = mt.empty(2, 4, 6, 8, device="meta"), mt.empty(2, 2, 5, 8, device="meta")
    out, rows, rest = forward(name, q, k, k)
    assert [one.shape for one in backward(name, out, q, k, k, out, rows, rest)] == [q.shape, k.shape, k.shape]
    for wrong, match in (
        ((out[:, :, 1:], q, k, k, out, rows, rest), "grad_out"),
        ((out, q, k, k, out[:, :2], rows, rest), "out must have the shape"),
        ((out, q, k, k, out, rows[:, :2], rest), "logsumexp must have"),
        ((out, q, k, k, out, rows[0], rest), "logsumexp must have"),
    ):
        with pytest.raises((RuntimeError, ValueError), match=match):
            backward(name, *wrong)
    if name != "_scaled_dot_product_efficient_attention":
        with pytest.raises((RuntimeError, ValueError), match="sizes do not match"):
            forward(name, q, k, k[..., :4])
