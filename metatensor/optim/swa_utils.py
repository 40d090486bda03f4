"""Averaging of a model's weights during training (Izmailov et al., 2018, arXiv:1803.05407)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

import metatensor as mt
from metatensor.optim._cycles import _ANNEALING, annealing
from metatensor.optim._schedule import LRScheduler, per_group
from metatensor.optim._third_party import has_data

__all__ = [
    "AveragedModel", "SWALR", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn", "update_bn",
]  # fmt: skip


def _move_all(averages: Iterable[Any], current: Iterable[Any], share: float) -> None:
    """Move averages in place towards current values, by a fraction of the distance."""
    for average, value in zip(averages, current, strict=True):
        if average.is_floating_point() or average.is_complex():
            average.lerp_(value, share)
        else:
            average.copy_(average * (1 - share) + value * share)


def _check_decay(function: str, decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"{function}: decay must be in [0, 1], got {decay}")


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """Return a function that updates a list of exponential moving averages in place, for `AveragedModel`."""
    _check_decay("get_ema_multi_avg_fn", decay)
    return mt.no_grad()(lambda averages, current, num_averaged: _move_all(averages, current, 1 - decay))  # type: ignore[no-any-return]


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """Return a function that updates a list of means of ``num_averaged`` values in place, for `AveragedModel`."""
    return mt.no_grad()(lambda averages, current, num_averaged: _move_all(averages, current, 1 / (float(num_averaged) + 1)))  # type: ignore[no-any-return]


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Any]:
    """Return a function that computes the next value of an exponential moving average, for `AveragedModel`."""
    _check_decay("get_ema_avg_fn", decay)
    return mt.no_grad()(lambda average, current, num_averaged: decay * average + (1 - decay) * current)  # type: ignore[no-any-return]


def get_swa_avg_fn() -> Callable[..., Any]:
    """Return a function that computes the mean of ``num_averaged`` values and one more, for `AveragedModel`."""
    return mt.no_grad()(lambda average, current, num_averaged: average + (current - average) / (num_averaged + 1))  # type: ignore[no-any-return]


class AveragedModel(mt.nn.Module):
    """Copy of a model whose parameters are averages of the model's parameters over time.

    Parameters
    ----------
    model : Module
        Model to copy.
    device : optional
        Device of the copy. Default: that of the model.
    avg_fn : callable, optional
        ``avg_fn(average, current, num_averaged)`` returns the new average of one parameter. Default: the mean.
    multi_avg_fn : callable, optional
        ``multi_avg_fn(averages, current, num_averaged)`` updates a list of averages in place. Only one of the two
        functions may be given.
    use_buffers : bool
        Average buffers too, instead of copying their current values. Default False.

    Raises
    ------
    AssertionError
        If both functions are given.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.optim.swa_utils import AveragedModel
    >>> model = mt.nn.Linear(1, 1, bias=False, device="cpu")
    >>> averaged = AveragedModel(model)
    >>> for value in (1.0, 3.0):
    ...     _ = mt.nn.init.constant_(model.weight, value)
    ...     averaged.update_parameters(model)
    >>> averaged.module.weight.item()
    2.0
    """

    def __init__(
        self, model: Any, device: Any = None, avg_fn: Callable[..., Any] | None = None,
        multi_avg_fn: Callable[..., None] | None = None, use_buffers: bool = False,
    ) -> None:  # fmt: skip
        if avg_fn and multi_avg_fn:
            raise AssertionError("AveragedModel: give avg_fn or multi_avg_fn, not both")
        super().__init__()
        copy = deepcopy(model)
        self.module = copy if device is None else copy.to(device)
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers
        self.n_averaged: Any
        self.register_buffer("n_averaged", mt.zeros((), dtype=mt.int64, device=device or "cpu"))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the averaged copy."""
        return self.module(*args, **kwargs)

    def _averaged(self, model: Any) -> list[Any]:
        """Return the tensors of a model that are averaged."""
        buffers = model.buffers() if self.use_buffers else ()
        return [tensor.detach() for tensor in chain(model.parameters(), buffers)]

    def update_parameters(self, model: Any) -> None:
        """Update the averages with the current parameters of ``model``. The first call copies them."""
        averages = self._averaged(self.module)
        current = [value.to(average.device) for average, value in zip(averages, self._averaged(model), strict=True)]
        counted = has_data(self.n_averaged)
        if counted and self.n_averaged == 0:
            _copy_all(averages, current)
        elif self.avg_fn is not None:
            count = self.n_averaged
            _copy_all(averages, [self.avg_fn(a, c, count.to(a.device)) for a, c in zip(averages, current, strict=True)])
        elif averages:
            (self.multi_avg_fn or get_swa_multi_avg_fn())(averages, current, self.n_averaged if counted else 1)
        if not self.use_buffers:
            _copy_all(self.module.buffers(), model.buffers())
        self.n_averaged += 1


