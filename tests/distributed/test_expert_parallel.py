"""Expert parallelism on simulated ranks: results and gradients are those of one process, assumptions on meta, and errors."""

import pytest

import metatensor as mt
from metatensor import distributed as dist
from metatensor import nn
from metatensor.distributed import init_device_mesh, sim
from metatensor.distributed.tensor import DTensor, Replicate, Shard
from metatensor.distributed.tensor.parallel import ExpertParallel, ExpertTensorParallel, parallelize_module
from metatensor.nn import functional as F

EXPERTS, WIDTH, HIDDEN = 8, 8, 16


class Experts(nn.Module):
    def __init__(self, device="cpu"):
        super().__init__()
        self.w1, self.w3 = (nn.Parameter(mt.randn(EXPERTS, HIDDEN, WIDTH, device=device) / 4) for _ in range(2))
        self.w2 = nn.Parameter(mt.randn(EXPERTS, WIDTH, HIDDEN, device=device) / 4)

    def forward(self, tokens, num_tokens_per_expert, factor=1.0):
        self.received = list(tokens.shape), num_tokens_per_expert
        w1, w2, w3 = (one.to_local() if isinstance(one, DTensor) else one for one in (self.w1, self.w2, self.w3))
        ends = num_tokens_per_expert.cumsum(0, dtype=mt.int32)
        hidden = F.silu(F.grouped_mm(tokens, w1.mT, offs=ends)) * F.grouped_mm(tokens, w3.mT, offs=ends)
        return F.grouped_mm(hidden, w2.mT, offs=ends) * factor


def routed(ranks, seed=0):
    """Return the tokens of each rank, and how many each expert receives of them: a different number each, some of them none."""
    mt.manual_seed(seed)
    counts = [mt.randint(0, 4, (EXPERTS,)) for _ in range(ranks)]
    counts[0][:] = 0
    counts[0][2] = 5
    return [mt.randn(int(one.sum()), WIDTH) for one in counts], counts


