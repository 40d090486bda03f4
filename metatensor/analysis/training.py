"""`estimate_training`: run one training step on meta and report what it costs."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from html import escape
from typing import Any, TypeVar

import metatensor as mt
from metatensor._core.memory import MemoryTracker
from metatensor._core.nested import tensors_in
from metatensor._core.units import bytes_text, count_text
from metatensor.analysis.accuracy import training_bands
from metatensor.analysis.adapters import adapted
from metatensor.analysis.assumptions import Assumption, assuming
from metatensor.analysis.assumptions import notes as assumed
from metatensor.analysis.calls import Call
from metatensor.analysis.describe import relative
from metatensor.analysis.eight_bit import EIGHT_BIT
from metatensor.analysis.estimate import has_lazy, input_bytes
from metatensor.analysis.functions import as_module
from metatensor.analysis.inventory import Inventory
from metatensor.analysis.observation import RunObserver
from metatensor.analysis.precision import Precision, precision_named
from metatensor.analysis.profiling import Profile, labelled, profiled
from metatensor.analysis.recomputation import recomputed
from metatensor.analysis.report import CONVENTION, EXCLUDED, SCHEMA, ModuleRow, Peak, details
from metatensor.analysis.step_time import StepTime, recorded_step, step_time
from metatensor.analysis.timeline import DEFAULT_LOSS, heaviest
from metatensor.analysis.utilization import CONVENTIONS
from metatensor.devices.profiles import device_profile
from metatensor.rules import policies

_Estimate = TypeVar("_Estimate", bound=Callable[..., "TrainingReport"])
PACKAGE = os.path.dirname(mt.__file__)

__all__ = ["TrainingReport", "estimate_training", "optimizer_named"]


@dataclass
class TrainingReport:
    """The cost of one training step, in bytes and floating-point operations. ``str()`` returns a table."""

    model: str
    """Name of the model's class."""
    optimizer: str
    precision: str
    recompute: str
    grad_accumulation: int
    """Number of forward and backward passes before the optimizer's step."""
    trainable_parameters: int
    """Number of elements of the parameters that require grad."""
    frozen_parameters: int
    """Number of elements of the parameters that do not require grad."""
    parameter_bytes: int
    buffer_bytes: int
    input_bytes: int
    forward_peak: int
    """Peak memory of tensors that the forward pass and the loss created."""
    saved_bytes: int
    """Memory of these tensors that is still in use when backward begins: saved tensors and the loss."""
    backward_peak: int
    """Peak memory during the backward pass, of tensors that the forward and backward passes created."""
    gradient_bytes: int
    """Memory of the gradients that remain after the backward pass."""
    optimizer_bytes: int
    """The state of the optimizer, including its float32 copies of the parameters if the precision has them."""
    step_peak: int
    """Peak memory of temporary tensors during the optimizer's step."""
    forward_flops: int
    backward_flops: int
    """Floating-point operations of the backward pass, without recomputation."""
    recompute_flops: int
    """Floating-point operations of recomputation in the backward pass."""
    optimizer_flops: int
    peak: Peak
    """Peak memory of tensors that the forward and backward passes created, and the operator that reached it."""
    flops_by_op: dict[str, int] = field(default_factory=dict)
    """Floating-point operations of the whole step by operator."""
    recomputed: list[str] = field(default_factory=list)
    """Paths of the modules that backward recomputes because of `recompute`."""
    without_gradient: list[str] = field(default_factory=list)
    """Names of parameters that require grad but got no gradient."""
    flops_gaps: list[dict[str, Any]] = field(default_factory=list)
    """Operators without a FLOP rule, whose operations are not counted: "op", "calls" in a micro-batch, "modules"."""
    adapters: str | None = None
    """The adapters that LoRA added, if any."""
    time: StepTime | None = None
    """Predicted time of the step on a device, if one was given."""
    modules: list[ModuleRow] = field(default_factory=list)
    """Every module in depth-first order, the model first. Their floating-point operations are those of one forward pass."""
    profile: Profile | None = None
    """The memory in use over time during the second step, if it was requested (``timeline=True``)."""
    passes: Profile | None = field(default=None, repr=False, compare=False)
    """The memory in use over time during forward and backward of the first step."""
    policy: str = "meta"
    """Name of the kernel policy, see `metatensor.analysis.policy`."""
    assumptions: list[Assumption] = field(default_factory=list)
    """Sizes and numbers that depend on values and were assumed, see `metatensor.analysis.assume`."""

    @property
    def flops(self) -> int:
        """Floating-point operations of the step."""
        return self.forward_flops + self.backward_flops + self.recompute_flops + self.optimizer_flops

    @property
    def fixed_bytes(self) -> int:
        """Memory that is permanently in use after the first step: parameters, buffers, inputs and the optimizer's state."""
        return self.parameter_bytes + self.buffer_bytes + self.input_bytes + self.optimizer_bytes

    @property
    def total_bytes(self) -> int:
        """Peak memory of a step after the first one."""
        return self.fixed_bytes + max(self.forward_peak, self.backward_peak, self.gradient_bytes + self.step_peak)

    @functools.cached_property
    def heaviest(self) -> list[dict[str, Any]]:
        """The ten operators whose results weigh most at the peak of forward and backward, each at one place.

        Each is a dict with "bytes", the "count" of results, "operator", "module" (in which ``*`` stands for the numbers of layers) and
        "line". Parameters and what else existed before the passes do not count.
        """
        return [] if self.passes is None else heaviest(self.passes)

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as JSON types."""
        return {"kind": "training", "schema": SCHEMA, **_plain(vars(self)), "time": None,
                **details(self.modules, self.profile, self.time), "peak": self.peak.to_dict(), "flops": self.flops,
                "heaviest_at_peak": self.heaviest, "assumptions": [each.to_dict() for each in self.assumptions],
                "total_bytes": self.total_bytes, "flops_convention": CONVENTION, "excluded": list(EXCLUDED),
                "error_bands": [each.to_dict() for each in training_bands(self.policy)],
                "workspaces": [space._asdict() for space in policies.policy_named(self.policy).workspaces]}  # fmt: skip

    def to_json(self, indent: int | None = 2) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a self-contained page with all figures to a file. It needs Plotly: ``pip install 'metatensor-device[report]'``.

        Its timeline needs ``timeline=True``, its predicted times need a device.
        """
        from metatensor.analysis.page import write

        write(path, self.to_dict())

    def _repr_html_(self) -> str:
        from metatensor.analysis.notebook import table

        return table((self.head(), ""), self.lines()) + "".join(f"<p>{escape(note)}</p>" for note in self.notes())

    def lines(self, by_op: bool = False) -> list[tuple[str, str]]:
        """Return the table as (label, text) pairs, with the operators' floating-point operations if `by_op`."""
        rows = [("parameters", self.parameter_bytes), ("buffers", self.buffer_bytes), ("inputs", self.input_bytes),
                ("optimizer state", self.optimizer_bytes), ("forward, at its peak", self.forward_peak),
                ("saved for backward", self.saved_bytes), ("backward, at its peak", self.backward_peak),
                ("gradients", self.gradient_bytes), ("optimizer, temporary", self.step_peak), ("total", self.total_bytes)]  # fmt: skip
        lines = [("trainable parameters", count_text(self.trainable_parameters)), ("frozen parameters", count_text(self.frozen_parameters))]
        lines += [(name, bytes_text(size)) for name, size in rows]
        flops = [("forward", self.forward_flops), ("backward", self.backward_flops), ("computed again", self.recompute_flops),
                 ("optimizer", self.optimizer_flops)]  # fmt: skip
        if by_op:
            flops += sorted(self.flops_by_op.items(), key=lambda item: -item[1])
        lines += [(f"FLOPs, {name}", count_text(count)) for name, count in flops]
        return lines if self.time is None else lines + self.time.lines()

    def notes(self) -> list[str]:
        """Return notes on what the table omits or assumes."""
        notes = []
        if self.peak.op:
            place = _place({"count": 1, "operator": self.peak.op, "module": self.peak.module, "line": self.peak.location})
            notes.append(f"peak of forward and backward: {bytes_text(self.peak.bytes)} during {place}")
        if self.recomputed:
            notes.append(f"computed again in backward: {len(self.recomputed)} modules, {self.recomputed[0]} to {self.recomputed[-1]}")
        if self.adapters:
            notes.append(f"{self.adapters}; its parameters have the dtype of the weights")
        if self.precision == "fp8-weights":
            notes.append("fp8 weights are declared: products run in bfloat16; casts and transposed copies of weights are left out")
        if self.without_gradient:
            notes.append(f"no gradient: {', '.join(self.without_gradient)}")
        notes += [f"no FLOP rule for {gap['op']}, called {gap['calls']} times: its FLOPs are missing" for gap in self.flops_gaps]
        notes += assumed(self.assumptions)
        notes += policies.policy_named(self.policy).notes()
        notes += [f"FLOPs: {CONVENTION}", f"not included: {', '.join(EXCLUDED)}"]
        notes += map(str, training_bands(self.policy))
        return notes if self.time is None else notes + self.time.notes()

    def __str__(self) -> str:
        return self.text()

    def head(self) -> str:
        """Return the line above the table."""
        times = f", {self.grad_accumulation} micro-batches" if self.grad_accumulation > 1 else ""
        return f"{self.model}: one training step with {self.optimizer}, precision {self.precision}, recompute {self.recompute}{times}"

    def text(self, by_op: bool = False) -> str:
        """Return the table with its notes."""
        lines = self.lines(by_op)
        width = max(24, *(len(name) + 2 for name, _ in lines))
        table = [f"{name:<{width}}{text:>12}" for name, text in lines]
        if by_op and self.heaviest:
            table += ["", "weigh most at the peak of forward and backward:"]
            table += [f"{bytes_text(row['bytes']):>9}  {_place(row)}" for row in self.heaviest]
        return "\n".join([self.head(), "", *table, "", *self.notes()])


