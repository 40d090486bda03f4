"""Sample calls. Their tensors are only descriptions, so one sample can run on every device."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from metatensor.testing.values import empty, encode, place

__all__ = ["Sample", "Spec"]

# Roles of tensors that are not numerical data. `Sample.with_values` does not change their values.
_FIXED = {"fives": [5, 4], "twos": [3, 2], "descending": [2, 2, 1], "pivots": [2, 3, 3], "offsets": [0, 2, 3], "group_ends": [3, 8],
          "short": [1, 4], "all_offsets": [0, 2, 6]}
_STRUCTURAL = {"index", "labels", "classes", "ordered", *_FIXED}


# The values of a role are repeated if a tensor has more elements.
_SPECIAL = [0.5, np.nan, np.inf, -0.0, -np.inf, 1.0, 0.0, -1.5, np.nan, 2.0, -np.inf, 0.25, 3.0, np.inf, -3.0]
_ZEROS = [-0.0, 1.5, -0.0, -2.0, -0.0]


class Spec(NamedTuple):
    """Description of a tensor argument. Shape, dtype, seed and role determine its values.

    Roles of numerical data:

    * "values": all different if the dtype allows, so that sorting is unique, and exact in half precision;
    * "fine": values that half precision has to round; "positive"; "unit", between 0 and 1; "wide", from -40 to 40;
    * "ties": few distinct values; "close": distinct only in double precision;
    * "special": NaN, infinities and both zeros; "nans" and "infinite": one such value among others; "zeros": negative
      zeros;
    * "extreme": the limits of an integer dtype, huge and tiny floats; "large": integers that float32 cannot represent;
    * "sorted": ascending along the last dimension; "definite": symmetric positive definite matrices.

    All other roles are structural, and `Sample.with_values` does not change them: "index" (0 and 1), "labels" (1
    and -1), "classes" (0 to 4), "ordered" (0, 1, 2, ... in each image), and those of `_FIXED`: lengths, pivots and so
    on.
    """

    shape: tuple[int, ...]
    dtype: str
    seed: int = 0
    role: str = "values"

    def array(self) -> np.ndarray:
        """Return the values as an array."""
        size = int(np.prod(self.shape))
        rng = np.random.default_rng([size, self.seed])
        if self.role in _FIXED:
            values = np.resize(_FIXED[self.role], size)
        else:
            make = getattr(self, "_" + self.role, self._values)
            values = np.asarray(make(size, rng))
        if self.dtype.startswith("uint") and values.dtype.kind in "if" and self.role not in ("extreme", "large"):
            values = np.abs(values)
        if self.role == "sorted":
            values = np.sort(values, axis=-1) if values.ndim else values
        if self.dtype.startswith("complex") and values.dtype.kind != "c":
            real = values
            values = np.empty(values.shape, np.complex128)
            values.real, values.imag = real, real.reshape(-1)[::-1].reshape(real.shape)
        if self.dtype == "bool" and values.dtype.kind != "b":
            values = values > 0 if self.role in ("values", "wide") else values != 0
        return values.reshape(self.shape)

    def _values(self, size: int, rng: Any) -> Any:
        if self.dtype == "bool":
            return rng.integers(0, 2, size).astype(bool)
        values = rng.permutation(size) - size // 3
        return values if self.dtype.startswith(("int", "uint")) else values / 8

    def _index(self, size: int, rng: Any) -> Any:
        return rng.integers(0, 2, size)

    def _labels(self, size: int, rng: Any) -> Any:
        return np.resize([1, -1], size)

    def _ties(self, size: int, rng: Any) -> Any:
        return rng.integers(-1, 2, size)

    def _special(self, size: int, rng: Any) -> Any:
        return np.roll(np.resize(_SPECIAL, size), self.seed * 4) if self._is_floating() else rng.integers(-1, 3, size)

    def _nans(self, size: int, rng: Any) -> Any:
        return self._with_one(np.nan, size, rng)

    def _infinite(self, size: int, rng: Any) -> Any:
        return self._with_one(np.inf if self.seed % 2 == 0 else -np.inf, size, rng)

    def _with_one(self, value: float, size: int, rng: Any) -> Any:
        values = self._fine(size, rng)
        if self._is_floating() and size:
            values[size // 3] = value
        return values

    def _close(self, size: int, rng: Any) -> Any:
        return 1 + rng.permutation(size) * 1e-10 if self._is_floating() else self._values(size, rng)

    def _zeros(self, size: int, rng: Any) -> Any:
        return np.roll(np.resize(_ZEROS, size), self.seed) if self._is_floating() else rng.integers(-1, 2, size)

    def _wide(self, size: int, rng: Any) -> Any:
        values = rng.uniform(-40, 40, size)
        return values if self._is_floating() else values.astype(np.int64)

    def _unit(self, size: int, rng: Any) -> Any:
        return rng.uniform(0.05, 0.95, size) if self._is_floating() else rng.integers(1, 4, size)

    def _fine(self, size: int, rng: Any) -> Any:
        return rng.uniform(0.5, 4, size) * rng.choice([1, 1, -1], size) if self._is_floating() else rng.integers(1, 100, size)

    def _positive(self, size: int, rng: Any) -> Any:
        return np.abs(self._fine(size, rng))

    def _extreme(self, size: int, rng: Any) -> Any:
        if self._is_floating():
            return np.resize([3e38, 1e-40, -3e38, 1.0, -1e-40] if "64" in self.dtype or self.dtype == "float32" else
                             [6e4, 1e-7, -6e4, 1.0, -1e-7], size)  # fmt: skip
        if self.dtype == "bool":
            return rng.integers(0, 2, size).astype(bool)
        ends = np.iinfo(self.dtype)
        return np.resize(np.array([ends.max, ends.min, 1, ends.max - 1, ends.max // 2, 2, ends.min + 1], self.dtype), size)

    def _large(self, size: int, rng: Any) -> Any:
        if self._is_floating() or self.dtype == "bool":
            return self._values(size, rng)
        ends = np.iinfo(self.dtype)
        return (ends.max // 3 - rng.permutation(size) * 2).astype(self.dtype)

    def _definite(self, size: int, rng: Any) -> Any:
        if len(self.shape) < 2 or self.shape[-1] != self.shape[-2]:
            return self._fine(size, rng)
        a = rng.standard_normal(self.shape)
        if self.dtype.startswith("complex"):
            a = a + 1j * rng.standard_normal(self.shape)
        return a @ a.conj().swapaxes(-1, -2) + np.eye(self.shape[-1])

    def _sorted(self, size: int, rng: Any) -> Any:
        return np.asarray(self._values(size, rng)).reshape(self.shape)

    def _classes(self, size: int, rng: Any) -> Any:
        return np.resize([3, 1, 2, 0, 1, 3, 4, 1], size) if self.shape[-1:] != (3,) else np.resize([1, 3, 2, 2, 1, 1], size)

    def _ordered(self, size: int, rng: Any) -> Any:
        return np.resize(np.arange(size // max(1, int(np.prod(self.shape[:-1]) if len(self.shape) < 3 else np.prod(self.shape[:2])))), size)

    def _is_floating(self) -> bool:
        return not self.dtype.startswith(("int", "uint", "bool"))

    def tensor(self, device: str, strided: bool = False) -> Any:
        """Return the tensor on a device. With ``strided``, its strides are transposed and have gaps."""
        if self.role == "descending" and device != "meta":
            device = "cpu"  # batch sizes are always on the cpu
        if device == "meta":
            return empty(device, self.shape, self.dtype)
        return place(device, self.shape, self.dtype, _encoded(self), strided=strided)


@lru_cache(maxsize=4096)
def _encoded(spec: Spec) -> bytes:
    """Return the values as bytes of the spec's dtype."""
    return encode(spec.array(), spec.dtype)


