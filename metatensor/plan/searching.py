"""`search`: the layouts of a training step on many devices, ranked by the predicted time of a step."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import metatensor as mt
from metatensor._core.nested import tensors_in
from metatensor._core.units import bytes_text
from metatensor.analysis.fit import resized
from metatensor.analysis.precision import precision_named
from metatensor.analysis.training import mean_loss
from metatensor.analysis.utilization import batch_of
from metatensor.nn.modules.module import Module
from metatensor.plan.candidates import KEEP, Ranking, Space, degrees_in, grouped, most_samples, offloaded
from metatensor.plan.communicating import Calls
from metatensor.plan.costing import Candidate, Coster
from metatensor.plan.kernels import KERNELS
from metatensor.plan.layouts import OFFLOADS, Degrees, Layout, Rejected
from metatensor.plan.memory import Widths
from metatensor.plan.nearest import no_candidate, topology_of
from metatensor.plan.options import check_names, check_options
from metatensor.plan.rates import rates_of
from metatensor.plan.schedules import SCHEDULES
from metatensor.plan.times import Impossible
from metatensor.plan.weights import state_bytes, tensor_state_bytes
from metatensor.plan.worlds import mode, simulated
from metatensor.rules.policies import policy, policy_for

__all__ = ["TrainingPlan", "search"]

KINDS = ("fp32", "bf16", "fp16", "bf16-master", "fp16-master")
"""The precisions of a plan."""
RECOMPUTES = ("none", "selective", "full")
SHARDS = (0, 1, 2, 3)
TRIED = ("GPipe", "1F1B", "Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble")
"""The schedules that are tried by default."""

SETTINGS = ("devices", "global_batch", "loss", "optimizer", "precision", "gradient_dtype", "max_memory", "headroom", "tensor", "pipeline",
            "shard", "micro_batches", "recompute", "sequence", "price", "context", "expert", "schedules", "virtual_stages", "offload",
            "stages", "keep", "kernels")  # fmt: skip
"""The arguments of `search` besides the model, its inputs, and where the search runs."""


@dataclass
class TrainingPlan:
    """Ranked layouts of a training step. ``str()`` gives a table."""

    model: str
    devices: str
    memory: int
    """Bytes of a device that the step may use."""
    batch: int
    precision: str
    layouts: list[Layout]
    """Those that fit, the fastest first."""
    rejected: list[Rejected]
    remarks: list[str] = field(default_factory=list)
    reason: str | None = None
    """Why there is no candidate at all, and the nearest that would be one."""
    unfinished: str | None = field(default=None, repr=False, compare=False)
    """How much of a sweep that was interrupted is computed."""
    reach: int = field(default=1, repr=False, compare=False)
    """The largest degree of tensor parallelism that is tried by default."""
    _arguments: Any = field(default=None, repr=False, compare=False)
    """A function that gives the arguments of the model for a number of samples, where the search ran in this process."""
    _kernels: Any = field(default=None, repr=False, compare=False)
    """The kernel policy of the search."""
    _shapes: Any = field(default=None, repr=False, compare=False)
    """The shapes of the model's parameters by name, where the search ran in this process."""
    _costers: Any = field(default=None, repr=False, compare=False)
    """What costs layouts by precision, where the search ran in this process."""

    @property
    def fits(self) -> bool:
        """Whether there is a layout."""
        return bool(self.layouts)

    @property
    def best(self) -> Layout:
        """The fastest layout. Raise ValueError if none fits."""
        if not self.layouts:
            raise ValueError(f"search: no layout fits; {self.advice()}")
        return self.layouts[0]

    def pareto(self) -> list[Layout]:
        """Return the layouts for which no other is both faster and smaller in memory, the fastest first."""
        found: list[Layout] = []
        for layout in self.layouts:
            if not found or layout.peak < found[-1].peak:
                found.append(layout)
        return found

    def advice(self) -> str:
        """Return what is missing, and the nearest layout that would fit with more memory."""
        near = min((r for r in self.rejected if r.by is not None), key=lambda r: r.by or 0, default=None)
        if near is None:
            return self.rejected[0].limit if self.rejected else self.reason or "there is no candidate"
        return f"the nearest is {near.degrees}, which needs {bytes_text(near.by or 0)} more memory on each device"

    def explain(self, a: int | Degrees, b: int | Degrees) -> str:
        """Return in words why one layout is faster than another. Layouts are given by their rank, from 0, or their degrees."""
        from metatensor.plan.explaining import explained

        return explained(self._find(a), self._find(b), self.memory)

    def export(self, name: str, which: int | Degrees = 0) -> str:
        """Return a layout as the settings of "torchtitan.toml", "megatron.sh", "accelerate.yaml" or "deepspeed.json".

        Raise ValueError if the system has no setting for a part of the layout.
        """
        from metatensor.plan.exporting import export

        if not self.layouts:
            raise ValueError(f"export: no layout fits; {self.advice()}")
        return export(self._find(which), name)

    def collectives(self, which: int | Degrees = 0) -> list[Calls]:
        """Return how often each collective is called in a step, by kind, bytes and number of ranks, for one rank of each pipeline stage.

        Layouts are given by their rank, from 0, or their degrees. A message between stages counts as a collective of two ranks. Raise
        ValueError if the layout was not costed, or the search ran in another process.

        Examples
        --------
        >>> import metatensor as mt
        >>> with mt.device("meta"):
        ...     model, x = mt.nn.Sequential(*(mt.nn.Linear(8, 8) for _ in range(2))), mt.empty(1, 8)
        >>> plan = mt.plan.search(model, x, devices="2xH100", global_batch=4, tensor=[1], pipeline=[1], shard=[0], precision="fp32")
        >>> plan.collectives()
        [Counter({('all_reduce', 288, 2): 2})]
        """
        layout = self._find(which, "collectives")
        if self._costers is None:
            raise ValueError("collectives: the search ran in another process")
        return self._costers[layout.degrees.precision].collectives(layout.degrees, layout.micro_batches)  # type: ignore[no-any-return]

    def apply(
        self, model: Any, *inputs: Any, loss: Callable[..., Any], optimizer: Callable[[list[Any]], Any], which: int | Degrees = 0,
        mesh: Any = None, device: Any = None,
    ) -> Any:  # fmt: skip
        """Return a training step of a model in a layout, on this rank of a running program.

        Call it on each rank, on simulated ranks, MPI processes or GPUs, after ``init_process_group()``.

        Parameters
        ----------
        model : Module or callable
            The model with the same values on each rank, or a function that returns it. It is changed. If it is on meta, the step runs
            without data. If it is deferred, each rank computes its own stage.
        *inputs
            Its arguments on meta, of any number of samples. Default: those of the search.
        loss : callable
            Function of an output and its targets that returns the mean over the samples; of the output alone without targets.
        optimizer : callable
            Function of a list of parameters that returns the optimizer. It should treat all elements alike, as AdamW and SGD do,
            because it gets vectors.
        which : int or Degrees
            The layout by its rank, from 0, or its degrees. Default: the fastest.
        mesh : DeviceMesh, optional
            The ranks, with the dimensions "pipeline", "data", "context" if that degree is not 1, and "tensor". Default: all.
        device : str, optional
            The type of device of the mesh. Default: that of the model.

        Returns
        -------
        Applied
            ``step(inputs, targets)`` runs a training step.

        Raises
        ------
        NotImplementedError
            If the layout has a part that cannot be applied yet: offload, shard 3 with schedules that compute gradients of weights later,
            stages whose blocks get tensors that depend on other stages, and context parallelism of a model that makes positions of its
            own. The message says with which arguments `search` leaves it out, and which layout is the fastest without it.
        ValueError
            If no layout fits, the layout is for another number of ranks or another mesh, or the model has other parameters than the
            planned one.

        Examples
        --------
        >>> import metatensor as mt
        >>> from metatensor import distributed as dist
        >>> def make():
        ...     return mt.nn.Sequential(*(mt.nn.Linear(8, 8) for _ in range(2)))
        >>> with mt.device("meta"):
        ...     plan = mt.plan.search(make(), mt.empty(1, 8), devices="2xH100", global_batch=4, pipeline=[1])
        >>> def train():
        ...     dist.init_process_group()
        ...     mt.manual_seed(0)
        ...     step = plan.apply(make(), loss=lambda y: y.square().mean(), optimizer=lambda ps: mt.optim.SGD(ps, lr=0.1))
        ...     x = step.own(mt.ones(4, 8))
        ...     return [step.mean_loss(step.step(x)).item() for _ in range(2)]
        >>> first, second = dist.sim.run(train, world_size=2)[0]
        >>> second < first
        True
        """
        from metatensor.plan.applying import apply_layout
        from metatensor.plan.refusals import NotApplied, fastest_applied

        if not self.layouts and isinstance(which, int):
            raise ValueError(f"apply: no layout fits; {self.advice()}")
        arguments = _without_cache(model, _arguments(inputs, {}))[0] if inputs else self._arguments
        if arguments is None:
            raise ValueError("apply: the search ran elsewhere; pass the argument of the model on meta")
        try:
            return apply_layout(self._find(which, "apply"), model, self._shapes, arguments, loss, optimizer, mesh, device,
                                self._kernels)  # fmt: skip
        except NotApplied as error:
            raise NotImplementedError(f"{error}{fastest_applied(self.layouts, error.allowed)}") from None

    def _find(self, which: int | Degrees, asked: str = "explain") -> Layout:
        number = len(self.layouts) + sum(one.costed is not None for one in self.rejected)
        if isinstance(which, int):
            if not 0 <= which < number:
                raise ValueError(f"{asked}: there are layouts 0 to {number - 1}, got {which}")
            found = self.layouts[which] if which < len(self.layouts) else self.rejected[which - len(self.layouts)].layout
        else:
            found = next((layout for layout in self.layouts if layout.degrees == which), None)
            found = found or next((one.layout for one in self.rejected if one.degrees == which), None)
        if found is None:
            raise ValueError(f"{asked}: the layout {which} was not costed")
        return found

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """Return all figures as JSON types, of the first ``top`` layouts."""
        return {
            "model": self.model, "devices": self.devices, "memory_limit_bytes": self.memory, "global_batch": self.batch,
            "precision": self.precision, "layouts": [layout.to_dict() for layout in self.layouts[:top]],
            "rejected": [one.to_dict() for one in self.rejected], "pareto": [self.layouts.index(layout) for layout in self.pareto()],
            "remarks": self.remarks,
        }  # fmt: skip

    def __str__(self) -> str:
        from metatensor.plan.explaining import plan_text

        return plan_text(self)


