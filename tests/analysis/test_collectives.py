"""Predicted times of collectives: hand-worked numbers, and published bus bandwidths."""

import pytest

from benchmarks.collectives import rows
from metatensor.analysis import collective_time
from metatensor.analysis.collectives import KINDS, bus_factor, route_time
from metatensor.devices.topologies import topology

US = 1e-6
NVLINK = 450e9 * 0.824  # one H100, usable
PORT = 50e9 * 0.96  # one port of 400 Gb/s, usable
GIB = 2**30


def test_all_gather_in_a_node_by_hand():
    # NCCL's simple protocol: 8.4 us, 7 steps of 3.4 us; each device receives 7/8 of the output.
    time = collective_time("all_gather", GIB, range(8), "8xH100")
    assert time.seconds == pytest.approx(8.4 * US + 7 * 3.4 * US + 7 / 8 * GIB / NVLINK)
    assert (time.algorithm, time.protocol) == ("ring", "Simple")
    assert time.latency == pytest.approx(32.2 * US) and time.transfer == pytest.approx(7 / 8 * GIB / NVLINK)
    assert collective_time("reduce_scatter", GIB, range(8), "8xH100") == time


def test_all_reduce_in_a_node_by_hand():
    # A100 switches do not reduce: a ring passes the data twice.
    time = collective_time("all_reduce", GIB, range(8), "8xA100")
    assert time.seconds == pytest.approx(8.4 * US + 14 * 3.4 * US + 2 * 7 / 8 * GIB / (300e9 * 0.8))
    # H100: each device sends its data and an eighth of the sums, at 85% of the usable bandwidth.
    time = collective_time("all_reduce", GIB, range(8), "8xH100")
    assert time.seconds == pytest.approx(25 * US + GIB * (1 + 1 / 8) / (NVLINK * 0.85)) and time.algorithm == "switch"


def test_rings_over_many_nodes_by_hand():
    # 8 of 64 ranks, one in each node, each with one port; nothing hides a step's latency, so trees' steps of 14 us count.
    across = collective_time("reduce_scatter", GIB, range(0, 64, 8), "64xH100")
    assert across.seconds == pytest.approx(8.4 * US + 7 * 14 * US + 7 / 8 * GIB / PORT)
    # All 64: 63 steps, 7 of them between nodes; eight ports of a node carry what eight rings carry.
    whole = collective_time("all_gather", GIB, range(64), "64xH100")
    assert whole.seconds == pytest.approx(8.4 * US + 56 * 3.4 * US + 7 * 14 * US + 63 / 64 * GIB / NVLINK)
    slow = collective_time("all_gather", GIB, range(64), "64xH100, 200Gb/s HDR")
    assert slow.transfer == pytest.approx(63 / 64 * GIB / (8 * 25e9 * 0.96))


def test_short_messages_use_the_low_latency_protocol():
    time = collective_time("all_reduce", 1024, range(8), "8xH100")
    assert time.protocol == "LL" and time.seconds == pytest.approx(6.6 * US + 14 * 0.6 * US, rel=0.01)
    # Over many nodes a tree has fewer steps: 2 (7 chain steps + log2(64) steps between nodes).
    far = collective_time("all_reduce", 1024, range(512), "512xH100")
    assert (far.algorithm, far.protocol) == ("tree", "LL")
    assert far.latency == pytest.approx(6.8 * US + 2 * (7 * 0.6 + 6 * 5) * US)


def test_messages_by_hand():
    near = collective_time("send", GIB, [0, 1], "16xH100")
    assert near.seconds == pytest.approx(8.4 * US + 3.4 * US + GIB / NVLINK)
    far = collective_time("recv", GIB, [0, 8], "16xH100")
    assert far.seconds == pytest.approx(8.4 * US + 14 * US + GIB / PORT)
    assert collective_time("send", GIB, [0, 1], "8xMI300X").transfer == pytest.approx(GIB / (64e9 * 0.75))


@pytest.mark.parametrize("nodes", [2, 4, 16])
def test_all_to_all_over_nodes(nodes):
    """nccl-tests#130: with a port for each device, the bus bandwidth is n / (n - 1) times that of a port (NVLink aside)."""
    size = 64 * GIB
    time = collective_time("all_to_all", size, range(8 * nodes), f"{8 * nodes}xH100")
    bus = size / time.transfer * bus_factor("all_to_all", 8 * nodes)
    assert bus == pytest.approx(PORT * (8 * nodes - 1) / (8 * nodes) * nodes / (nodes - 1))


def test_the_root_receives_everything():
    part = GIB // 8
    time = collective_time("gather", part, range(8), "8xH100")
    assert time.transfer == pytest.approx(7 * part / NVLINK)
    assert collective_time("scatter", part, range(8), "8xH100") == time


def test_published_bus_bandwidths():
    """Nothing was fitted: messages of at least 1 GiB are within 20%, shorter ones within 25%."""
    for row in rows():
        assert abs(row["error"]) < (0.2 if row["bytes"] >= GIB else 0.25), row


def test_bus_factors_are_those_of_nccl_tests():
    assert bus_factor("all_reduce", 8) == 1.75 and bus_factor("all_gather", 8) == bus_factor("all_to_all", 8) == 0.875
    assert bus_factor("broadcast", 8) == bus_factor("send", 2) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["8xH100", "64xH100", "8xMI300X", "8xl40s", "16xA100, 4x200Gb/s IB", "144xGB200"])
def test_times_grow_with_bytes_and_never_beat_the_links(kind, text):
    cluster = topology(text)
    route = cluster.route((0, 1) if kind in ("send", "recv") else range(cluster.size))
    times = [route_time(kind, size, route).seconds for size in (0, 1, 10**3, 10**6, 10**9)]
    assert times == sorted(times) and times[0] > 0
    if kind in ("all_gather", "reduce_scatter"):
        assert times[-1] > (route.ranks - 1) / route.ranks * 1e9 / route.device_bandwidth


def test_uneven_groups():
    # Three ranks on one node, one on another.
    time = collective_time("all_gather", GIB, [0, 1, 2, 8], "16xH100")
    assert time.seconds > 3 / 4 * GIB / NVLINK


def test_one_rank_and_errors():
    assert collective_time("all_reduce", GIB, [3], "8xH100").seconds == 0
    with pytest.raises(ValueError, match="no kind of collective is named 'all_sum'"):
        collective_time("all_sum", 1, range(8), "8xH100")
    with pytest.raises(ValueError, match="at least 0 bytes"):
        collective_time("all_reduce", -1, range(8), "8xH100")
