"""`torch.distributed` with one process, compared with PyTorch's where possible."""

import itertools
import random

import pytest

import metatensor as mt
from metatensor.distributed.tensor import Partial, Replicate, Shard, _utils, placement_types
from metatensor.torch_api.torch import distributed as dist


@pytest.fixture
def world():
    dist.init_process_group("gloo", rank=0, world_size=1)
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def test_predicates():
    assert not dist.is_available() and not dist.is_initialized()
    assert not any((dist.is_gloo_available(), dist.is_xccl_available(), dist.is_ucc_available()))
    assert dist.is_backend_available("sim") and dist.is_mpi_available() == dist.is_backend_available("mpi")
    assert not dist.is_backend_available("gloo") and not dist.rpc.is_available()


@pytest.mark.parametrize("call", [
    dist.get_rank, dist.get_world_size, dist.barrier, dist.get_backend, dist.new_group,
    lambda: dist.all_reduce(mt.empty(2, device="meta")), lambda: dist.broadcast(mt.empty(2, device="meta"), 0),
    lambda: dist.all_gather_object([None], 1), lambda: dist.send(mt.empty(2, device="meta"), 1),
])  # fmt: skip
def test_without_a_group(call):
    with pytest.raises(ValueError, match="init_process_group"):
        call()
    with pytest.raises(AssertionError):
        dist.destroy_process_group()


