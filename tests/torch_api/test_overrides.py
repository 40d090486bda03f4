"""`torch.overrides`: modes and functions for those who write ``__torch_function__``."""

import pytest

import metatensor as mt
from metatensor.torch_api import torch
from metatensor.torch_api.torch import overrides
from metatensor.utils import _python_dispatch


class Names(overrides.TorchFunctionMode):
    def __init__(self):
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(overrides.resolve_name(func))
        return func(*args, **(kwargs or {}))


def test_a_function_mode_sees_composites_whole():
    with Names() as mode:
        x = torch.ones(2, 3, device="meta")
        (x + 1).relu()
        mt.nn.functional.gelu(x)
        mt.einsum("ij->i", x)
    assert mode.names == ["torch.ones", "torch.add", "torch.relu", "torch.nn.functional.gelu", "torch.einsum"]


def test_a_dispatch_mode_sees_the_parts():
    seen = []

    class Parts(_python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func.name)
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, 3, device="meta")
    with Parts():
        mt.einsum("ij->i", x)
    assert seen and "einsum" not in seen


def test_a_mode_may_answer_itself():
    class Two(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return 2

    with Two():
        assert mt.ones(3) == 2
    with pytest.raises(NotImplementedError, match="define __torch_function__"), overrides.TorchFunctionMode():
        mt.ones(3, device="meta")


class Tagged(mt.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return ("tagged", func)


class Duck:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


def test_has_and_handle():
    tagged = mt.ones(2).as_subclass(Tagged)
    assert overrides.has_torch_function((1, tagged)) and overrides.has_torch_function_unary(Duck())
    assert not overrides.has_torch_function_variadic(mt.ones(2), mt.nn.Parameter(mt.ones(2)), 3)

    @overrides.wrap_torch_function(lambda a, b: (a, b))
    def both(a, b):
        return a, b

    assert both(1, 2) == (1, 2)
    assert both(1, tagged)[0] == "tagged"
    with pytest.raises(TypeError, match="Duck"):
        both(Duck(), 1)
    assert overrides.is_tensor_like(Duck()) and not overrides.is_tensor_like(3)
    with torch.DisableTorchFunctionSubclass():
        assert isinstance(tagged + 1, mt.Tensor)


def test_names():
    assert overrides.resolve_name(mt.nn.functional.relu) == "torch.nn.functional.relu"
    assert overrides.resolve_name(print) is None
    assert overrides.is_tensor_method_or_property(mt.Tensor.add) and not overrides.is_tensor_method_or_property(print)
    assert mt.relu in overrides.get_overridable_functions()["torch"]
