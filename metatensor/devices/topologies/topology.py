"""Topologies: how many devices there are, and which links connect them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from metatensor.devices.profiles import DeviceProfile, Figure, ProfileError

__all__ = ["ARRANGEMENTS", "Interconnect", "Network", "Route", "Topology", "TopologyError"]

ARRANGEMENTS = ("switch", "mesh", "host")
"""How the devices of a node are connected: all of them through switches, each pair by a link of its own, or through the host."""


class TopologyError(ProfileError):
    """A topology that does not exist, does not add up, or does not fit the program."""


class Interconnect(NamedTuple):
    """The links between the devices of a node. Bandwidths are in bytes per second in one direction."""

    name: str
    arrangement: str
    """One of `ARRANGEMENTS`."""
    bandwidth: float
    """Nominal bandwidth of one device over all its links."""
    efficiency: float
    """The fraction of it that long messages reach."""
    hop: str
    """``"nvlink"`` or ``"pcie"``: which latencies a step has."""
    reduction: float | None = None
    """The fraction of the usable bandwidth that reductions in the switches reach, None if the switches do not reduce."""
    short: float | None = None
    """The highest bandwidth of the protocol for short messages, None if no limit is known."""


class Network(NamedTuple):
    """The network between nodes. Bandwidths are in bytes per second in one direction."""

    name: str
    rails: int
    """Network ports of a node."""
    bandwidth: float
    """Nominal bandwidth of one port."""
    efficiency: float
    """The fraction of it that long messages reach."""
    oversubscription: float = 1.0
    """How many times the ports of the nodes exceed what the upper switches carry."""
    pod: int | None = None
    """Nodes that are connected without oversubscription. None: oversubscription concerns any two nodes."""


class Route(NamedTuple):
    """The links that a group of ranks communicates over. Bandwidths are usable bytes per second in one direction."""

    ranks: int
    nodes: int
    """Nodes with ranks of the group."""
    per_node: int
    """Ranks of the group in the node that has most of them."""
    links: tuple[str, ...]
    """Names of the links: those inside of a node, the network."""
    hop: str
    """``"nvlink"`` or ``"pcie"``: the kind of a step inside of a node."""
    device_bandwidth: float
    """What one device sends to others of the group in its node."""
    pair_bandwidth: float
    """What one device sends to one other device of its node."""
    node_bandwidth: float
    """What the ranks of a node send to other nodes; infinite if there are none."""
    reduction: float | None
    """`Interconnect.reduction`, if the switches reduce for this group."""
    short: float | None
    """`Interconnect.short`."""

    def __str__(self) -> str:
        if self.ranks == 1:
            return "1 rank"
        inside = f"{self.per_node} ranks over {self.links[0]}" if self.per_node > 1 else ""
        if self.nodes == 1:
            return inside
        between = f"{self.nodes} nodes over {self.links[-1]}"
        return f"{between}, {inside} in each" if inside else between


@dataclass(frozen=True, eq=False)
class Topology:
    """Devices of one kind in equal nodes, connected by links. Rank ``r`` runs on device ``r % devices_per_node`` of node ``r //
    devices_per_node``, as launchers place ranks.

    Parameters
    ----------
    name : str
        The system, such as ``"dgx-h100"``, or the description that it was made from.
    device : DeviceProfile
        The device.
    nodes : int
        Number of nodes.
    devices_per_node : int
        Devices of a node: those that the node's links connect.
    interconnect : Interconnect or None
        The links inside of a node. None if no link between devices is known.
    network : Network or None
        The network between nodes. None if there is none, or it is unknown.
    note : str or None
        What a reader must know.
    figures : mapping of str to Figure
        Every figure with its source.
    full_node : int
        Devices of a complete node, of which `devices_per_node` are used.

    Examples
    --------
    >>> from metatensor.devices.topologies import topology
    >>> cluster = topology("64xH100")
    >>> cluster.nodes, cluster.devices_per_node, cluster.network.name
    (8, 8, 'InfiniBand NDR')
    >>> print(cluster.route(range(8)))
    8 ranks over NVLink 4
    >>> print(cluster.route(range(0, 64, 8)))
    8 nodes over InfiniBand NDR
    """

    name: str
    device: DeviceProfile
    nodes: int
    devices_per_node: int
    interconnect: Interconnect | None
    network: Network | None
    note: str | None = None
    figures: Mapping[str, Figure] = field(default_factory=dict, repr=False)
    full_node: int = 0

    @property
    def size(self) -> int:
        """Number of devices."""
        return self.nodes * self.devices_per_node

    def node_of(self, rank: int) -> int:
        """Return the node on which a rank runs. Raise TopologyError if there is no device for it."""
        if not 0 <= rank < self.size:
            raise TopologyError(f"rank {rank} has no device: {self} has {self.size} devices")
        return rank // self.devices_per_node

    def with_nodes(self, nodes: int) -> Topology:
        """Return the same topology with another number of nodes."""
        if nodes < 1:
            raise TopologyError(f"a topology needs at least one node, got {nodes}")
        return replace(self, nodes=nodes)

    def check_world(self, world_size: int) -> None:
        """Raise TopologyError unless the topology has exactly ``world_size`` devices."""
        if world_size != self.size:
            per, nodes = self.devices_per_node, world_size // self.devices_per_node
            if world_size < per or not world_size % per:
                hint = f"use '{world_size}x{self.device.name}'"
            else:
                hint = f"worlds of {nodes * per} and {nodes * per + per} ranks fill nodes of {per}"
            raise TopologyError(f"{self} has {self.size} devices, but the program has {world_size} ranks; {hint}")

    @cached_property
    def _routes(self) -> dict[Any, Route]:
        return {}

    def route(self, ranks: Iterable[int]) -> Route:
        """Return the links that a group of ranks communicates over.

        The network of a node is shared by its devices: a group with ``g`` of ``n`` devices of a node has ``g / n`` of its
        bandwidth, because the other devices usually communicate at the same time, in groups of the same kind.

        Parameters
        ----------
        ranks : iterable of int
            The ranks of the group in the world.

        Raises
        ------
        TopologyError
            If there is no device for a rank, or the links that connect them are unknown.
        """
        group = ranks if isinstance(ranks, (tuple, range)) else tuple(ranks)
        found = self._routes.get(group)
        if found is None:
            if len(self._routes) > 1 << 16:
                self._routes.clear()
            found = self._routes[group] = self._route(group)
        return found

    def _route(self, group: Iterable[int]) -> Route:
        counts = Counter(map(self.node_of, group))
        if not counts:
            raise TopologyError("a group needs at least one rank")
        ranks, nodes, per_node = sum(counts.values()), len(counts), max(counts.values())
        inside, network = self.interconnect, self.network
        names: list[str] = []
        device = pair = between = float("inf")
        hop, reduction, short = "nvlink", None, None
        if inside is not None:
            hop, short = inside.hop, inside.short
        if per_node > 1:
            if inside is None:
                raise TopologyError(f"no link between devices of a node is known for {self.device.name}; describe it in a file")
            names.append(inside.name)
            device = pair = inside.bandwidth * inside.efficiency
            if inside.arrangement == "mesh":
                pair = device / max(1, self._whole_node - 1)
                device = pair * (per_node - 1)
            reduction = inside.reduction if inside.arrangement == "switch" and per_node > 2 else None
        if nodes > 1:
            if network is None:
                raise TopologyError(
                    f"no network between nodes is known for {self}; name one, such as '{self.size}x{self.device.name}, 400Gb/s IB'"
                )
            names.append(network.name)
            between = network.rails * network.bandwidth * network.efficiency * per_node / self._whole_node
            placed = sorted(counts)
            if network.pod is None or placed[0] // network.pod != placed[-1] // network.pod:
                between /= network.oversubscription
        return Route(ranks, nodes, per_node, tuple(names), hop, device, pair, between, reduction, short)

    @property
    def _whole_node(self) -> int:
        """Devices of a complete node, with which its links and ports are shared."""
        return max(self.full_node, self.devices_per_node)

    def to_dict(self) -> dict[str, Any]:
        """Return the description as JSON types."""
        return {
            "name": self.name, "device": self.device.name, "nodes": self.nodes, "devices_per_node": self.devices_per_node,
            "devices": self.size, "interconnect": None if self.interconnect is None else self.interconnect._asdict(),
            "network": None if self.network is None else self.network._asdict(), "note": self.note,
            "figures": {key: {**figure._asdict(), "source": figure.source._asdict()} for key, figure in self.figures.items()},
        }  # fmt: skip

    def __str__(self) -> str:
        text = f"{self.size}x{self.device.name}"
        return text if self.nodes == 1 else f"{text} ({self.nodes} nodes of {self.devices_per_node})"
