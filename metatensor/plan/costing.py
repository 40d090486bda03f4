"""The cost of layouts of a training step, put together from the costs of blocks at local shapes."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

from metatensor.devices.topologies import Topology
from metatensor.distributed.device_mesh import DeviceMesh
from metatensor.nn.modules.module import Module
from metatensor.plan.arranging import Arranged
from metatensor.plan.blocks import Block, Given, NoBlocks, blocks_of, check_blocks, paths_of
from metatensor.plan.communicating import Calls, step_collectives
from metatensor.plan.contexts import check_positions, cut, sequence_of
from metatensor.plan.costs import PartCost
from metatensor.plan.experts import Experts, expert_mesh, experts_of
from metatensor.plan.layouts import Degrees, Layout
from metatensor.plan.measuring import Beside, measure_around, measure_block
from metatensor.plan.memory import RankMemory, StageMemory, Widths, shared
from metatensor.plan.moments import Moment, alone, moments, wasted_gathers
from metatensor.plan.rates import Rates
from metatensor.plan.schedules import Run, rank_of_stage, rank_style, run_times, split_backward
from metatensor.plan.stages import Stage, split
from metatensor.plan.times import Impossible, Passes, StepTimes, Timed

__all__ = ["Candidate", "Coster", "lower_bound"]


ROUNDING = 1e-12
"""Part of a time that is lost or gained by rounding."""
POSITIONS = 2048
"""Fewest positions of a part into which sequences are divided, unless the caller asks for shorter parts."""


def _shape(degrees: Degrees) -> tuple[Any, ...]:
    """Return what the runs of blocks on meta depend on."""
    return degrees.tensor, degrees.sequence, degrees.micro_batch, degrees.recompute, degrees.context, degrees.expert


def _divided(degrees: Degrees) -> bool:
    """Return whether a block runs on parts of its tensors."""
    return degrees.tensor > 1 or degrees.context > 1 or degrees.expert > 1


EXPECTED = (ValueError, TypeError, RuntimeError, IndexError, AssertionError)
"""What the code of a model may raise on parts of tensors. RuntimeError includes NotImplementedError."""


def _reason(error: Exception) -> str:
    """Return the first line of a message. Errors that say little about tensors are given with their class and place."""
    text = next(iter(str(error).splitlines()), "")
    if isinstance(error, EXPECTED):
        return text or type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{f': {text}' if text else ''}{place}"


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
        ``loss(output, samples)`` returns the loss of the model's output for so many samples.
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
        self.least = 1
        """The fewest samples with which the model runs: two if it refuses a single one, as batch normalization may in training."""
        self._run_once()
        self.own: frozenset[Hashable] = frozenset().union(*(one.again for one in self.given(self.least).values()))
        """The checkpoints of the model itself that contain blocks."""
        if self.own:
            self.remarks["the model itself computes its blocks again in the backward pass, so each is planned with recompute full"] = None
        self._blocks: dict[Any, Timed | str] = {}
        self._arranged: dict[Any, Arranged | None] = {}
        self._around: dict[Any, tuple[Timed, Timed]] = {}
        self._meshes: dict[Any, Any] = {}
        self._experts: dict[int, Experts | None] = {}
        self._positions: set[tuple[int, int]] = set()
        self._stages: dict[Any, list[Stage]] = {}
        self._prepared: dict[Any, _Prepared] = {}
        self._split: set[Any] = set()
        self._tied = len(list(model.named_parameters(remove_duplicate=False))) > len(list(model.parameters()))
        self._operations: int | None = None
        self.rates = Rates()
        """Power and price of a device."""
        self.tokens: int | None = None
        """Tokens of a sample."""
        self.kernels: tuple[str, ...] = ()
        """Kernels that save less than the operators of the blocks."""
        dtype = next((str(p.dtype).rpartition(".")[2] for p in model.parameters()), "float32")
        self._rate = topology.device.rate(dtype)

    # Parts ------------------------------------------------------------------------

    def _run_once(self) -> None:
        """Find the blocks, and how many samples the model needs."""
        try:
            self.kinds, self.order = blocks_of(self.model)
            self.paths = paths_of(self.kinds, self.order)
        except NoBlocks as error:
            self._is_one_part(error)
        try:
            self._try_samples()
        except NoBlocks as error:
            self._is_one_part(error)
            self._try_samples()

    def _is_one_part(self, error: NoBlocks) -> None:
        self.kinds, self.order, self.paths, self._given = [], [], [], {}
        self.remarks[f"the model is planned as one part, without stages and recomputation: {error}"] = None

    def _try_samples(self) -> None:
        """Run the model with one sample, and if it raises, with two."""
        try:
            self._run(1)
        except NoBlocks:
            raise
        except Exception as error:
            try:
                self._run(2)
            except NoBlocks:
                raise
            except Exception:
                raise error from None
            self.least = 2
            self.remarks[f"the model does not run with a single sample, so micro-batches have at least 2: {_reason(error)}"] = None

    def _run(self, batch: int) -> None:
        if self.paths:
            self.given(batch)
        else:
            args, kwargs = self.arguments(batch)
            self.model(*args, **kwargs)

    def given(self, batch: int) -> dict[str, Given]:
        """Return the arguments of each block for a micro-batch."""
        if batch not in self._given:
            args, kwargs = self.arguments(batch)
            self._given[batch] = check_blocks(self.model, self.paths, args, kwargs) if self.paths else {}
        return self._given[batch]

    def mesh(self, tensor: int) -> Any:
        """Return a simulated mesh of tensor-parallel ranks, None for one."""
        return None if tensor == 1 else self._mesh(tensor, 1)

    def block(self, kind: int, degrees: Degrees) -> Timed:
        """Return the cost of a kind of block. Raise `Impossible` if it cannot be divided in this way."""
        key = kind, _shape(degrees)
        path = self.kinds[kind].path
        self._check_samples(degrees)
        if degrees.recompute != "none" and self.given(degrees.micro_batch)[path].changes:
            raise Impossible(f"{path} changes its argument in place, so it cannot be computed again from it")
        if key not in self._blocks:
            try:
                self._blocks[key] = self.times.part(self._measured(kind, degrees), degrees.tensor)
            except MemoryError:
                raise
            except Exception as error:
                if degrees.micro_batch == self.least and not (_divided(degrees) or degrees.recompute != "none"):
                    raise
                self._failed(error)
                again = "cannot be computed again" if degrees.recompute != "none" else f"does not run on {degrees.micro_batch} samples"
                self._blocks[key] = f"{path} {'cannot be divided' if _divided(degrees) else again}: {_reason(error)}"
        found = self._blocks[key]
        if isinstance(found, str):
            raise Impossible(found)
        return found

    def _check_samples(self, degrees: Degrees) -> None:
        if degrees.micro_batch < self.least:
            raise Impossible(f"the model does not run with fewer than {self.least} samples")

    def _failed(self, error: Exception) -> None:
        """Remark on an error that tensors of other sizes or placements do not explain."""
        if not isinstance(error, EXPECTED):
            self.remarks[f"some layouts are left out because of an unexpected error: {_reason(error)}"] = None

    def _measured(self, kind: int, degrees: Degrees, split: bool = False) -> PartCost:
        """Run a kind of block at the shapes of one rank, and return its cost. ``split`` is that of `measure_block`."""
        block = self.kinds[kind]
        args, kwargs = self.given(degrees.micro_batch)[block.path][:2]
        beside = self._beside(kind, degrees, args, kwargs)
        if degrees.context > 1:
            args, kwargs = cut((args, kwargs), sequence_of(args, kwargs), degrees.context)
        place = kind, degrees.tensor, degrees.sequence, degrees.micro_batch, degrees.context, degrees.expert
        if degrees.tensor > 1 and degrees.recompute != "none" and place not in self._arranged:
            self._measured(kind, replace(degrees, recompute="none"))  # how matrices are cut does not depend on recomputation
        cost, arranged = measure_block(block.module, args, kwargs, self.mesh(degrees.tensor), degrees.sequence, degrees.recompute,
                                       self._arranged.get(place), beside, self.kernels, split, self.own,
                                       self.given(degrees.micro_batch)[block.path].changes)  # fmt: skip
        if arranged is not None and not arranged.divides and beside.expert_mesh is None:
            raise Impossible(f"no matrix of {block.path} can be cut into {degrees.tensor} equal parts")
        self._arranged[place] = arranged
        return cost

    def _beside(self, kind: int, degrees: Degrees, args: tuple, kwargs: dict[str, Any]) -> Beside:
        """Return the ranks of context and expert parallelism of a block."""
        block, beside = self.kinds[kind], Beside(experts=self.experts(kind))
        if degrees.context > 1:
            beside.context = self._mesh(degrees.context, degrees.tensor)
            if (kind, degrees.context) not in self._positions:
                alone = self.given(self.least)[block.path]
                check_positions(block.module, alone.args, alone.kwargs, self._mesh(degrees.context, 1),
                                beside.experts.mixtures if beside.experts else [])  # fmt: skip
                self._positions.add((kind, degrees.context))
        if degrees.expert > 1 and beside.experts is not None and beside.experts.number % degrees.expert:
            raise Impossible(f"the {beside.experts.number} experts of {block.path} cannot be divided among {degrees.expert} ranks")
        if beside.experts is not None and (degrees.expert > 1 or degrees.tensor > 1):
            key = "experts", degrees.expert, degrees.tensor
            beside.expert_mesh = self._meshes[key] = self._meshes.get(key) or expert_mesh(degrees.expert, degrees.tensor)
        return beside

    def contexts(self, most: int) -> list[int]:
        """Return the numbers of ranks, powers of two up to ``most``, that leave each at least `POSITIONS` positions of a sequence."""
        length, found = self._sequence(self.least), [1]
        while length % (2 * found[-1]) == 0 and length // (2 * found[-1]) >= POSITIONS and 2 * found[-1] <= most:
            if found == [1]:
                try:
                    for kind, block in enumerate(self.kinds):
                        self._beside(kind, Degrees(context=2), *self.given(self.least)[block.path][:2])
                except MemoryError:
                    raise
                except Exception as error:
                    self.remarks[f"sequences are not divided: {_reason(error)}"] = None
                    break
            found.append(2 * found[-1])
        return found

    def micro_batches(self, batch: int, most: int, memory: int) -> list[int]:
        """Return micro-batches of up to ``most`` samples: powers of two, and these times the odd factor of the batch.

        Sizes above 8 are left out if a rank that holds all blocks and recomputes them has no room for the activations.
        """
        odd = batch // (batch & -batch)
        sizes = {factor << i for factor in (1, odd) for i in range(batch.bit_length())}
        found: list[int] = []
        for n in sorted(sizes):
            if n > max(most, 1) or n > 8 and not self._has_room(n, memory):
                break
            if not batch % n and n >= self.least:
                found.append(n)
        return found

    def _has_room(self, samples: int, memory: int) -> bool:
        """Return whether one rank without the parameters can hold the activations of a micro-batch."""
        degrees = Degrees(micro_batch=samples, recompute="full" if self.order else "none")
        try:
            need = self.prepared(degrees).ranks[0].by_category(alone(1))
        except Impossible:
            return False
        return need["saved"] + need["temporary"] <= memory

    def expert_ranks(self, most: int) -> list[int]:
        """Return the numbers of ranks, up to ``most``, among which the experts of each block can be divided."""
        numbers = [one.number for kind in range(len(self.kinds)) if (one := self.experts(kind)) is not None]
        return [n for n in range(1, most + 1) if all(number % n == 0 for number in numbers)] if numbers else [1]

    def experts(self, kind: int) -> Experts | None:
        """Return the experts of a kind of block, None if it has none."""
        if kind not in self._experts:
            block = self.kinds[kind]
            self._experts[kind] = experts_of(block.module, *self.given(self.least)[block.path][:2])
        return self._experts[kind]

    def _mesh(self, ranks: int, stride: int) -> Any:
        """Return a simulated mesh of ranks that are ``stride`` apart."""
        if (ranks, stride) not in self._meshes:
            self._meshes[ranks, stride] = DeviceMesh("meta", list(range(0, ranks * stride, stride)))
        return self._meshes[ranks, stride]

    def around(self, degrees: Degrees) -> tuple[Timed, Timed]:
        """Return the costs of what is before and after the blocks. If it cannot be divided, each rank computes all of it."""
        key = degrees.tensor, degrees.sequence, degrees.micro_batch, degrees.context, self._tied and degrees.pipeline > 1
        self._check_samples(degrees)
        if key not in self._around:
            both = self._measured_around(degrees)
            self._around[key] = self.times.part(both[0], degrees.tensor), self.times.part(both[1], degrees.tensor)
        return self._around[key]

    def _measured_around(self, degrees: Degrees, split: bool = False) -> tuple[PartCost, PartCost]:
        """Run what is around the blocks, divided as far as that is possible."""
        blocks = self.given(degrees.micro_batch)
        loss = lambda output: self.loss(output, degrees.micro_batch)
        whole = self.arguments(degrees.micro_batch)
        ways = [(degrees.tensor, degrees.context), (1, degrees.context), (degrees.tensor, 1), (1, 1)]
        why = ""
        for tensor, context in dict.fromkeys(ways):
            args, kwargs = whole
            if context > 1:
                args, kwargs = cut(whole, self._sequence(degrees.micro_batch), context)
            try:
                ranks = self._mesh(context, degrees.tensor) if context > 1 else None
                both = measure_around(self.model, blocks, args, kwargs, loss, self.mesh(tensor), degrees.sequence and tensor > 1, ranks,
                                      split, self.kernels, self.own, degrees.pipeline > 1)  # fmt: skip
            except MemoryError:
                raise
            except Exception as error:
                if (tensor, context) == (1, 1):
                    raise
                why = why or _reason(error)
                continue
            for name, less in (("tensor", tensor < degrees.tensor), ("context", context < degrees.context)):
                if less:
                    self.remarks[f"what is around the blocks is computed by each {name}-parallel rank: {why}"] = None
            return both
        raise AssertionError

    def _sequence(self, batch: int) -> int:
        """Return the length of the sequence of the blocks."""
        return sequence_of(*self.given(batch)[self.paths[0]][:2]) if self.paths else 0

    def _measure_split(self, degrees: Degrees) -> None:
        """Measure backward passes that compute gradients of parameters later than those of inputs."""
        key = _shape(degrees)
        if key in self._split:
            return
        self._split.add(key)
        for kind in range(len(self.kinds)):
            self.times.split(self.block(kind, degrees), self._measured(kind, degrees, True).split, degrees.tensor)
        before, behind = self.around(degrees)
        self.times.split(before, None, degrees.tensor)
        self.times.split(behind, self._measured_around(degrees, True)[1].split, degrees.tensor)

    # Layouts ----------------------------------------------------------------------

    def stages(self, degrees: Degrees) -> list[Stage]:
        """Return the stages, in the order of the model, such that the slowest is as fast as possible."""
        number = degrees.pipeline * degrees.virtual_stages
        key = (*_shape(degrees), number, split_backward(degrees.schedule) and degrees.pipeline > 1)
        if key not in self._stages:
            before, behind = self.around(degrees)
            each = [self.block(kind, degrees) for kind in range(len(self.kinds))]
            if key[-1]:
                self._measure_split(degrees)
            stages = []
            known: dict[Any, Stage] = {}
            for i, kinds in enumerate(self._divided(number, before, [part.seconds for part in each], behind)):
                parts = [*([before] if i == 0 else []), *(each[kind] for kind in kinds), *([behind] if i == number - 1 else [])]
                same = i > 0, *map(id, parts)
                known[same] = known.get(same) or Stage(parts, parts[0].cost.input_bytes if i else 0, kinds, key[-1])
                stages.append(known[same])
            self._stages[key] = stages
        return self._stages[key]

    def _divided(self, number: int, before: Timed, each: list[float], behind: Timed) -> list[list[int]]:
        """Return the kinds of the blocks of each stage."""
        if not self.order:
            return [[]]
        if self.equal:
            if len(self.order) % number:
                raise Impossible(f"{len(self.order)} blocks cannot be divided into {number} equal stages")
            size = len(self.order) // number
            return [self.order[i : i + size] for i in range(0, len(self.order), size)]
        bounds = split([each[kind] for kind in self.order], before.seconds, behind.seconds, number)
        return [self.order[start:end] for start, end in bounds]

    def prepared(self, degrees: Degrees) -> _Prepared:
        """Return what layouts that differ in the number of micro-batches have in common."""
        split_pass = split_backward(degrees.schedule) and degrees.pipeline > 1
        key = (*_shape(degrees), degrees.pipeline, degrees.virtual_stages, rank_style(degrees.schedule), split_pass, degrees.replicas,
               degrees.shard, degrees.schedule if degrees.shard == 3 else "", degrees.offload)  # fmt: skip
        if key not in self._prepared:
            stages = self.stages(degrees)
            last = len(stages) - 1
            added = {(id(stage), i == last): self.times.passes(degrees, stage, i == last)
                     for i, stage in {(id(stage), i == last): (i, stage) for i, stage in enumerate(stages)}.values()}  # fmt: skip
            passes = [added[id(stage), i == last] for i, stage in enumerate(stages)]
            needs: list[list[StageMemory]] = [[] for _ in range(degrees.pipeline)]
            made: dict[Any, StageMemory] = {}
            places = rank_of_stage(degrees.schedule, degrees.pipeline, degrees.virtual_stages) if degrees.pipeline > 1 else [0]
            wasted = wasted_gathers(degrees, 4 * degrees.pipeline)
            for i, (stage, rank) in enumerate(zip(stages, places, strict=True)):
                how = i == 0, i == last, split_pass, wasted[i] > 0 and len(stage.parts) > 1
                same = id(stage), *how
                made[same] = made.get(same) or StageMemory(degrees, self.widths, stage, *how)
                needs[rank].append(made[same])
            kinds = {tuple(map(id, own)): own for own in needs}
            each = {key: RankMemory(degrees, self.widths, own) for key, own in kinds.items()}
            ranks = [each[tuple(map(id, own))] for own in needs]
            self._prepared[key] = _Prepared(stages, passes, self._costs(stages, passes), self._tails(degrees, stages, passes), ranks)
        return self._prepared[key]

    def candidate(self, degrees: Degrees, batch: int) -> Candidate:
        """Return the peak memory of a layout and a lower bound of its time. Raise `Impossible` if it cannot be costed."""
        micro_batches, rest = divmod(batch, degrees.data * degrees.micro_batch)
        if rest or not micro_batches:
            raise Impossible(f"{batch} samples cannot be divided into micro-batches of {degrees.micro_batch} on {degrees.data} ranks")
        self._flops(batch)
        known = self.prepared(degrees)
        every = self._moments(degrees, micro_batches)
        peak = max(rank.peak(moments) for rank, moments in zip(known.ranks, every, strict=True))
        bound = lower_bound(known.costs, known.tails, degrees.schedule, degrees.pipeline, degrees.virtual_stages, micro_batches)
        return Candidate(degrees, micro_batches, peak, bound, self)

    def bound(self, degrees: Degrees, batch: int) -> float:
        """Return a lower bound of the times of all layouts that divide the computation in this way, in seconds.

        It is the time of stages that are equally fast and never wait, or 0 if the layout cannot be costed.
        """
        try:
            before, behind = self.around(degrees)
            work = before.seconds + behind.seconds
            work += sum(self.block(kind, degrees).seconds * n for kind, n in Counter(self.order).items())
        except Impossible:
            return 0.0
        return work * (batch // (degrees.data * degrees.micro_batch)) / degrees.pipeline

    @staticmethod
    def _moments(degrees: Degrees, micro_batches: int) -> list[list[Moment]]:
        """Return the moments of each rank of the pipeline that may need most memory."""
        if degrees.pipeline == 1:
            return [alone(micro_batches)]
        try:
            return moments(degrees.schedule, degrees.pipeline, degrees.virtual_stages, micro_batches)
        except ValueError as error:
            raise Impossible(f"{degrees.schedule}: {str(error).partition(': ')[2] or error}") from None

    @staticmethod
    def _costs(stages: list[Stage], passes: list[Passes]) -> list[tuple[float, float, float, float]]:
        """Return the seconds of the passes of each stage on a micro-batch: forward, backward, and its parts for inputs and for weights."""
        found = []
        for stage, added in zip(stages, passes, strict=True):
            more = added.backward + added.offload_backward + added.reduction
            found.append((stage.forward + added.forward + added.offload_forward, stage.backward + more, stage.input_backward + more,
                          stage.weight_backward))  # fmt: skip
        return found

    def _tails(self, degrees: Degrees, stages: list[Stage], passes: list[Passes]) -> list[Tail]:
        """Return what each rank of the pipeline does once in a step."""
        p = degrees.pipeline
        places = rank_of_stage(degrees.schedule, p, degrees.virtual_stages) if p > 1 else [0]
        ranks: list[list[tuple[Stage, Passes]]] = [[] for _ in range(p)]
        for stage, added, place in zip(stages, passes, places, strict=True):
            ranks[place].append((stage, added))
        known: dict[Any, Tail] = {}
        found = []
        for own in ranks:
            same = tuple((id(stage), id(added)) for stage, added in own)
            if same in known:
                found.append(known[same])
                continue
            exposed = hidden = 0.0
            for talk, work in ((sum(a.once_forward for _, a in own), sum(s.plain_forward for s, _ in own)),
                               (sum(a.once_backward for _, a in own), sum(s.plain_backward for s, _ in own))):  # fmt: skip
                exposed, hidden = exposed + max(0.0, talk - work), hidden + min(talk, work)
            elements = shared(degrees, [stage for stage, _ in own], 1)
            reduction = sum(a.once_reduction for _, a in own) + sum(self.times.tied(degrees, part, abs(places[-1] - places[0]))
                                                                   for s, _ in own for part in s.parts if part.cost.tied)  # fmt: skip
            found.append(Tail(reduction, exposed, hidden, self.times.optimizer(elements),
                              self.times.offloaded_optimizer(degrees, elements)))  # fmt: skip
            known[same] = found[-1]
        return found

    def layout(self, found: Candidate) -> Layout:
        """Return all figures of a candidate. Nothing runs on meta that has not run for the candidate."""
        degrees, m = found.degrees, found.micro_batches
        stages, passes, costs, tails, ranks = self.prepared(degrees)
        held = list(zip(ranks, self._moments(degrees, m), strict=True))
        places = [0]
        if degrees.pipeline == 1:
            run = Run([m * (costs[0][0] + costs[0][1])], [0.0])
        else:
            run = run_times(degrees.schedule, degrees.pipeline, degrees.virtual_stages, m, costs, self._messages(degrees, stages))
            places = rank_of_stage(degrees.schedule, degrees.pipeline, degrees.virtual_stages)
        last = max(range(degrees.pipeline), key=lambda rank: run.ends[rank] + tails[rank].seconds)
        own = [i for i, place in enumerate(places) if place == last]
        tail = tails[last]
        computed, work = m * sum(stages[i].computed for i in own), m * sum(stages[i].work for i in own)
        sharding, sums = m * sum(passes[i].forward + passes[i].backward for i in own), m * sum(passes[i].reduction for i in own)
        offload = m * sum(passes[i].offload_forward + passes[i].offload_backward for i in own)
        idle = run.ends[last] - work - sums - sharding - offload
        idle = idle if idle > ROUNDING * run.ends[last] else 0.0
        messages = min(run.messages[last], idle)
        return Layout(
            degrees, m, [stage.kinds for stage in stages], [rank.by_category(every) for rank, every in held], compute=computed,
            tensor_communication=work - computed + sums + tail.reduction, data_communication=sharding + tail.exposed,
            hidden_communication=m * sum(passes[i].hidden for i in own) + tail.hidden, pipeline_communication=messages,
            bubble=idle - messages, optimizer=tail.optimizer, offload=offload + tail.offload,
            samples=m * degrees.data * degrees.micro_batch, model_flops=self._flops(m * degrees.data * degrees.micro_batch),
            peak_rate=self._rate, tokens=None if self.tokens is None else self.tokens * m * degrees.data * degrees.micro_batch,
            rates=self.rates, host=max(rank.on_host(every) for rank, every in held),
        )  # fmt: skip

    def collectives(self, degrees: Degrees, micro_batches: int) -> list[Calls]:
        """Return the collectives and messages of a step on each rank of the pipeline."""
        places = rank_of_stage(degrees.schedule, degrees.pipeline, degrees.virtual_stages) if degrees.pipeline > 1 else [0]
        return step_collectives(degrees, self.widths, self.stages(degrees), places, micro_batches)

    def _messages(self, degrees: Degrees, stages: list[Stage]) -> list[float]:
        """Return for each stage the seconds of a message to the next one."""
        places = rank_of_stage(degrees.schedule, degrees.pipeline, degrees.virtual_stages)
        stride = degrees.tensor * degrees.replicas
        return [*(self.times.message(stages[i + 1].received, a * stride, b * stride) if a != b else 0.0
                  for i, (a, b) in enumerate(pairwise(places))), 0.0]  # fmt: skip

    def _flops(self, batch: int) -> float:
        """Return the operations of a step without recomputation, on all devices."""
        if self._operations is None:
            plain = Degrees(micro_batch=self.least)
            parts = [*((part, 1) for part in self.around(plain)), *((self.block(k, plain), n) for k, n in Counter(self.order).items())]
            self._operations = sum(n * sum(call.flops for call in part.cost.forward.calls + part.cost.backward.calls) for part, n in parts)
        return batch * self._operations / self.least


class Tail(NamedTuple):
    """Seconds of what a rank does once in a step, after its passes."""

    reduction: float
    exposed: float
    hidden: float
    """Communication that computation hides; it takes no time."""
    optimizer: float
    offload: float

    @property
    def seconds(self) -> float:
        """Seconds after the passes."""
        return self.reduction + self.exposed + self.optimizer + self.offload


class _Prepared(NamedTuple):
    """What layouts that differ in the number of micro-batches have in common."""

    stages: list[Stage]
    passes: list[Passes]
    """What sharding and offload add to each stage."""
    costs: list[tuple[float, float, float, float]]
    """Seconds of the passes of each stage."""
    tails: list[Tail]
    """What each rank does once in a step."""
    ranks: list[RankMemory]
    """The memory of each rank."""


class Candidate(NamedTuple):
    """A layout with its memory and a lower bound of its time."""

    degrees: Degrees
    micro_batches: int
    peak: int
    """Bytes of the rank that needs most."""
    bound: float
    """Lower bound of the time of the step, in seconds."""
    coster: Coster

    def layout(self) -> Layout:
        """Return all figures."""
        return self.coster.layout(self)


def lower_bound(costs: Sequence[Sequence[float]], tails: Sequence[Tail], schedule: str, p: int, v: int, m: int) -> float:
    """Return a lower bound of the time of a step, in seconds.

    A rank begins when the stages before its first one have run forward, and then runs all of its passes. Unless the schedule delays
    gradients of weights, its last micro-batch must then still pass back through the stages before its first one.
    """
    split_pass = split_backward(schedule) and p > 1
    work = [forward + (of_inputs + of_weights if split_pass else backward) for forward, backward, of_inputs, of_weights in costs]
    if p == 1:
        return m * sum(work) + tails[0].seconds
    places = rank_of_stage(schedule, p, v)
    busy = [0.0] * p
    first: dict[int, int] = {}
    for i, rank in enumerate(places):
        busy[rank] += work[i]
        first.setdefault(rank, i)
    best = ahead = back = 0.0
    for i, rank in enumerate(places):
        if first[rank] == i:
            best = max(best, ahead + m * busy[rank] + max(tails[rank].seconds, back + tails[places[0]].seconds if not split_pass else 0.0))
        ahead, back = ahead + costs[i][0], back + costs[i][1]
    return best
