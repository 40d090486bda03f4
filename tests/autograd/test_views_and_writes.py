"""Leaves, grad modes, views and in-place writes, as PyTorch's notes on autograd describe them. The values are mathematics."""

import pytest

import metatensor as mt

CPU = "cpu"


def leaf(*values, dtype=None):
    return mt.tensor(list(values), dtype=dtype or mt.float64, device=CPU, requires_grad=True)


def plain(*values):
    return mt.tensor(list(values), dtype=mt.float64, device=CPU)


def of(t):
    """Return a result that is no leaf, with the values of `t`."""
    return t * 1


# Leaves ------------------------------------------------------------------------------------------------


def test_results_require_grad_if_an_input_does():
    x, y = leaf(1.0), plain(2.0)
    assert (x + y).requires_grad and not (y + y).requires_grad


def test_leaves_are_what_no_recorded_operator_made():
    x, y = leaf(1.0), plain(2.0)
    assert x.is_leaf and y.is_leaf and (y * 2).is_leaf
    assert not (x * 2).is_leaf and x.detach().is_leaf
    assert x.grad_fn is None and (y * 2).grad_fn is None and (x * 2).grad_fn is not None


def test_a_result_that_is_made_to_require_grad_is_a_leaf():
    y = plain(2.0) * 3
    y.requires_grad_()
    (y * y).backward()
    assert y.is_leaf and y.grad.tolist() == [12]


def test_only_floating_point_and_complex_tensors_require_grad():
    with pytest.raises(RuntimeError):
        mt.tensor([1, 2], device=CPU).requires_grad_()
    with pytest.raises(RuntimeError):
        mt.ones(2, dtype=mt.bool, device=CPU, requires_grad=True)
    assert mt.ones(2, dtype=mt.complex64, device=CPU, requires_grad=True).requires_grad


def test_integer_results_do_not_require_grad():
    x = leaf(3.0, 1.0)
    assert not x.argmax().requires_grad and not (x > 2).requires_grad and not x.long().requires_grad
    values, indices = x.sort()
    assert values.requires_grad and not indices.requires_grad


def test_a_result_cannot_be_made_not_to_require_grad():
    y = leaf(1.0) * 2
    with pytest.raises(RuntimeError):
        y.requires_grad_(False)
    with pytest.raises(RuntimeError):
        y.requires_grad = False
    y.requires_grad_(True)
    assert y.requires_grad and not y.is_leaf


def test_only_leaves_get_a_gradient():
    x = leaf(2.0)
    y = x * 3
    (y * y).backward()
    assert x.grad.tolist() == [36]


def test_results_keep_their_gradient_on_request():
    x = leaf(2.0)
    y = x * 3
    y.retain_grad()
    (y * y).backward()
    assert y.grad.tolist() == [12] and y.retains_grad and not x.retains_grad
    x.retain_grad()  # nothing happens for a leaf
    with pytest.raises(RuntimeError):
        plain(1.0).retain_grad()


def test_gradients_accumulate_until_they_are_reset():
    x = leaf(2.0)
    for total in (4, 8):
        (x * x).backward()
        assert x.grad.tolist() == [total]
    x.grad = None
    (x * x).backward()
    assert x.grad.tolist() == [4]


def test_frozen_leaves_get_no_gradient():
    x, w = leaf(2.0), leaf(3.0)
    w.requires_grad_(False)
    (x * w).backward()
    assert x.grad.tolist() == [3] and w.grad is None


def test_detach_cuts_the_graph_and_shares_the_values():
    x = leaf(2.0)
    y = x * 3
    z = y.detach()
    assert not z.requires_grad and z.data_ptr() == y.data_ptr()
    (y * z).backward()
    assert x.grad.tolist() == [18]


def test_detach_in_place_makes_a_leaf():
    x = leaf(2.0)
    y = x * 3
    assert y.detach_() is y and y.is_leaf and not y.requires_grad


# Grad modes ------------------------------------------------------------------------------------------------


def test_nothing_is_recorded_without_gradients():
    x = leaf(2.0)
    with mt.no_grad():
        y = x * 2
        z = mt.ones(2, device=CPU, requires_grad=True)
    assert not y.requires_grad and z.requires_grad and (z * 2).requires_grad


def test_modes_nest():
    x = leaf(2.0)
    with mt.no_grad():
        assert not (x * 2).requires_grad
        with mt.enable_grad():
            assert (x * 2).requires_grad
        with mt.set_grad_enabled(True):
            assert (x * 2).requires_grad
        assert not mt.is_grad_enabled()
    assert mt.is_grad_enabled()


