"""Check an operator: its schema, its meta kernel, and its values on every device."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from metatensor._core.op import operator_flags
from metatensor._core.schema import parse
from metatensor._core.tensor import Tensor
from metatensor.testing.candidates import NOT_VARIED, optional_values
from metatensor.testing.gradients import gradient_problems
from metatensor.testing.operator_runs import Reference, Run, is_pytorch, metadata, repeated, strided, value_differences
from metatensor.testing.samples import Sample

__all__ = ["OpReport", "check_op"]

VARIED = 3  # number of samples whose options are varied


@dataclass
class OpReport:
    """The result of `check_op`. ``str()`` gives a readable summary."""

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
    gradients: bool | None = None,
) -> OpReport:
    """Compare the schema, the meta kernel and the kernels of an operator with each other and with a reference.

    The following are errors:

    * Results that differ from the reference in number, shape, dtype or device, or in strides.
    * Arguments that the operator writes to although the schema does not mark them, or that are marked but never change.
    * Arguments that have other values after the call than after a call of the reference.
    * Results that share memory with an argument although the schema does not say so, or vice versa. If PyTorch
      is the reference, the same results and arguments must share memory as in PyTorch.
    * Values that differ on any device. Each call is repeated, run on arguments with another memory layout, and run with
      new memory filled with ones, so that values that are never written are noticed.

    Gradients are compared with finite differences on each device (at most 32 elements of each argument are varied),
    between devices, and in shape, dtype and strides with those on meta. If the rule can be differentiated, second
    derivatives are compared with finite differences as well. Backward must not change the arguments or the gradients
    that it receives. Where a result has a kink, a gradient may have any value between the derivatives of both sides.

    With a plain function as the reference, the options of the first samples that are numbers, strings or bools are also
    tried with other values. Without a reference, all devices are compared with the first one.

    Parameters
    ----------
    op : operator
        The operator to check.
    samples : iterable
        The calls to make. Each is a tuple of positional arguments, whose last item may be a dict of keyword arguments;
        a dict of keyword arguments; or a `Sample`. Tensors must hold data.
    reference : callable, optional
        Computes the right result in new memory from copies of the same arguments. It writes to the arguments that the
        operator writes to. It is a plain function or one of PyTorch's functions.
    devices : iterable of str, optional
        Device types to run on. Default: all available ones that can compute the operator.
    strides : bool
        Whether to compare strides with the reference. Strides of NumPy arrays are compared only if all arguments are
        contiguous. The result must then have either the array's own strides or contiguous ones.
    pytorch : bool, optional
        Whether ``reference`` takes PyTorch's tensors. Default: true for PyTorch's own functions.
    gradients : bool, optional
        Whether to check gradients. Default: if a gradient of the custom operator is declared. With True, an operator
        without a gradient is an error.

    Returns
    -------
    OpReport

    Raises
    ------
    AssertionError
        If there is any difference. The message names the sample, the device and the difference.

    Examples
    --------
    >>> import metatensor as mt
    >>> import numpy as np
    >>> def reference(x):
    ...     return np.log2(x.numpy())
    >>> sample = (mt.ones(2, 3, device="cpu"),)
    >>> report = mt.testing.check_op(mt.log2, [sample], reference=reference, devices=["cpu"])
    >>> report.ok
    True
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
        if gradients is not False:
            report.failures += [f"{title}: {problem}" for problem in check.gradients(args, kwargs, bool(gradients))]
    report.failures += check.never_written()
    if report.failures:
        raise AssertionError(str(report))
    return report


class _Check:
    """Runs the checks of one operator, sample by sample."""

    def __init__(self, op: Any, reference: Any, pytorch: bool, devices: list[str], all_of_them: bool, strides: bool) -> None:
        self.op, self.reference, self.pytorch, self.strides = op, reference, pytorch, strides
        self.devices, self.all_of_them = devices, all_of_them
        self.samples = 0
        # Maps arguments that the schema marks as written to whether any sample changed them.
        self.written: dict[str, bool] = {}

    def varied(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
        """Yield calls with other values of optional numbers, strings and bools if the reference is a plain function."""
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
        """Return the problems of one sample. A derived sample is ignored unless meta and the reference accept it."""
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

    def gradients(self, args: tuple[Any, ...], kwargs: dict[str, Any], required: bool) -> list[str]:
        """Return the problems found in the gradients of one sample."""
        from metatensor.library.gradients import has_gradient

        declared = any(has_gradient(overload.qualname) for overload in self.op.functional.overloads)
        if any(argument.mutated for argument in _schema(self.op, args, kwargs).arguments):
            return []
        if not declared and required and not self.op.functional.overloads[0].is_composite:
            return ["no gradient is declared"]
        if not required and not (declared and "::" in self.op.name):
            return []
        return gradient_problems(self.op, args, kwargs, self.devices)

    def _again(self, device: str, schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any], first: Run) -> list[str]:
        """Return the problems of repeating the call and of running it on arguments with another memory layout."""
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
        """Return the run on one device, or None if it failed, and the problems that this run alone shows.

        A device without a kernel is removed from the list of devices, unless the caller named the devices.
        """
        from metatensor import DataDependentError

        try:
            run = Run(self.op, schema, args, kwargs, device)
        except Exception as error:
            if device == "meta" and isinstance(error, DataDependentError) and (self.op.flags & operator_flags.DATA or error.declared):
                return None, []  # the result depends on the data, so there is no result on meta
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
        """Return messages about arguments that are marked as written but that no sample changed."""
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
    """Return the first schema that accepts these arguments."""
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
