"""`FullyShardedDataParallel` and the policies that wrap submodules."""

import functools

import pytest

import metatensor as mt
from distributed.fsdp.test_fully_shard import batch, on_ranks, same
from metatensor import distributed as dist
from metatensor import nn
from metatensor.distributed.fsdp import (
    CPUOffload,
    FullStateDictConfig,
    FullyShardedDataParallel,
    MixedPrecision,
    ShardingStrategy,
    StateDictType,
)
from metatensor.distributed.fsdp.wrap import (
    CustomPolicy,
    ModuleWrapPolicy,
    always_wrap_policy,
    enable_wrap,
    size_based_auto_wrap_policy,
    wrap,
)
from metatensor.distributed.tensor import DTensor

pytest.importorskip("metatensor_cpu")
FSDP = FullyShardedDataParallel
LINEAR = ModuleWrapPolicy({nn.Linear})


def network():
    mt.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Sequential(nn.Linear(5, 8), nn.Tanh()), nn.Linear(8, 3))


def expected():
    model = network()
    model(batch()).square().mean().backward()
    return model


GATHER, SCATTER, REDUCE = "all_gather", "reduce_scatter", "all_reduce"


@pytest.mark.parametrize("strategy, kinds", [
    ("FULL_SHARD", [GATHER] * 5 + [SCATTER, GATHER, SCATTER, SCATTER]),
    ("SHARD_GRAD_OP", [GATHER] * 3 + [SCATTER] * 3),
    ("NO_SHARD", [REDUCE] * 3),
    ("HYBRID_SHARD", [GATHER] * 5 + [SCATTER, REDUCE, GATHER, SCATTER, REDUCE, SCATTER, REDUCE]),
    ("_HYBRID_SHARD_ZERO2", [GATHER] * 3 + [SCATTER, REDUCE] * 3),
])  # fmt: skip
def test_strategies(strategy, kinds):
    whole = expected()
    grads = [one.grad.clone() for one in whole.parameters()]
    norm = nn.utils.clip_grad_norm_(whole.parameters(), 0.1).item()

    def train(rank):
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard")) if "HYBRID" in strategy else None
        model = FSDP(network(), sharding_strategy=ShardingStrategy[strategy], auto_wrap_policy=LINEAR, device_mesh=mesh)
        assert [type(one).__name__ for one in FSDP.fsdp_modules(model)] == ["FullyShardedDataParallel"] * 4
        assert FSDP.fsdp_modules(model, root_only=True) == [model] and not model.check_is_root()
        with dist.CommunicationLog() as log:
            model(batch().chunk(4)[rank]).square().mean().backward()
        assert model.check_is_root() and model[0].module.in_features == model[0].in_features == 6
        right = same(model.parameters(), grads)
        return right, [one.kind for one in log], model.clip_grad_norm_(0.1).item()

    assert on_ranks(train) == [(True, kinds, pytest.approx(norm, rel=1e-5))] * 4


def test_policies():
    def names(policy, **options):
        model = FSDP(network(), auto_wrap_policy=policy, **options)
        return [name.replace("_fsdp_wrapped_module", "*") for name, one in model.named_modules() if isinstance(one, FSDP)]

    def check(rank):
        everywhere = ["", "*.0", "*.1", "*.1.*.0", "*.1.*.1", "*.2"]
        assert names(None) == [""] and names(always_wrap_policy) == everywhere
        assert names(LINEAR) == ["", "*.0", "*.1.0", "*.2"]
        assert names(CustomPolicy(lambda module: isinstance(module, nn.Linear) and module.in_features == 5)) == ["", "*.1.0"]
        assert names(functools.partial(size_based_auto_wrap_policy, min_num_params=40)) == ["", "*.1.0"]
        with pytest.raises(ValueError, match="must return a bool or a dict, got 3 for a Linear"):
            names(CustomPolicy(lambda module: 3))
        strategy = {"sharding_strategy": ShardingStrategy.SHARD_GRAD_OP}
        model = FSDP(network(), auto_wrap_policy=CustomPolicy(lambda module: strategy if isinstance(module, nn.Linear) else False))
        assert model[0].sharding_strategy is ShardingStrategy.SHARD_GRAD_OP and model.sharding_strategy is ShardingStrategy.FULL_SHARD
        with enable_wrap(wrapper_cls=FSDP, sharding_strategy=ShardingStrategy.NO_SHARD):
            first, second = wrap(nn.Linear(2, 2)), wrap(nn.Linear(2, 2), sharding_strategy=ShardingStrategy.FULL_SHARD)
        assert first.sharding_strategy is ShardingStrategy.NO_SHARD and second.sharding_strategy is ShardingStrategy.FULL_SHARD
        layer = nn.Linear(2, 2)
        assert wrap(layer) is layer

    on_ranks(check, size=2)


