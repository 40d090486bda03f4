"""What the tests run on every rank of a world, with any communicator: each function checks the results of its rank.

They run in a world that is already connected, with ``place`` the device of their tensors. `PROGRAMS` lists them.
"""

import metatensor as mt
from metatensor import distributed as dist
from metatensor import nn
from metatensor.distributed import _functional_collectives as functional
from metatensor.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from metatensor.distributed.nn import functional as nn_functional


def here():
    return dist.get_rank(), dist.get_world_size()


def filled(value, shape=(3,), dtype=mt.float32, place="cpu"):
    return mt.full(shape, value, dtype=dtype, device=place)


def reductions(place):
    rank, size = here()
    ranks = range(size)
    expected = {"SUM": sum(r + 1 for r in ranks), "MAX": size, "MIN": 1, "AVG": (size + 1) / 2}
    product = 1
    for r in ranks:
        product *= r + 1
    expected["PRODUCT"] = product
    for dtype in (mt.float32, mt.float64, mt.float16, mt.bfloat16, mt.int64, mt.int32, mt.uint8, mt.complex64):
        for name, value in expected.items():
            if (name == "AVG" and dtype in (mt.int64, mt.int32, mt.uint8)) or (dtype == mt.complex64 and name not in ("SUM", "AVG")):
                continue
            x = filled(rank + 1, (2, 3), dtype, place)
            dist.all_reduce(x, dist.ReduceOp[name])
            assert x.tolist() == filled(value, (2, 3), dtype, place).tolist(), (dtype, name)
    for name, function in (("BAND", mt.bitwise_and), ("BOR", mt.bitwise_or), ("BXOR", mt.bitwise_xor)):
        x, value = filled(rank + 5, dtype=mt.int32, place=place), filled(5, dtype=mt.int32, place=place)
        for other in ranks[1:]:
            value = function(value, filled(other + 5, dtype=mt.int32, place=place))
        dist.all_reduce(x, dist.ReduceOp[name])
        assert x.tolist() == value.tolist()
    flags = mt.tensor([rank == 0, True, False], device=place)
    dist.all_reduce(flags, dist.ReduceOp.MAX)
    assert flags.tolist() == [True, True, False]
    x = filled(rank, place=place)
    dist.reduce(x, size - 1)
    assert x.tolist() == [sum(ranks) if rank == size - 1 else rank] * 3
    # A tensor that is not contiguous
    x = filled(1.0, (2, 3), place=place).t()
    dist.all_reduce(x)
    assert x.tolist() == [[size] * 2] * 3


def gathering(place):
    rank, size = here()
    x = mt.arange(2, device=place) + 10 * rank
    parts = [mt.empty(2, dtype=mt.int64, device=place) for _ in range(size)]
    dist.all_gather(parts, x)
    assert [part.tolist() for part in parts] == [[10 * r, 10 * r + 1] for r in range(size)]
    whole = mt.empty(size, 2, dtype=mt.int64, device=place)
    whole[rank] = x
    dist.all_gather_into_tensor(whole, whole[rank])  # the input is a part of the output
    assert whole.tolist() == [[10 * r, 10 * r + 1] for r in range(size)]
    work = dist.all_gather_into_tensor(whole.zero_(), x, async_op=True)
    assert work.wait() and work.is_completed() and work.exception() is None
    assert whole.tolist() == [[10 * r, 10 * r + 1] for r in range(size)]
    for root in range(size):
        dist.gather(x, parts if rank == root else None, dst=root)
        received = mt.empty(2, dtype=mt.int64, device=place)
        dist.scatter(received, [mt.full((2,), root * 100 + r, device=place) for r in range(size)] if rank == root else None, src=root)
        assert received.tolist() == [root * 100 + rank] * 2
        y = mt.full((2, 2), float(rank), dtype=mt.bfloat16, device=place)
        dist.broadcast(y, root)
        assert y.tolist() == [[root] * 2] * 2
    out = mt.empty(2, device=place)
    dist.reduce_scatter_tensor(out, mt.arange(2.0 * size, device=place) + rank)
    assert out.tolist() == [size * 2.0 * rank + sum(range(size)), size * (2.0 * rank + 1) + sum(range(size))]
    for dtype in (mt.float32, mt.bfloat16):
        whole = mt.arange(2 * size, device=place).to(dtype) + rank
        part = whole[2 * rank : 2 * rank + 2]  # the result may be a part of the input
        dist.reduce_scatter_tensor(part, whole)
        assert part.tolist() == out.tolist()
    dist.reduce_scatter(out, [filled(float(r), (2,), place=place) for r in range(size)], dist.ReduceOp.AVG)
    assert out.tolist() == [rank, rank]


