"""`backward`, `grad` and the graph: accumulation, freeing, hooks, and errors."""

import gc
import threading

import pytest

import metatensor as mt


def leaf(*values, device="cpu"):
    return mt.tensor(list(values), device=device, requires_grad=True)


def test_gradients_of_a_product():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (x * y).sum().backward()
    assert x.grad.tolist() == [3, 4] and y.grad.tolist() == [1, 2]
    assert x.grad.grad_fn is None and not x.grad.requires_grad


def test_gradients_accumulate():
    x = leaf(1.0, 2.0)
    for _ in range(3):
        (x * 2).sum().backward()
    assert x.grad.tolist() == [6, 6]


def test_a_tensor_that_is_used_twice():
    x = leaf(2.0)
    y = x * x
    (y + y * x).sum().backward()
    assert x.grad.tolist() == [2 * 2 + 3 * 4]


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_broadcast_operands_get_gradients_of_their_shape(device):
    x, y = mt.ones(3, 1, 4, device=device, requires_grad=True), mt.ones(2, 1, device=device, requires_grad=True)
    (x * y).sum().backward()
    assert x.grad.shape == (3, 1, 4) and y.grad.shape == (2, 1)
    if device == "cpu":
        assert (x.grad == 2).all() and (y.grad == 12).all()


def test_half_of_the_operands_require_grad():
    x, y = leaf(1.0), mt.tensor([5.0], device="cpu")
    z = x * y
    assert z.grad_fn.next_functions[1] == (None, 0)
    z.backward()
    assert x.grad.tolist() == [5] and y.grad is None


def test_names_and_edges_of_nodes():
    x = leaf(1.0)
    y = (x * 2).exp()
    node = y.grad_fn
    assert node.name() == "ExpBackward0" == type(node).__name__
    assert isinstance(node, mt.autograd.graph.Node) and repr(node).startswith("<ExpBackward0 object at 0x")
    ((multiplication, number),) = node.next_functions
    assert multiplication.name() == "MulBackward0" and number == 0
    accumulate = multiplication.next_functions[0][0]
    assert accumulate.name() == "torch::autograd::AccumulateGrad" and accumulate.variable is x
    assert accumulate.next_functions == ()
    assert x.grad_fn is None and y.output_nr == 0
    node.metadata["note"] = 1
    assert y.grad_fn.metadata == {"note": 1} and y.grad_fn is node


def test_saved_values_are_attributes():
    x = leaf(1.0)
    y = x * mt.tensor([3.0], device="cpu")
    assert y.grad_fn._saved_other.tolist() == [3]
    assert x.exp().grad_fn._saved_result.tolist() == x.exp().tolist()
    with pytest.raises(AttributeError, match="_saved_nothing"):
        _ = y.grad_fn._saved_nothing


def test_the_graph_is_freed_by_backward():
    x = leaf(1.0)
    y = x.exp()
    y.backward()
    with pytest.raises(RuntimeError, match="ExpBackward0: the saved values have been freed.*retain_graph=True"):
        y.backward()
    y = x.exp()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == pytest.approx([3 * 2.7182817])


def test_nothing_saved_can_be_walked_again():
    x = leaf(1.0)
    y = x + 1
    y.backward()
    y.backward()
    assert x.grad.tolist() == [2]


def test_second_derivatives():
    x = leaf(2.0)
    (first,) = mt.autograd.grad((x * x * x).sum(), x, create_graph=True)
    assert first.tolist() == [12] and first.requires_grad
    (second,) = mt.autograd.grad(first, x)
    assert second.tolist() == [12] and not second.requires_grad


def test_create_graph_accumulates_a_gradient_with_history():
    x = leaf(2.0)
    (x * x).sum().backward(create_graph=True)
    assert x.grad.requires_grad
    first = x.grad
    x.grad = None
    first.sum().backward()
    assert x.grad.tolist() == [2]


def test_grad_leaves_leaves_alone():
    x, y = leaf(1.0, 2.0), leaf(1.0, 1.0)
    z = x * y
    assert [g.tolist() for g in mt.autograd.grad(z.sum(), [x, y])] == [[1, 1], [1, 2]]
    assert x.grad is None and y.grad is None
    z = x * y
    assert mt.autograd.grad(z, z, mt.ones_like(z))[0].tolist() == [1, 1]


def test_grad_of_intermediate_tensors():
    x = leaf(1.0)
    y = x * 2
    z = y * y
    found = mt.autograd.grad(z, (y, x))
    assert [g.tolist() for g in found] == [[4], [8]]


