"""Optimizers, their learning rate schedules, and averages of weights. Gradients are what stands in `Tensor.grad`."""

from metatensor._core.lazy import attributes
from metatensor.torch_api.torch.optim.optimizer import Optimizer

_MODULES = {
    "ASGD": "asgd", "Adadelta": "adadelta", "Adafactor": "_adafactor", "Adagrad": "adagrad", "Adam": "adam", "AdamW": "adamw",
    "Adamax": "adamax", "LBFGS": "lbfgs", "NAdam": "nadam", "RAdam": "radam", "RMSprop": "rmsprop", "Rprop": "rprop",
    "SGD": "sgd",
}  # fmt: skip

__all__ = ["Optimizer", *_MODULES]

__getattr__, __dir__ = attributes(
    __name__,
    (*_MODULES.values(), "lr_scheduler", "optimizer", "swa_utils"),
    {name: f"{__name__}.{module}:{name}" for name, module in _MODULES.items()},
)