def test_modes_are_decorators():
    @mt.no_grad()
    def without(x):
        return x * 2

    @mt.enable_grad()
    def recorded(x):
        return x * 2

    x = leaf(1.0)
    assert not without(x).requires_grad
    with mt.no_grad():
        assert recorded(x).requires_grad


def test_results_without_gradients_can_be_used_with_them():
    x = leaf(2.0)
    with mt.no_grad():
        y = x * 3
    (x * y).backward()
    assert x.grad.tolist() == [6]


def test_leaves_can_be_updated_without_gradients():
    x = leaf(2.0)
    (x * x).backward()
    with mt.no_grad():
        x -= 0.25 * x.grad
    assert x.tolist() == [1] and x.requires_grad and x.is_leaf and x.grad_fn is None


# Inference mode ----------------------------------------------------------------------------------------------


def test_inference_tensors_are_marked():
    x = leaf(2.0)
    with mt.inference_mode():
        y, z = x * 2, mt.ones(2, device=CPU)
    assert y.is_inference() and z.is_inference() and not x.is_inference()
    assert not y.requires_grad and mt.is_inference_mode_enabled() is False


def test_an_inference_tensor_cannot_be_saved():
    x = leaf(2.0)
    with mt.inference_mode():
        y = plain(3.0) * 1
    with pytest.raises(RuntimeError):
        x * y
    z = x + y  # a sum saves nothing
    z.backward()
    assert x.grad.tolist() == [1]


def test_a_clone_of_an_inference_tensor_is_an_ordinary_tensor():
    x = leaf(2.0)
    with mt.inference_mode():
        y = plain(3.0) * 1
    y = y.clone()
    (x * y).backward()
    assert not y.is_inference() and x.grad.tolist() == [3]


def test_an_inference_tensor_cannot_be_changed_outside():
    with mt.inference_mode():
        y = plain(3.0) * 1
        y.add_(1)
    with pytest.raises(RuntimeError):
        y.add_(1)
    with pytest.raises(RuntimeError):
        y[0] = 1
    with pytest.raises(RuntimeError):
        y.requires_grad_()


def test_an_inference_tensor_counts_no_versions():
    with mt.inference_mode():
        y = plain(3.0) * 1
    with pytest.raises(RuntimeError):
        assert y._version


def test_views_of_inference_tensors_are_inference_tensors():
    with mt.inference_mode():
        y = mt.ones(2, 2, device=CPU)
    assert y.view(4).is_inference() and y[0].is_inference()


def test_ordinary_tensors_stay_so_in_inference_mode():
    y = plain(1.0, 2.0)
    with mt.inference_mode():
        view = y[0]
        y.mul_(2)
    assert not view.is_inference() and not y.is_inference() and view.item() == 2
    x = leaf(1.0, 2.0)
    x.sum().backward()
    with mt.inference_mode():
        x.sub_(x.grad)
    assert x.tolist() == [0, 1] and x.requires_grad


def test_inference_mode_can_be_switched_off_inside():
    x = leaf(2.0)
    with mt.inference_mode(), mt.inference_mode(False):
        y = x * 2
    assert y.requires_grad and not y.is_inference()


# Versions ----------------------------------------------------------------------------------------------------


def test_every_write_counts():
    x = plain(1.0, 2.0)
    assert x._version == 0
    x.add_(1)
    x[0] = 3
    mt.mul(x, 2, out=x)
    assert x._version == 3


def test_views_share_the_version_of_their_base():
    x = mt.zeros(2, 3, device=CPU)
    view = x[0]
    view.add_(1)
    assert x._version == view._version == 1
    x.mul_(2)
    assert view._version == x.t()._version == 2


def test_detached_tensors_share_the_version_and_data_does_not():
    x = of(leaf(1.0))
    x.detach().add_(1)
    assert x._version == 1
    x.data.add_(1)
    assert x._version == 1 and x.tolist() == [3]


def test_a_saved_input_must_not_change():
    x = leaf(2.0)
    y = x * 1
    z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError):
        z.backward()


def test_a_saved_output_must_not_change():
    x = leaf(2.0)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError):
        y.backward()


