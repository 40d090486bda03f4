"""`place_operators`: the placement of each operator of a model on a mesh of devices, and the model in that layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import metatensor as mt
from metatensor._core.units import bytes_text, seconds_text
from metatensor.analysis.collectives import collective_time
from metatensor.analysis.precision import precision_named
from metatensor.devices.topologies import topology as topology_of
from metatensor.distributed.tensor import DTensor, init_device_mesh
from metatensor.nn.modules.module import Module
from metatensor.plan.blocks import Given, NoBlocks
from metatensor.plan.distributing import distribute_parameters
from metatensor.plan.operators.capturing import Part, parts_of, whole_part
from metatensor.plan.operators.choosing import Limits, choose, least_memory
from metatensor.plan.operators.running import Runner, make_forward
from metatensor.plan.operators.strategies import Costs, Placements
from metatensor.plan.searching import usable_memory
from metatensor.plan.weights import state_bytes
from metatensor.plan.worlds import mode, simulated
from metatensor.program.running import match_arguments
from metatensor.rules.policies import policy, policy_for

__all__ = ["OperatorPlan", "place_operators"]


@dataclass
class OperatorPlan:
    """The placements of all operators of a model on a mesh. Created by `place_operators`; ``str()`` gives a table."""

    model: str
    devices: str
    mesh_shape: tuple[int, ...]
    seconds: float
    """Predicted time of the forward and backward pass and the optimizer, on each rank, if computation and communication do not overlap."""
    gap: float | None
    """The relative distance of this time to a proven lower bound. None for meshes of several dimensions."""
    memory: int
    """Bytes of parameters, gradients, optimizer states, and of what is saved for the backward pass, on each rank."""
    placements: dict[str, Placements]
    """The placements of parameters by name."""
    boundary: Placements | None
    """The placements of activations between blocks."""
    remarks: list[str] = field(default_factory=list)
    _choice: Any = None
    _arguments: Any = None
    _order: list[str] = field(default_factory=list)
    _trained: dict[str, bool] = field(default_factory=dict)
    """Whether the parameters of the model require grad, by name."""
    _training: bool = True

    @property
    def communication(self) -> list[tuple[str, int, tuple[int, ...]]]:
        """The collectives of a step in order of the parts: kind, bytes and ranks, as seen from rank 0."""
        return [entry for placed in self._choice.parts for entry in placed.communication * placed.part.count]

    def apply(self, model: Module, mesh: Any) -> Module:
        """Return the model with its parameters distributed, and a forward that runs each operator where it was placed.

        The forward takes the arguments of the plan and the targets of the loss, as whole tensors on each rank or as DTensors, and returns
        the loss, or without one the output. In a backward pass, the operators run where they were placed, too. It raises
        RuntimeError if the model is not in the mode, training or evaluation, that was planned.

        Parameters
        ----------
        model : Module
            The model of the plan. It is changed. If it has data, each rank keeps its part of what it has; nothing is sent.
        mesh : DeviceMesh
            A mesh of the plan's shape, on any device.

        Raises
        ------
        ValueError
            If the mesh has another shape, the model has other parameters or is distributed already, or it uses a tensor without values.
        """
        if tuple(mesh.shape) != self.mesh_shape:
            raise ValueError(f"apply: the plan is for a mesh of shape {list(self.mesh_shape)}, got {list(mesh.shape)}")
        own = {name: p.requires_grad for name, p in model.named_parameters(remove_duplicate=False)}
        for one, names, others in (("model", self._trained, own), ("planned model", own, self._trained)):
            missing = [name for name in names if name not in others]
            if missing:
                raise ValueError(f"apply: the {one} has no parameter {missing[0]!r}; the plan is for another model")
        for name, p in model.named_parameters():
            if isinstance(p.data, DTensor):
                raise ValueError(f"apply: {name} is distributed already; pass a model that no plan was applied to")
            if self._training and p.requires_grad is not self._trained[name]:
                raise ValueError(f"apply: {name} {'requires' if p.requires_grad else 'does not require'} grad, unlike in the planned model")
        for placed in self._choice.parts:
            for name, value in placed.part.parameters.items():
                p = model.get_submodule(placed.part.paths[0]).get_parameter(name)
                if tuple(p.shape) != value.shape or p.dtype is not value.dtype:
                    path = f"{placed.part.paths[0]}.{name}".lstrip(".")
                    raise ValueError(f"apply: the plan was made for {path} as {value.dtype}{list(value.shape)}, "
                                     f"got {p.dtype}{list(p.shape)}")  # fmt: skip
            program = placed.part.program
            for name in placed.part.buffers:
                if program.kinds[name] == "constant" and program.tensors[name].is_meta and mesh.device_type != "meta":
                    raise ValueError(f"apply: {self.model} uses a tensor of shape {list(program.tensors[name].shape)} that is neither a "
                                     "parameter nor a buffer, so it has no values on meta; register it as a buffer")  # fmt: skip
        distribute_parameters(model, mesh, self.placements)
        runners = [Runner(placed, mesh) for placed in self._choice.parts]
        title = self.model

        def arguments(args: tuple, kwargs: dict[str, Any]) -> dict[int, Any]:
            if model.training is not self._training:
                mode = "train" if self._training else "eval"
                raise RuntimeError(f"{title}: its operators were placed for {'training' if self._training else 'inference'}; call {mode}()")
            found: dict[int, Any] = {}
            match_arguments(self._arguments, args, kwargs, found, title)
            return found

        model.forward = make_forward(model, runners, self._order, arguments)  # type: ignore[method-assign]
        return model

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as JSON types."""
        text = lambda placed: None if placed is None else [str(one) for one in placed]
        return {
            "model": self.model, "devices": self.devices, "mesh": list(self.mesh_shape), "step_time_s": self.seconds, "gap": self.gap,
            "memory_bytes": self.memory, "parameters": {name: text(placed) for name, placed in self.placements.items()},
            "activations": text(self.boundary),
            "parts": [{"name": one.part.name, "count": one.part.count, "time_s": one.seconds,
                       "communication": [{"kind": kind, "bytes": nbytes, "ranks": len(ranks)} for kind, nbytes, ranks in one.communication],
                       "operators": [{"op": call.op.name, "inputs": [*map(text, taken.inputs)], "outputs": [*map(text, taken.outputs)]}
                                     for call, taken in zip(one.part.program.calls, one.strategies, strict=True)]}
                      for one in self._choice.parts],
            "remarks": self.remarks,
        }  # fmt: skip

    def __str__(self) -> str:
        mesh = " x ".join(map(str, self.mesh_shape))
        proven = "" if self.gap is None else f" (within {self.gap:.1%} of the optimum)"
        lines = [f"{self.model} on {self.devices} as a mesh of {mesh}: {seconds_text(self.seconds)} a step, "
                 f"{bytes_text(self.memory)} on each device{proven}", ""]  # fmt: skip
        for placed in self._choice.parts:
            name = placed.part.name + (f" and {placed.part.count - 1} more" if placed.part.count > 1 else "")
            moved = sum(nbytes for _, nbytes, _ in placed.communication)
            lines.append(f"{name}: {seconds_text(placed.seconds)}, {len(placed.communication)} collectives of {bytes_text(moved)}")
            for parameter, where in placed.parameters.items():
                lines.append(f"    {parameter:<40}{placed_text(where)}")
        if self.boundary is not None:
            lines += ["", f"activations between blocks: {placed_text(self.boundary)}"]
        return "\n".join([*lines, *(["", *self.remarks] if self.remarks else [])])


