"""Policies, which select the submodules to shard separately."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import metatensor as mt
from metatensor._core.absent import function

__all__ = ["CustomPolicy", "ModuleWrapPolicy", "always_wrap_policy", "enable_wrap", "lambda_auto_wrap_policy",
           "size_based_auto_wrap_policy", "transformer_auto_wrap_policy", "wrap"]  # fmt: skip


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Return True."""
    return True


def lambda_auto_wrap_policy(module: Any, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Any], bool]) -> bool:
    """Return ``lambda_fn(module)``, or True while recursing."""
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(module: Any, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: Iterable[type]) -> bool:
    """Return True while recursing, else whether the module is an instance of one of the classes."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Any, recurse: bool, nonwrapped_numel: int, min_num_params: int = int(1e8),
    force_leaf_modules: set[type] | None = None, exclude_wrap_modules: set[type] | None = None,
) -> bool:  # fmt: skip
    """Return True if a module has at least ``min_num_params`` unwrapped parameters and is not excluded by its class.

    The excluded classes are ``force_leaf_modules`` while recursing, else ``exclude_wrap_modules``.
    """
    large = nonwrapped_numel >= min_num_params
    name = "FORCE_LEAF_MODULES" if recurse else "EXCLUDE_WRAP_MODULES"
    given = force_leaf_modules if recurse else exclude_wrap_modules
    kinds = getattr(size_based_auto_wrap_policy, name) if given is None else given
    return large and not isinstance(module, tuple(kinds))


size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES = {mt.nn.ModuleList, mt.nn.ModuleDict}  # type: ignore[attr-defined]
size_based_auto_wrap_policy.FORCE_LEAF_MODULES = {mt.nn.MultiheadAttention}  # type: ignore[attr-defined]


def _or_policy(module: Any, recurse: bool, nonwrapped_numel: int, policies: Iterable[Callable[..., bool]]) -> bool:
    """Return True if any of the policies returns True."""
    return any(policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel) for policy in policies)


class ModuleWrapPolicy:
    """A policy that selects modules of the given classes."""

    def __init__(self, module_classes: Iterable[type]) -> None:
        self._module_classes = set(module_classes)

    def __call__(self, module: Any, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return recurse or isinstance(module, tuple(self._module_classes))


class CustomPolicy:
    """A policy defined by a function that returns True, False or a dict of settings for a module."""

    def __init__(self, lambda_fn: Callable[[Any], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn


def wrap(module: Any, **wrap_overrides: Any) -> Any:
    """Return ``module`` unchanged, as PyTorch does outside `enable_wrap`."""
    return module


enable_wrap = function("distributed.fsdp.wrap.enable_wrap", "metatensor has no communication between processes")