def exchanging(place):
    rank, size = here()
    out = mt.empty(size, dtype=mt.int64, device=place)
    dist.all_to_all_single(out, mt.arange(size, device=place) + 10 * rank)
    assert out.tolist() == [10 * r + rank for r in range(size)]
    # Rank r sends s + 1 rows to rank s.
    given = mt.cat([mt.full((s + 1, 2), float(10 * rank + s), device=place) for s in range(size)])
    out = mt.empty((rank + 1) * size, 2, device=place)
    dist.all_to_all_single(out, given, [rank + 1] * size, [s + 1 for s in range(size)])
    assert out[:, 0].tolist() == [10 * r + rank for r in range(size) for _ in range(rank + 1)]
    outs = [mt.empty(r + 1, device=place) for r in range(size)]
    dist.all_to_all(outs, [filled(float(rank), (rank + 1,), place=place) for _ in range(size)])
    assert [one.tolist() for one in outs] == [[r] * (r + 1) for r in range(size)]


def messages(place):
    rank, size = here()
    if size == 1:
        return
    after, before = (rank + 1) % size, (rank - 1) % size
    received = mt.empty(4, device=place)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.irecv, received, before), dist.P2POp(dist.isend, filled(float(rank), (4,), place=place), after),
    ])  # fmt: skip
    for work in works:
        work.wait()
    assert received.tolist() == [before] * 4
    if rank == 0:
        dist.send(filled(7.0, place=place), 1, tag=3)
        dist.send(filled(8.0, place=place), 1, tag=3)
    elif rank == 1:
        got = [mt.empty(3, device=place), mt.empty(3, device=place)]
        assert [dist.recv(one, 0, tag=3) for one in got] == [0, 0]
        assert [one.tolist() for one in got] == [[7.0] * 3, [8.0] * 3]


def first_message(place):
    """The first message in a group concerns two of its ranks, and the others do not wait."""
    rank, size = here()
    group = dist.new_group(range(size), group_desc="messages")
    if size > 1 and rank == 0:
        dist.send(filled(5.0, place=place), 1, group)
    elif rank == 1:
        got = mt.empty(3, device=place)
        dist.recv(got, 0, group)
        assert got.tolist() == [5.0] * 3


def any_source(place):
    rank, size = here()
    if rank == 0:
        sources = set()
        for _ in range(size - 1):
            got = mt.empty(1, device=place)
            source = dist.recv(got)
            assert got.item() == source
            sources.add(source)
        assert sources == set(range(1, size))
    else:
        dist.send(mt.tensor([float(rank)], device=place), 0)


def objects(place):
    rank, size = here()
    found = [None] * size
    dist.all_gather_object(found, {"rank": rank, "text": "x" * rank})
    assert found == [{"rank": r, "text": "x" * r} for r in range(size)]
    given = ["a", {rank: 1}] if rank == size - 1 else [None, None]
    dist.broadcast_object_list(given, size - 1)
    assert given == ["a", {size - 1: 1}]
    gathered = [None] * size if rank == 0 else None
    dist.gather_object((rank,), gathered)
    assert gathered == ([(r,) for r in range(size)] if rank == 0 else None)
    received = [None]
    dist.scatter_object_list(received, [f"to {r}" for r in range(size)] if rank == 0 else None)
    assert received == [f"to {rank}"]
    if size > 1 and rank == 0:
        dist.send_object_list([{"a": 1}, None], 1)
    elif rank == 1:
        got = [0, 0]
        assert dist.recv_object_list(got, 0) == 0 and got == [{"a": 1}, None]


