"""Context parallelism on simulated ranks: results and gradients are those of one process, and what it refuses."""

import threading

import pytest

import metatensor as mt
from metatensor import distributed as dist
from metatensor import nn
from metatensor.distributed import init_device_mesh, sim
from metatensor.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from metatensor.distributed.tensor.experimental import context_parallel, ring_attention, ulysses_attention
from metatensor.distributed.tensor.experimental._attention import (
    _context_parallel_shard,
    _ContextParallel,
    _cp_options,
    _HeadTailLoadBalancer,
    context_parallel_unshard,
    set_rotate_method,
)
from metatensor.distributed.tensor.experimental._context_parallel._ring import block_of
from metatensor.distributed.tensor.parallel import parallelize_module
from metatensor.nn import functional as F
from metatensor.utils.flop_counter import FlopCounterMode

pytest.importorskip("metatensor_cpu")


def tensors(heads=4, others=4, length=16, keys=None, width=8, values=None, dtype=mt.float32):
    mt.manual_seed(0)
    keys = keys or length
    shapes = (2, heads, length, width), (2, others, keys, width), (2, others, keys, values or width), (2, heads, length, values or width)
    return [mt.randn(shape).to(dtype) for shape in shapes]


def plain(given, **options):
    """Return result and gradients of plain attention."""
    query, key, value, grad = given
    inputs = [one.clone().requires_grad_() for one in (query, key, value)]
    out = F.scaled_dot_product_attention(*inputs, **options)
    return [out.detach(), *mt.autograd.grad(out, inputs, grad)]


def parallel(given, size, method="ring", **options):
    """Return the same, computed by ranks that each have a part, as the whole tensors that each rank gathers."""

    def run():
        mesh = init_device_mesh("cpu", (size,))
        *inputs, grad = [one.clone() for one in given]
        for one in inputs:
            one.requires_grad_()
        with context_parallel(mesh, buffers=[*inputs, grad], buffer_seq_dims=[2] * 4, method=method):
            assert inputs[0].shape[2] == given[0].shape[2] // size
            out = F.scaled_dot_product_attention(*inputs, **options)
            grads = mt.autograd.grad(out, inputs, grad)
        return context_parallel_unshard(mesh, [out, *grads], [2] * 4)

    return sim.run(run, world_size=size, record=True)


def close(found, expected, tolerance):
    return all(one.dtype is other.dtype and mt.allclose(one, other, rtol=tolerance, atol=tolerance) for one, other in zip(found, expected))


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("rotation", ["alltoall", "allgather"])
@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("is_causal", [True, False])
def test_ring_attention_is_attention(size, rotation, balanced, is_causal):
    set_rotate_method(rotation)
    _cp_options.enable_load_balance = balanced
    for others in (4, 2):  # heads of keys
        given = tensors(others=others)
        options = {"is_causal": is_causal, "enable_gqa": others < 4, "scale": 0.3}
        expected = plain(given, **options)
        assert all(close(found, expected, 1e-5) for found in parallel(given, size, **options))


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("is_causal", [True, False])
def test_ulysses_attention_is_attention(size, balanced, is_causal):
    _cp_options.enable_load_balance = balanced
    for others in (4, 2):  # with 2 heads of keys and 4 ranks, these are repeated
        given = tensors(others=others)
        options = {"is_causal": is_causal, "enable_gqa": others < 4}
        expected = plain(given, **options)
        assert all(close(found, expected, 1e-5) for found in parallel(given, size, "ulysses", **options))


