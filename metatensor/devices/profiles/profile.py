"""What a device profile says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from metatensor.devices.profiles.costs import OperatorCost

__all__ = ["KINDS_OF_WORK", "PHASES", "RATES", "SCOPES", "DeviceProfile", "Figure", "Link", "Source"]

RATES = ("float64", "float32", "tf32", "bfloat16", "float16", "float8", "float4", "int8", "int4")
"""Names of the rates. ``tf32`` is the rate of products of float32 matrices whose factors are rounded to TF32."""
SCOPES = ("pair", "node", "host")
"""What a link reaches: one other device, the devices of the node, or the host."""


KINDS_OF_WORK = ("product", "convolution", "attention", "recurrence", "elementwise", "reduction", "softmax", "normalization", "pooling",
                 "gather", "scatter", "copy", "random", "sorting", "view", "other")  # fmt: skip
"""Kinds of operators, which have an efficiency or a cost where the operator itself has none."""
PARTS = (*KINDS_OF_WORK, "network", "overlap")
"""What the table of efficiencies may name besides kinds of operators: ``network`` is the part of the bandwidths of a topology that
collectives reach, ``overlap`` the part of the shorter of computation and transfer that a product hides."""
PHASES = ("forward", "backward", "optimizer")
"""Phases of a training step."""


class Source(NamedTuple):
    """A public document."""

    title: str
    url: str


class Figure(NamedTuple):
    """A figure of a profile and where it comes from.

    ``value`` is in bytes, bytes per second, operations per second, watts, or seconds. ``text`` is the value as the profile writes
    it. ``estimate`` tells that the figure is not published for this device: ``note`` says how it was found.
    """

    value: int | float
    text: str
    source: Source
    estimate: bool = False
    note: str | None = None


class Link(NamedTuple):
    """A link of one device. ``bandwidth`` is in bytes per second in one direction, over all lanes, None if unknown.

    ``scope`` is ``"pair"`` (to one other device), ``"node"`` (to the devices of the node) or ``"host"``.
    """

    name: str
    scope: str
    bandwidth: float | None


@dataclass(frozen=True)
class DeviceProfile:
    """What one device has. A figure that is not known is None, or absent from a mapping; it is never 0.

    Parameters
    ----------
    name : str
        The name of the profile, such as ``"h100-sxm-80gb"``.
    title, vendor, architecture : str
        For people.
    kind : str
        ``"gpu"``, ``"tpu"`` or ``"cpu"``.
    backend : str or None
        Type of the device for PyTorch: ``"cuda"`` (AMD's GPUs too), ``"mps"``, ``"xla"``, ``"cpu"``.
    memory : int or None
        Nominal capacity in bytes.
    visible_memory : int or None
        Bytes that the driver reports as the total: less than the capacity, because it keeps a part.
    memory_options : tuple of int
        All capacities in bytes that are sold, if there are several. ``memory`` is then one of them.
    memory_bandwidth : float or None
        Peak bytes per second between the memory and the device.
    rates : mapping of str to float
        Peak operations per second by data type (`RATES`) in products of dense matrices, on the fastest unit for them. A
        multiply-add counts as two operations. Structured sparsity is not counted.
    vector_rates : mapping of str to float
        The same outside matrix units, where published.
    links : tuple of Link
        Links to other devices and to the host.
    power : float or None
        Watts that the device takes at most, as its vendor publishes them.
    price : float or None
        What an hour of the device costs, in any currency. The profiles of the package have none.
    launch_overhead : float or None
        Seconds that the start of one kernel costs at least.
    phase_overheads : mapping of str to float
        Seconds that a program spends for each call outside of the operator, by phase (`PHASES`): modules, the walk of the
        backward pass. Where the device computes while the host goes on, there are none.
    efficiency : mapping of str to float
        Part of the peak that kernels of a kind reach, greater than 0 and at most 1, by `PARTS`.
    achieved : mapping of str to float
        The highest measured rate of products by data type, where one is published.
    operators : mapping of str to OperatorCost
        Measured costs by operator, such as ``"add_"``, or by operator and form: ``"sum leading"``.
    kinds : mapping of str to OperatorCost
        The same for operators of a kind that are not among them.
    operator_dtype : str
        The dtype in which these were measured.
    aliases : tuple of str
        Other names.
    note : str or None
        What a reader must know.
    figures : mapping of str to Figure
        Every figure with its source by its place in the file, such as ``"memory.bandwidth"`` or ``"rates.bfloat16"``.
    path : str
        The file.
    """

    name: str
    title: str
    vendor: str
    kind: str
    architecture: str
    backend: str | None = None
    memory: int | None = None
    visible_memory: int | None = None
    memory_options: tuple[int, ...] = ()
    memory_bandwidth: float | None = None
    rates: Mapping[str, float] = field(default_factory=dict)
    vector_rates: Mapping[str, float] = field(default_factory=dict)
    links: tuple[Link, ...] = ()
    power: float | None = None
    price: float | None = None
    launch_overhead: float | None = None
    phase_overheads: Mapping[str, float] = field(default_factory=dict)
    efficiency: Mapping[str, float] = field(default_factory=dict)
    achieved: Mapping[str, float] = field(default_factory=dict)
    operators: Mapping[str, OperatorCost] = field(default_factory=dict, repr=False)
    kinds: Mapping[str, OperatorCost] = field(default_factory=dict, repr=False)
    operator_dtype: str = "float32"
    aliases: tuple[str, ...] = ()
    note: str | None = None
    figures: Mapping[str, Figure] = field(default_factory=dict, repr=False)
    path: str = field(default="", repr=False)

    def __hash__(self) -> int:
        return hash((self.name, self.path, self.memory))

    def rate(self, dtype: Any, *, tf32: bool = False, vector: bool = False) -> float | None:
        """Return the peak operations per second for a data type (a name or a dtype), or None if unknown.

        With ``tf32``, products of float32 matrices count as TF32 where the device has it. With ``vector``, return the rate
        outside matrix units. The 8-bit floats share one rate, and so do float32 and complex64, float64 and complex128.
        """
        key = rate_name(dtype)
        if key is None:
            return None
        if vector:
            return self.vector_rates.get(key)
        if tf32 and key == "float32" and "tf32" in self.rates:
            key = "tf32"
        return self.rates.get(key)

    def link(self, scope: str) -> Link | None:
        """Return the fastest link of a scope (``"pair"``, ``"node"``, ``"host"``), or None if none is known."""
        if scope not in SCOPES:
            raise ValueError(f"scope must be one of {', '.join(SCOPES)}, got {scope!r}")
        found = [link for link in self.links if link.scope == scope]
        return max(found, key=lambda link: link.bandwidth or 0, default=None)

    def with_memory(self, memory: int) -> DeviceProfile:
        """Return the profile of the same device with another capacity in bytes."""
        size = memory >> 30
        name = self.name if memory == self.memory else f"{self.name}-{size}gb"
        return replace(self, memory=memory, visible_memory=self.visible_memory if memory == self.memory else None, name=name)

    def to_dict(self) -> dict[str, Any]:
        """Return the profile as values that JSON has. Units are those of the attributes."""
        return {
            "name": self.name, "title": self.title, "vendor": self.vendor, "kind": self.kind, "backend": self.backend,
            "architecture": self.architecture, "aliases": list(self.aliases), "note": self.note, "memory": self.memory,
            "visible_memory": self.visible_memory, "memory_options": list(self.memory_options),
            "memory_bandwidth": self.memory_bandwidth, "rates": dict(self.rates), "vector_rates": dict(self.vector_rates),
            "achieved": dict(self.achieved),
            "links": [link._asdict() for link in self.links], "power": self.power, "price": self.price,
            "launch_overhead": self.launch_overhead,
            "phase_overheads": dict(self.phase_overheads), "efficiency": dict(self.efficiency), "operator_dtype": self.operator_dtype,
            "operators": {name: cost.to_dict() for name, cost in self.operators.items()},
            "kinds": {name: cost.to_dict() for name, cost in self.kinds.items()},
            "figures": {key: {**figure._asdict(), "source": figure.source._asdict()} for key, figure in self.figures.items()},
        }  # fmt: skip


def rate_name(dtype: Any) -> str | None:
    """Return the name in `RATES` of a dtype or of its name, or None if there is no rate for it."""
    name = str(dtype).rpartition(".")[2]
    if name in RATES:
        return name
    if name.startswith("float8"):
        return "float8"
    if name.startswith("float4"):
        return "float4"
    short = {"double": "float64", "float": "float32", "half": "float16", "bf16": "bfloat16", "fp16": "float16", "fp32": "float32",
             "fp64": "float64", "fp8": "float8", "complex64": "float32", "complex128": "float64", "uint8": "int8"}  # fmt: skip
    return short.get(name)