def test_unused_inputs():
    x, y = leaf(1.0), leaf(1.0)
    with pytest.raises(RuntimeError, match="do not depend on input 1; pass allow_unused=True"):
        mt.autograd.grad(x * 2, (x, y))
    assert mt.autograd.grad(x * 2, (x, y), allow_unused=True)[1] is None
    assert mt.autograd.grad(x * 2, (x, y), materialize_grads=True)[1].tolist() == [0]
    with pytest.raises(ValueError, match="allow_unused"):
        mt.autograd.grad(x * 2, (x, y), materialize_grads=True, allow_unused=False)


def test_backward_into_some_inputs():
    x, y = leaf(1.0), leaf(2.0)
    (x * y).backward(inputs=[x])
    assert x.grad.tolist() == [2] and y.grad is None
    z = x * y
    (z * 3).backward(inputs=z)
    assert z.grad.tolist() == [3] and y.grad is None


def test_several_roots():
    x = leaf(1.0, 2.0)
    y = x * x
    mt.autograd.backward([y, y.sum()], [mt.ones(2), None])
    assert x.grad.tolist() == [4, 8]


def test_edges_stand_for_tensors():
    x = leaf(3.0)
    y = x * x
    edge = mt.autograd.graph.get_gradient_edge(y)
    mt.autograd.backward(edge, mt.ones(1))
    assert x.grad.tolist() == [6]
    (g,) = mt.autograd.grad((x * x).sum(), mt.autograd.graph.get_gradient_edge(x))
    assert g.tolist() == [6]


# The first gradient ------------------------------------------------------------------------------------

ERRORS = {
    "several elements": (lambda x: (x * 2).backward(), RuntimeError, r"shape \[2\].*one element"),
    "no grad": (lambda x: mt.ones(1).backward(), RuntimeError, "does not require grad and has no grad_fn"),
    "shape": (lambda x: (x * 2).backward(mt.ones(3)), RuntimeError, r"shape \[3\].*shape \[2\]"),
    "kind": (lambda x: (x * 2).backward(3), TypeError, "Tensor"),
    "complex": (lambda x: (x * 2).backward(mt.ones(2, dtype=mt.complex64)), RuntimeError, "complex"),
    "complex scalar": (lambda x: (x * 1j).sum().backward(), RuntimeError, "pass a gradient"),
    "count": (lambda x: mt.autograd.backward([x * 2], [None, None]), RuntimeError, "2 gradients for 1"),
    "no inputs": (lambda x: (x * 2).sum().backward(inputs=[]), RuntimeError, "inputs is empty"),
    "input without grad": (lambda x: mt.autograd.grad((x * 2).sum(), mt.ones(2)), RuntimeError, "does not require grad"),
    "only_inputs": (lambda x: mt.autograd.grad((x * 2).sum(), x, only_inputs=False), ValueError, "only_inputs"),
    "retain_grad": (lambda x: mt.ones(2).retain_grad(), RuntimeError, "does not require grad"),
    "hook": (lambda x: mt.ones(2).register_hook(print), RuntimeError, "does not require grad"),
    "hook of nothing": (lambda x: x.register_hook(3), TypeError, "callable"),
    "hook after a non-leaf": (lambda x: (x * 2).register_post_accumulate_grad_hook(print), RuntimeError, "not a leaf"),
    "leaf changed": (lambda x: x.mul_(2), RuntimeError, "leaf"),
    "out": (lambda x: mt.mul(x, 2, out=mt.empty(2)), RuntimeError, "out="),
    "integers": (lambda x: mt.ones(2, dtype=mt.int64).requires_grad_(), RuntimeError, "floating-point"),
    "requires_grad of a result": (lambda x: setattr(x * 2, "requires_grad", False), RuntimeError, "detach"),
    "edge": (lambda x: mt.autograd.graph.get_gradient_edge(mt.ones(2)), RuntimeError, "does not require grad"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_misuse(case):
    call, error, message = ERRORS[case]
    with mt.device("cpu"), pytest.raises(error, match=message):
        call(leaf(1.0, 2.0))


def test_an_operator_without_a_rule_says_so():
    from metatensor.library import define

    op = define("autogradtests::mystery(Tensor input) -> Tensor")
    mt.library.meta("autogradtests::mystery")(lambda input: mt.Spec(input.shape, input.dtype))
    y = op(mt.ones(2, device="meta", requires_grad=True))
    assert y.requires_grad
    with pytest.raises(NotImplementedError, match="autogradtests::mystery.*no rule"):
        y.sum().backward()


# Hooks ----------------------------------------------------------------------------------------------------


def test_hooks_of_tensors():
    x = leaf(1.0, 2.0)
    y = x * 3
    seen = []
    with y.register_hook(lambda g: seen.append(g.tolist())):
        handle = y.register_hook(lambda g: g * 2)
        (y * 1).sum().backward()
    assert seen == [[1, 1]] and x.grad.tolist() == [6, 6]
    handle.remove()
    y = x * 3
    x.grad = None
    x.register_hook(lambda g: g + 1)
    y.sum().backward()
    assert x.grad.tolist() == [4, 4]


def test_hooks_must_return_fitting_gradients():
    x = leaf(1.0, 2.0)
    for bad, error in ((lambda g: 3, TypeError), (lambda g: g[:1], RuntimeError), (lambda g: g.double(), RuntimeError)):
        y = x * 3
        y.register_hook(bad)
        with pytest.raises(error, match="MulBackward0: the hook of a tensor returned"):
            y.sum().backward()


def test_hooks_of_nodes():
    x = leaf(1.0)
    y = x * 3
    seen = []
    y.grad_fn.register_prehook(lambda grads: seen.append(("before", grads[0].tolist())) or (grads[0] * 2,))
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append(("after", inputs[0].tolist(), outputs[0].tolist())))
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 10, None))
    y.backward()
    assert seen == [("before", [1]), ("after", [6], [2])] and x.grad.tolist() == [60]


