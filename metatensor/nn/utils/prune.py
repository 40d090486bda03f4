"""Pruning: multiplication of parameters by masks of zeros and ones before each call of a module."""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import metatensor as mt
from metatensor.nn.module import Module
from metatensor.nn.utils._norms import take_out
from metatensor.nn.utils.convert_parameters import parameters_to_vector

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


class BasePruningMethod(ABC):
    """Base class of pruning methods. An instance is also the forward pre-hook that applies the mask.

    A subclass defines `compute_mask` and ``PRUNING_TYPE``: "unstructured" (single elements), "structured" (slices along
    its ``dim``) or "global" (all elements, including those pruned before).
    """

    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: mt.Tensor, default_mask: mt.Tensor) -> mt.Tensor:
        """Return the mask for a tensor of importance scores.

        Elements that are 0 in ``default_mask`` must stay 0.
        """

    def apply_mask(self, module: Module) -> mt.Tensor:
        """Return the pruned tensor: the original times the mask."""
        original = getattr(module, f"{self._tensor_name}_orig")
        return getattr(module, f"{self._tensor_name}_mask").to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: mt.Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune a parameter, in addition to any earlier pruning, and return the pruning method.

        The parameter is renamed to ``{name}_orig``, and the mask becomes the buffer ``{name}_mask``. If an error occurs
        in the first pruning, the module is restored.

        Parameters
        ----------
        module : Module
            Module to change.
        name : str
            Name of the parameter.
        importance_scores : Tensor, optional
            Scores that the mask is computed from, of the shape of the parameter. Default: the parameter.
        *args, **kwargs
            Arguments of the pruning method.

        Raises
        ------
        AssertionError
            If ``importance_scores`` has another shape.
        """
        method = _on_top(cls(*args, **kwargs), module, name)
        first = not isinstance(method, PruningContainer)
        original = getattr(module, name)
        scores = original if importance_scores is None else importance_scores
        _same_shape(scores, original)
        if first:
            module.register_parameter(f"{name}_orig", original)
            del module._parameters[name]
            mask = mt.ones_like(original)
        else:
            mask = getattr(module, f"{name}_mask").detach().clone()
        try:
            module.register_buffer(f"{name}_mask", method.compute_mask(scores, default_mask=mask))
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if first:
                module.register_parameter(name, getattr(module, f"{name}_orig"))
                del module._parameters[f"{name}_orig"]
            raise
        return method

    def prune(
        self, t: mt.Tensor, default_mask: mt.Tensor | None = None, importance_scores: mt.Tensor | None = None
    ) -> mt.Tensor:
        """Return ``t`` times the mask that is computed from its importance scores, by default ``t`` itself."""
        scores = t if importance_scores is None else importance_scores
        _same_shape(scores, t)
        return t * self.compute_mask(scores, default_mask=mt.ones_like(t) if default_mask is None else default_mask)

    def remove(self, module: Module) -> None:
        """Make the pruning permanent: restore the parameter's name, with the pruned values."""
        name = self._tensor_name
        pruned = self.apply_mask(module)
        delattr(module, name)
        original = module._parameters.pop(f"{name}_orig")
        original.data = pruned.data
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


def _same_shape(scores: mt.Tensor, tensor: mt.Tensor) -> None:
    if scores.shape != tensor.shape:
        raise AssertionError(
            f"importance_scores must have the tensor's shape {list(tensor.shape)}, got {list(scores.shape)}"
        )


def _on_top(method: BasePruningMethod, module: Module, name: str) -> BasePruningMethod:
    """Return ``method``, or a container of it and the tensor's earlier methods. Remove the earlier methods' hooks."""
    before = [
        (key, hook)
        for key, hook in module._forward_pre_hooks.items()
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
    ]
    for key, _ in before:
        del module._forward_pre_hooks[key]
    method._tensor_name = name
    if not before:
        return method
    old = before[0][1]
    container = old if isinstance(old, PruningContainer) else PruningContainer(old)
    container.add_pruning_method(method)
    return container


