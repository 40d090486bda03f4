"""Followers of the calls of modules, and the paths of modules."""

import threading

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.nn._following import Follower, ModulePaths


class Running:
    """Notes each number that is set."""

    def __init__(self):
        self.seen, self._module = [], 0

    @property
    def module(self):
        return self._module

    @module.setter
    def module(self, number):
        self._module = number
        self.seen.append(number)

    def take(self):
        seen, self.seen = self.seen, []
        return seen


@pytest.fixture
def x():
    return mt.ones(2, device="meta")


def test_followers_see_calls_with_their_hooks(x):
    target, model = Running(), nn.Sequential(nn.ReLU(), nn.Identity())
    with Follower(target, ModulePaths([model])) as follower:
        model(x)
        assert target.take() == [1, 2, 1, 3, 1, 0]
        own = model[0].register_forward_hook(lambda *args: target.seen.append(list(follower.outer)))
        model[1].register_forward_pre_hook(lambda module, args: (args[0] + 1,))
        model(x)
        assert target.take() == [1, 2, [0, 1], 1, 3, 1, 0]
        own.remove()
        with pytest.raises(TypeError):
            model[0](x, x)
        assert target.take() == [2, 0]
        thread = threading.Thread(target=model, args=(x,))
        thread.start()
        thread.join()
        assert target.take() == []
    model(x)
    assert target.take() == []


class Outer(nn.Module):
    def __call__(self, *args):
        return super().__call__(*args)

    def forward(self, x):
        return x + 1


def test_modules_that_override_calling_are_seen_once(x):
    target = Running()
    with Follower(target, ModulePaths()):
        Outer()(x)
        assert target.take() == [1, 0]
        nn.ReLU().__call__(x)
        assert target.take() == [2, 0]
        nn.ReLU().forward(x)
        assert target.take() == []


def test_followers_end_in_any_order(x):
    a, b, model = Running(), Running(), nn.ReLU()
    first, second = Follower(a, ModulePaths()), Follower(b, ModulePaths())
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    model(x)
    second.__exit__(None, None, None)
    model(x)
    assert (a.take(), b.take()) == ([], [1, 0])


def test_a_follower_that_is_removed_inside_a_call_is_told_of_its_end(x):
    target, follower = Running(), None

    class Ends(nn.Module):
        def forward(self, x):
            follower.__exit__(None, None, None)
            return x

    follower = Follower(target, ModulePaths())
    follower.__enter__()
    Ends()(x)
    assert target.take() == [1, 0]


def test_paths():
    shared = nn.Linear(2, 2)
    model = nn.Sequential(nn.Sequential(shared), shared)
    paths = ModulePaths([model, model[0]])
    assert paths.paths == ["", "Sequential", "0", "0.0"]
    assert paths.roots == [model] and paths.modules == [model, model[0], shared]
    assert [paths.number(module) for module in (shared, model[0], model)] == [3, 2, 1]
    assert paths.number(nn.ReLU()) == 4 and paths.paths[4] == "ReLU"
