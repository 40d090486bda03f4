"""Spectral normalization by a forward pre-hook. `parametrizations.spectral_norm` is its successor."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.nn import functional as F
from metatensor.nn._parameter import without_grad
from metatensor.nn.module import Module
from metatensor.nn.modules.conv import _ConvTransposeNd
from metatensor.nn.parameter import Parameter, is_lazy
from metatensor.nn.utils._norms import as_matrix, take_out

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]


def default_dim(module: Module, dim: int | None) -> int:
    """Return the dimension of the outputs of a module's weight: 1 for transposed convolutions, else 0."""
    return (1 if isinstance(module, _ConvTransposeNd) else 0) if dim is None else dim


class SpectralNorm:
    """Forward pre-hook that sets the weight ``name`` to ``{name}_orig`` divided by its largest singular value.

    The singular value is estimated by power iteration. In training mode each call continues from the vectors of the
    previous call.
    """

    _version = 1

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        if n_power_iterations <= 0:
            raise ValueError(f"spectral_norm: n_power_iterations must be positive, not {n_power_iterations}")
        self.name = name
        self.n_power_iterations = n_power_iterations
        self.dim = dim
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: mt.Tensor) -> mt.Tensor:
        """Return the weight as a matrix with one row per output."""
        return as_matrix(weight, self.dim)

    def _iterate(self, matrix: mt.Tensor, u: mt.Tensor, v: mt.Tensor) -> None:
        for _ in range(self.n_power_iterations):
            v.copy_(F.normalize(mt.mv(matrix.t(), u), dim=0, eps=self.eps))
            u.copy_(F.normalize(mt.mv(matrix, v), dim=0, eps=self.eps))

    def compute_weight(self, module: Module, do_power_iteration: bool) -> mt.Tensor:
        """Return the normalized weight. Update the vectors first if ``do_power_iteration``."""
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            without_grad(self._iterate, matrix, u, v)
            u, v = u.clone(), v.clone()
        return weight / mt.dot(u, mt.mv(matrix, v))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Replace a parameter by the original and the vectors of the iteration, and register the hook."""
        if any(isinstance(hook, SpectralNorm) and hook.name == name for hook in module._forward_pre_hooks.values()):
            raise RuntimeError(f"{type(module).__name__}: {name!r} has a spectral norm already")
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None or is_lazy(weight):
            raise ValueError(f"{type(module).__name__}: {name!r} is None or has no shape yet")
        vectors = [weight.new_empty(n).normal_(0, 1) for n in hook.reshape_weight_to_matrix(weight.detach()).shape]
        delattr(module, name)
        module.register_parameter(f"{name}_orig", weight)
        setattr(module, name, weight.data)
        for part, vector in zip("uv", vectors):
            module.register_buffer(f"{name}_{part}", F.normalize(vector, dim=0, eps=eps))
        module.register_forward_pre_hook(hook)
        module._register_state_dict_hook(_SaveVersion(hook))
        return hook

    def remove(self, module: Module) -> None:
        """Restore the weight as a single parameter."""
        weight = without_grad(self.compute_weight, module, False)
        for name in (self.name, *(f"{self.name}_{part}" for part in ("u", "v", "orig"))):
            delattr(module, name)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))


class _SaveVersion:
    """Hook that adds the version to the metadata of a state dict, in PyTorch's format."""

    def __init__(self, hook: SpectralNorm) -> None:
        self.hook = hook

    def __call__(self, module: Module, state_dict: Any, prefix: str, local_metadata: dict[str, Any]) -> None:
        local_metadata.setdefault("spectral_norm", {})[f"{self.hook.name}.version"] = SpectralNorm._version


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its largest singular value before each call (Miyato et al., 2018).

    See `parametrizations.spectral_norm` for the parameters.

    Returns
    -------
    Module
        ``module``.

    Raises
    ------
    RuntimeError
        If the weight has a spectral norm already.
    ValueError
        If ``n_power_iterations`` is not positive or the weight is None or uninitialized.

    Examples
    --------
    >>> import metatensor as mt
    >>> sorted(mt.nn.utils.spectral_norm(mt.nn.Linear(3, 2)).state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    SpectralNorm.apply(module, name, n_power_iterations, default_dim(module, dim), eps)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Remove a spectral norm and return the module. Raise ValueError if there is none."""
    norm = take_out(module, f"{name!r} has no spectral norm", lambda hook: isinstance(hook, SpectralNorm) and hook.name == name)
    hooks = module._state_dict_hooks
    for key in [key for key, hook in hooks.items() if isinstance(hook, _SaveVersion) and hook.hook is norm]:
        del hooks[key]
    return module