def search(
    model: Any, *inputs: Any, devices: Any, global_batch: int, loss: Callable[..., Any] | None = None, optimizer: Any = "adamw",
    precision: str | Sequence[str] = "bf16-master", gradient_dtype: Any = None, max_memory: int | None = None, headroom: float = 0.1,
    tensor: Sequence[int] | None = None, pipeline: Sequence[int] | None = None, shard: Sequence[int] = SHARDS,
    micro_batches: Sequence[int] | None = None, recompute: Sequence[str] = RECOMPUTES, sequence: Sequence[bool] = (False, True),
    price: float | None = None,
    context: Sequence[int] | None = None, expert: Sequence[int] | None = None, schedules: Sequence[str] = TRIED,
    virtual_stages: Sequence[int] = (1, 2, 4), offload: Sequence[str] = ("none",), stages: str = "balanced", keep: int | None = KEEP,
    kernels: Sequence[str] = (), executor: Any = None, sweep: Any = None, progress: Any = None,
    **kwargs: Any,
) -> TrainingPlan:  # fmt: skip
    """Rank the layouts of a training step of ``model(*inputs, **kwargs)`` on many devices.

    The model's own blocks run on meta at the shapes of one rank. Their memory, operations and collectives are read off these
    runs. A layout's cost is put together from them; no formula knows the architecture.

    Parameters
    ----------
    model : nn.Module
        The model, on meta. It should have a list of repeated layers, each of which returns a tensor like its first argument. A model
        without such a list is planned as one part.
    *inputs, **kwargs
        Its arguments, on meta. The first size is the batch, and is changed to that of a micro-batch.
    devices : str or Topology
        A topology, such as ``"64xH100"``; see `metatensor.analysis.topology`.
    global_batch : int
        Samples of a step on all devices.
    loss : callable, optional
        Function of the output, or of the output and the number of samples, that returns the loss. Default: the mean of the output.
    optimizer : str or callable
        As for `estimate_training`. Default: "adamw".
    precision : str or sequence of str
        One or several of "fp32", "bf16", "fp16", "bf16-master", "fp16-master". Default: "bf16-master": bfloat16
        weights, of which the optimizer updates float32 copies.
    gradient_dtype : dtype, optional
        The dtype in which gradients are summed. Default: float32 with float32 copies, else that of the weights.
    max_memory : int, optional
        Bytes of a device that a step may use. Default: the memory of the device without ``headroom``.
    headroom : float
        Part of the memory that is kept free for what the figures leave out: the context, workspaces and fragmentation. Default 0.1.
    tensor, pipeline, shard, micro_batches, recompute, sequence
        The values to try. Defaults: for ``tensor``, divisors of the number of devices in a node; for ``pipeline``, divisors of the number
        of devices, up to the number of blocks; for ``shard``, 0 to 3; for ``micro_batches``, powers of two, and these times the odd factor
        of the global batch, above 8 only while one rank that recomputes all blocks has room for the activations; for ``recompute``,
        "none", "selective" and "full"; for ``sequence``, False and True.
    context, expert
        Numbers of ranks that divide sequences, by ring attention, and that hold different experts. Defaults: for ``context``, powers of
        two that leave at least 2048 positions on a rank, if nothing but `scaled_dot_product_attention` mixes positions; for ``expert``,
        the divisors of the number of experts.
    schedules, virtual_stages
        Schedules of the pipeline by their names in `metatensor.distributed.pipelining`, and the numbers of stages of a rank that they may
        have. Default: "GPipe", "1F1B", "Interleaved1F1B", "InterleavedZeroBubble" and "ZBVZeroBubble"; 1, 2 and 4.
    offload
        What the memory of the host may hold if a layout does not fit otherwise: "none", "optimizer", "activations" and
        "optimizer+activations". Default: "none", because profiles do not say how much memory hosts have.
    stages : str
        How blocks are divided among pipeline stages: "balanced", such that the slowest stage is as fast as possible, or "equal".
    price : float, optional
        Price of a device for an hour, in any currency. Default: that of the profile, if it has one. Energy is that of the power in the
        profile.
    kernels : sequence of str
        Kernels that save less for the backward pass than the operators of the model's code: "activation", which computes
        the results of activation functions again, as fused SwiGLU does, and "gather", which with sequence parallelism gathers again what
        linear layers read. Default: none.
    keep : int or None
        Number of layouts that are wanted; None for all. The first ``keep`` are the same as in a search for all: a layout is left out only
        if a lower bound of its time shows that so many others are faster. Default 100.
    executor : str or Executor, optional
        Where candidates are costed, such as ``"process"`` or ``"dask:ADDRESS"``, as for `metatensor.plan.sweep`. Default: this process.
    sweep : str or path, optional
        An SQLite file that keeps the results, as for `metatensor.plan.sweep`. A search that was interrupted continues from there.
    progress : callable, optional
        With ``executor`` or ``sweep``: as for `metatensor.plan.sweep`.

    Returns
    -------
    TrainingPlan
        The layouts that fit, the fastest first, and those that were left out with the limit that they break.

    Raises
    ------
    ValueError
        If an option or an input is invalid. The message says what would work.
    TypeError
        If an option is of another kind, or the model takes no argument of that name.

    Examples
    --------
    >>> import metatensor as mt
    >>> with mt.device("meta"):
    ...     layers = [mt.nn.TransformerEncoderLayer(256, 4, dropout=0.0, batch_first=True) for _ in range(4)]
    ...     model, x = mt.nn.Sequential(*layers), mt.empty(1, 128, 256)
    >>> plan = mt.plan.search(model, x, devices="4xH100", global_batch=16)
    >>> plan.best.degrees.devices, plan.best.samples
    (4, 16)
    """
    given = {name: value for name, value in locals().items() if name in SETTINGS}
    check_options(given)
    if executor is not None or sweep is not None:
        from metatensor.plan import sweeping

        case = sweeping.given(model, inputs, kwargs, given)
        return sweeping.sweep([case], executor=executor, file=sweep, progress=progress)[0]  # type: ignore[no-any-return]
    if isinstance(model, Module):
        check_names(model, kwargs, (*SETTINGS, "executor", "sweep", "progress"))
    where, remarks = topology_of(devices)
    precisions = [precision] if isinstance(precision, str) else list(precision)
    _check(model, {"precision": (precisions, KINDS), "recompute": (recompute, RECOMPUTES), "shard": (shard, SHARDS),
                   "offload": (offload, OFFLOADS), "schedules": (schedules, SCHEDULES), "kernels": (kernels, KERNELS)})  # fmt: skip
    if stages not in ("balanced", "equal"):
        raise ValueError(f"search: stages must be 'balanced' or 'equal', got {stages!r}")
    arguments, without_cache = _without_cache(model, _arguments(inputs, kwargs))
    if without_cache:
        remarks = [*remarks, "the model is called with use_cache=False"]
    rates, tokens = rates_of(where.device, price), _tokens(arguments)
    memory = max_memory if max_memory is not None else usable_memory(where.device, headroom)
    plan = TrainingPlan(type(model).__name__, str(devices), memory, global_batch, ", ".join(precisions), [], [], remarks)
    found, costers = Ranking(memory, keep), {}
    with simulated(where.size), policy(policy_for(None, where.device)), mt.device("meta"), mt.enable_grad(), mode(model, True):
        for name in precisions:
            way = precision_named(name)
            with way.applied(model) as converted:
                gradient = gradient_dtype or (mt.float32 if way.masters is not None else way.weights)
                widths = Widths(max((p.element_size() for p in model.parameters()), default=4), gradient.itemsize,
                                state_bytes(optimizer, way.masters or way.weights), 4 if way.masters is not None else 0,
                                tensor_state_bytes(optimizer, way.masters or way.weights))  # fmt: skip
                coster = Coster(model, _composed(converted, arguments), loss_of_samples(loss), where, widths, stages == "equal")
                coster.rates, coster.tokens, coster.kernels = rates, tokens, tuple(kernels)
                costers[name] = coster
                blocks = bool(coster.order)
                again = _recomputed(recompute, coster) if blocks else ["none"]
                reach = plan.reach = where.devices_per_node if blocks else where.size  # a model that is one part may not fit into a node
                contexts = context or coster.contexts(where.size)
                space = Space(
                    where.size, reach, len(coster.order), global_batch, tensor, pipeline, micro_batches or (),
                    contexts, expert or coster.expert_ranks(where.size), shard,
                    again, sequence if blocks else [False], schedules, virtual_stages, name,
                )  # fmt: skip
                if not micro_batches:
                    space = replace(space, micro_batches=coster.micro_batches(global_batch, most_samples(space), memory))
                _rank(coster, space, offload, found, plan.rejected)
                plan.remarks += [one for one in coster.remarks if one not in plan.remarks]
    plan._arguments, plan._kernels, plan._costers = arguments, policy_for(None, where.device), costers
    plan._shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    plan.layouts = sorted(found.layouts, key=lambda layout: (layout.seconds, layout.peak))
    if not found.layouts and not found.rejected and not plan.rejected:
        plan.reason = no_candidate(where.size, reach, len(coster.order), global_batch, tensor, pipeline, micro_batches, space)
    plan.rejected = [*sorted(found.rejected, key=lambda one: one.by or 0), *plan.rejected]
    if found.bounded:
        plan.remarks.append(f"{found.bounded:,} layouts were not costed: bounds of their time show that at least {keep} others are faster")
    return plan