def test_state_dicts():
    state = network().state_dict()

    def run(rank):
        model = FSDP(network(), auto_wrap_policy=LINEAR)
        found = model.state_dict()
        assert list(found) == list(state) and all(type(one) is mt.Tensor and mt.equal(one, state[name]) for name, one in found.items())
        with FSDP.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
            shards = {name: one.clone() for name, one in model.state_dict().items()}
            assert list(shards) == list(state) and all(isinstance(one, DTensor) for one in shards.values())
        with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(offload_to_cpu=True, rank0_only=True)):
            assert len(model.state_dict()) == (0 if rank else len(state))
        with pytest.raises(NotImplementedError, match="LOCAL_STATE_DICT"):
            FSDP.set_state_dict_type(model, StateDictType.LOCAL_STATE_DICT)
        for given in ({name: one + 1 for name, one in state.items()}, shards):
            assert not model.load_state_dict(given).missing_keys
        assert all(mt.equal(one, state[name]) for name, one in model.state_dict().items())
        with pytest.raises(RuntimeError, match="nothing"):
            model.load_state_dict({"nothing": mt.ones(2)})
        # Optimizers
        optimizer = mt.optim.AdamW(model.parameters(), lr=0.1)
        model(batch()).sum().backward()
        optimizer.step()
        whole = FSDP.optim_state_dict(model, optimizer)
        assert set(whole["state"]) == set(state) and whole["state"]["0.weight"]["exp_avg"].shape == (5, 6)
        other = mt.optim.AdamW(model.parameters(), lr=0.1)
        FSDP.optim_state_dict_to_load(model, other, whole, load_directly=True)
        for one in model.parameters():
            kept, loaded = optimizer.state[one], other.state[one]
            assert isinstance(loaded["exp_avg"], DTensor) and mt.equal(kept["exp_avg"].full_tensor(), loaded["exp_avg"].full_tensor())
        with pytest.raises(ValueError, match="parameter 0 of the optimizer does not belong to the model"):
            FSDP.optim_state_dict(model, mt.optim.SGD([nn.Parameter(mt.ones(2))], lr=1.0))
        with pytest.raises(ValueError, match=r"the optimizer has no parameters \['x'\]"):
            FSDP.optim_state_dict_to_load(model, other, {"state": {"x": {}}, "param_groups": []})

    on_ranks(run, size=2)


def test_whole_parameters():
    state = network().state_dict()

    def run(rank):
        model = FSDP(network(), auto_wrap_policy=LINEAR)
        with FSDP.summon_full_params(model):
            names = dict(model.named_parameters())
            assert set(names) == set(state) and all(mt.equal(one, state[name]) for name, one in names.items())
            with mt.no_grad():
                model[0].weight.add_(1)
        with FSDP.summon_full_params(model, writeback=False), mt.no_grad():
            model[0].weight.add_(1)
        with FSDP.summon_full_params(model, writeback=False, rank0_only=True):
            assert isinstance(model[0].weight, DTensor) == bool(rank)
        with FSDP.summon_full_params(model, recurse=False):
            assert isinstance(model[0].weight, DTensor)
        for options in ({"with_grads": True}, {"rank0_only": True}):
            with pytest.raises(NotImplementedError, match="is not supported"), FSDP.summon_full_params(model, **options):
                pass
        assert all(isinstance(one, DTensor) for one in model.parameters())
        return mt.equal(model.state_dict()["0.weight"], state["0.weight"] + 1)

    assert on_ranks(run, size=2) == [True, True]


def test_precision_initialization_and_what_is_ignored():
    def run(rank):
        model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
        precision = MixedPrecision(param_dtype=mt.bfloat16, buffer_dtype=mt.bfloat16)
        model = FSDP(model, mixed_precision=precision, ignored_modules=[model[2]], cpu_offload=CPUOffload(True))
        assert type(model[2].weight) is nn.Parameter and model[1].running_mean.dtype is mt.bfloat16
        seen = []
        model[0].register_forward_pre_hook(lambda module, args: seen.append(args[0].dtype))
        with pytest.raises(RuntimeError):
            model(batch())  # the ignored layer has another dtype
        model.module.reset_iter_state()
        assert seen == [mt.bfloat16]
        with mt.device("meta"):
            empty = network()
        filled = FSDP(empty, auto_wrap_policy=LINEAR, param_init_fn=lambda module: module.to_empty(device="cpu", recurse=False))
        assert not any(one.is_meta for one in filled.parameters())
        mt.manual_seed(rank)
        synchronized = FSDP(nn.Linear(4, 4), sync_module_states=True)
        found = [None, None]
        dist.all_gather_object(found, synchronized.state_dict()["weight"].tolist())
        assert found[0] == found[1]
        with synchronized.no_sync(), dist.CommunicationLog() as log:
            synchronized(mt.ones(2, 4)).sum().backward()
        assert [one.kind for one in log] == ["all_gather"]
        synchronized(mt.full((2, 4), float(rank))).sum().backward()
        return synchronized.module.weight.grad.full_tensor()[0, 0].item()

    assert on_ranks(run, size=2) == [3.0, 3.0]  # (2 + 0 + 2 + 2) / 2


def test_errors():
    def run(rank):
        layer, mesh = nn.Linear(4, 4), dist.init_device_mesh("cpu", (2,))
        with pytest.raises(ValueError, match="process_group or device_mesh, not both"):
            FSDP(layer, process_group=mesh.get_group(), device_mesh=mesh)
        with pytest.raises(ValueError, match="HYBRID_SHARD needs a device_mesh of two dimensions"):
            FSDP(layer, sharding_strategy=ShardingStrategy.HYBRID_SHARD)
        with pytest.raises(NotImplementedError, match="keep_low_precision_grads"):
            FSDP(layer, mixed_precision=MixedPrecision(keep_low_precision_grads=True))
        model = FSDP(layer, process_group=mesh.get_group())
        with pytest.raises(NotImplementedError, match="set_all_reduce_hook"):
            model.register_comm_hook(None, None)
        with pytest.raises(AttributeError, match="nothing"):
            _ = model.nothing

    on_ranks(run, size=2)
