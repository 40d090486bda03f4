"""`device_map`: place the parts of a model on unequal devices, the host's memory and a disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

from metatensor._core.nested import tensors_in
from metatensor.analysis.calls import Call
from metatensor.analysis.estimate import at_inference
from metatensor.analysis.recomputation import repeated_layers
from metatensor.analysis.timing import predict
from metatensor.nn.modules.module import Module
from metatensor.plan.adapting import lora_step
from metatensor.plan.decoding import Arguments, Decoder, token_ids
from metatensor.plan.devices import Place, places_of
from metatensor.plan.rates import Rates, rates_of
from metatensor.plan.weights import StoredWeights
from metatensor.rules.policies import policy, policy_for

__all__ = ["DeviceMapPlan", "PlaceUse", "device_map"]

MOST_ORDERS = 5
"""Orders of at most this many devices are all tried; more devices keep their order."""


@dataclass
class Unit:
    """Modules that stay together."""

    path: str
    nbytes: int
    """Weights and buffers."""
    state: int
    """State of all sequences."""
    calls: list[Call] = field(default_factory=list)
    output: int = 0
    """Bytes of the tensor that a step passes on to the next unit."""
    tied_to: str | None = None
    """The unit that holds the same weights, and has to be in the same place."""


@dataclass(frozen=True)
class PlaceUse:
    """What a place holds, in bytes."""

    name: str
    title: str
    memory: int | None
    weight_bytes: int
    state_bytes: int
    reserved_bytes: int
    """Room for what a step creates and, on the first device, for the largest part that is loaded from elsewhere."""
    parts: int
    """Number of entries in the map."""
    seconds: float | None
    """Time of a decode step that is spent there, for loaded parts including the transfer. None if unknown."""


@dataclass
class DeviceMapPlan:
    """A placement. ``device_map`` is in the form of accelerate: paths of modules with a device's index, "cpu" or "disk"."""

    model: str
    device_map: dict[str, int | str]
    places: list[PlaceUse]
    fits: bool
    seconds: float | None
    """Time of a step. None if unknown."""
    batch: int
    context: int
    missing: int = 0
    """Bytes by which the model exceeds all places, if it does not fit."""
    advice: str | None = None
    remarks: list[str] = field(default_factory=list)
    training: bool = False
    """Whether steps train adapters."""
    transfer_seconds: float | None = 0.0
    """The part of the time in which activations go from one device to another. None if a link is unknown."""
    rates: Rates = Rates()
    """Power and price of all devices together."""

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens per second that steps generate, or train on, in all sequences."""
        return self.batch * (self.context if self.training else 1) / self.seconds if self.seconds else None

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as JSON types."""
        tokens = self.batch * (self.context if self.training else 1)
        return {**vars(self), "places": [vars(use) for use in self.places], "tokens_per_second": self.tokens_per_second,
                "rates": vars(self.rates), **self.rates.figures(self.seconds, 1, {"token": tokens})}  # fmt: skip

    def __str__(self) -> str:
        from metatensor.plan.tables import device_map_text

        return device_map_text(self)


