"""`fully_shard` on simulated ranks: gradients, collectives and their order, and the parameters that modules have when."""

import copy

import pytest

import metatensor as mt
from metatensor import distributed as dist
from metatensor import nn
from metatensor.distributed import sim
from metatensor.distributed.fsdp import DataParallelMeshDims, FSDPModule, fully_shard, register_fsdp_forward_method, share_comm_ctx
from metatensor.distributed.fsdp._meshes import DataParallel, ShardPlacementResult
from metatensor.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from metatensor.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from metatensor.distributed.tensor.placement_types import _StridedShard

pytest.importorskip("metatensor_cpu")

WIDTHS = (6, 5, 3)


def on_ranks(function, *args, size=4, **options):
    def connected():
        dist.init_process_group()
        return function(dist.get_rank(), *args)

    return sim.run(connected, world_size=size, **options)


def network():
    mt.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTHS[0], WIDTHS[1]), nn.Tanh(), nn.Linear(WIDTHS[1], WIDTHS[2]))


def batch(rows=8):
    return mt.randn(rows, WIDTHS[0], generator=mt.Generator("cpu").manual_seed(5))


def sharded(model, mesh, **options):
    for layer in model:
        if list(layer.parameters()):
            fully_shard(layer, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def expected():
    model = network()
    model(batch()).square().mean().backward()
    return [one.grad for one in model.parameters()]


def same(parameters, grads, **tolerance):
    return all(mt.allclose(one.grad.full_tensor(), grad, **(tolerance or {"atol": 1e-6})) for one, grad in zip(parameters, grads))



def kinds(log):
    return [(one.kind, one.bytes // 4, one.detail, len(one.group)) for one in log]


# Shards of dimension 0 are padded to the same size. Over 4 ranks, the first layer has 2 of 5 rows of 6 and 2 of 5 biases: 14
# elements for each rank; the second one 1 of 3 rows of 5 and 1 of 3 biases: 6. Over 2 ranks: 3 * 6 + 3 = 21 and 2 * 5 + 2 = 12.
FORWARD = [("all_gather", 56, "", 4), ("all_gather", 24, "", 4)]
BACKWARD = [("all_gather", 24, "", 4), ("all_gather", 56, "", 4), ("reduce_scatter", 24, "avg", 4), ("reduce_scatter", 56, "avg", 4)]


def test_gradients_and_collectives():
    grads = expected()

    def train(rank):
        mesh = dist.init_device_mesh("cpu", (4,))
        model = sharded(network(), mesh)
        assert isinstance(model, FSDPModule) and isinstance(model, nn.Sequential) and type(model[0]).__name__ == "FSDPLinear"
        assert model[0].weight.placements == (Shard(0),) and tuple(model[0].weight.shape) == (5, 6)
        rows = model[0].weight.to_local().shape[0]
        for _ in range(2):
            with dist.CommunicationLog() as log:
                model.zero_grad()
                model(batch().chunk(4)[rank]).square().mean().backward()
            assert kinds(log) == FORWARD + BACKWARD
            assert all(isinstance(one, DTensor) and isinstance(one.grad, DTensor) for one in model.parameters())
            assert same(model.parameters(), grads)
        return rows

    assert on_ranks(train) == [2, 2, 1, 0]


def test_the_root_keeps_its_parameters():
    """The root's group is not freed after the forward pass, unless that is asked for."""

    def train(rank):
        mesh = dist.init_device_mesh("cpu", (4,))
        counts = []
        for option in (None, True, False):
            model = network()
            fully_shard(model[0], mesh=mesh, reshard_after_forward=option)
            fully_shard(model, mesh=mesh, reshard_after_forward=option)
            with dist.CommunicationLog() as log:
                out = model(batch().chunk(4)[rank])
                held = [type(model[0].weight) is DTensor, type(model[2].weight) is DTensor]
                out.sum().backward()
            counts.append((held, [one.kind for one in log].count("all_gather")))
            assert all(isinstance(one, DTensor) for one in model.parameters())
        return counts

    assert on_ranks(train)[0] == [([True, False], 3), ([True, True], 4), ([False, False], 2)]


def test_fewer_ranks_after_the_forward_pass():
    grads = expected()

    def train(rank):
        mesh = dist.init_device_mesh("cpu", (4,))
        model = sharded(network(), mesh, reshard_after_forward=2)
        with dist.CommunicationLog() as log:
            out = model(batch().chunk(4)[rank])
            between = model[0].weight.placements, model[0].weight.device_mesh.shape, model[0].weight.to_local().shape[0]
            out.square().mean().backward()
        gathered = [(one.bytes // 4, one.group) for one in log if one.kind == "all_gather"]
        return between, gathered, same(model.parameters(), grads)

    pair = (0, 1), (0, 1), (2, 3), (2, 3)
    for rank, (between, gathered, right) in enumerate(on_ranks(train)):
        assert between == ((Replicate(), Shard(0)), (2, 2), 3 - rank % 2)
        assert gathered == [(56, (0, 1, 2, 3)), (24, (0, 1, 2, 3)), (24, pair[rank]), (42, pair[rank])] and right


def test_replicas():
    """In a mesh of two dimensions, gradients are reduced over shards and then over replicas."""
    grads = expected()

    def train(rank):
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
        model = sharded(network(), mesh)
        assert model[0].weight.placements == (Replicate(), Shard(0))
        with dist.CommunicationLog() as log:
            model(batch().chunk(4)[rank]).square().mean().backward()
        right = same(model.parameters(), grads)
        # Two backward passes, of which only the second reduces over replicas.
        model.zero_grad()
        with dist.CommunicationLog() as later:
            for last in (False, True):
                model.set_requires_all_reduce(last)
                model(batch().chunk(4)[rank][int(last) :: 2]).square().mean().div(2).backward()
        return kinds(log)[4:], [one.kind for one in later].count("all_reduce"), right, same(model.parameters(), grads)

    sizes = {"reduce_scatter": (24, 42), "all_reduce": (12, 21)}
    reduced = [(kind, sizes[kind][layer], "avg", 2) for layer in (0, 1) for kind in sizes]
    assert on_ranks(train) == [(reduced, 2, True, True)] * 4


@pytest.mark.parametrize("flat", [False, True])
def test_on_top_of_tensor_parallelism(flat):
    def build():
        mt.manual_seed(0)
        return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8), nn.LayerNorm(8), nn.Linear(8, 3))

    x = mt.randn(4, 8, generator=mt.Generator("cpu").manual_seed(5))
    whole = build()
    optimizer = mt.optim.SGD(whole.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        whole(x).square().mean().backward()
        norm = nn.utils.clip_grad_norm_(whole.parameters(), 0.1)
        optimizer.step()

    def train(rank):
        if flat:
            mesh = dist.init_device_mesh("cpu", (2, 1, 2), mesh_dim_names=("a", "b", "tp"))
            data = mesh["a", "b"]._flatten("dp")
        else:
            mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
            data = mesh["dp"]
        model = parallelize_module(build(), mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        sharded(model, data)
        first = model[0].weight
        assert first.placements == (_StridedShard(0, split_factor=2), Shard(0)) and first.device_mesh.mesh_dim_names == ("dp", "tp")
        assert model[2].weight.placements == (Shard(0), Shard(1)) and model[3].weight.placements == (Shard(0),)
        assert tuple(first.to_local().shape) == (4, 8) and tuple(first.shape) == (16, 8)
        optimizer = mt.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            model(x.chunk(2)[data.get_local_rank()]).square().mean().backward()
            found = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
        assert isinstance(found, DTensor) and found.full_tensor().item() == pytest.approx(norm.item(), rel=1e-5)
        return [mt.allclose(a.full_tensor(), b, atol=1e-5) for a, b in zip(model.parameters(), whole.parameters())]

    assert on_ranks(train) == [[True] * 8] * 4


def test_dimensions_of_shards():
    def train(rank):
        mesh = dist.init_device_mesh("cpu", (2,))
        mt.manual_seed(0)
        whole, model = nn.Linear(6, 5), nn.Linear(6, 5)
        model.load_state_dict(whole.state_dict())
        fully_shard(model, mesh=mesh, shard_placement_fn=lambda p: Shard(-1) if p.ndim == 2 else None)
        assert model.weight.placements == (Shard(1),) and tuple(model.weight.to_local().shape) == (5, 3)
        whole(batch()).square().mean().backward()
        model(batch().chunk(2)[rank]).square().mean().backward()
        return same(model.parameters(), [one.grad for one in whole.parameters()])

    assert on_ranks(train, size=2) == [True, True]


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.block, self.head = nn.Embedding(10, 6), nn.Linear(6, 6), nn.Linear(6, 10, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        return self.head(self.block(self.tokens(tokens)))


def test_tied_parameters():
    def train(rank):
        mesh = dist.init_device_mesh("cpu", (2,))
        mt.manual_seed(0)
        whole, model = Tied(), Tied()
        model.load_state_dict(whole.state_dict())
        fully_shard(model.block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        assert model.head.weight is model.tokens.weight and len(list(model.parameters())) == 3
        tokens = mt.arange(8)
        whole(tokens).square().mean().backward()
        model(tokens.chunk(2)[rank]).square().mean().backward()
        assert model.head.weight is model.tokens.weight
        apart = Tied()
        fully_shard(apart.tokens, mesh=mesh)
        fully_shard(apart, mesh=mesh)
        with pytest.raises(ValueError, match=r"weight is also the parameter .*weight of another group"):
            apart(tokens)
        # Together they are one group.
        together = Tied()
        together.load_state_dict(whole.state_dict())
        fully_shard([together.tokens, together.head], mesh=mesh)
        fully_shard(together, mesh=mesh)
        together(tokens.chunk(2)[rank]).square().mean().backward()
        grads = [one.grad for one in whole.parameters()]
        return same(model.parameters(), grads), same(together.parameters(), grads)

    assert on_ranks(train, size=2) == [(True, True)] * 2


def test_frozen_and_ignored_parameters_and_buffers():
    def train(rank):
        mesh = dist.init_device_mesh("cpu", (2,))
        model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
        model[0].weight.requires_grad_(False)
        kept, buffer = model[2].bias, model[1].running_mean
        sharded(model, mesh, ignored_params={kept})
        with dist.CommunicationLog() as log:
            model(batch().chunk(2)[rank]).square().mean().backward()
        assert model[2].bias is kept and type(kept.grad) is mt.Tensor and model[1].running_mean is buffer
        assert model[0].weight.grad is None and isinstance(model[0].bias.grad, DTensor)
        return [one.bytes // 4 for one in log if one.kind == "reduce_scatter"]

    assert on_ranks(train, size=2)[0] == [2 * (2 * 5), 2 * (3 + 3), 2 * 3]  # without the frozen weight


def test_state_dicts():
    state = network().state_dict()

    def save(rank):
        mesh = dist.init_device_mesh("cpu", (2,))
        model = sharded(network(), mesh)
        model(batch(2))  # the root has its whole parameters now
        found = model.state_dict()
        assert all(isinstance(one, DTensor) and mt.equal(one.full_tensor(), state[name]) for name, one in found.items())
        model.load_state_dict({name: distribute_tensor(one + 1, mesh, [Shard(0)]) for name, one in state.items()})
        assert all(mt.equal(one.full_tensor(), state[name] + 1) for name, one in model.state_dict().items())
        assigned = {name: distribute_tensor(one + 2, mesh, [Shard(0)]) for name, one in state.items()}
        model.load_state_dict(assigned, assign=True)
        plain = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
        plain.load_state_dict({name: one + 2 for name, one in state.items()})
        new = sharded(network(), mesh)
        new.load_state_dict(assigned, assign=True)
        assert mt.allclose(new(batch(2)), plain(batch(2)))
        model.double()
        assert model(batch(2).double()).dtype == mt.float64 and model[0].weight.dtype == mt.float64

    on_ranks(save, size=2)


def test_unshard_and_prefetch():
    def run(rank):
        mesh = dist.init_device_mesh("cpu", (2,))
        layers = [nn.Linear(4, 4, bias=False) for _ in range(4)]
        model = sharded(nn.Sequential(*layers), mesh)
        handle = layers[0].unshard(async_op=True)
        assert isinstance(layers[0].weight, DTensor)
        handle.wait()
        assert not isinstance(layers[0].weight, DTensor) and layers[0].unshard() is None
        layers[0].reshard()
        assert isinstance(layers[0].weight, DTensor)
        layers[0].set_modules_to_forward_prefetch([layers[1], layers[2]])
        layers[3].set_modules_to_backward_prefetch([layers[2], layers[1], layers[0]])
        with dist.CommunicationLog() as log:
            started = []
            for layer in layers:
                layer.register_forward_pre_hook(lambda *_: started.append(len(log)))
            out = model(mt.ones(2, 4))
            assert started == [3, 3, 3, 4]
            out.sum().backward()
        assert [one.kind for one in log] == ["all_gather"] * 8 + ["reduce_scatter"] * 4
        layers[0].set_unshard_in_backward(False)
        layers[0].set_modules_to_forward_prefetch([])
        with dist.CommunicationLog() as log:
            model(mt.ones(2, 4)).sum().backward()
        return [one.kind for one in log].count("all_gather")

    assert on_ranks(run, size=2) == [7, 7]


def test_other_methods_and_several_calls():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 5)

        def forward(self, x):
            return self.layer(x)

        def encode(self, x, scale=1):
            return self.layer(x) * scale

    def run(rank):
        mesh = dist.init_device_mesh("cpu", (2,))
        mt.manual_seed(0)
        model, whole = Model(), Model()
        model.load_state_dict(whole.state_dict())
        fully_shard(model, mesh=mesh)
        register_fsdp_forward_method(model, "encode")
        register_fsdp_forward_method(nn.Linear(2, 2), "anything")
        with pytest.raises(ValueError, match="no method 'decode'"):
            register_fsdp_forward_method(model, "decode")
        (model.encode(batch(), scale=2) + model(batch())).square().mean().backward()
        (whole.encode(batch(), scale=2) + whole(batch())).square().mean().backward()
        return same(model.parameters(), [one.grad for one in whole.parameters()])

    assert on_ranks(run, size=2) == [True, True]


def test_recomputation():
    class Recomputed(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return mt.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False)

    grads = expected()

    def run(rank, outside):
        mesh = dist.init_device_mesh("cpu", (2,))
        layers = network()
        for place in (0, 2):
            layer = fully_shard(layers[place], mesh=mesh) if outside else layers[place]
            layers[place] = Recomputed(layer) if outside else fully_shard(Recomputed(layer), mesh=mesh)
        fully_shard(layers, mesh=mesh)
        with dist.CommunicationLog() as log:
            layers(batch().chunk(2)[rank]).square().mean().backward()
        return same(layers.parameters(), grads), [one.kind for one in log]

    for outside in (False, True):
        assert on_ranks(run, outside, size=2)[0] == (True, ["all_gather"] * 4 + ["reduce_scatter"] * 2)


def test_parts_of_containers_and_shared_buffers():
    mesh = dist.init_device_mesh("meta", (2,))
    try:
        with mt.device("meta"):
            first, second = (sharded(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), mesh) for _ in range(2))
        assert type(first[:1]) is nn.Sequential and isinstance(first[:1][0], FSDPModule) and not isinstance(first[:1], FSDPModule)
        share_comm_ctx([first, second])
        second(first(mt.empty(2, 4, device="meta"))).sum().backward()
        assert first._get_fsdp_state().communication is second[0]._get_fsdp_state().communication
        with pytest.raises(ValueError, match="expected modules to which fully_shard was applied, got a Linear"):
            share_comm_ctx([first, nn.Linear(2, 2)])
        for value, error in (("2", TypeError), (0, ValueError)):
            with pytest.raises(error, match=f"set_reduce_scatter_max_input_buffers: expected .* (str|{value})"):
                first.set_reduce_scatter_max_input_buffers(value)
        for method in (first.set_custom_all_gather, first.set_custom_reduce_scatter):
            with pytest.raises(NotImplementedError, match="write a communicator"):
                method(None)
        with pytest.raises(NotImplementedError, match="dp_mesh_dims is not supported"):
            fully_shard(nn.Linear(2, 2), mesh=mesh, dp_mesh_dims=DataParallelMeshDims("dp"))
    finally:
        dist.destroy_process_group()


def test_writing_to_inputs_and_outputs():
    class Writing(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x, kind):
            return self.layer(x.mul_(2)) if kind == "input" else self.layer(x).view(-1) if kind == "view" else self.layer(x)

    def run(rank):
        mesh = dist.init_device_mesh("cpu", (2,))
        inner, first = Writing(), nn.Linear(4, 4)
        fully_shard(inner, mesh=mesh)
        with pytest.raises(RuntimeError, match=r"mul_\(\): a view that .* an autograd.Function returned"):
            inner(first(mt.ones(2, 4)), "input")
        inner.reset_iter_state()
        inner(first(mt.ones(2, 4)), "view").sum().backward()
        out = inner(first(mt.ones(2, 4)), "")
        out += 1
        out.square().sum().backward(retain_graph=True)
        grad = inner.layer.weight.grad.full_tensor()
        inner.zero_grad()
        for _ in range(2):  # the graph is still there
            out.square().sum().backward(retain_graph=True)
        return grad.shape == (4, 4) and isinstance(inner.layer.weight, DTensor)

    with pytest.warns(UserWarning, match=r"FSDPWriting returned a view of shape \[8\]. Do not change it in place"):
        assert on_ranks(run, size=2) == [True, True]


def test_groups_on_several_meshes():
    """Parameters that `shard_placement_fn` places on another mesh are a group of their own."""

    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.dense, self.expert = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)

        def forward(self, x):
            return self.expert(self.dense(x))

    def run(rank):
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("outer", "inner"))
        whole = mesh["outer", "inner"]._flatten("all")
        own = DataParallel(mesh["inner"])
        mt.manual_seed(0)
        model = nn.Sequential(Pair(), Pair())
        for pair in model:
            experts = set(pair.expert.parameters())
            fully_shard(pair, mesh=whole, shard_placement_fn=lambda p, e=experts: ShardPlacementResult(Shard(0), own) if p in e else None)
        fully_shard(model, mesh=whole)
        with dist.CommunicationLog() as log:
            model(mt.ones(2, 4)).sum().backward()
        assert model[0].expert.weight.device_mesh is mesh["inner"] and model[0].dense.weight.device_mesh is whole
        return [(one.kind, len(one.group)) for one in log]

    gathered = [("all_gather", 4), ("all_gather", 2)]
    backward = [("all_gather", 4), ("all_gather", 2), ("all_gather", 2), ("all_gather", 4)]
    reduced = [("reduce_scatter", 2), ("reduce_scatter", 4)]
    assert on_ranks(run)[0] == gathered * 2 + backward + reduced * 2


def test_ranks_that_do_the_same():
    def run():
        dist.init_process_group()
        mesh = dist.init_device_mesh("meta", (64,))
        with mt.device("meta"):
            model = sharded(nn.Sequential(nn.Linear(64, 100), nn.Tanh(), nn.Linear(100, 64)), mesh)
        model(mt.empty(2, 64, device="meta")).sum().backward()

    # 100 rows over 64 ranks: 50 ranks have 2 rows, the others none.
    assert sim.run(run, world_size=64, ranks="groups").classes == [list(range(50)), list(range(50, 64))]


def test_errors():
    mesh = dist.init_device_mesh("meta", (2, 2, 2))
    layer = nn.Linear(4, 4, device="meta")
    try:
        with pytest.raises(ValueError, match="one or two dimensions"):
            fully_shard(layer, mesh=mesh)
        with pytest.raises(AssertionError, match="must have names"):
            fully_shard(layer, mesh=dist.init_device_mesh("meta", (4, 2)))
        mesh = dist.init_device_mesh("meta", (8,))
        with pytest.raises(TypeError, match="mesh must be a DeviceMesh, not int"):
            fully_shard(layer, mesh=8)
        with pytest.raises(TypeError, match="expected a Module, got str"):
            fully_shard("layer", mesh=mesh)
        with pytest.raises(ValueError, match="a ModuleList has no forward method"):
            fully_shard(nn.ModuleList([layer]), mesh=mesh)
        for value, message in ((3, "a divisor of the 8 shards, got 3"), ("yes", "a bool or an int, got 'yes'")):
            with pytest.raises(ValueError, match=message):
                fully_shard(nn.Linear(4, 4, device="meta"), mesh=mesh, reshard_after_forward=value)
        scalar = nn.Linear(4, 4, device="meta")
        scalar.scale = nn.Parameter(mt.empty((), device="meta"))
        with pytest.raises(ValueError, match="scale has no dimensions"):
            fully_shard(scalar, mesh=mesh)
        with pytest.raises(NotImplementedError, match=r"weight of shape \[4, 4\] cannot be sharded evenly along dimension 1 over 8 ranks"):
            fully_shard(nn.Linear(4, 4, device="meta"), mesh=mesh, shard_placement_fn=lambda p: Shard(1))
        with pytest.raises(AssertionError, match="must return Shard or None, got Replicate"):
            fully_shard(nn.Linear(4, 4, device="meta"), mesh=mesh, shard_placement_fn=lambda p: Replicate())
        transposed = nn.Linear(4, 4, device="meta")
        transposed.weight = nn.Parameter(mt.empty(4, 4, device="meta").t())
        with pytest.raises(NotImplementedError, match="is not contiguous"):
            fully_shard(transposed, mesh=mesh)
        with pytest.raises(ValueError, match="weight holds data on cpu, but the mesh is on meta"):
            fully_shard(nn.Linear(4, 4, device="cpu"), mesh=mesh)
        fully_shard(layer, mesh=mesh)
        with pytest.raises(AssertionError, match="applied to this FSDPLinear already"):
            fully_shard(layer, mesh=mesh)
        with pytest.raises(AssertionError, match="cannot be copied"):
            copy.deepcopy(layer)
        with pytest.raises(ValueError, match="expected a bool, got 2"):
            layer.set_reshard_after_forward(2)
        with pytest.raises(ValueError, match="expected modules to which fully_shard was applied, got a Linear"):
            layer.set_modules_to_forward_prefetch([nn.Linear(2, 2)])
        model = fully_shard(nn.Sequential(layer), mesh=mesh)
        layer(mt.empty(2, 4, device="meta"))
        with pytest.raises(RuntimeError, match="0 was called before its root, the FSDPSequential"):
            model(mt.empty(2, 4, device="meta"))
        mixed = nn.Sequential(nn.Linear(4, 4, device="meta"), nn.Linear(4, 4, device="meta", dtype=mt.bfloat16))
        with pytest.raises(AssertionError, match="must have one dtype, got metatensor.bfloat16, metatensor.float32"):
            fully_shard(mixed, mesh=mesh)(mt.empty(2, 4, device="meta"))
    finally:
        dist.destroy_process_group()


def test_after_an_error():
    grads = expected()

    def run(rank):
        mesh = dist.init_device_mesh("cpu", (2,))
        model = sharded(network(), mesh)
        with pytest.raises(RuntimeError):
            model(mt.ones(2, 7))
        with pytest.raises(RuntimeError, match="call it on the root"):
            model[0].reset_iter_state()
        model.reset_iter_state()
        model(batch().chunk(2)[rank]).square().mean().backward()
        return same(model.parameters(), grads)

    assert on_ranks(run, size=2) == [True, True]


def test_a_freed_parameter_cannot_be_read():
    def run(rank):
        layer = fully_shard(nn.Linear(4, 4), mesh=dist.init_device_mesh("cpu", (2,)))
        layer.unshard()
        weight = layer.weight
        before = weight.sum().item()
        layer.reshard()
        with pytest.raises(RuntimeError, match="does not fit in its memory of 0 bytes"):
            weight.sum()
        layer.unshard()
        return layer.weight is weight and weight.sum().item() == before and weight._version == 0

    assert on_ranks(run, size=2) == [True, True]
