"""Checks of one operator: that its schema tells the truth, and its meta kernel and every device agree with a reference."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from metatensor._core.op import operator_flags
from metatensor._core.schema import parse
from metatensor._core.tensor import Tensor
from metatensor.testing.candidates import NOT_VARIED, optional_values
from metatensor.testing.operator_runs import Reference, Run, is_pytorch, metadata, repeated, strided, value_differences
from metatensor.testing.samples import Sample

__all__ = ["OpReport", "check_op"]

VARIED = 3  # samples whose options are varied


@dataclass
class OpReport:
    """What `check_op` found. ``str()`` of it is a summary for people."""

    op: str
    samples: int = 0
    devices: list[str] = field(default_factory=list)
    """Device types whose results were compared."""
    failures: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        head = f"op {self.op}: {self.samples} samples on {', '.join(self.devices) or 'meta alone'}, {len(self.failures)} problems"
        return "\n".join([head, *(f"  {failure}" for failure in self.failures)])


def check_op(
    op: Any,
    samples: Iterable[Any],
    *,
    reference: Callable[..., Any] | None = None,
    devices: Iterable[str] | None = None,
    strides: bool = True,
    pytorch: bool | None = None,
) -> OpReport:
    """Hold an op's schema, meta kernel and kernels against each other and against ``reference``; return an `OpReport`.

    Each sample is a tuple of positional arguments (with a dict of keyword arguments as its last item, if there are
    any), a dict of keyword arguments, or a `Sample`; its tensors hold data. ``reference`` computes the right result,
    fresh, from copies of the same arguments, and writes to those that the op writes to: a plain function, or one of
    PyTorch's, which is then given PyTorch's tensors (``pytorch=True`` says that a function of your own wants those).
    ``devices`` are the device types to run on: unless said, all that are available and know how to compute the op.

    Found are: results whose number, shape, dtype, device or strides on the meta device differ from the reference's (of
    NumPy arrays, strides count where all arguments are contiguous, and are either its own or contiguous;
    ``strides=False`` leaves them out); arguments that
    are written to although the schema does not mark them, marked although nothing writes to them, or changed otherwise
    than the reference changes them; results that share memory with an argument although the schema does not say so, or
    the other way round, or otherwise than PyTorch's do; and values of any device that differ, also where the arguments lie
    in another order in memory, where the call is made a second time, and where memory held something else before. Options
    of the first samples that are numbers, words or switches are given other values too, where a plain ``reference`` takes them.
    Without a reference the
    first device's values are what the others are held to.

    Raises AssertionError, naming sample, device and difference, unless all is well.
    """
    report = OpReport(op.name, devices=_available() if devices is None else list(devices))
    if reference is not None and pytorch is None:
        pytorch = is_pytorch(reference)
    check = _Check(op, reference, bool(pytorch), report.devices, devices is not None, strides)
    for sample in samples:
        report.samples += 1
        args, kwargs = _arguments(sample)
        title = f"({_show(args, kwargs)})"
        report.failures += [f"{title}: {problem}" for problem in check.sample(args, kwargs)]
        report.failures += [f"({_show(more, named)}): {problem}" for more, named in check.varied(args, kwargs)
                            for problem in check.sample(more, named, derived=True)]  # fmt: skip
    report.failures += check.never_written()
    if report.failures:
        raise AssertionError(str(report))
    return report


class _Check:
    """The checks of one op, sample by sample."""

    def __init__(self, op: Any, reference: Any, pytorch: bool, devices: list[str], all_of_them: bool, strides: bool) -> None:
        self.op, self.reference, self.pytorch, self.strides = op, reference, pytorch, strides
        self.devices, self.all_of_them = devices, all_of_them
        self.samples = 0
        # Arguments that a schema marks as written: whether any sample saw that.
        self.written: dict[str, bool] = {}

    def varied(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
        """The same call with each number, word or switch that has a default given another value, where there is a reference."""
        if self.reference is None or self.pytorch or self.samples > VARIED:
            return
        schema = _schema(self.op, args, kwargs)
        positional = {argument.name for argument in schema.arguments[: len(args)]}
        for argument in schema.arguments:
            kind = argument.type.rstrip("?")
            if argument.required or argument.name in NOT_VARIED | positional or kind not in ("bool", "int", "float", "Scalar", "str"):
                continue
            current = kwargs.get(argument.name, argument.default)
            for value in itertools.islice(optional_values(argument, Sample({argument.name: current})), 3):
                yield args, kwargs | {argument.name: value}

    def sample(self, args: tuple[Any, ...], kwargs: dict[str, Any], derived: bool = False) -> list[str]:
        """The problems of one sample. One that is derived counts where meta and the reference take it."""
        self.samples += not derived
        schema = _schema(self.op, args, kwargs)
        expected: Run | Reference | None = None
        problems: list[str] = []
        if self.reference is not None:
            try:
                expected = Reference(self.reference, self.pytorch, schema, args, kwargs)
            except Exception as error:
                if derived:
                    return []
                return [f"the reference raises {type(error).__name__}: {error}"]
            problems += expected.mutation()
            self._note(expected)
        meta, found = self._run("meta", schema, args, kwargs)
        if derived and meta is None:
            return []
        problems += found
        if meta is not None and expected is not None:
            problems += [f"on meta, {text}" for text in metadata(meta, expected, "the reference", self.strides)]
        for device in list(self.devices):
            run, found = self._run(device, schema, args, kwargs)
            problems += found
            if run is None:
                continue
            against = (meta, "meta") if meta is not None else (expected, "the reference")
            if against[0] is not None:
                strides = self.strides or meta is not None
                problems += [f"on {device}, {text}" for text in metadata(run, against[0], against[1], strides)]
            if expected is None:
                expected = run
                self._note(run)
            else:
                problems += [f"on {device}, {text}" for text in value_differences(run, expected)]
            if not found:
                problems += self._again(device, schema, args, kwargs, run)
        return problems

    def _again(self, device: str, schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any], first: Run) -> list[str]:
        """Problems of the same call once more, and on arguments that lie in another order in memory."""
        second, found = self._run(device, schema, args, kwargs)
        problems = [f"a second time {text}" for text in found]
        if second is not None:
            problems += [f"on {device}, a second call gives other values: {text}" for text in repeated(second, first)]
        args, kwargs = tuple(map(strided, args)), {name: strided(value) for name, value in kwargs.items()}
        meta, _ = self._run("meta", schema, args, kwargs)
        third, found = self._run(device, schema, args, kwargs)
        problems += [f"of arguments that are not contiguous, {text}" for text in found]
        if third is not None:
            where = f"on {device}, of arguments that are not contiguous,"
            problems += [f"{where} {text}" for text in value_differences(third, first)]
            problems += [f"{where} {text}" for text in (metadata(third, meta, "meta", True) if meta is not None else ())]
        return problems

    def _run(self, device: str, schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Run | None, list[str]]:
        """The call on one device, if there was an outcome, and what is wrong by that alone.

        A device without a kernel leaves the list, unless it was asked for.
        """
        from metatensor import DataDependentError

        try:
            run = Run(self.op, schema, args, kwargs, device)
        except Exception as error:
            if device == "meta" and isinstance(error, DataDependentError) and (self.op.flags & operator_flags.DATA or error.declared):
                return None, []  # the result depends on the data: there is nothing to see on meta
            lacks = isinstance(error, NotImplementedError) and not isinstance(error, DataDependentError)
            if lacks and device != "meta" and not self.all_of_them:
                self.devices.remove(device)
                return None, []
            return None, [f"on {device}, {type(error).__name__}: {error}"]
        return run, [f"on {device}, {text}" for text in (*run.placement(), *run.aliasing(), *run.mutation())]

    def _note(self, run: Run | Reference) -> None:
        for name, changed in run.marked():
            self.written[name] = self.written.get(name, False) or changed

    def never_written(self) -> list[str]:
        """Arguments that are marked as written and are not, in any sample."""
        who = "the reference" if self.reference is not None else "the op"
        return [f"the schema marks argument {name} as written, but {who} leaves it as it is in every sample: {self.op.schemas[0]}"
                for name, changed in self.written.items() if not changed]  # fmt: skip


def _available() -> list[str]:
    from metatensor import plugins

    return [row.name for row in plugins.report() if row.group == "devices" and row.state == "available" and row.name != "meta"]


def _arguments(sample: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(sample, Sample):
        return (), sample.on("cpu")
    if isinstance(sample, dict):
        return (), dict(sample)
    sample = tuple(sample) if isinstance(sample, (tuple, list)) else (sample,)
    if sample and isinstance(sample[-1], dict):
        return sample[:-1], sample[-1]
    return sample, {}


def _schema(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The first schema with places for these arguments."""
    for text in op.schemas:
        schema = parse(text)
        names = [argument.name for argument in schema.arguments]
        given = {*names[: len(args)], *kwargs}
        if len(args) <= len(names) and given <= set(names) and all(a.name in given for a in schema.arguments if a.required):
            return schema
    return parse(op.schemas[0])


def _show(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    def text(value: Any) -> str:
        if isinstance(value, Tensor):
            return f"{value.dtype.name}{list(value.shape)}"
        return f"[{', '.join(map(text, value))}]" if isinstance(value, (tuple, list)) else repr(value)

    return ", ".join([*map(text, args), *(f"{name}={text(value)}" for name, value in kwargs.items())])
