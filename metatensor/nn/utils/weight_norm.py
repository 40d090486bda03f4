"""Weight normalization by a forward pre-hook. `parametrizations.weight_norm` is its successor."""

from __future__ import annotations

import warnings
from typing import Any

from metatensor.nn.module import Module
from metatensor.nn.parameter import Parameter, is_lazy
from metatensor.nn.utils._norms import norm_except_dim, take_out, weight_of

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


class WeightNorm:
    """Forward pre-hook that computes the weight ``name`` from the parameters ``{name}_g`` and ``{name}_v``."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Any:
        """Return the weight: ``{name}_v`` rescaled to the norms ``{name}_g``."""
        return weight_of(getattr(module, f"{self.name}_v"), getattr(module, f"{self.name}_g"), self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Replace a weight by its norms and directions, and register the hook."""
        if any(isinstance(hook, WeightNorm) and hook.name == name for hook in module._forward_pre_hooks.values()):
            raise RuntimeError(f"{type(module).__name__}: {name!r} has a weight norm already")
        hook = WeightNorm(name, dim)
        weight = getattr(module, name)
        if is_lazy(weight):
            raise ValueError(f"{type(module).__name__}: {name!r} has no shape yet; call the module with an input first")
        del module._parameters[name]
        module.register_parameter(f"{name}_g", Parameter(norm_except_dim(weight.data, hook.dim)))
        module.register_parameter(f"{name}_v", Parameter(weight.data))
        setattr(module, name, hook.compute_weight(module))
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module: Module) -> None:
        """Restore the weight as a single parameter."""
        whole = Parameter(self.compute_weight(module).data)
        for part in ("", "_g", "_v"):
            delattr(module, self.name + part)
        module.register_parameter(self.name, whole)

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Compute a weight from its norms and directions before each call (Salimans and Kingma, 2016).

    The norms are the parameter ``{name}_g`` and the directions ``{name}_v``. Deprecated: calling it emits a
    FutureWarning. Use `parametrizations.weight_norm`.

    Parameters
    ----------
    module : Module
        Module to change.
    name : str
        Name of the parameter. Default "weight".
    dim : int, optional
        Dimension along which each slice has its own norm. Default 0. None means a single norm.

    Returns
    -------
    Module
        ``module``.

    Raises
    ------
    RuntimeError
        If the weight has a weight norm already.
    ValueError
        If the weight is uninitialized.
    """
    warnings.warn("weight_norm is deprecated: use parametrizations.weight_norm", FutureWarning, stacklevel=2)
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Remove a weight norm and return the module. Raise ValueError if there is none."""
    take_out(module, f"{name!r} has no weight norm", lambda hook: isinstance(hook, WeightNorm) and hook.name == name)
    return module