@pytest.mark.parametrize("case", [
    {"values": 4}, {"values": 12}, {"keys": 24}, {"dtype": mt.float64},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("method", ["ring", "ulysses"])
def test_other_shapes_and_dtypes(case, method):
    given = tensors(**case)
    options = {"is_causal": "keys" not in case}
    tolerance = 1e-12 if case.get("dtype") is mt.float64 else 1e-5
    for found in parallel(given, 2, method, **options):
        assert close(found, plain(given, **options), tolerance)


def test_half_precision_is_joined_in_float32():
    given = tensors(dtype=mt.bfloat16, length=32)
    expected = plain([one.float() for one in given], is_causal=True)
    errors = []
    for wide in (True, False):
        _cp_options.convert_to_f32 = wide
        found = parallel(given, 4, is_causal=True)[0]
        assert all(one.dtype is mt.bfloat16 for one in found)
        errors.append(max((one.float() - other).abs().max().item() for one, other in zip(found, expected)))
    assert errors[0] < 0.03 and errors[0] <= errors[1] < 0.1


def test_autocast_applies_first():
    def run():
        mesh = init_device_mesh("cpu", (2,))
        q, k, v, _ = tensors()
        with context_parallel(mesh, buffers=[q, k, v], buffer_seq_dims=[2] * 3), mt.autocast("cpu", dtype=mt.bfloat16):
            return F.scaled_dot_product_attention(q, k, v).dtype

    assert sim.run(run, world_size=2) == [mt.bfloat16] * 2


def test_ulysses_takes_masks_and_ring_refuses_them():
    given = tensors()
    for shape in ((16, 16), (2, 4, 16, 16)):
        mask = mt.rand(shape) > 0.3
        assert close(parallel(given, 2, "ulysses", attn_mask=mask)[1], plain(given, attn_mask=mask), 1e-5)
    with pytest.raises(NotImplementedError, match="attn_mask"):
        parallel(given, 2, attn_mask=mask)


@pytest.mark.parametrize("size", [2, 3, 8])
def test_load_balancing_gives_each_rank_the_same_work(size):
    def work(rank, balanced):
        """Return how many pairs of chunks a rank computes, of the 2 * size chunks of queries and keys."""
        total = 0
        for step in range(size):
            block = block_of(rank, size, step, True, balanced)
            if block is not None:
                total += 3 if block.is_causal else 4 // (1 + block.second_queries + block.first_keys)
        return total

    assert {work(rank, True) for rank in range(size)} == {2 * size + 1}
    assert [work(rank, False) for rank in range(size)] == [3 + 4 * rank for rank in range(size)]


@pytest.mark.parametrize("balanced", [True, False])
def test_flops_by_rank(balanced):
    counts = []
    for rank in range(4):
        mesh = init_device_mesh("meta", (4,), rank=rank)
        q = mt.empty(1, 2, 64, 16, device="meta", requires_grad=True)
        with FlopCounterMode(display=False) as counter:
            mt.autograd.grad(ring_attention(q, q, q, mesh, is_causal=True, load_balance=balanced).sum(), q)
        counts.append(counter.get_total_flops())
        dist.destroy_process_group()
    part = 2 * 2 * 64 * 64 * (2 + 5) * 16  # of a rank's queries with a rank's keys: 2 products forward, 5 backward
    assert counts == ([part + 3 * part // 2] * 4 if balanced else [part, 2 * part, 3 * part, 4 * part])


def test_communication():
    given = tensors()
    part = 4 * 2 * given[1].numel() // 4  # keys and values of a rank, in bytes
    set_rotate_method("alltoall")
    log = parallel(given, 4, is_causal=True).logs[1]
    sent = [(one.bytes, one.detail) for one in log if one.kind == "send"]
    assert sent == [(part, "to 2")] * (3 + 3 + 4)  # keys and values forward and backward, their gradients once around the ring
    set_rotate_method("allgather")
    log = parallel(given, 4, is_causal=True).logs[1]
    unshard = 4
    assert [one.bytes for one in log if one.kind == "all_gather"][:-unshard] == [4 * part] * 2
    log = parallel(given, 4, "ulysses").logs[1]
    exchanged = [one.bytes for one in log if one.kind == "all_to_all"]
    assert exchanged == [4 * given[0].numel() // 4] * 8


def test_on_meta_without_other_ranks():
    mesh = init_device_mesh("meta", (8,), rank=3)
    try:
        q = mt.empty(1, 16, 64, 16, device="meta", dtype=mt.bfloat16, requires_grad=True)
        k = mt.empty(1, 2, 64, 16, device="meta", dtype=mt.bfloat16, requires_grad=True)
        for attention in (ring_attention, ulysses_attention):
            for p in (0.0, 0.1):
                out = attention(q, k, k, mesh, is_causal=True, enable_gqa=True, dropout_p=p)
                assert (out.shape, out.dtype, out.stride()) == (q.shape, q.dtype, q.stride())
                grads = mt.autograd.grad(out.sum(), (q, k))
                assert [(one.shape, one.dtype) for one in grads] == [(q.shape, q.dtype), (k.shape, k.dtype)]
    finally:
        dist.destroy_process_group()


def test_ranks_of_other_sequences_do_the_same():
    """Ranks differ by their place in the sequence, and not at all without a mask."""

    def run(is_causal):
        mesh = init_device_mesh("meta", (16, 4), mesh_dim_names=("dp", "cp"))
        q = mt.empty(1, 4, 16, 8, device="meta")
        with context_parallel(mesh["cp"], buffers=[q], buffer_seq_dims=[2]):
            return F.scaled_dot_product_attention(q, q, q, is_causal=is_causal).shape

    assert len(sim.run(run, True, world_size=64, ranks="groups").classes) == 4
    assert len(sim.run(run, False, world_size=64, ranks="groups").classes) == 1


# Distributed tensors, styles --------------------------------------------------------------------------------


def test_distributed_tensors_run_on_their_parts():
    given = tensors()
    expected = plain(given, is_causal=True)

    def run():
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("cp", "tp"))
        parts = _context_parallel_shard(mesh["cp"], given, [2] * 4, _HeadTailLoadBalancer(16, 2, "cpu"))
        q, k, v, grad = (distribute_tensor(one, mesh["tp"], [Shard(1)]) for one in parts)
        for one in (q, k, v):
            one.requires_grad_()
        with context_parallel(mesh["cp"]):
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        assert out.placements == (Shard(1),) and out.device_mesh == mesh["tp"]
        grads = mt.autograd.grad(out, (q, k, v), grad)
        found = context_parallel_unshard(mesh["cp"], [one.full_tensor() for one in (out, *grads)], [2] * 4)
        # Tensors on both dimensions of the mesh: heads divided by one, the sequence by the other
        both = [DTensor.from_local(one.to_local(), mesh, [Shard(2), Shard(1)]) for one in (q, k, v)]
        with context_parallel(mesh["cp"]):
            again = F.scaled_dot_product_attention(*both, is_causal=True)
            assert again.placements == (Shard(2), Shard(1)) and mt.equal(again.to_local(), out.to_local())
            with pytest.raises(ValueError, match="placed alike"):
                F.scaled_dot_product_attention(both[0], both[1], both[2].redistribute(placements=[Shard(2), Replicate()]))
            with pytest.raises(ValueError, match="cannot run on"):
                F.scaled_dot_product_attention(*(DTensor.from_local(one.to_local(), mesh["tp"], [Shard(3)]) for one in (q, k, v)))
            with pytest.raises(TypeError, match="none of them"):
                F.scaled_dot_product_attention(q, k, v.to_local())
        return found

    assert all(close(found, expected, 1e-5) for found in sim.run(run, world_size=4))


class Attention(nn.Module):
    def forward(self, q, k, v, fail=False):
        if fail:
            raise KeyError("fail")
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@pytest.mark.parametrize("method", ["ring", "ulysses"])
def test_style_acts_on_its_module_only(method):
    given = tensors()
    expected = plain(given, is_causal=True)
    shared = Attention()

    def run():
        mesh = init_device_mesh("cpu", (2,))
        balancer = _HeadTailLoadBalancer(16, 2, "cpu")
        parts = _context_parallel_shard(mesh, dict(zip("qkvg", given)), dict.fromkeys("qkvg", 2), balancer)
        module = Attention()
        parallelize_module(module, mesh, _ContextParallel(2, _ContextParallel.AttentionType.SDPA, method=method))
        inputs = [parts[name].requires_grad_() for name in "qkv"]
        with pytest.raises(KeyError):
            module(*inputs, fail=True)
        alone = shared(*inputs)
        out = module(*inputs)
        again = mt.utils.checkpoint.checkpoint(module, *inputs, use_reentrant=False)
        assert mt.equal(out, again) and not mt.allclose(out, alone)
        grads = mt.autograd.grad(again, inputs, parts["g"])
        return context_parallel_unshard(mesh, [out, *grads], [2] * 4, balancer)

    assert all(close(found, expected, 1e-5) for found in sim.run(run, world_size=2))


# Buffers ----------------------------------------------------------------------------------------------------


def test_buffers_are_divided_and_restored():
    def run():
        mesh = init_device_mesh("cpu", (2,))
        rank = dist.get_rank()
        whole = mt.arange(17).reshape(1, 17)
        tokens, targets, kept = whole[:, :-1], whole[:, 1:], mt.arange(8)
        with pytest.raises(KeyError), context_parallel(
            mesh, buffers=[tokens, targets, kept], buffer_seq_dims=[1, -1, 0], no_restore_buffers={kept}
        ):  # fmt: skip
            found = tokens.tolist(), targets.tolist(), kept.tolist()
            tokens.zero_()
            raise KeyError
        assert tokens.tolist() == [list(range(16))] and targets.tolist() == [list(range(1, 17))] and len(kept) == 4
        assert whole.tolist() == [list(range(17))]  # what views of other tensors become inside is not written to these
        part = list(range(4)) + list(range(12, 16)) if rank == 0 else list(range(4, 12))
        assert found == ([part], [[one + 1 for one in part]], [0, 1, 6, 7] if rank == 0 else [2, 3, 4, 5])
        x = mt.ones(8, requires_grad=True)
        scale = mt.ones(8)
        with context_parallel(mesh, buffers=[scale], buffer_seq_dims=[0]):
            y = (x[:4] * scale).sum()
        with pytest.raises(RuntimeError, match="modified|changed"):  # it was saved with the part, which it is not any more
            y.backward()
        return True

    assert all(sim.run(run, world_size=2))


def test_consecutive_parts_are_warned_of():
    """Causal ring attention is wrong for them, unless the setting says that they are consecutive."""
    mesh = init_device_mesh("meta", (2,))
    try:
        given = [mt.empty(2, 8, device="meta")]
        with pytest.warns(UserWarning, match="enable_load_balance"):
            _context_parallel_shard(mesh, given, [1])
        _context_parallel_shard(mesh, given, [1], _HeadTailLoadBalancer(8, 2, "meta"))
        _cp_options.enable_load_balance = False
        assert _context_parallel_shard(mesh, given, [1])[0].shape == (2, 4)
    finally:
        dist.destroy_process_group()


def test_unshard_undoes_shard():
    def run(size, balanced):
        _cp_options.enable_load_balance = balanced
        mesh = init_device_mesh("cpu", (size,))
        x, y = mt.arange(48.0).reshape(2, 24), mt.arange(12)
        with context_parallel(mesh, buffers=[x, y], buffer_seq_dims=[1, 0], no_restore_buffers={x, y}):
            pass
        found = context_parallel_unshard(mesh, [x, y], [-1, 0])
        assert found[0].tolist() == mt.arange(48.0).reshape(2, 24).tolist() and found[1].tolist() == list(range(12))

    for size in (1, 2, 3):
        for balanced in (True, False):
            sim.run(run, size, balanced, world_size=size)


@pytest.mark.parametrize("method", ["ring", "ulysses"])
def test_one_rank(method):
    given = tensors(length=5)
    assert close(parallel(given, 1, method, is_causal=True)[0], plain(given, is_causal=True), 1e-6)


def test_other_threads_are_not_concerned():
    mesh = init_device_mesh("meta", (2,))
    try:
        q = mt.empty(1, 2, 8, 4, device="meta")
        kinds = []

        def attend():
            with dist.CommunicationLog() as log:
                F.scaled_dot_product_attention(q, q, q)
            kinds.append(len(log))

        with context_parallel(mesh):
            thread = threading.Thread(target=attend)
            thread.start()
            thread.join()
            attend()
        attend()
        assert kinds == [0, 1, 0]
    finally:
        dist.destroy_process_group()


# Errors -----------------------------------------------------------------------------------------------------


def test_errors():
    mesh = init_device_mesh("meta", (2, 4), mesh_dim_names=("dp", "cp"))
    cp = mesh["cp"]

    def refuses(error, match, *args, **options):
        with pytest.raises(error, match=match), context_parallel(*args, **options):
            pass

    try:
        x = mt.empty(2, 12, device="meta")
        refuses(ValueError, r"shape \[2, 12\] cannot be divided evenly among 2 x 4 ranks", cp, buffers=[x], buffer_seq_dims=[1])
        _cp_options.enable_load_balance = False
        refuses(ValueError, r"dimension 0 .*\[2, 12\].* 4 ranks", cp, buffers=[x], buffer_seq_dims=[0])
        _cp_options.enable_load_balance = True
        assert x.shape == (2, 12)
        refuses(ValueError, "1 buffers, but 2", cp, buffers=[x], buffer_seq_dims=[0, 1])
        refuses(ValueError, "no_restore_buffers", cp, buffers=[], buffer_seq_dims=[], no_restore_buffers={x})
        refuses(ValueError, "one dimension", mesh, buffers=[], buffer_seq_dims=[])
        refuses(ValueError, "'ring' or 'ulysses'", cp, method="tree")
        refuses(TypeError, "plain tensors", cp, buffers=[3], buffer_seq_dims=[0])
        refuses(RuntimeError, "record gradients", cp, buffers=[mt.ones(8, device="meta", requires_grad=True) * 2], buffer_seq_dims=[0])
        refuses(IndexError, "range", cp, buffers=[mt.empty(8, device="meta")], buffer_seq_dims=[1])
        with pytest.raises(NotImplementedError, match="'allgather' or 'alltoall'"):
            set_rotate_method("bcast")

        q, k = mt.empty(1, 6, 8, 4, device="meta"), mt.empty(1, 3, 8, 4, device="meta")
        for attention in (ring_attention, ulysses_attention):
            with pytest.raises(ValueError, match=r"4 dimensions: query \[6, 8, 4\]"):
                attention(q[0], q[0], q[0], cp)
            with pytest.raises(ValueError, match="two chunks"):
                attention(q[:, :4, 1:], q[:, :4, 1:], q[:, :4, 1:], cp, is_causal=True)
        with pytest.raises(ValueError, match=r"heads cannot be divided evenly among 4 ranks: query \[1, 6"):
            ulysses_attention(q, q, q, cp)
        with pytest.raises(ValueError, match="enable_gqa"):
            ring_attention(q, k, k, cp)
        with pytest.raises(ValueError, match="multiple"):
            ring_attention(q, mt.empty(1, 4, 8, 4, device="meta"), k, cp, enable_gqa=True)
        with pytest.raises(NotImplementedError, match="same length"):
            ring_attention(q, q[:, :, :4], q[:, :, :4], cp, is_causal=True)
        with pytest.raises(RuntimeError, match="sizes do not match"):
            ring_attention(q, q[:, :, :4], q, cp)
        with pytest.raises(ValueError, match="seq_dim=1"):
            _ContextParallel(1, _ContextParallel.AttentionType.SDPA)
        with pytest.raises(NotImplementedError, match="scaled_dot_product_attention"):
            _ContextParallel(2, _ContextParallel.AttentionType.FLEX)
        with pytest.raises(ValueError, match="same names"):
            _context_parallel_shard(cp, {"a": x}, {"b": 0})
        with pytest.raises(ValueError, match="same length"):
            _context_parallel_shard(cp, [x], [])
        with pytest.raises(ValueError, match="1 buffers, but 0"):
            context_parallel_unshard(cp, [x], [])
        with pytest.raises(ValueError, match="length 12"):
            _HeadTailLoadBalancer(12, 4, "meta")
    finally:
        dist.destroy_process_group()


@pytest.mark.torch
@pytest.mark.parametrize("length, size", [(8, 2), (24, 3), (32, 4)])
def test_load_balancer_is_that_of_torch(length, size):
    pytest.importorskip("torch")
    from torch.distributed.tensor.experimental._attention import _HeadTailLoadBalancer as Theirs

    for restore in (False, True):
        ours = _HeadTailLoadBalancer(length, size, "cpu")._generate_indices(restore)
        assert ours.tolist() == Theirs(length, size, "cpu")._generate_indices(restore).tolist()
