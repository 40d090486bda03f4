"""Optimizers, learning rate schedules and weight averaging. An optimizer reads gradients from `Tensor.grad`.

Each optimizer is an `UpdateRule`: it declares its hyperparameters with their ranges, its state tensors and the formula that
updates one parameter. Parameter groups, checks, state dicts and hooks are those of `Optimizer`.
"""

from metatensor._core.lazy import attributes
from metatensor.optim.optimizer import Optimizer

_MODULES = {
    "ASGD": "asgd", "Adadelta": "adadelta", "Adafactor": "_adafactor", "Adagrad": "adagrad", "Adam": "adam", "AdamW": "adamw",
    "Adamax": "adamax", "LBFGS": "lbfgs", "Muon": "_muon", "NAdam": "nadam", "RAdam": "radam", "RMSprop": "rmsprop",
    "Rprop": "rprop", "SGD": "sgd", "SparseAdam": "sparse_adam", "swap_in_optimizer_params_and_state": "_swap",
}  # fmt: skip

__all__ = ["Optimizer", *_MODULES]

__getattr__, __dir__ = attributes(
    __name__,
    (*_MODULES.values(), "lr_scheduler", "optimizer", "swa_utils"),
    {name: f"{__name__}.{module}:{name}" for name, module in _MODULES.items()},
)
