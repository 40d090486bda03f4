"""Cyclic schedules."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from metatensor.optim._ranges import check_range
from metatensor.optim._schedule import LRScheduler, attributes_of, per_group, restore_attributes, update_group

__all__ = ["CosineAnnealingWarmRestarts", "CyclicLR", "OneCycleLR"]


def _check_count(name: str, value: Any) -> int:
    """Return ``value``. Raise ValueError unless it is a positive int."""
    if not isinstance(value, int) or value <= 0:
        raise ValueError(f"{name} must be a positive int, got {value}")
    return value


class _MomentumCycle(LRScheduler):
    """Base of schedules that move the momentum in the direction opposite to the rate.

    The momentum is the optimizer's ``momentum``, or the first of its ``betas``.
    """

    cycle_momentum: bool
    use_beta1: bool

    def _start_momentum(self, low: Any, high: Any, new: bool) -> tuple[list[Any], list[Any]]:
        """Return the bounds of the momentum of each group. If ``new``, store them and start at the upper bound."""
        name, defaults = type(self).__name__, self.optimizer.defaults
        if not {"momentum", "betas"} & defaults.keys():
            raise ValueError(f"{name}: cycle_momentum needs an optimizer that has momentum or betas")
        self.use_beta1 = "betas" in defaults
        lows = per_group(f"{name}: base_momentum", self.optimizer, low)
        highs = per_group(f"{name}: max_momentum", self.optimizer, high)
        if new:
            for group, least, most in zip(self.optimizer.param_groups, lows, highs, strict=True):
                group["base_momentum"], group["max_momentum"] = least, most
            self._set_momenta(highs)
        return lows, highs

    def _set_momenta(self, momenta: list[Any]) -> None:
        for group, momentum in zip(self.optimizer.param_groups, momenta, strict=True):
            if self.use_beta1:
                group["betas"] = (momentum, *group["betas"][1:])
            else:
                group["momentum"] = momentum


_HEIGHTS: dict[str, Callable[[Any, float], float]] = {
    "triangular": lambda schedule, cycle: 1.0,
    "triangular2": lambda schedule, cycle: 0.5 ** (cycle - 1),
    "exp_range": lambda schedule, iteration: schedule.gamma**iteration,
}
"""Height of a cycle for each mode of `CyclicLR`."""


class CyclicLR(_MomentumCycle):
    """Move the rate up and down between two bounds (Smith, 2015).

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose rates are set.
    base_lr, max_lr : float or list of float
        Bounds of the rate, for all parameter groups or one per group.
    step_size_up : int
        Steps from the lower to the upper bound. Default 2000.
    step_size_down : int, optional
        Steps back to the lower bound. Default ``step_size_up``.
    mode : str
        "triangular" (the default): all cycles have the same height. "triangular2": each cycle has half the height of
        the one before. "exp_range": the height at iteration t is ``gamma**t``.
    gamma : float
        Base for "exp_range". Default 1.
    scale_fn : callable, optional
        Function that returns the height, used instead of ``mode``.
    scale_mode : str
        Argument of ``scale_fn``: "cycle" (the default) for the number of the cycle, from 1, or "iterations".
    cycle_momentum : bool
        Move the momentum too, in the opposite direction. Default True.
    base_momentum, max_momentum : float or list of float
        Bounds of the momentum. Defaults 0.8 and 0.9.
    last_epoch : int
        Step to resume at. Default -1 for a new schedule.

    Raises
    ------
    ValueError
        If ``mode`` is unknown, or ``cycle_momentum`` is set and the optimizer has neither ``momentum`` nor ``betas``.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.optim import SGD, lr_scheduler
    >>> optimizer = SGD([mt.nn.Parameter(mt.zeros(1))], lr=0.8, momentum=0.9)
    >>> schedule = lr_scheduler.CyclicLR(optimizer, 0.1, 0.5, step_size_up=2)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.1, 0.3, 0.5, 0.3, 0.1]
    """

    def __init__(
        self, optimizer: Any, base_lr: Any, max_lr: Any, step_size_up: int = 2000, step_size_down: int | None = None,
        mode: str = "triangular", gamma: float = 1.0, scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle", cycle_momentum: bool = True, base_momentum: Any = 0.8, max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if scale_fn is None and mode not in _HEIGHTS:
            raise ValueError(f"CyclicLR: mode must be one of {', '.join(_HEIGHTS)}, got {mode!r}")
        self.optimizer = self._checked(optimizer)
        new = last_epoch == -1
        lows = per_group("CyclicLR: base_lr", optimizer, base_lr)
        self.max_lrs = per_group("CyclicLR: max_lr", optimizer, max_lr)
        self.total_size = float(step_size_up) + float(step_size_up if step_size_down is None else step_size_down)
        self.step_ratio = step_size_up / self.total_size
        self.mode, self.gamma, self._scale_fn_custom = mode, gamma, scale_fn
        self.scale_mode = "iterations" if scale_fn is None and mode == "exp_range" else scale_mode if scale_fn else "cycle"
        self.cycle_momentum = cycle_momentum
        if new:
            for group, low in zip(optimizer.param_groups, lows, strict=True):
                update_group(group, "lr", low)
        if cycle_momentum:
            self.base_momentums, self.max_momentums = self._start_momentum(base_momentum, max_momentum, new)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lows

    def scale_fn(self, x: float) -> float:
        """Return the height for cycle or iteration ``x``."""
        return self._scale_fn_custom(x) if self._scale_fn_custom else _HEIGHTS[self.mode](self, x)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        passed, position = divmod(self.last_epoch / self.total_size, 1.0)
        up = self.step_ratio
        height = position / up if position <= up else (1 - position) / (1 - up)
        height *= self.scale_fn(passed + 1 if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            bounds = zip(self.base_momentums, self.max_momentums, strict=True)
            self._set_momenta([high - height * (high - low) for low, high in bounds])
        return [low + height * (high - low) for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "_scale_fn_custom": attributes_of(self._scale_fn_custom)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        restore_attributes(self._scale_fn_custom, state_dict.get("_scale_fn_custom"))
        super().load_state_dict({**state_dict, "_scale_fn_custom": self._scale_fn_custom})


class CosineAnnealingWarmRestarts(LRScheduler):
    """Decrease the rate to ``eta_min`` along half a cosine, then restart at the initial rate.

    The formula is that of SGDR (Loshchilov and Hutter, 2016).

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose rates are set.
    T_0 : int
        Epochs until the first restart.
    T_mult : int
        Factor by which each period is longer than the one before. Default 1.
    eta_min : float
        Minimal rate. Default 0.
    last_epoch : int
        Epoch to resume at. Default -1 for a new schedule.

    Raises
    ------
    ValueError
        If ``T_0`` or ``T_mult`` is not a positive int, or ``eta_min`` is not a number.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.optim import SGD, lr_scheduler
    >>> optimizer = SGD([mt.nn.Parameter(mt.zeros(1))], lr=0.8)
    >>> schedule = lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.8, 0.4, 0.8, 0.4, 0.8]
    """

    def __init__(self, optimizer: Any, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        _check_count("CosineAnnealingWarmRestarts: T_0", T_0)
        _check_count("CosineAnnealingWarmRestarts: T_mult", T_mult)
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"CosineAnnealingWarmRestarts: eta_min must be a number, got {type(eta_min).__name__}")
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        self.T_i, self.T_cur = T_0, float(last_epoch) if isinstance(last_epoch, float) else last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:  # type: ignore[override]
        """Advance to the next epoch, or to ``epoch``, which may be a fraction, and set the rates."""
        if epoch is None and self.last_epoch >= 0:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            epoch = 0 if epoch is None else epoch
            self.T_cur, self.T_i = self._position(epoch)
        self.last_epoch = math.floor(epoch)
        with self._flag("_get_lr_called_within_step"):
            self._set_rates(self.get_lr())

    def _position(self, epoch: float) -> tuple[Any, int]:
        """Return the number of epochs from the last restart to ``epoch``, and the length of the current period."""
        if epoch < 0:
            raise ValueError(f"CosineAnnealingWarmRestarts: epoch must not be negative, got {epoch}")
        if self.T_mult == 1:
            return epoch % self.T_0, self.T_0
        length = self.T_0
        while epoch >= length:
            epoch -= length
            length *= self.T_mult
        return epoch, length


_ANNEALING: dict[str, Callable[[float], float]] = {
    "linear": lambda done: done,
    "cos": lambda done: (1 - math.cos(math.pi * done)) / 2,
}
"""Interpolation between two values for each strategy: the progress in value as a function of the progress in time."""


def annealing(owner: object, strategy: str) -> str:
    """Return the name of a strategy. Raise ValueError if it is unknown."""
    if strategy not in _ANNEALING:
        raise ValueError(f"{type(owner).__name__}: anneal_strategy must be cos or linear, got {strategy!r}")
    return strategy


def annealed(strategy: str, start: Any, end: Any, done: float) -> Any:
    """Return the value between ``start`` and ``end`` after the fraction ``done`` of the time."""
    return end if done == 1 else start + (end - start) * _ANNEALING[strategy](done)


class OneCycleLR(_MomentumCycle):
    """Raise the rate to ``max_lr``, then lower it far below the first rate (Smith and Topin, 2017).

    Call `step` once per optimizer step. The schedule ends after ``total_steps`` steps.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose rates are set.
    max_lr : float or list of float
        Maximal rate, for all parameter groups or one per group.
    total_steps : int, optional
        Number of steps. Default ``epochs * steps_per_epoch``.
    epochs, steps_per_epoch : int, optional
        Used if ``total_steps`` is None.
    pct_start : float
        Fraction of the steps in which the rate rises. Default 0.3.
    anneal_strategy : str
        "cos" (the default) or "linear".
    cycle_momentum : bool
        Move the momentum too, in the opposite direction. Default True.
    base_momentum, max_momentum : float or list of float
        Bounds of the momentum. Defaults 0.85 and 0.95.
    div_factor : float
        The first rate is ``max_lr / div_factor``. Default 25.
    final_div_factor : float
        The last rate is the first one divided by this. Default 1e4.
    three_phase : bool
        Lower the rate to the first rate, as fast as it rose, and only then to the last rate. Default False.
    last_epoch : int
        Step to resume at. Default -1 for a new schedule.

    Raises
    ------
    ValueError
        If an argument is out of range, the number of steps is not given, ``cycle_momentum`` is set and the optimizer
        has neither ``momentum`` nor ``betas``, or on a step after the last.

    Examples
    --------
    >>> import metatensor as mt
    >>> optimizer = mt.optim.SGD([mt.nn.Parameter(mt.zeros(1))], momentum=0.9)
    >>> schedule = mt.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=100)
    >>> schedule.get_last_lr()
    [0.02]
    """

    def __init__(
        self, optimizer: Any, max_lr: Any, total_steps: int | None = None, epochs: int | None = None,
        steps_per_epoch: int | None = None, pct_start: float = 0.3, anneal_strategy: str = "cos",
        cycle_momentum: bool = True, base_momentum: Any = 0.85, max_momentum: Any = 0.95, div_factor: float = 25.0,
        final_div_factor: float = 1e4, three_phase: bool = False, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.optimizer = self._checked(optimizer)
        if total_steps is None and (epochs is None or steps_per_epoch is None):
            raise ValueError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
        if total_steps is None:
            total_steps = _check_count("OneCycleLR: epochs", epochs) * _check_count("OneCycleLR: steps_per_epoch", steps_per_epoch)
        self.total_steps = _check_count("OneCycleLR: total_steps", total_steps)
        if not isinstance(pct_start, float):
            raise ValueError(f"OneCycleLR: pct_start must be a float, got {type(pct_start).__name__}")
        check_range(self, "pct_start", pct_start, "[0, 1]")
        self._schedule_phases = self._phases(pct_start * self.total_steps, three_phase)
        self._anneal_func_type = annealing(self, anneal_strategy)
        self.cycle_momentum = cycle_momentum
        new = last_epoch == -1
        if new:
            for high, group in zip(per_group("OneCycleLR: max_lr", optimizer, max_lr), optimizer.param_groups, strict=True):
                first = high / div_factor
                group.update(initial_lr=first, max_lr=high, min_lr=first / final_div_factor)
        if cycle_momentum:
            self._start_momentum(base_momentum, max_momentum, new)
        super().__init__(optimizer, last_epoch)

    def _phases(self, rising: float, three_phase: bool) -> list[dict[str, Any]]:
        """Return the phases: the last step of each, and the names of the bounds of rate and momentum."""
        ends = [rising - 1, 2 * rising - 2, self.total_steps - 1] if three_phase else [rising - 1, self.total_steps - 1]
        rates = ["initial_lr", "max_lr", "initial_lr", "min_lr"] if three_phase else ["initial_lr", "max_lr", "min_lr"]
        momenta = ["max_momentum", "base_momentum", "max_momentum", "max_momentum"]
        return [
            {"end_step": end, "start_lr": rates[i], "end_lr": rates[i + 1], "start_momentum": momenta[i], "end_momentum": momenta[i + 1]}
            for i, end in enumerate(ends)
        ]

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        now, phases = self.last_epoch, self._schedule_phases
        if now > self.total_steps:
            raise ValueError(f"OneCycleLR: step {now} exceeds total_steps={self.total_steps}")
        which = next((i for i, phase in enumerate(phases) if now <= phase["end_step"]), len(phases) - 1)
        phase, start = phases[which], phases[which - 1]["end_step"] if which else 0
        done = (now - start) / (phase["end_step"] - start)

        def at(quantity: str) -> list[Any]:
            bounds = phase["start_" + quantity], phase["end_" + quantity]
            return [
                annealed(self._anneal_func_type, group[bounds[0]], group[bounds[1]], done) for group in self.optimizer.param_groups
            ]

        if self.cycle_momentum:
            self._set_momenta(at("momentum"))
        return at("lr")
