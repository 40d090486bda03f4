"""A model that several devices serve together: what each holds, computes and communicates in a prompt and in decode steps.

The whole model runs on distributed tensors of a simulated mesh, with the cache that its own code makes. Its matrices are cut as they are
for training (see `metatensor.plan.arranging`), and activations are whole between layers. Modules of stacked experts are divided
along the experts: each rank computes with its own, and the results are summed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import metatensor as mt
from metatensor._core.nested import map_tensors, tensors_in
from metatensor.analysis.collectives import collective_time
from metatensor.analysis.recomputation import repeated_layers
from metatensor.analysis.timing import predict
from metatensor.devices.topologies import Topology
from metatensor.distributed import CommunicationLog
from metatensor.distributed.tensor import DTensor, Partial, Replicate, init_device_mesh
from metatensor.nn.modules.module import Module
from metatensor.plan.arranging import Arranged, local_numel
from metatensor.plan.blocks import StandIn
from metatensor.plan.decoding import Arguments, Decoder, _State
from metatensor.plan.weights import StoredWeights

__all__ = ["DividedDecoder"]

WORTH = 0.99
"""A matrix is made whole, which takes more memory, if a step then takes at most this fraction of the time."""
SAMPLE = 16
"""Tokens of the run that finds how matrices are cut."""


class LocalExperts(StandIn):
    """Stands for a module of stacked experts: applies the experts of one rank, and sums the results of all ranks."""

    def __init__(self, experts: Module, number: int, mesh: Any) -> None:
        local = copy.deepcopy(experts)
        for name, p in list(local._parameters.items()):
            if p is not None:
                part = mt.empty(number // mesh.size(), *p.shape[1:], dtype=p.dtype, device="meta")
                local._parameters[name] = mt.nn.Parameter(part, False)
        for name, value in list(vars(local).items()):
            if type(value) is int and value == number:
                setattr(local, name, number // mesh.size())
        super().__init__(local, _mesh=mesh)

    @property
    def elements(self) -> int:
        """Elements of the parameters of one rank."""
        return sum(p.numel() for p in self._stands_for.parameters())

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        whole = lambda t: t.redistribute(placements=[Replicate()]).to_local() if isinstance(t, DTensor) else t
        output = self._stands_for(*map_tensors(whole, args), **map_tensors(whole, kwargs))
        return map_tensors(lambda t: DTensor.from_local(t, self._mesh, [Partial()]).redistribute(placements=[Replicate()]), output)


class _ArrangedModel(Arranged):
    """A whole model, in which layers of one kind are cut alike."""

    def __init__(self, model: Module, mesh: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        self._places: dict[Any, Any] = {}
        self._paths: dict[int, str] | None = None
        self._kinds: dict[str, Any] = {}
        for path, layer in repeated_layers(model):
            self._kinds[path] = type(layer), tuple((name, tuple(p.shape), p.dtype) for name, p in layer.named_parameters())
        super().__init__(model, mesh, args, kwargs)

    def _choose(self, module: Module, args: tuple, kwargs: dict[str, Any]) -> None:
        if id(module) in self._chosen:
            return
        if self._paths is None:
            self._paths = {id(m): path for path, m in self.module.named_modules()}
        path = self._paths[id(module)]
        layer = next((one for one in self._kinds if path == one or path.startswith(f"{one}.")), None)
        key = None if layer is None else (self._kinds[layer], path[len(layer) :])
        if key is None or key not in self._places:
            super()._choose(module, args, kwargs)
            if key is not None:
                self._places[key] = {name: p.data.placements[0] for name, p in module._parameters.items() if p is not None}
            return
        self._chosen.add(id(module))
        self._distribute(module, self._places[key])
        self.cut |= {f"{path}.{name}": place.dim for name, place in self._places[key].items() if place.is_shard()}

    def alike(self) -> list[list[str]]:
        """Return the paths of modules with a cut matrix, in groups: modules at the same place in layers of one kind are one group."""
        found: dict[Any, dict[str, None]] = {}
        for name in self.cut:
            path = name.rpartition(".")[0]
            layer = next((one for one in self._kinds if path == one or path.startswith(f"{one}.")), None)
            found.setdefault(path if layer is None else (self._kinds[layer], path[len(layer) :]), {})[path] = None
        return [list(paths) for paths in found.values()]

    def placed_as(self, paths: list[str], places: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
        """Place the parameters of modules, by default whole on each rank, and return how they were placed before."""
        before = []
        for i, path in enumerate(paths):
            module = self.module.get_submodule(path)
            before.append({name: p.data.placements[0] for name, p in module._parameters.items() if p is not None})
            self._distribute(module, dict.fromkeys(before[-1], Replicate()) if places is None else places[i])
            self.cut = {name: dim for name, dim in self.cut.items() if name.rpartition(".")[0] != path}
            if places is not None:
                self.cut |= {f"{path}.{name}": place.dim for name, place in places[i].items() if place.is_shard()}
        return before


class DividedDecoder(Decoder):
    """Runs a model that the ranks of a node serve together. Figures are those of one rank.

    Parameters
    ----------
    model, arguments, feed
        As for `Decoder`.
    ranks : int
        Number of devices.
    topology : Topology
        The devices and their links.

    Raises
    ------
    ValueError
        If no matrix can be divided.
    """

    def __init__(self, model: Any, arguments: Arguments | None, feed: Callable[[Any], dict[str, Any]] | None, ranks: int,
                 topology: Topology) -> None:  # fmt: skip
        super().__init__(model, arguments, feed)
        self.topology, self.ranks = topology, ranks
        whole = self.arguments
        self.mesh = init_device_mesh("meta", (ranks,))
        inner = copy.deepcopy(model)
        self.experts = _divide_experts(inner, self.mesh)
        for _, layer in repeated_layers(inner):
            layer.register_forward_pre_hook(_whole_first, with_kwargs=True)
        args, kwargs = whole(1, SAMPLE)
        if "use_cache" in self.parameters:
            kwargs.setdefault("use_cache", False)
        inner.eval()
        with mt.device("meta"):
            self.arranged = _ArrangedModel(inner, self.mesh, args, kwargs)
        if not self.arranged.divides and not self.experts:
            raise ValueError(f"serve: no matrix of {type(model).__name__} can be divided among {ranks} devices")
        self.model = self.arranged.module
        self.arguments = lambda batch, tokens: map_tensors(lambda t: self.arranged.placed(t, False), whole(batch, tokens))
        self._improve()

    def _improve(self) -> None:
        """Make matrices whole again where this is faster, which is tried for each.

        A matrix was cut by the cost of its own product. Latent keys and values, or the parts of a joint projection, can therefore be cut
        although the code that follows needs them whole.
        """

        def cost() -> float:
            calls = self.calls(2 * self.ranks, SAMPLE - 1, 1)
            seconds = predict(calls, self.topology.device).seconds or sum(call.read + call.written for call in calls) * 1e-12
            return seconds + self.waiting(2 * self.ranks, SAMPLE - 1, 1)

        best, whole = cost(), []
        for paths in self.arranged.alike():
            before = self.arranged.placed_as(paths, None)
            found = cost()
            if found < WORTH * best:
                best = found
                whole.append((paths, before))
            else:
                self.arranged.placed_as(paths, before)
        for paths, before in reversed(whole):  # once others are whole, cutting this one may be faster after all
            self.arranged.placed_as(paths, before)
            found = cost()
            if WORTH * found <= best:
                best = found
            else:
                self.arranged.placed_as(paths, None)
        self.seconds.clear()

    @contextmanager
    def _inference(self) -> Iterator[None]:
        with super()._inference(), self.arranged.running():
            yield

    def _call(self, batch: int, tokens: int, state: _State | None) -> _State:
        try:
            return super()._call(batch, tokens, state)
        finally:
            self.arranged.finished()

    def state_bytes(self, batch: int, tokens: int) -> int:
        """Return the bytes of the state on one rank after a decode step, as returned by the model.

        Other live memory is not counted, because distributed tensors keep parts for later calls.
        """
        found = sum(t.nbytes for t in self.tensors(batch, tokens))
        return found or super().state_bytes(batch, tokens)

    def waiting(self, batch: int, before: int, tokens: int) -> float:
        """Return the seconds of the collectives of a step. No computation hides them."""
        with self._inference():
            state = self._call(batch, before, None) if before else None
            with CommunicationLog() as log:
                state = self._call(batch, tokens, state)
            del state
        ranks = range(self.ranks)
        return sum(collective_time(entry.kind, entry.bytes, ranks, self.topology).seconds for entry in log
                   if entry.bytes and entry.kind != "broadcast")  # fmt: skip

    def divided(self, stored: StoredWeights, model: Module) -> StoredWeights:
        """Return the weights of one rank. ``stored`` are those of the whole model."""
        found = copy.copy(stored)
        found.own, found.stored = dict(stored.own), dict(stored.stored)
        modules = dict(self.arranged.module.named_modules())
        seen: set[int] = set()
        for path, module in model.named_modules():
            parameters = {name: p for name, p in module._parameters.items() if p is not None}
            if path not in stored.own or not parameters:
                continue
            if path in self.experts:
                part = self.experts[path].elements * next(iter(parameters.values())).element_size()
            else:
                part = sum(local_numel(modules[path]._parameters[name]) * p.element_size() for name, p in parameters.items())
            ratio = part / stored.own[path] if stored.own[path] else 1.0
            found.own[path], found.stored[path] = part, int(stored.stored[path] * ratio)
            if not all(id(p) in seen for p in parameters.values()):  # tied weights count once
                found.nbytes -= stored.stored[path] - found.stored[path]
            seen.update(map(id, parameters.values()))
        return found

    def remarks(self) -> list[str]:
        """Return how the model is divided."""
        cut = {name.rpartition(".")[0].rpartition(".")[2] for name in self.arranged.cut}
        found = [f"divided among {self.ranks} devices of a node: {', '.join(sorted(cut))}"] if cut else []
        if self.experts:
            found.append(f"experts are divided among the devices: {len(self.experts)} modules")
        return found


def _whole_first(module: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Make the first activation of a layer whole on each rank."""
    first = next((t for t in tensors_in((args, kwargs)) if isinstance(t, DTensor) and t.is_floating_point()), None)
    if first is None or first.placements == (Replicate(),):
        return None
    return map_tensors(lambda t: t.redistribute(placements=[Replicate()]) if t is first else t, (args, kwargs))


def _divide_experts(model: Module, mesh: Any) -> dict[str, LocalExperts]:
    """Replace modules of stacked experts, which are the first dimension of all their parameters. Return the replacements by path."""
    found: dict[str, LocalExperts] = {}
    for path, module in list(model.named_modules()):
        own = [p for p in module._parameters.values() if p is not None]
        numbers = {p.shape[0] for p in own if p.dim()}
        if not path or len(own) < 2 or len(numbers) != 1 or sum(p.dim() == 3 for p in own) < 2 or any(p.dim() < 2 for p in own):
            continue
        number = numbers.pop()
        if number % mesh.size() or number < mesh.size():
            continue
        found[path] = LocalExperts(module, number, mesh)
        model.set_submodule(path, found[path])
    return found