def test_what_is_not_saved_may_change():
    x = leaf(2.0)
    y = x * 1
    z = y.sin()  # saves its input
    w = y + 1
    w.mul_(3)
    (z + w).backward()
    assert x.grad.item() == pytest.approx(mt.cos(plain(2.0)).item() + 3)


def test_a_change_through_a_view_is_noticed():
    x = leaf(1.0, 2.0)
    y = x * 1
    z = y * y
    y[0] = 5
    with pytest.raises(RuntimeError):
        z.sum().backward()


def test_a_change_through_a_detached_tensor_is_noticed():
    x = leaf(2.0)
    y = x * 1
    z = y * y
    y.detach().add_(1)
    with pytest.raises(RuntimeError):
        z.backward()


def test_a_change_through_data_is_not_noticed():
    x = leaf(2.0)
    y = x * 1
    z = y * y
    y.data.add_(1)
    z.backward()
    assert x.grad.tolist() == [6]  # wrong, as PyTorch's notes warn


def test_a_change_after_the_backward_pass_is_harmless():
    x = leaf(2.0)
    y = x * 1
    z = y * y
    z.backward()
    y.add_(1)
    assert x.grad.tolist() == [4]


def test_a_clone_protects_what_is_saved():
    x = leaf(2.0)
    y = x * 1
    z = y.clone() * y.clone()
    y.add_(1)
    z.backward()
    assert x.grad.tolist() == [4]


# Writes --------------------------------------------------------------------------------------------------------


def test_a_leaf_that_requires_grad_cannot_be_changed():
    x = leaf(1.0, 2.0)
    for write in (lambda: x.add_(1), lambda: x.__setitem__(0, 5.0), lambda: x.zero_(), lambda: mt.add(x, 1, out=x)):
        with pytest.raises(RuntimeError):
            write()
    assert x.tolist() == [1, 2]


def test_a_view_of_a_leaf_cannot_be_changed():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError):
        x[0].add_(1)
    with pytest.raises(RuntimeError):
        x.view(2).mul_(2)
    with pytest.raises(RuntimeError):
        x[1:][0] = 3


def test_a_result_changed_in_place_has_the_history_of_both():
    x, w = leaf(2.0), leaf(3.0)
    y = x * 2
    y.mul_(w)
    y.backward()
    assert x.grad.tolist() == [6] and w.grad.tolist() == [4]


def test_a_write_makes_a_plain_tensor_require_grad():
    x = leaf(2.0)
    y = plain(1.0)
    y.add_(x)
    assert y.requires_grad and not y.is_leaf
    (y * 2).backward()
    assert x.grad.tolist() == [2]


def test_a_write_into_a_part_makes_the_whole_require_grad():
    x = leaf(2.0)
    y = mt.zeros(3, dtype=mt.float64, device=CPU)
    y[1] = x[0] * 3
    assert y.requires_grad and y.grad_fn.name() == "torch::autograd::CopySlices"
    (y * plain(5.0, 7.0, 11.0)).sum().backward()
    assert x.grad.tolist() == [21]


def test_overwritten_values_get_no_gradient():
    x = leaf(1.0, 2.0, 3.0)
    y = of(x)
    y[1] = 0
    y.sum().backward()
    assert x.grad.tolist() == [1, 0, 1]


@pytest.mark.parametrize("write", [
    lambda y: y.zero_(), lambda y: y.fill_(3.0), lambda y: y.copy_(plain(4.0, 5.0, 6.0)),
    lambda y: y.uniform_(), lambda y: y.normal_(), lambda y: y.__setitem__(slice(None), 2.0),
])  # fmt: skip
def test_whole_overwrites_cut_the_history(write):
    x = leaf(1.0, 2.0, 3.0)
    y = of(x)
    write(y)
    (y * 2 + x).sum().backward()
    assert x.grad.tolist() == [1, 1, 1]


def test_copies_have_the_gradient_of_their_source():
    x, w = leaf(1.0, 2.0), leaf(5.0)
    y = of(x)
    y.copy_(w)  # expanded
    (y * plain(2.0, 3.0)).sum().backward()
    assert x.grad.tolist() == [0, 0] and w.grad.tolist() == [5]


def test_one_part_copied_to_another():
    x = leaf(1.0, 2.0, 3.0)
    y = of(x)
    y[0] = y[2]
    (y * plain(2.0, 3.0, 5.0)).sum().backward()
    assert y.tolist() == [3, 2, 3] and x.grad.tolist() == [0, 3, 7]


