"""Exceptions that propagate out of a module name its place in the model."""

import copy
import pickle

import pytest

import metatensor as mt
from metatensor import nn


@pytest.fixture(autouse=True)
def on_meta():
    mt.set_default_device("meta")


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attn = nn.ModuleDict({"q_proj": nn.Linear(width, 8)})

    def forward(self, x):
        return self.attn["q_proj"](x)


class Model(nn.Module):
    def __init__(self, *widths):
        super().__init__()
        self.encoder = nn.Module()
        self.encoder.layers = nn.ModuleList(Block(width) for width in widths)

    def forward(self, x):
        for layer in self.encoder.layers:
            x = layer(x)
        return x


def failure(function, *args, **kwargs):
    with pytest.raises(Exception) as caught:
        function(*args, **kwargs)
    return caught.value


def test_the_path_of_the_failing_module():
    error = failure(Model(8, 8, 5, 8), mt.ones(2, 8))
    assert isinstance(error, RuntimeError)
    assert error.module_path == "encoder.layers.2.attn.q_proj"
    assert error.module_path.leaf == "Linear"
    place = f"{__file__}:{Block.forward.__code__.co_firstlineno + 1}"
    assert error.module_path.line == place
    assert error.__notes__ == [
        f'in module encoder.layers.2.attn.q_proj (Linear) of Model, at {place}: return self.attn["q_proj"](x)'
    ]


def test_an_error_of_the_outermost_module():
    class Broken(nn.Module):
        def forward(self):
            raise ValueError("no")

    error = failure(Broken())
    assert error.module_path == "" and error.module_path.line == f"{__file__}:{Broken.forward.__code__.co_firstlineno + 1}"
    assert error.__notes__ == [f'in module Broken, at {error.module_path.line}: raise ValueError("no")']


def test_the_line_is_that_of_the_caller_where_no_other_is_the_users():
    model = nn.Sequential(nn.ReLU(), nn.Linear(3, 3))
    with pytest.raises(RuntimeError) as caught:
        model(mt.ones(2, 8))
    assert caught.value.__notes__[0].endswith("model(mt.ones(2, 8))")


def test_the_same_with_hooks():
    model = Model(8, 5)
    model.register_forward_pre_hook(lambda module, args: None)
    model.encoder.layers[1].register_forward_hook(lambda module, args, output: None)
    error = failure(model, mt.ones(2, 8))
    assert error.module_path == "encoder.layers.1.attn.q_proj"
    assert len(error.__notes__) == 1
    error = failure(model.__call__, mt.ones(2, 8))
    assert error.module_path == "encoder.layers.1.attn.q_proj"


def test_an_error_of_a_hook():
    model = Model(8, 8)
    model.encoder.layers[1].register_forward_pre_hook(lambda module, args: 1 / 0)
    error = failure(model, mt.ones(2, 8))
    assert error.module_path == "encoder.layers.1" and error.module_path.leaf == "Block"


def test_a_module_that_is_not_registered():
    class Hiding(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = [nn.Linear(3, 3)]

        def forward(self, x):
            return self.hidden[0](x)

    error = failure(nn.Sequential(nn.Identity(), Hiding()), mt.ones(2, 8))
    assert error.module_path == "1.<Linear>"


def test_a_module_that_calls_itself():
    class Recursive(nn.Module):
        def forward(self, n):
            return self(n - 1) if n else 1 / 0

    assert failure(Recursive(), 3).module_path == ""
    assert failure(nn.Sequential(Recursive()), 3).module_path == "0"


def test_other_notes_stay():
    class Noting(nn.Module):
        def forward(self):
            error = ValueError("no")
            error.__notes__ = ["mine"]
            raise error

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Noting()

        def forward(self):
            try:
                return self.inner()
            except ValueError as error:
                error.__notes__.append("passed by")
                raise

    mine, path, passed = failure(Outer()).__notes__
    assert mine == "mine" and path.startswith("in module inner (Noting) of Outer, at ") and passed == "passed by"


def test_an_error_that_is_caught_leaves_no_trace():
    class Trying(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x):
            try:
                return self.inner(x)
            except RuntimeError:
                return x

    x = mt.ones(2, 8)
    assert Trying()(x) is x


def test_an_error_raised_again_elsewhere():
    first = failure(nn.Sequential(nn.Linear(3, 3)), mt.ones(2, 8))

    class Again(nn.Module):
        def forward(self):
            raise first

    model = nn.ModuleDict({"a": Again()})
    error = failure(model["a"])
    assert error is first and error.module_path == "<Sequential>.0"


def test_only_ordinary_exceptions_are_noted():
    class Stopping(nn.Module):
        def forward(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        Stopping()()
    assert not hasattr(caught.value, "module_path")


def test_an_exception_that_takes_no_attributes():
    class Closed(Exception):
        def __setattr__(self, name, value):
            raise RuntimeError("closed")

    class Raising(nn.Module):
        def forward(self):
            raise Closed("original")

    net = Raising()
    with pytest.raises(Closed, match="original"):
        net()
    net.register_forward_hook(print)
    with pytest.raises(Closed, match="original"):
        net()


def test_noted_errors_pickle_and_copy():
    error = failure(Model(5), mt.ones(2, 8))
    back = pickle.loads(pickle.dumps(error))
    assert back.module_path == "encoder.layers.0.attn.q_proj" and type(back.module_path) is str
    assert copy.copy(error.module_path) == error.module_path
