"""Topologies: descriptions, files, routes, and errors that name the nearest topology that adds up."""

import os
from pathlib import Path

import pytest

from metatensor.devices import topologies as package
from metatensor.devices.profiles.quantities import parse_quantity
from metatensor.devices.topologies import TopologyError, load_system, topologies, topology
from metatensor.devices.topologies.loading import protocols

SYSTEMS = sorted(path.stem for path in (Path(package.__file__).parent / "systems").glob("*.toml"))


def test_the_usual_system_of_a_device():
    cluster = topology("64xH100")
    assert (cluster.nodes, cluster.devices_per_node, cluster.size) == (8, 8, 64)
    assert cluster.interconnect.name == "NVLink 4" and cluster.interconnect.arrangement == "switch"
    assert cluster.interconnect.bandwidth == cluster.device.link("node").bandwidth == 450e9
    assert (cluster.network.name, cluster.network.rails, cluster.network.bandwidth) == ("InfiniBand NDR", 8, 50e9)
    assert topology("8xH100 per node, 8 nodes, 400Gb/s IB").to_dict() | {"figures": 0} == cluster.to_dict() | {"figures": 0}
    assert topology("8xdgx-h100").to_dict()["devices"] == 64


@pytest.mark.parametrize(("text", "nodes", "per_node", "network"), [
    ("H100", 1, 8, ("InfiniBand NDR", 8, 50e9)),
    ("4xH100", 1, 4, ("InfiniBand NDR", 8, 50e9)),
    ("2 x dgx-a100", 2, 8, ("InfiniBand HDR", 8, 25e9)),
    ("dgx-h100, 3 nodes", 3, 8, ("InfiniBand NDR", 8, 50e9)),
    ("12xH100, 4 per node", 3, 4, ("InfiniBand NDR", 8, 50e9)),
    ("12xH100, 3 nodes", 3, 4, ("InfiniBand NDR", 8, 50e9)),
    ("12xH100, 3 nodes of 4", 3, 4, ("InfiniBand NDR", 8, 50e9)),
    ("16xA100, 4x200Gb/s RoCE", 2, 8, ("RoCE", 4, 25e9)),
    ("16xA100, 200 Gbps HDR, 2 rails", 2, 8, ("InfiniBand HDR", 2, 25e9)),
    ("16xRTX 4090, 100Gb/s Ethernet", 2, 8, ("RoCE", 8, 12.5e9)),
    ("144xGB200", 2, 72, ("InfiniBand NDR", 72, 50e9)),
    ("8xl40s", 1, 8, None),
])  # fmt: skip
def test_descriptions(text, nodes, per_node, network):
    found = topology(text)
    assert (found.nodes, found.devices_per_node) == (nodes, per_node)
    assert (found.network and found.network[:3]) == network


def test_a_text_without_a_number_gets_the_world_size():
    assert topology("h100", world_size=512).nodes == 64
    assert topology("h100", world_size=4).devices_per_node == 4
    assert topology("dgx-h100", world_size=32).nodes == 4


@pytest.mark.parametrize(("text", "message"), [
    ("60xH100", "60 devices do not fill nodes of 8; nearest are 56xH100 (7 nodes) and 64xH100 (8 nodes)"),
    ("60xH100", "'60xH100, 6 per node'"),
    ("64xH100, 3 nodes", "nearest are 63xH100 (21 in each) and 66xH100 (22 in each)"),
    ("64xH100, 4 nodes of 8", "4 nodes of 8 have 32 devices, not 64"),
    ("2xdgx-h100, 3 nodes", "do not agree"),
    ("64xH900", "no device profile is named 'H900'. Did you mean"),
    ("2xdgx-h10", "Systems: dgx-h100"),
    ("64xH100, banana", "'banana' is not a number of nodes, a network or an oversubscription"),
    ("64xH100, 400Gb/s token ring", "no kind of network is named 'token ring'"),
    ("64xH100, 8 nodes, 8 nodes", "nodes given twice"),
    ("64xH100, 0 nodes", "must not be zero"),
    ("0xH100", "at least one"),
    ("", "describes no devices"),
    ("8xl40s, 2:1 oversubscription", "needs a network"),
    ("8xl40s, 2 rails", "rails need a network"),
    ("64xH100, 0.5:1 oversubscription", "at least 1:1"),
    ("no/such/file.toml", "No such file"),
])  # fmt: skip
def test_what_does_not_add_up(text, message):
    with pytest.raises(TopologyError) as error:
        topology(text)
    assert message in str(error.value)


def test_the_number_of_ranks_must_fit():
    with pytest.raises(TopologyError, match="has 64 devices, but the program has 512 ranks; use '512xh100-sxm-80gb'"):
        topology("64xH100", world_size=512)
    with pytest.raises(TopologyError, match="worlds of 56 and 64 ranks fill nodes of 8"):
        topology("64xH100", world_size=60)
    with pytest.raises(TopologyError, match="rank 64 has no device"):
        topology("64xH100").route([0, 64])


