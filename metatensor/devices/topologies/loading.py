"""Read the files of this package: kinds of links, and systems (nodes that are sold or rented)."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from metatensor.devices.profiles import DeviceProfile, Figure, device_profile
from metatensor.devices.profiles.loading import Reader, key_of, parse_toml
from metatensor.devices.topologies.topology import ARRANGEMENTS, Interconnect, Network, Topology, TopologyError

__all__ = ["Protocol", "default_system", "interconnect_of", "load_system", "network_of", "protocols", "system_files"]

HERE = Path(__file__).parent
HOPS = ("nvlink", "pcie")
STEPS = ("base_ring", "base_tree", *(f"{link}_{shape}" for link in (*HOPS, "network") for shape in ("ring", "tree")))

Protocol = dict[str, float]
"""Seconds of a step by link and shape, such as ``"nvlink_ring"``, and of a whole operation: ``"base_ring"``."""


class _Reader(Reader):
    """Checks files of links and systems."""

    error = TopologyError

    def count(self, parent: dict[str, Any], key: str, place: str) -> int:
        value = parent.get(key)
        if type(value) is not int or value < 1:
            raise self.wrong(place, f"{key} must be a positive whole number, got {value!r}")
        return value


class _Links:
    """The contents of ``links.toml``."""

    def __init__(self) -> None:
        file = str(HERE / "links.toml")
        contents, reader = parse_toml(file), _Reader(file)
        reader.read_sources(contents)
        self.figures = reader.figures
        self.links = {}
        for name, entry in contents["links"].items():
            place = f"links.{name}"
            reader.keys(entry, place, ("hop", "efficiency", "reduction", "short"))
            if entry.get("hop") not in HOPS:
                raise reader.wrong(place, f"hop must be one of {', '.join(HOPS)}")
            self.links[name] = {"hop": entry["hop"], "efficiency": reader.figure(entry, "efficiency", place, "ratio"),
                                "reduction": reader.figure(entry, "reduction", place, "ratio"),
                                "short": reader.figure(entry, "short", place, "bytes per second")}  # fmt: skip
        self.networks = {}
        self.names: dict[str, str] = {}
        for name, entry in contents["networks"].items():
            place = f"networks.{name}"
            reader.keys(entry, place, ("aliases", "bandwidth", "efficiency"))
            self.networks[name] = (reader.figure(entry, "bandwidth", place, "bytes per second"),
                                   reader.figure(entry, "efficiency", place, "ratio"))  # fmt: skip
            for alias in (name, *reader.texts(entry, "aliases", place)):
                self.names[key_of(alias)] = name
        self.protocols: dict[str, Protocol] = {}
        for name, entry in contents["protocols"].items():
            place = f"protocols.{name}"
            reader.keys(entry, place, (*STEPS, "nvlink_switch", "network_switch"))
            self.protocols[name] = {key: reader.figure(entry, key, place, "seconds") for key in entry}


@lru_cache(maxsize=1)
def _links() -> _Links:
    return _Links()


def protocols() -> dict[str, Protocol]:
    """Return the latencies of NCCL's protocols by name."""
    return _links().protocols


def network_of(name: str, rails: int, bandwidth: float | None) -> tuple[Network, dict[str, Figure]]:
    """Return a network by the name or an alias of its kind. ``bandwidth`` is that of a port, None for the kind's own."""
    known = _links()
    found = known.names.get(key_of(name))
    if found is None:
        raise TopologyError(f"no kind of network is named {name!r}; choose from {', '.join(sorted(known.networks))}")
    nominal, efficiency = known.networks[found]
    if bandwidth is None:
        if nominal is None:
            raise TopologyError(f"{found} has no rate of its own; name one, such as '400Gb/s {found}'")
        bandwidth = nominal
    elif found == "InfiniBand NDR" and key_of(name) in ("ib", "infiniband"):  # the kind is told by the rate
        found = next((kind for kind, (rate, _) in known.networks.items() if rate == bandwidth), "InfiniBand")
    figures = {key: value for key, value in known.figures.items() if key.startswith(f"networks.{found}.")}
    return Network(found, rails, bandwidth, efficiency), figures


