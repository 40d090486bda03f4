"""`check_op` compares gradients: right ones pass, and every kind of wrong one is found."""

import itertools

import numpy as np
import pytest

import metatensor as mt
from metatensor.testing import check_op

pytest.importorskip("metatensor_cpu")
numbers = itertools.count()
X = mt.tensor([[0.5, -1.5, 2.0], [1.0, 3.0, -0.5]], device="cpu")
Y = mt.tensor([[1.5, 0.5, -1.0], [2.0, -3.0, 1.0]], device="cpu")
Z = mt.tensor([1 + 2j, -0.5 + 1j], device="cpu")


def define(schema, kernel, meta=None):
    name = f"gradient_check::op{next(numbers)}"
    op = mt.library.define(name + schema)
    mt.library.meta(name)(meta or (lambda x, *_, **__: mt.Spec(x.shape, x.dtype)))
    op.kernel("cpu")(kernel)
    return op


def product(**rules):
    op = define("(Tensor x, Tensor y, float by=2.0) -> Tensor", lambda out, x, y, by: x * x * y * by)
    op.gradient(**rules)
    return op


RIGHT_X, RIGHT_Y = lambda grad, x, y, by: 2 * grad * x * y * by, lambda grad, x, by: grad * x * x * by


def test_right_gradients():
    assert check_op(product(x=RIGHT_X, y=RIGHT_Y), [(X, Y), (X, Y, 3.0), {"x": X.t(), "y": Y.t()}, (X.double(), Y.double())]).ok
    assert check_op(product(x=RIGHT_X, y=RIGHT_Y), [(X, mt.ones(2, 3), 0.0)]).ok


def wrong_item(grad, x, y, by):
    return RIGHT_X(grad, x, y, by) * (1.0 if float(x.sum()) > 0 else -1.0)


def wrong_writes(grad, x, y, by):
    return grad.mul_(2).mul_(x).mul_(y).mul_(by)


def wrong_changes(grad, x, y, by):
    made = RIGHT_X(grad, x, y, by)
    x.add_(0.25)
    return made


def wrong_one_element(grad, x, y, by):
    made = RIGHT_X(grad, x, y, by)
    made = made.clone()
    made[1, 2] += 1
    return made


STATE = []


def wrong_second_time(grad, x, y, by):
    STATE.append(None)
    return RIGHT_X(grad, x, y, by) * (1 + len(STATE) % 2)


