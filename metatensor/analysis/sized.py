"""Estimates of programs with named sizes: figures as expressions of the names, and at any sizes without another trace."""

from __future__ import annotations

from typing import Any, NamedTuple

import metatensor as mt
from metatensor._core.capture import Value
from metatensor._core.units import bytes_text
from metatensor.analysis.check import NO_BUDGETS, Budgets, CheckResult, compare, run_check
from metatensor.analysis.describe import describe
from metatensor.analysis.estimate import at_inference, has_lazy, input_bytes
from metatensor.analysis.inventory import Inventory
from metatensor.analysis.observation import RunObserver
from metatensor.analysis.report import Peak
from metatensor.program.program import Program
from metatensor.program.restoring import restoring
from metatensor.program.sizes.expressions import Expression, evaluate
from metatensor.program.sizes.fitting import Fitter
from metatensor.program.sizes.program import SizedProgram
from metatensor.program.sizes.refitting import points_of
from metatensor.program.structure import mapped

__all__ = ["SizedFigures", "SizedReport", "check_at", "estimate_sizes"]

_POINTS, _CONFIRM = 14, 6
"""Sizes at which figures are computed to find their expressions, and how many of them are used to confirm these."""


class SizedFigures(NamedTuple):
    """The figures of a model at fixed sizes. Sizes are in bytes."""

    sizes: dict[str, int]
    parameters: int
    flops: int
    peak_bytes: int
    """Peak of what the run makes, without parameters, buffers and inputs."""
    input_bytes: int
    total_bytes: int
    """Parameters, buffers, inputs, and the peak."""
    output: Any
    """The result, with strings such as ``float32[8,10]`` in place of tensors."""


