"""Meshes, distributed tensors and tensor parallelism, on simulated ranks."""

import copy
import itertools
import pickle

import pytest

import metatensor as mt
from metatensor import distributed as dist
from metatensor._core.memory import MemoryTracker
from metatensor.distributed import sim
from metatensor.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
    init_device_mesh,
    ones,
    placement_types,
    rand,
    zeros,
)
from metatensor.distributed.tensor.experimental import implicit_replication, local_map
from metatensor.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

pytest.importorskip("numpy")


def on_ranks(function, *shape, world_size=4, names=None):
    """Return what ``function(mesh)`` returns on each rank."""

    def run():
        dist.init_process_group()
        mt.manual_seed(3)
        return function(init_device_mesh("cpu", shape or (world_size,), mesh_dim_names=names))

    return sim.run(run, world_size=world_size)


@pytest.fixture
def planned():
    """A mesh of a simulated world of which only rank 0 is run."""
    mesh = init_device_mesh("meta", (64, 8), mesh_dim_names=("dp", "tp"))
    yield mesh
    dist.destroy_process_group()


# Meshes -----------------------------------------------------------------------------------------------------


def test_a_planned_mesh_needs_no_process_group(planned):
    assert (planned.shape, planned.size(), planned.get_coordinate(), dist.get_world_size()) == ((64, 8), 512, (0, 0), 512)
    assert planned["tp"].get_group().ranks == tuple(range(8))
    assert planned["dp"].get_group().ranks == tuple(range(0, 512, 8))
    assert planned._flatten("all") is planned["all"]
    assert planned["all"].size() == 512


def test_the_rank_of_a_planned_mesh_can_be_chosen():
    mesh = init_device_mesh("meta", (2, 4), mesh_dim_names=("a", "b"), rank=6)
    try:
        assert (mesh.get_coordinate(), mesh.get_local_rank("b"), mesh.get_rank()) == ((1, 2), 2, 6)
        assert mesh["a"].get_group().ranks == (2, 6)
        assert mesh["a"]._ranks == (2, 6)
    finally:
        dist.destroy_process_group()


def test_sub_meshes_and_their_errors():
    def check(mesh):
        assert mesh["a", "c"].shape == (2, 2)
        flat = mesh["b", "c"]._flatten("bc")
        assert mesh["bc"] is flat
        assert flat.size() == 2
        assert pickle.loads(pickle.dumps(mesh)) == mesh
        with pytest.raises(KeyError, match="no dimensions"):
            mesh["d"]
        with pytest.raises(KeyError, match="order"):
            mesh["c", "a"]
        with pytest.raises(RuntimeError, match="mesh_dim is required"):
            mesh.get_group()
        return flat.get_group().ranks

    assert on_ranks(check, 2, 1, 2, names=("a", "b", "c")) == [(0, 1), (0, 1), (2, 3), (2, 3)]


def test_a_mesh_from_nested_tuples():
    assert on_ranks(lambda mesh: dist.DeviceMesh("cpu", ((1, 2), (3, 0))).get_coordinate()) == [(1, 1), (0, 0), (0, 1), (1, 0)]


# Placements -------------------------------------------------------------------------------------------------


def test_placements_of_results():
    def check(mesh):
        x = distribute_tensor(mt.arange(64.0).reshape(8, 8), mesh, [Shard(0)])
        w = distribute_tensor(mt.ones(8, 8), mesh, [Shard(1)])
        b = distribute_tensor(mt.ones(8), mesh, [Replicate()])
        p = x.sum(0)
        return [one.placements[0] for one in (
            x.sum(), x.t(), x.sum(1), x.mean(), x.amax(0), x @ b, b.expand(2, 8) @ w, w @ w.t(), p * 2, p + p, p + b, x + b, x.softmax(1),
            x.view(4, 2, 8), x[:, 1], x.unsqueeze(0), x.argmax(1), x.relu(), p.relu(), x.softmax(0), mt.cat([x, x], 1), x > 3,
        )]  # fmt: skip

    assert on_ranks(check)[0] == [
        Partial(), Shard(1), Shard(0), Partial("avg"), Partial("max"), Shard(0), Shard(1), Partial(), Partial(), Partial(),
        Partial(), Shard(0), Shard(0), Shard(0), Shard(0), Shard(1), Shard(0), Shard(0), Shard(0), Shard(1), Shard(0), Shard(0),
    ]  # fmt: skip