def _copy_all(targets: Iterable[Any], sources: Iterable[Any]) -> None:
    for target, source in zip(targets, sources, strict=True):
        target.detach().copy_(source.detach())


@mt.no_grad()
def update_bn(loader: Iterable[Any], model: Any, device: Any = None) -> None:
    """Recompute the running statistics of all batch norm layers of a model.

    Parameters
    ----------
    loader : iterable
        Batches. Each is the argument of the model, or a list or tuple whose first element is the argument.
    model : Module
        Model, which is called in training mode.
    device : optional
        Move batches to this device first.
    """
    norms = [module for module in model.modules() if isinstance(module, mt.nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    momenta, training = [norm.momentum for norm in norms], model.training
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # mean over all batches
    model.train()
    for batch in loader:
        batch = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(batch.to(device) if device is not None else batch)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """Move the rate to ``swa_lr`` in ``anneal_epochs`` epochs and keep it there.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose rates are set.
    swa_lr : float or list of float
        Final rate, for all parameter groups or one per group. It is stored in the groups.
    anneal_epochs : int
        Epochs until the final rate. Default 10.
    anneal_strategy : str
        "cos" (the default) or "linear".
    last_epoch : int
        Epoch to resume at. Default -1 for a new schedule.

    Raises
    ------
    ValueError
        If ``anneal_epochs`` is not a nonnegative int or the strategy is unknown.

    Examples
    --------
    >>> import metatensor as mt
    >>> optimizer = mt.optim.SGD([mt.nn.Parameter(mt.zeros(1))], lr=0.8)
    >>> schedule = mt.optim.swa_utils.SWALR(optimizer, swa_lr=0.2, anneal_epochs=2, anneal_strategy="linear")
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.8, 0.5, 0.2, 0.2]
    """

    def __init__(
        self, optimizer: Any, swa_lr: Any, anneal_epochs: int = 10, anneal_strategy: str = "cos", last_epoch: int = -1
    ) -> None:
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"SWALR: anneal_epochs must be a non-negative int, got {anneal_epochs}")
        self.anneal_epochs, self._anneal_strategy = anneal_epochs, annealing(self, anneal_strategy)
        for lr, group in zip(per_group("SWALR: swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True):
            group["swa_lr"] = lr
        super().__init__(optimizer, last_epoch)

    def _done(self, step: int) -> float:
        """Return the fraction of the way covered after a number of steps."""
        passed = max(0, step) / self.anneal_epochs if self.anneal_epochs else float(step > 0)
        return _ANNEALING[self._anneal_strategy](min(1.0, passed))

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        step = self._step_count - 1
        if not self.anneal_epochs:
            step = max(1, step)
        before, now = self._done(step - 1), self._done(step)
        rates = []
        for group in self.optimizer.param_groups:
            rate, target = group["lr"], group["swa_lr"]
            # With the first rate f, the rate is f + before * (target - f) and becomes f + now * (target - f).
            rates.append(target if before == 1 else rate + (target - rate) * (now - before) / (1 - before))
        return rates
