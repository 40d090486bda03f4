"""`plan.apply`: a model in a layout, on this rank of a running program."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import metatensor as mt
from metatensor import distributed as dist
from metatensor._core.nested import map_tensors
from metatensor.analysis.recomputation import checkpointed
from metatensor.distributed import fsdp
from metatensor.distributed.pipelining import PipelineStage, get_schedule_class
from metatensor.distributed.tensor import DTensor, Replicate, init_device_mesh
from metatensor.distributed.tensor.experimental import implicit_replication
from metatensor.nn.modules.module import Module
from metatensor.plan.arranging import Arranged
from metatensor.plan.blocks import Given, NoBlocks, blocks_of, check_blocks
from metatensor.plan.flat import FlatPart
from metatensor.plan.layouts import Degrees, Layout
from metatensor.plan.parts import Parts, StageModule, meta_copy, parts_of
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
        The ranks, with the dimensions "pipeline", "data" and "tensor".
    """

    def __init__(self, layout: Layout, mesh: Any, loss: Callable[..., Any], stages: list[StageModule], schedule: Any, parts: list[FlatPart],
                 optimizer: Any, convert: Any) -> None:  # fmt: skip
        self.degrees, self.mesh, self.stages, self.model = layout.degrees, mesh, stages, stages[0]
        self.micro_batches, self.samples = layout.micro_batches, layout.samples
        self.optimizer, self._loss, self._schedule, self._parts, self._convert = optimizer, loss, schedule, parts, convert

    def own(self, batch: Any) -> Any:
        """Return the part of a global batch that this rank processes. All tensors are divided along their first dimension."""
        rank, each = self.mesh.get_local_rank("data"), self.samples // self.degrees.data

        def part(t: Any) -> Any:
            if t.shape[0] != self.samples:
                raise ValueError(f"own: a step has {self.samples} samples, got a tensor of {list(t.shape)}")
            return t.narrow(0, rank * each, each)

        return map_tensors(part, batch)

    def step(self, inputs: Any, targets: Any = None) -> Any:
        """Run a training step.

        Parameters
        ----------
        inputs : Tensor
            The samples of this rank, see `own`.
        targets : Tensor, optional
            What the loss compares outputs with. Without targets, the loss is called with the output alone.

        Returns
        -------
        Tensor or None
            The mean of the losses of this rank's micro-batches. None where the last stage of the pipeline is on another rank.
        """
        inputs = map_tensors(self._convert, inputs)
        each = self.samples // self.degrees.data
        if inputs.shape[0] != each:
            raise ValueError(f"step: a rank of this layout processes {each} samples, got {list(inputs.shape)}; "
                             "own() takes its part of a batch")  # fmt: skip
        with implicit_replication():
            loss = self._single(inputs, targets) if self._schedule is None else self._pipelined(inputs, targets)
        for part in self._parts:
            part.reduce()
        self.optimizer.step()
        for part in self._parts:
            part.gather()
        self.optimizer.zero_grad()
        return loss

    def mean_loss(self, loss: Any) -> Any:
        """Return the mean loss of the whole batch on all ranks. Each rank calls it with what `step` returned to it."""
        value = mt.zeros((), device=self.mesh.device_type) if loss is None else loss.detach().float().clone()
        dist.all_reduce(value, group=self.mesh.get_group("data"))
        if self.degrees.pipeline > 1:
            dist.all_reduce(value, group=self.mesh.get_group("pipeline"))
        return value / self.degrees.data

    def loss_of(self, output: Any, target: Any = None) -> Any:
        """Return the loss of a micro-batch as a plain tensor."""
        value = self._loss(output) if target is None else self._loss(output, target)
        if isinstance(value, DTensor):
            value = value.redistribute(placements=[Replicate()]).to_local()
        return value

    def _single(self, inputs: Any, targets: Any) -> Any:
        size, found = self.degrees.micro_batch, None
        for i in range(self.micro_batches):
            target = None if targets is None else targets.narrow(0, i * size, size)
            loss = self.loss_of(self.model(inputs.narrow(0, i * size, size)), target) / self.micro_batches
            loss.backward()
            found = loss.detach() if found is None else found + loss.detach()
            del loss
        return found

    def _pipelined(self, inputs: Any, targets: Any) -> Any:
        losses: list[Any] = []
        given = (inputs,) if any(stage.first for stage in self.stages) else ()
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
    _check(degrees)
    if not isinstance(model, Module):
        model = model()
    _check_model(model, shapes)
    device = _device_of(model, device)
    mesh = _mesh(degrees, mesh, device)
    weights, masters = _dtypes(degrees.precision)
    args, kwargs = arguments(degrees.micro_batch)
    convert = lambda t: t.to(weights) if weights is not None and t.is_floating_point() else t
    args, kwargs = map_tensors(convert, (args, kwargs))
    if kwargs or len(args) != 1:
        raise NotImplementedError("apply: the model must take one tensor; wrap it in a module that does")
    with simulated(max(degrees.tensor, 1)), policy(kernels) if kernels is not None else nullcontext(), mt.device("meta"):
        shadow = meta_copy(model, weights)
        paths, given = _blocks(shadow, args, kwargs)
        parts = parts_of(shadow, given, paths, args, kwargs)
        cuts = _cuts(shadow, parts, given, degrees, args, kwargs)
    stages = _stages(layout, model, shadow, parts, given, args, mesh)
    made, flats, optimized = [], [], []
    for stage in stages:
        if any(mt.is_deferred(t) for t in [*stage.parameters(), *stage.buffers()]):
            mt.materialize(stage)
        if degrees.tensor > 1:
            stage.divide(mesh["tensor"], cuts, degrees.sequence)
        if degrees.recompute != "none":
            for block in stage.blocks:
                block.forward = checkpointed(block.forward, degrees.recompute == "selective")  # type: ignore[method-assign]
        stage.bound()
        if degrees.shard == 3:
            _shard(stage, mesh["data"], weights if masters is not None else None)
            if weights is not None and masters is None:
                stage.to(weights)
            optimized += [p for p in stage.parameters() if p.requires_grad]
        else:
            for members in stage.groups():
                part = FlatPart(members, mesh.get_group("data"), mesh.get_group("tensor") if degrees.tensor > 1 else None, degrees.shard,
                                weights, masters)  # fmt: skip
                flats.append(part)
                optimized.append(part.updated)
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
    applied = Applied(layout, mesh, loss, made, None, flats, optimizer(optimized), convert)
    if degrees.pipeline > 1:
        group, number = mesh.get_group("pipeline"), degrees.pipeline * degrees.virtual_stages
        passed: list[Module] = [_EachPass(stage) if degrees.shard == 3 else stage for stage in made]
        pipes = [PipelineStage(module, stage.index, number, device, group=group) for module, stage in zip(passed, made, strict=True)]
        kind = get_schedule_class(degrees.schedule)
        schedule = kind(pipes[0] if degrees.virtual_stages == 1 else pipes, layout.micro_batches, applied.loss_of)
        applied._schedule = schedule
    return applied


