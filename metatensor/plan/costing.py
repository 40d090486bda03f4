"""The cost of layouts of a training step, put together from the costs of blocks at local shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from metatensor.devices.topologies import Topology
from metatensor.distributed.tensor import init_device_mesh
from metatensor.nn.modules.module import Module
from metatensor.plan.arranging import Arranged
from metatensor.plan.blocks import Block, Given, NoBlocks, blocks_of, check_blocks
from metatensor.plan.layouts import Degrees, Layout
from metatensor.plan.measuring import measure_around, measure_block
from metatensor.plan.memory import Widths, rank_memory
from metatensor.plan.stages import split
from metatensor.plan.times import Impossible, StepTimes, Timed

__all__ = ["Coster"]


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
    widths : Widths
        Bytes for each element of a parameter.
    equal : bool
        Whether stages have equal numbers of blocks.
    """

    def __init__(
        self, model: Module, arguments: Callable[[int], tuple[tuple, dict[str, Any]]], loss: Callable[[Any, int], Any], topology: Topology,
        widths: Widths, equal: bool = False,
    ) -> None:  # fmt: skip
        self.model, self.arguments, self.loss, self.equal = model, arguments, loss, equal
        self.widths, self.times = widths, StepTimes(topology, widths)
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
        self._blocks: dict[Any, Timed | str] = {}
        self._arranged: dict[Any, Arranged | None] = {}
        self._around: dict[Any, tuple[Timed, Timed] | str] = {}
        self._meshes: dict[int, Any] = {}
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
                self._blocks[key] = self.times.part(cost, degrees.tensor)
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
            self._around[key] = self.times.part(both[0], degrees.tensor), self.times.part(both[1], degrees.tensor)
        return self._around[key]  # type: ignore[return-value]

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
                bounds = split([each[kind] for kind in self.order], before.seconds, behind.seconds, degrees.pipeline)
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
            received = counted[0][0].cost.input_bytes if i else 0
            memory.append(rank_memory(degrees, self.widths, [(part.cost, count) for part, count in counted], received,
                                      min(micro_batches, degrees.pipeline - i)))  # fmt: skip
            work.append(sum(part.seconds * count for part, count in counted))
            plain.append(sum((part.forward + part.backward) * count for part, count in counted))
        slowest = max(range(len(stages)), key=work.__getitem__)
        message = 0.0
        if degrees.pipeline > 1:
            message = self.times.message(each[self.order[0]].cost.input_bytes, degrees.tensor * degrees.data)
        parts = [each[kind] for kind in stages[slowest]]
        exposed, hidden = self.times.data(degrees, parts, [before, behind] if degrees.pipeline == 1 else [], micro_batches)
        elements = sum(part.cost.parameters for part in parts) + sum(part.cost.parameters for part in (before, behind)) / degrees.pipeline
        return Layout(
            degrees, micro_batches, stages, memory, compute=plain[slowest] * micro_batches,
            tensor_communication=(work[slowest] - plain[slowest]) * micro_batches + sum(part.reduction for part in parts),
            data_communication=exposed, hidden_communication=hidden,
            pipeline_communication=0.0 if degrees.pipeline == 1 else 2 * message * (micro_batches + degrees.pipeline - 2),
            bubble=sum(work) - work[slowest], optimizer=self.times.optimizer(elements / (degrees.data if degrees.shard else 1)),
            samples=batch, model_flops=self._flops(batch), peak_rate=self._rate,
        )  # fmt: skip

    def _flops(self, batch: int) -> float:
        """Return the operations of a step without recomputation, on all devices."""
        if self._operations is None:
            plain = Degrees(micro_batch=1)
            parts = [*((part, 1) for part in self.around(plain)), *((self.block(k, plain), n) for k, n in Counter(self.order).items())]
            self._operations = sum(n * sum(call.flops for call in (*part.cost.forward, *part.cost.backward)) for part, n in parts)
        return float(batch * self._operations)
