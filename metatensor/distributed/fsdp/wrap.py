"""Policies, which select the submodules to shard separately."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import metatensor as mt

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


_wrapping: ContextVar[tuple[Callable[..., Any], dict[str, Any]] | None] = ContextVar("wrapping", default=None)


@contextmanager
def enable_wrap(*, wrapper_cls: Callable[..., Any], **wrapper_kwargs: Any) -> Iterator[None]:
    """Context manager inside which `wrap` wraps modules with ``wrapper_cls(module, **wrapper_kwargs)``."""
    token = _wrapping.set((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _wrapping.reset(token)


def wrap(module: Any, **wrap_overrides: Any) -> Any:
    """Return ``module`` wrapped as `enable_wrap` says, or unchanged outside of it.

    ``wrap_overrides`` replace settings.
    """
    found = _wrapping.get()
    return module if found is None else found[0](module, **{**found[1], **wrap_overrides})


def wrap_children(module: Any, policy: Any, wrapper: Callable[..., Any], ignored: set[int], ignored_parameters: set[int]) -> int:
    """Replace the submodules of a module that a policy selects by wrapped ones, from the inside out.

    Parameters
    ----------
    module : Module
        The module, which is not wrapped itself.
    policy : CustomPolicy or callable
        What selects the modules. A callable gets a module, whether its submodules are to be searched, and the number of elements
        of its parameters that are not wrapped yet.
    wrapper : callable
        ``wrapper(module, **settings)`` returns the wrapped module.
    ignored, ignored_parameters : set of int
        The ids of modules and parameters that are left out.

    Returns
    -------
    int
        The number of elements of the parameters of wrapped modules.
    """
    done: dict[int, Any] = {}

    def visit(inner: Any) -> int:
        wrapped = 0
        for child in list(inner._modules.values()):
            if child is None or id(child) in ignored or isinstance(child, _classes(wrapper)):
                continue
            if id(child) in done:
                _replace(inner, child, done[id(child)])
                continue
            count = sum(p.numel() for p in child.parameters() if id(p) not in ignored_parameters)
            if not _selects(policy, child, True, count):
                continue
            below = visit(child)
            chosen = _selects(policy, child, False, count - below)
            if chosen is False:
                wrapped += below
                continue
            done[id(child)] = wrapper(child, **(chosen if isinstance(chosen, dict) else {}))
            _replace(inner, child, done[id(child)])
            wrapped += count
        return wrapped

    return visit(module)


def _classes(wrapper: Any) -> tuple[type, ...]:
    found = getattr(wrapper, "func", wrapper)
    return (found,) if isinstance(found, type) else ()


def _replace(parent: Any, child: Any, wrapped: Any) -> None:
    for name, found in parent._modules.items():
        if found is child:
            parent._modules[name] = wrapped


def _selects(policy: Any, module: Any, recurse: bool, count: int) -> bool | dict[str, Any]:
    if isinstance(policy, CustomPolicy):
        if recurse:
            return True
        found = policy._lambda_fn(module)
        if not isinstance(found, (bool, dict)):
            raise ValueError(f"CustomPolicy: the function must return a bool or a dict, got {found!r} for a {type(module).__name__}")
        return found if isinstance(found, bool) or found else True
    return bool(policy(module=module, recurse=recurse, nonwrapped_numel=count))
