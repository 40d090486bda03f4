"""Messages for a search without candidates, which name the nearest values that would work; and nodes of different devices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from metatensor.devices.profiles import DeviceProfile, ProfileError
from metatensor.devices.topologies import Topology, TopologyError, topology
from metatensor.plan.candidates import Space, degrees_in, divisors
from metatensor.plan.schedules import SCHEDULES

__all__ = ["no_candidate", "topology_of"]

_PART = re.compile(r"\d+\s*[xX×]\s*[^,;\s][^,;]*?|[^,;\d][^,;]*")


def no_candidate(devices: int, per_node: int, blocks: int, batch: int, tensor: Sequence[int] | None, pipeline: Sequence[int] | None,
                 micro_batches: Sequence[int] | None, space: Space) -> str:  # fmt: skip
    """Return a message that says which of the given values leave no layout, and which values are possible."""
    if tensor and not any(devices % n == 0 for n in tensor):
        return f"tensor {_some(tensor)} does not divide {devices} devices; possible values are {_some(divisors(min(per_node, devices)))}"
    rest = {devices // n for n in tensor or divisors(min(per_node, devices)) if devices % n == 0}
    if pipeline and not any(left % n == 0 for left in rest for n in pipeline):
        return f"pipeline {_some(pipeline)} does not divide the {devices} devices; possible values are {_some(divisors(max(rest)))}"
    if pipeline and min(pipeline) > max(blocks, 1):
        return f"the model has {blocks} repeated blocks, too few for {_some(pipeline)} stages; at most {max(blocks, 1)} are possible"
    found = _restriction(space)
    if found is not None:
        return found
    least = min(left // n for left in rest for n in pipeline or divisors(left) if left % n == 0 and n <= max(blocks, 1))
    micro = min(micro_batches or (1,))
    near = max(1, round(batch / (least * micro))) * least * micro
    return (f"a global batch of {batch} cannot be divided into micro-batches of {_some(micro_batches or (1, 2, 4, 8))} on {least} or more "
            f"data-parallel ranks; a global batch of {near} can")  # fmt: skip


def _restriction(space: Space) -> str | None:
    """Return a message on the only option without which there would be candidates, None if there is no such option."""

    def possible(**changes: Any) -> bool:
        return next(degrees_in(replace(space, **changes)), None) is not None

    n = space.devices
    if possible(context=[1]):
        return f"context {_some(space.context)} does not divide the {n} devices that are left; possible values are {_some(divisors(n))}"
    if possible(expert=[1]):
        numbers = [k for k in divisors(n) if possible(expert=[k])]
        return (f"expert {_some(space.expert)} does not divide the ranks of data and context parallelism; possible values are "
                f"{_some(numbers)}")  # fmt: skip
    if possible(sequence=[False]):
        return "sequence True divides activations among tensor-parallel ranks, of which there is only one; add False, or a larger tensor"
    if possible(shard=[0]):
        return f"shard {_some(space.shard)} needs more than one data-parallel rank; add 0"
    if possible(schedules=list(SCHEDULES), virtual_stages=[1, 2, 4]):
        return (f"none of the schedules {', '.join(space.schedules)} divides {space.blocks} blocks into pipelines with "
                f"{_some(space.virtual_stages)} stages on a rank; add the schedule 1F1B, and 1 to virtual_stages")  # fmt: skip
    return None


def _some(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))


def topology_of(devices: Any) -> tuple[Topology, list[str]]:
    """Return the topology that a text names, and remarks. If nodes have different devices, all get the lowest of each figure.

    Parameters
    ----------
    devices : str or Topology
        A topology, or several with the same number of devices in each node: ``"8xH100 + 8xA100"``. A comma also separates them.

    Raises
    ------
    TopologyError
        If the text names no topology, or nodes that cannot be combined.
    """
    if not isinstance(devices, str):
        return topology(devices), []
    parts = [part.strip() for part in devices.split("+")]
    if len(parts) == 1:
        several = [part.strip() for part in re.split(r"[,;]", devices)]
        if len(several) > 1 and all(_is_topology(part) for part in several):
            parts = several
    if len(parts) == 1:
        _check_places(devices)
        return topology(devices), []
    found = [topology(part) for part in parts]
    first = found[0]
    if len({one.devices_per_node for one in found}) > 1:
        sizes = ", ".join(f"{part}: {one.devices_per_node}" for part, one in zip(parts, found, strict=True))
        raise TopologyError(f"{devices!r}: nodes of different devices must have as many devices each ({sizes}); a layout gives each node "
                            "the same work. Leave out devices until they do, or plan for one kind")  # fmt: skip
    slowest = _slowest([one.device for one in found])
    nodes = sum(one.nodes for one in found)
    inside = [one.interconnect for one in found if one.interconnect is not None]
    networks = [one.network for one in found if one.network is not None]
    if nodes > 1 and not networks:
        raise TopologyError(f"{devices!r}: no network between the nodes is known; name one, such as '{parts[0]}, 400Gb/s IB + {parts[1]}'")
    made = replace(
        first, name=devices, device=slowest, nodes=nodes,
        interconnect=min(inside, key=lambda link: link.bandwidth * link.efficiency) if len(inside) == len(found) else None,
        network=min(networks, key=lambda one: one.rails * one.bandwidth * one.efficiency) if networks else None, figures={},
    )  # fmt: skip
    names = ", ".join(dict.fromkeys(one.device.name for one in found))
    return made, [f"the devices differ ({names}): each step waits for the slowest and must fit into the smallest, so all are planned as a "
                  "device with the lowest of each figure"]  # fmt: skip


def _check_places(devices: str) -> None:
    """Raise TopologyError for the text of places of a device map."""
    parts = [part.strip() for part in re.split(r"[,;]", devices)]
    counted = sum(re.match(r"\d+\s*[xX×]\s*\D*\d", part) is not None for part in parts)
    if counted > 1 or any(re.match(r"(cpu|disk)\b", part) for part in parts[1:]):
        raise TopologyError(f"{devices!r}: these are places for the parts of a model, on which a plan without training puts them; for "
                            "training, name nodes with the same number of devices each, such as '8xH100' or '8xH100 + 8xA100'")  # fmt: skip


def _is_topology(part: str) -> bool:
    if not re.match(r"\d+\s*[xX×]\s*\D", part):
        return False
    try:
        topology(part)
    except ProfileError:
        return False
    return True


def _slowest(profiles: list[DeviceProfile]) -> DeviceProfile:
    """Return a profile with the lowest of each figure. A figure that any device lacks is unknown."""

    def least(values: list[Any]) -> Any:
        return None if None in values else min(values)

    def common(tables: list[Any]) -> dict[str, float]:
        return {name: min(table[name] for table in tables) for name in tables[0] if all(name in table for table in tables)}

    powers = [one.power for one in profiles]
    return replace(
        profiles[0], name="+".join(dict.fromkeys(one.name for one in profiles)), aliases=(),
        memory=least([one.visible_memory or one.memory for one in profiles]), visible_memory=None,
        memory_bandwidth=least([one.memory_bandwidth for one in profiles]), rates=common([one.rates for one in profiles]),
        vector_rates=common([one.vector_rates for one in profiles]), efficiency=common([one.efficiency for one in profiles]),
        launch_overhead=max((one.launch_overhead or 0.0 for one in profiles), default=0.0) or None,
        power=None if None in powers else max(filter(None, powers)), price=None,
    )  # fmt: skip
