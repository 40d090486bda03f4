"""The base of optimizers: groups of parameters with their options, a state for each parameter, hooks around `step`."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from copy import deepcopy
from itertools import chain
from typing import Any, TypeAlias

import metatensor as mt
from metatensor.nn._hooks import RemovableHandle

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

ParamsT: TypeAlias = Iterable[mt.Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, mt.Tensor]]
_params_t: TypeAlias = ParamsT
StateDict: TypeAlias = dict[str, Any]

_global_optimizer_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_optimizer_post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()


class _RequiredParameter:
    """The default of an option that has none."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


def _get_value(x: Any) -> Any:
    """The number in a tensor of one element, 1.0 where it has no data; anything else as it is."""
    if not isinstance(x, mt.Tensor):
        return x
    return x.item() if x.untyped_storage().data is not None else 1.0


def _get_scalar_dtype(is_fused: bool | None = None) -> Any:
    """The dtype of step counters."""
    return mt.float64 if mt.get_default_dtype() == mt.float64 and not is_fused else mt.float32


def _view_as_real(params: Any, *state_and_grads: Any) -> None:
    """Replace the complex tensors in lists by their views as real ones, wherever the parameter is complex."""
    for i, p in enumerate(params):
        if mt.is_complex(p):
            params[i] = mt.view_as_real(p)
            for tensors in state_and_grads:
                tensors[i] = mt.view_as_real(tensors[i])


