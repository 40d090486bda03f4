"""Schedules made of others, and the one that watches a metric."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from metatensor.optim._lr_base import LRScheduler, group_values, update_group

__all__ = ["ChainedScheduler", "ReduceLROnPlateau", "SequentialLR"]


class _Composed(LRScheduler):
    """A schedule that has others: their states are part of its own."""

    _schedulers: list[Any]

    def state_dict(self) -> dict[str, Any]:
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "_schedulers")}
        return {**state, "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=False):
            scheduler.load_state_dict(state)


def _undo(scheduler: Any) -> None:
    """Take back the first step of a schedule and of those it has."""
    if isinstance(scheduler, _Composed):
        for part in scheduler._schedulers:
            _undo(part)
    if hasattr(scheduler, "last_epoch"):
        scheduler.last_epoch -= 1


class SequentialLR(_Composed):
    """Schedules one after the other: the next begins at each of the epochs ``milestones``."""

    def __init__(self, optimizer: Any, schedulers: list[Any], milestones: list[int], last_epoch: int = -1) -> None:
        if len(schedulers) < 1:
            raise ValueError("SequentialLR: there must be at least one schedule")
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"SequentialLR: schedule {i} has no optimizer")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError("SequentialLR: ReduceLROnPlateau needs a metric at each step and cannot be one of several")
            if scheduler.optimizer is not optimizer:
                raise ValueError(f"SequentialLR: schedule {i} has another optimizer")
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(f"SequentialLR: {len(schedulers)} schedules need {len(schedulers) - 1} milestones, got {len(milestones)}")
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            update_group(group, "lr", group["initial_lr"])
        for scheduler in schedulers:
            _undo(scheduler)
        schedulers[0]._initial_step()
        self._last_lr = schedulers[0].get_last_lr()

    def step(self) -> None:  # type: ignore[override]
        """Go to the next epoch."""
        self.last_epoch += 1
        which = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[which]
        if which > 0 and self._milestones[which - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Composed):
    """Several schedules at once, each of which changes the rate that the one before it left."""

    def __init__(self, schedulers: Sequence[Any], optimizer: Any = None) -> None:
        if len(schedulers) < 1:
            raise ValueError("ChainedScheduler: there must be at least one schedule")
        optimizer = optimizer or schedulers[0].optimizer
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"ChainedScheduler: schedule {i} has no optimizer")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError("ChainedScheduler: ReduceLROnPlateau needs a metric at each step and cannot be one of several")
            if scheduler.optimizer is not optimizer:
                raise ValueError(f"ChainedScheduler: schedule {i} has another optimizer")
        self._schedulers = list(schedulers)
        self.optimizer = optimizer
        self._last_lr = group_values(optimizer, "lr")

    def step(self) -> None:  # type: ignore[override]
        """Step each of the schedules."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = group_values(self.optimizer, "lr")


class ReduceLROnPlateau(LRScheduler):
    """The rate times ``factor`` where a metric has not improved for more than ``patience`` steps."""

    def __init__(
        self, optimizer: Any, mode: str = "min", factor: float = 0.1, patience: int = 10, threshold: float = 1e-4,
        threshold_mode: str = "rel", cooldown: int = 0, min_lr: Any = 0, eps: float = 1e-8,
    ) -> None:  # fmt: skip
        if factor >= 1.0:
            raise ValueError(f"ReduceLROnPlateau: factor must be below 1, got {factor}")
        if mode not in ("min", "max"):
            raise ValueError(f"ReduceLROnPlateau: mode must be min or max, got {mode!r}")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"ReduceLROnPlateau: threshold_mode must be rel or abs, got {threshold_mode!r}")
        self.factor = factor
        self.optimizer = self._checked(optimizer)
        groups = optimizer.param_groups
        if isinstance(min_lr, (list, tuple)):
            if len(min_lr) != len(groups):
                raise ValueError(f"ReduceLROnPlateau: {len(min_lr)} values of min_lr for {len(groups)} parameter groups")
            self.default_min_lr = None
            self.min_lrs = list(min_lr)
        else:
            self.default_min_lr = min_lr
            self.min_lrs = [min_lr] * len(groups)
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = group_values(optimizer, "lr")
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self._reset()

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether the rate was reduced a short while ago."""
        return self.cooldown_counter > 0

    def _is_better(self, a: float, best: float) -> bool:
        sign = -1 if self.mode == "min" else 1
        bar = best + sign * self.threshold if self.threshold_mode == "abs" else best * (1 + sign * self.threshold)
        return a < bar if self.mode == "min" else a > bar

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take note of the metric of the next epoch, or of ``epoch``, and reduce the rate where it is time."""
        current = float(metrics)
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            warnings.warn("step(epoch) is deprecated: call step() once an epoch", UserWarning, stacklevel=2)
        self.last_epoch = epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(epoch)
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = group_values(self.optimizer, "lr")

    def _reduce_lr(self, epoch: int) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):  # groups were added since
            if self.default_min_lr is None:
                raise RuntimeError(f"ReduceLROnPlateau: {len(self.min_lrs)} values of min_lr for {len(groups)} parameter groups")
            self.min_lrs = [self.default_min_lr] * len(groups)
        for low, group in zip(self.min_lrs, groups, strict=True):
            before = float(group["lr"])
            after = max(before * self.factor, low)
            if before - after > self.eps:
                update_group(group, "lr", after)
