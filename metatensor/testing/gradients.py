"""Compare gradients of an operator with finite differences, with those of other devices, and with those on meta."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from metatensor._core.device import backend_for
from metatensor._core.nested import map_tensors
from metatensor._core.tensor import Tensor
from metatensor.testing.operator_runs import move
from metatensor.testing.values import TOLERANCES, difference, from_values, to_values

__all__ = ["gradient_problems"]

ELEMENTS = 32  # largest number of elements of each argument that are varied
WIDE = {"float16": "float64", "bfloat16": "float64", "float32": "float64", "complex32": "complex128", "complex64": "complex128"}


def gradient_problems(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], devices: list[str], second: bool = True) -> list[str]:
    """Return the problems of the gradients of one call. If `second`, also check the second derivatives."""
    import metatensor as mt

    problems: list[str] = []
    first: _Derivatives | None = None
    for device in devices:
        made = None
        for wide in (True, False):
            try:
                made = _Derivatives(op, args, kwargs, device, wide)
                break
            except _Absent as error:
                return [str(error)] if str(error) else []
            except Exception as error:
                if not wide:
                    problems.append(f"on {device}, gradients: {type(error).__name__}: {error}")
        if made is None:
            continue
        try:
            problems += [f"on {device}, {text}" for text in made.problems()]
            if second and not problems:
                problems += [f"on {device}, the gradient of {text}" for text in made.second()]
        except Exception as error:
            problems.append(f"on {device}, gradients: {type(error).__name__}: {error}")
        if first is None:
            first = made
        elif made.dtypes == first.dtypes:
            problems += [f"on {device}, {text}" for text in made.differences(first)]
    if first is not None:
        try:
            problems += [f"on meta, {text}" for text in first.on_meta()]
        except mt.DataDependentError as error:
            if not error.declared:
                problems.append(f"on meta, gradients: {type(error).__name__}: {error}")
        except Exception as error:
            problems.append(f"on meta, gradients: {type(error).__name__}: {error}")
    return problems


class _Absent(Exception):
    """Raised if the call has nothing to differentiate."""


class _Derivatives:
    """The gradients of one call on one device."""

    def __init__(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], device: str, wide: bool) -> None:
        self.op, self.device = op, device
        self.leaves: list[Tensor] = []
        self.arguments = map_tensors(lambda t: self._leaf(t, wide), (tuple(move(a, device) for a in args),
                                                                    {name: move(v, device) for name, v in kwargs.items()}))  # fmt: skip
        self.dtypes = [t.dtype.name for t in self.leaves]
        if not self.leaves:
            raise _Absent()
        self.outputs = self._outputs(self.leaves)
        self.differentiable = [i for i, t in enumerate(self.outputs) if t.requires_grad]
        if not self.differentiable:
            raise _Absent()
        rng = np.random.default_rng(7)
        self.weights = {i: self._weight(self.outputs[i], rng) for i in self.differentiable}
        self.gradients = self._gradients(self.outputs)

    def _leaf(self, t: Tensor, wide: bool) -> Any:
        if not (t.dtype.is_floating_point or t.dtype.is_complex):
            return t
        values = to_values(t)
        leaf = from_values(self.device, values, WIDE.get(t.dtype.name, t.dtype.name) if wide else t.dtype.name)
        self.leaves.append(leaf.requires_grad_())
        return leaf

    def _weight(self, output: Tensor, rng: Any) -> Any:
        values = rng.uniform(0.5, 1.5, tuple(output.shape)) * rng.choice([-1, 1], tuple(output.shape))
        if output.dtype.is_complex:
            values = values + 1j * rng.uniform(0.5, 1.5, tuple(output.shape))
        return from_values(self.device, values, output.dtype.name)

    def _outputs(self, leaves: list[Tensor]) -> list[Tensor]:
        """Call the operator with these tensors in place of the leaves. Return the results that are tensors."""
        swap = {id(old): new for old, new in zip(self.leaves, leaves, strict=True)}
        args, kwargs = map_tensors(lambda t: swap.get(id(t), t), self.arguments)
        result = self.op(*args, **kwargs)
        results = result if isinstance(result, (tuple, list)) else (result,)
        return [t for t in results if isinstance(t, Tensor)]

    def _gradients(self, outputs: list[Tensor], which: list[int] | None = None, **how: Any) -> list[Any]:
        import metatensor as mt

        which = self.differentiable if which is None else which
        return list(mt.autograd.grad([outputs[i] for i in which], self.leaves, [self.weights[i] for i in which],
                                     allow_unused=True, **how))  # fmt: skip

    def _values(self, leaves: list[Tensor], which: list[int]) -> float:
        """Return the weighted sum of the outputs. `_gradients` returns the derivatives of this number."""
        import metatensor as mt

        with mt.no_grad():
            outputs = self._outputs(leaves)
            backend_for(outputs[0].device).synchronize(0)
        with np.errstate(all="ignore"):
            return sum(float((np.conj(to_values(self.weights[i])) * to_values(outputs[i])).sum().real) for i in which)

    def problems(self) -> Iterator[str]:
        before = [to_values(t.detach()).copy() for t in self.leaves]
        outputs = self._outputs(self.leaves)
        kept = {i: to_values(w).copy() for i, w in self.weights.items()}
        again = self._gradients(outputs, retain_graph=True)
        for i, (a, b) in enumerate(zip(self._gradients(outputs), again, strict=True)):
            if (a is None) != (b is None) or (a is not None and difference(to_values(a), to_values(b), a.dtype.name)):
                yield f"a second backward through one graph gives another gradient {i}"
        for i, (t, values) in enumerate(zip(self.leaves, before, strict=True)):
            if to_values(t.detach()).tobytes() != values.tobytes():
                yield f"backward changes tensor {i} of the call"
        for i, values in kept.items():
            if to_values(self.weights[i]).tobytes() != values.tobytes():
                yield f"backward changes the gradient of result {i} in place, which others may share"
                return
        yield from self._numeric(self.gradients, self.differentiable)
        if len(self.differentiable) > 1:  # also check with a gradient for one output and none for the others
            for k in self.differentiable:
                for text in self._numeric(self._gradients(self._outputs(self.leaves), [k]), [k]):
                    yield f"with a gradient of result {k} alone, {text}"
                    break

    def _numeric(self, gradients: list[Any], which: list[int]) -> Iterator[str]:
        if self._values(self.leaves, which) != self._values(self.leaves, which):
            return  # the values are random or NaN
        for i, gradient in enumerate(gradients):
            values = to_values(self.leaves[i].detach())
            found = np.zeros(values.shape, values.dtype) if gradient is None else to_values(gradient)
            for place in self._places(values):
                text = self._element(i, values, place, found[place], which)
                if text:
                    yield f"the gradient of tensor {i} is wrong at {place}: {text}"
                    break

    def _places(self, values: np.ndarray) -> list[tuple[int, ...]]:
        places = list(np.ndindex(values.shape))
        if len(places) > ELEMENTS:
            picked = np.random.default_rng(3).choice(len(places), ELEMENTS, replace=False)
            places = [places[k] for k in sorted(picked)]
        return places

    def _element(self, i: int, values: np.ndarray, place: tuple[int, ...], found: Any, which: list[int]) -> str:
        """Compare one element of a gradient with one-sided differences. At a kink, any value between the two is accepted."""
        double = self.dtypes[i] in ("float64", "complex128")
        if not np.isfinite(values[place]):
            return ""
        step = (1e-6 if double else 1e-2) * max(1.0, abs(values[place]))
        tolerance = 1e-4 if double else 3e-2
        middle = self._values(self.leaves, which)
        for part, direction in ((np.real(found), 1), (np.imag(found), 1j))[: 2 if values.dtype.kind == "c" else 1]:
            sides = []
            for sign in (1, -1):
                changed = values.copy()
                changed[place] += sign * step * direction
                moved = list(self.leaves)
                moved[i] = from_values(self.device, changed, self.dtypes[i])
                sides.append(sign * (self._values(moved, which) - middle) / step)
            if not np.isfinite(sides).all():
                continue
            slack = tolerance * max(1.0, abs(sides[0]), abs(sides[1])) + (1e-15 if double else 1e-6) * abs(middle) / step
            if not min(sides) - slack <= part <= max(sides) + slack:
                return f"{part:.6g} instead of {sum(sides) / 2:.6g}"
        return ""

    def second(self) -> Iterator[str]:
        """Yield problems of the second derivatives, if the rule can be differentiated."""
        import metatensor as mt

        try:
            made = self._gradients(self._outputs(self.leaves), create_graph=True)
        except NotImplementedError:
            return
        present = [i for i, g in enumerate(made) if g is not None]
        inner = self

        def gradients(*leaves: Any) -> tuple:
            with mt.enable_grad():
                leaves = tuple(t if t.requires_grad else t.detach().requires_grad_() for t in leaves)
                outputs = inner._outputs(list(leaves))
                found = mt.autograd.grad([outputs[i] for i in inner.differentiable], leaves,
                                         [inner.weights[i] for i in inner.differentiable], allow_unused=True, create_graph=True)
            return tuple(found[i] for i in present)

        try:
            deeper = _Derivatives(gradients, tuple(t.detach() for t in self.leaves), {}, self.device, False)
        except _Absent:  # no gradient requires grad, so all gradients must be constant
            deeper = _Constant(gradients, tuple(t.detach() for t in self.leaves), self.device)
        except (NotImplementedError, RuntimeError) as error:
            if isinstance(error, NotImplementedError) or "differentiated" in str(error):
                return
            raise
        yield from deeper._numeric(deeper.gradients, deeper.differentiable)

    def differences(self, other: _Derivatives) -> Iterator[str]:
        """Yield differences from the gradients on another device."""
        for i, (a, b) in enumerate(zip(self.gradients, other.gradients, strict=True)):
            if (a is None) != (b is None):
                yield f"gradient {i} is {'absent' if a is None else 'there'}, unlike on {other.device}"
            elif a is not None:
                text = difference(to_values(a), to_values(b), a.dtype.name if a.dtype.name in TOLERANCES else "float32")
                if text:
                    yield f"gradient {i}: {text} on {other.device}"

    def on_meta(self) -> Iterator[str]:
        """Yield differences between the metadata of the gradients on meta and on this device."""
        import metatensor as mt

        swap = [t.detach().to("meta").requires_grad_() for t in self.leaves]
        rest = {id(old): new for old, new in zip(self.leaves, swap, strict=True)}
        args, kwargs = map_tensors(lambda t: rest.get(id(t), None) if id(t) in rest else move(t, "meta"), self.arguments)
        result = self.op(*args, **kwargs)
        outputs = [t for t in (result if isinstance(result, (tuple, list)) else (result,)) if isinstance(t, Tensor)]
        found = mt.autograd.grad([outputs[i] for i in self.differentiable], swap,
                                 [self.weights[i].to("meta") for i in self.differentiable], allow_unused=True)  # fmt: skip
        for i, (a, b) in enumerate(zip(found, self.gradients, strict=True)):
            if (a is None) != (b is None):
                yield f"gradient {i} is {'absent' if a is None else 'there'}, unlike on {self.device}"
            elif a is not None and (tuple(a.shape), a.dtype.name) != (tuple(b.shape), b.dtype.name):
                yield f"gradient {i} is {a.dtype.name}{list(a.shape)}, but {b.dtype.name}{list(b.shape)} on {self.device}"
            elif a is not None and a.numel() > 1 and tuple(a.stride()) != tuple(b.stride()):
                yield f"gradient {i} has strides {tuple(a.stride())}, but {tuple(b.stride())} on {self.device}"


class _Constant(_Derivatives):
    """Gradients that do not require grad, so their own derivatives count as zero."""

    def __init__(self, op: Any, leaves: tuple[Any, ...], device: str) -> None:
        self.op, self.device = op, device
        self.leaves = [t.clone().requires_grad_() for t in leaves]
        self.arguments = (tuple(self.leaves), {})
        self.dtypes = [t.dtype.name for t in self.leaves]
        self.outputs = self._outputs(self.leaves)
        self.differentiable = list(range(len(self.outputs)))
        rng = np.random.default_rng(7)
        self.weights = {i: self._weight(t, rng) for i, t in enumerate(self.outputs)}
        self.gradients = [None] * len(self.leaves)