def _place(row: dict[str, Any]) -> str:
    """Return where results came from, in words."""
    times = f"{row['count']:,} x " if row["count"] > 1 else ""
    inside = f" in {row['module']}" if row["module"] else ""
    line = row["line"]
    at = f" of {DEFAULT_LOSS}" if line == DEFAULT_LOSS else f" at {relative(line)}" if line else ""
    return f"{times}{row['operator'] or '(unknown operator)'}{inside}{at}"


def optimizer_named(name: str) -> Any:
    """Return the optimizer class with this name, ignoring case. Raise ValueError if there is none."""
    values = ((key, getattr(mt.optim, key)) for key in dir(mt.optim) if key[0].isupper() and key != "Optimizer")
    classes: dict[str, Any] = {
        key.lower(): value for key, value in values if isinstance(value, type) and issubclass(value, mt.optim.Optimizer)
    }
    classes.update(EIGHT_BIT)
    if name.lower() not in classes:
        raise ValueError(f"there is no optimizer {name!r}; there are {', '.join(sorted(classes))}")
    return classes[name.lower()]


def _with_adapters(estimate: _Estimate) -> _Estimate:
    """Return an `estimate_training` that adds the adapters of ``lora`` to the model while it runs, and records assumptions."""

    @functools.wraps(estimate)
    def run(model: Any, /, *inputs: Any, lora: str | int | None = None, **options: Any) -> TrainingReport:
        model = as_module(model)
        with assuming(None) as noted, nullcontext() if lora is None else adapted(model, lora) as adapters:
            report = estimate(model, *inputs, **options)
        return dataclasses.replace(report, adapters=None if lora is None else str(adapters), assumptions=noted())

    return run  # type: ignore[return-value]


