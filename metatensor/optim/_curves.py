"""Schedules that are a function of the epoch.

A `Curve` declares its closed form, share(t): the share of the initial rate at epoch t. A step does not set the rate to
that value but multiplies the current rate by share(t) / share(t - 1). Schedules can thus be chained, and rates can be
changed by hand between steps.
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
    """Base of schedules whose rate at epoch t is ``low + (initial rate - low) * share(t)``."""

    _low = "eta_min"
    """Name of the attribute with the rate for a share of 0. If there is no such attribute, that rate is 0."""

    _moves_on_resuming = False
    """Whether construction with a ``last_epoch`` changes the rate. If not, the rate is kept until the next step."""

    def _share(self, epoch: int) -> float:
        """Return the closed form at an epoch."""
        raise NotImplementedError

    def _ratio(self, epoch: int) -> float | None:
        """Return share(t) / share(t - 1), or None if the divisor is 0.

        Subclasses may override it with a simpler formula.
        """
        before = self._share(epoch - 1)
        return None if before == 0 else self._share(epoch) / before

    def get_lr(self) -> list[Any]:
        """Return the current rates, advanced to `last_epoch`."""
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
    """Multiply the rate by ``gamma`` every ``step_size`` epochs.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose rates are set.
    step_size : int
        Epochs between changes.
    gamma : float
        Factor. Default 0.1.
    last_epoch : int
        Epoch to resume at. Default -1 for a new schedule.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.optim import SGD, lr_scheduler
    >>> optimizer = SGD([mt.nn.Parameter(mt.zeros(1))], lr=0.8)
    >>> schedule = lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.8, 0.8, 0.4, 0.4]
    """

    _moves_on_resuming = True

    def __init__(self, optimizer: Any, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch: int) -> float:
        return self.gamma ** (epoch // self.step_size)

    def _ratio(self, epoch: int) -> float:
        return 1 if epoch % self.step_size else self.gamma


class MultiStepLR(Curve):
    """Multiply the rate by ``gamma`` at each of several epochs.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose rates are set.
    milestones : iterable of int
        Epochs at which the rate changes. An epoch that is listed twice counts twice.
    gamma : float
        Factor. Default 0.1.
    last_epoch : int
        Epoch to resume at. Default -1 for a new schedule.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.optim import SGD, lr_scheduler
    >>> optimizer = SGD([mt.nn.Parameter(mt.zeros(1))], lr=0.8)
    >>> schedule = lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.5)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.8, 0.4, 0.4, 0.2]
    """

    _moves_on_resuming = True

    def __init__(self, optimizer: Any, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch: int) -> float:
        return self.gamma ** sum(times for milestone, times in self.milestones.items() if milestone <= epoch)

    def _ratio(self, epoch: int) -> float:
        return self.gamma ** self.milestones[epoch]


class ConstantLR(Curve):
    """Multiply the rate by ``factor`` until epoch ``total_iters``.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose rates are set.
    factor : float
        Factor in [0, 1]. Default 1/3.
    total_iters : int
        Epoch at which the factor is removed. Default 5.
    last_epoch : int
        Epoch to resume at. Default -1 for a new schedule.

    Raises
    ------
    ValueError
        If ``factor`` is out of range.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.optim import SGD, lr_scheduler
    >>> optimizer = SGD([mt.nn.Parameter(mt.zeros(1))], lr=0.8)
    >>> schedule = lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.4, 0.4, 0.8, 0.8]
    """

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
    """Multiply the rate by a factor that changes linearly.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose rates are set.
    start_factor : float
        First factor, in (0, 1]. Default 1/3.
    end_factor : float
        Last factor, in [0, 1]. Default 1.
    total_iters : int
        Epoch at which the last factor is reached. Default 5.
    last_epoch : int
        Epoch to resume at. Default -1 for a new schedule.

    Raises
    ------
    ValueError
        If a factor is out of range.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.optim import SGD, lr_scheduler
    >>> optimizer = SGD([mt.nn.Parameter(mt.zeros(1))], lr=0.8)
    >>> schedule = lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.4, 0.6, 0.8, 0.8]
    """

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
    """Multiply the rate by ``gamma`` at each epoch.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose rates are set.
    gamma : float
        Factor.
    last_epoch : int
        Epoch to resume at. Default -1 for a new schedule.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.optim import SGD, lr_scheduler
    >>> optimizer = SGD([mt.nn.Parameter(mt.zeros(1))], lr=0.8)
    >>> schedule = lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.8, 0.4, 0.2, 0.1]
    """

    def __init__(self, optimizer: Any, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch: int) -> float:
        return self.gamma**epoch

    def _ratio(self, epoch: int) -> float:
        return self.gamma


class PolynomialLR(Curve):
    """Decrease the rate to 0 as ``(1 - epoch / total_iters) ** power``.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose rates are set.
    total_iters : int
        Epoch at which the rate is 0. Default 5.
    power : float
        Exponent. Default 1.
    last_epoch : int
        Epoch to resume at. Default -1 for a new schedule.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.optim import SGD, lr_scheduler
    >>> optimizer = SGD([mt.nn.Parameter(mt.zeros(1))], lr=0.8)
    >>> schedule = lr_scheduler.PolynomialLR(optimizer, total_iters=4)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.8, 0.6, 0.4, 0.2, 0.0]
    """

    def __init__(self, optimizer: Any, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch: int) -> float:
        return (1 - min(epoch, self.total_iters) / self.total_iters) ** self.power if self.total_iters else 1.0


class CosineAnnealingLR(Curve):
    """Decrease the rate to ``eta_min`` along half a cosine, then increase it again (Loshchilov and Hutter, 2016).

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose rates are set.
    T_max : int
        Epochs until the minimum.
    eta_min : float
        Minimal rate. Default 0.
    last_epoch : int
        Epoch to resume at. Default -1 for a new schedule.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.optim import SGD, lr_scheduler
    >>> optimizer = SGD([mt.nn.Parameter(mt.zeros(1))], lr=0.8)
    >>> schedule = lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.8, 0.4, 0.0, 0.4, 0.8]
    """

    def __init__(self, optimizer: Any, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch: int) -> float:
        return (1 + math.cos(math.pi * epoch / self.T_max)) / 2


class _ByFunctions(LRScheduler):
    """Base of schedules defined by functions of the epoch, one for each group or one for all.

    The state dict contains the attributes of callable objects, but no functions.
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
    """Set the rate to the initial rate times ``lr_lambda(epoch)``.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose rates are set.
    lr_lambda : callable or list of callable
        Function of the epoch, for all parameter groups or one per group.
    last_epoch : int
        Epoch to resume at. Default -1 for a new schedule.

    Raises
    ------
    ValueError
        If the number of functions differs from the number of groups.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.optim import SGD, lr_scheduler
    >>> optimizer = SGD([mt.nn.Parameter(mt.zeros(1))], lr=0.8)
    >>> schedule = lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (epoch + 1))
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.8, 0.4, 0.2667, 0.2]
    """

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        return self._scaled(self.base_lrs)


class MultiplicativeLR(_ByFunctions):
    """Multiply the rate by ``lr_lambda(epoch)`` at each epoch.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose rates are set.
    lr_lambda : callable or list of callable
        Function of the epoch, for all parameter groups or one per group.
    last_epoch : int
        Epoch to resume at. Default -1 for a new schedule.

    Raises
    ------
    TypeError
        If a function is not callable.
    ValueError
        If the number of functions differs from the number of groups.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.optim import SGD, lr_scheduler
    >>> optimizer = SGD([mt.nn.Parameter(mt.zeros(1))], lr=0.8)
    >>> schedule = lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.8, 0.4, 0.2, 0.1]
    """

    def __init__(self, optimizer: Any, lr_lambda: Any, last_epoch: int = -1) -> None:
        for function in lr_lambda if isinstance(lr_lambda, (list, tuple)) else [lr_lambda]:
            if not callable(function):
                raise TypeError(f"MultiplicativeLR: lr_lambda must be a function, got {type(function).__name__}")
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        return self._current() if self._is_initial else self._scaled(self._current())
