"""Wrappers around modules that compute activations again, and modules that are replicated without a wrapper."""

import pytest

import metatensor as mt
from metatensor import distributed as dist
from metatensor.distributed._composable.replicate import replicate
from metatensor.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    apply_activation_checkpointing,
    checkpoint_wrapper,
    offload_wrapper,
)
from metatensor.distributed.device_mesh import init_device_mesh


class Scaled(mt.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = mt.nn.Linear(3, 3, device="cpu")

    def forward(self, x, scale=None):
        y = self.layer(x).exp()
        return y if scale is None else y * scale


def gradients(module, x, scale):
    module.zero_grad()
    module(x, scale=scale).sum().backward()
    return [p.grad.clone() for p in module.parameters()]


@pytest.mark.parametrize("wrapped", [
    lambda m: checkpoint_wrapper(m, preserve_rng_state=False), lambda m: checkpoint_wrapper(m, CheckpointImpl.REENTRANT), offload_wrapper,
])  # fmt: skip
def test_a_wrapped_module_is_as_before(wrapped):
    plain = Scaled()
    x, scale = mt.ones(2, 3, device="cpu", requires_grad=True), mt.full((3,), 2.0, device="cpu")
    expected = gradients(plain, x, scale)
    state = {name: value.clone() for name, value in plain.state_dict().items()}
    made = wrapped(plain)
    for one, other in zip(gradients(made, x, scale), expected, strict=True):
        assert mt.equal(one, other)
    assert list(made.state_dict()) == list(state) == [name for name, _ in made.named_parameters()]
    made.load_state_dict({name: value * 2 for name, value in state.items()})
    assert mt.equal(made.layer.weight, state["layer.weight"] * 2)
    assert mt.equal(mt.nn.Sequential(made).state_dict()["0.layer.weight"], made.layer.weight)
    with pytest.raises(AttributeError):
        made.missing


def test_modules_are_wrapped_inside_of_a_model():
    model = mt.nn.Sequential(Scaled(), mt.nn.Sequential(Scaled(), mt.nn.ReLU()))
    names = list(model.state_dict())
    apply_activation_checkpointing(model, check_fn=lambda module: isinstance(module, Scaled))
    assert [type(one).__name__ for one in (model[0], model[1], model[1][0])] == ["CheckpointWrapper", "Sequential", "CheckpointWrapper"]
    assert list(model.state_dict()) == names


def test_a_replicated_module_averages_gradients():
    def train():
        dist.init_process_group()
        model = replicate(Scaled().to("meta"), init_device_mesh("cpu", (2,)), bucket_cap_mb=1)
        model.to_empty(device="cpu")
        with mt.no_grad():
            for p in model.parameters():
                p.fill_(0.5 if dist.get_rank() == 0 else 9.0)   # those of rank 0 count
        x = mt.full((1, 3), float(dist.get_rank()), device="cpu")
        model(x).sum().backward()
        first = model.layer.weight.grad.clone()
        model.zero_grad()
        model.set_requires_gradient_sync(False)
        model(x).sum().backward()
        return type(model).__name__, first, model.layer.weight.grad

    (name, first, own), (_, second, other) = dist.sim.run(train, world_size=2)
    assert name == "DDPScaled"
    assert mt.equal(first, second)
    assert mt.allclose((own + other) / 2, first)
    assert not mt.equal(own, other)


def test_a_module_is_replicated_once_and_over_one_dimension():
    def run():
        dist.init_process_group()
        with pytest.raises(RuntimeError, match="one dimension"):
            replicate(Scaled(), init_device_mesh("cpu", (1, 2)))
        with pytest.raises(RuntimeError, match="replicated already"):
            replicate(replicate(Scaled()))

    dist.sim.run(run, world_size=2)
