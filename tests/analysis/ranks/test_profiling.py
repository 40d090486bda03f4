"""`profile_ranks` on small programs: times, memory by category, classes of ranks."""

import gzip
import json

import pytest

import metatensor as mt
from metatensor import distributed as dist
from metatensor import nn
from metatensor.analysis import TopologyError, collective_time, device_profile, profile_ranks
from metatensor.analysis.timing import EFFICIENCY
from metatensor.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

WIDTH = 4096
H100 = device_profile("h100")


def product_seconds(rows, inner, columns):
    return 2 * rows * inner * columns / (H100.rate("bfloat16") * EFFICIENCY["product"])


def linear(width=WIDTH, out=None):
    return nn.Linear(width, out or width, bias=False, device="meta", dtype=mt.bfloat16)


def tokens(rows=8192):
    return mt.empty(rows, WIDTH, device="meta", dtype=mt.bfloat16)


def ddp():
    dist.init_process_group()
    return nn.parallel.DistributedDataParallel(nn.Sequential(linear(), linear())), tokens()


def backward(model, x):
    model(x).sum().backward()


def test_gradients_are_reduced_beside_the_backward_pass():
    found = profile_ranks(backward, setup=ddp, topology="16xH100", ranks="all")
    assert found.world_size == 16 and len(found.classes) == 16
    one = found.classes[3]
    kinds = [(each.entry.kind, each.entry.bytes, each.phase) for each in one.operations]
    assert kinds == [("all_reduce", 2 * WIDTH * WIDTH, "backward")] * 2 or kinds == [("all_reduce", 4 * WIDTH * WIDTH, "backward")]
    for each in one.operations:
        assert each.seconds == collective_time("all_reduce", each.entry.bytes, range(16), "16xH100").seconds
        assert str(each.route) == "2 nodes over InfiniBand NDR, 8 ranks over NVLink 4 in each"
    forward = one.phases()["forward"]
    assert forward == pytest.approx(2 * product_seconds(8192, WIDTH, WIDTH), rel=0.2)
    assert found.seconds == pytest.approx(one.compute + one.exposed) and found.bubble == pytest.approx(0)
    assert 0 < one.exposed <= one.communication * (1 + 1e-9)


def test_one_rank_of_each_class_gives_the_same_as_all():
    some, every = (profile_ranks(backward, setup=ddp, topology="16xH100", ranks=ranks) for ranks in ("groups", "all"))
    assert len(some.classes) == 1 and some.classes[0].ranks == list(range(16))
    assert some.seconds == pytest.approx(every.seconds) and some.of(13) is some.classes[0]
    assert some.classes[0].memory.at_peak() == every.classes[5].memory.at_peak()
    with pytest.raises(IndexError, match="no rank 16"):
        some.of(16)


def tensor_parallel(dp, tp):
    dist.init_process_group()
    mesh = dist.init_device_mesh("meta", (dp, tp), mesh_dim_names=("dp", "tp"))
    model = nn.Sequential(linear(WIDTH, 4 * WIDTH), nn.ReLU(), linear(4 * WIDTH, WIDTH))
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return model, tokens(), mt.optim.AdamW(model.parameters())


def train(model, x, optimizer):
    model(x).sum().backward()
    optimizer.step()


def test_memory_of_distributed_tensors_has_categories():
    found = profile_ranks(train, 2, 8, setup=tensor_parallel, topology="16xH100")
    assert [one.ranks for one in found.classes] == [list(range(16))]
    weights = 2 * (2 * 4 * WIDTH * WIDTH) // 8  # two matrices in bfloat16, an eighth of each
    one = found.classes[0]
    final = one.memory.timeline("category")[-1][1]
    assert final["parameter"] == final["gradient"] == weights
    assert 2 * weights <= final["optimizer state"] <= 2 * weights + 64
    assert found.worst is one and found.memory()[0]["categories"] == one.memory.at_peak()
    reduce = [each for each in one.operations if each.entry.kind == "all_reduce"]
    assert reduce[0].entry.bytes == 2 * 8192 * WIDTH and reduce[0].entry.group == tuple(range(8))
    assert one.phases()["optimizer"] > 0


STAGES, MICRO = 4, 6


def stage():
    dist.init_process_group()
    return linear(), dist.get_rank()