class PruningContainer(BasePruningMethod):
    """Sequence of pruning methods of the same tensor."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if args:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Add a pruning method.

        Raise TypeError for another type of object and ValueError for a method of another tensor.
        """
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"PruningContainer: expected a pruning method, got {type(method).__name__}")
        if method._tensor_name != self._tensor_name:
            raise ValueError(f"PruningContainer: it prunes {self._tensor_name!r}, but the method prunes {method._tensor_name!r}")
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: mt.Tensor, default_mask: mt.Tensor) -> mt.Tensor:
        """Return ``default_mask`` with the additional zeros of the last method.

        The ``PRUNING_TYPE`` of that method determines to which part of the tensor it is applied.
        """
        method: Any = self._pruning_methods[-1]
        part: Any
        if method.PRUNING_TYPE == "unstructured":
            part = default_mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim + t.dim() if method.dim < 0 else method.dim
            if not 0 <= dim < t.dim():
                raise IndexError(f"pruning: dim={method.dim} is out of range for {t.dim()} dimensions")
            kept = default_mask.sum(dim=[d for d in range(t.dim()) if d != dim]) != 0
            part = tuple(kept if d == dim else slice(None) for d in range(t.dim()))
        elif method.PRUNING_TYPE == "global":
            part = (slice(None),) * t.dim()
        else:
            raise ValueError(f"PRUNING_TYPE is {method.PRUNING_TYPE!r}")
        mask = default_mask.to(t.dtype, copy=True)
        mask[part] = method.compute_mask(t[part], default_mask=default_mask[part]).to(mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Pruning method that prunes nothing: the mask consists of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: mt.Tensor, default_mask: mt.Tensor) -> mt.Tensor:
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> BasePruningMethod:  # type: ignore[override]
        return super().apply(module, name)


class _Some(BasePruningMethod):
    """Base of methods that prune ``amount`` units: a count, or a fraction in [0, 1]."""

    amount: Any

    def __init__(self, amount: Any) -> None:
        if not isinstance(amount, numbers.Real):
            raise TypeError(f"amount must be a number, not {amount!r}")
        self.amount = amount
        self._counted = isinstance(amount, numbers.Integral)
        if not 0 <= self.amount <= (math.inf if self._counted else 1):
            raise ValueError(f"amount must be a count of units or a fraction between 0 and 1, not {amount}")

    def _count(self, units: int) -> int:
        """Return the number of units to prune. Raise ValueError if there are fewer units."""
        count = self.amount if self._counted else round(self.amount * units)
        if count > units:
            raise ValueError(f"amount={self.amount} is more than the number of units, {units}")
        return int(count)


class _Elements(_Some):
    PRUNING_TYPE = "unstructured"

    def _importance(self, t: mt.Tensor) -> mt.Tensor:
        raise NotImplementedError

    def compute_mask(self, t: mt.Tensor, default_mask: mt.Tensor) -> mt.Tensor:
        count = self._count(t.numel())
        mask = default_mask.clone(memory_format=mt.contiguous_format)
        if count:
            least = mt.topk(self._importance(t).reshape(-1), k=count, largest=False).indices
            mask.view(-1)[least] = 0
        return mask


class RandomUnstructured(_Elements):
    """Pruning method that selects elements at random.

    Parameters
    ----------
    amount : int or float
        Number of elements, or their fraction in [0, 1].
    """

    def _importance(self, t: mt.Tensor) -> mt.Tensor:
        return mt.rand_like(t)

    @classmethod
    def apply(cls, module: Module, name: str, amount: Any) -> BasePruningMethod:  # type: ignore[override]
        return super().apply(module, name, amount=amount)


class L1Unstructured(_Elements):
    """Pruning method that selects the elements of smallest magnitude.

    Parameters
    ----------
    amount : int or float
        Number of elements, or their fraction in [0, 1].
    """

    def _importance(self, t: mt.Tensor) -> mt.Tensor:
        return t.abs()

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: Any, importance_scores: mt.Tensor | None = None
    ) -> BasePruningMethod:
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class _Slices(_Some):
    PRUNING_TYPE = "structured"
    dim: int

    def _importance(self, t: mt.Tensor) -> mt.Tensor:
        raise NotImplementedError

    def compute_mask(self, t: mt.Tensor, default_mask: mt.Tensor) -> mt.Tensor:
        if t.dim() <= 1:
            raise ValueError(f"structured pruning needs at least 2 dimensions, got shape {list(t.shape)}")
        if self.dim >= t.dim():
            raise IndexError(f"pruning: dim={self.dim} is out of range for {t.dim()} dimensions")
        count = self._count(t.shape[self.dim])
        if not count:
            return default_mask
        kept = mt.topk(self._importance(t), k=t.shape[self.dim] - count).indices
        mask = mt.zeros_like(t)
        mask[tuple(kept if d == self.dim % t.dim() else slice(None) for d in range(t.dim()))] = 1
        return mask * default_mask.to(dtype=mask.dtype)