def test_routes_follow_from_the_places_of_ranks():
    cluster = topology("64xH100")
    inside = cluster.route(range(8, 16))
    assert (inside.ranks, inside.nodes, inside.per_node, inside.links) == (8, 1, 8, ("NVLink 4",))
    assert inside.device_bandwidth == 450e9 * 0.824 and inside.node_bandwidth == float("inf")
    across = cluster.route(range(3, 64, 8))
    assert (across.nodes, across.per_node, across.links) == (8, 1, ("InfiniBand NDR",))
    assert across.node_bandwidth == 8 * 50e9 * 0.96 / 8  # one of eight devices: an eighth of the ports
    both = cluster.route(range(32))
    assert (both.nodes, both.per_node, both.links) == (4, 8, ("NVLink 4", "InfiniBand NDR"))
    assert both.node_bandwidth == 8 * 50e9 * 0.96
    assert str(both) == "4 nodes over InfiniBand NDR, 8 ranks over NVLink 4 in each"
    assert str(cluster.route([5])) == "1 rank"
    assert cluster.route(range(8, 16)) is cluster.route(range(8, 16))


def test_fewer_ports_than_devices_are_shared():
    assert topology("16xA100, 4x200Gb/s IB").route([0, 8]).node_bandwidth == 4 * 25e9 * 0.96 / 8
    # Four devices of a node of eight have half of its ports, unless the text says how many ports there are.
    assert topology("8xA100, 4 per node").route(range(8)).node_bandwidth == 8 * 25e9 * 0.96 / 2
    assert topology("8xA100, 4 per node, 4x200Gb/s IB").route(range(8)).node_bandwidth == 4 * 25e9 * 0.96


def test_oversubscription_concerns_nodes_of_different_pods():
    cluster = topology("64xH100, 2:1 beyond 4 nodes")
    assert cluster.network.pod == 4
    near, far = cluster.route(range(32)), cluster.route(range(64))
    assert near.node_bandwidth == 2 * far.node_bandwidth
    assert topology("16xH100, 4:1 oversubscription").route(range(16)).node_bandwidth == 8 * 50e9 * 0.96 / 4


def test_a_mesh_gives_each_pair_a_link():
    cluster = topology("8xMI300X")
    whole, pair = cluster.route(range(8)), cluster.route([0, 5])
    assert whole.device_bandwidth == pytest.approx(7 * 64e9 * 0.75) and whole.pair_bandwidth == pytest.approx(64e9 * 0.75)
    assert pair.device_bandwidth == pytest.approx(64e9 * 0.75)


def test_links_that_are_unknown_are_not_guessed():
    with pytest.raises(TopologyError, match="no network between nodes is known for 16xl40s .* name one, such as"):
        topology("16xl40s").route([0, 8])
    with pytest.raises(TopologyError, match="no link between devices"):
        topology("m1", world_size=1).with_nodes(1).__class__(**{**vars(topology("m1")), "devices_per_node": 2}).route([0, 1])


@pytest.mark.parametrize("name", SYSTEMS)
def test_systems_of_the_package(name):
    node = topology(name)
    assert name in topologies() and node.name == name and node.note is None or node.note
    assert node.interconnect.efficiency <= 1 and node.network.bandwidth * node.network.rails < node.interconnect.bandwidth * node.size
    for key, figure in node.figures.items():
        assert figure.source.title and figure.source.url.startswith("https://"), key
    assert "network.bandwidth" in node.figures
    node.with_nodes(2).route(range(2 * node.size))


def test_protocols_have_all_latencies():
    assert list(protocols()) == ["LL", "LL128", "Simple"]
    for steps in protocols().values():
        assert all(0 < seconds < 1e-4 for seconds in steps.values())


FILE = """
title = "Ours"
device = "a40"
devices = 4
[node]
link = "PCIe 4.0 x16"
arrangement = "host"
[network]
link = "RoCE"
rails = 2
bandwidth = { value = "100 Gb/s", source = "us" }
oversubscription = 3
pod = 2
[sources.us]
title = "Our machines"
"""


def test_a_file_of_ones_own(tmp_path):
    path = tmp_path / "ours.toml"
    path.write_text(FILE)
    found = topology(f"3x{path}")
    assert (found.size, found.network.rails, found.network.oversubscription, found.network.pod) == (12, 2, 3.0, 2)
    assert found.interconnect.arrangement == "host" and found.interconnect.bandwidth == 32e9
    assert load_system(path).nodes == 1
    assert topology(found) is found


@pytest.mark.parametrize(("change", "message"), [
    (("devices = 4", "devices = 0"), "devices must be a positive whole number"),
    (('"host"', '"ring"'), "arrangement must be one of switch, mesh, host"),
    (('"PCIe 4.0 x16"', '"NVLink 9"'), "a40 has no link named 'NVLink 9'"),
    (("rails = 2", "rail = 2"), "unknown key 'rail'; did you mean 'rails'"),
    (("100 Gb/s", "100 GHz"), "has no unit of bytes per second"),
    (("oversubscription = 3", "oversubscription = 0"), "must be a number of at least 1"),
    (('"a40"', '"a41"'), "no device profile is named 'a41'"),
    (("[sources.us]", "[sources.them]"), "[sources.us] is missing"),
])  # fmt: skip
def test_mistakes_in_a_file(tmp_path, change, message):
    path = tmp_path / "ours.toml"
    path.write_text(FILE.replace(*change))
    with pytest.raises(ValueError) as error:
        topology(os.fspath(path))
    assert message in str(error.value)


def test_rates_in_bits():
    assert parse_quantity("400 Gb/s", "bytes per second") == 50e9
