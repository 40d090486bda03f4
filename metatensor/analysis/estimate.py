"""`estimate`: run a model once on meta and report what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import metatensor as mt
from metatensor.analysis.census import Census
from metatensor.analysis.describe import describe, tensors_in
from metatensor.analysis.record import Progress, Recorder
from metatensor.analysis.report import Report
from metatensor.nn.parameter import is_lazy

__all__ = ["at_inference", "estimate", "has_lazy", "report_of", "trace"]


def estimate(model: Any, /, *inputs: Any, **kwargs: Any) -> Report:
    """Run ``model(*inputs, **kwargs)`` once and report parameters, FLOPs, peak memory and shapes.

    ``model`` is a module, or any callable (whose parameters are then unknown). Build it and its inputs on meta, and
    nothing is allocated or computed::

        with mt.device("meta"):
            model = GPT2()
        report = mt.analysis.estimate(model, mt.empty(1, 1024, dtype=mt.int64, device="meta"))
        print(report)

    A model with data runs on its device like any call, and is reported just the same. The run is one of inference:
    without gradients and in evaluation mode, which is undone afterwards. What the forward makes without naming a
    device is made on the model's. Whatever the model raises is raised.
    """
    return trace(model, inputs, kwargs)


def trace(model: Any, args: tuple, kwargs: dict[str, Any], progress: Progress | None = None) -> Report:
    """`estimate` with the arguments in a tuple and a dict, and a callable that is told of the progress."""
    if has_lazy(model):
        with at_inference(model, args, kwargs):
            model(*args, **kwargs)
    census = Census(model)
    recorder = Recorder(census, progress)
    with at_inference(model, args, kwargs), recorder:
        output = model(*args, **kwargs)
    return report_of(census, recorder, args, kwargs, describe(output))


def has_lazy(model: Any) -> bool:
    """Whether a model has parameters or buffers that get their shapes when it is first called."""
    if not isinstance(model, mt.nn.Module):
        return False
    return any(is_lazy(tensor) for tensors in (model.parameters(), model.buffers()) for tensor in tensors)


def report_of(census: Census, recorder: Recorder, args: tuple, kwargs: dict[str, Any], output: Any) -> Report:
    """What ``recorder`` saw of a run, as a report."""
    flops = recorder.flops()
    for row in census.rows:
        row.flops = flops.get(row.path, 0)
        row.calls = recorder.calls[row.path]
        row.output = recorder.outputs.get(row.path)
    root = census.rows[0]
    if not root.calls:  # a plain function
        root.calls, root.output = 1, output
    inputs = describe(list(args))
    return Report(
        model=root.kind,
        modules=census.rows,
        inputs=[*inputs, describe(kwargs)] if kwargs else inputs,
        output=output,
        input_bytes=_input_bytes(args, kwargs),
        peak=recorder.peak,
        flops=flops.get("", 0),
        flops_by_op=dict(recorder.flops_by_op.most_common()),
        uncounted=dict(recorder.uncounted.most_common()),
        gaps=recorder.gaps,
        shared=census.shared,
        ops=recorder.ops,
    )


@contextmanager
def at_inference(model: Any, args: tuple, kwargs: dict[str, Any]) -> Iterator[None]:
    """No gradients, evaluation mode, and the model's device (or the inputs') for what names none."""
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


def _input_bytes(args: tuple, kwargs: dict[str, Any]) -> int:
    """Bytes of the inputs' storages, each once."""
    return sum({storage: storage.nbytes() for storage in (t.untyped_storage() for t in tensors_in((args, kwargs)))}.values())