def placed_text(placements: Placements) -> str:
    """Return placements as text, such as ``S(0), R``."""
    return ", ".join(map(str, placements))


def place_operators(
    model: Module, *inputs: Any, devices: Any, mesh: Sequence[int] | None = None, loss: Callable[..., Any] | None = None,
    targets: Sequence[Any] = (), training: bool = True, optimizer: Any = "adamw", precision: str = "bf16-master",
    max_memory: int | None = None, headroom: float = 0.1, time_limit: float = 60.0, gap: float = 1e-3, **kwargs: Any,
) -> OperatorPlan:  # fmt: skip
    """Choose the placement of every operator of ``model(*inputs, **kwargs)`` on a mesh of devices, so that a step is as fast as possible.

    The forward and the backward pass are captured as programs. The sharding rules of an operator give the ways in which its call can run
    on parts. The times of these ways, and of the collectives between calls, are predicted. An integer program, which HiGHS solves,
    chooses among them within the memory of the devices. Data, tensor and sequence parallelism and sharded parameters are special
    cases of this; no kind of layer is known beforehand. Repeated blocks are placed once.

    Parameters
    ----------
    model : Module
        The model, on meta.
    *inputs, **kwargs
        Its arguments, on meta, with the batch of all devices together.
    devices : str or Topology
        A topology, such as ``"8xH100"``; see `metatensor.analysis.topology`.
    mesh : sequence of int, optional
        The shape of the mesh. Default: one dimension. If there are several, the placements on one are chosen while those on the others
        are kept, in turn until the time no longer decreases. The result need not be the optimum then.
    loss : callable, optional
        Function of the output and the ``targets``, that returns the loss. Default with ``training``: the mean of the output.
    targets : sequence of Tensor
        Further arguments of the loss, on meta.
    training : bool
        Whether to place the backward pass, too. Default True.
    optimizer : str or callable
        As for `estimate_training`. Default "adamw".
    precision : str
        "fp32", "bf16", "fp16", "bf16-master" or "fp16-master", as for `search`.
    max_memory : int, optional
        Bytes of a device that a step may use. Default: the memory of the device without ``headroom``.
    headroom : float
        Part of the memory that is kept free for what the figures leave out. Default 0.1.
    time_limit : float
        Seconds after which HiGHS returns the best placements that it has found.
    gap : float
        The relative distance to the proven optimum at which it stops.

    Returns
    -------
    OperatorPlan
        The placements. `OperatorPlan.apply` gives the model in this layout.

    Raises
    ------
    ValueError
        If nothing fits, an operator depends on values, or an option is invalid. The message says what would help.
    ImportError
        If SciPy, which contains HiGHS, is missing.

    Notes
    -----
    Only cuts into equal parts are considered. Activations that have to be kept are counted; temporary tensors are left to the headroom.

    Examples
    --------
    >>> import metatensor as mt
    >>> with mt.device("meta"):
    ...     model = mt.nn.Sequential(mt.nn.Linear(8192, 32768), mt.nn.GELU(), mt.nn.Linear(32768, 8192))
    ...     x = mt.empty(64, 8192)
    >>> plan = mt.plan.place_operators(model, x, devices="8xH100", precision="bf16")
    >>> plan.placements["0.weight"], plan.placements["2.weight"]  # few samples: the matrices are cut
    ((Shard(dim=0),), (Shard(dim=1),))
    """
    where = topology_of(devices)
    shape = (where.size,) if mesh is None else tuple(mesh)
    if prod(shape) != where.size or not all(type(n) is int and n > 0 for n in shape):
        raise ValueError(f"place_operators: a mesh of shape {list(shape)} has {prod(shape)} devices, but {devices} are {where.size}")
    if not isinstance(model, Module):
        raise ValueError(f"place_operators: expected a module, got {type(model).__name__}")
    if any(not t.is_meta for t in (*model.parameters(), *model.buffers())):
        raise ValueError("place_operators: the model must be on meta; build it under mt.device('meta')")
    if training and loss is None:
        loss = lambda output, *_: _mean(output)
    way, profile = precision_named(precision), where.device
    memory = max_memory if max_memory is not None else usable_memory(profile, headroom)
    with (simulated(where.size), policy(policy_for(None, profile)), mt.device("meta"), mt.enable_grad(), mode(model, training),
          way.applied(model) as converted):  # fmt: skip
        given, goals = Given(*converted((inputs, kwargs))), tuple(targets)
        remarks = []
        try:
            parts = parts_of(model, given, loss, goals, training)
        except NoBlocks as error:
            remarks.append(f"placed as a whole: {error}")
            parts = [whole_part(model, given, loss, goals, training)]
        seconds = lambda kind, nbytes, ranks: collective_time(kind, nbytes, ranks, where).seconds
        costs = Costs(init_device_mesh("meta", shape), where, seconds)
        limits = _limits(model, way, profile, optimizer, memory, training)
        choice = choose(parts, costs, limits, time_limit, gap)
        if choice is None:
            raise ValueError(_too_little(least_memory(parts, costs, limits, time_limit), where.size, memory))
    found: dict[str, Placements] = {}
    for placed in choice.parts:
        for path in placed.part.paths:
            found.update({f"{path}.{name}".lstrip("."): one for name, one in placed.parameters.items()})
    order = [path for path, _ in model.named_modules() if any(path in part.paths for part in parts if path)]
    return OperatorPlan(type(model).__name__, str(devices), shape, choice.seconds, choice.gap, choice.memory, found, choice.boundary,
                        remarks, choice, _template(parts[0], goals), order,
                        {name: p.requires_grad for name, p in model.named_parameters(remove_duplicate=False)}, training)  # fmt: skip


