"""`torch.overrides`: modes and functions for code that defines ``__torch_function__``."""

import inspect

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
    assert mode.names == ["torch.ones", "torch.Tensor.add", "torch.Tensor.relu", "torch.nn.functional.gelu", "torch.functional.einsum"]


def test_a_dispatch_mode_sees_the_parts():
    seen = []

    class Parts(_python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, 3, device="meta")
    with Parts():
        mt.einsum("ij->i", x)
    assert seen == ["aten.sum.dim_IntList"]


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
    assert mt.relu in overrides.get_overridable_functions()[torch]


# Functions, methods and properties ------------------------------------------------------------


class Answers:
    """An object that is not a tensor. Its override returns what was called."""

    seen = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append((func, types, args, kwargs))
        return -1


class Answering(mt.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Answers.seen.append((func, types, args, kwargs))
        return -1


def answering():
    with torch.DisableTorchFunctionSubclass():
        return mt.ones(2, 2, device="meta").as_subclass(Answering)


def called(function):
    """Call a function with objects that override it. Return the result and the arguments of the override."""
    Answers.seen.clear()
    parameters = inspect.signature(overrides.get_testing_overrides()[function]).parameters.values()
    needed = sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
    named = {p.name: Answers() for p in parameters if p.default is p.empty and p.kind is p.KEYWORD_ONLY}
    if not overrides.is_tensor_method_or_property(function):
        return function(*[Answers() for _ in range(max(needed, 1))], **named)
    name = overrides.resolve_name(function).removeprefix("torch.Tensor.")
    if name.endswith(".__get__"):
        return getattr(answering(), name.removesuffix(".__get__"))
    return getattr(answering(), name)(*[Answers() for _ in range(max(needed, 1 + (name == "__div__")) - 1)], **named)


# Aliases of operators, which the override receives under the operator's name.
OTHER_NAMES = {"torch.Tensor.__idiv__", "torch.Tensor.__div__"}


def test_every_function_can_be_overridden():
    functions = overrides.get_testing_overrides()
    assert len(functions) > 1200
    wrong = []
    for function in functions:
        name = overrides.resolve_name(function)
        try:
            if called(function) != -1 or (Answers.seen[0][0] != function and name not in OTHER_NAMES):
                wrong.append(name)
        except Exception as error:
            wrong.append((name, repr(error)[:80]))
    assert not wrong, wrong


def test_what_a_function_is_called_with():
    Answers.seen.clear()
    one, x = Answers(), mt.ones(2, device="meta")
    assert mt.add(x, one, alpha=2) == x.mul(one) == x + one == mt.cat([x, one]) == one_of(mt.where, one, x, x) == -1
    assert [(func, args, kwargs) for func, types, args, kwargs in Answers.seen[:2]] == [
        (mt.add, (x, one), {"alpha": 2}), (mt.Tensor.mul, (x, one), {})]  # fmt: skip
    assert [types for _, types, _, _ in Answers.seen] == [(Answers,)] * 5 and Answers.seen[2][0] is mt.Tensor.add


def one_of(function, *args):
    return function(*args)


def test_properties_are_set_through_the_class():
    Answers.seen.clear()
    x = answering()
    x.grad = None
    x.requires_grad = True
    del x.grad
    assert [func.__name__ for func, *_ in Answers.seen] == ["__set__", "__set__", "__delete__"]
    assert x.shape == -1 and x[0] == -1 and len(Answers.seen) == 5


def test_a_function_that_nobody_takes():
    with pytest.raises(TypeError, match=r"sum\(\): .* Duck .*NotImplemented"):
        mt.sum(Duck())
    with pytest.raises(TypeError, match="must be Tensor"):
        mt.sum(object())


def test_default_behaviour_keeps_the_class():
    class Named(mt.Tensor):
        pass

    x = mt.ones(2, 2, device="meta").as_subclass(Named)
    assert type(x + 1) is type(x[0]) is type(x.data) is type(x.T) is type(x.max(1).values) is Named
    assert x.shape == (2, 2) and type(x.detach()) is Named


def test_modes_do_not_see_what_metatensor_asks_for_itself():
    x = mt.ones(2, device="cpu")
    with Names() as mode:
        repr(x), bool(x[0]), int(x[1])
        mt.full((2,), x[0])
        x[0].item()
    assert mode.names == ["torch.Tensor.__getitem__"] * 3 + ["torch.full", "torch.Tensor.__getitem__", "torch.Tensor.item"]


def test_subscripts_in_modes_and_classes():
    class Five(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return 5 if func in (mt.Tensor.__getitem__, mt.Tensor.__setitem__) else func(*args, **(kwargs or {}))

    x = mt.zeros(3)
    with Five():
        assert x[0] == 5
        x[0] = 1
    assert x.tolist() == [0, 0, 0]


def test_functions_come_before_operators_in_whatever_order_modes_are_entered():
    order = []

    class Operators(_python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            order.append(str(func))
            return func(*args, **(kwargs or {}))

    class Functions(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            order.append(overrides.resolve_name(func))
            return func(*args, **(kwargs or {}))

    x = mt.ones(2, 2, device="meta")
    for outer, inner in ((Operators, Functions), (Functions, Operators)):
        with outer(), inner():
            mt.einsum("ij->i", x)
    assert order == ["torch.functional.einsum", "aten.sum.dim_IntList"] * 2


@pytest.mark.torch
def test_as_many_functions_as_pytorch():
    import torch as theirs
    from torch.overrides import get_testing_overrides, resolve_name

    known = {str(resolve_name(function)) for function in get_testing_overrides()}
    mine = {overrides.resolve_name(function) for function in overrides.get_testing_overrides()}
    common = {name for name in known if name.startswith("torch.") and hasattr(theirs, name.split(".")[1])}
    assert len(common & mine) / len(common) > 0.8