WRONG = {
    "a factor": (lambda grad, x, y, by: grad * x * y * by, "the gradient of tensor 0 is wrong at (0, 0): "),
    "the sign": (lambda grad, x, y, by: -2 * grad * x * y * by, "the gradient of tensor 0 is wrong"),
    "the other argument": (lambda grad, x, y, by: grad * x * x * by, "the gradient of tensor 0 is wrong"),
    "an option is ignored": (lambda grad, x, y: 4 * grad * x * y, "float32[2, 3], 3.0): on cpu, the gradient of tensor 0 is wrong"),
    "the gradient is ignored": (lambda x, y, by: 2 * x * y * by, "the gradient of tensor 0 is wrong"),
    "summed": (lambda grad, x, y, by: (2 * grad * x * y * by).sum(0, keepdim=True).expand(2, 3), "the gradient of tensor 0 is wrong"),
    "one element": (wrong_one_element, "the gradient of tensor 0 is wrong at (1, 2)"),
    "absent": (lambda grad: None, "the gradient of tensor 0 is wrong"),
    "of values": (wrong_item, "on meta, gradients: DataDependentError"),
    "in place": (wrong_writes, "backward changes the gradient of result 0 in place"),
    "changes the argument": (wrong_changes, "changed in place since"),
    "another each time": (wrong_second_time, "a second backward through one graph gives another gradient"),
    "detached": (lambda grad, x, y, by: 2 * grad * x.detach() * y * by, "on cpu, the gradient of the gradient of tensor"),
    "the shape": (lambda grad, x, y, by: (2 * grad * x * y * by).t(), "gradient 0 has shape [3, 2], but its tensor has shape [2, 3]"),
    "an error": (lambda grad: grad.nonsense, "AttributeError"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_wrong_gradients_are_found(what):
    rule, message = WRONG[what]
    with pytest.raises(AssertionError) as raised:
        check_op(product(x=rule, y=RIGHT_Y), [(X, Y), (X, Y, 3.0)])
    assert message in str(raised.value), raised.value


def test_several_results():
    def made(**rules):
        op = define("(Tensor x) -> (Tensor a, Tensor b)", lambda out, x: (x * x, x.exp()),
                    lambda x: (mt.Spec(x.shape, x.dtype), mt.Spec(x.shape, x.dtype)))
        op.gradient(**rules)
        return op

    assert check_op(made(x=lambda grad_a, grad_b, x, b: 2 * grad_a * x + grad_b * b), [(X,)]).ok
    with pytest.raises(AssertionError, match="the gradient of tensor 0 is wrong"):
        check_op(made(x=lambda grad_a, grad_b, x, b: 2 * grad_b * x + grad_a * b), [(X,)])

    def absent(grads, x, b):
        return None if grads[0] is None else 2 * grads[0] * x + (0 if grads[1] is None else grads[1] * b)

    with pytest.raises(AssertionError, match="with a gradient of result 1 alone"):
        check_op(made(x=absent), [(X,)])


def test_complex_numbers():
    def made(rule):
        op = define("(Tensor x) -> Tensor", lambda out, x: x * x * x)
        op.gradient(x=rule)
        return op

    assert check_op(made(lambda grad, x: grad * 3 * (x * x).conj()), [(Z,)]).ok
    with pytest.raises(AssertionError, match="the gradient of tensor 0 is wrong"):
        check_op(made(lambda grad, x: grad * 3 * x * x), [(Z,)])


def test_kinks():
    op = define("(Tensor x) -> Tensor", lambda out, x: x.relu())
    op.gradient(x=lambda grad, result: grad * (result > 0))
    assert check_op(op, [(mt.tensor([-1.0, 0.0, 2.0], device="cpu"),)]).ok


def test_kernels_of_one_dtype():
    def kernel(out, x):
        if x.dtype is not mt.float32:
            raise TypeError("float32 alone")
        return x * x

    op = define("(Tensor x) -> Tensor", kernel)
    op.gradient(x=lambda grad, x: 2 * grad * x)
    assert check_op(op, [(X,)]).ok
    wrong = define("(Tensor x) -> Tensor", kernel)
    wrong.gradient(x=lambda grad, x: 2.2 * grad * x)
    with pytest.raises(AssertionError, match="the gradient of tensor 0 is wrong"):
        check_op(wrong, [(X,)])


def test_the_kernel_is_wrong_and_the_rule_is_right():
    op = define("(Tensor x) -> Tensor", lambda out, x: x * x + x)
    op.gradient(x=lambda grad, x: 2 * grad * x)
    with pytest.raises(AssertionError, match="the gradient of tensor 0 is wrong"):
        check_op(op, [(X,)])


@pytest.mark.slow
def test_builtin_operators_and_missing_gradients():
    assert check_op(mt.mul, [(X, Y)], gradients=True).ok
    assert check_op(mt.nn.functional.layer_norm, [(X, (3,))], gradients=True).ok
    op = define("(Tensor x) -> Tensor", lambda out, x: x * 2)
    assert check_op(op, [(X,)]).ok
    with pytest.raises(AssertionError, match="no gradient is declared"):
        check_op(op, [(X,)], gradients=True)
    assert check_op(product(x=lambda grad: grad, y=RIGHT_Y), [(X, Y)], gradients=False).ok


def test_functions_of_a_context():
    from metatensor.torch_api.torch import library

    def made(factor):
        @library.custom_op(f"gradient_check::op{next(numbers)}", mutates_args=())
        def squared(x: mt.Tensor) -> mt.Tensor:
            return mt.from_numpy(np.asarray(x.detach()) ** 2)

        squared.register_fake(lambda x: mt.empty_like(x))
        squared.register_autograd(lambda ctx, grad: grad * factor * ctx.saved_tensors[0],
                                  setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
        return squared

    x = X.clone().requires_grad_()
    names = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    assert library.opcheck(made(2), (x,)) == dict.fromkeys(names, "SUCCESS")
    found = library.opcheck(made(3), (x,), raise_exception=False)
    assert "the gradient of tensor 0 is wrong" in found["test_aot_dispatch_dynamic"] and found["test_schema"] == "SUCCESS"
    with pytest.raises(AssertionError, match="the gradient of tensor 0 is wrong"):
        library.opcheck(made(3), (x,))
    assert library.opcheck(made(2), (x,), test_utils="test_schema") == {"test_schema": "SUCCESS"}


def test_opcheck_of_an_operator_without_a_gradient():
    from metatensor.torch_api.torch import library

    @library.custom_op(f"gradient_check::op{next(numbers)}", mutates_args=())
    def plain(x: mt.Tensor) -> mt.Tensor:
        return x * 2

    plain.register_fake(lambda x: mt.empty_like(x))
    assert library.opcheck(plain, (X,))["test_autograd_registration"] == "SUCCESS"
    found = library.opcheck(plain, (X.clone().requires_grad_(),), raise_exception=False)
    assert "no gradient is registered" in found["test_autograd_registration"]