@_with_adapters
def estimate_training(
    model: Any, /, *inputs: Any, loss: Callable[[Any], Any] | None = None, optimizer: Any = "adamw", precision: str | None = None,
    recompute: str = "none", foreach: bool = False, grad_accumulation: int = 1, device: Any = None,
    convention: str = "torch", timeline: bool = False, policy: Any = None, lora: str | int | None = None, **kwargs: Any,
) -> TrainingReport:
    """Run one training step of a model on meta and report its cost.

    The step consists of ``model(*inputs, **kwargs)``, the loss, backward and the optimizer. All figures are measured
    during the run and not derived from the model's size. The model must be on meta. It is unchanged afterwards.

    Parameters
    ----------
    model : nn.Module or callable
        The model. It runs in its current mode; call ``model.train()`` first. The parameters of a function are those of the
        modules that it refers to.
    *inputs, **kwargs
        Arguments of the model, on meta, for one micro-batch.
    loss : callable, optional
        Function that computes the loss, a tensor of one element, from the output. Default: the sum of the means of all
        floating-point tensors in the output.
    optimizer : str or callable
        Name of an optimizer of `metatensor.optim`, of one with 8-bit states ("adamw8bit", "adam8bit", "lion8bit",
        "sgd8bit", "rmsprop8bit"; their sizes are those of bitsandbytes), or a function that creates one from the list of
        parameters. Default: "adamw".
    precision : str, optional
        "fp32"; "bf16" or "fp16" (weights and activations); "bf16-mixed" or "fp16-mixed" (autocast over float32
        weights); "bf16-master" or "fp16-master" (half weights, of which the optimizer keeps float32 copies); "fp8-weights"
        (the same as "bf16-master", with weights of linear layers in 8 bits and a float32 scale for each). Default: the model's own dtypes.
    recompute : str
        The modules that backward recomputes: "none", "full" (each layer of a list of layers of one class), "selective"
        (the same, but results of matrix products and convolutions are kept), or a pattern of module paths such as
        ``"layers.*"``.
    foreach : bool
        Whether the optimizer updates all parameters together. Default False.
    grad_accumulation : int
        Number of forward and backward passes before the optimizer's step. Default 1.
    device : str, path or DeviceProfile, optional
        A device, as `device_profile` takes it. The report then has the predicted time of the step there: ``report.time``.
    convention : str
        How MFU counts operations: "torch", "macs", "6nd" or "megatron". Default: "torch".
    timeline : bool
        Whether to run two more steps and record the memory in use during the second: ``report.profile``. Default False.
    policy : str or KernelPolicy, optional
        The kernel policy, as `metatensor.analysis.policy` takes it. Default: the one chosen by an enclosing block, else "cuda" or
        "eager" if `device` is such a GPU or a CPU, else "meta".
    lora : str or int, optional
        Train low-rank adapters and freeze all other parameters: the rank, or ``RANK:PATTERN`` with a pattern of the paths of
        linear layers, such as ``"16:*.q_proj"``. Default pattern: all linear layers of the repeated layers.

    Returns
    -------
    TrainingReport
        The figures.

    Raises
    ------
    TypeError
        If `loss` is not callable.
    ValueError
        If a parameter or buffer is not on meta, no parameter requires grad, or an option has an invalid value.
    RuntimeError
        If the loss does not require grad.

    Examples
    --------
    >>> import metatensor as mt
    >>> with mt.device("meta"):
    ...     model = mt.nn.Sequential(mt.nn.Linear(512, 2048), mt.nn.GELU(), mt.nn.Linear(2048, 512))
    >>> report = mt.analysis.estimate_training(model, mt.empty(8, 512, device="meta"))
    >>> report.gradient_bytes == report.parameter_bytes, report.optimizer_bytes // report.parameter_bytes
    (True, 2)
    >>> report.forward_flops, report.backward_flops
    (33554432, 50331648)
    """
    if loss is not None and not callable(loss):
        raise TypeError(f"estimate_training: loss must be callable, got {type(loss).__name__}")
    if grad_accumulation < 1:
        raise ValueError(f"estimate_training: grad_accumulation must be at least 1, got {grad_accumulation}")
    if convention not in CONVENTIONS:
        raise ValueError(f"estimate_training: convention {convention!r} is unknown; choose from {', '.join(CONVENTIONS)}")
    profile = None if device is None else device_profile(device)
    kernels = policies.policy_for(policy, profile)
    way = precision_named(precision)
    if has_lazy(model):
        with mt.no_grad(), mt.device("meta"):
            model(*inputs, **kwargs)
    named = dict(model.named_parameters())
    for name, tensor in [*named.items(), *model.named_buffers()]:
        if not tensor.is_meta:
            raise ValueError(f"estimate_training: {name} is on {tensor.device}; the step would change it. Use a copy on meta")
    if not any(p.requires_grad for p in named.values()):
        raise ValueError("estimate_training: no parameter requires grad")
    # The cpu device of metatensor computes as under `meta`, and the profiles of CPUs are measured there.
    timed = policies.META if profile is not None and profile.backend == "cpu" else kernels
    with policies.policy(kernels), mt.device("meta"), mt.enable_grad(), kept_gradients(model), way.applied(model) as converted:
        try:
            _clear(named)
            step = _Step(model, converted((inputs, kwargs)), loss or mean_loss, _maker(optimizer, foreach), way)
            with recomputed(model, recompute) as paths:
                figures, made = step.memory(named, grad_accumulation)
                _clear(named)
                again = step.flops()
                _clear(named)
                with policies.policy(timed):
                    calls = None if profile is None else step.calls()
                if timeline:
                    _clear(named)
                    figures["profile"] = step.profile(grad_accumulation)
            _clear(named)
            plain = step.flops(update=False) if paths else again
            _clear(named)
            with policies.policy(timed):
                without = step.calls() if paths and profile is not None else None
            time = None
            if profile is not None and calls is not None:
                time = step_time(profile, calls, without, grad_accumulation, model, (step.args, step.kwargs), convention)
        finally:
            _clear(named)
        figures.update(time=time, flops_gaps=step.gaps, policy=kernels.name)
        return _report(step, named, figures, made, again, plain, way, recompute, paths, grad_accumulation)