def _rank(coster: Coster, space: Space, offload: Sequence[str], found: Ranking, rejected: list[Rejected]) -> None:
    """Cost the layouts of a space as far as they may be among the fastest, and add those that cannot be costed to ``rejected``."""
    for bound, members in grouped(degrees_in(space), lambda one: coster.bound(one, space.batch)):
        if found.surpassed(bound):
            found.bounded += len(members)
            continue
        candidates: list[Candidate] = []
        for degrees in members:
            try:
                candidates.extend(offloaded(degrees, offload, lambda one: coster.candidate(one, space.batch), found.memory))
            except Impossible as error:
                rejected.append(Rejected(degrees, str(error)))
        found.add(candidates)


def _recomputed(recompute: Sequence[str], coster: Coster) -> Sequence[str]:
    """Return the kinds of recomputation that are possible."""
    if not coster.own:
        return recompute
    if "full" not in recompute:
        raise ValueError(f"search: the model itself computes its blocks again in the backward pass, as recompute 'full' does, so "
                         f"{', '.join(map(repr, recompute))} cannot be planned; add 'full', or switch the checkpoints of the model off")
    return ["full"]


def _composed(f: Callable[..., Any], g: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: f(g(*args))


def _check(model: Any, given: dict[str, tuple[Sequence[Any], Sequence[Any]]]) -> None:
    if not isinstance(model, Module):
        raise ValueError(f"search: the model must be a module, got {type(model).__name__}")
    for name, (values, known) in given.items():
        for value in values:
            if value not in known:
                raise ValueError(f"search: {name} {value!r} is unknown; choose from {', '.join(map(str, known))}")
    for name, t in [*model.named_parameters(), *model.named_buffers()]:
        if not t.is_meta:
            raise ValueError(f"search: {name} is on {t.device}; use a copy of the model on meta")


def _arguments(inputs: tuple, kwargs: dict[str, Any]) -> Callable[[int], tuple[tuple, dict[str, Any]]]:
    """Return a function that gives the arguments for a number of samples."""
    if len(inputs) == 1 and callable(inputs[0]) and not isinstance(inputs[0], mt.Tensor) and not kwargs:
        return inputs[0]  # type: ignore[no-any-return]
    found = batch_of((inputs, kwargs))
    if not found:
        why = "has the size 0" if found == 0 else "is missing: no input is a tensor with dimensions"
        raise ValueError(f"search: the batch, the first size of the inputs, {why}; pass inputs such as metatensor.empty(1, ...) on meta")
    for t in tensors_in((inputs, kwargs)):
        if not t.is_meta:
            raise ValueError(f"search: an input is on {t.device}; use one on meta")
    changed = resized(inputs, kwargs, found)
    return lambda batch: changed(batch, None)


def _without_cache(model: Any, arguments: Callable[[int], Any]) -> tuple[Callable[[int], Any], bool]:
    """Return arguments with which a model keeps no cache of keys and values, as in training, and whether they differ from those given."""
    forward = getattr(model, "forward", None)
    if forward is None or "use_cache" not in inspect.signature(forward).parameters or "use_cache" in arguments(1)[1]:
        return arguments, False

    def changed(batch: int) -> tuple[tuple, dict[str, Any]]:
        args, kwargs = arguments(batch)
        return args, {**kwargs, "use_cache": False}

    return changed, True


def _tokens(arguments: Callable[[int], tuple[tuple, dict[str, Any]]]) -> int | None:
    """Return the tokens of a sample: the second size of the first matrix of integers among the inputs. None if there is none."""
    for t in tensors_in(arguments(1)):
        if t.dtype in (mt.int64, mt.int32) and t.dim() == 2:
            return int(t.shape[1])
    return None


def loss_of_samples(loss: Callable[..., Any] | None) -> Callable[[Any, int], Any]:
    """Return a function of the output and the number of samples."""
    if loss is None:
        return lambda output, batch: mean_loss(output)
    code = getattr(loss, "__code__", None)
    if code is not None and code.co_argcount >= 2:
        return loss
    return lambda output, batch: loss(output)


def usable_memory(profile: Any, headroom: float) -> int:
    memory = profile.visible_memory or profile.memory
    if memory is None:
        raise ValueError(f"search: the memory of {profile.name} is unknown; pass max_memory")
    if not 0 <= headroom < 1:
        raise ValueError(f"search: headroom must be at least 0 and less than 1, got {headroom}")
    return int(memory * (1 - headroom))
