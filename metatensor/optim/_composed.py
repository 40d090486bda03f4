"""Schedules that are composed of other schedules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metatensor.optim._plateau import ReduceLROnPlateau
from metatensor.optim._schedule import LRScheduler, group_values, update_group

__all__ = ["ChainedScheduler", "SequentialLR"]


class _Composed(LRScheduler):
    """Base of schedules that contain others for the same optimizer. Its state dict contains theirs."""

    _schedulers: list[Any]

    def _take(self, schedulers: Sequence[Any], optimizer: Any) -> None:
        """Check and store the schedules."""
        name = type(self).__name__
        if not schedulers:
            raise ValueError(f"{name}: there must be at least one schedule")
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"{name}: schedule {i} has no optimizer")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(f"{name}: schedule {i} is a ReduceLROnPlateau, which needs a metric at each step")
        self.optimizer = optimizer or schedulers[0].optimizer
        for i, scheduler in enumerate(schedulers):
            if scheduler.optimizer is not self.optimizer:
                raise ValueError(f"{name}: schedule {i} has another optimizer")
        self._schedulers = list(schedulers)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for scheduler, kept in zip(self._schedulers, state_dict["_schedulers"], strict=False):
            scheduler.load_state_dict(kept)
        super().load_state_dict({**state_dict, "_schedulers": self._schedulers})


class SequentialLR(_Composed):
    """Run schedules one after the other.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer of all schedules.
    schedulers : list of LRScheduler
        Schedules, in order.
    milestones : list of int
        Epochs, ascending, at which the second and further schedules begin.
    last_epoch : int
        Epoch to resume at. Default -1 for a new schedule.

    Raises
    ------
    ValueError
        If there are no schedules, their optimizers differ, one is a `ReduceLROnPlateau`, or the number of milestones is
        wrong.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.optim.lr_scheduler import ConstantLR, ExponentialLR, SequentialLR
    >>> optimizer = mt.optim.SGD([mt.nn.Parameter(mt.zeros(1))], lr=0.8)
    >>> first, second = ConstantLR(optimizer, factor=0.5, total_iters=2), ExponentialLR(optimizer, gamma=0.5)
    >>> schedule = SequentialLR(optimizer, [first, second], milestones=[2])
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.4, 0.4, 0.8, 0.4]
    """

    def __init__(self, optimizer: Any, schedulers: list[Any], milestones: list[int], last_epoch: int = -1) -> None:
        self._take(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(f"SequentialLR: {len(schedulers)} schedules need {len(schedulers) - 1} milestones, got {len(milestones)}")
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            update_group(group, "lr", group["initial_lr"])
        self.recursive_undo()
        self._schedulers[0]._initial_step()
        self._last_lr = self._schedulers[0].get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Undo the initial step of each schedule in ``sched``, which is this schedule by default."""
        for scheduler in (self if sched is None else sched)._schedulers:
            if hasattr(scheduler, "_schedulers"):
                self.recursive_undo(scheduler)
            if hasattr(scheduler, "last_epoch"):
                scheduler.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Advance to the next epoch and set the rates."""
        self.last_epoch += 1
        current = self._schedulers[sum(milestone <= self.last_epoch for milestone in self._milestones)]
        if self.last_epoch in self._milestones:
            current._update_lr(0)
        else:
            current.step()
        self._last_lr = current.get_last_lr()


class ChainedScheduler(_Composed):
    """Step several schedules together. Each changes the rate that the previous one has set.

    Parameters
    ----------
    schedulers : sequence of LRScheduler
        Schedules, in order.
    optimizer : Optimizer, optional
        Optimizer of all schedules. Default: that of the first.

    Raises
    ------
    ValueError
        If there are no schedules, their optimizers differ, or one is a `ReduceLROnPlateau`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.optim.lr_scheduler import ChainedScheduler, ConstantLR, ExponentialLR
    >>> optimizer = mt.optim.SGD([mt.nn.Parameter(mt.zeros(1))], lr=0.8)
    >>> schedules = [ConstantLR(optimizer, factor=0.5, total_iters=2), ExponentialLR(optimizer, gamma=0.5)]
    >>> ChainedScheduler(schedules).get_last_lr()
    [0.4]
    """

    def __init__(self, schedulers: Sequence[Any], optimizer: Any = None) -> None:
        self._take(schedulers, optimizer)
        self._last_lr = group_values(self.optimizer, "lr")

    def step(self) -> None:  # type: ignore[override]
        """Step all schedules."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = group_values(self.optimizer, "lr")
