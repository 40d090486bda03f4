"""Operators of PyTorch's operator database with any placement, and calls that once went wrong."""

import pytest

import metatensor as mt
from metatensor import distributed as dist
from metatensor.distributed import sim
from metatensor.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh
from metatensor.distributed.tensor.experimental import implicit_replication

pytest.importorskip("numpy")

functional = mt.nn.functional


@pytest.mark.slow
@pytest.mark.parametrize("share", range(4))
def test_every_sixteenth_recorded_operator(share):
    from distributed.oracle_calls import chosen_records, results

    chosen = list(chosen_records(None, 1))[share * 4 :: 64]
    problems = {f"{record['op']} {place}": problem for record, place, problem in results(chosen, 1)}
    assert {name: one for name, one in problems.items() if one} == {}
    assert list(problems.values()).count("") > 10


CALLS = {
    "pairs of rows with ties": (lambda x: mt.pdist(x, float("inf")), [[0.0, 2, 2], [1, 0, 4], [3, 1, 1], [0, 0, 5]], [Shard(1)], None),
    "rows of two tables with ties": (lambda x: mt.cdist(x, x.flip(0), float("inf")), [[0.0, 2, 2], [1, 0, 4]], [Shard(1)], None),
    "a reduced sequence": (lambda x: mt.searchsorted(x, 1.5), [0.0, 1, 2, 3], [Partial()], None),
    "reduced boundaries": (lambda x: mt.bucketize(1.5, x), [0.0, 1, 2, 3], [Partial()], None),
    "a table that is scaled": (
        lambda x: functional.embedding_bag(mt.zeros(2, 2, dtype=mt.int64, device="cpu"), x, max_norm=1.0), [[3.0, 4], [5, 6]], [Shard(0)],
        None),
    "a quotient of parts": (lambda x: x / (x.detach() * 0 + 3), [[1.0, 2], [3, 4]], [Partial()], Partial()),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    function, values, placements, wanted = CALLS[name]

    def outcome(x):
        result = function(x)
        grad = mt.autograd.grad((result * result).sum(), x)[0] if result.requires_grad else None
        return [one.detach().full_tensor() if isinstance(one, DTensor) else one for one in (result, grad, x.detach())], result

    expected, _ = outcome(mt.tensor(values, dtype=mt.float64, device="cpu").requires_grad_())

    def run():
        x = distribute_tensor(mt.tensor(values, dtype=mt.float64, device="cpu"), init_device_mesh("cpu", (4,)), placements).requires_grad_()
        with implicit_replication():
            found, result = outcome(x)
        for got, one in zip(found, expected):
            assert got is one or mt.allclose(got.double(), one.double())
        assert wanted is None or result.placements == (wanted,)

    sim.run(run, world_size=4)


@pytest.mark.parametrize("placement", [Replicate(), Shard(0), Shard(1)])
def test_statistics_have_the_dtype_that_they_have_on_the_device(placement):
    x = mt.arange(8.0, device="cpu").reshape(2, 4).to(mt.float16)
    expected = [(one.dtype, one.tolist()) for one in mt.native_layer_norm(x, (4,), None, None, 1e-5)]

    def run():
        found = mt.native_layer_norm(distribute_tensor(x, init_device_mesh("cpu", (2,)), [placement]), (4,), None, None, 1e-5)
        return [(one.dtype, one.tolist()) for one in found]

    assert sim.run(run, world_size=2) == [expected] * 2


@pytest.mark.parametrize("change", [lambda x: x.t(), lambda x: x[:, :-1], lambda x: x.permute(1, 0) * 2])
def test_gradients_of_leaves_keep_their_placements(change):
    x = mt.arange(32.0, device="cpu").reshape(4, 8).requires_grad_()
    change(x).square().sum().backward()

    def run():
        y = distribute_tensor(x.detach(), init_device_mesh("cpu", (4,)), [Shard(0)]).requires_grad_()
        change(y).square().sum().backward()
        return y.grad.placements, y.grad.stride(), y.grad.full_tensor()

    for placements, stride, grad in sim.run(run, world_size=4):
        assert placements == (Shard(0),)
        assert stride == x.grad.stride()
        assert mt.equal(grad, x.grad)


LOSSES = {
    "rows": lambda x, y: functional.cross_entropy(x.flatten(0, 1), y.flatten()),
    "the next token": lambda x, y: functional.cross_entropy(x[:, :-1].flatten(0, 1).double(), y[:, 1:].flatten()),
    "classes in the middle": lambda x, y: functional.cross_entropy(x.transpose(1, 2), y),
    "sum": lambda x, y: functional.cross_entropy(x.flatten(0, 1), y.flatten(), reduction="sum", ignore_index=3),
    "each": lambda x, y: functional.cross_entropy(x.flatten(0, 1), y.flatten(), reduction="none").mean(),
    "smoothed": lambda x, y: functional.cross_entropy(x.flatten(0, 1), y.flatten(), label_smoothing=0.1),
    "weighted": lambda x, y: functional.cross_entropy(x.flatten(0, 1), y.flatten(), mt.linspace(1, 2, 64, dtype=mt.float64, device="cpu")),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_a_cross_entropy_of_divided_classes_gathers_no_logits(name):
    x = mt.linspace(-3, 3, 2 * 5 * 64, dtype=mt.float64, device="cpu").sin().reshape(2, 5, 64)
    y = mt.arange(10, device="cpu").reshape(2, 5)
    plain = x.clone().requires_grad_()
    expected = LOSSES[name](plain, y)
    expected.backward()

    def run():
        logits = distribute_tensor(x, init_device_mesh("cpu", (4,)), [Shard(2)]).requires_grad_()
        with implicit_replication(), dist.CommunicationLog() as log:
            loss = LOSSES[name](logits, y)
            loss.backward()
        assert logits.grad.placements == (Shard(2),)
        assert mt.allclose(loss.detach().full_tensor(), expected) and mt.allclose(logits.grad.full_tensor(), plain.grad)
        return max(one.bytes for one in log)

    rows = 2 * 5 * 8
    assert max(sim.run(run, world_size=4)) <= 2 * rows


def test_factors_and_masks_of_other_shapes_are_refused():
    with pytest.raises(RuntimeError, match="LU_pivots must have a vector"):
        mt.lu_unpack(mt.empty(3, 6, 4, 5, device="meta"), mt.empty(6, 3, 4, dtype=mt.int32, device="meta"))
    q = mt.empty(2, 2, 4, 8, device="meta")
    out, lse = mt._scaled_dot_product_flash_attention_for_cpu(q, q, q)
    mask = mt.ones(3, dtype=mt.bool, device="meta")
    with pytest.raises(RuntimeError, match=r"attn_mask of shape \[3\] does not expand"):
        mt._scaled_dot_product_flash_attention_for_cpu_backward(q, q, q, q, out, lse, 0.0, False, attn_mask=mask)
