"""Checks of one operator: that its schema tells the truth, and its meta kernel and every device agree with a reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from metatensor._core.device import backend_for
from metatensor._core.placing import tensor_from_storage
from metatensor._core.schema import parse
from metatensor._core.storage import make_storage
from metatensor._core.tensor import Tensor
from metatensor.testing.samples import Sample
from metatensor.testing.values import difference, to_values

__all__ = ["OpReport", "check_op"]


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
) -> OpReport:
    """Hold an op's schema, meta kernel and kernels against each other and against ``reference``; return an `OpReport`.

    Each sample is a tuple of positional arguments (with a dict of keyword arguments as its last item, if there are
    any), a dict of keyword arguments, or a `Sample`; its tensors hold data. ``reference`` computes the right result,
    fresh, from the same arguments: a plain function, or one of PyTorch's, which is then given PyTorch's tensors.
    ``devices`` are the device types to run on: unless said, all that are available and know how to compute the op.

    Found are: shapes, strides and dtypes on the meta device that differ from the reference's; arguments that change
    although the schema does not mark them, or otherwise than the reference changes them; results that share memory with
    an argument although the schema does not say so, or the other way round; and values of any device that differ.
    Without a reference the first device's values are what the others are held to.

    Raises AssertionError, naming sample, device and difference, unless all is well.
    """
    report = OpReport(op.name, devices=_available() if devices is None else list(devices))
    for sample in samples:
        report.samples += 1
        args, kwargs = _arguments(sample)
        title = f"({_show(args, kwargs)})"
        try:
            problems = list(_check(op, args, kwargs, reference, report.devices, devices is not None))
        except Exception as error:
            problems = [f"{type(error).__name__}: {error}"]
        report.failures += [f"{title}: {problem}" for problem in problems]
    if report.failures:
        raise AssertionError(str(report))
    return report


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


def _check(
    op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], reference: Any, devices: list[str], all_of_them: bool
) -> Iterable[str]:
    """The problems of one sample. Devices without a kernel leave the list, unless ``all_of_them`` are asked for."""
    schema = _schema(op, args, kwargs)
    expected: _Run | _Reference | None = None if reference is None else _Reference(reference, schema, args, kwargs)
    meta = _on_meta(op, schema, args, kwargs)
    if meta is not None:
        yield from (f"on meta, {problem}" for problem in meta.aliasing())
        if expected is not None:
            yield from (f"on meta, {problem}" for problem in _metadata(meta.results, expected.results, "the reference"))
    for device in list(devices):
        try:
            run = _Run(op, schema, args, kwargs, device)
        except NotImplementedError:
            if all_of_them:
                raise
            devices.remove(device)
            continue
        yield from (f"on {device}, {problem}" for problem in (*run.aliasing(), *run.mutation()))
        if meta is not None:
            yield from (f"on {device}, {problem}" for problem in _metadata(run.results, meta.results, "meta"))
        elif expected is not None:
            yield from (f"on {device}, {problem}" for problem in _metadata(run.results, expected.results, "the reference"))
        if expected is None:
            expected = run
            continue
        yield from (f"on {device}, {problem}" for problem in _values(run, expected))


def _on_meta(op: Any, schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Run | None:
    """The call on meta; None where the result depends on the data."""
    from metatensor import DataDependentError

    try:
        return _Run(op, schema, args, kwargs, "meta")
    except DataDependentError:
        return None


def _schema(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The first schema with places for these arguments."""
    for text in op.schemas:
        schema = parse(text)
        names = [argument.name for argument in schema.arguments]
        given = {*names[: len(args)], *kwargs}
        if len(args) <= len(names) and given <= set(names) and all(a.name in given for a in schema.arguments if a.required):
            return schema
    return parse(op.schemas[0])


class _Run:
    """A call of the op on one device: named arguments before and after, and the results as a flat list."""

    def __init__(self, op: Any, schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any], device: str) -> None:
        names = [argument.name for argument in schema.arguments]
        self.schema = schema
        self.arguments = dict(zip(names, (_move(value, device) for value in args), strict=False))
        self.arguments |= {name: _move(value, device) for name, value in kwargs.items()}
        self.before = {} if device == "meta" else _snapshot(self.arguments)
        moved = list(self.arguments.values())
        result = op(*moved[: len(args)], **{name: self.arguments[name] for name in kwargs})
        self.results = list(result) if isinstance(result, (tuple, list)) else [] if result is None else [result]

    @property
    def mutated(self) -> set[str]:
        return {argument.name for argument in self.schema.arguments if argument.mutated}

    def after(self) -> dict[str, np.ndarray]:
        return _snapshot(self.arguments)

    def mutation(self) -> Iterable[str]:
        """Arguments that changed although nothing says that they do."""
        after = self.after()
        for name, values in self.before.items():
            if name.partition("[")[0] not in self.mutated and values.tobytes() != after[name].tobytes():
                yield f"argument {name} changes, but the schema does not mark it as written: {self.schema.text}"

    def aliasing(self) -> Iterable[str]:
        """Results that share memory otherwise than the schema says."""
        storages = {name: value.untyped_storage() for name, value in _tensors(self.arguments)}
        aliased = {argument.name for argument in self.schema.arguments if argument.aliased}
        says = any("(" in kind for kind, _ in self.schema.returns)
        for number, result in enumerate(self.results):
            if not isinstance(result, Tensor):
                continue
            shared = [name for name, storage in storages.items() if storage is result.untyped_storage()]
            if shared and not {name.partition("[")[0] for name in shared} & aliased:
                yield f"result {number} shares memory with argument {shared[0]}, but the schema does not say so: {self.schema.text}"
            elif says and not shared and len(self.schema.returns) == 1:
                yield f"result {number} shares no memory with an argument, but the schema says so: {self.schema.text}"