@pytest.mark.parametrize("shape", [(4,), (2, 2)])
@pytest.mark.parametrize("size", [(8, 4), (5, 3), (2, 7), (1, 1), (0, 4), (4, 0)])
def test_redistribution_keeps_the_values(shape, size):
    def check(mesh):
        whole = mt.arange(float(size[0] * size[1])).reshape(size)
        places = [Replicate(), Shard(0), Shard(1), placement_types._StridedShard(0, split_factor=2)]
        for source in places:
            for target in places:
                x = distribute_tensor(whole, mesh, [source] * mesh.ndim)
                y = x.redistribute(placements=[Replicate()] * (mesh.ndim - 1) + [target])
                assert mt.equal(y.full_tensor(), whole), (source, target)
                assert mt.equal(x.redistribute(placements=[target] * mesh.ndim).full_tensor(), whole), (source, target)
        return True

    assert all(on_ranks(check, *shape))


@pytest.mark.parametrize(("reduction", "expected"), [("sum", 6.0), ("avg", 1.5), ("max", 3.0), ("min", 0.0), ("product", 0.0)])
def test_partial_tensors_are_reduced(reduction, expected):
    def check(mesh):
        part = DTensor.from_local(mt.full((5, 2), float(mesh.get_rank())), mesh, [Partial(reduction)])
        assert mt.equal(part.redistribute(placements=[Shard(0)]).full_tensor(), part.full_tensor())
        return part.full_tensor()[0, 0].item()

    assert on_ranks(check) == [expected] * 4


def test_means_of_uneven_shards():
    def check(mesh):
        x = mt.rand(6, 3)
        return mt.allclose(distribute_tensor(x, mesh, [Shard(0)]).mean(0).full_tensor(), x.mean(0))

    assert all(on_ranks(check))


# Tensors ----------------------------------------------------------------------------------------------------


def test_gradients_are_those_of_the_whole():
    def check(mesh):
        whole, weight = mt.rand(6, 8, requires_grad=True), mt.rand(8, 4, requires_grad=True)
        (whole @ weight).relu().square().sum().backward()
        x = distribute_tensor(whole, mesh, [Shard(0)])
        w = distribute_tensor(weight, mesh, [Shard(1)])
        (x @ w).relu().square().sum().backward()
        assert mt.allclose(x.grad.full_tensor(), whole.grad)
        assert mt.allclose(w.grad.full_tensor(), weight.grad)
        return True

    assert all(on_ranks(check))


def test_gradients_go_through_parts():
    def check(mesh):
        local = mt.full((2, 3), 1.0 + mesh.get_rank(), requires_grad=True)
        x = DTensor.from_local(local, mesh, [Shard(0)])
        (x.redistribute(placements=[Replicate()]).to_local() * 2).sum().backward()
        return local.grad.tolist()

    assert on_ranks(check) == [[[2.0] * 3] * 2] * 4


def test_changes_in_place_and_out():
    def check(mesh):
        x = distribute_tensor(mt.ones(6, 2), mesh, [Shard(0)])
        same = x
        x += 1
        x.mul_(distribute_tensor(mt.full((6, 2), 3.0), mesh, [Replicate()]))
        assert x is same
        assert x.placements == (Shard(0),)
        out = zeros(6, 2, device_mesh=mesh, placements=[Shard(1)])
        assert mt.add(x, x, out=out) is out
        return x.full_tensor().sum().item(), out.full_tensor().sum().item(), out.placements[0]

    assert on_ranks(check) == [(72.0, 144.0, Shard(1))] * 4