def _report(
    step: _Step, named: dict[str, Any], figures: dict[str, Any], optimizer: str, again: _Flops, plain: _Flops, way: Precision,
    recompute: str, paths: list[str], times: int,
) -> TrainingReport:
    rows = step.inventory.rows
    row = rows[0]
    for one in rows:
        one.flops, one.calls = plain.by_path.get(one.path, 0), plain.called.get(one.path, 0)
        one.output = plain.outputs.get(one.path)
    return TrainingReport(
        model=row.kind, optimizer=optimizer, precision=str(way), recompute=recompute, grad_accumulation=times,
        trainable_parameters=sum(p.numel() for p in named.values() if p.requires_grad),
        frozen_parameters=sum(p.numel() for p in named.values() if not p.requires_grad),
        parameter_bytes=way.kept_bytes(step.model, row.parameter_bytes), buffer_bytes=row.buffer_bytes,
        input_bytes=input_bytes(step.args, step.kwargs),
        forward_flops=plain.forward * times, backward_flops=plain.backward * times, optimizer_flops=again.optimizer,
        recompute_flops=(again.forward + again.backward - plain.forward - plain.backward) * times, recomputed=paths,
        flops_by_op={name: count * times for name, count in again.by_op.items()}, modules=rows, **figures,
    )  # fmt: skip


