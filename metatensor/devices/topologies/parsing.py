"""Topologies from text: ``"64xH100"``, ``"8xH100 per node, 8 nodes, 400Gb/s IB"``, ``"4xdgx-h100"``."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from metatensor.devices.profiles import ProfileError, device_profile
from metatensor.devices.topologies.loading import (
    default_system,
    interconnect_of,
    load_system,
    named_system,
    network_of,
    system_files,
)
from metatensor.devices.topologies.topology import Topology, TopologyError

__all__ = ["topologies", "topology"]

USUAL_NODE = 8
"""Devices of a node where nothing else is said and no system with the device is known."""

_DEVICES = re.compile(r"(?:(\d+)\s*[x×*]\s*)?(\S.*?)(\s+per\s+node)?", re.I)
_NODES = re.compile(r"(\d+)\s+nodes?(?:\s+of\s+(\d+))?", re.I)
_PER_NODE = re.compile(r"(\d+)\s+(?:devices\s+|gpus\s+)?per\s+node", re.I)
_RAILS = re.compile(r"(\d+)\s+rails?", re.I)
_NETWORK = re.compile(r"(?:(\d+)\s*[x×*]\s*)?(\d+(?:\.\d+)?)\s*(?:G|Gb/s|Gbit/s|Gbps)\b\s*(\S.*)?", re.I)
_OVERSUBSCRIBED = re.compile(r"(\d+(?:\.\d+)?)\s*:\s*1(?:\s+oversubscri\w+)?(?:\s+(?:beyond|in\s+pods\s+of)\s+(\d+)\s+nodes)?", re.I)
FORM = "'64xH100', '8xH100 per node, 8 nodes, 400Gb/s IB', '4xdgx-h100', or the path of a TOML file"


def topologies() -> list[str]:
    """Return the names of the systems of this package, sorted."""
    return sorted(system_files())


def topology(text: str | os.PathLike[str] | Topology, world_size: int | None = None) -> Topology:
    """Return the topology that a text describes.

    Parameters
    ----------
    text : str, os.PathLike or Topology
        Parts separated by commas. The first one is a number and a device or a system: ``64xH100`` (in nodes of the usual
        system with this device), ``8xH100 per node``, ``4xdgx-h100`` (4 nodes), or the path of a file that
        describes a node. Others, in any order: ``8 nodes``, ``4 per node``; ``400Gb/s IB`` (the rate of one port; as
        many ports as the usual system has, else one for each device), ``4x200Gb/s RoCE`` (four ports of a node), ``4 rails``;
        ``2:1 oversubscription``, ``2:1 beyond 32 nodes``. A topology is returned as it is.
    world_size : int, optional
        The number of ranks that it has to have. A text without any number gets that many devices.

    Raises
    ------
    TopologyError
        If there is no such device, system or network, or the numbers contradict each other. The message names the nearest valid text.

    Examples
    --------
    >>> from metatensor.devices.topologies import topology
    >>> cluster = topology("8xA100 per node, 4 nodes, 4x200Gb/s IB, 2:1 oversubscription")
    >>> cluster.size, cluster.network.rails, cluster.network.name, cluster.network.oversubscription
    (32, 4, 'InfiniBand HDR', 2.0)
    """
    if isinstance(text, Topology):
        found = text
    else:
        found = _Description(os.fspath(text)).topology(world_size)
    if world_size is not None:
        found.check_world(world_size)
    return found


class _Description:
    """The parts of a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        parts = [part.strip() for part in re.split(r"[,;]", text) if part.strip()]
        if not parts:
            raise TopologyError(f"{text!r} describes no devices; write {FORM}")
        match = _DEVICES.fullmatch(parts[0])
        assert match is not None
        self.count = int(match[1]) if match[1] else None
        self.name, self.each = match[2], bool(match[3])
        self.given: dict[str, Any] = {}
        for part in parts[1:]:
            self._read(part)

    def wrong(self, reason: str) -> TopologyError:
        return TopologyError(f"{self.text!r}: {reason}")

    def _read(self, part: str) -> None:
        found: dict[str, Any]
        if match := _NODES.fullmatch(part):
            found = {"nodes": int(match[1])} | ({"per_node": int(match[2])} if match[2] else {})
        elif match := _PER_NODE.fullmatch(part):
            found = {"per_node": int(match[1])}
        elif match := _RAILS.fullmatch(part):
            found = {"rails": int(match[1])}
        elif match := _OVERSUBSCRIBED.fullmatch(part):
            found = {"oversubscription": float(match[1]), "pod": int(match[2]) if match[2] else None}
        elif match := _NETWORK.fullmatch(part):
            found = {"rate": float(match[2]) * 1e9 / 8, "network": (match[3] or "InfiniBand").strip()}
            if match[1]:
                found["rails"] = int(match[1])
        else:
            raise self.wrong(f"{part!r} is not a number of nodes, a network or an oversubscription; write {FORM}")
        for key, value in found.items():
            if key in self.given:
                raise self.wrong(f"{key.replace('_', ' ')} given twice")
            if value == 0:
                raise self.wrong(f"{part!r} must not be zero")
            self.given[key] = value

    def node(self) -> tuple[Topology, bool]:
        """Return a node, and whether the text names a system rather than a device."""
        if self.name.endswith(".toml") or os.sep in self.name:
            return load_system(self.name), True
        system = named_system(self.name)
        if system is not None:
            return system, True
        try:
            device = device_profile(self.name)
        except ProfileError as error:
            near = get_close_matches(self.name.lower(), topologies(), n=2, cutoff=0.6)
            systems = f" Systems: {', '.join(near)}." if near else ""
            raise self.wrong(f"{error}.{systems}") from None
        usual = default_system(device)
        if usual is not None:
            return usual, False
        inside = interconnect_of(device)
        return Topology(device.name, device, 1, USUAL_NODE if inside is not None else 1, inside, None), False

    def topology(self, world_size: int | None) -> Topology:
        node, system = self.node()
        nodes, per_node = self.sizes(node, system, world_size)
        whole = 0 if "rails" in self.given else node.full_node  # rails that the text names belong to the devices that it names
        found = replace(node, nodes=nodes, devices_per_node=per_node, full_node=max(per_node, whole))
        return replace(found, network=self.network(node, found))

    def sizes(self, node: Topology, system: bool, world_size: int | None) -> tuple[int, int]:
        """Return the number of nodes and of devices of each."""
        whole = node.devices_per_node
        per_node, nodes, count = self.given.get("per_node"), self.given.get("nodes"), self.count
        if count == 0:
            raise self.wrong("0 devices; a topology needs at least one")
        if system and not self.each:  # a number of nodes
            if count is not None and nodes is not None and count != nodes:
                raise self.wrong(f"{count} of {self.name} and {nodes} nodes do not agree; write {count}x{self.name} alone")
            count, nodes = None, nodes or count
        elif self.each:
            if count is None or per_node not in (None, count):
                raise self.wrong(f"write the number of devices of a node once: 8x{self.name} per node")
            per_node, count, nodes = count, None, nodes or 1
        if count is None:
            if nodes is None and world_size is not None:
                return self.divided(world_size, None, per_node, whole)
            return nodes or 1, per_node or whole
        return self.divided(count, nodes, per_node, whole)

    def divided(self, count: int, nodes: int | None, per_node: int | None, whole: int) -> tuple[int, int]:
        """Return nodes and devices of each for a total."""
        if nodes is not None and per_node is not None and nodes * per_node != count:
            raise self.wrong(f"{nodes} nodes of {per_node} have {nodes * per_node} devices, not {count}")
        if nodes is not None and count % nodes:
            below, above = count // nodes * nodes, -(-count // nodes) * nodes
            near = " and ".join(f"{size}x{self.name} ({size // nodes} in each)" for size in (below, above) if size)
            raise self.wrong(f"{count} devices cannot be divided into {nodes} equal nodes; nearest are {near}")
        if nodes is not None:
            return nodes, count // nodes
        size = per_node or whole
        if count <= size and per_node is None:
            return 1, count
        if count % size:
            below, above = count // size * size, -(-count // size) * size
            near = " and ".join(f"{total}x{self.name} ({total // size} nodes)" for total in (below, above) if total)
            raise self.wrong(f"{count} devices do not fill nodes of {size}; nearest are {near}, or say how many are in a node: "
                             f"'{count}x{self.name}, {_divisor(count, size)} per node'")  # fmt: skip
        return count // size, size

    def network(self, node: Topology, found: Topology) -> Any:
        given, network = self.given, node.network
        if "network" in given:
            rails = given.get("rails") or (network.rails if network is not None else found.devices_per_node)
            network = network_of(given["network"], rails, given["rate"])[0]
        elif network is not None and "rails" in given:
            network = network._replace(rails=given["rails"])
        if "oversubscription" in given:
            if network is None:
                raise self.wrong("an oversubscription needs a network; name one, such as 400Gb/s IB")
            if given["oversubscription"] < 1:
                raise self.wrong(f"an oversubscription is at least 1:1, got {given['oversubscription']:g}:1")
            network = network._replace(oversubscription=given["oversubscription"], pod=given["pod"])
        if network is None and "rails" in given:
            raise self.wrong("rails need a network; name one, such as 400Gb/s IB")
        return network


def _divisor(count: int, most: int) -> int:
    """Return the largest divisor of a number that is at most ``most``."""
    return next(size for size in range(min(count, most), 0, -1) if not count % size)