def interconnect_of(device: DeviceProfile, arrangement: str | None = None, name: str | None = None) -> Interconnect | None:
    """Return the links between devices of a node, by the device's profile. None if it has none.

    Without an arrangement, the profile's links decide: those to the node, else those to the host.
    """
    wanted = None
    for scope, usual in (("node", "switch"), ("host", "host")):
        for link in device.links:
            if link.scope == scope and link.bandwidth and (name is None or link.name == name) and wanted is None:
                wanted = link, arrangement or usual
    if wanted is None:
        return None
    link, arranged = wanted
    known = _links().links.get(link.name)
    if known is None:
        known = {"efficiency": 1.0, "hop": "pcie" if arranged == "host" else "nvlink", "reduction": None, "short": None}
    assert link.bandwidth is not None
    return Interconnect(link.name, arranged, link.bandwidth, known["efficiency"], known["hop"], known["reduction"], known["short"])


def system_files() -> dict[str, Path]:
    """Return the files of the systems of this package by name."""
    return {path.stem: path for path in sorted((HERE / "systems").glob("*.toml"))}


@lru_cache(maxsize=64)
def _read(file: str, modified: int) -> tuple[Topology, tuple[str, ...], bool]:
    contents, reader = parse_toml(file), _Reader(file)
    reader.keys(contents, "", ("title", "device", "aliases", "note", "default", "devices", "node", "network", "sources"))
    reader.read_sources(contents)
    device = device_profile(reader.text(contents, "device", required=True) or "")
    per_node = reader.count(contents, "devices", "")
    node = reader.table(contents, "node", "node", ("link", "arrangement"))
    arrangement, link = node.get("arrangement"), reader.text(node, "link", "node")
    if arrangement is not None and arrangement not in ARRANGEMENTS:
        raise reader.wrong("node", f"arrangement must be one of {', '.join(ARRANGEMENTS)}, got {arrangement!r}")
    inside = interconnect_of(device, arrangement, link)
    if inside is None and link is not None:
        names = ", ".join(repr(one.name) for one in device.links) or "none"
        raise reader.wrong("node.link", f"{device.name} has no link named {link!r} to its node or host; it has {names}")
    figures = {key: value for key, value in device.figures.items() if inside and key.startswith(f"links.{inside.name}.")}
    figures.update({key: value for key, value in _links().figures.items() if inside and key.startswith(f"links.{inside.name}.")})
    network = None
    if "network" in contents:
        table = reader.table(contents, "network", "network", ("link", "rails", "bandwidth", "oversubscription", "pod"))
        rate = reader.figure(table, "bandwidth", "network", "bytes per second")
        kind = reader.text(table, "link", "network", required=True) or ""
        network, more = network_of(kind, reader.count(table, "rails", "network"), rate)
        figures.update(more)
        over = table.get("oversubscription", 1.0)
        if type(over) not in (int, float) or over < 1:
            raise reader.wrong("network.oversubscription", f"must be a number of at least 1, got {over!r}")
        pod = reader.count(table, "pod", "network") if "pod" in table else None
        network = network._replace(oversubscription=float(over), pod=pod)
    found = Topology(Path(file).stem, device, 1, per_node, inside, network, reader.text(contents, "note"),
                     figures | reader.figures, per_node)  # fmt: skip
    reader.text(contents, "title", required=True)
    return found, tuple(reader.texts(contents, "aliases")), bool(contents.get("default"))


def load_system(path: str | os.PathLike[str]) -> Topology:
    """Read one node of a system from a TOML file. Raise TopologyError if the file is not valid."""
    return _entry(path)[0]


def _entry(path: str | os.PathLike[str]) -> tuple[Topology, tuple[str, ...], bool]:
    file = os.fspath(path)
    try:
        return _read(file, os.stat(file).st_mtime_ns)
    except OSError as error:
        raise TopologyError(f"{file}: {error.strerror}") from error


def named_system(name: str) -> Topology | None:
    """Return one node of the system with a name or an alias, None if there is none."""
    wanted, files = key_of(name), system_files()
    if wanted in files:
        return load_system(files[wanted])
    for path in files.values():
        found, aliases, _ = _entry(path)
        if wanted in map(key_of, aliases):
            return found
    return None


def default_system(device: DeviceProfile) -> Topology | None:
    """Return one node of the usual system with a device, None if this package has none."""
    for path in system_files().values():
        found, _, default = _entry(path)
        if default and found.device.name == device.name:
            return found
    return None
