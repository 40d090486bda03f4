"""`Optimizer`, the base class of optimizers: parameter groups, state, state dicts, and hooks around `step`."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from copy import deepcopy
from itertools import chain
from typing import Any, TypeAlias

import metatensor as mt
from metatensor.nn._hooks import RemovableHandle
from metatensor.optim._third_party import _default_to_fused_or_foreach as _default_to_fused_or_foreach
from metatensor.optim._third_party import _disable_dynamo_if_unsupported as _disable_dynamo_if_unsupported
from metatensor.optim._third_party import _get_capturable_supported_devices as _get_capturable_supported_devices
from metatensor.optim._third_party import _get_foreach_kernels_supported_devices as _get_foreach_kernels_supported_devices
from metatensor.optim._third_party import _get_fused_kernels_supported_devices as _get_fused_kernels_supported_devices
from metatensor.optim._third_party import _get_scalar_dtype as _get_scalar_dtype
from metatensor.optim._third_party import _get_value as _get_value
from metatensor.optim._third_party import _use_grad_for_differentiable as _use_grad_for_differentiable
from metatensor.optim._third_party import _view_as_real as _view_as_real

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

ParamsT: TypeAlias = Iterable[mt.Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, mt.Tensor]]
_params_t: TypeAlias = ParamsT
StateDict: TypeAlias = dict[str, Any]
Hooks: TypeAlias = OrderedDict[int, Callable[..., Any]]

_global_optimizer_pre_hooks: Hooks = OrderedDict()
_global_optimizer_post_hooks: Hooks = OrderedDict()

_HOOKS = (
    "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks", "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks", "_optimizer_load_state_dict_pre_hooks", "_optimizer_load_state_dict_post_hooks",
)  # fmt: skip


class _RequiredParameter:
    """Type of `required`."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()
"""Default of a hyperparameter that every parameter group must set."""


