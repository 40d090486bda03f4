"""Optimizers, learning rate schedules and weight averaging.

An optimizer reads gradients from `Tensor.grad` and updates parameters in place. Each one is an `UpdateRule`, which
declares hyperparameters with their ranges, state tensors and the formula that updates one parameter. `Optimizer`
provides parameter groups, checks, state dicts and hooks.

Most optimizers share these parameters:

Parameters
----------
params : iterable
    Tensors, (name, tensor) pairs, or dicts. A dict is a parameter group: it has tensors or pairs under "params" and
    may set any hyperparameter of the optimizer.
lr : float or Tensor
    Learning rate, not negative. A tensor has 1 element.
weight_decay : float
    Multiple of the parameter that is added to the gradient.
maximize : bool
    Follow the gradient upwards instead of downwards. Default False.
differentiable : bool
    Keep gradient recording on during the update. Default False.
capturable : bool
    Keep the step counter on the device of the parameter, which must be an accelerator. Default False.
foreach, fused : bool, optional
    Choose an implementation in PyTorch. metatensor has only one, so results do not depend on these arguments.

Examples
--------
>>> import metatensor as mt
>>> p = mt.nn.Parameter(mt.tensor([1.0], device="cpu"))
>>> optimizer = mt.optim.SGD([p], lr=0.1)
>>> p.grad = mt.tensor([2.0], device="cpu")
>>> optimizer.step()
>>> p.data
tensor([0.8000])
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