def _maker(optimizer: Any, foreach: bool) -> Callable[[list[Any]], Any]:
    """Return a function that creates the optimizer for a list of parameters."""
    make = optimizer_named(optimizer) if isinstance(optimizer, str) else optimizer
    return (lambda params: make(params, foreach=True)) if foreach else make


@dataclass
class _Flops:
    """Floating-point operations of the phases of a step with one micro-batch."""

    forward: int
    backward: int
    optimizer: int
    by_op: dict[str, int]
    by_path: dict[str, int]
    """Of the forward pass, by path of the module, including submodules."""
    called: dict[str, int]
    """Number of calls in the forward pass, by path of the module."""
    outputs: dict[str, Any]


class _Step:
    """A training step that can be run several times."""

    def __init__(self, model: Any, given: tuple, loss: Callable[[Any], Any], make: Callable[[list[Any]], Any], way: Precision) -> None:
        self.model, (self.args, self.kwargs), self.loss, self.make, self.way = model, given, loss, make, way
        self.gaps: list[dict[str, Any]] = []

    def forward(self) -> Any:
        """Return the loss."""
        with self.way.forward():
            return self.loss(self.model(*self.args, **self.kwargs))

    def masters(self, params: list[Any]) -> list[Any]:
        """Return the tensors that the optimizer updates: the parameters, or their copies."""
        if self.way.masters is None:
            return params
        return [p.detach().to(self.way.masters).requires_grad_() for p in params]

    def update(self, optimizer: Any, params: list[Any], masters: list[Any]) -> None:
        """Run the optimizer."""
        if masters is not params:
            for p, master in zip(params, masters, strict=True):
                master.grad = p.grad.to(self.way.masters)
        optimizer.step()
        if masters is not params:
            with mt.no_grad():
                for p, master in zip(params, masters, strict=True):
                    p.copy_(master)
                    master.grad = None

    def memory(self, named: dict[str, Any], times: int) -> tuple[dict[str, Any], str]:
        """Run a step. Return its figures in bytes, and the optimizer's name."""
        figures: dict[str, Any] = {"forward_peak": 0, "saved_bytes": 0, "backward_peak": 0}
        memory = MemoryTracker()

        def passes(model: Any, args: Any, kwargs: Any) -> None:
            for _ in range(min(times, 2)):  # further passes have the same peak as the second
                kept = memory.current
                memory.reset_peak()
                loss = self.forward()
                figures["forward_peak"] = max(figures["forward_peak"], memory.peak)
                figures["saved_bytes"] = memory.current - kept
                memory.reset_peak()
                loss.backward()
                del loss
                figures["backward_peak"] = max(figures["backward_peak"], memory.peak)

        with memory:
            run = profiled(passes, (self.model, self.args, self.kwargs), {})
            figures["gradient_bytes"] = memory.current
        run._roots = []  # the report does not keep the model
        figures["passes"] = run
        operator, module, line = run.peak_place
        figures["peak"] = Peak(run.made_peak, operator or None, module if module in self.inventory.by_path else "", line)
        params = [p for p in named.values() if p.requires_grad and p.grad is not None]
        figures["without_gradient"] = [name for name, p in named.items() if p.requires_grad and p.grad is None]
        with MemoryTracker() as memory:
            masters = self.masters(params)
            optimizer = self.make(masters)
            self.update(optimizer, params, masters)
            figures["optimizer_bytes"] = memory.current
            figures["step_peak"] = memory.peak - memory.current
        return figures, getattr(optimizer, "name", type(optimizer).__name__)

    @functools.cached_property
    def inventory(self) -> Inventory:
        """The modules of the model."""
        return Inventory(self.model)

    def flops(self, update: bool = True) -> _Flops:
        """Run a step, and return its floating-point operations; without those of the optimizer if not `update`."""
        observer = RunObserver(self.inventory)
        with observer:
            loss = self.forward()
            forward = sum(observer.flops_by_op.values())
            by_path, called, outputs = dict(observer.flops()), dict(observer.calls), dict(observer.outputs)
            loss.backward()
            both = sum(observer.flops_by_op.values())
            if update:
                params = [p for p in self.model.parameters() if p.requires_grad and p.grad is not None]
                masters = self.masters(params)
                self.update(self.make(masters), params, masters)
        self.gaps = [gap.to_dict() for gap in observer.gaps]
        total = sum(observer.flops_by_op.values())
        return _Flops(forward, both - forward, total - both, dict(observer.flops_by_op.most_common()), by_path, called,
                      outputs)  # fmt: skip

    def calls(self) -> list[Call]:
        """Run two steps, and return the calls of the second: the optimizer then has its state."""

        return recorded_step(self.forward, self._after_one(), self.model)

    def profile(self, times: int) -> Profile:
        """Run two steps, and return the memory profile of the second. It has at most two micro-batches."""
        update = self._after_one()

        def step(model: Any, args: Any, kwargs: Any) -> None:
            for _ in range(min(times, 2)):  # further passes have the same peak as the second
                self.forward().backward()
            update()

        return profiled(step, (self.model, self.args, self.kwargs), {})

    def _after_one(self) -> Callable[[], None]:
        """Run a step, and return a function that runs the optimizer, which then has its state."""
        self.forward().backward()
        params = [p for p in self.model.parameters() if p.requires_grad and p.grad is not None]
        masters = self.masters(params)
        optimizer = self.make(masters)
        self.update(optimizer, params, masters)
        for p in params:
            p.grad = None
        return lambda: self.update(optimizer, params, masters)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a report without its profiles."""
    return {name: value for name, value in values.items() if name not in ("profile", "passes", "heaviest")}


@contextmanager
def kept_gradients(model: Any) -> Iterator[None]:
    """Restore the gradients of the parameters after the block. Their dtypes must then be the same as before."""
    before = [(p, p.grad) for p in model.parameters()]
    try:
        yield
    finally:
        for p, grad in before:
            p.grad = grad


def _clear(named: dict[str, Any]) -> None:
    for p in named.values():
        p.grad = None


@labelled(DEFAULT_LOSS)
def mean_loss(output: Any) -> Any:
    """Return the sum of the means of the tensors in the output that require grad, counting each tensor once."""
    total = None
    for t in _once(output):
        one = t.float().mean()
        total = one if total is None else total + one
    if total is None:
        raise RuntimeError("estimate_training: nothing in the output requires grad; pass loss=")
    return total


def _once(output: Any) -> Iterator[Any]:
    seen = set()
    for t in tensors_in(output):
        if t.requires_grad and t.is_floating_point() and id(t) not in seen:
            seen.add(id(t))
            yield t