class _EachPass(Module):
    """Hides from a pipeline that a stage is sharded. Otherwise parameters would be gathered, and gradients summed, only once in a step."""

    def __init__(self, stage: Module) -> None:
        super().__init__()
        self.stage = stage

    def forward(self, x: Any) -> Any:
        return self.stage(x)


def _check(degrees: Degrees) -> None:
    for name, value, usual in (("context", degrees.context, 1), ("expert", degrees.expert, 1), ("offload", degrees.offload, "none")):
        if value != usual:
            raise NotImplementedError(f"apply: {name} {value} is not supported; search with {name}={[usual]!r}")
    if degrees.shard == 3 and degrees.sequence:
        raise NotImplementedError("apply: shard 3 with sequence parallelism is not supported; search with sequence=[False]")
    if degrees.pipeline > 1 and degrees.virtual_stages > 1:
        raise NotImplementedError(f"apply: {degrees.virtual_stages} stages on a rank are not supported; search with virtual_stages=[1]")
    if degrees.pipeline > 1 and degrees.schedule not in ("1F1B", "GPipe"):
        raise NotImplementedError(f"apply: the schedule {degrees.schedule} is not supported; search with schedules=['1F1B', 'GPipe']")


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


def _mesh(degrees: Degrees, mesh: Any, device: str) -> Any:
    names, shape = ("pipeline", "data", "tensor"), (degrees.pipeline, degrees.data, degrees.tensor)
    if mesh is None:
        size = dist.get_world_size()
        if size != degrees.devices:
            raise ValueError(f"apply: the layout {degrees} is for {degrees.devices} ranks, but the program has {size}")
        return init_device_mesh(device, shape, mesh_dim_names=names)
    if tuple(mesh.mesh_dim_names or ()) != names or tuple(mesh.shape) != shape:
        dims = ", ".join(f"{name} {n}" for name, n in zip(names, shape, strict=True))
        raise ValueError(f"apply: the layout {degrees} needs a mesh with the dimensions {dims}, got {list(mesh.shape)} named "
                         f"{mesh.mesh_dim_names}")  # fmt: skip
    return mesh


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
        kinds, order = blocks_of(shadow)
        left = [iter(kind.paths) for kind in kinds]
        paths = [next(left[kind]) for kind in order]
        return paths, check_blocks(shadow, paths, args, kwargs)
    except NoBlocks:
        return [], {}