def test_random_values_do_not_depend_on_the_mesh():
    def check(mesh):
        expected = mt.rand(6, 4)
        mt.manual_seed(3)
        x = rand(6, 4, device_mesh=mesh, placements=[Shard(1)])
        assert mt.equal(x.full_tensor(), expected)
        mt.manual_seed(3)
        plain = mt.nn.functional.dropout(expected, 0.5)
        mt.manual_seed(3)
        assert mt.equal(mt.nn.functional.dropout(x, 0.5).full_tensor(), plain)
        return True

    assert all(on_ranks(check))


def test_a_tensor_is_printed_pickled_and_copied():
    def check(mesh):
        x = mt.nn.Parameter(distribute_tensor(mt.ones(4, 2), mesh, [Shard(0)]))
        assert isinstance(x, mt.nn.Parameter)
        again, copied = pickle.loads(pickle.dumps(x)), copy.deepcopy(x)
        for one in (again, copied):
            assert isinstance(one, mt.nn.Parameter)
            assert (one.placements, one.requires_grad, one.shape) == ((Shard(0),), True, (4, 2))
            assert mt.equal(one.to_local(), x.to_local())
        return repr(x)

    assert "placements=(Shard(dim=0),)" in on_ranks(check)[0]


def test_state_dicts_hold_distributed_tensors():
    def check(mesh):
        model = distribute_module(mt.nn.Linear(3, 4), mesh)
        state = model.state_dict()
        assert all(isinstance(one, DTensor) for one in state.values())
        other = distribute_module(mt.nn.Linear(3, 4), mesh)
        other.load_state_dict(state)
        return mt.equal(other.weight.full_tensor(), model.weight.full_tensor())

    assert all(on_ranks(check))


def test_mistakes_are_explained():
    def check(mesh):
        x = distribute_tensor(mt.ones(4, 2), mesh, [Shard(0)])
        with pytest.raises(RuntimeError, match="plain tensor of shape .2."):
            x + mt.ones(2)
        with implicit_replication():
            assert (x + mt.ones(2)).placements == (Shard(0),)
        with pytest.raises(ValueError, match="2 placements for a mesh of 1"):
            distribute_tensor(mt.ones(2), mesh, [Shard(0), Shard(0)])
        with pytest.raises(IndexError, match="out of range for a tensor of 2"):
            x.redistribute(placements=[Shard(2)])
        with pytest.raises(RuntimeError, match="cannot go from"):
            x.redistribute(placements=[Partial()])
        with pytest.raises(RuntimeError, match="mat2|shape"):
            x @ x
        return True

    assert all(on_ranks(check))


def test_gathering_is_logged():
    def check(mesh):
        x = distribute_tensor(mt.rand(4, 4), mesh, [Shard(0)])
        with dist.CommunicationLog() as log:
            x.sort(0)
        return [entry.kind for entry in log][0], log[0].detail

    kind, detail = on_ranks(check)[0]
    assert kind != "gather_arguments" or detail.startswith("sort")


def test_a_mode_sees_the_calls_on_parts(planned):
    seen = []

    class Shapes(mt.DispatchMode):
        def dispatch(self, op, args, kwargs):
            seen.append((op.name, tuple(args[0].shape)))
            return op(*args, **kwargs)

    x = distribute_tensor(mt.empty(128, 16, device="meta"), planned, [Shard(0), Shard(1)])
    with Shapes():
        x.relu()
    assert seen == [("relu", (2, 2))]


def test_memory_is_that_of_the_parts(planned):
    x = distribute_tensor(mt.empty(128, 16, device="meta"), planned, [Shard(0), Shard(1)])
    with MemoryTracker() as tracker:
        y = x * 2
    assert (y.shape, tracker.peak) == ((128, 16), 2 * 2 * 4)


# Tensor parallelism -----------------------------------------------------------------------------------------