def device_map(
    model: Any, *, devices: Any, context: int = 2048, batch: int = 1, arguments: Arguments | None = None, feed: Any = None,
    weights: Any = None, disk_bandwidth: float | None = None, lora: str | int | None = None, loss: Any = None, optimizer: Any = "adamw",
    recompute: str = "none", price: float | None = None,
) -> DeviceMapPlan:  # fmt: skip
    """Place the parts of a model for inference or LoRA training, such that a step is as fast as possible.

    Repeated layers are not divided. Each device runs what it holds. What is in the host's memory or on the disk is loaded to the
    first device when it is needed, as accelerate does it; room for the largest such part is kept there. Parts that follow
    each other are on the same device, and all orders of up to five devices are tried.

    Parameters
    ----------
    model : nn.Module
        The model, on meta.
    devices : str or list
        Places with their memory, such as ``"1x4090,1x3090,cpu:64GB,disk"``.
    context, batch : int
        Tokens of each sequence, and number of sequences. Their state is placed as well as the weights.
    arguments, feed
        As for `serve`. A model that keeps no state is run on ``context`` tokens.
    weights : str or path, optional
        A checkpoint, whose header says how many bytes the weights have.
    disk_bandwidth : float, optional
        Bytes per second from the disk to the first device. Without it, times with parts on the disk are unknown.
    lora : str or int, optional
        Train low-rank adapters, as for `estimate_training`, instead of decoding. The state of a part is then that of its adapters, their
        gradients, and what it saves for the backward pass; parts that are stored elsewhere are loaded in both passes.
    loss, optimizer, recompute
        With ``lora``: as for `estimate_training`.
    price : float, optional
        Price of a device for an hour, in any currency. Default: that of each profile, if it has one.

    Returns
    -------
    DeviceMapPlan
        The placement, or what is missing.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor import nn
    >>> with mt.device("meta"):
    ...     model = nn.Sequential(nn.Embedding(1000, 512), *(nn.Linear(512, 512) for _ in range(4)))
    >>> plan = mt.plan.device_map(model, devices="t4:5MB,cpu:1GB", context=8)
    >>> plan.device_map
    {'0': 0, '1': 'cpu', '2': 'cpu', '3': 'cpu', '4': 'cpu'}
    """
    if not isinstance(model, Module):
        raise ValueError(f"device_map: the model must be a module, got {type(model).__name__}")
    if context < 1 or batch < 1:
        raise ValueError(f"device_map: context and batch must be at least 1, got {context} and {batch}")
    places = places_of(devices)
    first = next((place for place in places if place.profile is not None), None)
    with policy(policy_for(None, first.profile if first else None)):
        stored = StoredWeights(model, weights)
        if lora is not None:
            step = lora_step(model, stored, arguments, batch, context, lora, loss, optimizer, recompute)
            state, calls, working = step.kept, step.calls, step.working
        else:
            decoder = Decoder(model, arguments, feed)
            state = decoder.by_module(batch, context)
            recurrent = bool(state)
            before, tokens = (context - 1, 1) if recurrent and context > 1 else (0, 1 if recurrent else context)
            calls = stored.charged(decoder.calls(batch, before, tokens))
            working = decoder.working_peak(batch, before, tokens)
    units = units_of(model, stored, state, calls)
    with policy(policy_for(None, first.profile if first else None)):
        _note_outputs(model, units, arguments or token_ids, batch, context if lora is not None or not state else 1)
    solver = _Solver(units, working, disk_bandwidth, loads=1 if lora is None else 2)
    found = None
    for usable in _fewer_kinds(places):
        found = solver.best(usable)
        if found is not None:
            break
    plan = solver.plan(found, places, type(model).__name__, batch, context)
    plan.remarks += stored.remarks
    plan.training = lora is not None
    plan.rates = _all_rates([place for place in places if place.kind == "device"], price)
    return plan


def _all_rates(places: list[Place], price: float | None) -> Rates:
    """Return the total power and the total price of devices. A total is unknown if the figure of one device is."""
    each = [rates_of(place.profile, price) for place in places]
    powers, prices = [rates.power for rates in each], [rates.price for rates in each]

    def total(values: list[float | None]) -> float | None:
        return None if None in values or not values else sum(value or 0.0 for value in values)

    return Rates(total(powers), total(prices))


def _fewer_kinds(places: list[Place]) -> list[list[Place]]:
    """Return the places without host and disk, without the disk, and all: the first with which the model fits is used."""
    kinds = [{"device"}, {"device", "cpu"}, {"device", "cpu", "disk"}]
    found: list[list[Place]] = []
    for allowed in kinds:
        chosen = [place for place in places if place.kind in allowed]
        if chosen and (not found or len(chosen) > len(found[-1])):
            found.append(chosen)
    return found


def units_of(model: Module, stored: StoredWeights, state: dict[str, int], calls: list[Call]) -> list[Unit]:
    """Return the parts of a model in the order in which they run. Repeated layers are whole."""
    layers = [path for path, _ in repeated_layers(model)]
    paths: dict[str, str] = {}
    units: dict[str, Unit] = {}
    storages: dict[Any, str] = {}
    for path, module in model.named_modules():
        own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        holder = next((layer for layer in layers if path == layer or path.startswith(f"{layer}.")), path)
        paths[path] = holder
        if not own and holder not in layers:
            continue
        unit = units.setdefault(holder, Unit(holder, 0, 0))
        for t in own:
            storage = t.untyped_storage()
            if storages.setdefault(storage, holder) != holder:
                unit.tied_to = storages[storage]
            elif path in stored.own and t is own[0]:
                unit.nbytes += stored.stored[path]
        unit.nbytes += sum(t.numel() * t.element_size() for t in module.buffers(recurse=False))
    order: list[str] = []
    latest = next(iter(units), "")
    for call in calls:
        holder = _holder(call.module, paths, units) or latest
        units[holder].calls.append(call)
        if holder not in order:
            order.append(holder)
    for path, nbytes in state.items():
        units[_holder(path, paths, units) or latest].state += nbytes
    return [units[path] for path in [*order, *(path for path in units if path not in order)]]