def _mean(output: Any) -> Any:
    from metatensor.analysis.training import mean_loss

    return mean_loss(output)


def _limits(model: Module, way: Any, profile: Any, optimizer: Any, memory: int, training: bool) -> Limits:
    """Return what an element of a parameter takes, and how long its update is."""
    weights = way.weights or next((p.dtype for p in model.parameters() if p.is_floating_point()), mt.float32)
    size = weights.itemsize
    if not training:
        return Limits(memory, size, size, 0.0)
    masters = 4 if way.masters is not None else 0
    gradient = 4 if masters else size
    states = state_bytes(optimizer, way.masters or weights)
    moved = gradient + 2 * (masters or size) + 2 * states + (size if masters else 0)
    bandwidth = profile.memory_bandwidth
    if bandwidth is None:
        raise ValueError(f"place_operators: the profile of {profile.name} lacks the bandwidth of the memory")
    return Limits(memory, size + masters + gradient + states, size, moved / (bandwidth * profile.efficiency.get("elementwise", 0.8)))


def _template(part: Part, targets: tuple) -> tuple[tuple, dict[str, Any]]:
    """Return the arguments of the applied model, with the values of the trace in place of tensors."""
    declared = part.program.arguments[0]
    given, goals = (declared[1], declared[2]) if part.name == "model" else (declared[2], declared[3])
    args, kwargs = given[:2]
    return (*args, *goals), kwargs


def _too_little(least: int | None, size: int, memory: int) -> str:
    found = "" if least is None else f"; {bytes_text(least)} would be enough"
    return (f"place_operators: no placement was found that fits into {bytes_text(memory)} on each of {size} devices{found}. Use more "
            "devices, a smaller batch, or another precision")  # fmt: skip
