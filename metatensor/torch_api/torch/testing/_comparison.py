"""`assert_close`, which compares values with tolerances that depend on the dtype."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import metatensor as mt

__all__ = ["assert_close", "default_tolerances"]

_PRECISIONS = {
    mt.float16: (1e-3, 1e-5), mt.bfloat16: (1.6e-2, 1e-5), mt.float32: (1.3e-6, 1e-5), mt.float64: (1e-7, 1e-7),
    mt.complex32: (1e-3, 1e-5), mt.complex64: (1.3e-6, 1e-5), mt.complex128: (1e-7, 1e-7),
}  # fmt: skip
_TYPES = {bool: mt.bool, int: mt.int64, float: mt.float64, complex: mt.complex128}


def default_tolerances(*inputs: Any) -> tuple[float, float]:
    """Return the default relative and absolute tolerance for tensors or dtypes: the maximum over all of them."""
    kinds = [one.dtype if isinstance(one, mt.Tensor) else one for one in inputs]
    rtols, atols = zip(*(_PRECISIONS.get(kind, (0.0, 0.0)) for kind in kinds))
    return max(rtols), max(atols)


class _Comparison:
    """The options of one call of `assert_close`, with the methods that compare."""

    def __init__(
        self, rtol: float | None, atol: float | None, equal_nan: bool, checks: dict[str, bool],
        msg: str | Callable[[str], str] | None, allow_subclasses: bool,
    ) -> None:  # fmt: skip
        if (rtol is None) != (atol is None):
            raise ValueError(f"assert_close: give both tolerances or neither, got rtol={rtol} and atol={atol}")
        self.rtol, self.atol, self.equal_nan, self.checks, self.msg = rtol, atol, equal_nan, checks, msg
        self.allow_subclasses = allow_subclasses

    def fail(self, text: str, at: str) -> None:
        text = f"{text}\n\nat item {at}" if at else text
        message = self.msg(text) if callable(self.msg) else self.msg or text
        raise AssertionError(message)

    def compare(self, actual: Any, expected: Any, at: str = "") -> None:
        """Compare two values, recursively for containers. `at` is their position in the outermost ones."""
        if not self.allow_subclasses and type(actual) is not type(expected):
            raise TypeError(f"assert_close: {type(actual)} and {type(expected)} are different types, and allow_subclasses is False")
        if isinstance(actual, mt.Tensor) and isinstance(expected, mt.Tensor):
            self.tensors(actual, expected, at)
        elif actual is None or expected is None:
            if actual is not expected:
                self.fail(f"None is not {expected if actual is None else actual!r}", at)
        elif isinstance(actual, numbers.Number) and isinstance(expected, numbers.Number):
            self.numbers(actual, expected, at)
        elif _is_array(actual) and _is_array(expected):
            self.tensors(mt.as_tensor(actual), mt.as_tensor(expected), at)
        elif _is_sequence(actual) and _is_sequence(expected):
            if len(actual) != len(expected):
                self.fail(f"the sequences have {len(actual)} and {len(expected)} elements", at)
            for index, pair in enumerate(zip(actual, expected)):
                self.compare(*pair, f"{at}[{index}]")
        elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
            if actual.keys() != expected.keys():
                missing, more = expected.keys() - actual.keys(), actual.keys() - expected.keys()
                self.fail(f"the mappings have different keys: missing {sorted(map(str, missing))}, "
                          f"unexpected {sorted(map(str, more))}", at)  # fmt: skip
            for key in expected:
                self.compare(actual[key], expected[key], f"{at}[{key!r}]")
        else:
            raise TypeError(f"assert_close: cannot compare {type(actual)} with {type(expected)}")

    def tolerances(self, *kinds: Any) -> tuple[float, float]:
        return default_tolerances(*kinds) if self.rtol is None or self.atol is None else (self.rtol, self.atol)

    def numbers(self, actual: Any, expected: Any, at: str) -> None:
        if self.checks["dtype"] and type(actual) is not type(expected):
            self.fail(f"the types differ: {type(actual)} and {type(expected)}", at)
        rtol, atol = self.tolerances(*(_TYPES.get(type(one), mt.float64) for one in (actual, expected)))
        if actual == expected or (self.equal_nan and actual != actual and expected != expected):
            return
        difference = abs(actual - expected)
        if not difference <= atol + rtol * abs(expected) or difference == float("inf"):
            self.fail(f"expected {expected}, got {actual}: they differ by {difference}, allowed are {atol} plus {rtol} times "
                      f"the expected value", at)  # fmt: skip

    def tensors(self, actual: Any, expected: Any, at: str) -> None:
        for name, of in (("shape", lambda t: tuple(t.shape)), ("dtype", lambda t: t.dtype), ("device", lambda t: t.device),
                         ("layout", lambda t: t.layout), ("stride", lambda t: t.stride())):  # fmt: skip
            if self.checks.get(name, True) and of(actual) != of(expected):
                self.fail(f"the tensors differ in {name}: {of(actual)} and {of(expected)}", at)
        if actual.is_meta or expected.is_meta:
            return
        rtol, atol = self.tolerances(actual, expected)
        a, b = actual.detach(), expected.detach().to(actual.device)
        if a.dtype != b.dtype:
            common = mt.promote_types(a.dtype, b.dtype)
            a, b = a.to(common), b.to(common)
        matches = mt.isclose(a, b, rtol=rtol, atol=atol, equal_nan=self.equal_nan)
        wrong = int((~matches).sum())
        if wrong:
            self.fail(_report(a, b, matches, wrong, rtol, atol), at)


def _report(a: Any, b: Any, matches: Any, wrong: int, rtol: float, atol: float) -> str:
    """Return a message with the number of differing elements and the largest differences."""
    wide = mt.complex128 if a.dtype.is_complex else mt.float64 if a.dtype.is_floating_point else mt.int64
    difference = (a.to(wide) - b.to(wide)).abs()
    difference = mt.where(matches, mt.zeros_like(difference), difference)
    relative = difference / b.to(wide).abs()
    relative = mt.where(matches, mt.zeros_like(relative), relative)
    lines = [f"{wrong} of {a.numel()} elements differ from the expected value"]
    for name, values, allowed in (("absolute", difference, atol), ("relative", relative, rtol)):
        place = int(values.flatten().argmax())
        index = []
        for size in reversed(a.shape):
            place, here = divmod(place, size)
            index.append(here)
        index.reverse()
        lines.append(f"largest {name} difference: {values[tuple(index)].item() if index else values.item()} at {tuple(index)}, "
                     f"allowed is {allowed}")  # fmt: skip
    return "\n".join(lines)


def _is_array(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "numpy" and hasattr(value, "__array_interface__")


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def assert_close(
    actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol: float | None = None, atol: float | None = None,
    equal_nan: bool = False, check_device: bool = True, check_dtype: bool = True, check_layout: bool = True,
    check_stride: bool = False, msg: str | Callable[[str], str] | None = None,
) -> None:  # fmt: skip
    """Raise AssertionError unless ``abs(actual - expected) <= atol + rtol * abs(expected)`` for all elements.

    Parameters
    ----------
    actual, expected : tensor, number, NumPy array, or sequence or mapping of these
        On meta, only metadata are compared.
    allow_subclasses : bool
        If False, both must have the same type. Default: True.
    rtol, atol : float, optional
        Relative and absolute tolerance. Give both or neither. Default: depending on the dtype.
    equal_nan : bool
        Whether NaN equals NaN. Default: False.
    check_device, check_dtype, check_layout, check_stride : bool
        Whether these properties must be equal too. Default: all except the stride.
    msg : str or callable, optional
        The error message, or a function that makes it from the default message.

    Raises
    ------
    AssertionError
        If the values differ by more than the tolerances, or a checked property differs.
    TypeError
        If the types cannot be compared.
    ValueError
        If only one of the tolerances is given.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.torch_api.torch.testing import assert_close
    >>> assert_close(mt.tensor([1.0, 2.0], device="cpu"), mt.tensor([1.0, 2.000001], device="cpu"))
    """
    __tracebackhide__ = True
    checks = {"device": check_device, "dtype": check_dtype, "layout": check_layout, "stride": check_stride}
    _Comparison(rtol, atol, equal_nan, checks, msg, allow_subclasses).compare(actual, expected)