def _note_outputs(model: Module, units: list[Unit], arguments: Arguments, batch: int, tokens: int) -> None:
    """Note the bytes of the first tensor that each unit returns for a number of tokens of each sequence."""
    hooks = []

    def noting(unit: Unit) -> Any:
        def hook(module: Any, args: tuple, output: Any) -> None:
            first = next(tensors_in(output), None) if output is not None and not isinstance(output, Module) else None
            if first is not None:
                unit.output = first.numel() * first.element_size()

        return hook

    try:
        for unit in units:
            hooks.append(model.get_submodule(unit.path).register_forward_hook(noting(unit)))
        args, kwargs = arguments(batch, tokens)
        with at_inference(model, args, kwargs):
            model(*args, **kwargs)
    finally:
        for hook in hooks:
            hook.remove()


def _holder(path: str, paths: dict[str, str], units: dict[str, Unit]) -> str | None:
    """Return the unit in which a module lies, the nearest enclosing one if it has none of its own."""
    while True:
        if (holder := paths.get(path, path)) in units:
            return holder
        if not path:
            return None
        path = path.rpartition(".")[0]


class _Solver:
    """Finds the fastest placement of units in contiguous runs."""

    def __init__(self, units: list[Unit], working: int, disk_bandwidth: float | None, loads: int = 1) -> None:
        self.loads = loads
        """How many times a step loads a part that is stored elsewhere."""
        self.units, self.working, self.disk_bandwidth = units, working, disk_bandwidth
        self.free = [unit for unit in units if unit.tied_to is None]
        self.loaded_state = 0
        """Bytes of the state of parts that the first device loads."""
        self._times: dict[tuple[int, Any], float | None] = {}

    def seconds(self, unit: Unit, place: Place, main: Place) -> float | None:
        """Return the time of a unit's calls, with the transfer of its weights if the place only stores them."""
        runs = place if place.kind == "device" else main
        if runs.profile is None:
            return None
        key = id(unit), runs.profile
        if key not in self._times:
            self._times[key] = predict(unit.calls, runs.profile).seconds
        seconds = self._times[key]
        if runs is place or seconds is None:
            return seconds
        link = runs.profile.link("host")
        rate = link.bandwidth if link is not None else None
        if place.kind == "disk":
            rate = None if self.disk_bandwidth is None else min(self.disk_bandwidth, rate or self.disk_bandwidth)
        return None if rate is None else seconds + self.loads * unit.nbytes / rate

    def transfers(self, where: dict[str, Place], main: Place) -> float | None:
        """Return the seconds in which activations, and with two loads their gradients, go from device to device through the host."""
        total = 0.0
        for unit, following in zip(self.units, self.units[1:], strict=False):
            a, b = ((place if place.kind == "device" else main) for place in (where[unit.path], where[following.path]))
            if a is b or not unit.output:
                continue
            links = [place.profile.link("host") if place.profile is not None else None for place in (a, b)]
            rates = [link.bandwidth for link in links if link is not None and link.bandwidth]
            if len(rates) < 2:
                return None
            total += self.loads * sum(unit.output / rate for rate in rates)
        return total

    def cost(self, unit: Unit, place: Place, main: Place) -> float:
        """Return the time, or where it is unknown, a number that prefers devices to the host and the host to the disk."""
        seconds = self.seconds(unit, place, main)
        if seconds is not None:
            return seconds
        return (unit.nbytes + 1) * {"device": 1e-9, "cpu": 1e-6, "disk": 1e-3}[place.kind]

    def reserve(self, place: Place, usable: Sequence[Place]) -> int:
        """Return the bytes that are kept free in a place: on a device for what a step creates, on the first also for loaded parts."""
        main = usable[0]
        if place.kind != "device" and place is not main:
            return 0
        loads = place is main and place.kind == "device" and any(other.kind != "device" for other in usable)
        return self.working + (max((unit.nbytes for unit in self.free), default=0) + self.loaded_state if loads else 0)

    def best(self, usable: list[Place]) -> list[tuple[Place, list[Unit]]] | None:
        """Return the fastest placement, as runs of units in order. None if there is none."""
        self.loaded_state = 0
        while True:
            found = self._best(usable)
            state = sum(unit.state for place, held in found or () if place.kind != "device" and place is not usable[0] for unit in held)
            if state <= self.loaded_state:
                return found
            self.loaded_state = state

    def _best(self, usable: list[Place]) -> list[tuple[Place, list[Unit]]] | None:
        devices = [place for place in usable if place.kind == "device"]
        others = [place for place in usable if place.kind != "device"]
        orders = list(permutations(devices)) if len(devices) <= MOST_ORDERS else [tuple(devices)]
        found, lowest = None, float("inf")
        tried = set()
        for order in orders:
            kinds = tuple((place.profile, place.memory, place is usable[0]) for place in order)
            if kinds in tried:
                continue
            tried.add(kinds)
            cost, runs = self._split([*order, *others], usable)
            if runs is not None and cost < lowest:
                found, lowest = runs, cost
        return found

    def _split(self, order: list[Place], usable: list[Place]) -> tuple[float, list[tuple[Place, list[Unit]]] | None]:
        """Divide the units into one run for each place, in this order, by dynamic programming."""
        count, main = len(self.free), usable[0]
        lowest = [0.0] + [float("inf")] * count
        choices: list[list[int]] = []
        for place in order:
            room = float("inf") if place.memory is None else place.memory - self.reserve(place, usable)
            if place is main and room < 0:  # it runs what others store
                return float("inf"), None
            running = place if place.kind == "device" else main
            costs = [self.cost(unit, place, main) for unit in self.free]
            step, start = [float("inf")] * (count + 1), [0] * (count + 1)
            for end in range(count + 1):
                step[end], start[end] = lowest[end], end
                nbytes, cost = 0, 0.0
                for begin in range(end - 1, -1, -1):
                    unit = self.free[begin]
                    nbytes += unit.nbytes + (unit.state if running is place else 0)
                    if nbytes > room:
                        break
                    cost += costs[begin]
                    if lowest[begin] + cost < step[end]:
                        step[end], start[end] = lowest[begin] + cost, begin
            lowest = step
            choices.append(start)
        if lowest[count] == float("inf"):
            return lowest[count], None
        end, runs = count, []
        for place, start in zip(reversed(order), reversed(choices), strict=True):
            runs.append((place, self.free[start[end] : end]))
            end = start[end]
        return lowest[count], runs[::-1]

    def plan(self, runs: list[tuple[Place, list[Unit]]] | None, places: list[Place], model: str, batch: int, context: int) -> DeviceMapPlan:
        """Return the plan of a placement, or what is missing."""
        if runs is None:
            room = sum(max(0, (place.memory or 0) - self.reserve(place, places)) for place in places)
            needed = sum(unit.nbytes + unit.state for unit in self.free)
            largest = max(self.free, key=lambda unit: unit.nbytes)
            advice = ("add disk to the devices, or more memory of the host" if not any(place.kind == "disk" for place in places) else
                      f"the first device must hold its reserve and the largest part, {largest.path}; use a smaller dtype, batch or context")
            return DeviceMapPlan(model, {}, [], False, None, batch, context, max(needed - room, 1), advice)
        main = next(place for place in places)
        where = {unit.path: place for place, held in runs for unit in held}
        for unit in self.units:
            if unit.tied_to is not None:
                where[unit.path] = where[unit.tied_to]
        uses, total, known = [], 0.0, True
        usable = [place for place in places if any(place is other for other, _ in runs)]
        for place in places:
            held = [unit for unit in self.units if where[unit.path] is place]
            seconds = 0.0
            for unit in held:
                part = self.seconds(unit, place, main)
                known = known and part is not None
                seconds += part or 0.0
            total += seconds
            state = sum(unit.state for unit in held)
            if place.kind != "device" and main is not place:  # the state stays where the parts run
                state = 0
            elif place is main:
                state += sum(unit.state for unit in self.units if where[unit.path].kind != "device" and where[unit.path] is not main)
            nbytes = sum(unit.nbytes for unit in held if unit.tied_to is None)
            reserve = self.reserve(place, usable) - self.loaded_state * (place is main) if place in usable else 0
            uses.append(PlaceUse(place.name, place.title, place.memory, nbytes, state, reserve, len(held), seconds if known else None))
        entries = {path: int(place.name) if place.kind == "device" else place.name for path, place in where.items()}
        if len(set(entries.values())) == 1:
            entries = {"": next(iter(entries.values()))}
        moved = self.transfers(where, main)
        whole = total + moved if known and moved is not None else None
        return DeviceMapPlan(model, entries, uses, True, whole, batch, context, transfer_seconds=moved)
