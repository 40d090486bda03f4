"""Comparison of a device's kernels with the reference device, on equal values in different memory layouts."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from metatensor._core.device import backend_for
from metatensor._core.op import operator_flags, registry
from metatensor._core.tensor import Tensor
from metatensor.devices.base import DeviceBackend
from metatensor.rules.flops import FLOPS
from metatensor.testing.samples import Sample, Spec
from metatensor.testing.search import find_samples
from metatensor.testing.values import TOLERANCES, difference, from_values, to_values

if TYPE_CHECKING:
    from metatensor.testing.device import DeviceReport

__all__ = ["call_sample", "cases", "samples_of"]

FLOATS = ("float64", "bfloat16", "float16")
DTYPES = (*FLOATS, "int64", "int32", "uint8", "bool", "complex64")
SHOWN = 3
HALVES = ("bfloat16", "float16")
# Operators that only move values.
MOVES = frozenset("cat stack flip roll repeat gather index_select clone _index where take diag_embed".split())
# Operators for which IEEE 754 defines the sign of a zero result.
SIGNED = frozenset("copysign atan2 neg sqrt sin tan tanh asin atan sinh asinh trunc ceil floor expm1 log1p erf".split())
# Operators that return uninitialized memory.
UNINITIALISED = ("empty", "new_empty")
# Errors that a kernel must not raise: the meta kernel has accepted the arguments, so only their values may be wrong.
NOT_OF_VALUES = (TypeError, AttributeError, KeyError, NameError, AssertionError)


@functools.cache
def samples_of(op: Any, overload: Any, dtypes: tuple[str, ...], reference: str) -> list[Sample]:
    """Return sample calls of an operator."""
    return find_samples(op, overload, dtypes, reference)


def overloads() -> Iterator[tuple[Any, Any]]:
    """Yield every operator, without its variants and aliases, with each of its overloads."""
    seen = set()
    for op in list(registry.values()):
        if op.functional is op and op not in seen:
            seen.add(op)
            for overload in op.overloads:
                yield op, overload


def cases(
    backend: DeviceBackend, reference: str, report: DeviceReport, only: set[str] | None = None
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the qualified name and the check of every operator with a kernel on the device and with samples.

    Operators without samples and operators without a kernel are added to the report.
    """
    for op, overload in overloads():
        if overload.is_view or overload.is_composite:
            continue
        name = overload.qualname
        if only is not None and name not in only:
            continue
        if not overload.text.rpartition("->")[2].count("Tensor"):
            continue  # skip operators that return no tensor: they read metadata or call to_host, so they have no kernel
        if backend.kernel(name) is None:
            report.missing.append(name)
        elif name.startswith(UNINITIALISED):
            report.not_sampled.append(name)
        else:
            # Private operators rely on the public ones that call them to reject unsupported dtypes.
            private = name.rpartition(".")[2].startswith("_")
            samples = samples_of(op, overload, FLOATS if private else DTYPES, reference)
            if samples:
                yield name, functools.partial(_compare, op, samples, backend.type, reference)
            else:
                report.not_sampled.append(name)


def _compare(op: Any, samples: list[Sample], device: str, reference: str) -> None:
    problems, refused = [], []
    for sample in samples:
        expected = _call(op, sample, reference, strided=False)
        got = _call(op, sample, device, strided=True)
        if isinstance(got, NotImplementedError):
            refused.append(got)
            if not _computable(sample, expected, device):
                continue
        if isinstance(expected, RuntimeError) and str(expected).endswith(f"not supported on {reference}"):
            continue  # only the reference rejects the call, as PyTorch's cpu does for FFTs in half precision
        problem = _problem(got, expected, device, op.functional.name in FLOPS) or _rounding(op, sample, got, expected)
        if problem:
            problems.append(f"({sample}): {problem}")
            if len(problems) == SHOWN:
                break  # further problems would not be shown
    if len(refused) == len(samples):
        raise refused[0]
    assert not problems, "; ".join(problems)


def _computable(sample: Sample, expected: Any, device: str) -> bool:
    """Return True if the backend declares support for the dtypes of all arguments and results."""
    dtypes = backend_for(device).dtypes
    if dtypes is None:
        return True
    results = expected[0] if isinstance(expected, tuple) else ()
    found = {item.dtype.name for item in (results if isinstance(results, (tuple, list)) else (results,)) if isinstance(item, Tensor)}
    for value in sample.arguments.values():
        found |= {item.dtype for item in (value if isinstance(value, list) else (value,)) if isinstance(item, Spec)}
    return found <= dtypes


