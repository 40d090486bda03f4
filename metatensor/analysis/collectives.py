"""Predicted seconds of collectives over a topology: latency plus bytes over bandwidth, for the fastest of several algorithms.

Each algorithm takes ``latency + bytes / bandwidth`` (Hockney's model). Numbers of steps and volumes are those of the literature:

* ring, pairwise exchange: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH" (2005);
  Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (2009)
* double binary tree: Sanders, Speck, Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan" (2009)
* reduction in switches: each device sends its data once and receives the result once (Klenk et al., "An in-network architecture for
  accelerating shared-memory multiprocessor collectives", 2020)
* hierarchical: reduce-scatter inside nodes, all-reduce between them, all-gather inside (Cho et al., "BlueConnect", 2019)

Latencies of steps and the fractions of bandwidths that are reached are those with which NCCL chooses its algorithms; they are in
``metatensor/devices/topologies/links.toml`` with their source. None was fitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from math import ceil, log2
from typing import NamedTuple

from metatensor.devices.topologies import Route, Topology
from metatensor.devices.topologies import topology as described
from metatensor.devices.topologies.loading import protocols

__all__ = ["KINDS", "CollectiveTime", "bus_factor", "collective_time", "route_time"]

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather", "scatter", "send", "recv", "barrier")
"""The kinds of operations, as `CommunicationLog` names them."""
FRACTIONS = {"LL": 0.5, "LL128": 0.92, "Simple": 1.0}
"""The fraction of the bandwidth that is left for data in NCCL's protocols: half of each word of LL is a flag."""
LONG_WAY = {2: 39e9, 3: 20.4e9}
"""The highest bandwidth of the protocol LL between two, and between more nodes, in NCCL's model."""
POSTED = {"LL": 1e-6, "LL128": 1e-6, "Simple": 3e-6}
"""The least time of a step inside of a node while the group also uses a network, in NCCL's model."""
TREE = 0.92
"""The fraction of the bandwidth that trees reach, in NCCL's model."""


class CollectiveTime(NamedTuple):
    """The predicted time of one operation."""

    seconds: float
    algorithm: str
    """``"ring"``, ``"tree"``, ``"switch"``, ``"switch tree"``, ``"hierarchical"``, ``"pat"``, ``"pairwise"``, ``"direct"``, ``"none"``."""
    protocol: str
    """NCCL's protocol: ``"LL"``, ``"LL128"`` or ``"Simple"``."""
    latency: float
    """The seconds that do not depend on the bytes."""

    @property
    def transfer(self) -> float:
        """The seconds that depend on the bytes."""
        return self.seconds - self.latency


def bus_factor(kind: str, ranks: int) -> float:
    """Return the bus bandwidth over bytes per second, as nccl-tests defines it.

    The bus bandwidth is what each link has to carry, so it can be compared with the bandwidth of links whatever the number of ranks is.
    """
    if kind == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if kind in ("all_gather", "reduce_scatter", "all_to_all") else 1.0


def collective_time(kind: str, bytes: int, group: Iterable[int], topology: Topology | str) -> CollectiveTime:
    """Return the predicted time of an operation of a group of ranks.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    bytes : int
        What `Communication.bytes` says: the size of the whole tensor of an ``all_reduce``, of the output of an ``all_gather``, of the
        input of a ``reduce_scatter`` or ``all_to_all``, of one part in a ``gather`` or ``scatter``.
    group : iterable of int
        The ranks in the world; for ``send`` and ``recv``, the two ranks.
    topology : Topology or str
        The topology, or its description.

    Raises
    ------
    ValueError
        If the kind is unknown or the size is negative.
    TopologyError
        If the topology has no device for a rank, or its links are unknown.

    Examples
    --------
    >>> from metatensor.analysis import collective_time
    >>> time = collective_time("all_gather", 2**30, range(8), "8xH100")
    >>> time.algorithm, time.protocol, round(time.seconds * 1e3, 2)  # 7/8 GiB over 371 GB/s
    ('ring', 'Simple', 2.57)
    >>> collective_time("all_reduce", 2**10, range(64), "64xH100").algorithm
    'tree'
    """
    where = described(topology)
    return reached(route_time(kind, bytes, where.route(tuple(group))), where)


