"""The schedule that watches a metric."""

from __future__ import annotations

import math
from typing import Any

from metatensor.optim._schedule import LRScheduler, group_values, per_group, update_group

__all__ = ["ReduceLROnPlateau"]

_BARS = {
    ("min", "rel"): lambda best, threshold: best * (1 - threshold),
    ("max", "rel"): lambda best, threshold: best * (1 + threshold),
    ("min", "abs"): lambda best, threshold: best - threshold,
    ("max", "abs"): lambda best, threshold: best + threshold,
}
"""What a metric must surpass to count as better than the best one, by mode and threshold mode."""


class ReduceLROnPlateau(LRScheduler):
    """Multiply the rate by ``factor`` when a metric has not improved for more than ``patience`` steps.

    Parameters
    ----------
    mode
        "min" for a metric that should fall, "max" for one that should rise.
    threshold, threshold_mode
        By how much a metric must be better than the best one: as a share of it ("rel") or as a difference ("abs").
    cooldown
        For how many steps after a reduction no step counts as bad.
    min_lr
        The least rate, for all groups or one for each.
    eps
        A reduction by no more than this is left out.
    """

    def __init__(
        self, optimizer: Any, mode: str = "min", factor: float = 0.1, patience: int = 10, threshold: float = 1e-4,
        threshold_mode: str = "rel", cooldown: int = 0, min_lr: Any = 0, eps: float = 1e-8,
    ) -> None:  # fmt: skip
        if not factor < 1.0:
            raise ValueError(f"ReduceLROnPlateau: factor must be below 1, got {factor}")
        if (mode, "rel") not in _BARS:
            raise ValueError(f"ReduceLROnPlateau: mode must be min or max, got {mode!r}")
        if (mode, threshold_mode) not in _BARS:
            raise ValueError(f"ReduceLROnPlateau: threshold_mode must be rel or abs, got {threshold_mode!r}")
        self.optimizer = self._checked(optimizer)
        self.min_lrs = per_group("ReduceLROnPlateau: min_lr", optimizer, min_lr)
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.factor, self.patience, self.cooldown, self.eps = factor, patience, cooldown, eps
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.last_epoch = 0
        self._last_lr = group_values(optimizer, "lr")
        self._reset()

    def _reset(self) -> None:
        """Forget all metrics."""
        self.best, self.num_bad_epochs, self.cooldown_counter = self.mode_worse, 0, 0

    @property
    def in_cooldown(self) -> bool:
        """Whether the last reduction is at most `cooldown` steps ago."""
        return self.cooldown_counter > 0

    def _is_better(self, a: float, best: float) -> bool:
        bar = _BARS[self.mode, self.threshold_mode](best, self.threshold)
        return a < bar if self.mode == "min" else a > bar

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take in the metric of the next epoch, or of ``epoch``, and reduce the rate if it is time."""
        value = float(metrics)
        if epoch is not None:
            self._warn_of_epoch()
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        improved, cooling = self._is_better(value, self.best), self.in_cooldown
        if improved:
            self.best = value
        self.cooldown_counter -= cooling
        self.num_bad_epochs = 0 if improved or cooling else self.num_bad_epochs + 1
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(self.last_epoch)
            self.num_bad_epochs, self.cooldown_counter = 0, self.cooldown
        self._last_lr = group_values(self.optimizer, "lr")

    def _reduce_lr(self, epoch: int) -> None:
        """Reduce the rates."""
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):  # groups were added since
            if self.default_min_lr is None:
                raise RuntimeError(f"ReduceLROnPlateau: {len(self.min_lrs)} values of min_lr for {len(groups)} parameter groups")
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs, strict=True):
            rate = float(group["lr"])
            reduced = max(rate * self.factor, least)
            if rate - reduced > self.eps:
                update_group(group, "lr", reduced)