class Block(mt.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = mt.nn.LayerNorm(8), mt.nn.Linear(8, 16), mt.nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(self.up(self.norm(x)).relu())


@pytest.mark.parametrize("sequence", [False, True])
def test_a_parallel_block_computes_what_the_block_does(sequence):
    def check(mesh):
        plain = Block()
        block = copy.deepcopy(plain)
        x = mt.rand(2, 4, 8)
        plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
        if sequence:
            plan = {
                "norm": SequenceParallel(), "up": ColwiseParallel(input_layouts=Shard(1)),
                "down": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
                "": PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Shard(1)),
            }  # fmt: skip
        parallelize_module(block, mesh, plan)
        if sequence:
            parallelize_module(block, mesh, PrepareModuleOutput(output_layouts=Shard(1), desired_output_layouts=Replicate()))
        assert block.up.weight.to_local().shape == (4, 8)
        expected, got = plain(x), block(x)
        assert mt.allclose(got, expected, atol=1e-5)
        expected.square().sum().backward()
        got.square().sum().backward()
        for name, one in plain.named_parameters():
            found = block.get_parameter(name).grad
            found = found.full_tensor() if isinstance(found, DTensor) else found
            assert mt.allclose(found, one.grad, atol=1e-4), name
        return True

    assert all(on_ranks(check))


def test_a_step_of_an_optimizer():
    def check(mesh):
        plain = mt.nn.Linear(4, 8)
        layer = parallelize_module(copy.deepcopy(plain), mesh, ColwiseParallel(output_layouts=Replicate()))
        x = mt.rand(3, 4)
        for model in (plain, layer):
            optimizer = mt.optim.AdamW(model.parameters(), lr=0.1)
            for _ in range(2):
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
        return mt.allclose(layer.weight.full_tensor(), plain.weight, atol=1e-6)

    assert all(on_ranks(check))


def test_a_plan_that_fits_nothing_is_refused(planned):
    with pytest.raises(ValueError, match="one dimension"):
        parallelize_module(mt.nn.Linear(2, 2), planned, ColwiseParallel())
    with pytest.raises(NotImplementedError, match="Linear and Embedding"):
        parallelize_module(mt.nn.ReLU(), planned["tp"], ColwiseParallel())
    with pytest.raises(TypeError, match="ParallelStyle"):
        parallelize_module(mt.nn.ReLU(), planned["tp"], 3)


def test_factories():
    def check(mesh):
        return ones(5, 2, device_mesh=mesh, placements=[Shard(0)]).to_local().shape, ones(3, device_mesh=mesh).placements

    assert on_ranks(check)[2] == ((1, 2), (Replicate(),))


def test_functions_on_parts():
    def check(mesh):
        x = distribute_tensor(mt.ones(8, 2, requires_grad=True), mesh, [Shard(0)])
        count = local_map(lambda part: part.sum(0) * part.shape[0], out_placements=[Partial()], in_placements=([Shard(0)],))
        y = count(x)
        y.sum().backward()
        with pytest.raises(ValueError, match="in_placements says"):
            count(x.redistribute(placements=[Replicate()]))
        return y.placements[0], y.full_tensor().tolist(), x.grad.full_tensor()[0, 0].item()

    assert on_ranks(check) == [(Partial(), [16.0, 16.0], 2.0)] * 4


@pytest.mark.slow
def test_views_are_cut_only_where_the_order_of_elements_allows():
    def check(mesh):
        whole = mt.arange(24.0)
        shapes = [(6, 4), (3, 2, 4), (4, 6), (2, 12), (24,), (2, 3, 4)]
        for shape, other in itertools.product(shapes, shapes):
            for dim in range(len(shape)):
                x = distribute_tensor(whole.reshape(shape), mesh, [Shard(dim)])
                assert mt.equal(x.view(other).full_tensor(), whole.reshape(other)), (shape, other, dim)
        return True

    assert all(on_ranks(check))


def test_a_change_of_shape_in_place():
    def check(mesh):
        x = distribute_tensor(mt.ones(1, 8), mesh, [Shard(1)])
        x.squeeze_()
        y = distribute_tensor(mt.ones(4, 1), mesh, [Shard(0)])
        return x.shape, x.placements[0], y.squeeze().shape, y.squeeze().placements[0]

    assert on_ranks(check) == [((8,), Shard(0), (4,), Shard(0))] * 4