def _registered(hooks: Hooks, hook: Callable[..., Any], first: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if first:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Register ``hook(optimizer, args, kwargs)``, which runs before each step of any optimizer.

    The hook returns None or new (args, kwargs). The result is a handle that removes the hook.
    """
    return _registered(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Register ``hook(optimizer, args, kwargs)``, which runs after each step of any optimizer.

    The result is a handle that removes the hook.
    """
    return _registered(_global_optimizer_post_hooks, hook)


class Optimizer:
    """Base class of optimizers.

    A subclass defines `step`.

    Parameters
    ----------
    params : iterable
        Tensors, (name, tensor) pairs, or dicts. A dict is a parameter group: it has tensors or pairs under "params" and
        may set hyperparameters.
    defaults : dict
        Hyperparameters of groups that do not set their own.

    Raises
    ------
    TypeError
        If ``params`` is a tensor or contains something other than tensors.
    ValueError
        If there are no parameters. See `add_param_group` for other cases.

    Examples
    --------
    >>> import metatensor as mt
    >>> class Shrink(mt.optim.Optimizer):
    ...     def __init__(self, params, factor=0.5):
    ...         super().__init__(params, {"factor": factor})
    ...     @mt.no_grad()
    ...     def step(self, closure=None):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 p.mul_(group["factor"])
    >>> p = mt.nn.Parameter(mt.ones(2, device="cpu"))
    >>> Shrink([p]).step()
    >>> p.data
    tensor([0.5000, 0.5000])
    """

    defaults: dict[str, Any]
    state: defaultdict[Any, Any]
    param_groups: list[dict[str, Any]]
    _optimizer_step_pre_hooks: Hooks
    _optimizer_step_post_hooks: Hooks
    _optimizer_state_dict_pre_hooks: Hooks
    _optimizer_state_dict_post_hooks: Hooks
    _optimizer_load_state_dict_pre_hooks: Hooks
    _optimizer_load_state_dict_post_hooks: Hooks

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        if isinstance(params, mt.Tensor):
            raise TypeError(f"{type(self).__name__}: params must be an iterable of tensors or dicts, got a tensor")
        given: list[Any] = list(params)
        if not given:
            raise ValueError(f"{type(self).__name__}: the list of parameters is empty")
        self._restore({"defaults": defaults, "state": defaultdict(dict), "param_groups": []})
        for group in given if isinstance(given[0], dict) else [{"params": given}]:
            self.add_param_group(group)

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("defaults", "state", "param_groups")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._restore(state)
        self.defaults.setdefault("differentiable", False)

    def _restore(self, attributes: dict[str, Any]) -> None:
        """Set attributes, and create the tables of hooks that are missing."""
        self.__dict__.update(attributes)
        for name in _HOOKS:
            self.__dict__.setdefault(name, OrderedDict())
        self._patch_step_function()

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group.keys() - {"params"})]
        return "\n".join([*lines, ")"])

    def _parameters(self) -> Iterator[Any]:
        """Iterate over the parameters of all groups."""
        return chain.from_iterable(group["params"] for group in self.param_groups)

    # Hooks

    @staticmethod
    def profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
        """Return a `step` method that calls ``func`` between the hooks of its optimizer and the global ones."""

        @functools.wraps(func)
        def step(self: Any, *args: Any, **kwargs: Any) -> Any:
            for hook in (*_global_optimizer_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()):
                replaced = hook(self, args, kwargs)
                if replaced is None:
                    continue
                if not (isinstance(replaced, tuple) and len(replaced) == 2):
                    raise RuntimeError(f"{type(self).__name__}.step: a pre-hook must return None or (args, kwargs), got {replaced}")
                args, kwargs = replaced
            result = func(self, *args, **kwargs)
            for hook in (*self._optimizer_step_post_hooks.values(), *_global_optimizer_post_hooks.values()):
                hook(self, args, kwargs)
            return result

        return step

    def _patch_step_function(self) -> None:
        """Wrap the `step` of this class so that it runs hooks, unless it is wrapped already."""
        cls: Any = type(self)
        if not hasattr(cls.step, "hooked"):
            cls.step = self.profile_hook_step(cls.step)
            cls.step.hooked = True

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Register ``hook(optimizer, args, kwargs)``, which runs before each step and may return new (args, kwargs)."""
        return _registered(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Register ``hook(optimizer, args, kwargs)``, which runs after each step."""
        return _registered(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Register ``hook(optimizer)``, which runs before `state_dict`.

        With ``prepend``, it runs before hooks that were registered earlier.
        """
        return _registered(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Register ``hook(optimizer, state_dict)``, which runs after `state_dict` and may return a replacement."""
        return _registered(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Register a hook that runs before `load_state_dict`.

        It is called as ``hook(optimizer, state_dict)`` and may return a replacement for the dict.
        """
        return _registered(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Register ``hook(optimizer)``, which runs after `load_state_dict`."""
        return _registered(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # State dicts

    def state_dict(self) -> StateDict:
        """Return the state and the parameter groups, with parameters replaced by their positions.

        Returns
        -------
        dict
            "state" maps the position of a parameter, counted over all groups, to its state. "param_groups" contains the
            hyperparameters of each group and, under "params", the positions of its parameters. Tensors are not copied.

        Examples
        --------
        >>> import metatensor as mt
        >>> optimizer = mt.optim.SGD(mt.nn.Linear(3, 2).parameters(), lr=0.1)
        >>> optimizer.state_dict()["param_groups"][0]["params"]
        [0, 1]
        """
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        position: dict[int, int] = {}
        for p in self._parameters():
            position.setdefault(id(p), len(position))
        result: StateDict = {
            "state": {position[id(key)] if isinstance(key, mt.Tensor) else key: kept for key, kept in self.state.items()},
            "param_groups": [
                {**{key: value for key, value in group.items() if key != "params"}, "params": [position[id(p)] for p in group["params"]]}
                for group in self.param_groups
            ],
        }
        for hook in self._optimizer_state_dict_post_hooks.values():
            replaced = hook(self, result)
            result = result if replaced is None else replaced
        return result

    @staticmethod
    def _process_value_according_to_param_policy(
        param: Any, value: Any, param_id: int, param_groups: list[dict[Any, Any]], key: Hashable = None
    ) -> Any:
        """Return a state tensor with the dtype and device of ``param``.

        A step counter is not moved unless its group is capturable or fused.
        """
        if key != "step":
            return value.to(dtype=param.dtype if param.is_floating_point() else None, device=param.device)
        group: Any = next((g for g in param_groups if param_id in g["params"]), {})
        beside = group.get("capturable") or group.get("fused")
        return value.to(dtype=mt.float32, device=param.device) if beside else value

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore state and hyperparameters from a `state_dict`, of this library or of PyTorch.

        Parameters
        ----------
        state_dict : dict
            Result of `state_dict` of an optimizer with groups of the same sizes. It is not changed.

        Raises
        ------
        ValueError
            If the groups differ in number or size.
        """
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            replaced = hook(self, state_dict)
            state_dict = state_dict if replaced is None else replaced
        mine, loaded = self.param_groups, deepcopy(state_dict["param_groups"])
        sizes, expected = [len(group["params"]) for group in loaded], [len(group["params"]) for group in mine]
        if sizes != expected:
            raise ValueError(f"{type(self).__name__}: the state has groups of {sizes} parameters, this optimizer has groups of {expected}")

        def placed(p: Any, value: Any, position: Any, key: Hashable = None) -> Any:
            """Return a state value. Convert the tensors in it to the dtype and device that they must have."""
            if isinstance(value, mt.Tensor):
                return self._process_value_according_to_param_policy(p, value, position, state_dict["param_groups"], key)
            if isinstance(value, dict):
                return {name: placed(p, item, position, name) for name, item in value.items()}
            if isinstance(value, (list, tuple, set, frozenset)):
                return type(value)(placed(p, item, position) for item in value)
            return value

        parameter: dict[Any, Any] = {}
        for group, other in zip(mine, loaded, strict=True):
            parameter.update(zip(other["params"], group["params"], strict=True))
            other["params"] = group["params"]
            if "param_names" in group:
                other.setdefault("param_names", group["param_names"])
        state: defaultdict[Any, Any] = defaultdict(dict)
        for position, kept in state_dict["state"].items():
            if position in parameter:
                state[parameter[position]] = placed(parameter[position], kept, position)
            else:
                state[position] = kept
        self.__setstate__({"state": state, "param_groups": loaded})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    # Steps and groups

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None, or to zeros if ``set_to_none`` is false."""
        for p in self._parameters():
            if set_to_none:
                p.grad = None
            elif p.grad is not None:
                p.grad = p.grad.detach().zero_()

    def step(self, closure: Any = None) -> Any:
        """Update the parameters once. Subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__}: an optimizer must define step")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group.

        Parameters
        ----------
        param_group : dict
            Under "params" a tensor, or several tensors or (name, tensor) pairs in a list. Other keys are hyperparameters.
            Missing ones are added to this dict with the optimizer's defaults.

        Raises
        ------
        TypeError
            If ``param_group`` is not a dict, or its parameters are a set or not tensors.
        ValueError
            If a parameter is not a leaf or is in another group, a required hyperparameter is missing, or only some
            groups have names.

        Examples
        --------
        >>> import metatensor as mt
        >>> optimizer = mt.optim.SGD([mt.nn.Parameter(mt.zeros(2))], lr=0.1)
        >>> optimizer.add_param_group({"params": mt.nn.Parameter(mt.zeros(3)), "lr": 0.01})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 0.01]
        """
        name = type(self).__name__
        if not isinstance(param_group, Mapping):
            raise TypeError(f"{name}: a parameter group must be a dict, got {type(param_group).__name__}")
        given = param_group["params"]
        if isinstance(given, set):
            raise TypeError(f"{name}: the parameters of a group must be in a fixed order, got a set")
        params = [given] if isinstance(given, mt.Tensor) else list(given)
        if params and all(isinstance(p, tuple) for p in params):
            param_group["param_names"] = [key for key, _ in params]
            params = [p for _, p in params]
        param_group["params"] = params
        self._check_parameters(params)
        for key, default in self.defaults.items():
            if default is required and key not in param_group:
                raise ValueError(f"{name}: every parameter group must name its {key}")
            param_group.setdefault(key, default)
        if self.param_groups and ("param_names" in param_group) != ("param_names" in self.param_groups[0]):
            raise ValueError(f"{name}: either all parameter groups have names, or none")
        self.param_groups.append(param_group)

    def _check_parameters(self, params: list[Any]) -> None:
        name = type(self).__name__
        for p in params:
            if not isinstance(p, mt.Tensor):
                raise TypeError(f"{name}: the parameters must be tensors, got {type(p).__name__}")
            if not (p.is_leaf or p.retains_grad or self.defaults.get("differentiable")):
                raise ValueError(f"{name}: a parameter must be a leaf, got the result of an operation, of shape {tuple(p.shape)}")
        own = {id(p) for p in params}
        if len(own) < len(params):
            warnings.warn(f"{name}: a parameter group has the same parameter more than once", stacklevel=4)
        if not own.isdisjoint(map(id, self._parameters())):
            raise ValueError(f"{name}: a parameter is in more than one group")
