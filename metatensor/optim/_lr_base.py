"""The base of learning rate schedules."""

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

__all__ = ["LRScheduler", "group_values", "to_group", "update_group"]


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, mt.Tensor) else value


def group_values(optimizer: Any, key: str) -> list[Any]:
    """What each group of an optimizer has under ``key``; tensors are copied."""
    return [_copied(group[key]) for group in optimizer.param_groups]


def update_group(group: dict[str, Any], key: str, value: Any) -> None:
    """Set ``group[key]``, in place where it is a tensor."""
    if isinstance(group[key], mt.Tensor):
        group[key].fill_(value.item() if isinstance(value, mt.Tensor) else value)
    else:
        group[key] = value


def to_group(name: str, optimizer: Any, value: Any) -> list[Any]:
    """``value`` for each group: itself, or, where it is a list or tuple, its elements, of which there must be as many."""
    if not isinstance(value, (list, tuple)):
        return [value] * len(optimizer.param_groups)
    if len(value) != len(optimizer.param_groups):
        raise ValueError(f"{name} has {len(value)} values for {len(optimizer.param_groups)} parameter groups")
    return list(value)


def _track_steps(optimizer: Any) -> None:
    """Note on the optimizer that `step` was called, once it is."""
    step = optimizer.step
    if hasattr(step, "_wrapped_by_lr_sched"):
        return
    owner = ref(optimizer)
    func = step.__func__

    @functools.wraps(func)
    def tracked(*args: Any, **kwargs: Any) -> Any:
        found = owner()
        found._opt_called = True  # type: ignore[union-attr]
        return func(found, *args, **kwargs)

    tracked._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = tracked


class LRScheduler:
    """Sets the learning rate of each group of an optimizer at each `step`: override `get_lr`.

    A new schedule starts at epoch 0. To resume one give the ``last_epoch`` reached; the groups must have an "initial_lr".
    """

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = self._checked(optimizer)
        if last_epoch == -1:
            for group in optimizer.param_groups:
                group.setdefault("initial_lr", _copied(group["lr"]))
        else:
            for i, group in enumerate(optimizer.param_groups):
                if "initial_lr" not in group:
                    raise KeyError(f"{type(self).__name__}: group {i} has no initial_lr, which resuming at epoch {last_epoch} needs")
        self.base_lrs = group_values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _track_steps(optimizer)
        self._initial_step()

    def _checked(self, optimizer: Any) -> Any:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(self).__name__}: expected an optimizer, got {type(optimizer).__name__}")
        return optimizer

    def _initial_step(self) -> None:
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
        """Everything but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates that were set last."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The rate of each group for `last_epoch`."""
        raise NotImplementedError(f"{type(self).__name__}: a schedule must define get_lr")

    def _current(self) -> list[Any]:
        return group_values(self.optimizer, "lr")

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(f"{type(self).__name__}: use get_last_lr() for the current rates", UserWarning, stacklevel=3)

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch, or to ``epoch``, and set the rates."""
        if self._step_count == 1:
            if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
                warnings.warn("the optimizer's step was replaced after the schedule was made", UserWarning, stacklevel=2)
            elif not getattr(self.optimizer, "_opt_called", False):
                warnings.warn(
                    "the schedule steps before the optimizer: its first rate is left out. Call optimizer.step() first",
                    UserWarning, stacklevel=2,
                )  # fmt: skip
        self._step_count += 1
        if epoch is not None:
            warnings.warn("step(epoch) is deprecated: call step() once an epoch", UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        with self._flag("_get_lr_called_within_step"):
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                values = self._get_closed_form_lr() if hasattr(self, "_get_closed_form_lr") else self.get_lr()
        for group, lr in zip(self.optimizer.param_groups, values, strict=True):
            update_group(group, "lr", lr)
        self._last_lr = group_values(self.optimizer, "lr")


def functions_packed(functions: list[Any]) -> list[Any]:
    """The attributes of callable objects, for a state; None for functions, which cannot be saved."""
    return [None if isinstance(f, types.FunctionType) else f.__dict__.copy() for f in functions]
