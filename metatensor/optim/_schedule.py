"""The base class of learning rate schedules."""

from __future__ import annotations

import functools
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import ref

import metatensor as mt
from metatensor.optim.optimizer import Optimizer

__all__ = ["LRScheduler", "attributes_of", "group_values", "per_group", "restore_attributes", "update_group"]


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, mt.Tensor) else value


def group_values(optimizer: Any, key: str) -> list[Any]:
    """Return the value of ``key`` in each group of an optimizer. Tensors are copied."""
    return [_copied(group[key]) for group in optimizer.param_groups]


def update_group(group: dict[str, Any], key: str, value: Any) -> None:
    """Set ``group[key]``, in place if it is a tensor."""
    if isinstance(group[key], mt.Tensor):
        group[key].fill_(value.item() if isinstance(value, mt.Tensor) else value)
    else:
        group[key] = value


def per_group(name: str, optimizer: Any, value: Any) -> list[Any]:
    """Return one value per group: the elements of a list or tuple, or ``value`` for all.

    Raise ValueError if the length of a list differs from the number of groups.
    """
    count = len(optimizer.param_groups)
    values = list(value) if isinstance(value, (list, tuple)) else [value] * count
    if len(values) != count:
        raise ValueError(f"{name} has {len(values)} values for {count} parameter groups")
    return values


def attributes_of(function: Any) -> dict[str, Any] | None:
    """Return the attributes of a callable object for a state dict, or None if it is a function or None."""
    return None if function is None or isinstance(function, types.FunctionType) else dict(vars(function))


def restore_attributes(function: Any, kept: dict[str, Any] | None) -> None:
    """Give a callable object the attributes that `attributes_of` returned."""
    if kept is not None and function is not None:
        vars(function).update(kept)


def _note_steps(optimizer: Any) -> None:
    """Wrap an optimizer's `step` to record that it was called.

    Schedules warn if they are stepped before the optimizer.
    """
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    owner, func = ref(optimizer), optimizer.step.__func__

    @functools.wraps(func)
    def step(*args: Any, **kwargs: Any) -> Any:
        found: Any = owner()
        found._opt_called = True
        return func(found, *args, **kwargs)

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = step


class LRScheduler:
    """Base class of schedules, which set the learning rate of each group of an optimizer at each `step`.

    A subclass defines `get_lr`. It may also define ``_get_closed_form_lr``, which returns the rates of an epoch
    regardless of earlier rates. `step` uses it if it is given an epoch.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose rates are set.
    last_epoch : int
        -1 (the default) for a new schedule, which begins at epoch 0. To resume a schedule, the epoch it has reached.
        Each group must then have an "initial_lr", as the groups of a loaded optimizer do.

    Raises
    ------
    TypeError
        If ``optimizer`` is not an `Optimizer`.
    KeyError
        If a schedule is resumed and a group has no "initial_lr".

    Examples
    --------
    >>> import metatensor as mt
    >>> class Halving(mt.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [rate / 2**self.last_epoch for rate in self.base_lrs]
    >>> optimizer = mt.optim.SGD([mt.nn.Parameter(mt.zeros(1))], lr=0.8)
    >>> schedule = Halving(optimizer)
    >>> optimizer.step()
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.4]
    """

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = self._checked(optimizer)
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(f"{type(self).__name__}: group {i} has no initial_lr, which resuming at epoch {last_epoch} needs")
        self.base_lrs = group_values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _note_steps(optimizer)
        self._initial_step()

    def _checked(self, optimizer: Any) -> Any:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(self).__name__}: expected an optimizer, got {type(optimizer).__name__}")
        return optimizer

    def _initial_step(self) -> None:
        """Set the rates of the first epoch."""
        self._step_count = 0
        with self._flag("_is_initial"):
            self.step()

    @contextmanager
    def _flag(self, name: str) -> Iterator[None]:
        setattr(self, name, True)
        try:
            yield
        finally:
            setattr(self, name, False)

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes except the optimizer."""
        return {key: value for key, value in vars(self).items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the attributes that `state_dict` returned."""
        vars(self).update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """Return the rates that were set last, one per group."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """Return the rate of each group for `last_epoch`. Subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__}: a schedule must define get_lr")

    def _current(self) -> list[Any]:
        return group_values(self.optimizer, "lr")

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(f"{type(self).__name__}: use get_last_lr() for the current rates", UserWarning, stacklevel=3)

    def step(self, epoch: int | None = None) -> None:
        """Advance to the next epoch and set the rates. Call it after the optimizer's `step`.

        Parameters
        ----------
        epoch : int, optional
            Deprecated. Advance to this epoch instead, with a warning.
        """
        if self._step_count == 1:
            self._warn_of_order()
        if epoch is not None:
            self._warn_of_epoch()
        self._step_count += 1
        self._update_lr(epoch)

    def _warn_of_order(self) -> None:
        """Warn if the optimizer has not been stepped before the second step of the schedule.

        The first step of the schedule is at construction.
        """
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warnings.warn("the optimizer's step was replaced after the schedule was made", UserWarning, stacklevel=3)
        elif not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "the schedule is stepped before the optimizer, so its first rate is not used: call optimizer.step() first",
                UserWarning, stacklevel=3,
            )  # fmt: skip

    def _warn_of_epoch(self) -> None:
        warnings.warn("step(epoch) is deprecated: call step() once an epoch", UserWarning, stacklevel=3)

    def _update_lr(self, epoch: int | None = None) -> None:
        """Advance to the next epoch, or to ``epoch``, and set the rates."""
        formula = self.get_lr
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            formula = getattr(self, "_get_closed_form_lr", formula)
        self.last_epoch = epoch
        with self._flag("_get_lr_called_within_step"):
            rates = formula()
        self._set_rates(rates)

    def _set_rates(self, rates: list[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            update_group(group, "lr", rate)
        self._last_lr = self._current()
