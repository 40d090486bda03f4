"""`check_device(train=True)` compares the gradients of all operators, those of backward operators included."""

import numpy as np
import pytest

from devices.few_kernels import KERNELS, Small
from devices.registered import unregister
from metatensor import plugins
from metatensor.testing import check_device

pytest.importorskip("metatensor_cpu")


@pytest.fixture
def changed_device():
    """Return a function that registers a device over NumPy with some kernels replaced."""
    from metatensor.devices.array_kit import ArrayBackend

    added = []

    def register(**changed):
        class Changed(ArrayBackend):
            def kernel(self, name):
                found = super().kernel(name)
                change = changed.get(name.replace(".", "_"))
                return found if change is None or found is None else lambda out, *args: change(found, out, *args)

        plugins.register_backend(Changed("changed", np, special="scipy.special"))
        added.append("changed")
        return "changed"

    yield register
    for name in added:
        unregister(name)


def check(name, *only):
    return check_device(name, kernels=False, train=True, only=only)


@pytest.mark.slow
def test_right_gradients(changed_device):
    names = ["mul", "nn.functional.layer_norm", "nn.functional.conv2d", "softmax", "index_select", "sort.stable", "cat", "eq", "expand"]
    report = check(changed_device(), *names)
    assert report.ok and set(names) - {"eq"} <= {*report.gradients, "sort.stable"} and "eq" not in report.gradients
    assert "gradients compared, 0 not computed" in str(report)


def twice(found, out, *args):
    result = found(out, *args)
    for t in out if isinstance(out, tuple) else (out,):
        if t is not None:
            t.mul_(2)
    return result


def refused(found, out, *args):
    raise ValueError("no such luck")


@pytest.mark.parametrize("kernel, operator", [
    ("_softmax_backward_data", "softmax"), ("_log_softmax_backward_data", "log_softmax"), ("silu_backward", "nn.functional.silu"),
    ("tanh_backward", "tanh"), ("cos", "sin"), ("log", "pow"),
])  # fmt: skip
def test_a_wrong_backward_operator_is_found(changed_device, kernel, operator):
    name = changed_device(**{kernel: twice})
    with pytest.raises(AssertionError, match=f"gradient {operator}: .*the gradient of "):
        check(name, operator)


def test_an_error_is_found(changed_device):
    with pytest.raises(AssertionError, match="gradient exp: .*ValueError: no such luck"):
        check(changed_device(mul=refused), "exp")


def test_a_device_with_few_kernels():
    plugins.register_backend(Small("few", dict(KERNELS)))
    try:
        report = check("few", "mul", "nn.functional.linear", "nn.functional.gelu", "nn.functional.layer_norm", "erfinv")
        assert {"mul", "nn.functional.layer_norm"} <= set(report.gradients) and report.without_gradient == ["erfinv"]
        assert check_device("few", kernels=False, train=True, only=["mul"], skip=["gradient mul"]).gradients == []
    finally:
        unregister("few")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cpu", "changed"])
def test_all_gradients(changed_device, name):
    if name == "changed":
        changed_device()
    report = check_device(name, kernels=False, train=True)
    assert report.ok and len(report.gradients) > 500
    assert not [name for name in report.without_gradient if "::" not in name]  # other tests define operators without one
