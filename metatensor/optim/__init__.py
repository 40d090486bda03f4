"""Optimizers, learning rate schedules and weight averaging. An optimizer reads gradients from `Tensor.grad`.

Each optimizer is an `UpdateRule`: it declares its hyperparameters with their ranges, its state tensors and the formula that
updates one parameter. Parameter groups, checks, state dicts and hooks are those of `Optimizer`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from metatensor.optim.optimizer import Optimizer

_MODULES = {
    "ASGD": "asgd", "Adadelta": "adadelta", "Adafactor": "_adafactor", "Adagrad": "adagrad", "Adam": "adam", "AdamW": "adamw",
    "Adamax": "adamax", "LBFGS": "lbfgs", "Muon": "_muon", "NAdam": "nadam", "RAdam": "radam", "RMSprop": "rmsprop",
    "Rprop": "rprop", "SGD": "sgd", "SparseAdam": "sparse_adam", "swap_in_optimizer_params_and_state": "_swap",
}  # fmt: skip
_PUBLIC_MODULES = ("lr_scheduler", "optimizer", "swa_utils")

__all__ = ["Optimizer", *_MODULES]


def __getattr__(name: str) -> Any:
    found: Any
    if name in _MODULES:
        found = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    elif name in _PUBLIC_MODULES or name in _MODULES.values():
        found = import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module 'optim' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_PUBLIC_MODULES})