def test_masks_and_index_tensors():
    x, w = leaf(1.0, 2.0, 3.0), leaf(7.0, 8.0)
    y = of(x)
    y[mt.tensor([0, 2], device=CPU)] = w * 2
    (y * plain(2.0, 3.0, 5.0)).sum().backward()
    assert x.grad.tolist() == [0, 3, 0] and w.grad.tolist() == [4, 10]
    x.grad = None
    y = of(x)
    y[y > 1.5] *= 10
    y.sum().backward()
    assert x.grad.tolist() == [1, 10, 10]


def test_repeated_writes():
    x = leaf(2.0)
    y = of(x)
    for _ in range(3):
        y.mul_(2).add_(x)
    y.backward()
    assert y.tolist() == [2 * 8 + 2 * 7] and x.grad.tolist() == [15]


def test_written_results_can_be_differentiated_twice():
    x = leaf(3.0)
    y = x * x
    y.mul_(x)
    (first,) = mt.autograd.grad(y, x, create_graph=True)
    (second,) = mt.autograd.grad(first, x)
    assert first.tolist() == [27] and second.tolist() == [18]


def test_out_refuses_tensors_that_require_grad():
    x = leaf(1.0)
    with pytest.raises(RuntimeError):
        mt.add(x, 1, out=plain(0.0))
    with pytest.raises(RuntimeError):
        mt.add(plain(1.0), 1, out=of(x))
    with mt.no_grad():
        out = plain(0.0)
        mt.add(x, 1, out=out)
    assert out.tolist() == [2] and not out.requires_grad


def test_elements_that_share_memory_cannot_be_written():
    x = of(leaf(1.0)).expand(3)
    with pytest.raises(RuntimeError):
        x.add_(1)


# Views ---------------------------------------------------------------------------------------------------------


def test_views_know_their_base():
    x = mt.zeros(2, 3, device=CPU)
    view = x.t()[1:]
    assert view._base is x and view._is_view() and x._base is None and not x._is_view()
    assert x[0]._base is x and x.view(6)[2:]._base is x


def test_a_detached_tensor_is_no_differentiable_view():
    x = leaf(1.0, 2.0)
    y = of(x)
    z = y.detach()
    z.mul_(5)
    assert y.tolist() == [5, 10] and not z.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_a_write_to_a_view_changes_the_base():
    x = leaf(1.0, 2.0, 3.0)
    y = of(x)
    view = y[1:]
    view.mul_(10)
    assert y.tolist() == [1, 20, 30]
    y.sum().backward()
    assert x.grad.tolist() == [1, 10, 10]


def test_a_write_to_the_base_changes_the_view():
    x = leaf(1.0, 2.0, 3.0)
    y = of(x)
    view = y[1:]
    y.mul_(10)
    assert view.tolist() == [20, 30]
    view.sum().backward()
    assert x.grad.tolist() == [0, 10, 10]


def test_a_view_gets_another_node_after_a_write_to_the_base():
    y = of(leaf(1.0, 2.0, 3.0))
    view = y[1:]
    before = view.grad_fn
    y.mul_(10)
    assert view.grad_fn is not before and view.grad_fn.name() == "AsStridedBackward0"
    assert y.grad_fn.name() == "MulBackward0"


def test_a_write_to_one_view_changes_another():
    x = leaf(1.0, 2.0, 3.0)
    y = of(x)
    first, last = y[:2], y[1:]
    first.mul_(10)
    last.sum().backward()
    assert last.tolist() == [20, 3] and x.grad.tolist() == [0, 10, 1]


def test_writes_to_a_view_and_to_the_base_in_turn():
    x = leaf(1.0, 2.0)
    y = of(x)
    view = y[0:1]
    y.mul_(2)
    view.mul_(3)
    y.mul_(5)
    view.add_(y[1:])
    y.sum().backward()
    assert y.tolist() == [30 + 20, 20] and x.grad.tolist() == [30, 20]


def test_a_view_of_a_view():
    x = mt.arange(6, dtype=mt.float64, device=CPU).reshape(2, 3).requires_grad_()
    y = of(x)
    y.t()[1:].t()[0].mul_(7)
    y.sum().backward()
    assert x.grad.tolist() == [[1, 7, 7], [1, 1, 1]]