def reached(time: CollectiveTime, topology: Topology) -> CollectiveTime:
    """Return a time with the part of the bandwidth that the profile of the devices says that collectives reach."""
    part = topology.device.efficiency.get("network", 1.0)
    return time if part == 1.0 else time._replace(seconds=time.latency + time.transfer / part)


@lru_cache(maxsize=1 << 14)
def route_time(kind: str, bytes: int, route: Route) -> CollectiveTime:
    """Return the predicted time of an operation over a route; see `collective_time`."""
    if kind not in KINDS:
        raise ValueError(f"no kind of collective is named {kind!r}; choose from {', '.join(KINDS)}")
    if bytes < 0:
        raise ValueError(f"a collective has at least 0 bytes, got {bytes}")
    if route.ranks == 1:
        return CollectiveTime(0.0, "none", "", 0.0)
    if kind == "barrier":
        kind, bytes = "all_reduce", 4
    return min(_Times(route).of(kind, bytes), key=lambda time: time.seconds)


class _Times:
    """The times of all algorithms over a route."""

    def __init__(self, route: Route) -> None:
        self.route = route
        self.p, self.n, self.g = route.ranks, route.nodes, route.per_node

    def of(self, kind: str, size: int) -> Iterator[CollectiveTime]:
        for name, steps in protocols().items():
            if name == "LL128" and self.route.hop != "nvlink":
                continue
            yield from getattr(self, f"_{_FUNCTIONS.get(kind, kind)}")(_Steps(self.route, name, steps), size)

    def _all_reduce(self, s: _Steps, size: int) -> Iterator[CollectiveTime]:
        p, n, g = self.p, self.n, self.g
        yield s.time("ring", s.base("ring") + s.ring(2), 2 * (p - 1) / p * size / s.bandwidth())
        pairs = 1 if n == 2 else 2  # a tree of two nodes has one edge
        # Inside of a node the tree is a chain: each device receives and sends the data on the way up, and on the way down.
        reached = TREE * s.scaled(min(s.inside / 2 if g > 1 else s.inside, s.between / pairs))
        # Sums of a chain (devices of a node) and of a tree (nodes), up and down.
        yield s.time("tree", s.base("tree") + 2 * ((g - 1) * s.inner("tree") + _log(n) * s.outer("tree")), size / reached)
        if s.name != "Simple":
            return
        part = self.route.reduction
        if part is not None and (g * n == p):
            within = s.inside * part / (1 + 1 / g)  # each device sends its data and the part that it has summed
            if n == 1:
                yield s.time("switch", s.steps["nvlink_switch"], size / within)
            else:
                latency = s.steps["nvlink_switch"] + 2 * _log(n) * s.steps["network_switch"]
                yield s.time("switch tree", latency, size / min(within, s.between / pairs))
        if n > 1 and g > 1:
            inside = 2 * (g - 1) / g * size / s.inside
            yield s.time("hierarchical", s.base("ring") + 2 * (g - 1) * s.inner("ring") + 2 * (n - 1) * s.outer("ring"),
                         inside + 2 * (n - 1) / n * size / s.between)  # fmt: skip

    def _gather_all(self, s: _Steps, size: int) -> Iterator[CollectiveTime]:
        """All-gather and reduce-scatter."""
        p, n, g = self.p, self.n, self.g
        yield s.time("ring", s.base("ring") + s.ring(1), (p - 1) / p * size / s.bandwidth())
        if s.name == "Simple" and g == 1:
            latency = 8e-6 + _log(n) * s.outer("tree") / 3.5 + p * 2.8e-6  # NCCL 2.27
            yield s.time("pat", latency, size / (0.75 * s.between))
        if s.name == "Simple" and n > 1 and g > 1:
            between = (n - 1) / n * size / s.between
            yield s.time("hierarchical", s.base("ring") + (g - 1) * s.inner("ring") + (n - 1) * s.outer("ring"),
                         (g - 1) / g * size / s.inside + between)  # fmt: skip

    def _pipeline(self, s: _Steps, size: int) -> Iterator[CollectiveTime]:
        """Broadcast and reduce: the data passes all devices in pieces."""
        latency = (self.p - self.n) * s.inner("tree") + (self.n if self.n > 1 else 1) * (s.outer("tree") if self.n > 1 else s.inner("tree"))
        yield s.time("ring", s.base("ring") + latency, size / s.bandwidth())

    def _all_to_all(self, s: _Steps, size: int) -> Iterator[CollectiveTime]:
        yield self._exchange(s, size, "pairwise")

    def _rooted(self, s: _Steps, size: int) -> Iterator[CollectiveTime]:
        """Gather and scatter: the root's links carry everything."""
        yield self._exchange(s, size * self.p, "direct")

    def _exchange(self, s: _Steps, size: int, name: str) -> CollectiveTime:
        """Return the time in which one device sends, or receives, ``size`` bytes in equal parts to or from all ranks of the group."""
        inside = size * (self.g - 1) / self.p / s.scaled(s.inside) if self.g > 1 else 0.0
        outside = size * (self.p - self.g) / self.p / s.scaled(s.between / self.g) if self.n > 1 else 0.0
        step = s.outer("ring") if self.n > 1 else s.inner("ring")
        return s.time(name, s.base("ring") + step, max(inside, outside))

    def _message(self, s: _Steps, size: int) -> Iterator[CollectiveTime]:
        step, reached = (s.outer("ring"), s.between) if self.n > 1 else (s.inner("ring"), self.route.pair_bandwidth)
        yield s.time("direct", s.base("ring") + step, size / s.scaled(reached))


