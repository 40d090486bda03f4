"""Declarative optimizers: hyperparameters with ranges, state tensors, and an update formula for one parameter.

`UpdateRule` implements everything else. It checks hyperparameters, creates the state at a parameter's first step,
negates the gradient to maximize, applies weight decay, and updates complex parameters as pairs of real numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, ClassVar, TypeAlias

import metatensor as mt
from metatensor._core.capture import Capture
from metatensor._core.device import backend_for
from metatensor._core.modes import current_modes
from metatensor.optim._many import Many
from metatensor.optim._ranges import NON_NEGATIVE, check_range, check_scalar
from metatensor.optim._third_party import _get_scalar_dtype, has_data
from metatensor.optim.optimizer import Optimizer

__all__ = ["UpdateRule", "average", "average_square", "counter", "filled", "number", "only_with", "zeros"]

Group: TypeAlias = Mapping[str, Any]
Maker: TypeAlias = Callable[[Any, Group], Any]
"""Function that makes a state tensor from a parameter and the hyperparameters of its group, or returns None."""

_UNKNOWN = 0.5
"""Value that replaces a hyperparameter without data.

It only has to be valid in all formulas: their results have no data either.
"""


def number(value: Any, p: Any) -> Any:
    """Return a hyperparameter as a number, for an update of ``p``.

    Raise RuntimeError if it is a tensor without data although ``p`` has data.
    """
    if not isinstance(value, mt.Tensor):
        return value
    if has_data(value):
        return value.item()
    if has_data(p):
        raise RuntimeError(f"a hyperparameter on {value.device} has no data, unlike the parameter of shape {tuple(p.shape)}")
    return _UNKNOWN


def _has_cpu() -> bool:
    """Return True if there is a cpu device whose plugin works."""
    try:
        return bool(backend_for("cpu").is_available())
    except RuntimeError:
        return False


def counter(p: Any, group: Group, start: float = 0.0) -> Any:
    """Make a step counter: on the CPU, or on the device of the parameter if the group is capturable or fused, or there is no cpu device."""
    fused = bool(group.get("fused"))
    device = p.device if group.get("capturable") or fused or not _has_cpu() else "cpu"
    return mt.tensor(start, dtype=_get_scalar_dtype(is_fused=fused), device=device)


def zeros(p: Any, group: Group) -> Any:
    """Make zeros of the shape, dtype, device and memory format of ``p``."""
    return mt.zeros_like(p, memory_format=mt.preserve_format)


def filled(option: str) -> Maker:
    """Return a function that makes tensors like the parameter, filled with a hyperparameter.

    Both parts of complex tensors are filled.
    """

    def make(p: Any, group: Group) -> Any:
        value = number(group[option], p)
        return mt.full_like(p, complex(value, value) if p.is_complex() else value, memory_format=mt.preserve_format)

    return make


def only_with(option: str, make: Maker) -> Maker:
    """Return ``make`` restricted to groups in which ``option`` is not zero, false or None."""
    return lambda p, group: make(p, group) if group[option] else None


def average(mean: Any, value: Any, decay: float) -> Any:
    """Update an exponential moving average in place: ``decay * mean + (1 - decay) * value``."""
    return mean.lerp_(value, 1 - decay)


def average_square(mean: Any, value: Any, decay: float) -> Any:
    """Update an exponential moving average of squares in place: ``decay * mean + (1 - decay) * value**2``."""
    return mean.mul_(decay).addcmul_(value, value, value=1 - decay)


class UpdateRule(Optimizer):
    """Base of optimizers that update each parameter by the same formula.

    A subclass passes on the arguments of its constructor with ``super().__init__(params, vars())``, and defines
    `ranges`, `state_tensors` and `update`. With ``foreach=True`` all parameters are updated together if `listwise` is
    True; the results are the same. ``fused`` has no effect.

    Raises
    ------
    ValueError
        If a hyperparameter is out of range, or hyperparameters exclude each other.
    RuntimeError
        If ``fused`` is combined with ``foreach`` or ``differentiable``.
    """

    ranges: ClassVar[dict[str, str | tuple[str, ...]]] = {}
    """Interval of each hyperparameter. A tuple of numbers has one interval for all elements, or one for each."""

    state_tensors: ClassVar[dict[str, Maker]] = {}
    """Function that makes each state tensor, at the first step of a parameter."""

    decays_weights = True
    """Whether this class applies ``weight_decay``: to the parameter if it is decoupled, else to the gradient."""

    complex_as_real = True
    """Whether a complex parameter is updated as a real tensor with one more dimension, of size 2."""

    listwise = False
    """Whether `update` also works on lists of tensors (`Many`)."""

    sparse = False
    """Whether gradients must be sparse (True) or dense (False)."""

    def __init__(self, params: Any, arguments: Mapping[str, Any]) -> None:
        options = {key: value for key, value in arguments.items() if key not in ("self", "params", "__class__")}
        for name, interval in {"lr": NON_NEGATIVE, "weight_decay": NON_NEGATIVE, **self.ranges}.items():
            check_range(self, name, options.get(name), interval)
        check_scalar(self, "lr", options["lr"])
        if options.get("fused") and (options.get("foreach") or options.get("differentiable")):
            raise RuntimeError(f"{type(self).__name__}: fused excludes foreach and differentiable")
        self.check(SimpleNamespace(**options))
        super().__init__(params, options)

    def check(self, option: SimpleNamespace) -> None:
        """Raise ValueError for hyperparameters that are inconsistent."""

    def update(self, p: Any, grad: Any, state: dict[str, Any], option: SimpleNamespace) -> Any:
        """Update ``p`` in place.

        ``option`` holds the hyperparameters of the group as numbers. ``option.step`` counts steps
        from 1. ``option.many`` is True if ``p``, ``grad`` and the state are lists of tensors (`Many`). The return value is
        kept alive until the next parameter has been updated, so that peak memory is that of PyTorch, which keeps
        temporary tensors as long.
        """
        raise NotImplementedError

    def at_step(self, option: SimpleNamespace) -> None:
        """Add to ``option`` the values that depend only on ``option.step``.

        This is called before `update` if the step differs from that of the previous parameter.
        """

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for key, value in self.defaults.items():
                group.setdefault(key, value)
            for p in group["params"]:
                kept = self.state.get(p, {})
                if not self.sparse and isinstance(kept.get("step"), (int, float)):
                    kept["step"] = counter(p, group, float(kept["step"]))

    def step(self, closure: Any = None) -> Any:
        """Update all parameters that have a gradient.

        Parameters
        ----------
        closure : callable, optional
            Function that recomputes the gradients and returns the loss. It is called first.

        Returns
        -------
        object
            Result of ``closure``, or None.

        Raises
        ------
        RuntimeError
            If a gradient is sparse and the optimizer needs dense ones, or vice versa.
        """
        loss = None
        if closure is not None:
            with mt.enable_grad():
                loss = closure()
        for group in self.param_groups:
            with mt.set_grad_enabled(bool(group.get("differentiable"))):
                self._step_group(group)
        return loss

    def begin(self, p: Any, group: Group) -> dict[str, Any]:
        """Return the state of a parameter before its first step."""
        made = {name: make(p, group) for name, make in self.state_tensors.items()}
        return {name: tensor for name, tensor in made.items() if tensor is not None}

    def _step_group(self, group: Group) -> None:
        """Update the parameters of a group. Create all states, then count the step, then apply the rule."""
        chosen = []
        for p in group["params"]:
            grad = p.grad
            if grad is not None:
                chosen.append((p, grad, self._state(p, grad, group)))
        if not chosen:
            return
        option = SimpleNamespace(**{key: self._value(value, chosen) for key, value in group.items() if key not in ("params", "step")})
        decay = getattr(option, "weight_decay", 0) if self.decays_weights else 0
        decoupled = decay != 0 and getattr(option, "decoupled_weight_decay", False)
        option.shrink, option.decay = (1 - option.lr * decay, 0) if decoupled else (None, decay)
        option.many = bool(self.listwise and group.get("foreach") and not group.get("differentiable"))
        if option.many:
            self._step_together(chosen, option)
            return
        before = None  # temporaries to which PyTorch's loop still refers while it updates the next parameter
        last = None
        maximize = group.get("maximize") and not self.sparse
        for p, grad, state in chosen:
            if "step" in state:
                option.step = self._advance(p, state)
                if option.step != last:
                    last = option.step
                    self.at_step(option)
            if maximize:
                grad = -grad
            if p.is_complex() and self.complex_as_real:
                real = {key: _as_real(value) for key, value in state.items()}
                before = self._apply(_as_real(p), _as_real(grad), real, option)
                state.update({key: mt.view_as_complex(value) for key, value in real.items() if key not in state})
            else:
                before = self._apply(p, grad, state, option)
            if state:
                self.state[p] = state
        del before

    def _step_together(self, chosen: list[tuple[Any, Any, dict[str, Any]]], option: SimpleNamespace) -> None:
        """Update parameters with the same device, dtype and number of steps together."""
        batches: dict[Any, list[tuple[Any, Any, dict[str, Any]]]] = {}
        for p, grad, state in chosen:
            count = self._advance(p, state) if "step" in state else None
            batches.setdefault((p.device, p.dtype, count, *state), []).append((p, grad, state))
        for (_, _, option.step, *names), batch in batches.items():
            if option.step is not None:
                self.at_step(option)
            real = batch[0][0].is_complex() and self.complex_as_real
            view = _as_real if real else _same
            states = {key: Many([view(state[key]) for _, _, state in batch]) for key in names}
            grads = Many([view(grad) for _, grad, _ in batch])
            self._apply(Many([view(p) for p, _, _ in batch]), -grads if getattr(option, "maximize", False) else grads, states, option)
            for key in states.keys() - set(names):
                for (_, _, state), made in zip(batch, states[key].tensors, strict=True):
                    state[key] = mt.view_as_complex(made) if real else made
            for p, _, state in batch:
                if state:
                    self.state[p] = state

    def _advance(self, p: Any, state: dict[str, Any]) -> float:
        """Increment the step counter of a parameter, and return the number of steps.

        The value is read from the counter tensor only if other code has written to it, or if a program is being captured, which must know
        that it depends on this number.
        """
        counts = self.__dict__.setdefault("_counts", {})
        step = state["step"]
        known = counts.get(p)
        if known is not None and known[0] is step and known[1] == step._version and not _captured():
            step += 1
            known[1] += 1
            known[2] += 1
            return known[2]
        state["step"] += 1
        step = state["step"]
        count = _count(step)
        if isinstance(step, mt.Tensor) and has_data(step) and not step.is_inference():
            counts[p] = [step, step._version, count]
        return count

    def _state(self, p: Any, grad: Any, group: Group) -> dict[str, Any]:
        """Return the state of a parameter. Create it if this is the first step."""
        if grad.is_sparse != self.sparse:
            name = type(self).__name__
            need, have = ("a sparse", "a dense") if self.sparse else ("a dense", "a sparse")
            raise RuntimeError(f"{name}: {need} gradient is needed, but the parameter of shape {tuple(p.shape)} has {have} one")
        if group.get("capturable") and p.device.type == "cpu":
            raise AssertionError(f"{type(self).__name__}: capturable needs parameters on an accelerator, got one on cpu")
        return self.state.get(p) or self.begin(p, group)

    @staticmethod
    def _value(value: Any, chosen: list[tuple[Any, Any, dict[str, Any]]]) -> Any:
        """Return a hyperparameter as a number, or a tuple of numbers, for the parameters of a group."""
        if isinstance(value, tuple):
            return tuple(UpdateRule._value(item, chosen) for item in value)
        if not isinstance(value, mt.Tensor):
            return value
        # `number` rejects a hyperparameter without data if the parameters have data.
        return value.item() if has_data(value) else [number(value, p) for p, _, _ in chosen][0]

    def _apply(self, p: Any, grad: Any, state: dict[str, Any], option: SimpleNamespace) -> Any:
        if option.shrink is not None:
            p.mul_(option.shrink)
        elif option.decay != 0:
            grad = grad.add(p, alpha=option.decay)
        return self.update(p, grad, state, option)


def _same(value: Any) -> Any:
    return value


def _captured() -> bool:
    """Return True if the calls of this thread are captured as a program."""
    return any(isinstance(mode, Capture) for mode in current_modes())


def _count(step: Any) -> float:
    """Return the value of a step counter, 1.0 if it has no data."""
    if isinstance(step, mt.Tensor):
        return float(step.item()) if has_data(step) else 1.0
    return float(step)


def _as_real(value: Any) -> Any:
    """Return a real view of a complex tensor, and anything else unchanged."""
    return mt.view_as_real(value) if isinstance(value, mt.Tensor) and value.is_complex() else value
