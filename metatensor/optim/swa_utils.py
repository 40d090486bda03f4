"""Averages of a model's weights along training (Izmailov et al., 2018, arXiv:1803.05407)."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import metatensor as mt
from metatensor.optim._lr_base import LRScheduler, to_group

__all__ = [
    "AveragedModel", "SWALR", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn", "update_bn",
]  # fmt: skip


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """A function that moves lists of averages towards current values by the share ``1 - decay``."""
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"decay must be between 0 and 1, got {decay}")

    @mt.no_grad()
    def ema_update(ema_param_list: list[Any], current_param_list: list[Any], _: Any) -> None:
        for average, current in zip(ema_param_list, current_param_list, strict=True):
            if average.is_floating_point() or average.is_complex():
                average.lerp_(current, 1 - decay)
            else:
                average.copy_(average * decay + current * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """A function that takes current values into lists of averages of ``num_averaged`` earlier ones."""

    @mt.no_grad()
    def swa_update(averaged_param_list: list[Any], current_param_list: list[Any], num_averaged: Any) -> None:
        for average, current in zip(averaged_param_list, current_param_list, strict=True):
            if average.is_floating_point() or average.is_complex():
                average.lerp_(current, 1 / (float(num_averaged) + 1))
            else:
                average.add_((current - average) / (float(num_averaged) + 1))

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Any]:
    """A function that gives ``decay`` of an average and the rest of a current value."""
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"decay must be between 0 and 1, got {decay}")

    @mt.no_grad()
    def ema_update(ema_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable[..., Any]:
    """A function that gives the average of ``num_averaged`` values, of which the average is known, and one more."""

    @mt.no_grad()
    def swa_update(averaged_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(mt.nn.Module):
    """A copy of a model whose parameters are averages: `update_parameters` takes the model's current ones in.

    ``use_buffers`` averages buffers too; otherwise they are copied.
    """

    def __init__(
        self, model: Any, device: Any = None, avg_fn: Callable[..., Any] | None = None,
        multi_avg_fn: Callable[..., None] | None = None, use_buffers: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("AveragedModel: give avg_fn or multi_avg_fn, not both")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", mt.tensor(0, dtype=mt.long, device="cpu" if device is None else device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged copy gives."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Any) -> None:
        """Take the current parameters of ``model`` into the averages."""
        mine, theirs = (
            list(itertools.chain(m.parameters(), m.buffers()) if self.use_buffers else m.parameters()) for m in (self.module, model)
        )
        pairs = [(a.detach(), c.detach().to(a.device)) for a, c in zip(mine, theirs, strict=True)]
        counted = self.n_averaged.untyped_storage().data is not None
        if counted and self.n_averaged == 0:
            for average, current in pairs:
                average.copy_(current)
        elif self.avg_fn is not None:
            for average, current in pairs:
                average.copy_(self.avg_fn(average, current, self.n_averaged.to(average.device)))
        elif pairs:
            update = self.multi_avg_fn or get_swa_multi_avg_fn()
            update([a for a, _ in pairs], [c for _, c in pairs], self.n_averaged if counted else 1)
        if not self.use_buffers:
            for buffer, current in zip(self.module.buffers(), model.buffers(), strict=True):
                buffer.detach().copy_(current.detach().to(buffer.device))
        self.n_averaged += 1


@mt.no_grad()
def update_bn(loader: Iterable[Any], model: Any, device: Any = None) -> None:
    """Compute the running statistics of a model's batch norms anew, over the batches of ``loader``."""
    momenta = {}
    for module in model.modules():
        if isinstance(module, mt.nn.modules.batchnorm._BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.momentum = None
    for batch in loader:
        first = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(first if device is None else first.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """The rate to ``swa_lr`` in ``anneal_epochs`` epochs, and then that."""

    def __init__(
        self, optimizer: Any, swa_lr: Any, anneal_epochs: int = 10, anneal_strategy: str = "cos", last_epoch: int = -1
    ) -> None:
        for lr, group in zip(to_group("SWALR: swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True):
            group["swa_lr"] = lr
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"SWALR: anneal_strategy must be cos or linear, got {anneal_strategy!r}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"SWALR: anneal_epochs must be an int that is not negative, got {anneal_epochs}")
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _done(self, step: int) -> float:
        """How much of the way is covered after ``step`` steps, from 0 to 1."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[Any]:
        if not self._get_lr_called_within_step:
            warnings.warn("SWALR: use get_last_lr() for the current rates", UserWarning, stacklevel=2)
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._done(max(0, step - 1)), self._done(step)
        rates = []
        for group in self.optimizer.param_groups:
            target = group["swa_lr"]
            first = target if before == 1 else (group["lr"] - before * target) / (1 - before)
            rates.append(target * now + first * (1 - now))
        return rates