_FUNCTIONS = {"all_gather": "gather_all", "reduce_scatter": "gather_all", "broadcast": "pipeline", "reduce": "pipeline", "gather": "rooted",
              "scatter": "rooted", "send": "message", "recv": "message"}  # fmt: skip


class _Steps:
    """The steps of one protocol over a route."""

    def __init__(self, route: Route, name: str, steps: dict[str, float]) -> None:
        self.route, self.name, self.steps = route, name, steps
        self.inside, self.between = route.device_bandwidth, route.node_bandwidth

    def base(self, shape: str) -> float:
        return self.steps[f"base_{shape}"]

    def inner(self, shape: str) -> float:
        """Return the seconds of a step inside of a node."""
        found = self.steps[f"{self.route.hop}_{shape}"]
        return max(found, POSTED[self.name]) if self.route.nodes > 1 and shape == "ring" else found

    def outer(self, shape: str) -> float:
        """Return the seconds of a step between nodes. With one device in each node nothing hides a step's latency."""
        return self.steps["network_tree" if self.route.per_node == 1 else f"network_{shape}"]

    def ring(self, times: int) -> float:
        """Return the latency of passing a ring ``times`` times."""
        p, n = self.route.ranks, self.route.nodes
        between = n - 1 if n > 1 else 0
        return times * ((p - 1 - between) * self.inner("ring") + between * self.outer("ring"))

    def bandwidth(self) -> float:
        """Return the bandwidth of one device in as many rings as a node has devices of the group."""
        return self.scaled(min(self.inside, self.between))

    def scaled(self, bandwidth: float) -> float:
        """Return what the protocol leaves of a bandwidth."""
        found = bandwidth * FRACTIONS[self.name]
        if self.name == "LL":
            limit = self.route.short if self.route.nodes == 1 else LONG_WAY[min(self.route.nodes, 3)]
            found = min(found, limit or found)
        return found

    def time(self, algorithm: str, latency: float, transfer: float) -> CollectiveTime:
        return CollectiveTime(latency + transfer, algorithm, self.name, latency)


def _log(n: int) -> int:
    return ceil(log2(n))