def gpipe(model, rank):
    """Forward passes only: each micro-batch passes the stages one after the other."""
    for _ in range(MICRO):
        x = tokens()
        if rank:
            dist.recv(x, rank - 1)
        with mt.no_grad():
            y = model(x)
        if rank < STAGES - 1:
            dist.send(y, rank + 1)


@pytest.mark.parametrize("ranks", ["groups", "all"])
def test_the_bubble_of_a_pipeline(ranks):
    found = profile_ranks(gpipe, setup=stage, topology="4xH100", ranks=ranks, memory=False)
    part, message = product_seconds(8192, WIDTH, WIDTH), collective_time("send", 2 * 8192 * WIDTH, (0, 1), "4xH100").seconds
    # Blocking messages: a stage sends, then computes. The first stage never waits for data, the last one starts after the others.
    assert found.seconds == pytest.approx(STAGES * part + (STAGES - 1) * message + (MICRO - 1) * (part + 2 * message), rel=1e-6)
    for one in found.classes:
        assert one.compute == pytest.approx(MICRO * part)
        assert found.idle(one) + one.compute + one.exposed == pytest.approx(found.seconds)
    assert found.bubble == pytest.approx(1 - (MICRO * part + sum(one.exposed for one in found.classes) / STAGES) / found.seconds)
    assert found.worst is None and found.memory() == []


def test_memory_of_each_stage():
    def step(model, rank):
        return model(tokens((rank + 1) * 1024))

    found = profile_ranks(step, setup=stage, topology="4xH100", ranks="all")
    assert found.worst.ranks == [3]
    peaks = [row["peak"] for row in found.memory()]
    assert peaks == [2 * WIDTH * WIDTH + 2 * 2 * WIDTH * 1024 * (rank + 1) for rank in range(4)]


def test_text_and_json():
    found = profile_ranks(backward, setup=ddp, topology="16xH100")
    text = str(found)
    assert "step on 16xh100-sxm-80gb (2 nodes of 8)" in text and "0-15" in text and "all_reduce" in text
    assert "time leaves out" in text
    data = json.loads(found.to_json())
    assert data["world_size"] == 16 and data["seconds"] == found.seconds and data["classes"][0]["ranks"] == list(range(16))
    assert data["classes"][0]["operations"][0]["group"] == list(range(16))
    assert sum(data["classes"][0]["phases"].values()) == pytest.approx(data["classes"][0]["compute"])
    assert repr(found).startswith("RanksProfile(16 ranks, 1 classes")


def test_the_trace_is_valid(tmp_path):
    """Required keys of the trace event format, and slices of a thread that do not overlap."""
    found = profile_ranks(gpipe, setup=stage, topology="4xH100", memory=False)
    path = tmp_path / "trace.json.gz"
    found.to_chrome_trace(path)
    data = json.loads(gzip.decompress(path.read_bytes()))
    names, last = {}, {}
    for event in data["traceEvents"]:
        assert event["ph"] in "MX" and isinstance(event["pid"], int) and event["name"]
        if event["ph"] == "M":
            names[event["pid"], event.get("tid"), event["name"]] = event["args"]
            continue
        assert event["dur"] > 0 and event["ts"] >= last.get((event["pid"], event["tid"]), 0) - 1e-6
        last[event["pid"], event["tid"]] = event["ts"] + event["dur"]
        assert (event["pid"], event["tid"], "thread_name") in names
    assert {key[0] for key in names} == {0, 1, 2, 3}
    assert names[1, None, "process_name"]["name"] == "rank 1"
    assert max(last.values()) == pytest.approx(found.seconds * 1e6)
    assert data["otherData"]["topology"] == "4xh100-sxm-80gb"


def test_unknown_rates_are_not_zero():
    found = profile_ranks(lambda: tokens() @ tokens().t(), topology="2xt4", memory=False)
    assert found.seconds is None and found.unknown and "unknown" in str(found)


def test_the_world_must_fit_the_topology():
    with pytest.raises(TopologyError, match="has 16 devices, but the program has 8 ranks"):
        profile_ranks(backward, setup=ddp, topology="16xH100", world_size=8)
    assert profile_ranks(backward, setup=ddp, topology="h100", world_size=32, memory=False).topology.nodes == 4


def test_errors_of_the_step_are_raised():
    def wrong():
        raise ValueError("no such layer")

    with pytest.raises(ValueError, match="no such layer"):
        profile_ranks(wrong, topology="2xH100")