@pytest.mark.parametrize("view, expected", [
    (lambda y: y.view(6)[1:3], [[1, 3, 3], [1, 1, 1]]),
    (lambda y: y.t()[2], [[1, 1, 3], [1, 1, 3]]),
    (lambda y: y.transpose(0, 1).select(0, 0), [[3, 1, 1], [3, 1, 1]]),
    (lambda y: y.narrow(1, 1, 2), [[1, 3, 3], [1, 3, 3]]),
    (lambda y: y[:, ::2], [[3, 1, 3], [3, 1, 3]]),
    (lambda y: y.diagonal(), [[3, 1, 1], [1, 3, 1]]),
    (lambda y: y.unsqueeze(1)[0], [[3, 3, 3], [1, 1, 1]]),
    (lambda y: y.permute(1, 0)[0:1], [[3, 1, 1], [3, 1, 1]]),
    (lambda y: y.as_strided((2,), (2,), 1), [[1, 3, 1], [3, 1, 1]]),
    (lambda y: y.unfold(1, 2, 2), [[3, 3, 1], [3, 3, 1]]),
    (lambda y: y.reshape(3, 2)[1], [[1, 1, 3], [3, 1, 1]]),
    (lambda y: y.squeeze(0).flatten()[0:2], [[3, 3, 1], [1, 1, 1]]),
    (lambda y: y.movedim(0, 1)[0], [[3, 1, 1], [3, 1, 1]]),
    (lambda y: y.unflatten(1, (3, 1))[1], [[1, 1, 1], [3, 3, 3]]),
    (lambda y: y.swapaxes(0, 1)[1], [[1, 3, 1], [1, 3, 1]]),
    (lambda y: y.view_as(y)[1], [[1, 1, 1], [3, 3, 3]]),
    (lambda y: y.mT[1], [[1, 3, 1], [1, 3, 1]]),
])  # fmt: skip
def test_writes_through_views_of_every_kind(view, expected):
    x = mt.arange(6, dtype=mt.float64, device=CPU).reshape(2, 3).requires_grad_()
    y = of(x)
    view(y).mul_(3)
    y.sum().backward()
    assert x.grad.tolist() == expected
    # and the other way round
    x.grad = None
    y = of(x)
    part = view(y)
    y.mul_(3)
    part.sum().backward()
    assert x.grad.tolist() == [[3.0 if n == 3 else 0.0 for n in row] for row in expected]


def test_writes_through_a_view_of_a_plain_tensor():
    w = leaf(2.0, 3.0)
    y = mt.zeros(2, 2, dtype=mt.float64, device=CPU)
    view = y[1]
    view.copy_(w)
    assert y.requires_grad and view.requires_grad
    (y * plain(1.0, 5.0)).sum().backward()
    assert w.grad.tolist() == [1, 5]


def test_a_view_of_a_plain_tensor_that_was_written_to_later():
    w = leaf(2.0, 3.0)
    y = mt.zeros(2, 2, dtype=mt.float64, device=CPU)
    view = y[1]
    y.add_(w)
    assert view.requires_grad
    view.sum().backward()
    assert w.grad.tolist() == [1, 1]


def test_a_change_of_shape_in_place_keeps_the_history():
    x = mt.arange(6, dtype=mt.float64, device=CPU).reshape(2, 3).requires_grad_()
    y = of(x)
    y.t_()
    y[0].mul_(3)
    y.unsqueeze_(0)
    y.sum().backward()
    assert tuple(y.shape) == (1, 3, 2) and x.grad.tolist() == [[3, 1, 1], [3, 1, 1]]


def test_complex_and_real_views():
    z = mt.tensor([1 + 2j, 3 - 1j], dtype=mt.complex128, device=CPU, requires_grad=True)
    y = z * 1
    mt.view_as_real(y)[:, 0].mul_(3)
    mt.view_as_real(y).sum().backward()
    assert y.tolist() == [3 + 2j, 9 - 1j] and z.grad.tolist() == [3 + 1j, 3 + 1j]
    z.grad = None
    y = z * 1
    y.imag.zero_()
    (y * y).abs().sum().backward()
    assert z.grad.tolist() == [2, 6]
    x = leaf(1.0, 2.0, 3.0, 4.0)
    y = of(x).view(2, 2)
    mt.view_as_complex(y).mul_(1j)
    (y * mt.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=mt.float64, device=CPU)).sum().backward()
    assert y.tolist() == [[-2, 1], [-4, 3]] and x.grad.tolist() == [2, -1, 4, -3]