class _Reference:
    """What the reference makes of copies of the arguments, in the form of a run."""

    def __init__(self, function: Callable[..., Any], schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        convert = _to_torch if str(getattr(function, "__module__", "")).partition(".")[0] == "torch" or _is_torch(function) else _copy
        copies = [convert(value) for value in args]
        named = {name: convert(value) for name, value in kwargs.items()}
        result = function(*copies, **named)
        names = [argument.name for argument in schema.arguments]
        self.arguments = dict(zip(names, copies, strict=False)) | named
        self.results = list(result) if isinstance(result, (tuple, list)) else [] if result is None else [result]

    def after(self) -> dict[str, np.ndarray]:
        return {name: _array(value) for name, value in self.arguments.items() if _is_array(value)}


def _metadata(got: list[Any], expected: list[Any], whose: str) -> Iterable[str]:
    if len(got) != len(expected):
        yield f"{len(got)} results, but {len(expected)} by {whose}"
        return
    for number, (a, b) in enumerate(zip(got, expected, strict=True)):
        if not isinstance(a, Tensor) or not _is_array(b):
            continue
        if tuple(a.shape) != tuple(b.shape):
            yield f"result {number} has shape {tuple(a.shape)}, but {tuple(b.shape)} by {whose}"
        elif a.dtype.name != str(b.dtype).rpartition(".")[2]:
            yield f"result {number} has dtype {a.dtype.name}, but {str(b.dtype).rpartition('.')[2]} by {whose}"
        elif (strides := _strides(b)) is not None and _used(a.shape, a.stride()) != _used(a.shape, strides):
            yield f"result {number} has strides {tuple(a.stride())}, but {tuple(strides)} by {whose}"


def _values(run: _Run, expected: _Run | _Reference) -> Iterable[str]:
    """Differences of values: results, and arguments that are written."""
    for number, (a, b) in enumerate(zip(run.results, expected.results, strict=False)):
        if isinstance(a, Tensor) and _is_array(b):
            problem = difference(to_values(a), _array(b), a.dtype.name)
        else:
            problem = "" if a == b or a is b else f"{a!r} instead of {b!r}"
        if problem:
            yield f"result {number}: {problem}"
    changed = expected.after()
    for name, values in run.after().items():
        if name in changed:
            problem = difference(values, changed[name], values.dtype.name)
            if problem:
                yield f"argument {name} after the call: {problem}"


# Tensors of either kind -------------------------------------------------------------------


def _tensors(arguments: dict[str, Any]) -> Iterable[tuple[str, Tensor]]:
    for name, value in arguments.items():
        if isinstance(value, Tensor):
            yield name, value
        elif isinstance(value, (tuple, list)):
            yield from ((f"{name}[{i}]", item) for i, item in enumerate(value) if isinstance(item, Tensor))


def _snapshot(arguments: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: to_values(value).copy() for name, value in _tensors(arguments)}


def _move(value: Any, device: str) -> Any:
    """A tensor argument on ``device``, in memory of its own, with the strides that it had."""
    if isinstance(value, (tuple, list)) and any(isinstance(item, Tensor) for item in value):
        return type(value)(_move(item, device) for item in value)
    if not isinstance(value, Tensor):
        return value
    reach = sum((extent - 1) * step for extent, step in zip(value.shape, value.stride(), strict=True)) + 1
    nbytes = reach * value.itemsize if value.numel() else 0
    data = None if device == "meta" else backend_for(device).allocate(nbytes, 0)
    moved = tensor_from_storage(make_storage(device, nbytes, data), value.dtype, value.shape, value.stride(), 0)
    if device != "meta":
        backend_for(device).from_host(moved, bytes(backend_for(value.device).to_host(value)))
    return moved


def _copy(value: Any) -> Any:
    return _move(value, value.device.type) if isinstance(value, Tensor) else (
        type(value)(_copy(item) for item in value) if isinstance(value, (tuple, list)) else value
    )


def _is_torch(function: Any) -> bool:
    """Whether a built-in function is PyTorch's: most of those have no module."""
    return type(function).__module__.partition(".")[0] == "torch" or "torch" in repr(getattr(function, "__self__", ""))[:40]


def _to_torch(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(_to_torch(item) for item in value)
    if isinstance(value, Tensor):
        import torch

        return torch.from_dlpack(_copy(value))
    if type(value).__module__.startswith("metatensor."):
        import torch

        return getattr(torch, str(value).rpartition(".")[2])
    return value


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _array(value: Any) -> np.ndarray:
    if isinstance(value, Tensor):
        return to_values(value).copy()
    if type(value).__module__.partition(".")[0] == "torch":
        from metatensor._dlpack import from_dlpack

        return to_values(from_dlpack(value.detach().resolve_conj().resolve_neg()))
    return np.asarray(value)


def _strides(value: Any) -> tuple[int, ...] | None:
    """Strides in elements of a tensor; None for NumPy arrays, whose order is their library's affair."""
    return tuple(value.stride()) if callable(getattr(value, "stride", None)) else None


def _used(shape: Any, strides: Any) -> tuple[int, ...]:
    """Strides that mean something: not those of dimensions of size 1, and none of an empty tensor."""
    return tuple(step for extent, step in zip(shape, strides, strict=True) if extent != 1) if 0 not in shape else ()


def _show(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    def text(value: Any) -> str:
        if isinstance(value, Tensor):
            return f"{value.dtype.name}{list(value.shape)}"
        return f"[{', '.join(map(text, value))}]" if isinstance(value, (tuple, list)) else repr(value)

    return ", ".join([*map(text, args), *(f"{name}={text(value)}" for name, value in kwargs.items())])
