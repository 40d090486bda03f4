"""State dicts that do not depend on the parallelism: complete, distributed, and broadcast from rank 0."""

import pytest

pytest.importorskip("metatensor_cpu")

import metatensor as mt
from metatensor import distributed as dist
from metatensor import nn
from metatensor.distributed import checkpoint, sim
from metatensor.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from metatensor.distributed.tensor import DTensor, init_device_mesh
from metatensor.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from metatensor.nn.parallel import DistributedDataParallel


def net(seed=0, device="cpu"):
    mt.manual_seed(seed)
    with mt.device(device):
        return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))


def parallel(model, mesh):
    return parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})


def train(model, optimizer, steps=2):
    for i in range(steps):
        optimizer.zero_grad()
        loss = (model(mt.arange(12.0, device="cpu").reshape(2, 6) / 10 * (i + 1)) ** 2).sum()
        loss.backward()
        optimizer.step()
    return loss.item()


def pair(seed=0, lr=0.01, mesh=None, kind=mt.optim.AdamW):
    """Return a model and its optimizer, on a mesh or not."""
    model = net(seed) if mesh is None else parallel(net(seed), mesh)
    return model, kind(model.parameters(), lr=lr)


def on_ranks(size, function):
    def body():
        dist.init_process_group()
        return function()

    return sim.run(body, world_size=size)


def test_complete_states_go_to_rank_0():
    def run():
        model, optimizer = pair(mesh=init_device_mesh("cpu", (4,)))
        plain, reference = pair()
        assert train(model, optimizer) == pytest.approx(train(plain, reference), rel=1e-5)
        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        state, optimizer_state = get_state_dict(model, optimizer, options=options)
        if dist.get_rank():
            assert state == {} and optimizer_state == {}
            return
        for name, value in plain.state_dict().items():
            assert mt.allclose(state[name], value, atol=1e-6) and not isinstance(state[name], DTensor)
        for name, parameter in plain.named_parameters():
            assert mt.allclose(optimizer_state["state"][name]["exp_avg"], reference.state[parameter]["exp_avg"], atol=1e-6)
        assert optimizer_state["param_groups"][0]["params"] == ["0.weight", "0.bias", "2.weight", "2.bias"]
        everywhere = get_model_state_dict(plain, options=StateDictOptions(full_state_dict=True))
        assert everywhere.keys() == state.keys()

    on_ranks(4, run)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [mt.optim.AdamW, mt.optim.SGD, mt.optim.Adagrad])
def test_training_goes_on_with_another_mesh(tmp_path, kind):
    def first():
        model, optimizer = pair(mesh=init_device_mesh("cpu", (4,)), kind=kind)
        train(model, optimizer)
        state, optimizer_state = get_state_dict(model, optimizer)
        assert isinstance(state["0.weight"], DTensor)
        checkpoint.save({"model": state, "optimizer": optimizer_state}, checkpoint_id=tmp_path)
        return train(model, optimizer)

    def second():
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp")) if dist.get_world_size() == 4 else None
        model, optimizer = pair(5, 0.5, mesh if mesh is None else mesh["tp"], kind=kind)
        state, optimizer_state = get_state_dict(model, optimizer)
        found = {"model": state, "optimizer": optimizer_state}
        checkpoint.load(found, checkpoint_id=tmp_path)
        set_state_dict(model, optimizer, model_state_dict=found["model"], optim_state_dict=found["optimizer"])
        assert optimizer.param_groups[0]["lr"] == 0.01
        return train(model, optimizer)

    losses = on_ranks(4, first)
    assert on_ranks(4, second) == pytest.approx(losses, rel=1e-5)
    assert on_ranks(1, second) == pytest.approx(losses[:1], rel=1e-5)


@pytest.mark.parametrize("flat", [False, True])
def test_rank_0_has_the_state(flat):
    def run():
        plain, reference = pair()
        train(plain, reference)
        first = dist.get_rank() == 0
        options = StateDictOptions(flatten_optimizer_state_dict=flat)
        state, optimizer_state = get_state_dict(plain, reference, options=options) if first else ({}, {})
        if flat and first:
            assert optimizer_state["state.2.bias.step"].item() == 2 and optimizer_state["param_groups.0.weight.lr"] == 0.01
        model, optimizer = pair(7, 0.3, init_device_mesh("cpu", (4,)))
        options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
        missing, unexpected = set_state_dict(
            model, optimizer, model_state_dict=state, optim_state_dict=optimizer_state, options=options,
        )  # fmt: skip
        assert not missing and not unexpected
        assert train(model, optimizer) == pytest.approx(train(plain, reference), rel=1e-5)

    on_ranks(4, run)


def test_a_model_on_meta_takes_the_tensors():
    def run():
        plain = net()
        first = dist.get_rank() == 0
        mesh = init_device_mesh("cpu", (4,))
        for options in (StateDictOptions(full_state_dict=True, broadcast_from_rank0=True), StateDictOptions(full_state_dict=True)):
            model = parallel(net(device="meta"), mesh)
            given = plain.state_dict() if first or not options.broadcast_from_rank0 else {}
            set_model_state_dict(model, given, options=options)
            for name, value in model.state_dict().items():
                assert isinstance(value, DTensor) and value.device.type == "cpu"
                assert mt.equal(value.full_tensor(), plain.state_dict()[name])
            with mt.no_grad():
                model[2].bias.add_(1)
            assert mt.equal(plain[2].bias, net()[2].bias)  # not shared

    on_ranks(4, run)