def groups(place):
    rank, size = here()
    even, odd = dist.new_group(range(0, size, 2)), dist.new_group(range(1, size, 2)) if size > 1 else None
    mine = even if rank % 2 == 0 else odd
    other = odd if rank % 2 == 0 else even
    assert dist.get_rank(mine) == rank // 2 and dist.get_world_size(mine) == len(range(rank % 2, size, 2))
    x = filled(float(rank), place=place)
    dist.all_reduce(x, group=mine)
    assert x.tolist() == [sum(range(rank % 2, size, 2))] * 3
    if other is not None:
        assert other is dist.GroupMember.NON_GROUP_MEMBER and dist.get_rank(other) == -1
        assert dist.all_reduce(x, group=other) is None
    last = dist.get_global_rank(mine, dist.get_world_size(mine) - 1)
    y = filled(float(rank), place=place)
    dist.broadcast(y, last, group=mine)
    assert y.tolist() == [last] * 3 and dist.get_group_rank(mine, rank) == rank // 2
    again = dist.new_group(range(size))  # another group of all ranks
    dist.all_reduce(filled(1.0, place=place), group=again)
    pairs = dist.new_subgroups(1)[0]
    z = filled(2.0, place=place)
    dist.all_reduce(z, group=pairs)
    assert z.tolist() == [2.0] * 3 and dist.get_process_group_ranks(pairs) == [rank]
    reverse = dist.new_group(range(size)[::-1], sort_ranks=False)
    parts = mt.empty(size, device=place)
    dist.all_gather_into_tensor(parts, filled(float(rank), (1,), place=place), group=reverse)
    assert parts.tolist() == [float(r) for r in range(size)][::-1] and dist.get_rank(reverse) == size - 1 - rank
    dist.barrier(mine)
    dist.destroy_process_group(mine)
    dist.barrier()


def coalesced(place):
    rank, size = here()
    xs = [filled(float(rank + i), place=place) for i in range(3)]
    dist.all_reduce_coalesced(xs)
    assert [x.tolist() for x in xs] == [[sum(r + i for r in range(size))] * 3 for i in range(3)]
    a, b = filled(1.0, place=place), mt.empty(3 * size, device=place)
    with dist._coalescing_manager(async_ops=True) as manager:
        dist.all_reduce(a)
        dist.all_gather_into_tensor(b, filled(float(rank), place=place))
    manager.wait()
    assert a.tolist() == [size] * 3 and b.tolist() == [r for r in range(size) for _ in range(3)]