def _with_generator(op: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments. If the operator takes a generator, add one with a fixed seed."""
    import metatensor

    if "generator" in {name for overload in op.overloads for name in overload.argument_names}:
        return arguments | {"generator": metatensor.Generator().manual_seed(5)}
    return arguments


def call_sample(op: Any, sample: Sample, arguments: dict[str, Any]) -> Any:
    """Call the operator with the arguments of a sample, placed on a device."""
    return _invoke(op, sample, _with_generator(op, arguments))


def _call(op: Any, sample: Sample, device: str, strided: bool) -> Any:
    """Return the results and the changed arguments, or the exception. Random operators use a fixed seed."""
    arguments = _with_generator(op, sample.on(device, strided))
    if sample.variant == "_":
        op = registry[op.name + "_"]
    before = {name: to_values(value).copy() for name, value in arguments.items() if isinstance(value, Tensor)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if sample.variant == "out":
                result = _with_out(op, sample, arguments, device, strided)
            elif sample.variant == "alias":
                result = _invoke(op, sample, arguments | {"out": next(iter(arguments.values()))})
            else:
                result = _invoke(op, sample, arguments)
    except Exception as error:
        return error
    changed = {name: to_values(arguments[name]) for name in before if _differs(before[name], to_values(arguments[name]))}
    return result, changed


def _invoke(op: Any, sample: Sample, arguments: dict[str, Any]) -> Any:
    """Call the operator. Pass arguments by position if names alone would select another schema."""
    if sample.positional:
        first = [arguments[name] for name in sample.positional]
        return op(*first, **{name: value for name, value in arguments.items() if name not in sample.positional})
    return op(**arguments)


def _with_out(op: Any, sample: Sample, arguments: dict[str, Any], device: str, strided: bool) -> Any:
    """Call the operator with prefilled ``out=`` tensors, which have another memory layout if ``strided``."""
    due = op(**(sample.on("meta") | ({"generator": arguments["generator"]} if "generator" in arguments else {})))
    outs = [from_values(device, np.ones(tuple(item.shape)), item.dtype.name, strided=strided)
            for item in (due if isinstance(due, (tuple, list)) else [due])]  # fmt: skip
    _invoke(op, sample, arguments | {"out": tuple(outs) if isinstance(due, (tuple, list)) else outs[0]})
    return tuple(outs) if isinstance(due, (tuple, list)) else outs[0]


def _differs(a: np.ndarray, b: np.ndarray) -> bool:
    return a.tobytes() != b.tobytes()


def _problem(got: Any, expected: Any, device: str, products: bool) -> str:
    if isinstance(expected, NOT_OF_VALUES):
        return f"the reference fails: {type(expected).__name__}: {expected}"
    if isinstance(expected, Exception):
        if isinstance(got, Exception) or isinstance(expected, NotImplementedError):
            return ""
        if "ZeroDivisionError" in str(expected):
            return ""  # division of integers by zero: an error on the cpu, a value on other devices, as in PyTorch
        return f"no error, but the reference raises {type(expected).__name__}: {expected}"
    if isinstance(got, Exception):
        return f"{type(got).__name__}: {got}"
    if got[1].keys() != expected[1].keys():
        return f"it changes the arguments {sorted(got[1])}, but the reference changes {sorted(expected[1])}"
    for name, values in expected[1].items():
        if difference(got[1][name], values, values.dtype.name):
            return f"argument {name} after the call: {difference(got[1][name], values, values.dtype.name)}"
    return _results_differ(got[0], expected[0], device, products)


def _rounding(op: Any, sample: Sample, got: Any, expected: Any) -> str:
    """Return a message if an element-wise operator truncates half precision or loses the sign of zero, else ""."""
    if isinstance(expected, Exception) or not (op.flags & operator_flags.ELEMENTWISE or op.name in MOVES):
        return ""
    if not isinstance(expected[0], Tensor) or got[0].dtype is not expected[0].dtype:
        return ""
    a, b = _values(got[0]), _values(expected[0])
    if expected[0].dtype.name in HALVES and b.size >= 32:
        wrong = int((a != b).sum() - (np.isnan(a) & np.isnan(b)).sum())
        if wrong > b.size // 4:
            return f"{wrong} of {b.size} values of {expected[0].dtype.name} are rounded to a neighbour of the right one"
    signed = [spec for _, spec in sample.specs() if spec.role == "zeros"]
    if signed and op.name in MOVES | SIGNED and b.dtype.kind == "f":
        zeros = (b == 0) & (a == 0)
        if (np.signbit(a) != np.signbit(b))[zeros].any():
            return "a zero has the wrong sign"
    return ""


def _results_differ(got: Any, expected: Any, device: str, products: bool) -> str:
    if isinstance(expected, (tuple, list)):
        if not isinstance(got, (tuple, list)) or len(got) != len(expected):
            return f"{got!r} instead of {len(expected)} results"
        for number, (a, b) in enumerate(zip(got, expected, strict=True)):
            problem = _results_differ(a, b, device, products)
            if problem:
                return f"result {number}: {problem}"
        return ""
    if not isinstance(expected, Tensor):
        if isinstance(expected, (float, complex)):
            return difference(got, expected, "float32")
        return "" if got == expected else f"{got!r} instead of {expected!r}"
    if not isinstance(got, Tensor):
        return f"{type(got).__name__} instead of a tensor"
    if got.device.type != device:
        return f"the result is on {got.device}"
    # A few results have a device-dependent dtype, which the meta kernel has already checked.
    coarser = max((got.dtype.name, expected.dtype.name), key=lambda name: TOLERANCES.get(name, (0, 0)))
    return difference(_values(got), _values(expected), coarser, products)


def _values(tensor: Tensor) -> np.ndarray:
    backend_for(tensor.device).synchronize(0)
    return to_values(tensor)
