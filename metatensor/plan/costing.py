"""The cost of layouts of a training step, put together from the costs of blocks at local shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from metatensor.analysis.collectives import collective_time
from metatensor.analysis.timing import predict
from metatensor.devices.topologies import Topology
from metatensor.distributed.tensor import init_device_mesh
from metatensor.nn.modules.module import Module
from metatensor.plan.arranging import Arranged
from metatensor.plan.blocks import Block, Given, NoBlocks, blocks_of, check_blocks
from metatensor.plan.layouts import Degrees, Layout
from metatensor.plan.measuring import PartCost, measure_around, measure_block

__all__ = ["Coster", "Impossible", "Timed"]


class Impossible(ValueError):
    """A layout that cannot be costed. The message says why."""


@dataclass
class Timed:
    """The cost of a part with its times, in seconds."""

    cost: PartCost
    forward: float
    backward: float
    forward_communication: float
    backward_communication: float
    reduction: float
    """Of gradients, once in a step."""

    @property
    def seconds(self) -> float:
        """Seconds of both passes with communication."""
        return self.forward + self.backward + self.forward_communication + self.backward_communication


class Coster:
    """Costs layouts of one model.

    Each kind of block runs once on meta for each tensor degree, micro-batch and recomputation; a layout is then a sum.

    Parameters
    ----------
    model : Module
        The model, on meta, in the dtype of the computation.
    arguments : callable
        Returns the arguments of the model for a number of samples.
    loss : callable
        Returns the loss for the model's output, with data for as many samples.
    topology : Topology
        The devices.
    state_bytes, master_bytes, gradient_bytes : int
        Bytes of the optimizer's state, of a copy of the parameter that it updates (0 if it updates the parameter itself) and of the
        gradient, for each element.
    equal : bool
        Whether stages have equal numbers of blocks.
    """

    def __init__(
        self, model: Module, arguments: Callable[[int], tuple[tuple, dict[str, Any]]], loss: Callable[[Any, int], Any], topology: Topology,
        state_bytes: float, master_bytes: int, gradient_bytes: int, equal: bool = False,
    ) -> None:  # fmt: skip
        self.model, self.arguments, self.loss, self.topology = model, arguments, loss, topology
        self.equal = equal
        self.state_bytes, self.master_bytes, self.gradient_bytes = state_bytes, master_bytes, gradient_bytes
        self.kinds: list[Block]
        self.remarks: dict[str, None] = {}
        self._given: dict[int, dict[str, Given]] = {}
        try:
            self.kinds, self.order = blocks_of(model)
            self.paths = [path for block in self.kinds for path in block.paths]
            self.given(1)
        except NoBlocks as error:
            self.kinds, self.order, self.paths, self._given = [], [], [], {}
            self.remarks[f"the model is planned as one part, without stages and recomputation: {error}"] = None
        self.itemsize = max((p.element_size() for p in model.parameters()), default=4)
        self._blocks: dict[Any, Timed | str] = {}
        self._arranged: dict[Any, Arranged | None] = {}
        self._around: dict[Any, tuple[Timed, Timed] | str] = {}
        self._meshes: dict[int, Any] = {}
        self._collectives: dict[Any, float] = {}
        self._stages: dict[Degrees, list[list[int]]] = {}
        self._operations: int | None = None
        dtype = next((str(p.dtype).rpartition(".")[2] for p in model.parameters()), "float32")
        self._rate = topology.device.rate(dtype)

    # Parts ------------------------------------------------------------------------

    def given(self, batch: int) -> dict[str, Given]:
        """Return the arguments of each block for a micro-batch."""
        if batch not in self._given:
            args, kwargs = self.arguments(batch)
            self._given[batch] = check_blocks(self.model, self.paths, args, kwargs) if self.paths else {}
        return self._given[batch]

    def mesh(self, tensor: int) -> Any:
        """Return a simulated mesh of tensor-parallel ranks, None for one."""
        if tensor == 1:
            return None
        if tensor not in self._meshes:
            self._meshes[tensor] = init_device_mesh("meta", (tensor,), mesh_dim_names=("tensor",))
        return self._meshes[tensor]

    def block(self, kind: int, degrees: Degrees) -> Timed:
        """Return the cost of a kind of block. Raise `Impossible` if it cannot be divided so."""
        shape = kind, degrees.tensor, degrees.sequence, degrees.micro_batch
        key = (*shape, degrees.recompute)
        if key not in self._blocks:
            block = self.kinds[kind]
            args, kwargs, _ = self.given(degrees.micro_batch)[block.path]
            try:
                cost, arranged = measure_block(block.module, args, kwargs, self.mesh(degrees.tensor), degrees.sequence, degrees.recompute,
                                               self._arranged.get(shape))  # fmt: skip
                if arranged is not None and not arranged.divides:
                    raise Impossible(f"no matrix of {block.path} can be cut into {degrees.tensor} equal parts")
                self._arranged[shape] = arranged
                self._blocks[key] = self._timed(cost, degrees.tensor)
            except Exception as error:
                self._blocks[key] = f"{block.path} cannot be divided: {str(error).splitlines()[0]}"
        found = self._blocks[key]
        if isinstance(found, str):
            raise Impossible(found)
        return found

    def around(self, degrees: Degrees) -> tuple[Timed, Timed]:
        """Return the costs of what is before and behind the blocks. If it cannot be divided, each tensor-parallel rank computes it."""
        key = degrees.tensor, degrees.sequence, degrees.micro_batch
        if key not in self._around:
            args, kwargs = self.arguments(degrees.micro_batch)
            blocks = self.given(degrees.micro_batch)
            loss = lambda output: self.loss(output, degrees.micro_batch)
            try:
                both = measure_around(self.model, blocks, args, kwargs, loss, self.mesh(degrees.tensor), degrees.sequence)
            except Exception as error:
                if degrees.tensor == 1:
                    raise
                self.remarks[f"what is around the blocks is computed by each tensor-parallel rank: {str(error).splitlines()[0]}"] = None
                both = measure_around(self.model, blocks, args, kwargs, loss, None, False)
            self._around[key] = self._timed(both[0], degrees.tensor), self._timed(both[1], degrees.tensor)
        return self._around[key]  # type: ignore[return-value]

    def _timed(self, cost: PartCost, tensor: int) -> Timed:
        profile = self.topology.device
        times = []
        for calls in (cost.forward, cost.backward):
            timing = predict(calls, profile)
            seconds = timing.seconds if calls else 0.0
            if seconds is None:
                raise Impossible(f"the profile of {profile.name} lacks {next(iter(timing.unknown))}")
            times.append(seconds)
        talked = [sum(self.collective(kind, nbytes, tensor, 1) for kind, nbytes in pairs)
                  for pairs in (cost.forward_communication, cost.backward_communication)]  # fmt: skip
        return Timed(cost, times[0], times[1], talked[0], talked[1], self.collective("all_reduce", cost.reduced, tensor, 1))

    def collective(self, kind: str, nbytes: int, ranks: int, stride: int) -> float:
        """Return the seconds of a collective of ranks that are ``stride`` apart."""
        if ranks == 1 or not nbytes:
            return 0.0
        key = kind, nbytes, ranks, stride
        if key not in self._collectives:
            self._collectives[key] = collective_time(kind, nbytes, range(0, ranks * stride, stride), self.topology).seconds
        return self._collectives[key]

    # Layouts ----------------------------------------------------------------------

    def stages(self, degrees: Degrees) -> list[list[int]]:
        """Return the kinds of the blocks of each stage: contiguous runs such that the slowest stage is as fast as possible."""
        if not self.order:
            return [[]]
        key = replace(degrees, data=1, shard=0)
        if key not in self._stages:
            before, behind = self.around(degrees)
            each = [self.block(kind, degrees).seconds for kind in range(len(self.kinds))]
            if self.equal:
                if len(self.order) % degrees.pipeline:
                    raise Impossible(f"{len(self.order)} blocks cannot be divided into {degrees.pipeline} equal stages")
                size = len(self.order) // degrees.pipeline
                bounds = [(i, i + size) for i in range(0, len(self.order), size)]
            else:
                bounds = _split([each[kind] for kind in self.order], before.seconds, behind.seconds, degrees.pipeline)
            self._stages[key] = [self.order[start:end] for start, end in bounds]
        return self._stages[key]

    def layout(self, degrees: Degrees, batch: int) -> Layout:
        """Return the cost of a layout for a global batch."""
        micro_batches, rest = divmod(batch, degrees.data * degrees.micro_batch)
        if rest or not micro_batches:
            raise Impossible(f"{batch} samples cannot be divided into micro-batches of {degrees.micro_batch} on {degrees.data} ranks")
        before, behind = self.around(degrees)
        stages = self.stages(degrees)
        each = [self.block(kind, degrees) for kind in range(len(self.kinds))]
        memory, work, plain = [], [], []
        for i, kinds in enumerate(stages):
            counted = [(each[kind], count) for kind, count in Counter(kinds).items()]
            counted += [(before, 1)] * (i == 0) + [(behind, 1)] * (i == len(stages) - 1)
            memory.append(self._memory(degrees, i, counted, micro_batches))
            work.append(sum(part.seconds * count for part, count in counted))
            plain.append(sum((part.forward + part.backward) * count for part, count in counted))
        slowest = max(range(len(stages)), key=work.__getitem__)
        message = self._message(degrees)
        parts = [each[kind] for kind in stages[slowest]]
        exposed, hidden = self._data(degrees, parts, [before, behind] if degrees.pipeline == 1 else [], micro_batches)
        elements = sum(part.cost.parameters for part in parts) + sum(part.cost.parameters for part in (before, behind)) / degrees.pipeline
        return Layout(
            degrees, micro_batches, stages, memory, compute=plain[slowest] * micro_batches,
            tensor_communication=(work[slowest] - plain[slowest]) * micro_batches + sum(part.reduction for part in parts),
            data_communication=exposed, hidden_communication=hidden,
            pipeline_communication=0.0 if degrees.pipeline == 1 else 2 * message * (micro_batches + degrees.pipeline - 2),
            bubble=sum(work) - work[slowest], optimizer=self._optimizer(elements / (degrees.data if degrees.shard else 1)),
            samples=batch, model_flops=self._flops(batch), peak_rate=self._rate,
        )  # fmt: skip

    def _memory(self, degrees: Degrees, stage: int, parts: list[tuple[Timed, int]], micro_batches: int) -> dict[str, int]:
        """Return the peak memory of a rank of a stage by category. ``parts`` are the different parts of the stage with their numbers."""
        every = [(part.cost, count) for part, count in parts]
        elements, frozen = sum(cost.parameters * n for cost, n in every), sum(cost.frozen * n for cost, n in every)
        largest = max(cost.parameters for cost, _ in every)
        divided = [degrees.data if degrees.shard >= level else 1 for level in (1, 2, 3)]
        flights = min(micro_batches, degrees.pipeline - stage)
        saved = sum(cost.saved * n for cost, n in every) + (every[0][0].input_bytes if stage else 0)
        gradients = elements / divided[1]
        whole = copies = 0
        if degrees.shard == 3:  # two parts are whole at a time: the one that runs and the one that comes next
            copies = min(2 * largest, elements) * self.itemsize
            stored = elements / divided[2] * (self.master_bytes or self.itemsize)
        else:
            stored = elements * self.itemsize + elements / divided[0] * self.master_bytes
        if degrees.shard >= 2:
            whole = largest * self.itemsize
        return {
            "parameter": int(stored + frozen * self.itemsize), "gradient": int(gradients * self.gradient_bytes),
            "optimizer": int(elements / divided[0] * self.state_bytes), "saved": int(saved * flights),
            "temporary": max(max(cost.forward_peak, cost.backward_peak) for cost, _ in every), "communication": int(copies + whole),
        }  # fmt: skip

    def _message(self, degrees: Degrees) -> float:
        """Return the seconds in which a stage sends its result for a micro-batch to the next one."""
        if degrees.pipeline == 1:
            return 0.0
        nbytes = self.block(self.order[0], degrees).cost.input_bytes
        key = "send", nbytes, degrees.tensor * degrees.data
        if key not in self._collectives:
            self._collectives[key] = collective_time("send", nbytes, (0, degrees.tensor * degrees.data), self.topology).seconds
        return self._collectives[key]

    def _data(self, degrees: Degrees, parts: list[Timed], ends: list[Timed], micro_batches: int) -> tuple[float, float]:
        """Return the seconds of data-parallel collectives that computation does not hide, and of those that it hides."""
        n, stride = degrees.data, degrees.tensor
        if n == 1:
            return 0.0, 0.0
        exposed = hidden = 0.0
        every = [*ends[:1], *parts, *ends[1:]]

        def seconds(kind: str, part: Timed, itemsize: int) -> float:
            return self.collective(kind, part.cost.parameters * itemsize, n, stride)

        def overlap(talk: float, work: float) -> None:
            nonlocal exposed, hidden
            exposed, hidden = exposed + max(0.0, talk - work), hidden + min(talk, work)

        if degrees.shard == 3:
            gathers = [seconds("all_gather", part, self.itemsize) for part in every]
            scatters = [seconds("reduce_scatter", part, self.gradient_bytes) for part in every]
            exposed += micro_batches * (gathers[0] + scatters[0])  # the first gather, and the last reduction
            for i, part in enumerate(every):
                following = gathers[i + 1] if i + 1 < len(every) else 0.0
                preceding = (gathers[i - 1] if i else 0.0) + (scatters[i + 1] if i + 1 < len(every) else 0.0)
                overlap(following * micro_batches, part.forward * micro_batches)
                overlap(preceding * micro_batches, part.backward * micro_batches)
            return exposed, hidden
        if degrees.shard == 0:
            overlap(sum(seconds("all_reduce", part, self.gradient_bytes) for part in every), sum(part.backward for part in every))
            return exposed, hidden
        times = micro_batches if degrees.shard == 2 else 1
        scattered = sum(seconds("reduce_scatter", part, self.gradient_bytes) for part in every)
        overlap(times * scattered, times * sum(part.backward for part in every))
        overlap(sum(seconds("all_gather", part, self.itemsize) for part in every), sum(part.forward for part in every))
        return exposed, hidden

    def _optimizer(self, elements: float) -> float:
        """Return the seconds of a fused update: each value is read once, and written once except the gradient."""
        bandwidth = self.topology.device.memory_bandwidth
        if bandwidth is None:
            raise Impossible(f"the profile of {self.topology.device.name} lacks the bandwidth of the memory")
        own = self.master_bytes or self.itemsize
        nbytes = self.gradient_bytes + 2 * own + 2 * self.state_bytes + (self.itemsize if self.master_bytes else 0)
        return elements * nbytes / (bandwidth * self.topology.device.efficiency.get("elementwise", 0.8))

    def _flops(self, batch: int) -> float:
        """Return the operations of a step without recomputation, on all devices."""
        if self._operations is None:
            plain = Degrees(micro_batch=1)
            parts = [*((part, 1) for part in self.around(plain)), *((self.block(k, plain), n) for k, n in Counter(self.order).items())]
            self._operations = sum(n * sum(call.flops for call in (*part.cost.forward, *part.cost.backward)) for part, n in parts)
        return float(batch * self._operations)


def _split(times: list[float], before: float, behind: float, stages: int) -> list[tuple[int, int]]:
    """Divide blocks into contiguous, non-empty runs. The longest run, with the ends of the model, is as short as possible."""

    def runs(longest: float) -> list[tuple[int, int]] | None:
        """Return runs of at most this time, each but the last as long as possible; None if there are none."""
        found, start = [], 0
        for stage in range(stages):
            left = stages - stage - 1
            if not left:
                end = len(times)
                seconds = sum(times[start:]) + behind
            else:
                end, seconds = start, 0.0
                while end < len(times) - left and (end == start or seconds + times[end] <= longest - (0.0 if stage else before)):
                    seconds += times[end]
                    end += 1
            if seconds + (0.0 if stage else before) > longest or end == start:
                return None
            found.append((start, end))
            start = end
        return found

    low, high = 0.0, sum(times) + before + behind
    best = runs(high * (1 + 1e-9))
    assert best is not None
    for _ in range(40):
        middle = (low + high) / 2
        found = runs(middle)
        if found is None:
            low = middle
        else:
            best, high = found, middle
    return best