def test_a_node_hook_returns_the_right_number():
    x = leaf(1.0)
    y = x * 3
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0],))
    with pytest.raises(RuntimeError, match="returned 1 gradients, not 2"):
        y.backward()


def test_hooks_after_accumulation():
    x = leaf(1.0)
    seen = []
    handle = x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.item()))
    (x * 2).backward()
    (x * 2).backward()
    handle.remove()
    (x * 2).backward()
    assert seen == [2, 4]


def test_hooks_on_several_gradients():
    x, y, z = leaf(1.0), leaf(2.0), leaf(3.0)
    seen, first = [], []
    handle = mt.autograd.graph.register_multi_grad_hook((x, y, z), lambda grads: seen.append([g and g.item() for g in grads]))
    mt.autograd.graph.register_multi_grad_hook((x, y), lambda grad: first.append(grad.item()), mode="any")
    (x * y).backward()
    assert seen == [[2, 1, None]] and len(first) == 1
    (x * y * z).backward()
    assert seen[1] == [6, 3, 2] and len(first) == 2
    handle.remove()
    (x * y).backward()
    assert len(seen) == 2
    with pytest.raises(ValueError, match="mode"):
        mt.autograd.graph.register_multi_grad_hook((x,), print, mode="some")


def test_retained_gradients():
    x = leaf(1.0)
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    assert y.retains_grad and not x.retains_grad
    (y * 3).backward(retain_graph=True)
    (y * 3).backward()
    assert y.grad.tolist() == [6] and x.grad.tolist() == [12]


def test_backward_inside_a_hook():
    x, w = leaf(1.0), leaf(5.0)
    y = x * 2
    y.register_hook(mt.enable_grad()(lambda g: (w * w).sum().backward()))
    (y * 1).backward()
    assert x.grad.tolist() == [2] and w.grad.tolist() == [10]


def test_backward_of_the_same_graph_inside_a_hook():
    x = leaf(1.0)
    y = x * 2
    z = y * 1
    fired = []

    def hook(g):
        if not fired:
            fired.append(1)
            z.backward(retain_graph=True)

    y.register_hook(hook)
    z.backward(retain_graph=True)
    assert x.grad.tolist() == [4]


# Saved tensors -----------------------------------------------------------------------------------------------


def test_a_changed_tensor_is_noticed():
    x = leaf(1.0, 2.0)
    y = x.exp()
    z = y * 2
    y.add_(1)
    with pytest.raises(RuntimeError, match=r"ExpBackward0: a tensor of shape \[2\].*version 0 and has version 1"):
        z.sum().backward()
    w = mt.ones(2, device="cpu")
    z = x * w
    w.detach().add_(1)
    with pytest.raises(RuntimeError, match="changed in place"):
        z.sum().backward()
    z = x * w
    w.data.add_(1)  # .data has a counter of its own
    z.sum().backward()