class Sample(NamedTuple):
    """The arguments of one call by name. A `Spec` describes each tensor."""

    arguments: dict[str, Any]
    factory: bool = False
    """Whether the call needs a ``device`` argument to place its result."""
    variant: str = ""
    """One of "" (a plain call), "_" (in place), "out" (with ``out=``), "alias" (``out=`` is the first argument)."""
    positional: tuple[str, ...] = ()
    """Names of the leading arguments that are passed by position, in order."""

    def on(self, device: str, strided: bool = False) -> dict[str, Any]:
        """Return the arguments with Specs replaced by tensors on ``device``."""
        placed = {name: _place(value, device, strided) for name, value in self.arguments.items()}
        return placed | {"device": device} if self.factory else placed

    def change(self, **arguments: Any) -> Sample:
        """Return the call with some arguments changed or added."""
        return self._replace(arguments=self.arguments | arguments)

    def map(self, function: Any) -> Sample:
        """Return the call with each Spec replaced by ``function(name, spec)``."""
        return self._replace(arguments={name: _map(value, name, function) for name, value in self.arguments.items()})

    def with_values(self, dtype: str | None = None, role: str | None = None) -> Sample:
        """Return the call with another dtype or role for the tensors that hold numerical data."""

        def change(name: str, spec: Spec) -> Spec:
            if spec.role in _STRUCTURAL or spec.dtype == "bool":
                return spec
            return spec._replace(dtype=dtype or spec.dtype, role=spec.role if role is None or spec.role == "sorted" else role)

        return self.map(change)

    def specs(self) -> list[tuple[str, Spec]]:
        """Return pairs of argument name and Spec for all tensors."""
        found: list[tuple[str, Spec]] = []

        def note(name: str, spec: Spec) -> Spec:
            found.append((name, spec))
            return spec

        self.map(note)
        return found

    def __str__(self) -> str:
        shown = ", ".join(f"{name}={_show(value)}" for name, value in self.arguments.items())
        return shown + {"_": "; in place", "out": "; with out=", "alias": "; with the first argument as out="}.get(self.variant, "")


def _map(value: Any, name: str, function: Any) -> Any:
    if isinstance(value, Spec):
        return function(name, value)
    if isinstance(value, list):
        return [_map(item, name, function) for item in value]
    return value


def _place(value: Any, device: str, strided: bool) -> Any:
    if isinstance(value, Spec):
        return value.tensor(device, strided)
    if isinstance(value, list):
        return [_place(item, device, strided) for item in value]
    return value


def _show(value: Any) -> str:
    if isinstance(value, Spec):
        return f"{value.dtype}{list(value.shape)}" + ("" if value.role in ("values", "index") else f" {value.role}")
    return f"[{', '.join(map(_show, value))}]" if isinstance(value, list) else repr(value)
