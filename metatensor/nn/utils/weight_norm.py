"""Weight normalisation by a hook before each forward; `parametrizations.weight_norm` is the newer one."""

from __future__ import annotations

import warnings
from typing import Any

from metatensor.nn.module import Module
from metatensor.nn.parameter import Parameter, is_lazy
from metatensor.nn.utils._norms import norm_except_dim, take_out, weight_of

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


class WeightNorm:
    """The hook: sets the weight ``name`` from the parameters ``name_g`` and ``name_v``."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Any:
        """The weight: ``name_v`` with the norms ``name_g``."""
        return weight_of(getattr(module, f"{self.name}_v"), getattr(module, f"{self.name}_g"), self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Replace a weight by norm and direction, and register the hook."""
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
        """Put the weight back as one parameter."""
        whole = Parameter(self.compute_weight(module).data)
        for part in ("", "_g", "_v"):
            delattr(module, self.name + part)
        module.register_parameter(self.name, whole)

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Compute a weight from its norms along ``dim``, ``name_g``, and directions, ``name_v`` (Salimans and Kingma, 2016).

    One norm for all where ``dim`` is None. Deprecated, and warns. RuntimeError where it is done already.
    """
    warnings.warn("weight_norm is deprecated: use parametrizations.weight_norm", FutureWarning, stacklevel=2)
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Undo `weight_norm`; ValueError where there is none."""
    take_out(module, f"{name!r} has no weight norm", lambda hook: isinstance(hook, WeightNorm) and hook.name == name)
    return module