def _default_to_fused_or_foreach(params: Any, differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
    """Neither: parameters are updated one by one."""
    return False, False


def _get_foreach_kernels_supported_devices() -> list[str]:
    return []


def _get_fused_kernels_supported_devices() -> list[str]:
    return []


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Devices on which a step counter stays; meta stands for any."""
    return ["cuda", "xpu", "hpu", "privateuseone", "meta"] + (["xla"] if supports_xla else [])


def _disable_dynamo_if_unsupported(single_tensor_fn: Any = None) -> Callable[[Any], Any]:
    """A decorator that leaves its function as it is."""
    return lambda func: func


def _use_grad_for_differentiable(func: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator for `step`: gradients are recorded only where the option ``differentiable`` says so."""

    @functools.wraps(func)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        with mt.set_grad_enabled(bool(self.defaults.get("differentiable", False))):
            return func(self, *args, **kwargs)

    return step


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` before each step of any optimizer."""
    handle = RemovableHandle(_global_optimizer_pre_hooks)
    _global_optimizer_pre_hooks[handle.id] = hook
    return handle


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` after each step of any optimizer."""
    handle = RemovableHandle(_global_optimizer_post_hooks)
    _global_optimizer_post_hooks[handle.id] = hook
    return handle


_HOOKS = (
    "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks", "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks", "_optimizer_load_state_dict_pre_hooks", "_optimizer_load_state_dict_post_hooks",
)  # fmt: skip


class Optimizer:
    """The base of optimizers; ``defaults`` holds the options of groups that do not name their own.

    ``params`` are tensors, (name, tensor) pairs, or dicts of options with such under "params".
    """

    state: defaultdict[Any, Any]
    param_groups: list[dict[str, Any]]
    _optimizer_step_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_step_post_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        if isinstance(params, mt.Tensor):
            raise TypeError("Optimizer: params must be an iterable of tensors or dicts, got a tensor")
        self.defaults = defaults
        for name in _HOOKS:
            setattr(self, name, OrderedDict())
        self._patch_step_function()
        self.state = defaultdict(dict)
        self.param_groups = []
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("Optimizer: the list of parameters is empty")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name in _HOOKS:
            if name not in self.__dict__:
                setattr(self, name, OrderedDict())
        self._patch_step_function()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        text = type(self).__name__ + " ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            text += "".join(f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params")
        return text + ")"

    @staticmethod
    def profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
        """``func``, a `step`, between the hooks of its optimizer and of all."""

        @functools.wraps(func)
        def step(self: Any, *args: Any, **kwargs: Any) -> Any:
            for hook in chain(_global_optimizer_pre_hooks.values(), self._optimizer_step_pre_hooks.values()):
                changed = hook(self, args, kwargs)
                if changed is not None:
                    if not isinstance(changed, tuple) or len(changed) != 2:
                        raise RuntimeError(f"{type(self).__name__}.step: a pre-hook must return None or (args, kwargs), got {changed}")
                    args, kwargs = changed
            result = func(self, *args, **kwargs)
            for hook in chain(self._optimizer_step_post_hooks.values(), _global_optimizer_post_hooks.values()):
                hook(self, args, kwargs)
            return result

        return step

    def _patch_step_function(self) -> None:
        cls: Any = type(self)
        if not getattr(cls.step, "hooked", None):
            cls.step = self.profile_hook_step(cls.step)
            cls.step.hooked = True

    def _register(self, table: str, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        hooks = getattr(self, table)
        handle = RemovableHandle(hooks)
        hooks[handle.id] = hook
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        return handle

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before each step; it may return other (args, kwargs)."""
        return self._register("_optimizer_step_pre_hooks", hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after each step."""
        return self._register("_optimizer_step_post_hooks", hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` before `state_dict`."""
        return self._register("_optimizer_state_dict_pre_hooks", hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` after `state_dict`; it may return another."""
        return self._register("_optimizer_state_dict_post_hooks", hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before `load_state_dict`; it may return another."""
        return self._register("_optimizer_load_state_dict_pre_hooks", hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` after `load_state_dict`."""
        return self._register("_optimizer_load_state_dict_post_hooks", hook, prepend)

    def state_dict(self) -> StateDict:
        """The state and the groups, with numbers in place of the parameters."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {(numbers[id(k)] if isinstance(k, mt.Tensor) else k): v for k, v in self.state.items()}
        result: StateDict = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, result)
            result = result if changed is None else changed
        return result

    @staticmethod
    def _process_value_according_to_param_policy(
        param: Any, value: Any, param_id: int, param_groups: list[dict[Any, Any]], key: Hashable = None
    ) -> Any:
        """A tensor of the state as it belongs to ``param``: on its device and in its dtype, the step counter as it was."""
        if key == "step":
            group = next((g for g in param_groups if param_id in g["params"]), {})
            return value.to(dtype=mt.float32, device=param.device) if group.get("capturable") or group.get("fused") else value
        return value.to(dtype=param.dtype if param.is_floating_point() else None, device=param.device)

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Take over the state and the options of a `state_dict`. ValueError where the groups do not agree in number or size."""
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        ours, theirs = self.param_groups, deepcopy(state_dict["param_groups"])
        if len(ours) != len(theirs):
            raise ValueError(f"{type(self).__name__}: {len(theirs)} parameter groups in the state, {len(ours)} here")
        for i, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            if len(mine["params"]) != len(other["params"]):
                raise ValueError(
                    f"{type(self).__name__}: group {i} has {len(other['params'])} parameters in the state, {len(mine['params'])} here"
                )
        of = dict(
            zip(
                chain.from_iterable(g["params"] for g in theirs), chain.from_iterable(g["params"] for g in ours), strict=True
            )
        )

        def cast(param: Any, value: Any, number: Any, key: Hashable = None) -> Any:
            if isinstance(value, mt.Tensor):
                return Optimizer._process_value_according_to_param_policy(
                    param, value, number, state_dict["param_groups"], key
                )
            if isinstance(value, dict):
                return {k: cast(param, v, number, k) for k, v in value.items()}
            if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
                return type(value)(cast(param, v, number) for v in value)  # type: ignore[call-arg]
            return value

        state: defaultdict[Any, Any] = defaultdict(dict)
        for number, value in state_dict["state"].items():
            if number in of:
                state[of[number]] = cast(of[number], value, number)
            else:
                state[number] = value
        for mine, other in zip(ours, theirs, strict=True):
            other["params"] = mine["params"]
            if "param_names" in mine and "param_names" not in other:
                other["param_names"] = mine["param_names"]
        self.__setstate__({"state": state, "param_groups": theirs})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or, with ``set_to_none=False``, fill them with zeros."""
        for p in chain.from_iterable(group["params"] for group in self.param_groups):
            if p.grad is None:
                continue
            if set_to_none:
                p.grad = None
            else:
                p.grad = p.grad.detach()
                p.grad.zero_()

    def step(self, closure: Any = None) -> Any:
        """Update the parameters once: subclasses say how."""
        raise NotImplementedError(f"{type(self).__name__}: an optimizer must define step")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters, with options of their own, to those that are updated."""
        name = type(self).__name__
        if not isinstance(param_group, Mapping):
            raise TypeError(f"{name}: a parameter group must be a dict, got {type(param_group).__name__}")
        params = param_group["params"]
        if isinstance(params, mt.Tensor):
            params = [params]
        elif isinstance(params, set):
            raise TypeError(f"{name}: parameters must come in an order, a set has none")
        params = list(params)
        if params and all(isinstance(p, tuple) for p in params):
            param_group["param_names"] = [key for key, _ in params]
            params = [p for _, p in params]
        param_group["params"] = params
        for p in params:
            if not isinstance(p, mt.Tensor):
                raise TypeError(f"{name}: expected tensors to optimise, got {type(p).__name__}")
            if not self.defaults.get("differentiable", None) and not (p.is_leaf or p.retains_grad):
                raise ValueError(f"{name}: a tensor that is no leaf cannot be optimised")
        for key, default in self.defaults.items():
            if default is required and key not in param_group:
                raise ValueError(f"{name}: a parameter group must say its {key}")
            param_group.setdefault(key, default)
        if len({id(p) for p in params}) != len(params):
            warnings.warn(f"{name}: a parameter group names a parameter more than once", stacklevel=3)
        taken = {id(p) for group in self.param_groups for p in group["params"]}
        if not taken.isdisjoint({id(p) for p in params}):
            raise ValueError(f"{name}: a parameter is in more than one group")
        if self.param_groups and ("param_names" in param_group) != ("param_names" in self.param_groups[0]):
            raise ValueError(f"{name}: either all parameter groups have names, or none")
        self.param_groups.append(param_group)
