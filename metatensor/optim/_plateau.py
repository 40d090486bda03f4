"""`ReduceLROnPlateau`, the schedule that follows a metric."""

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
"""Value that a metric must surpass to count as an improvement, by mode and threshold mode."""


class ReduceLROnPlateau(LRScheduler):
    """Multiply the rate by ``factor`` when a metric has not improved for more than ``patience`` steps.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose rates are set.
    mode : str
        "min" (the default) if the metric should fall, "max" if it should rise.
    factor : float
        Factor below 1. Default 0.1.
    patience : int
        Steps without improvement that are tolerated. Default 10.
    threshold : float
        Minimal improvement. Default 1e-4.
    threshold_mode : str
        "rel" (the default) if ``threshold`` is relative to the best metric, "abs" if it is a difference.
    cooldown : int
        Steps after a reduction in which missing improvements do not count. Default 0.
    min_lr : float or list of float
        Minimal rate, for all parameter groups or one per group. Default 0.
    eps : float
        Reductions by at most this amount are skipped. Default 1e-8.

    Raises
    ------
    ValueError
        If ``factor``, ``mode``, ``threshold_mode`` or the number of minimal rates is wrong.

    Examples
    --------
    >>> import metatensor as mt
    >>> optimizer = mt.optim.SGD([mt.nn.Parameter(mt.zeros(1))], lr=0.8)
    >>> schedule = mt.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    >>> for loss in [1.0, 1.0, 1.0]:
    ...     schedule.step(loss)
    >>> schedule.get_last_lr()
    [0.4]
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
        """Reset the best metric and all counters."""
        self.best, self.num_bad_epochs, self.cooldown_counter = self.mode_worse, 0, 0

    @property
    def in_cooldown(self) -> bool:
        """True during the cooldown after a reduction."""
        return self.cooldown_counter > 0

    def _is_better(self, a: float, best: float) -> bool:
        bar = _BARS[self.mode, self.threshold_mode](best, self.threshold)
        return a < bar if self.mode == "min" else a > bar

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Process the metric of the next epoch, and reduce the rate if necessary.

        Parameters
        ----------
        metrics : float or Tensor
            Metric.
        epoch : int, optional
            Deprecated. Number of the epoch.
        """
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
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):  # groups were added after construction
            if self.default_min_lr is None:
                raise RuntimeError(f"ReduceLROnPlateau: {len(self.min_lrs)} values of min_lr for {len(groups)} parameter groups")
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs, strict=True):
            rate = float(group["lr"])
            reduced = max(rate * self.factor, least)
            if rate - reduced > self.eps:
                update_group(group, "lr", reduced)