def gradients(place):
    rank, size = here()
    everybody = list(range(size))

    def grad(function, shape=(2 * size, 3)):
        x = (mt.arange(1.0, 1 + shape[0] * shape[1], device=place).reshape(shape) * (rank + 1)).requires_grad_()
        y = function(x)
        weight = mt.arange(1.0, 1 + y.numel(), device=place).reshape(y.shape) * (rank + 2)
        (y * weight).sum().backward()
        return x, functional.wait_tensor(y), weight

    total = sum(r + 2 for r in range(size))
    x, y, weight = grad(lambda x: functional.all_reduce(x, "sum", everybody))
    assert mt.allclose(y, x / (rank + 1) * sum(r + 1 for r in range(size)))
    assert mt.allclose(x.grad, weight / (rank + 2) * total)
    x, y, weight = grad(lambda x: functional.reduce_scatter_tensor(x, "sum", 0, everybody))
    assert y.shape == (2, 3)
    parts = [mt.arange(1.0, 7, device=place).reshape(2, 3) * (r + 2) for r in range(size)]
    assert mt.allclose(x.grad, mt.cat(parts))
    for dim in (0, 1):
        x, y, weight = grad(lambda x: functional.all_gather_tensor(x, dim, everybody), (2, 2 * size))
        assert y.shape[dim] == x.shape[dim] * size
        assert mt.allclose(x.grad, weight.chunk(size, dim)[rank] / (rank + 2) * total)
    x, y, weight = grad(lambda x: functional.all_to_all_single(x, None, None, everybody))
    sent = [mt.arange(1.0, 1 + 6 * size, device=place).reshape(2 * size, 3) * (r + 2) for r in range(size)]
    assert mt.allclose(x.grad, mt.cat([one.chunk(size)[rank] for one in sent]))
    x, y, weight = grad(lambda x: functional.permute_tensor(x, [(r + 1) % size for r in range(size)], everybody))
    assert mt.allclose(x.grad, weight / (rank + 2) * ((rank + 1) % size + 2))
    x, y, weight = grad(lambda x: functional.broadcast(x, 0, everybody))
    assert mt.allclose(x.grad, weight / (rank + 2) * total if rank == 0 else mt.zeros_like(x))
    x, y, weight = grad(lambda x: nn_functional.all_gather(x)[size - 1])
    assert mt.allclose(x.grad, weight / (rank + 2) * total if rank == size - 1 else mt.zeros_like(x))
    x, y, weight = grad(lambda x: nn_functional.reduce(x, 0))
    assert mt.allclose(x.grad, weight / (rank + 2) * 2)
    x, y, weight = grad(lambda x: mt.stack(nn_functional.gather(x, 0)))
    shape = weight.shape
    root = mt.arange(1.0, 1 + weight.numel(), device=place).reshape(shape) * 2
    assert mt.allclose(x.grad, root[rank])


def waiting(place):
    """The result of a functional collective waits when it is used."""
    rank, size = here()
    y = functional.all_reduce(filled(1.0, place=place), "sum", list(range(size)))
    assert isinstance(y, functional.AsyncCollectiveTensor) == (size > 1)
    assert y.shape == (3,) and (y + 1).tolist() == [size + 1] * 3
    assert type(y + 1) is mt.Tensor and y.tolist() == [size] * 3
    future = dist.all_reduce(filled(1.0, place=place), async_op=True).get_future().then(lambda f: f.value()[0].tolist())
    assert future.wait() == [size] * 3


def fully_sharded(place):
    """Gradients of a sharded model are those of the whole one: plain, with replicas, and in lower precision."""
    rank, size = here()

    def build():
        generator = mt.Generator("cpu").manual_seed(3)
        layers = nn.Sequential(nn.Linear(6, 5, device=place), nn.Tanh(), nn.Linear(5, 3, device=place))
        with mt.no_grad():
            for one in layers.parameters():
                one.copy_(mt.randn(one.shape, generator=generator))
        return layers

    x = mt.arange(12.0 * size, device=place).reshape(2 * size, 6) / (6 * size)
    whole = build()
    whole(x).square().mean().backward()
    meshes = [((size,), None)] + ([((size // 2, 2), ("replicate", "shard"))] if size % 2 == 0 else [])
    for shape, names in meshes:
        mesh = dist.init_device_mesh(place, shape, mesh_dim_names=names)
        for policy in (MixedPrecisionPolicy(), MixedPrecisionPolicy(param_dtype=mt.bfloat16, reduce_dtype=mt.float32)):
            model = build()
            for layer in (model[0], model[2], model):
                fully_shard(layer, mesh=mesh, mp_policy=policy)
            model(x.chunk(size)[rank]).float().square().mean().backward()
            tolerance = 1e-5 if policy.param_dtype is None else 0.05
            for one, other in zip(model.parameters(), whole.parameters()):
                assert mt.allclose(one.grad.full_tensor(), other.grad, atol=tolerance, rtol=tolerance)


PROGRAMS = [first_message, reductions, gathering, exchanging, messages, any_source, objects, groups, coalesced, gradients, waiting,
            fully_sharded]  # fmt: skip