def test_hooks_on_saved_tensors():
    x = leaf(1.0, 2.0)
    packed, unpacked = [], []
    with mt.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t.tolist()) or t.tolist(),
                                               lambda v: unpacked.append(v) or mt.tensor(v, device="cpu")):  # fmt: skip
        y = x.exp() * x
    assert packed == [pytest.approx(x.exp().tolist()), [1, 2], pytest.approx(x.exp().tolist())]
    y.sum().backward()
    assert len(unpacked) == 3
    assert x.grad.tolist() == pytest.approx((x.exp() * (x + 1)).tolist())


def test_hooks_on_saved_tensors_can_be_forbidden():
    with mt.autograd.graph.disable_saved_tensors_hooks("not here"), pytest.raises(RuntimeError, match="not here"):
        with mt.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            pass


def test_what_unpacks_must_be_a_tensor():
    x = leaf(1.0)
    with mt.autograd.graph.saved_tensors_hooks(lambda t: 1, lambda v: v):
        y = x.exp()
    with pytest.raises(TypeError, match="unpack hook returned int"):
        y.backward()
    with pytest.raises(RuntimeError, match="pack hook changed"), mt.autograd.graph.saved_tensors_hooks(lambda t: t.add_(1), lambda v: v):
        x * mt.ones(1, device="cpu")


def test_saved_on_cpu():
    x = leaf(1.0)
    with mt.autograd.graph.save_on_cpu():
        y = x.exp()
    y.backward()
    assert x.grad.tolist() == pytest.approx(x.exp().tolist())


def test_mutation_of_saved_tensors_can_be_allowed():
    x = leaf(1.0, 2.0)
    with mt.autograd.graph.allow_mutation_on_saved_tensors():
        y = x * 1
        z = y.exp() * y
        y.zero_()
        z.sum().backward()
    assert x.grad.tolist() == pytest.approx((x.exp() * (x + 1)).tolist())


# Writes -------------------------------------------------------------------------------------------------------


def test_in_place_operators_continue_the_history():
    x = leaf(1.0, 2.0)
    y = x * 1
    y.mul_(3).add_(x)
    assert y.grad_fn.name() == "AddBackward0"
    y.sum().backward()
    assert x.grad.tolist() == [4, 4]


def test_an_in_place_product_saves_the_old_value():
    x, w = leaf(2.0), leaf(3.0)
    y = x * 1
    y.mul_(w)
    y.backward()
    assert x.grad.tolist() == [3] and w.grad.tolist() == [2]


def test_writes_through_views():
    x = leaf(1.0, 2.0, 3.0)
    base = mt.zeros(2, 3, device="cpu")
    row = base[0]
    row.copy_(x * x)
    base[1] = x
    assert base.requires_grad and base.grad_fn.name() == "torch::autograd::CopySlices"
    assert row.grad_fn.name() == "AsStridedBackward0"
    (base * base).sum().backward()
    assert x.grad.tolist() == [4 * v**3 + 2 * v for v in (1, 2, 3)]


def test_views_see_writes_to_their_base():
    x = leaf(1.0, 2.0)
    base = x * 1
    first = base[:1]
    base.mul_(5)
    first.sum().backward()
    assert x.grad.tolist() == [5, 0]


def test_views_see_writes_to_other_views():
    x = leaf(1.0, 2.0)
    base = x * 1
    a, b = base[:1], base[0]
    a.mul_(5)
    b.backward()
    assert x.grad.tolist() == [5, 0]


def test_overwritten_values_have_no_gradient():
    x = leaf(1.0, 2.0)
    y = x * 1
    y[0] = 7.0
    y.sum().backward()
    assert x.grad.tolist() == [0, 1]


def test_detached_tensors():
    x = leaf(1.0)
    y = x * 2
    assert y.detach().grad_fn is None and not y.detach().requires_grad
    y.detach_()
    assert y.is_leaf and y.grad_fn is None and not y.requires_grad


# Life ------------------------------------------------------------------------------------------------------------


def test_a_graph_is_freed_without_the_collector():
    import weakref

    gc.disable()
    try:
        x = leaf(1.0)
        y = (x * 2).exp()
        z = (y * y + y).mul_(2)
        node = weakref.ref(y.grad_fn)
        inner = weakref.ref(y)
        del y
        assert node() is not None
        z.sum().backward()
        del z
        assert node() is None and inner() is None
    finally:
        gc.enable()


