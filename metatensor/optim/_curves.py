"""Schedules that are a function of the epoch.

A `Curve` declares its closed form: which share of the initial rate epoch t has. A step does not set that rate, but multiplies
the current one by share(t) / share(t - 1), so that schedules can be chained and rates can be changed by hand between steps.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from metatensor.optim._ranges import check_range
from metatensor.optim._schedule import LRScheduler, attributes_of, per_group, restore_attributes

__all__ = [
    "ConstantLR", "CosineAnnealingLR", "ExponentialLR", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR",
    "PolynomialLR", "StepLR",
]  # fmt: skip


class Curve(LRScheduler):
    """A schedule whose rate at epoch t is ``low + (initial rate - low) * share(t)``."""

    _low = "eta_min"
    """The attribute, if there is one, that is the rate for a share of 0."""

    _moves_on_resuming = False
    """Whether constructing the schedule with a ``last_epoch`` goes on from the current rate; if not, that rate is kept."""

    def _share(self, epoch: int) -> float:
        """Return the closed form at an epoch."""
        raise NotImplementedError

    def _ratio(self, epoch: int) -> float | None:
        """Return share(t) / share(t - 1), None if the divisor is 0. Subclasses for which it is simpler say it themselves."""
        before = self._share(epoch - 1)
        return None if before == 0 else self._share(epoch) / before

    def get_lr(self) -> list[Any]:
        """Return the current rates, moved on to `last_epoch`."""
        self._warn_outside_step()
        epoch, low, rates = self.last_epoch, getattr(self, self._low, 0.0), self._current()
        if epoch == 0:
            return [rate * self._share(0) for rate in rates]
        if self._is_initial and not self._moves_on_resuming:
            return rates
        ratio = self._ratio(epoch)
        if ratio is None:
            return [rate + (base - low) * self._share(epoch) for base, rate in zip(self.base_lrs, rates, strict=True)]
        return rates if ratio == 1 else [low + (rate - low) * ratio for rate in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        low, share = getattr(self, self._low, 0.0), self._share(self.last_epoch)
        return [low + (base - low) * share for base in self.base_lrs]


class StepLR(Curve):
    """Multiply the rate by ``gamma`` every ``step_size`` epochs."""

    _moves_on_resuming = True

    def __init__(self, optimizer: Any, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch: int) -> float:
        return self.gamma ** (epoch // self.step_size)

    def _ratio(self, epoch: int) -> float:
        return 1 if epoch % self.step_size else self.gamma


class MultiStepLR(Curve):
    """Multiply the rate by ``gamma`` at each of the epochs ``milestones``; twice at one that is there twice."""

    _moves_on_resuming = True

    def __init__(self, optimizer: Any, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch: int) -> float:
        return self.gamma ** sum(times for milestone, times in self.milestones.items() if milestone <= epoch)

    def _ratio(self, epoch: int) -> float:
        return self.gamma ** self.milestones[epoch]


class ConstantLR(Curve):
    """Multiply the rate by ``factor`` until epoch ``total_iters``."""

    _moves_on_resuming = True

    def __init__(self, optimizer: Any, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        check_range(self, "factor", factor, "[0, 1]")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch: int) -> float:
        return 1.0 if 0 < epoch >= self.total_iters else self.factor

    def _ratio(self, epoch: int) -> float | None:
        if epoch != self.total_iters:
            return 1
        return 1 / self.factor if self.factor else None


class LinearLR(Curve):
    """Multiply the rate by a factor that goes from ``start_factor`` to ``end_factor`` in ``total_iters`` epochs."""

    def __init__(
        self, optimizer: Any, start_factor: float = 1.0 / 3, end_factor: float = 1.0, total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        check_range(self, "start_factor", start_factor, "(0, 1]")
        check_range(self, "end_factor", end_factor, "[0, 1]")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch: int) -> float:
        done = min(epoch, self.total_iters) / self.total_iters if self.total_iters else 0.0
        return self.start_factor + (self.end_factor - self.start_factor) * done


class ExponentialLR(Curve):
    """Multiply the rate by ``gamma`` at each epoch."""

    def __init__(self, optimizer: Any, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch: int) -> float:
        return self.gamma**epoch

    def _ratio(self, epoch: int) -> float:
        return self.gamma


class PolynomialLR(Curve):
    """Let the rate fall to 0 in ``total_iters`` epochs, as the power ``power`` of the share of epochs that is left."""

    def __init__(self, optimizer: Any, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch: int) -> float:
        return (1 - min(epoch, self.total_iters) / self.total_iters) ** self.power if self.total_iters else 1.0


class CosineAnnealingLR(Curve):
    """Let the rate fall to ``eta_min`` in ``T_max`` epochs as half a cosine, and rise again (arXiv:1608.03983)."""

    def __init__(self, optimizer: Any, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch: int) -> float:
        return (1 + math.cos(math.pi * epoch / self.T_max)) / 2


class _ByFunctions(LRScheduler):
    """A schedule by functions of the epoch, one for each group or one for all.

    Of the functions, a state dict has the attributes of those that are callable objects.
    """

    def __init__(self, optimizer: Any, lr_lambda: Any, last_epoch: int = -1) -> None:
        self.lr_lambdas = per_group(f"{type(self).__name__}: lr_lambda", self._checked(optimizer), lr_lambda)
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "lr_lambdas": [attributes_of(function) for function in self.lr_lambdas]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for function, kept in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=False):
            restore_attributes(function, kept)
        super().load_state_dict({**state_dict, "lr_lambdas": self.lr_lambdas})

    def _scaled(self, rates: list[Any]) -> list[Any]:
        return [rate * function(self.last_epoch) for rate, function in zip(rates, self.lr_lambdas, strict=True)]


class LambdaLR(_ByFunctions):
    """Set the rate to the initial rate times ``lr_lambda(epoch)``."""

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        return self._scaled(self.base_lrs)


class MultiplicativeLR(_ByFunctions):
    """Multiply the rate by ``lr_lambda(epoch)`` at each epoch."""

    def __init__(self, optimizer: Any, lr_lambda: Any, last_epoch: int = -1) -> None:
        for function in lr_lambda if isinstance(lr_lambda, (list, tuple)) else [lr_lambda]:
            if not callable(function):
                raise TypeError(f"MultiplicativeLR: lr_lambda must be a function, got {type(function).__name__}")
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        return self._current() if self._is_initial else self._scaled(self._current())
