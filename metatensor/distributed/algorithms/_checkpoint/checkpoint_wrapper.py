"""Wrappers around modules that compute their activations again, or keep them on the host."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from enum import Enum, auto
from functools import partial
from typing import Any

from metatensor import nn
from metatensor._core.late import later
from metatensor.autograd.graph import save_on_cpu
from metatensor.distributed.fsdp.wrap import lambda_auto_wrap_policy, wrap_children

__all__ = ["ActivationWrapper", "CheckpointImpl", "CheckpointWrapper", "OffloadWrapper", "apply_activation_checkpointing",
           "checkpoint_wrapper", "offload_wrapper"]  # fmt: skip

_WRAPPED = "_checkpoint_wrapped_module"
_PREFIX = f"{_WRAPPED}."


class CheckpointImpl(Enum):
    """How `checkpoint_wrapper` computes again: by a nested backward pass (REENTRANT), or tensor by tensor (NO_REENTRANT)."""

    REENTRANT = auto()
    NO_REENTRANT = auto()


class ActivationWrapper(nn.Module, ABC):
    """A module around another one. Names of parameters and keys of state dicts are those of the module inside."""

    def __init__(self, mod: nn.Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self.register_state_dict_post_hook(_without_prefix)
        self.register_load_state_dict_pre_hook(_with_prefix)

    @abstractmethod
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module inside."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self._checkpoint_wrapped_module, name)

    def __getitem__(self, key: Any) -> Any:
        return self._checkpoint_wrapped_module[key]  # type: ignore[index]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_PREFIX, ""), parameter


def _without_prefix(module: nn.Module, state: dict[str, Any], prefix: str, metadata: dict[str, Any]) -> None:
    inside = prefix + _PREFIX
    for key in [one for one in state if one.startswith(inside)]:
        state[prefix + key[len(inside) :]] = state.pop(key)


def _with_prefix(module: nn.Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    for key in [one for one in state if one.startswith(prefix) and not one.startswith(prefix + _PREFIX)]:
        state[prefix + _PREFIX + key[len(prefix) :]] = state.pop(key)


class OffloadWrapper(ActivationWrapper):
    """A module that keeps what it saves for backward on the host."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """A module that saves its arguments for backward, and runs again in the backward pass.

    Parameters
    ----------
    mod : Module
        The module.
    checkpoint_impl : CheckpointImpl
        How it runs again.
    checkpoint_fn : callable, optional
        Is called as ``checkpoint_fn(module, *args, **checkpoint_fn_kwargs)``. Default: `utils.checkpoint.checkpoint`.
    **checkpoint_fn_kwargs
        Arguments of ``checkpoint_fn``, such as ``preserve_rng_state`` and ``context_fn``.
    """

    def __init__(
        self, mod: nn.Module, checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None, **checkpoint_fn_kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            checkpoint_fn = partial(later("checkpoint"), use_reentrant=checkpoint_impl is CheckpointImpl.REENTRANT)
        self.checkpoint_fn = partial(checkpoint_fn, **checkpoint_fn_kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs or self.checkpoint_impl is CheckpointImpl.NO_REENTRANT:
            return self.checkpoint_fn(self._checkpoint_wrapped_module, *args, **kwargs)
        names = tuple(kwargs)  # a reentrant checkpoint takes positional arguments only

        def positional(*given: Any) -> Any:
            count = len(given) - len(names)
            return self._checkpoint_wrapped_module(*given[:count], **dict(zip(names, given[count:])))

        return self.checkpoint_fn(positional, *args, *kwargs.values())


def offload_wrapper(module: nn.Module) -> OffloadWrapper:
    """Return a module that keeps what ``module`` saves for backward on the host."""
    return OffloadWrapper(module)


def checkpoint_wrapper(
    module: nn.Module, checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT, checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> CheckpointWrapper:  # fmt: skip
    """Return a module that computes the activations of ``module`` again. `CheckpointWrapper` describes the parameters.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    >>> layer = checkpoint_wrapper(mt.nn.Linear(4, 2, device="meta"))
    >>> list(layer.state_dict())
    ['weight', 'bias']
    >>> layer(mt.empty(3, 4, device="meta")).shape
    metatensor.Size([3, 2])
    """
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model: nn.Module, checkpoint_wrapper_fn: Callable[..., nn.Module] = checkpoint_wrapper,
    check_fn: Callable[[nn.Module], bool] = lambda _: True, auto_wrap_policy: Callable[[nn.Module, bool, int], bool] | None = None,
) -> None:  # fmt: skip
    """Wrap submodules of a model, in place.

    Parameters
    ----------
    model : Module
        The model. It is not wrapped itself.
    checkpoint_wrapper_fn : callable
        Returns a wrapped module.
    check_fn : callable
        Returns True for modules that are to be wrapped.
    auto_wrap_policy : callable, optional
        Selects modules instead of ``check_fn``, as for `FullyShardedDataParallel`.
    """
    policy = partial(lambda_auto_wrap_policy, lambda_fn=check_fn) if auto_wrap_policy is None else auto_wrap_policy
    wrap_children(model, policy, checkpoint_wrapper_fn, set(), set())