@pytest.mark.parametrize("reduce_op", ["sum", "avg"])
@pytest.mark.parametrize("shape, style", [
    ((1,), ExpertParallel), ((2,), ExpertParallel), ((4,), ExpertParallel), ((8,), ExpertParallel), ((2, 2), ExpertParallel),
    ((4, 1), ExpertParallel), ((2, 2), ExpertTensorParallel), ((2, 2, 2), ExpertTensorParallel), ((1, 2, 4), ExpertTensorParallel),
], ids=str)  # fmt: skip
def test_results_and_gradients(shape, style, reduce_op):
    pytest.importorskip("metatensor_cpu")
    size, alike = mt.Size(shape).numel(), shape[-1] if style is ExpertTensorParallel else 1
    tokens, counts = routed(size // alike)
    reference = Experts()
    inputs = [one.clone().requires_grad_() for one in tokens]
    outs = [reference(one, number, factor=2.0) for one, number in zip(inputs, counts)]
    for _ in range(2):
        sum(one.square().sum() for one in outs).backward(retain_graph=True)

    def run():
        mesh = init_device_mesh("cpu", shape)
        experts = Experts()
        experts.load_state_dict(reference.state_dict())
        parallelize_module(experts, mesh, style(reduce_op=reduce_op))
        place = dist.get_rank() // alike
        x = tokens[place].clone().requires_grad_()
        for _ in range(2):  # gradients accumulate
            out = experts(x, counts[place], 2.0)
            out.square().sum().backward()
        assert mt.allclose(out, outs[place], atol=1e-5) and mt.allclose(x.grad, inputs[place].grad, atol=1e-4)
        divided = 1 if len(shape) == 1 or style is ExpertTensorParallel and len(shape) == 2 else shape[0]
        assert experts.w1.to_local().numel() == reference.w1.numel() * divided // size
        assert all(one.grad.placements == one.placements for one in experts.parameters())
        return [one.grad.full_tensor() for one in experts.parameters()]

    ranks = size // alike if reduce_op == "avg" else 1
    for grads in sim.run(run, world_size=size):
        for found, expected in zip(grads, reference.parameters()):
            assert mt.allclose(found * ranks, expected.grad, rtol=1e-4, atol=1e-4)


def test_experts_receive_the_tokens_of_all_ranks_in_order():
    pytest.importorskip("metatensor_cpu")
    tokens, counts = routed(2)

    def run():
        experts = parallelize_module(Experts(), init_device_mesh("cpu", (2,)), ExpertParallel())
        experts(tokens[dist.get_rank()], counts[dist.get_rank()])
        return experts.received

    total = counts[0] + counts[1]
    for rank, (shape, own) in enumerate(sim.run(run, world_size=2)):
        expected = total[rank * 4 : rank * 4 + 4]
        assert own.tolist() == expected.tolist() and own.dtype == counts[0].dtype and shape == [expected.sum().item(), WIDTH]


def shapes_on_meta(counts=None, rank=0, mesh_shape=(4,), style=ExpertParallel, **options):
    """For 100 tokens on each rank, return the shape of the tokens that a rank's experts receive, and the rows sent to each rank."""
    mesh = init_device_mesh("meta", mesh_shape, rank=rank)
    try:
        experts = parallelize_module(Experts("meta"), mesh, style(**options))
        given = mt.empty(EXPERTS, dtype=mt.int64, device="meta") if counts is None else counts
        out = experts(mt.empty(100, WIDTH, device="meta"), given)
        assert out.shape == (100, WIDTH)
        out.sum().backward()
        return experts.received[0][0]
    finally:
        dist.destroy_process_group()


def test_on_meta_the_load_of_experts_is_assumed():
    assert [shapes_on_meta(rank=rank) for rank in range(4)] == [100] * 4
    load = [3, 1, 1, 1, 1, 1, 1, 1]
    assert [shapes_on_meta(rank=rank, expert_load=load) for rank in range(4)] == [160, 80, 80, 80]
    assert shapes_on_meta(rank=1, mesh_shape=(2, 2), expert_load=load) == 80
    found = [shapes_on_meta(rank=rank, mesh_shape=(4, 2), style=ExpertTensorParallel, expert_load=load) for rank in (0, 1, 2)]
    assert found == [160, 160, 80]
    # Numbers that are known are used.
    with mt.device("meta"):
        known = mt.tensor([100, 0, 0, 0, 0, 0, 0, 0])
    assert [shapes_on_meta(known, rank) for rank in (0, 1)] == [400, 0]


def test_ranks_with_the_same_load_do_the_same():
    def run(load, style=ExpertParallel, shape=(4, 4)):
        mesh = init_device_mesh("meta", shape)
        experts = parallelize_module(Experts("meta"), mesh, style(expert_load=load))
        experts(mt.empty(64, WIDTH, device="meta"), mt.empty(EXPERTS, dtype=mt.int64, device="meta")).sum().backward()

    assert len(sim.run(run, None, world_size=16, ranks="groups").classes) == 1
    assert len(sim.run(run, [9, 1, 1, 1, 1, 1, 1, 1], world_size=16, ranks="groups").classes) == 2
    assert len(sim.run(run, None, ExpertTensorParallel, (2, 2, 4), world_size=16, ranks="groups").classes) == 1


def test_the_communication_on_meta_is_that_with_data():
    """If each expert really receives the same number of tokens, bytes are equal as well."""
    pytest.importorskip("metatensor_cpu")

    def run(device, number):
        mesh = init_device_mesh(device, (2, 2))
        experts = parallelize_module(Experts(device), mesh, ExpertTensorParallel(reduce_op="avg"), src_data_rank=None)
        counts = mt.full((EXPERTS,), number, device=device) if device == "cpu" else mt.empty(EXPERTS, dtype=mt.int64, device=device)
        experts(mt.randn(number * EXPERTS, WIDTH, device=device), counts).sum().backward()

    for number in (4, 1):
        real, predicted = (sim.run(run, device, number, world_size=4, record=True).logs for device in ("cpu", "meta"))
        for one, other in zip(real, predicted):
            assert one.what() == other.what() and len(one) == 5


class Biased(Experts):
    def __init__(self):
        super().__init__("meta")
        self.bias = nn.Parameter(mt.empty(EXPERTS, WIDTH, device="meta"))


def test_errors():
    mesh = init_device_mesh("meta", (4,))

    def refuses(match, module, style, on=mesh):
        with pytest.raises(ValueError, match=match):
            parallelize_module(module, on, style)

    try:
        refuses("no parameters of its own", nn.Sequential(Experts("meta")), ExpertParallel())
        three = dist.DeviceMesh("meta", [0, 1, 2])
        refuses(r"w1 \[8, 16, 8\].* cannot be divided evenly among 3 ranks", Experts("meta"), ExpertParallel(), three)
        refuses(r"weight \[6, 4\], bias \[6\]", nn.Linear(4, 6, device="meta"), ExpertParallel())
        refuses("at least 2 dimensions", Experts("meta"), ExpertTensorParallel())
        square = dist.DeviceMesh("meta", [[0, 1], [2, 3]])
        refuses("no placement for the parameter 'bias'", Biased(), ExpertTensorParallel(), square)
        everything = {"w1": Shard(1), "w2": Shard(2), "w3": Shard(1), "bias": Replicate()}
        assert parallelize_module(Biased(), square, ExpertTensorParallel(tensor_placements=everything)).bias.to_local().shape == (4, WIDTH)
        with pytest.raises(ValueError, match="'sum' or 'avg', got 'max'"):
            ExpertParallel(reduce_op="max")
        for load in ([], [0, 0], [1, -1]):
            with pytest.raises(ValueError, match="expert_load"):
                ExpertParallel(expert_load=load)
        with mt.device("meta"):
            known = mt.tensor([1] * 8)
        tokens, counts = mt.empty(10, WIDTH, device="meta"), mt.empty(EXPERTS, dtype=mt.int64, device="meta")
        experts = parallelize_module(Experts("meta"), mesh, ExpertParallel(expert_load=[1, 1]))
        with pytest.raises(ValueError, match="2 shares, but there are 8 experts"):
            experts(tokens, counts)
        with pytest.raises(ValueError, match=r"experts of 4 ranks, got shape \[7\]"):
            experts(tokens, counts[:7])
        with pytest.raises(ValueError, match="10 tokens, but num_tokens_per_expert is for 8"):
            experts(tokens, known)
        wrong = Experts("meta")
        wrong.forward = lambda tokens, counts: tokens[1:]
        parallelize_module(wrong, mesh, ExpertParallel())
        with pytest.raises(ValueError, match=r"received 8 tokens, but returned a tensor of shape \[7, 8\]"):
            wrong(tokens, counts)
    finally:
        dist.destroy_process_group()


# Training ---------------------------------------------------------------------------------------------------

LAYOUTS = [  # ranks, context, tensor, experts over, method, rotation
    (2, 1, 1, 2, "ring", "allgather"),
    (2, 2, 1, 1, "ring", "alltoall"),
    (2, 1, 2, 1, "ring", "allgather"),
    (4, 1, 1, 4, "ring", "allgather"),
    (4, 1, 1, 2, "ring", "allgather"),
    (4, 1, 2, 2, "ring", "allgather"),
    (4, 4, 1, 1, "ring", "allgather"),
    (4, 4, 1, 2, "ulysses", "allgather"),
    (4, 2, 1, 4, "ring", "alltoall"),
]


@pytest.fixture(scope="module")
def example():
    import sys
    from importlib import import_module
    from pathlib import Path

    pytest.importorskip("metatensor_cpu")
    sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
    try:
        yield import_module("train_moe")
    finally:
        sys.path.pop(0)
        for name in ("train_moe", "train_ddp"):
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def losses(example):
    return sim.run(example.train, world_size=1)[0][0]


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_training_gives_the_losses_of_one_process(layout, example, losses):
    size, *options = layout
    assert len(losses) == 20 and losses[-1] < losses[0] / 2
    for found, _ in sim.run(example.train, 20, "cpu", *options, world_size=size):
        assert found == pytest.approx(losses, rel=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:parallelize_module. no submodule")  # it has no experts
@pytest.mark.parametrize("method, rotation", [("ring", "allgather"), ("ring", "alltoall"), ("ulysses", "allgather")])
@pytest.mark.parametrize("size", [2, 4])
def test_training_a_dense_model_with_divided_sequences(size, method, rotation, example):
    dense = example.GPT
    real, example.SparseBlock = example.SparseBlock, example.Block
    try:
        expected = sim.run(example.train, world_size=1)[0][0]
        for found, _ in sim.run(example.train, 20, "cpu", size, 1, 1, method, rotation, world_size=size):
            assert found == pytest.approx(expected, rel=1e-5)
    finally:
        example.SparseBlock = real
    assert expected[-1] < expected[0] / 2 and dense is example.GPT


@pytest.mark.slow
@pytest.mark.parametrize("over", [2, 4])
def test_with_fully_shard(over, example):
    """Everything is sharded over all ranks, and the experts, which ranks share, over those with the same experts."""
    pytest.importorskip("metatensor.distributed.fsdp._group")
    from metatensor.distributed.fsdp import fully_shard

    def train(step):
        losses = []
        mt.manual_seed(0)
        model, batches = example.GPT(example.SparseBlock), mt.randint(example.VOCABULARY, (10, 8, example.CONTEXT + 1))
        mine = step(model)
        optimizer = mt.optim.AdamW(model.parameters(), lr=3e-3)
        for batch in batches[:, mine]:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            mean = loss.detach()
            if dist.is_initialized():
                dist.all_reduce(mean, dist.ReduceOp.AVG)
            losses.append(mean.item())
        return losses

    def sharded(model):
        mesh = init_device_mesh("cpu", (4 // over, over), mesh_dim_names=("replicas", "experts"))
        everybody = mesh._flatten("everybody")
        parallelize_module(model, mesh["experts"], {"blocks.*.mixture.experts": ExpertParallel()})
        for block in model.blocks:
            experts = block.mixture.experts
            fully_shard(experts, mesh=mesh["replicas"])
            experts.set_gradient_divide_factor(4)
            fully_shard(block, mesh=everybody)
        fully_shard(model, mesh=everybody)
        assert model.blocks[0].mixture.experts.w1.to_local().numel() == EXPERTS * example.HIDDEN * example.WIDTH // 4
        return slice(dist.get_rank(), None, 4)

    expected = train(lambda model: slice(None))
    for found in sim.run(train, sharded, world_size=4):
        assert found == pytest.approx(expected, rel=1e-5)