def test_cycles_through_hooks_are_collected():
    import weakref

    def cycle():
        y = leaf(1.0) * 2
        y.register_hook(lambda g: y * g)
        return weakref.ref(y.grad_fn)

    gc.disable()
    try:
        node = cycle()
        assert node() is not None
        gc.collect()
        assert node() is None
    finally:
        gc.enable()


def test_deep_graphs():
    x = mt.ones(1, device="meta", requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y + 1
    y.backward()
    assert x.grad.shape == (1,)
    nodes = y.grad_fn
    del y
    del nodes


def test_threads_with_a_shared_leaf():
    x = mt.zeros(100, device="cpu", requires_grad=True)

    def work():
        for _ in range(50):
            (x * 2 + x).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert (x.grad == 8 * 50 * 3).all()


def test_an_error_leaves_the_graph_usable():
    x = leaf(1.0)
    y = x * 2
    handle = y.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        y.backward()
    handle.remove()
    y.backward(retain_graph=True)
    assert x.grad.tolist() == [2]


# Modes ---------------------------------------------------------------------------------------------------------------


def test_anomaly_mode_names_the_line():
    x = leaf(1.0)
    with pytest.warns(UserWarning, match="slow"), mt.autograd.detect_anomaly():
        y = x.exp()  # the line
        z = y * 2
        y.add_(1)
        with pytest.raises(RuntimeError, match=r"(?s)called here:.*y = x.exp\(\)  # the line"):
            z.backward()
    with mt.autograd.set_detect_anomaly(True):
        with pytest.raises(RuntimeError, match="has a NaN"):
            (leaf(0.0) * float("nan")).backward()
    with mt.autograd.set_detect_anomaly(True, check_nan=False):
        (leaf(0.0) * float("nan")).backward()


def test_nothing_is_recorded_without_gradients():
    x = leaf(1.0)
    with mt.no_grad():
        assert (x * 2).grad_fn is None
    with mt.inference_mode():
        assert not (x * 2).requires_grad


def test_complex_gradients():
    z = mt.tensor([1 + 2j], device="cpu", requires_grad=True)
    mt.view_as_real(z * z.conj()).sum().backward()
    assert z.grad.tolist() == [2 + 4j]
    x = leaf(2.0)
    (x * (1 + 1j)).abs().sum().backward()
    assert x.grad.tolist() == pytest.approx([2**0.5])


def test_gradients_have_the_strides_of_a_dense_leaf():
    x = mt.ones(2, 3, device="cpu").t().requires_grad_()
    (x * 2).sum().backward()
    assert x.grad.stride() == x.stride()
    y = mt.ones(2, 6, device="cpu")[:, ::2].requires_grad_()
    (y * 2).sum().backward()
    assert y.grad.stride() == (3, 1)


def test_a_given_gradient_is_not_taken_over():
    x, g = leaf(1.0), mt.ones(1, device="cpu")
    (x + 1).backward(g)
    x.grad.add_(5)
    assert g.tolist() == [1]


def test_wrong_arguments_raise_the_same_with_gradients():
    """An operator that is computed by others where gradients are recorded checks its arguments as it does otherwise."""
    x, states = mt.empty(2, 3, 1, device="meta"), [mt.empty(1, 3, 4, device="meta")] * 2
    for hx, params in (([], []), (states[:1], []), (states, [])):
        said = set()
        for tensor in (x, x.detach().requires_grad_()):
            with pytest.raises(RuntimeError) as raised:
                mt.lstm(tensor, hx, params, True, 1, 0.5, True, False, True)
            said.add(str(raised.value))
        assert len(said) == 1


def test_callbacks_at_the_end():
    """They are called in order, once, and not if the backward pass fails. Gradients are complete by then."""
    engine = mt.autograd.Variable._execution_engine
    x, seen = leaf(2.0), []

    def begin(grad):
        engine.queue_callback(lambda: seen.append(x.grad.item()))
        engine.queue_callback(lambda: engine.queue_callback(lambda: seen.append("last")))
        engine.queue_callback(lambda: seen.append("second"))

    def fail(grad):
        engine.queue_callback(lambda: seen.append("failed"))
        raise KeyError

    for hook in (begin, fail):
        y = x * 3
        y.register_hook(hook)
        try:
            y.backward()
        except KeyError:
            pass
    assert seen == [3.0, "second", "last"]
    with pytest.raises(RuntimeError, match="no backward pass is running"):
        engine.queue_callback(print)