def test_names_without_wrappers():
    def run():
        model = DistributedDataParallel(net())
        optimizer = mt.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        state, optimizer_state = get_state_dict(model, optimizer)
        assert list(state) == list(net().state_dict()) == optimizer_state["param_groups"][0]["params"]
        other = DistributedDataParallel(net(3))
        set_model_state_dict(other, state)
        assert mt.equal(other.module[0].weight, model.module[0].weight)

    on_ranks(2, run)


def test_parts_of_models():
    model, optimizer = pair()
    model[0].requires_grad_(False)
    assert list(get_model_state_dict(model, options=StateDictOptions(ignore_frozen_params=True))) == ["2.weight", "2.bias"]
    assert list(get_model_state_dict(model, submodules={model[2]})) == ["2.weight", "2.bias"]
    short = StateDictOptions(keep_submodule_prefixes=False)
    assert list(get_model_state_dict(model, submodules={model[2]}, options=short)) == ["weight", "bias"]
    found = get_optimizer_state_dict(model, optimizer, submodules={model[2]})
    assert list(found["state"]) == found["param_groups"][0]["params"] == ["2.weight", "2.bias"]


def test_several_optimizers_and_groups():
    def build(lr):
        model = net()
        groups = [{"params": [model[0].weight], "lr": lr}, {"params": [model[0].bias], "weight_decay": lr}]
        return model, [mt.optim.AdamW(groups, lr=lr / 2), mt.optim.SGD(model[2].parameters(), lr=lr / 4, momentum=0.9)]

    model, optimizers = build(0.1)
    for optimizer in optimizers:
        train(model, optimizer, 1)
    state = get_optimizer_state_dict(model, optimizers)
    assert [group["params"] for group in state["param_groups"]] == [["0.weight"], ["0.bias"], ["2.weight", "2.bias"]]
    for group in state["param_groups"]:
        group.pop("betas", None)  # a flat state dict holds numbers
    for given in (get_optimizer_state_dict(model, optimizers), _flat(state)):
        other, again = build(0.4)
        set_optimizer_state_dict(other, again, given)
        assert [group["lr"] for one in again for group in one.param_groups] == [0.1, 0.05, 0.025]
        assert again[0].param_groups[1]["weight_decay"] == 0.1
        assert mt.equal(again[1].state[other[2].bias]["momentum_buffer"], optimizers[1].state[model[2].bias]["momentum_buffer"])


def _flat(state):
    from metatensor.distributed.checkpoint._optimizer_state import flattened

    return flattened(state)


def test_initial_states_change_nothing():
    model, optimizer = pair()
    before = model.state_dict()["0.weight"].clone()
    state = get_optimizer_state_dict(model, optimizer)
    assert mt.equal(model[0].weight, before) and model[0].weight.grad is None
    assert state["param_groups"][0]["lr"] == 0.01 and state["state"]["0.bias"]["exp_avg"].tolist() == [0] * 8


def test_errors():
    model, optimizer = pair()
    with pytest.raises(ValueError, match="broadcast_from_rank0=True needs full_state_dict=True"):
        get_model_state_dict(model, options=StateDictOptions(broadcast_from_rank0=True))
    with pytest.raises(ValueError, match=r"parameter of shape \[8, 6\] that the model does not have"):
        get_optimizer_state_dict(net(), optimizer)
    state = get_optimizer_state_dict(model, optimizer)
    with pytest.raises(NotImplementedError, match=r"'state.a.b' is of type str"):
        _flat({"state": {"a": {"b": "x"}}, "param_groups": []})
    del state["state"]["2.bias"]
    with pytest.raises(RuntimeError, match="no state of '2.bias'"):
        set_optimizer_state_dict(model, optimizer, state)
    set_optimizer_state_dict(model, optimizer, state, options=StateDictOptions(strict=False))
    with pytest.raises(RuntimeError, match="no group with"):
        set_optimizer_state_dict(model, optimizer, {"state": {}, "param_groups": []})

    def run():
        split = parallel(net(), init_device_mesh("cpu", (2,)))
        with pytest.raises(RuntimeError, match="'0.weight' is distributed in the model; .* needs full_state_dict=True"):
            set_model_state_dict(split, net().state_dict())
        wrong = {**net().state_dict(), "0.weight": mt.ones(2, 2, device="cpu")}
        with pytest.raises(RuntimeError, match=r"'0.weight' has shape \[2, 2\], but the model's has \[8, 6\]"):
            set_model_state_dict(split, wrong, options=StateDictOptions(full_state_dict=True))
        with pytest.raises(RuntimeError, match="Missing in the state dict"):
            set_model_state_dict(split, {}, options=StateDictOptions(full_state_dict=True))

    on_ranks(2, run)