def _cuts(shadow: Module, parts: Parts, given: dict[str, Given], degrees: Degrees, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Return the dimensions that are cut by path of the block. The path "" stands for what is around the blocks: None if it stays whole."""
    if degrees.tensor == 1:
        return {}
    mesh = init_device_mesh("meta", (degrees.tensor,))
    found: dict[str, Any] = {}
    known: dict[Any, Any] = {}
    for path in parts.paths:
        block = shadow.get_submodule(path)
        key = type(block), tuple((name, tuple(p.shape)) for name, p in block.named_parameters())
        if key not in known:
            known[key] = Arranged(block, mesh, given[path].args, given[path].kwargs, degrees.sequence).cut
        found[path] = known[key]
    try:
        outer = parts.around(shadow, given)
        found[""] = Arranged(outer, mesh, args, kwargs, False).cut
    except Exception:
        if not parts.paths:
            raise
        found[""] = None
    return found


def _stages(
    layout: Layout, model: Module, shadow: Module, parts: Parts, given: dict[str, Given], args: tuple, mesh: Any
) -> list[StageModule]:
    """Return the stages of this rank."""
    p, rank = layout.degrees.pipeline, mesh.get_local_rank("pipeline")
    counts = [len(kinds) for kinds in layout.stages]
    start = sum(counts[:rank])
    own = parts.paths[start : start + counts[rank]]
    return [StageModule(model, shadow, parts, given, own, rank, p, args)]


def _shard(stage: StageModule, mesh: Any, compute: Any) -> None:
    """Shard the parameters of each part over the ranks of data parallelism."""
    mixed = fsdp.MixedPrecisionPolicy(param_dtype=compute, reduce_dtype=mt.float32) if compute is not None else fsdp.MixedPrecisionPolicy()
    for block in stage.blocks:
        fsdp.fully_shard(block, mesh=mesh, mp_policy=mixed)
    for i, modules in enumerate(stage.around()):
        if modules and stage.inner not in modules:  # what follows the blocks is needed at once by the backward pass
            fsdp.fully_shard(modules, mesh=mesh, mp_policy=mixed, reshard_after_forward=not i)
    if any(True for _ in stage.parameters()):
        fsdp.fully_shard(stage, mesh=mesh, mp_policy=mixed)
