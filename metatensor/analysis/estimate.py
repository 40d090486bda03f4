"""`estimate`: run a model once on meta and report what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, overload

import metatensor as mt
from metatensor._core.nested import tensors_in
from metatensor.analysis.assumptions import assuming
from metatensor.analysis.describe import describe
from metatensor.analysis.inventory import Inventory
from metatensor.analysis.observation import Progress, RunObserver
from metatensor.analysis.report import Report
from metatensor.nn.parameter import is_lazy
from metatensor.rules.policies import policy_for

if TYPE_CHECKING:
    from metatensor.analysis.profiling import Profile
    from metatensor.analysis.sized import SizedReport
    from metatensor.analysis.training import TrainingReport

__all__ = ["at_inference", "estimate", "forward_profile", "has_lazy", "input_bytes", "report_of", "trace"]


@overload
def estimate(
    model: Any, /, *inputs: Any, training: Literal[False] = False, timeline: bool = False, assume: dict[str, Any] | None = None,
    **kwargs: Any,
) -> Report: ...


@overload
def estimate(model: Any, /, *inputs: Any, sizes: dict[str, Any], dims: Any = None, **kwargs: Any) -> SizedReport: ...


@overload
def estimate(
    model: Any, /, *inputs: Any, training: Literal[True], timeline: bool = False, assume: dict[str, Any] | None = None, **kwargs: Any
) -> TrainingReport: ...


def estimate(
    model: Any, /, *inputs: Any, training: bool = False, timeline: bool = False, assume: dict[str, Any] | None = None,
    sizes: dict[str, Any] | None = None, dims: Any = None, **kwargs: Any,
) -> Report | TrainingReport | SizedReport:  # fmt: skip
    """Run ``model(*inputs, **kwargs)`` once and report parameters, FLOPs, peak memory and shapes.

    If the model and its inputs are on meta, nothing is allocated or computed. A model with data runs on its device like
    any call, with the same report. The run is an inference: gradients are disabled, and the model is in evaluation mode
    until it ends. Tensors that the forward creates without naming a device are on the model's device.

    Parameters
    ----------
    model : nn.Module or callable
        The model. If it is a callable other than a module, its parameters are not counted.
    *inputs, **kwargs
        Arguments of the model.
    training : bool
        Whether to run a training step instead, as `estimate_training` does. Then its options, such as ``loss`` and
        ``optimizer``, may be among the keyword arguments. Default False.
    timeline : bool
        Whether to run once more and record the memory in use over time: ``report.profile``, which ``report.to_html`` draws.
        Default False.
    assume : dict, optional
        Run the model inside `metatensor.analysis.assume` with this dict, such as ``{"tokens_per_expert": 128}``. Sizes that depend on
        values then have the given figures, or upper bounds. The report lists what was assumed. By default such sizes raise
        `DataDependentError`.
    sizes, dims : dict, optional
        Names of sizes with their ranges, and which sizes of which arguments have them, as `metatensor.program.trace` takes them. The
        model is then traced with these names, and the figures are expressions of them. A program with named sizes can also be given
        as the model, without inputs.

    Returns
    -------
    Report, TrainingReport or SizedReport
        The figures. ``str()`` of the report is a table. With named sizes, ``report.at(batch=8)`` has the figures at sizes.

    Raises
    ------
    Exception
        Any exception that the model raises.

    Examples
    --------
    >>> import metatensor as mt
    >>> with mt.device("meta"):
    ...     model = mt.nn.Sequential(mt.nn.Linear(512, 2048), mt.nn.GELU(), mt.nn.Linear(2048, 512))
    >>> report = mt.analysis.estimate(model, mt.empty(8, 512, device="meta"))
    >>> report.parameters, report.flops, report.module("0").output
    (2099712, 33554432, 'float32[8,2048]')
    >>> sized = mt.analysis.estimate(model, mt.empty(8, 512, device="meta"), sizes={"batch": (1, 64)}, dims=[["batch", None]])
    >>> print(sized.flops, sized.at(batch=16).flops)
    4194304*batch 67108864
    """
    from metatensor.program.sizes.program import SizedProgram

    if sizes is not None or isinstance(model, SizedProgram) and not inputs and not kwargs:
        if training or timeline:
            raise ValueError("estimate: named sizes are for a forward pass without a timeline")
        from metatensor.analysis.sized import estimate_sizes

        with assuming(assume):
            return estimate_sizes(model, inputs, kwargs, sizes, dims)
    if dims is not None:
        kwargs["dims"] = dims
    if training:
        from metatensor.analysis.training import estimate_training

        with assuming(assume):
            return estimate_training(model, *inputs, timeline=timeline, **kwargs)
    with assuming(assume) as noted:
        report = trace(model, inputs, kwargs)
        if timeline:
            report.profile = forward_profile(model, inputs, kwargs)
    report.assumptions = noted()
    return report


def forward_profile(model: Any, args: tuple, kwargs: dict[str, Any]) -> Profile:
    """Return the `Profile` of the run that `estimate` reports."""
    from metatensor.analysis.profiling import profiled

    with at_inference(model, args, kwargs):
        return profiled(model, args, kwargs)


def trace(model: Any, args: tuple, kwargs: dict[str, Any], progress: Progress | None = None) -> Report:
    """Run `estimate` with its arguments in a tuple and a dict. ``progress`` is called after each module."""
    if has_lazy(model):
        with at_inference(model, args, kwargs):
            model(*args, **kwargs)
    inventory = Inventory(model)
    observer = RunObserver(inventory, progress)
    with at_inference(model, args, kwargs), observer:
        output = model(*args, **kwargs)
    return report_of(inventory, observer, args, kwargs, describe(output))


def has_lazy(model: Any) -> bool:
    """Return True if a model has parameters or buffers that get their shapes in its first call."""
    if not isinstance(model, mt.nn.Module):
        return False
    return any(is_lazy(tensor) for tensors in (model.parameters(), model.buffers()) for tensor in tensors)


def report_of(inventory: Inventory, observer: RunObserver, args: tuple, kwargs: dict[str, Any], output: Any) -> Report:
    """Return the report of a run that ``observer`` observed."""
    flops = observer.flops()
    for row in inventory.rows:
        row.flops = flops.get(row.path, 0)
        row.calls = observer.calls[row.path]
        row.output = observer.outputs.get(row.path)
    root = inventory.rows[0]
    if not root.calls:  # a plain function
        root.calls, root.output = 1, output
    inputs = describe(list(args))
    return Report(
        model=root.kind,
        modules=inventory.rows,
        inputs=[*inputs, describe(kwargs)] if kwargs else inputs,
        output=output,
        input_bytes=input_bytes(args, kwargs),
        peak=observer.peak,
        flops=flops.get("", 0),
        flops_by_op=dict(observer.flops_by_op.most_common()),
        uncounted=dict(observer.uncounted.most_common()),
        gaps=observer.gaps,
        shared=inventory.shared,
        ops=observer.ops,
        policy=policy_for(None).name,
    )


@contextmanager
def at_inference(model: Any, args: tuple, kwargs: dict[str, Any]) -> Iterator[None]:
    """Disable gradients and use evaluation mode inside the block.

    Inside the block, the device of the model (or of the inputs) is the default device.
    """
    device = next((tensor.device for tensor in _tensors(model, args, kwargs)), mt.device("meta"))
    training = [module for module in model.modules() if module.training] if isinstance(model, mt.nn.Module) else []
    with mt.no_grad(), device:
        try:
            if training:
                model.eval()
            yield
        finally:
            for module in training:
                module.training = True


def _tensors(model: Any, args: tuple, kwargs: dict[str, Any]) -> Iterator[mt.Tensor]:
    if isinstance(model, mt.nn.Module):
        yield from model.parameters()
        yield from model.buffers()
    yield from tensors_in((args, kwargs))


def input_bytes(args: tuple, kwargs: dict[str, Any]) -> int:
    """Return the size in bytes of the inputs' storages, counting each once."""
    return sum({storage: storage.nbytes() for storage in (t.untyped_storage() for t in tensors_in((args, kwargs)))}.values())