@pytest.mark.slow
@pytest.mark.parametrize("name", [
    pytest.param("mm", marks=pytest.mark.slow), "sum", "addmm", "gather", "cat", "native_layer_norm", "_unsafe_view", "max.dim",
    "convolution", "index_add",
])  # fmt: skip
def test_any_placements_give_the_values_of_the_plain_call(name):
    from distributed.placed_calls import cases, check, differentiable, overloads

    ((op, overload),) = overloads([name])
    for number, sample in enumerate(cases(op, overload, 3)):
        for seed, shape in enumerate([(4,), (2, 2)]):
            assert check(op, overload, sample, shape, 10 * number + seed, differentiable(overload)) in ("", "skipped")


WRITES = {
    "columns": lambda x, y: x[:, 0].mul_(3), "rows": lambda x, y: x[1:3].add_(y[1:3]), "flat": lambda x, y: x.view(8).mul_(2),
    "view of a view": lambda x, y: x.t()[0].copy_(y[:, 1]), "diagonal": lambda x, y: x.diagonal().zero_(),
    "assignment": lambda x, y: x.__setitem__((slice(None), 1), y[:, 0]), "squeezed": lambda x, y: x[:, :1].squeeze_(-1).mul_(y[:, 0]),
    "a part of several": lambda x, y: x.split(2)[1].mul_(y[:2]), "out": lambda x, y: mt.mul(y.detach()[:, 0], 2, out=x.detach()[:, 0]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("recording", [False, True])
def test_changes_of_views_in_place(name, recording):
    write = WRITES[name]
    if name == "a part of several" and recording:
        write = WRITES["rows"]

    def outcome(place):
        first, second = mt.arange(8.0, dtype=mt.float64, device="cpu").reshape(4, 2), mt.linspace(1, 2, 8, dtype=mt.float64).reshape(4, 2)
        leaves = [place(one).requires_grad_(recording) for one in (first, second)]
        x, y = leaves[0] * 2, leaves[1] * 1
        seen = x[:, 0], x.view(8)       # other views see the change
        with mt.set_grad_enabled(recording and name != "out"):
            write(x, y)
        results = [x, *(one * 1 for one in seen)]
        if recording:
            results += mt.autograd.grad(sum((one * one).sum() for one in results), leaves, allow_unused=True)
        return [None if one is None else one.full_tensor() if isinstance(one, DTensor) else one for one in results]

    expected = outcome(lambda one: one)

    def run():
        mesh = init_device_mesh("cpu", (2,))
        for placement in (Replicate(), Shard(0), Shard(1), Partial()):
            found = outcome(lambda one: distribute_tensor(one, mesh, [placement]))
            for got, wanted in zip(found, expected):
                assert got is wanted or mt.allclose(got, wanted), placement

    sim.run(run, world_size=2)


def test_views_of_leaves_cannot_be_changed():
    def run():
        leaf = distribute_tensor(mt.ones(4, 2, device="cpu"), init_device_mesh("cpu", (2,)), [Shard(1)]).requires_grad_()
        with pytest.raises(RuntimeError, match="leaf"):
            leaf[:, 0].mul_(2)
        with pytest.raises(RuntimeError, match="share one place"):
            (leaf * 1).unsqueeze(0).expand(3, 4, 2).mul_(2)

    sim.run(run, world_size=2)


@pytest.mark.slow
@pytest.mark.parametrize("share", [1, 2])
def test_recorded_calls_with_random_placements(share):
    from distributed.oracle_calls import chosen_records, results

    ops = {"mm", "sum", "nn.functional.cross_entropy", "nn.functional.embedding", "softmax", "norm", "index_put", "sort", "cat"}
    chosen = list(chosen_records(ops, 4))[share - 1 :: 2]
    problems = [problem for _, _, problem in results(chosen, 1)]
    assert [one for one in problems if one] == []
    assert problems.count("") > 10


def test_results_that_communicate_inside_are_not_gathered():
    def run():
        mesh = init_device_mesh("cpu", (2,))
        x = distribute_tensor(mt.rand(4, 600, device="cpu"), mesh, [Shard(1)])
        target = distribute_tensor(mt.tensor([0, 5, 2, -100], device="cpu"), mesh, [Replicate()])
        assert x.log_softmax(1).placements == (Shard(1),)
        assert mt.nn.functional.cross_entropy(x, target).placements == (Partial(),)
        table = distribute_tensor(mt.rand(6, 3, device="cpu"), mesh, [Shard(0)])
        assert mt.nn.functional.embedding(target.clamp(min=0), table).placements == (Partial(),)
        assert mt.linalg.vector_norm(x).placements == (Replicate(),)

    sim.run(run, world_size=2)


def test_writes_to_what_shares_a_part():
    def run():
        mesh = init_device_mesh("cpu", (2,))

        def values():
            return distribute_tensor(mt.arange(8.0, device="cpu").reshape(4, 2), mesh, [Shard(0)])

        x = values()
        x.data.add_(1)
        assert x.full_tensor().sum() == 36
        x.data = values()
        assert x.full_tensor().sum() == 28
        leaf = values().requires_grad_()
        y = leaf.exp()
        y.mul_(2)
        with pytest.raises(RuntimeError, match="changed"):
            y.sum().backward()
        y = leaf * 1
        z = y * y
        y.detach().mul_(3)
        with pytest.raises(RuntimeError, match="changed"):
            z.sum().backward()
        y = leaf * 1
        view = y.view(8)
        y.mul_(2)
        assert view.sum().full_tensor() == 2 * (mt.arange(8.0).sum() * 1)
        mean, var = (distribute_tensor(t, mesh, [Replicate()]) for t in (mt.zeros(2, device="cpu"), mt.ones(2, device="cpu")))
        mt.nn.functional.batch_norm(values(), mean, var, training=True)
        plain = mt.zeros(2, device="cpu"), mt.ones(2, device="cpu")
        mt.nn.functional.batch_norm(mt.arange(8.0, device="cpu").reshape(4, 2), *plain, training=True)
        assert mt.allclose(mean.full_tensor(), plain[0]) and mt.allclose(var.full_tensor(), plain[1])

    sim.run(run, world_size=2)


def test_tensors_that_only_have_the_class():
    mesh = init_device_mesh("meta", (2,))
    try:
        x = distribute_tensor(mt.ones(2, 2, device="meta"), mesh, [Replicate()])
        with pytest.raises(TypeError, match="cannot be given this class"):
            x + mt.ones(2, 2, device="meta").as_subclass(DTensor)
    finally:
        dist.destroy_process_group()


def test_plans_that_change_nothing_are_noticed():
    mesh = init_device_mesh("meta", (2,))
    try:
        layer = mt.nn.Linear(4, 4, device="meta")
        with pytest.warns(UserWarning, match="no submodule of Linear matches 'layers.\\*.up'"):
            parallelize_module(layer, mesh, {"layers.*.up": ColwiseParallel()})
        with pytest.warns(UserWarning, match="there is no plan"):
            assert parallelize_module(layer, mesh) is layer
    finally:
        dist.destroy_process_group()


def test_implicit_replication_belongs_to_a_rank():
    """It is not left on by ranks that enter and leave it in another order."""

    def check(mesh):
        x = distribute_tensor(mt.ones(4, 2), mesh, [Shard(0)])
        for _ in range(3):
            with implicit_replication():
                assert (x + mt.ones(2)).sum().full_tensor() == 16  # lets other ranks run
        with pytest.raises(RuntimeError, match="plain tensor of shape .2."):
            x + mt.ones(2)
        return True

    def run():
        dist.init_process_group()
        return check(init_device_mesh("cpu", (2,)))

    assert all(sim.run(run, world_size=2))


@pytest.mark.parametrize("call", [
    lambda t: t.sort(0)[0], lambda t: t.flip(0), lambda t: t[3], lambda t: t.add_(1), lambda t: mt.cat([t, t]), lambda t: t.median(),
    lambda t: t.requires_grad_().cumsum(0).sum().backward(),
])  # fmt: skip
def test_plans_of_calls_keep_no_arguments(call):
    def run():
        dist.init_process_group()
        mesh = init_device_mesh("meta", (2,))
        with MemoryTracker() as memory:
            tensor = DTensor.from_local(mt.empty(32, 8, device="meta"), mesh, [Shard(0)])
            before = memory.current
            call(tensor)
            del tensor
            return before, memory.current

    for before, after in sim.run(run, world_size=2):
        assert before >= 1024 and after < 1024


@pytest.mark.parametrize("batch", [1, 2])
def test_attention_with_grouped_heads_on_parts_of_the_heads(batch):
    """Each rank has whole groups, so nothing is communicated."""

    def run(query, key, value):
        dist.init_process_group()
        mesh = init_device_mesh("cpu", (2,))
        with dist.CommunicationLog() as log:
            q, k, v = (distribute_tensor(t, mesh, [Shard(1)], src_data_rank=None).requires_grad_() for t in (query, key, value))
            y = mt.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            y.sum().backward()
        moved = [entry.kind for entry in log if entry.bytes > 4]
        return y.placements, [t.full_tensor().tolist() for t in (y, q.grad, k.grad, v.grad)], moved

    mt.manual_seed(0)
    tensors = [mt.randn(batch, heads, 5, 4, device="cpu").requires_grad_() for heads in (8, 4, 4)]
    y = mt.nn.functional.scaled_dot_product_attention(*tensors, is_causal=True, enable_gqa=True)
    y.sum().backward()
    placements, found, moved = sim.run(run, *(t.detach() for t in tensors), world_size=2)[0]
    assert placements == (Shard(1),) and not moved
    for one, other in zip(found, (y, *(t.grad for t in tensors)), strict=True):
        assert mt.allclose(mt.tensor(one, device="cpu"), other.detach(), atol=1e-6)


def test_fused_attention_without_dropout_draws_nothing():
    """So it runs on parts with values, too, and needs no communication where batches or heads are cut."""
    whole = [mt.randn(4, 8, 16, 8) for _ in range(3)]
    expected = mt._scaled_dot_product_efficient_attention(*whole, None, True)[0]

    def attend(dim):
        dist.init_process_group()
        mesh = init_device_mesh("cpu", (4,))
        q, k, v = (distribute_tensor(t, mesh, [Shard(dim)], src_data_rank=None) for t in whole)
        with dist.CommunicationLog() as log:
            y = mt._scaled_dot_product_efficient_attention(q, k, v, None, True)[0]
        return len(log), y.placements, y.full_tensor()

    for dim in (0, 1):
        for sent, placements, y in dist.sim.run(lambda dim=dim: attend(dim), world_size=4):
            assert (sent, placements) == (0, (Shard(dim),)) and mt.allclose(y, expected, atol=1e-5)


def test_what_a_call_needs_is_found_once_for_all_ranks(monkeypatch):
    from metatensor.distributed.tensor import _planning

    asked = []
    choose = _planning.choose
    monkeypatch.setattr(_planning, "choose", lambda call, *rest: asked.append(call.op.name) or choose(call, *rest))
    monkeypatch.setattr(_planning, "_choices", {})

    def run(mesh):
        x = distribute_tensor(mt.arange(30.0).reshape(10, 3), mesh, [Shard(0)])  # shards of 3, 3, 3 and 1 rows
        y = x.cumsum(1)
        return y.placements, y.to_local().shape, y.full_tensor().tolist()

    expected = mt.arange(30.0).reshape(10, 3).cumsum(1).tolist()
    found = on_ranks(run)
    assert found == [((Shard(0),), mt.Size([rows, 3]), expected) for rows in (3, 3, 3, 1)]
    assert asked.count("cumsum") == 1
    other = on_ranks(run, world_size=2)
    assert [one[1] for one in other] == [mt.Size([5, 3])] * 2 and asked.count("cumsum") == 2  # another shape of the mesh


def test_what_a_call_needs_is_found_again_if_its_rules_change(monkeypatch):
    from metatensor.distributed.tensor import _planning

    monkeypatch.setattr(_planning, "_choices", {})

    def run(mesh):
        return distribute_tensor(mt.ones(8, 4), mesh, [Shard(0)]).cumsum(1).placements

    assert on_ranks(run) == [(Shard(0),)] * 4
    rules_of = _planning.rules_of
    monkeypatch.setattr(_planning, "rules_of", lambda name: rules_of(name)._replace(cuts=()) if name == "cumsum" else rules_of(name))
    assert on_ranks(run) == [(Replicate(),)] * 4


def test_parallel_layers_leave_tensors_alone_that_are_placed_as_they_should_be():
    def run(mesh):
        with mt.device("cpu"):
            model = mt.nn.Sequential(mt.nn.Linear(8, 8), mt.nn.Linear(8, 8))
        parallelize_module(model, mesh, {"0": ColwiseParallel(use_local_output=False), "1": RowwiseParallel()})
        hidden = model[0](mt.ones(2, 8))
        local = parallelize_module(mt.nn.Linear(8, 8), mesh, ColwiseParallel())(mt.ones(2, 8))
        return hidden.placements, type(hidden.grad_fn).__name__, type(local.grad_fn.next_functions[0][0]).__name__

    names = "_RedistributeBackward"
    for placements, whole, before in on_ranks(run):
        assert placements == (Shard(1),) and whole != names and before != names


@pytest.mark.parametrize("name", ["relu", "relu6", "silu", "hardswish", "mish", "leaky_relu", "elu"])
@pytest.mark.parametrize("reduction", ["sum", "avg", "max", "min", "product"])
def test_activations_in_place_of_partial_tensors(name, reduction):
    function = getattr(mt.nn.functional, name)

    def run(mesh):
        own = mt.tensor([[-1.5, 0.5, 2.0], [1.0, -0.25, -3.0]]) * (1 + mesh.get_local_rank()) - mesh.get_local_rank()
        x = DTensor.from_local(own, mesh, [Partial(reduction)])
        expected = function(x.full_tensor())
        found = function(x, inplace=True)
        return mt.allclose(found.full_tensor(), expected) and mt.allclose(x.full_tensor(), expected)

    assert on_ranks(run, world_size=2) == [True, True]


@pytest.mark.parametrize("density", [False, True])
def test_histograms_of_shards_with_weights(density):
    x, weight = mt.arange(125.0).sin().reshape(5, 5, 5), mt.arange(125.0).cos().abs().reshape(5, 5, 5)
    bins = mt.tensor([-1.0, -0.2, 0.1, 0.5, 1.0])
    expected = mt.histogram(x, bins, weight=weight, density=density)

    def run(mesh):
        for placement in (Shard(0), Shard(1), Shard(2)):
            given = distribute_tensor(x, mesh, [placement]), distribute_tensor(bins, mesh, [Replicate()])
            found = mt.histogram(*given, weight=distribute_tensor(weight, mesh, [Replicate()]), density=density)
            assert all(mt.allclose(one.full_tensor(), other) for one, other in zip(found, expected))

    on_ranks(run)


@pytest.mark.parametrize("dtype", [mt.uint8, mt.bool, mt.float32])
@pytest.mark.parametrize("name", ["any", "all"])
def test_any_and_all_of_shards(name, dtype):
    x = mt.tensor([[5, 0, 6, 5], [6, 0, 2, 0], [9, 0, 3, 1], [1, 0, 0, 7]]).to(dtype)
    for arguments in ((), (0,), (1, True), ((0, 1),)):
        expected = getattr(x, name)(*arguments)

        def run(mesh, arguments=arguments):
            found = [getattr(distribute_tensor(x, mesh, [Shard(dim)]), name)(*arguments).full_tensor() for dim in (0, 1)]
            return [(one.dtype, one.tolist()) for one in found]

        assert on_ranks(run) == [[(expected.dtype, expected.tolist())] * 2] * 4
