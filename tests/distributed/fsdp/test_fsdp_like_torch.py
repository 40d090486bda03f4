"""The collectives and placements of `fully_shard`, compared with PyTorch's on a rank of a world without data."""

import pytest

import metatensor as mt

WORLD = 8


@pytest.fixture
def theirs():
    """Return PyTorch in a world of 8 ranks that does not communicate."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch.distributed.fsdp")
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", rank=3, world_size=WORLD, store=FakeStore())
    yield torch
    torch.distributed.destroy_process_group()


@pytest.fixture
def ours():
    mt.distributed.init_process_group("fake", rank=3, world_size=WORLD)
    yield mt
    mt.distributed.destroy_process_group()


def collectives(library, function):
    """Call a function. Return kind, elements, dtype and size of the group of each collective."""
    if library is mt:
        with mt.distributed.CommunicationLog() as log:
            function()
        widths = {"float32": 4, "bfloat16": 2, "float16": 2, "uint8": 1}
        return [(one.kind, one.bytes // widths[one.dtype], one.dtype) for one in log]
    from torch.utils._python_dispatch import TorchDispatchMode

    names = {"_allgather_base_": ("all_gather", 0), "_reduce_scatter_base_": ("reduce_scatter", 1), "allreduce_": ("all_reduce", 0)}
    found = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            name = str(function).split(".")[1]
            if str(function).startswith("c10d.") and name in names:
                kind, place = names[name]
                tensor = args[place][0] if isinstance(args[place], list) else args[place]
                found.append((kind, tensor.numel(), str(tensor.dtype).split(".")[1]))
            return function(*args, **(kwargs or {}))

    with Log():
        function()
    return found


def network(t, width, vocabulary):
    def block():
        return t.nn.Sequential(t.nn.Linear(width, 3 * width), t.nn.ReLU(), t.nn.Linear(3 * width, width))

    head = t.nn.Linear(width, vocabulary, bias=False)
    return t.nn.Sequential(t.nn.Embedding(vocabulary, width), block(), block(), t.nn.LayerNorm(width), head)


def mesh_of(t, shape=(WORLD,), names=None):
    return t.distributed.init_device_mesh("cpu" if t is not mt else "meta", shape, mesh_dim_names=names)


def step(t, model, times=1):
    tokens = t.zeros(2, 5, dtype=t.int64, device="cpu" if t is not mt else "meta")

    def run():
        for _ in range(times):
            model(tokens).float().sum().backward()

    return run


def built(t, device, width=12, vocabulary=10):
    with t.device(device):
        return network(t, width, vocabulary)


def plain(t, fsdp, sizes=(), **options):
    model = built(t, "cpu" if t is not mt else "meta", *sizes)
    mesh = options.pop("mesh", None) or mesh_of(t)
    for block in (model[1], model[2]):
        fsdp.fully_shard(block, mesh=mesh, **options)
    fsdp.fully_shard(model, mesh=mesh, **options)
    return model


def placements(model):
    return [(name, tuple(map(str, one.placements)), tuple(one.to_local().shape)) for name, one in model.named_parameters()]


CASES = {
    "plain": lambda t, fsdp: plain(t, fsdp),
    "kept": lambda t, fsdp: plain(t, fsdp, reshard_after_forward=False),
    "freed": lambda t, fsdp: plain(t, fsdp, reshard_after_forward=True),
    # Of uneven shards, PyTorch also keeps the padding that all ranks together need.
    "smaller": lambda t, fsdp: plain(t, fsdp, sizes=(16, 24), reshard_after_forward=2),
    "replicas": lambda t, fsdp: plain(t, fsdp, mesh=mesh_of(t, (2, 4), ("a", "b"))),
    "half": lambda t, fsdp: plain(t, fsdp, mp_policy=fsdp.MixedPrecisionPolicy(param_dtype=t.bfloat16, reduce_dtype=t.float32)),
    "float16": lambda t, fsdp: plain(t, fsdp, mp_policy=fsdp.MixedPrecisionPolicy(param_dtype=t.float16, reduce_dtype=t.float16)),
}


@pytest.mark.torch
@pytest.mark.parametrize("case", list(CASES))
def test_collectives(theirs, ours, case):
    import torch.distributed.fsdp as their_fsdp

    from metatensor.distributed import fsdp as our_fsdp

    found = []
    for t, fsdp in ((theirs, their_fsdp), (mt, our_fsdp)):
        model = CASES[case](t, fsdp)
        where = placements(model)
        found.append((where, collectives(t, step(t, model, 2))))
    assert found[0] == found[1]
    assert len(found[0][1]) >= 8


@pytest.mark.torch
@pytest.mark.parametrize("what", ["accumulate", "prefetch", "recompute", "frozen", "several modules", "nested calls"])
def test_collectives_of_other_uses(theirs, ours, what):
    import torch.distributed.fsdp as their_fsdp

    from metatensor.distributed import fsdp as our_fsdp

    found = []
    for t, fsdp in ((theirs, their_fsdp), (mt, our_fsdp)):
        device = "cpu" if t is not mt else "meta"
        if what == "several modules":
            model = built(t, device)
            for block in (model[1], model[2]):
                fsdp.fully_shard(block, mesh=mesh_of(t))
            fsdp.fully_shard([model[3], model[4]], mesh=mesh_of(t))
            fsdp.fully_shard(model, mesh=mesh_of(t))
        else:
            model = plain(t, fsdp)
        run = step(t, model)
        if what == "accumulate":
            def run(t=t, model=model):
                for last in (False, False, True):
                    model.set_requires_gradient_sync(last)
                    model.set_reshard_after_backward(last)
                    step(t, model)()
        elif what == "prefetch":
            model[1].set_modules_to_forward_prefetch([model[2]])
            model[2].set_modules_to_backward_prefetch([model[1]])
            model[1].set_unshard_in_backward(True)
        elif what == "recompute":
            class Recomputed(t.nn.Module):
                def __init__(self, inner, t=t):
                    super().__init__()
                    self.inner, self.t = inner, t

                def forward(self, x):
                    return self.t.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False)

            model[1] = Recomputed(model[1])
        elif what == "frozen":
            for one in model[1].parameters():
                one.requires_grad_(False)
        elif what == "nested calls":
            def run(t=t, model=model, device=device):
                x = t.ones(2, 12, device=device, requires_grad=True)
                inner = model[2](model[1](x)) + model[1](x)
                tokens = t.zeros(2, 5, dtype=t.int64, device=device)
                (inner.sum() + model(tokens).sum()).backward()
            step(t, model)()
        found.append(collectives(t, run))
    assert found[0] == found[1]


@pytest.mark.torch
def test_placements_on_top_of_tensor_parallelism(theirs, ours):
    import torch.distributed.fsdp as their_fsdp
    import torch.distributed.tensor.parallel as their_parallel

    from metatensor.distributed import fsdp as our_fsdp
    from metatensor.distributed.tensor import parallel as our_parallel

    found = []
    for t, fsdp, parallel in ((theirs, their_fsdp, their_parallel), (mt, our_fsdp, our_parallel)):
        device = "cpu" if t is not mt else "meta"
        mesh = mesh_of(t, (2, 2, 2), ("replicate", "shard", "tp"))
        with t.device(device):
            model = t.nn.Sequential(t.nn.Linear(16, 32), t.nn.ReLU(), t.nn.Linear(32, 16), t.nn.LayerNorm(16))
        parallel.parallelize_module(model, mesh["tp"], {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()})
        for layer in (model[0], model[2]):
            fsdp.fully_shard(layer, mesh=mesh["replicate", "shard"])
        fsdp.fully_shard(model, mesh=mesh["replicate", "shard"])
        found.append([(name, repr(one.placements), tuple(one.to_local().shape)) for name, one in model.named_parameters()])
    assert found[0] == found[1]


@pytest.mark.torch
@pytest.mark.parametrize("case", ["plain", "kept", "freed", "replicas", "smaller", "half", "float16"])
def test_peak_memory(theirs, ours, case):
    """Peak of a training step and its parts: what PyTorch's tracker of sharded models counts, to the byte."""
    tracking = pytest.importorskip("torch.distributed._tools.fsdp2_mem_tracker")
    import torch.distributed.fsdp as their_fsdp

    from metatensor.distributed import fsdp as our_fsdp

    sizes = {"sizes": (64, 72)}
    mesh = {"mesh": lambda t: mesh_of(t, (2, 4), ("a", "b"))} if case == "replicas" else {}
    options = {"kept": {"reshard_after_forward": False}, "freed": {"reshard_after_forward": True}, "smaller": {"reshard_after_forward": 2}}

    def build(t, fsdp):
        given = {**sizes, **options.get(case, {}), **{key: value(t) for key, value in mesh.items()}}
        if case == "half":
            given["mp_policy"] = fsdp.MixedPrecisionPolicy(param_dtype=t.bfloat16, reduce_dtype=t.float32)
        if case == "float16":
            given["mp_policy"] = fsdp.MixedPrecisionPolicy(param_dtype=t.float16, reduce_dtype=t.float16)
        model = plain(t, fsdp, **given)
        return model, t.optim.AdamW(model.parameters(), foreach=True)

    def train(t, model, optimizer):
        step(t, model)()
        optimizer.step()
        optimizer.zero_grad()

    model, optimizer = build(theirs, their_fsdp)
    tracker = tracking.FSDPMemTracker(model, optimizer)
    tracker.track_inputs(())
    with tracker:
        train(theirs, model, optimizer)
        tracker.reset_mod_stats()
        train(theirs, model, optimizer)
    (snapshot,) = tracker.get_tracker_snapshot("peak").values()
    counted = {str(kind).split(".")[-1].lower(): size for kind, size in snapshot.items()}
    model, optimizer = build(mt, our_fsdp)
    train(mt, model, optimizer)
    peak = mt.analysis.profile(train, mt, model, optimizer).at_peak()
    assert sum(peak.values()) == counted["total"]
    if case != "smaller":  # where PyTorch counts the shards on fewer ranks as activations
        assert peak["parameter"] == counted["sharded_param"] + counted["unsharded_param"]
    assert peak["optimizer state"] == counted["opt"]
    assert peak.get("communication", 0) == counted["all_gather"] + counted["reduce_scatter"]