def test_larger_worlds_are_refused(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(NotImplementedError, match="must be 1, got 2"):
        dist.init_process_group("nccl", rank=0, world_size=2)
    with pytest.raises(ValueError, match="WORLD_SIZE"):
        dist.init_process_group("gloo")
    with pytest.raises(NotImplementedError, match="got 8"):
        dist.init_process_group("gloo", init_method="tcp://localhost:1?rank=3&world_size=8")
    assert not dist.is_initialized()


def test_the_environment_says_the_world(monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    dist.init_process_group()
    assert dist.is_initialized() and dist.get_rank() == 0
    dist.destroy_process_group()


def test_the_group(world):
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend(), dist.get_process_group_ranks()) == (0, 1, "gloo", [0])
    assert dist.get_backend_config() == "cpu:gloo,cuda:gloo" and dist.Backend("NCCL") == dist.Backend.NCCL
    with pytest.raises(ValueError, match="already"):
        dist.init_process_group("gloo", rank=0, world_size=1)
    group = dist.new_group([0])
    assert isinstance(group, dist.ProcessGroup) and (group.rank(), group.size()) == (0, 1)
    outside = dist.new_group([])
    assert outside is dist.GroupMember.NON_GROUP_MEMBER and (dist.get_rank(outside), dist.get_world_size(outside)) == (-1, -1)
    with pytest.raises(ValueError, match="only rank in the world is 0"):
        dist.new_group([0, 1])
    dist.destroy_process_group(group)
    assert dist.is_initialized() and dist.group.WORLD is not None


def test_collectives(world):
    x = mt.tensor([1.0, 2.0])
    for op in dist.ReduceOp:
        if op.name in ("BAND", "BOR", "BXOR"):
            with pytest.raises(RuntimeError, match=f"all_reduce.*{op.name} needs integers"):
                dist.all_reduce(x, op)
            dist.all_reduce(mt.tensor([1, 2]), op)
        else:
            dist.all_reduce(x, op)
    dist.reduce(x, 0)
    dist.broadcast(x, src=0)
    assert x.tolist() == [1, 2]
    out = [mt.zeros(2)]
    for call in (lambda: dist.all_gather(out, x), lambda: dist.gather(x, out), lambda: dist.scatter(out[0], [x]),
                 lambda: dist.all_to_all(out, [x]), lambda: dist.all_gather_into_tensor(out[0], x),
                 lambda: dist.reduce_scatter(out[0], [x]), lambda: dist.reduce_scatter_tensor(out[0], x),
                 lambda: dist.all_to_all_single(out[0], x, [2], [2])):  # fmt: skip
        out[0].zero_()
        assert call() is None
        assert out[0].tolist() == [1, 2]
    work = dist.all_reduce(x, async_op=True)
    assert work.wait() and work.is_completed() and work.get_future().wait()[0] is x
    objects, given = [None], {"a": [1]}
    dist.all_gather_object(objects, given)
    assert objects == [given] and objects[0] is not given
    dist.broadcast_object_list(objects)
    dist.barrier()


@pytest.mark.parametrize("call, error", [
    (lambda x: dist.broadcast(x, 1), RuntimeError), (lambda x: dist.all_gather([], x), ValueError),
    (lambda x: dist.all_gather([mt.zeros(3)], x), ValueError), (lambda x: dist.all_gather([x.double()], x), TypeError),
    (lambda x: dist.all_reduce([1.0]), TypeError), (lambda x: dist.send(x, 0), ValueError),
    (lambda x: dist.all_to_all_single(x, x, [1]), RuntimeError),
])  # fmt: skip
def test_wrong_uses(world, call, error):
    with pytest.raises(error, match="torch.distributed"):
        call(mt.ones(2))


def test_reductions_need_a_fitting_dtype(world):
    floats, integers, complexes = (mt.empty(2, dtype=d, device="meta") for d in (mt.float32, mt.int64, mt.complex64))
    for op in ("BAND", "BOR", "BXOR"):
        dist.all_reduce(integers, op=dist.ReduceOp[op])
        for call in (dist.all_reduce, lambda t, op: dist.reduce(t, 0, op=op), lambda t, op: dist.reduce_scatter(t.clone(), [t], op=op)):
            with pytest.raises(RuntimeError, match=f"{op}.*integers"):
                call(floats, op=dist.ReduceOp[op])
    with pytest.raises(RuntimeError, match="mean"):
        dist.all_reduce(integers, op=dist.ReduceOp.AVG)
    with pytest.raises(ValueError, match="complex"):
        dist.all_reduce(complexes, op=dist.ReduceOp.PRODUCT)
    dist.all_reduce(complexes)


def test_functional_collectives(world):
    from metatensor.distributed import _functional_collectives as functional
    from metatensor.distributed.nn import functional as nn_functional

    x = mt.ones(2, 2)
    for got in (functional.all_reduce(x, "sum", [0]), functional.all_gather_tensor(x, 0, dist.group.WORLD),
                functional.wait_tensor(functional.all_to_all_single(x, None, None, [0])), functional.permute_tensor(x, [0], [0]),
                nn_functional.all_gather(x)[0], nn_functional.all_reduce(x)):  # fmt: skip
        assert got.tolist() == x.tolist() and got is not x
    with pytest.raises(NotImplementedError):
        functional.all_reduce(x, "sum", [0, 1])


# Meshes and placements --------------------------------------------------------------------


def test_meshes(world):
    mesh = dist.init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
    assert (mesh.shape, mesh.ndim, mesh.size(), mesh.size(1), mesh.get_coordinate()) == ((1, 1), 2, 1, 1, (0, 0))
    assert mesh["dp"].mesh_dim_names == ("dp",) and mesh["dp"].shape == (1,) and mesh["dp", "tp"] == mesh
    assert mesh.get_local_rank("tp") == 0 and mesh.get_group("dp") is dist.group.WORLD
    assert mesh._flatten("all") == mesh["all"] and repr(mesh["dp"]) == "DeviceMesh((dp=1), 'cpu')"
    for error, call in [(KeyError, lambda: mesh["pp"]), (RuntimeError, lambda: mesh.get_group()),
                        (RuntimeError, lambda: dist.init_device_mesh("cpu", (2,))),
                        (ValueError, lambda: dist.DeviceMesh("cpu", [0, 1])),
                        (RuntimeError, lambda: dist.init_device_mesh("cpu", (1,), mesh_dim_names=("a", "b")))]:  # fmt: skip
        with pytest.raises(error):
            call()


@pytest.mark.parametrize("world_size", [8])
def test_a_dimension_is_divided(world_size):
    def run():
        dist.init_process_group()
        world = dist.device_mesh.init_device_mesh("cpu", (8,), mesh_dim_names=("world",))
        mesh = world._unflatten(0, (2, 2, 2), ("pp", "dp", "tp"))
        again = mesh._unflatten("dp", (2, 1), ("a", "b"))
        loss = mesh["pp", "dp"]._flatten("loss")
        other = world._unflatten("world", (4, 2), ("fsdp", "model"))
        both = dist.device_mesh.DeviceMesh._concatenate([other["fsdp"], mesh["tp"]])
        for wrong in (lambda: world._unflatten(0, (2, 2), ("a", "b")), lambda: mesh._unflatten("pp", (2, 1), ("tp", "x"))):
            with pytest.raises(ValueError, match="DeviceMesh"):
                wrong()
        along = mesh["tp"].get_group().ranks
        return mesh.get_coordinate(), again.shape, again.mesh_dim_names, loss.get_local_rank(), both.get_coordinate(), along

    found = dist.sim.run(run, world_size=world_size)
    assert [one[0] for one in found] == [(r // 4, r // 2 % 2, r % 2) for r in range(8)]
    assert found[0][1:3] == ((2, 2, 1, 2), ("pp", "a", "b", "tp"))
    assert [one[3] for one in found] == [r // 2 for r in range(8)]
    assert [one[4] for one in found] == [(r // 2, r % 2) for r in range(8)]
    assert found[5][5] == (4, 5)
    groups = dist.sim.run(run, world_size=world_size, ranks="groups")
    assert [one[0] for one in groups] == [one[0] for one in found]


def test_a_distributed_tensor(world):
    mesh = dist.init_device_mesh("cpu", (1, 1))
    weight = mt.nn.Parameter(mt.ones(4, 2))
    spread = dist.tensor.distribute_tensor(weight, mesh, [Shard(-2), Replicate()])
    assert isinstance(spread, dist.tensor.DTensor) and isinstance(spread, mt.Tensor) and spread.requires_grad
    assert spread.placements == (Shard(0), Replicate()) and spread.device_mesh == mesh
    doubled = spread * 2
    assert isinstance(doubled, dist.tensor.DTensor) and doubled.placements == spread.placements
    assert type(doubled.to_local()) is mt.Tensor and doubled.full_tensor().tolist() == [[2, 2]] * 4
    assert (doubled * spread).relu().placements == spread.placements
    assert spread.sum().placements == (Partial(), Replicate()) and spread.t().placements == (Shard(1), Replicate())
    square = dist.tensor.ones(2, 2, device_mesh=mesh, placements=[Shard(0), Replicate()])
    assert square.sigmoid().placements == (square * square).placements == (Shard(0), Replicate())
    whole = spread.redistribute(placements=[Replicate(), Replicate()])
    assert whole.placements == whole.sum().placements == whole.t().placements == whole[0].placements == (Replicate(), Replicate())
    assert dist.tensor.zeros(2, 3, device_mesh=mesh).placements == (Replicate(), Replicate())
    with pytest.raises(ValueError, match="1 placements for a mesh of 2"):
        dist.tensor.distribute_tensor(weight, mesh, [Shard(0)])
    module = mt.nn.Linear(2, 2)
    plan = {"": dist.tensor.parallel.ColwiseParallel()}
    assert dist.tensor.parallel.parallelize_module(module, dist.init_device_mesh("cpu", (1,)), plan) is module


@pytest.mark.torch
def test_placements_are_values():
    from torch.distributed import tensor as theirs
    from torch.distributed.tensor.placement_types import _StridedShard

    made = [Shard(1), Replicate(), Partial(), Partial("avg"), placement_types._StridedShard(0, split_factor=2)]
    expected = [theirs.Shard(1), theirs.Replicate(), theirs.Partial(), theirs.Partial("avg"), _StridedShard(0, split_factor=2)]
    for ours, theirs_ in zip(made, expected):
        assert (repr(ours), str(ours)) == (repr(theirs_), str(theirs_))
        for question in ("is_shard", "is_replicate", "is_partial"):
            assert getattr(ours, question)() == getattr(theirs_, question)()
    assert len({*made, Shard(1)}) == 5 and Shard(0).is_shard(0) and not Shard(0).is_shard(1)


@pytest.mark.torch
def test_parts_are_those_of_pytorch():
    from torch.distributed import tensor as theirs
    from torch.distributed.tensor._utils import _compute_local_shape_and_global_offset as expected_of
    from torch.distributed.tensor.placement_types import _StridedShard

    draw = random.Random(0)
    for _ in range(200):
        shape, mesh = [draw.randint(0, 9), draw.randint(0, 9)], [draw.randint(1, 3) for _ in range(draw.randint(1, 3))]
        ours, others = [], []
        for _ in mesh:
            dim, factor, kind = draw.randint(0, 1), draw.randint(1, 3), draw.randint(0, 3)
            ours.append([Shard(dim), Replicate(), Partial(), placement_types._StridedShard(dim, split_factor=factor)][kind])
            others.append([theirs.Shard(dim), theirs.Replicate(), theirs.Partial(), _StridedShard(dim, split_factor=factor)][kind])
        for place in itertools.product(*map(range, mesh)):
            got = _utils._compute_local_shape_and_global_offset(shape, mesh, place, ours)
            assert got == expected_of(shape, mesh, list(place), others), (shape, mesh, place, ours)


def test_parts_on_a_mesh(world):
    mesh = dist.init_device_mesh("cpu", (1,))
    assert _utils.compute_local_shape_and_global_offset((4, 6), mesh, [Shard(0)]) == ((4, 6), (0, 0))


# Settings ---------------------------------------------------------------------------------


def test_wrap_policies():
    from metatensor.distributed.fsdp import wrap

    linear, containers = mt.nn.Linear(2, 2), mt.nn.ModuleList()
    assert wrap.size_based_auto_wrap_policy(linear, False, 10, min_num_params=5)
    assert not wrap.size_based_auto_wrap_policy(linear, False, 4, min_num_params=5)
    assert not wrap.size_based_auto_wrap_policy(containers, False, 10, min_num_params=5)
    assert wrap.transformer_auto_wrap_policy(linear, False, 0, {mt.nn.Linear}) and wrap.ModuleWrapPolicy({mt.nn.Linear})(linear, False)
    assert wrap.wrap(linear) is linear


def test_state_dicts_of_one_process():
    from metatensor.distributed.checkpoint import state_dict

    model = mt.nn.Linear(2, 2)
    model.bias.requires_grad_(False)
    options = state_dict.StateDictOptions(full_state_dict=True, cpu_offload=True, ignore_frozen_params=True)
    found = state_dict.get_model_state_dict(model, options=options)
    assert list(found) == ["weight"]
    state_dict.set_model_state_dict(model, found, options=state_dict.StateDictOptions(strict=False))


def test_values():
    from metatensor.distributed import _remote_device, fsdp
    from metatensor.distributed._shard._utils import narrow_tensor
    from metatensor.distributed._shard.metadata import ShardMetadata
    from metatensor.distributed.checkpoint.metadata import MetadataIndex

    assert fsdp.MixedPrecision(param_dtype=mt.bfloat16).cast_root_forward_inputs and fsdp.CPUOffloadPolicy().pin_memory
    assert MetadataIndex("a", [1], 2) == MetadataIndex("a", [1], 3)
    assert (_remote_device("rank:1/cuda:0").rank(), str(_remote_device("worker/cpu"))) == (1, "worker/cpu")
    piece = narrow_tensor(mt.arange(6).reshape(2, 3), ShardMetadata([1, 0], [1, 2]))
    assert piece.tolist() == [[3, 4]]
    with pytest.raises(ValueError):
        ShardMetadata([0], [1, 2])


def test_the_debug_level(monkeypatch):
    try:
        monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "detail")
        dist.set_debug_level_from_env()
        assert dist.get_debug_level() is dist.DebugLevel.DETAIL
        monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "loud")
        with pytest.raises(RuntimeError, match="'LOUD'"):
            dist.set_debug_level_from_env()
    finally:
        dist.set_debug_level(dist.DebugLevel.OFF)


@pytest.mark.torch
@pytest.mark.parametrize("module", ["", "._functional_collectives", ".nn.functional"])
def test_signatures_are_those_of_pytorch(module):
    import importlib
    import inspect

    theirs = importlib.import_module(f"torch.distributed{module}")
    ours = importlib.import_module(f"metatensor.distributed{module}")
    for name in ours.__all__:
        if not inspect.isfunction(getattr(ours, name)) or not inspect.isfunction(getattr(theirs, name, None)) or name.startswith("is_"):
            continue
        parameters = [
            [one.name for one in inspect.signature(getattr(library, name)).parameters.values() if not one.name.startswith("_")]
            for library in (ours, theirs)
        ]
        assert parameters[0] == parameters[1], name