class RandomStructured(_Slices):
    """Pruning method that selects slices at random.

    Parameters
    ----------
    amount : int or float
        Number of slices, or their fraction in [0, 1].
    dim : int
        Dimension of the slices. Default -1.
    """

    def __init__(self, amount: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def _importance(self, t: mt.Tensor) -> mt.Tensor:
        return mt.rand(t.shape[self.dim], device=t.device)

    @classmethod
    def apply(cls, module: Module, name: str, amount: Any, dim: int = -1) -> BasePruningMethod:  # type: ignore[override]
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(_Slices):
    """Pruning method that selects the slices of smallest norm.

    Parameters
    ----------
    amount : int or float
        Number of slices, or their fraction in [0, 1].
    n : int, float or str
        Order of the norm.
    dim : int
        Dimension of the slices. Default -1.
    """

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.n = n
        self.dim = dim

    def _importance(self, t: mt.Tensor) -> mt.Tensor:
        return mt.norm(t, p=self.n, dim=[d for d in range(t.dim()) if d != self.dim % t.dim()])

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: Any, n: Any, dim: int, importance_scores: mt.Tensor | None = None
    ) -> BasePruningMethod:
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Pruning method that applies a given mask.

    Parameters
    ----------
    mask : Tensor
        Zeros and ones, of the shape of the parameter.
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: mt.Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: mt.Tensor, default_mask: mt.Tensor) -> mt.Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(f"the mask must have shape {list(default_mask.shape)}, got {list(self.mask.shape)}")
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, mask: mt.Tensor) -> BasePruningMethod:  # type: ignore[override]
        return super().apply(module, name, mask=mask)


def identity(module: Module, name: str) -> Module:
    """Give a parameter a mask of ones. Return the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: Any) -> Module:
    """Prune elements of a parameter at random. Return the module.

    Parameters
    ----------
    module : Module
        Module to change.
    name : str
        Name of the parameter.
    amount : int or float
        Number of elements, or their fraction in [0, 1].
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: Any, importance_scores: mt.Tensor | None = None) -> Module:
    """Prune the elements of a parameter that have the smallest magnitudes. Return the module.

    Parameters
    ----------
    module : Module
        Module to change.
    name : str
        Name of the parameter.
    amount : int or float
        Number of elements, or their fraction in [0, 1].
    importance_scores : Tensor, optional
        Tensor of the parameter's shape whose magnitudes are compared instead of the parameter's.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.nn.utils import prune
    >>> layer = prune.l1_unstructured(mt.nn.Linear(4, 2, device="cpu"), "weight", amount=0.25)
    >>> int((layer.weight == 0).sum())
    2
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: Any, dim: int) -> Module:
    """Prune slices of a parameter at random. Return the module.

    Parameters
    ----------
    module : Module
        Module to change.
    name : str
        Name of the parameter.
    amount : int or float
        Number of slices, or their fraction in [0, 1].
    dim : int
        Dimension of the slices.
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: Any, n: Any, dim: int, importance_scores: mt.Tensor | None = None
) -> Module:
    """Prune the slices of a parameter that have the smallest norms. Return the module.

    Parameters
    ----------
    module : Module
        Module to change.
    name : str
        Name of the parameter.
    amount : int or float
        Number of slices, or their fraction in [0, 1].
    n : int, float or str
        Order of the norm.
    dim : int
        Dimension of the slices.
    importance_scores : Tensor, optional
        Tensor of the parameter's shape whose norms are compared instead of the parameter's.
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]], pruning_method: Any, importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prune elements of several parameters as if they were a single tensor.

    Parameters
    ----------
    parameters : iterable of pairs
        Pairs (module, name).
    pruning_method : type
        Unstructured pruning method, such as `L1Unstructured`.
    importance_scores : dict, optional
        Scores by pair (module, name). Default: the parameters.
    **kwargs
        Arguments of ``pruning_method``.

    Raises
    ------
    TypeError
        If ``parameters`` is not iterable, ``importance_scores`` is not a dict, or the method is not unstructured.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError(f"global_unstructured: expected pairs (module, name), got {type(parameters).__name__}")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError(f"global_unstructured: importance_scores must be a dict, not {type(scores).__name__}")
    pairs = list(parameters)
    tensors = [getattr(module, name) for module, name in pairs]
    masks = [getattr(module, f"{name}_mask", mt.ones_like(t)) for (module, name), t in zip(pairs, tensors)]
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(f"global_unstructured: {pruning_method.__name__} is {method.PRUNING_TYPE}, not unstructured")
    method._tensor_name = "all"
    together = parameters_to_vector([scores.get(pair, t) for pair, t in zip(pairs, tensors)])
    mask = PruningContainer(method).compute_mask(together, parameters_to_vector(masks))
    start = 0
    for (module, name), tensor in zip(pairs, tensors):
        custom_from_mask(module, name, mask=mask[start : start + tensor.numel()].view_as(tensor))
        start += tensor.numel()


def custom_from_mask(module: Module, name: str, mask: mt.Tensor) -> Module:
    """Prune the elements of a parameter at which ``mask`` is zero. Return the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Module, name: str) -> Module:
    """Make the pruning of a parameter permanent. Return the module. Raise ValueError if the parameter is not pruned."""
    take_out(module, f"{name!r} is not pruned", lambda hook: isinstance(hook, BasePruningMethod) and hook._tensor_name == name)
    return module


def is_pruned(module: Module) -> bool:
    """Return True if the module or a submodule has a pruning hook."""
    return any(
        isinstance(hook, BasePruningMethod) for found in module.modules() for hook in found._forward_pre_hooks.values()
    )
