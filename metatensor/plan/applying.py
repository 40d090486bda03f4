"""`plan.apply`: a model in a layout, on this rank of a running program."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from contextlib import nullcontext
from itertools import accumulate
from typing import Any

import metatensor as mt
from metatensor import distributed as dist
from metatensor._core.engine import gradient_edge, run_backward
from metatensor._core.nested import map_tensors, tensors_in
from metatensor.analysis.recomputation import checkpointed
from metatensor.distributed import fsdp
from metatensor.distributed.device_mesh import DeviceMesh
from metatensor.distributed.pipelining import PipelineStage, get_schedule_class
from metatensor.distributed.pipelining._orders import stages_of_rank
from metatensor.distributed.pipelining.schedules import PipelineScheduleSingle
from metatensor.distributed.tensor import DTensor, Replicate, init_device_mesh
from metatensor.distributed.tensor.experimental import implicit_replication
from metatensor.nn.modules.module import Module
from metatensor.plan.arranging import Arranged
from metatensor.plan.blocks import Given, NoBlocks, blocks_of, check_blocks, paths_of
from metatensor.plan.contexts import Call, attention_over, check_parts, cut, own_part, sequence_of
from metatensor.plan.elsewhere import check_passed, gets_others
from metatensor.plan.experts import Experts, expert_mesh, experts_of
from metatensor.plan.flat import FlatPart
from metatensor.plan.layouts import Degrees, Layout
from metatensor.plan.measuring import Beside
from metatensor.plan.parts import Parts, StageModule, meta_copy, parts_of
from metatensor.plan.ranks import Ranks
from metatensor.plan.recomputing import unwatched
from metatensor.plan.refusals import check_degrees
from metatensor.plan.schedules import rank_of_stage, rank_style
from metatensor.plan.tied import TiedParameters
from metatensor.plan.worlds import simulated
from metatensor.rules.policies import policy

__all__ = ["Applied", "apply_layout"]


class Applied:
    """A training step in a layout, on one rank.

    Attributes
    ----------
    model : Module
        What this rank holds of the model: all of it, or its stage.
    stages : list of Module
        The stages of this rank, the model itself without a pipeline.
    optimizer : Optimizer
        The optimizer of what this rank updates.
    degrees : Degrees
        The layout.
    mesh : DeviceMesh
        The ranks, with the dimensions "pipeline", "data", "context" if sequences are divided, and "tensor".
    """

    def __init__(
        self, layout: Layout, ranks: Ranks, length: int, loss: Callable[..., Any], stages: list[StageModule], schedule: Any,
        parts: list[FlatPart], optimizer: Any, convert: Any, call: Call,
    ) -> None:  # fmt: skip
        self.degrees, self.mesh, self.stages, self.model = layout.degrees, ranks.mesh, stages, stages[0]
        self._ranks, self._length, self._call = ranks, length, call
        self.micro_batches, self.samples = layout.micro_batches, layout.samples
        self.optimizer, self._loss, self._schedule, self._parts, self._convert = optimizer, loss, schedule, parts, convert
        self._tied: TiedParameters | None = None

    def own(self, batch: Any) -> Any:
        """Return the part of a global batch that this rank processes.

        All tensors are divided along their first dimension, unless its size is 1. With context parallelism, those that have a dimension
        of the sequence's length are also divided along it: a rank then has a chunk from the head and one from the tail of each sequence.
        """
        rank, each, several = self.mesh.get_local_rank("data"), self._each, not isinstance(batch, mt.Tensor)

        def own(t: Any) -> Any:
            if not (several and (t.dim() == 0 or t.shape[0] == 1)):
                if t.shape[0] != self.samples:
                    raise ValueError(f"own: a step has {self.samples} samples, got a tensor of {list(t.shape)}")
                t = t.narrow(0, rank * each, each)
            return own_part(t, self._length, self._ranks.context)

        return map_tensors(own, batch)

    def step(self, inputs: Any, targets: Any = None) -> Any:
        """Run a training step.

        Parameters
        ----------
        inputs : Tensor, tuple or dict
            The samples of this rank, see `own`: the argument of the model, its positional arguments, or its keyword arguments. Arguments of
            the search without tensors, such as flags, are added.
        targets : Tensor, optional
            What the loss compares outputs with. Without targets, the loss is called with the output alone.

        Returns
        -------
        Tensor or None
            The mean of the losses of this rank's micro-batches. None where the last stage of the pipeline is on another rank.
        """
        call = self._called_with(map_tensors(self._convert, inputs))
        with implicit_replication(), attention_over(self._ranks.context):
            loss = self._single(call, targets) if self._schedule is None else self._pipelined(call, targets)
        for part in self._parts:
            part.reduce()
        if self._tied is not None:
            self._tied.sum_gradients()
        self.optimizer.step()
        for part in self._parts:
            part.gather()
        self.optimizer.zero_grad(set_to_none=self.degrees.shard < 3)  # sums of gradients have the same memory in each step
        return loss

    def mean_loss(self, loss: Any) -> Any:
        """Return the mean loss of the whole batch on all ranks. Each rank calls it with what `step` returned to it."""
        value = mt.zeros((), device=self.mesh.device_type) if loss is None else loss.detach().float().clone()
        dist.all_reduce(value, group=self._ranks.replicas.get_group())
        if self.degrees.pipeline > 1:
            dist.all_reduce(value, group=self.mesh.get_group("pipeline"))
        return value / self.degrees.replicas

    def loss_of(self, output: Any, target: Any = None) -> Any:
        """Return the loss of a micro-batch as a plain tensor."""
        value = self._loss(output) if target is None else self._loss(output, target)
        if isinstance(value, DTensor):
            value = value.redistribute(placements=[Replicate()]).to_local()
        return value

    @property
    def _each(self) -> int:
        """Samples of a rank."""
        return self.samples // self.degrees.data

    def _is_batch(self, t: Any) -> bool:
        return bool(t.dim() and t.shape[0] == self._each)

    def _called_with(self, inputs: Any) -> Call:
        """Return the arguments of the model."""
        args = (inputs,) if isinstance(inputs, mt.Tensor) else () if isinstance(inputs, dict) else tuple(inputs)
        kwargs = dict(inputs) if isinstance(inputs, dict) else {}
        planned = self._call
        tensors, expected = list(tensors_in((args, kwargs))), len(list(tensors_in(planned)))
        if len(tensors) != expected:
            raise ValueError(f"step: the model was planned with {expected} tensors, got {len(tensors)}")
        if not any(map(self._is_batch, tensors)):
            raise ValueError(f"step: a rank of this layout processes {self._each} samples, got {list(tensors[0].shape)}; "
                             "own() takes its part of a batch")  # fmt: skip
        if not args and len(list(tensors_in(planned[0]))) < len(planned[0]):
            raise ValueError("step: the search had positional arguments that are no tensors; pass all arguments in a tuple, in that order")
        others = {name: value for name, value in planned[1].items() if not any(True for _ in tensors_in(value))}
        return (*args, *(planned[0][len(args) :] if args else ())), {**others, **kwargs}

    def _micro_batch(self, call: Call, i: int) -> Call:
        size = self.degrees.micro_batch
        return map_tensors(lambda t: t.narrow(0, i * size, size) if self._is_batch(t) else t, call)  # type: ignore[no-any-return]

    def _single(self, call: Call, targets: Any) -> Any:
        size = self.degrees.micro_batch
        found: Any = None
        for i in range(self.micro_batches):
            target = None if targets is None else targets.narrow(0, i * size, size)
            args, kwargs = self._micro_batch(call, i)
            loss = self.loss_of(self.model(*args, **kwargs), target)
            del args, kwargs
            run_backward([gradient_edge(loss)], [mt.full_like(loss.detach(), 1 / self.micro_batches)], False, False, release=True)
            found = loss.detach() if found is None else found.add_(loss.detach())
            del loss
        return found / self.micro_batches

    def _pipelined(self, call: Call, targets: Any) -> Any:
        losses: list[Any] = []
        for stage in self.stages:
            stage.calls = deque(self._micro_batch(call, i) for i in range(self.micro_batches))
        # The schedule divides one tensor. The first stage only learns from it that a micro-batch is next.
        given = (next(filter(self._is_batch, tensors_in(call))),) if any(stage.first for stage in self.stages) else ()
        last = any(stage.last for stage in self.stages)
        self._schedule.step(*given, target=targets if last else None, losses=losses if last else None, return_outputs=False)
        return sum(loss.detach() for loss in losses) / len(losses) if losses else None


def apply_layout(
    layout: Layout, model: Any, shapes: dict[str, tuple[int, ...]] | None, arguments: Callable[[int], tuple[tuple, dict[str, Any]]],
    loss: Callable[..., Any], optimizer: Any, mesh: Any = None, device: Any = None, kernels: Any = None,
) -> Applied:  # fmt: skip
    """Return a model in a layout; see `TrainingPlan.apply`. ``shapes`` are those of the parameters of the planned model by
    name, ``kernels`` is the kernel policy of the search."""
    degrees = layout.degrees
    check_degrees(degrees)
    if not isinstance(model, Module):
        model = model()
    _check_model(model, shapes)
    device = _device_of(model, device)
    ranks = Ranks(degrees, mesh, device)
    weights, masters = _dtypes(degrees.precision)
    args, kwargs = arguments(degrees.micro_batch)
    convert = lambda t: t.to(weights) if weights is not None and t.is_floating_point() else t
    args, kwargs = map_tensors(convert, (args, kwargs))
    size = degrees.tensor * max(degrees.context, degrees.expert)
    with simulated(size), policy(kernels) if kernels is not None else nullcontext(), mt.device("meta"):
        shadow = meta_copy(model, weights)
        paths, given = _blocks(shadow, args, kwargs)
        length = sequence_of(*given[paths[0]][:2]) if paths else 0
        if degrees.context > 1:
            whole = args, kwargs
            args, kwargs = cut(whole, length, degrees.context)
            check_parts(shadow, given, whole, (args, kwargs), length, degrees.context)
            paths, given = _blocks(shadow, args, kwargs)
        parts = parts_of(shadow, given, paths, args, kwargs)
        experts = {path: found for path in paths if (found := experts_of(shadow.get_submodule(path), *given[path][:2])) is not None}
        cuts = _cuts(shadow, parts, given, experts, degrees, args, kwargs)
        if degrees.pipeline > 1 and gets_others(given.values()):
            check_passed(shadow, paths, args, kwargs)
    stages = _stages(layout, model, shadow, parts, given, (args, kwargs), ranks.mesh)
    made, optimized, tied = [], [], []
    flats: list[FlatPart] = []
    for stage in stages:
        if any(mt.is_deferred(t) for t in [*stage.parameters(), *stage.buffers()]):
            mt.materialize(stage)
        stage.divide_experts(experts, ranks.expert, ranks.tensor)
        if degrees.tensor > 1:
            stage.divide(ranks.tensor, cuts, degrees.sequence)
        if degrees.recompute != "none":
            for block in stage.blocks:
                block.forward = unwatched(checkpointed(block.forward, degrees.recompute == "selective"))  # type: ignore[method-assign]
        stage.bound()
        if degrees.shard == 3:
            _shard(stage, ranks, weights if masters is not None else None)
            if weights is not None and masters is None:
                stage.to(weights)
            optimized += [p for p in stage.parameters() if p.requires_grad]
            tied.append(stage.tied())
        else:
            first = len(flats)
            for members, routed in stage.groups():
                group = (ranks.expert_replicas if routed else ranks.replicas).get_group()
                part = FlatPart(members, group, ranks.tensor_group, degrees.shard, degrees.replicas, weights, masters)
                flats.append(part)
                optimized.append(part.updated)
            tied.append([flats[first].updated] if stage.tied() else [])
            if weights is not None:
                for p in stage.parameters():
                    if not p.requires_grad:
                        p.data = convert(p.data)
                for module in stage.modules():
                    for name, buffer in module._buffers.items():
                        if buffer is not None:
                            module._buffers[name] = convert(buffer)
        stage.finish()
        made.append(stage)
    schedule = None
    applied = Applied(layout, ranks, length, loss, made, None, flats, optimizer(optimized), convert, (args, kwargs))
    if parts.tied and degrees.pipeline > 1:
        places = rank_of_stage(degrees.schedule, degrees.pipeline, degrees.virtual_stages)
        ends = ranks.ends(places[0], places[-1])
        if any(tied):
            applied._tied = TiedParameters([copies for copies in tied if copies], ends)
    if degrees.pipeline > 1:
        group, number = ranks.mesh.get_group("pipeline"), degrees.pipeline * degrees.virtual_stages
        passed: list[Module] = [_EachPass(stage) if degrees.shard == 3 else stage for stage in made]
        pipes = [PipelineStage(module, stage.index, number, device, group=group) for module, stage in zip(passed, made, strict=True)]
        kind = get_schedule_class(degrees.schedule)
        schedule = kind(pipes[0] if issubclass(kind, PipelineScheduleSingle) else pipes, layout.micro_batches, applied.loss_of)
        applied._schedule = schedule
    return applied


class _EachPass(Module):
    """Hides from a pipeline that a stage is sharded. Otherwise parameters would be gathered, and gradients summed, only once in a step."""

    def __init__(self, stage: Module) -> None:
        super().__init__()
        self.stage = stage

    def forward(self, x: Any) -> Any:
        return self.stage(x)


def _check_model(model: Any, shapes: dict[str, tuple[int, ...]] | None) -> None:
    if not isinstance(model, Module):
        raise ValueError(f"apply: the model must be a module, or a function that returns one, got {type(model).__name__}")
    named = dict(model.named_parameters())
    placed = next((name for name, p in named.items() if isinstance(p.data, DTensor)), None)
    if placed is not None:
        raise ValueError(f"apply: {placed} is distributed already; pass a model that no layout was applied to")
    if shapes is None:
        return
    for name, shape in shapes.items():
        if name not in named:
            raise ValueError(f"apply: the model has no parameter {name!r}; the plan is for another model")
        if tuple(named[name].shape) != shape:
            raise ValueError(f"apply: the plan was made for {name} of {list(shape)}, got {list(named[name].shape)}")
    more = next((name for name in named if name not in shapes), None)
    if more is not None:
        raise ValueError(f"apply: the planned model has no parameter {more!r}; the plan is for another model")


def _device_of(model: Module, device: Any) -> str:
    found = next((p.device.type for p in model.parameters()), "cpu")
    return str(device) if device is not None else found


def _dtypes(precision: str) -> tuple[Any, Any]:
    from metatensor.analysis.precision import precision_named

    way = precision_named(precision)
    return way.weights, way.masters


def _blocks(shadow: Module, args: tuple, kwargs: dict[str, Any]) -> tuple[list[str], dict[str, Given]]:
    """Return the paths of the blocks in order, and the arguments of each."""
    try:
        paths = paths_of(*blocks_of(shadow))
        return paths, check_blocks(shadow, paths, args, kwargs)
    except NoBlocks:
        return [], {}


def _cuts(
    shadow: Module, parts: Parts, given: dict[str, Given], experts: dict[str, Experts], degrees: Degrees, args: tuple,
    kwargs: dict[str, Any],
) -> Any:  # fmt: skip
    """Return the cut dimensions by path of the block. The path "" stands for what is around the blocks: None if it stays whole."""
    if degrees.tensor == 1:
        return {}
    mesh = init_device_mesh("meta", (degrees.tensor,))
    beside = Beside(expert_mesh=expert_mesh(degrees.expert, degrees.tensor))
    if degrees.context > 1:
        beside.context = DeviceMesh("meta", list(range(0, degrees.tensor * degrees.context, degrees.tensor)))
    found: dict[str, Any] = {}
    known: dict[Any, Any] = {}
    for path in parts.paths:
        block = shadow.get_submodule(path)
        key = type(block), tuple((name, tuple(p.shape)) for name, p in block.named_parameters())
        if key not in known:
            beside.experts = experts.get(path)
            known[key] = beside.arranged(block, mesh, given[path].args, given[path].kwargs, degrees.sequence).cut
        found[path] = known[key]
    try:
        outer = parts.around(shadow, given)
        with attention_over(beside.context):
            found[""] = Arranged(outer, mesh, args, kwargs, False).cut
    except Exception:
        if not parts.paths:
            raise
        found[""] = None
    return found


def _stages(
    layout: Layout, model: Module, shadow: Module, parts: Parts, given: dict[str, Given], call: Call, mesh: Any
) -> list[StageModule]:
    """Return the stages of this rank, in the order of the model."""
    degrees, rank = layout.degrees, mesh.get_local_rank("pipeline")
    starts = [0, *accumulate(map(len, layout.stages))]
    own = stages_of_rank(rank, degrees.pipeline, degrees.virtual_stages, rank_style(degrees.schedule)) if degrees.pipeline > 1 else [0]
    both = {0, len(layout.stages) - 1} <= set(own)
    return [StageModule(model, shadow, parts, given, parts.paths[starts[i] : starts[i + 1]], i, len(layout.stages), call, mesh.device_type,
                        both and i > 0) for i in sorted(own)]  # fmt: skip


def _shard(stage: StageModule, ranks: Ranks, compute: Any) -> None:
    """Shard the parameters of each part over the ranks that have the same. Those of modules that contain blocks are apart."""
    mesh = ranks.replicas
    mixed = fsdp.MixedPrecisionPolicy(param_dtype=compute, reduce_dtype=mt.float32) if compute is not None else fsdp.MixedPrecisionPolicy()
    for module in stage.experts():
        fsdp.fully_shard(module, mesh=ranks.expert_replicas, mp_policy=mixed)
        module.set_gradient_divide_factor(mesh.size())  # type: ignore[operator]
    blocks = set(stage.blocks)
    outer = {module for module in stage.inner.modules() if module is stage.inner or blocks & set(module.modules()) - {module}}
    sides = stage.around()
    if not blocks and stage.inner in sides[0]:
        sides[0] = []
    sides = [[module for module in side if module not in outer] for side in sides]
    owned = [[*block.parameters()] for block in stage.blocks] + [[p for m in side for p in m.parameters(recurse=False)] for side in sides]
    holders = Counter(key for part in owned for key in {id(p) for p in part})
    alone = [all(holders[id(p)] == 1 for p in part) for part in owned]  # others are left to the stage
    for block, own in zip(stage.blocks, alone):
        if own:
            fsdp.fully_shard(block, mesh=mesh, mp_policy=mixed)
    for i, (modules, own) in enumerate(zip(sides, alone[len(stage.blocks):], strict=True)):
        if own and modules:  # what follows the blocks is needed at once by the backward pass
            fsdp.fully_shard(modules, mesh=mesh, mp_policy=mixed, reshard_after_forward=not i)
    if any(True for _ in stage.parameters()):
        fsdp.fully_shard(stage, mesh=mesh, mp_policy=mixed)