def test_conjugate_views():
    z = mt.tensor([1 + 2j], dtype=mt.complex128, device=CPU, requires_grad=True)
    y = z * 1
    y.conj().mul_(1j)  # conj(y) becomes i conj(y), so y becomes -i y
    mt.view_as_real(y).sum().backward()
    assert y.tolist() == [2 - 1j] and z.grad.tolist() == [-1 + 1j]


def test_a_view_made_without_gradients_cannot_be_changed_with_them():
    y = of(leaf(1.0, 2.0))
    with mt.no_grad():
        view = y[0]
        view.mul_(2)  # allowed here
    with pytest.raises(RuntimeError):
        view.mul_(2)


def test_a_view_of_a_leaf_made_without_gradients():
    x = leaf(1.0, 2.0)
    with mt.no_grad():
        view = x[0]
        view.fill_(5)
    assert x.tolist() == [5, 2]
    with pytest.raises(RuntimeError):
        view.fill_(6)


def test_a_view_made_in_inference_mode_cannot_be_changed_with_gradients():
    y = of(leaf(1.0, 2.0))
    with mt.inference_mode():
        view = y[0]
    with pytest.raises(RuntimeError):
        view.mul_(2)


@pytest.mark.parametrize("split", [
    lambda y: y.unbind(), lambda y: y.split(1), lambda y: y.chunk(2), lambda y: y.split([1, 1]),
])  # fmt: skip
def test_one_of_several_views_cannot_be_changed(split):
    y = of(mt.ones(2, 2, dtype=mt.float64, device=CPU, requires_grad=True))
    part, *_ = split(y)
    with pytest.raises(RuntimeError):
        part.mul_(2)
    with mt.no_grad():
        part.mul_(2)
    assert y[0].flatten().tolist() == [2, 2]


def test_one_of_several_parts_made_unsafely_can_be_changed():
    x = leaf(1.0, 2.0)
    first, second = of(x).unsafe_split(1)
    first.mul_(3)
    (first + second).sum().backward()
    assert x.grad.tolist() == [3, 1]


def test_a_view_cannot_be_detached_in_place():
    y = of(leaf(1.0, 2.0))
    with pytest.raises(RuntimeError):
        y[0].detach_()


def test_a_view_whose_base_was_written_without_gradients():
    x = leaf(1.0, 2.0)
    y = of(x)
    view = y[0:1]
    with mt.no_grad():
        y.mul_(3)
    (view * 2).sum().backward()
    assert view.tolist() == [3] and x.grad.tolist() == [2, 0]


def test_the_history_of_a_view_before_a_write_remains():
    x = leaf(1.0, 2.0)
    y = of(x)
    view = y[0:1]
    before = view * 5
    y.mul_(3)
    (before + view).sum().backward()
    assert x.grad.tolist() == [8, 0]


# Hooks and writes --------------------------------------------------------------------------------------------------


def test_a_hook_stays_with_the_value_before_a_write():
    x = leaf(1.0)
    y = of(x)
    seen = []
    y.register_hook(lambda g: seen.append(("before", g.item())))
    y.mul_(3)
    y.register_hook(lambda g: seen.append(("after", g.item())))
    (y * 5).backward()
    assert seen == [("after", 5), ("before", 15)]


def test_a_kept_gradient_is_that_of_the_last_value():
    x = leaf(1.0)
    y = of(x)
    y.retain_grad()
    y.mul_(3)
    (y * 5).backward()
    assert y.grad.tolist() == [5] and x.grad.tolist() == [15]


def test_a_hook_of_a_leaf_stays_after_a_write_without_gradients():
    x = leaf(1.0)
    seen = []
    x.register_hook(lambda g: seen.append(g.item()))
    with mt.no_grad():
        x.mul_(4)
    (x * x).backward()
    assert seen == [8] and x.grad.tolist() == [8]


@pytest.mark.parametrize("dtype", [mt.int64, mt.bool, mt.uint8])
def test_integers_that_numbers_with_a_gradient_are_written_to_have_none(dtype):
    x = mt.ones(3, device="cpu", requires_grad=True)
    writes = (lambda t: t.copy_(x), lambda t: t.fill_(x[0]), lambda t: t.view(3, 1).copy_(x[:, None]), lambda t: t.__setitem__(0, x[1]))
    for write in writes:
        t = mt.zeros(3, dtype=dtype, device="cpu")
        view = t[1:]
        write(t)
        assert not t.requires_grad and t.grad_fn is None and not view.requires_grad
        assert view.sum().item() >= 0 and (t.view(1, 3) + 1).grad_fn is None
