"""Schedules that go up and down."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

from metatensor.optim._lr_base import LRScheduler, group_values, to_group, update_group

__all__ = ["CosineAnnealingWarmRestarts", "CyclicLR", "OneCycleLR"]


def _uses_beta1(optimizer: Any, name: str) -> bool:
    """Whether the momentum of an optimizer is the first of its betas. ValueError where it has none."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(f"{name}: cycle_momentum needs an optimizer that has momentum or betas")
    return "betas" in optimizer.defaults


def _set_momentum(group: dict[str, Any], value: float, beta1: bool) -> None:
    if beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


class CyclicLR(LRScheduler):
    """The rate between two bounds and back (Smith, 2015, arXiv:1506.01186), the momentum the other way round."""

    def __init__(
        self, optimizer: Any, base_lr: Any, max_lr: Any, step_size_up: int = 2000, step_size_down: int | None = None,
        mode: str = "triangular", gamma: float = 1.0, scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle", cycle_momentum: bool = True, base_momentum: Any = 0.8, max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.optimizer = self._checked(optimizer)
        lows = to_group("CyclicLR: base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for lr, group in zip(lows, optimizer.param_groups, strict=True):
                update_group(group, "lr", lr)
        self.max_lrs = to_group("CyclicLR: max_lr", optimizer, max_lr)
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError(f"CyclicLR: mode must be triangular, triangular2 or exp_range, got {mode!r}")
        self.mode = mode
        self.gamma = gamma
        self.scale_mode = scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        self._scale_fn_custom = scale_fn
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _uses_beta1(optimizer, "CyclicLR")
            self.base_momentums = to_group("CyclicLR: base_momentum", optimizer, base_momentum)
            self.max_momentums = to_group("CyclicLR: max_momentum", optimizer, max_momentum)
            if last_epoch == -1:
                for high, low, group in zip(self.max_momentums, self.base_momentums, optimizer.param_groups, strict=True):
                    _set_momentum(group, high, self.use_beta1)
                    group["max_momentum"], group["base_momentum"] = high, low
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lows

    def scale_fn(self, x: float) -> float:
        """How high the cycle, or the iteration, ``x`` reaches, between 0 and 1."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / (2.0 ** (x - 1)) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for low, high, group in zip(self.base_momentums, self.max_momentums, self.optimizer.param_groups, strict=True):
                _set_momentum(group, high - (high - low) * height, self.use_beta1)
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        scale = state.pop("_scale_fn_custom")
        state["_scale_fn_custom"] = None if scale is None or isinstance(scale, types.FunctionType) else scale.__dict__.copy()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        kept = state_dict.get("_scale_fn_custom")
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_scale_fn_custom"})
        if kept is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(kept)


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine down in ``T_0`` epochs, again and again, each ``T_mult`` times as long (arXiv:1608.03983)."""

    def __init__(self, optimizer: Any, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"CosineAnnealingWarmRestarts: T_0 must be a positive int, got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"CosineAnnealingWarmRestarts: T_mult must be an int from 1, got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"CosineAnnealingWarmRestarts: eta_min must be a number, got {type(eta_min).__name__}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:  # type: ignore[override]
        """Go to the next epoch, or to ``epoch``, which may be a fraction of one."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            if epoch < 0:
                raise ValueError(f"CosineAnnealingWarmRestarts: epoch must not be negative, got {epoch}")
            if epoch < self.T_0:
                self.T_i, self.T_cur = self.T_0, epoch
            elif self.T_mult == 1:
                self.T_cur = epoch % self.T_0
            else:
                n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
                self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
                self.T_i = self.T_0 * self.T_mult**n
        self.last_epoch = math.floor(epoch)
        with self._flag("_get_lr_called_within_step"):
            for group, lr in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
                update_group(group, "lr", lr)
        self._last_lr = group_values(self.optimizer, "lr")


class OneCycleLR(LRScheduler):
    """The rate up and far down once (Smith and Topin, 2017, arXiv:1708.07120), the momentum the other way round."""

    def __init__(
        self, optimizer: Any, max_lr: Any, total_steps: int | None = None, epochs: int | None = None,
        steps_per_epoch: int | None = None, pct_start: float = 0.3, anneal_strategy: str = "cos",
        cycle_momentum: bool = True, base_momentum: Any = 0.85, max_momentum: Any = 0.95, div_factor: float = 25.0,
        final_div_factor: float = 1e4, three_phase: bool = False, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.optimizer = self._checked(optimizer)
        if total_steps is not None:
            if total_steps <= 0 or not isinstance(total_steps, int):
                raise ValueError(f"OneCycleLR: total_steps must be a positive int, got {total_steps}")
            self.total_steps = total_steps
        elif epochs is not None and steps_per_epoch is not None:
            for name, value in (("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
                if not isinstance(value, int) or value <= 0:
                    raise ValueError(f"OneCycleLR: {name} must be a positive int, got {value}")
            self.total_steps = epochs * steps_per_epoch
        else:
            raise ValueError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"OneCycleLR: pct_start must be a float between 0 and 1, got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"OneCycleLR: anneal_strategy must be cos or linear, got {anneal_strategy!r}")
        up = float(pct_start * self.total_steps) - 1
        last = self.total_steps - 1
        ends = [(up, "initial_lr", "max_lr"), (last, "max_lr", "min_lr")]
        if three_phase:
            down = float(2 * pct_start * self.total_steps) - 2
            ends = [(up, "initial_lr", "max_lr"), (down, "max_lr", "initial_lr"), (last, "initial_lr", "min_lr")]
        momenta = ["max_momentum", "base_momentum", "max_momentum", "max_momentum"]
        self._schedule_phases: list[dict[str, Any]] = [
            {"end_step": end, "start_lr": start, "end_lr": stop, "start_momentum": momenta[i], "end_momentum": momenta[i + 1]}
            for i, (end, start, stop) in enumerate(ends)
        ]
        self._anneal_func_type = anneal_strategy
        if last_epoch == -1:
            for high, group in zip(to_group("OneCycleLR: max_lr", optimizer, max_lr), optimizer.param_groups, strict=True):
                group["initial_lr"] = high / div_factor
                group["max_lr"] = high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _uses_beta1(optimizer, "OneCycleLR")
            highs = to_group("OneCycleLR: max_momentum", optimizer, max_momentum)
            lows = to_group("OneCycleLR: base_momentum", optimizer, base_momentum)
            if last_epoch == -1:
                for high, low, group in zip(highs, lows, optimizer.param_groups, strict=True):
                    _set_momentum(group, high, self.use_beta1)
                    group["max_momentum"], group["base_momentum"] = high, low
        super().__init__(optimizer, last_epoch)

    def _between(self, start: Any, end: Any, done: float) -> Any:
        if self._anneal_func_type == "linear":
            return (end - start) * done + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * done) + 1)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        now = self.last_epoch
        if now > self.total_steps:
            raise ValueError(f"OneCycleLR: step {now} of a schedule of {self.total_steps}")
        start = 0.0
        for phase in self._schedule_phases:
            if now <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            start = phase["end_step"]
        done = (now - start) / (phase["end_step"] - start)
        for group in self.optimizer.param_groups:
            if self.cycle_momentum:
                momentum = self._between(group[phase["start_momentum"]], group[phase["end_momentum"]], done)
                _set_momentum(group, momentum, self.use_beta1)
        return [
            self._between(group[phase["start_lr"]], group[phase["end_lr"]], done) for group in self.optimizer.param_groups
        ]