class SizedReport:
    """The cost of a model at inference, for named sizes. `estimate` with `sizes` returns one. ``str()`` gives a text.

    Attributes
    ----------
    program : SizedProgram
        The program of the model.
    parameters, buffers, parameter_bytes, buffer_bytes : int
        As in `Report`.
    flops, peak_bytes, input_bytes, total_bytes : int, Expression or None
        Expressions of the names, for the sizes that meet the first of `conditions`. None if none was found: then `at` tells them.
    conditions : list of str
        The conditions of the programs for different sizes.
    """

    def __init__(self, model: Any, program: SizedProgram) -> None:
        inventory = Inventory(model).rows[0]
        self.model = inventory.kind
        moved = program.to("meta")
        assert isinstance(moved, SizedProgram)
        self.program = moved
        held = inventory if not isinstance(model, Program) else None
        if held is None:  # the tensors of the program itself
            def size(kind: str) -> int:
                return sum(v.numel() * v.element_size() for n, v in program.tensors.items() if program.kinds[n] == kind)

            self.parameters = sum(v.numel() for n, v in program.tensors.items() if program.kinds[n] == "parameter")
            self.buffers = sum(v.numel() for n, v in program.tensors.items() if program.kinds[n] == "buffer")
            self.parameter_bytes, self.buffer_bytes = size("parameter"), size("buffer")
        else:
            self.parameters, self.buffers = held.parameters, held.buffers
            self.parameter_bytes, self.buffer_bytes = held.parameter_bytes, held.buffer_bytes
        self.conditions = program.conditions()
        found = self._fitted()
        self.flops, self.peak_bytes, self.input_bytes, self.total_bytes = found
        args, kwargs = mapped(_text, Value, program.arguments)
        self.inputs = [*args, *([kwargs] if kwargs else [])]
        self.output = mapped(_text, Value, program.output)

    def at(self, **sizes: int) -> SizedFigures:
        """Return the figures at sizes. The program runs there on meta; the model does not run.

        Raises
        ------
        ValueError
            If a size is missing or not in its range, or there is no program for the sizes.
        """
        program = self.program.at(**sizes)
        args, kwargs = mapped(lambda v: mt.empty_strided(v.shape, v.stride, dtype=v.dtype, device="meta"), Value, program.arguments)
        observer = RunObserver(Inventory(program))
        with restoring(), at_inference(program, args, kwargs), observer:
            output = describe(program(*args, **kwargs))
        given = input_bytes(args, kwargs)
        total = self.parameter_bytes + self.buffer_bytes + given + observer.peak.bytes
        return SizedFigures(dict(sizes), self.parameters, observer.flops().get("", 0), observer.peak.bytes, given, total, output)

    def _fitted(self) -> list[Any]:
        """Return expressions for FLOPs, the peak, inputs and the total, or None."""
        points = [sizes for sizes, _ in zip(points_of(self.program, 0), range(_POINTS + _CONFIRM))]
        figures = [self.at(**sizes) for sizes in points]
        rows = [[f.flops, f.peak_bytes, f.input_bytes, f.total_bytes] for f in figures]
        used = max(len(points) - _CONFIRM, 2)
        fitter = Fitter(points[:used], [e for e in self.program.pieces[0].expressions.values() if isinstance(e, Expression)])
        found = []
        for column in zip(*rows):
            made = fitter.fit(column[:used])
            right = made is not None and all(evaluate(made, sizes) == n for sizes, n in zip(points, column))
            found.append(made if right else None)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON types. Expressions are texts."""
        names = ("flops", "peak_bytes", "input_bytes", "total_bytes")
        return {
            "kind": "inference with named sizes", "model": self.model, "sizes": {n: [r[0], r[-1], r.step] for n, r in
            self.program.sizes.items()},
            "inputs": self.inputs, "output": self.output, "parameters": self.parameters, "buffers": self.buffers,
            "parameter_bytes": self.parameter_bytes, "buffer_bytes": self.buffer_bytes, "conditions": self.conditions,
            **{name: str(n) if isinstance(n := getattr(self, name), Expression) else n for name in names},
        }  # fmt: skip

    def __str__(self) -> str:
        def shown(value: Any, unit: str) -> str:
            return "no expression of the sizes; at(...) computes it" if value is None else f"{value}{unit}"

        lines = [f"{self.model}: {', '.join(map(str, self.inputs))} -> {self.output}",
                 f"parameters: {self.parameters:,} ({bytes_text(self.parameter_bytes)}), buffers: {bytes_text(self.buffer_bytes)}",
                 f"FLOPs: {shown(self.flops, '')}", f"inputs: {shown(self.input_bytes, ' B')}",
                 f"peak of activations: {shown(self.peak_bytes, ' B')}", f"in total: {shown(self.total_bytes, ' B')}"]  # fmt: skip
        return "\n".join([*lines, *(f"where {line}" for line in self.conditions)])


def _text(value: Value) -> str:
    return f"{value.dtype.name}[{','.join(map(str, value.shape))}]"


def check_at(program: SizedProgram, model: Any, args: tuple, kwargs: dict[str, Any], budgets: Budgets = NO_BUDGETS) -> CheckResult | None:
    """Check a model by its program at the sizes of arguments. Return None if the program does not cover them.

    The figures are those of a run of the model. It is not known in which module the peak is, nor what single modules cost.
    """
    try:
        fixed = program.at(**program.sizes_of(*args, **kwargs))
    except ValueError:
        return None
    result = run_check(fixed, args, kwargs)
    if result.report is None:
        return None
    inventory = Inventory(model)
    root = inventory.rows[0]
    root.flops, root.calls, root.output = result.report.flops, 1, result.report.output
    result.model = result.report.model = root.kind
    result.report.modules, result.report.shared = [root], inventory.shared
    result.report.peak = Peak(result.report.peak.bytes, result.report.peak.op)
    compare(result, budgets, None)
    return result


def estimate_sizes(model: Any, args: tuple, kwargs: dict[str, Any], sizes: Any, dims: Any) -> SizedReport:
    """Trace a model with named sizes, and return its figures. See `estimate`."""
    if isinstance(model, SizedProgram):
        return SizedReport(model, model)
    with at_inference(model, args, kwargs):
        if has_lazy(model):
            model(*args, **kwargs)
        program = mt.program.trace(model, *args, **kwargs, sizes=sizes, dims=dims)
    assert isinstance(program, SizedProgram)
    return SizedReport(model, program)
