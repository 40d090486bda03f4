"""Comparison of gradients on a device with those on the reference device."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from metatensor._core.device import backend_for
from metatensor._core.errors import NotDifferentiableError
from metatensor._core.tensor import Tensor
from metatensor.devices.base import DeviceBackend
from metatensor.testing.device_kernels import DTYPES, FLOATS, SHOWN, UNINITIALISED, call_sample, overloads, samples_of
from metatensor.testing.samples import Sample, Spec
from metatensor.testing.values import difference, from_values, to_values

if TYPE_CHECKING:
    from metatensor.testing.device import DeviceReport

__all__ = ["gradient_cases"]

SAMPLES = 4  # largest number of samples per operator and dtype
# Roles of tensors whose values stay away from kinks of functions, so that rounding cannot move them across one.
SMOOTH = ("values", "fine", "positive", "unit", "definite", "sorted", "descending", "index", "labels", "classes", "ordered", "fives",
          "twos", "pivots", "offsets", "group_ends", "short", "all_offsets")  # fmt: skip
# The gradients of these operators divide by differences of singular values, some of which are 0 except for rounding.
ILL_CONDITIONED = {"pca_lowrank", "svd_lowrank"}


def gradient_cases(
    backend: DeviceBackend, reference: str, report: DeviceReport, only: set[str] | None = None
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the qualified name and the check of every operator that has samples with gradients on the reference device.

    Operators of other packages are checked only if `only` names them: their gradients may need one device.
    """
    for op, overload in overloads():
        name = overload.qualname
        if only is None and "::" in name:
            continue
        if (only is not None and name not in only) or overload.is_host or name.startswith(UNINITIALISED) or name in ILL_CONDITIONED:
            continue
        if "Tensor" not in overload.text.partition("->")[0] or "Tensor" not in overload.text.rpartition("->")[2]:
            continue
        yield name, partial(_compare, op, overload, backend, reference, report)


def _chosen(op: Any, overload: Any, backend: DeviceBackend, reference: str) -> list[Sample]:
    """Return a few samples with real and complex numbers, in dtypes that the device supports."""
    private = overload.qualname.rpartition(".")[2].startswith("_")
    found: dict[str, list[Sample]] = {}
    for sample in samples_of(op, overload, FLOATS if private else DTYPES, reference):
        specs = [spec for _, spec in sample.specs()]
        dtypes = sorted({spec.dtype for spec in specs if spec.dtype.startswith(("float", "complex"))})
        if sample.variant or not dtypes or not set(dtypes) <= {"float32", "float64", "complex64"}:
            continue
        if not all(_has(backend, spec.dtype) for spec in specs):
            continue
        if all(spec.role in SMOOTH for spec in specs):
            found.setdefault(" ".join(dtypes), []).append(sample.map(partial(_double, backend)))
    return [sample for several in found.values() for sample in several[:: max(1, len(several) // SAMPLES)][:SAMPLES]]


def _double(backend: DeviceBackend, name: str, spec: Spec) -> Spec:
    """Return `spec` with complex numbers in double precision if the device supports it.

    Gradients of functions that consist of many operators are rounded often.
    """
    return spec._replace(dtype="complex128") if spec.dtype == "complex64" and _has(backend, "complex128") else spec


def _has(backend: DeviceBackend, dtype: str) -> bool:
    return backend.dtypes is None or dtype in backend.dtypes


def _compare(op: Any, overload: Any, backend: DeviceBackend, reference: str, report: DeviceReport) -> None:
    problems, missing, compared = [], [], False
    by_layout = overload.is_view or overload.qualname.startswith(("as_strided", "view"))  # strides are part of the call
    for sample in _chosen(op, overload, backend, reference):
        expected = _gradients(op, sample, reference, strided=False)
        if isinstance(expected, Exception) or expected is None:
            continue  # the call has no gradient on the reference
        got = _gradients(op, sample, backend.type, strided=not by_layout)
        if isinstance(got, NotImplementedError):
            missing.append(got)
            continue
        compared = True
        text = _problem(got, expected)
        if text:
            problems.append(f"({sample}): {text}")
            if len(problems) == SHOWN:
                break
    assert not problems, "; ".join(problems)
    if compared:
        report.gradients.append(overload.qualname)
    elif missing:
        report.without_gradient.append(overload.qualname)


def constant_arguments(op: Any, sample: Sample, device: str, strided: bool = False) -> set[str]:
    """Return the names of the tensor arguments for which an operator has no gradient, such as the weights of a loss."""
    found: set[str] = set()
    for name, _ in sample.specs():
        arguments = sample.on(device, strided)
        for t in arguments[name] if isinstance(arguments[name], list) else [arguments[name]]:
            if isinstance(t, Tensor) and (t.is_floating_point() or t.is_complex()):
                t.requires_grad_()
        try:
            call_sample(op, sample, arguments)
        except NotDifferentiableError:
            found.add(name)
    return found


def _gradients(op: Any, sample: Sample, device: str, strided: bool, constant: Collection[str] = ()) -> Any:
    """Return the gradients of a call's tensors by name, None if no result requires grad, or the exception raised."""
    import metatensor as mt

    arguments = sample.on(device, strided)
    leaves: dict[str, Tensor] = {}
    for name, value in arguments.items():
        for i, t in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(t, Tensor) and name not in constant and (t.is_floating_point() or t.is_complex()):
                leaves[f"{name}[{i}]" if isinstance(value, list) else name] = t.requires_grad_()
    state = mt.get_rng_state()
    mt.manual_seed(5)  # some operators, such as svd_lowrank, draw random numbers
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = call_sample(op, sample, arguments)
            outputs = [t for t in (result if isinstance(result, (tuple, list)) else (result,)) if isinstance(t, Tensor) and t.requires_grad]
            if not outputs or not leaves:
                return None
            weights = [_weight(t, device) for t in outputs]
            found = mt.autograd.grad(outputs, list(leaves.values()), weights, allow_unused=True)
            backend_for(device).synchronize(0)
            return {name: None if g is None else (to_values(g), g.dtype.name) for name, g in zip(leaves, found, strict=True)}
    except NotDifferentiableError as error:
        constant = () if constant else constant_arguments(op, sample, device, strided)
        return _gradients(op, sample, device, strided, constant) if constant else error
    except Exception as error:
        return error
    finally:
        mt.set_rng_state(state)


def _weight(t: Tensor, device: str) -> Any:
    values = 1 + 0.25 * (np.arange(t.numel()).reshape(tuple(t.shape)) % 5)
    return from_values(device, values * (1 + 0.5j) if t.is_complex() else values, t.dtype.name)


def _problem(got: Any, expected: dict[str, Any]) -> str:
    if isinstance(got, Exception):
        return f"{type(got).__name__}: {got}"
    if got is None:
        return "the result does not require grad"
    for name, due in expected.items():
        if (got[name] is None) != (due is None):
            return f"the gradient of {name} is {'absent' if got[name] is None else 'not absent'}"
        if due is None:
            continue
        if got[name][1] != due[1]:
            return f"the gradient of {name} is {got[name][1]} instead of {due[1]}"
        finite = np.abs(due[0][np.isfinite(due[0])])
        scale = max(1, finite.max()) if finite.size else 1
        with np.errstate(all="ignore"):
            text = difference(got[name][0] / scale, due[0] / scale, due[1])
        if text:
            return f"the gradient of {name}: {text}"
    return ""

