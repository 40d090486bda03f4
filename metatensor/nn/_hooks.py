"""Hooks: registering them, on one module or on all, and the call that runs them."""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from metatensor.nn._base import global_forward_hooks as _global_forward_hooks
from metatensor.nn._base import global_forward_pre_hooks as _global_forward_pre_hooks
from metatensor.nn._register import global_buffer_hooks as _global_buffer_registration_hooks
from metatensor.nn._register import global_module_hooks as _global_module_registration_hooks
from metatensor.nn._register import global_parameter_hooks as _global_parameter_registration_hooks

if TYPE_CHECKING:
    from metatensor.nn.module import Module

__all__ = [
    "Hooks",
    "RemovableHandle",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

_ids = itertools.count()

_global_forward_hooks_with_kwargs: OrderedDict[int, bool] = OrderedDict()
_global_forward_hooks_always_called: OrderedDict[int, bool] = OrderedDict()
_global_backward_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_backward_pre_hooks: OrderedDict[int, Callable] = OrderedDict()


class RemovableHandle:
    """What registering a hook returns: `remove` takes the hook out again, as does leaving a ``with`` block.

    Ids are unique in the process, so one id may stand in several tables: the hook's own and, in ``extra_dict``, a
    table of its options or a list of them.
    """

    def __init__(self, hooks_dict: OrderedDict, *, extra_dict: Any = None) -> None:
        self.id: int = next(_ids)
        extra = [] if extra_dict is None else extra_dict if isinstance(extra_dict, (list, tuple)) else [extra_dict]
        self._tables = tuple(weakref.ref(table) for table in (hooks_dict, *extra))

    def remove(self) -> None:
        """Take the hook out; nothing happens where it, or its module, is gone already."""
        for ref in self._tables:
            table = ref()
            if table is not None:
                table.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()

    def __getstate__(self) -> tuple[Any, int, tuple[Any, ...]]:
        tables = [ref() for ref in self._tables]
        return tables[0], self.id, tuple(tables[1:])

    def __setstate__(self, state: tuple[Any, int, tuple[Any, ...]]) -> None:
        table, self.id, *extra = state
        tables = (table, *(extra[0] if extra else ()))
        self._tables = tuple(weakref.ref(OrderedDict() if table is None else table) for table in tables)


def _add(hooks: OrderedDict, hook: Callable, prepend: bool = False, options: tuple = ()) -> RemovableHandle:
    """Put ``hook`` into ``hooks``; ``options`` are pairs of a table and whether the hook is listed there."""
    handle = RemovableHandle(hooks, extra_dict=[table for table, _ in options])
    hooks[handle.id] = hook
    for table, listed in options:
        if listed:
            table[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


class Hooks:
    """The hook methods of `Module`."""

    __slots__ = ()

    def register_forward_pre_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Run ``hook(module, args)`` before every `forward`.

        It may return new arguments: a tuple, or one value that stands for a tuple of it. With ``with_kwargs`` it is
        called as ``hook(module, args, kwargs)`` and may return a pair ``(args, kwargs)``; anything else than a pair
        or None is a RuntimeError. ``prepend`` puts it before this module's other hooks.
        """
        return _add(
            self._forward_pre_hooks, hook, prepend, ((self._forward_pre_hooks_with_kwargs, with_kwargs),)
        )

    def register_forward_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Run ``hook(module, args, output)`` after every `forward`; what it returns, unless None, is the new output.

        With ``with_kwargs`` it is called as ``hook(module, args, kwargs, output)``. With ``always_call`` it also
        runs when `forward` or a hook raised, with the output so far (None where there is none).
        """
        options = (
            (self._forward_hooks_with_kwargs, with_kwargs),
            (self._forward_hooks_always_called, always_call),
        )
        return _add(self._forward_hooks, hook, prepend, options)

    def register_full_backward_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Keep ``hook(module, grad_output)`` for the backward pass; it does not run before there is one."""
        return _add(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Keep ``hook(module, grad_input, grad_output)`` for the backward pass; it does not run before there is one.

        RuntimeError where the module has a hook of the older kind (`register_backward_hook`).
        """
        return _add(self._backward_table(full=True), hook, prepend)

    def register_backward_hook(self, hook: Callable) -> RemovableHandle:
        """The older kind of `register_full_backward_hook`; a module has hooks of one kind only."""
        return _add(self._backward_table(full=False), hook)

    def _backward_table(self, full: bool) -> OrderedDict:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                f"{type(self).__name__} already has backward hooks of the {'older' if full else 'full'} kind; "
                "one module cannot have both"
            )
        self._is_full_backward_hook = full
        return self._backward_hooks

    def register_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Run ``hook(module, prefix, keep_vars)`` before this module's part of `state_dict` is collected."""
        return _add(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Run ``hook(module, state_dict, prefix, local_metadata)`` after it; it changes ``state_dict`` in place."""
        hook._from_public_api = True  # type: ignore[attr-defined]
        return _add(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable) -> RemovableHandle:
        """As `register_state_dict_post_hook`, but ``hook`` may return another dict to go on with."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError("this hook is registered with register_state_dict_post_hook already")
        return _add(self._state_dict_hooks, hook)

    def _register_load_state_dict_pre_hook(self, hook: Callable, with_module: bool = False) -> RemovableHandle:
        """As `register_load_state_dict_pre_hook`; without ``with_module`` the hook is not given the module."""
        if with_module:
            hook = _WrappedHook(hook, self)
        return _add(self._load_state_dict_pre_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Run ``hook`` before this module loads its part of a state dict.

        It is called as ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
        error_msgs)`` and may change the dict and the lists.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Run ``hook(module, incompatible_keys)`` after this module and those below it have loaded.

        ``incompatible_keys.missing_keys`` and ``.unexpected_keys`` are lists that it may change; what is left in
        them is what a strict load complains of.
        """
        return _add(self._load_state_dict_post_hooks, hook)


class _WrappedHook:
    """A hook that is given its module first, held weakly unless it is copied or pickled.

    PyTorch wraps hooks without a module too, and pickles them so: such a hook is called as it is.
    """

    def __init__(self, hook: Callable, module: Any = None) -> None:
        self.hook = hook
        self.module = None if module is None else weakref.ref(module)

    def __call__(self, *args: Any) -> Any:
        if self.module is None:
            return self.hook(*args)
        module = self.module()
        if module is None:
            raise RuntimeError("the module of this hook does not exist any more")
        return self.hook(module, *args)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = {"hook": self.hook, "with_module": self.module is not None}
        return state if self.module is None else {**state, "module": self.module()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["hook"], state.get("module"))  # type: ignore[misc]


def register_module_forward_pre_hook(hook: Callable) -> RemovableHandle:
    """Run ``hook(module, args)`` before every module's forward in this process, before the module's own hooks."""
    return _add(_global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Run ``hook(module, args, output)`` after every module's forward in this process; see `Module`'s own."""
    options = (
        (_global_forward_hooks_with_kwargs, with_kwargs),
        (_global_forward_hooks_always_called, always_call),
    )
    return _add(_global_forward_hooks, hook, options=options)


def register_module_backward_hook(hook: Callable) -> RemovableHandle:
    """Keep a backward hook for all modules; it does not run before there is a backward pass."""
    return _add(_global_backward_hooks, hook)


def register_module_full_backward_hook(hook: Callable) -> RemovableHandle:
    """Keep a backward hook for all modules; it does not run before there is a backward pass."""
    return _add(_global_backward_hooks, hook)


def register_module_full_backward_pre_hook(hook: Callable) -> RemovableHandle:
    """Keep a backward pre-hook for all modules; it does not run before there is a backward pass."""
    return _add(_global_backward_pre_hooks, hook)


def register_module_parameter_registration_hook(hook: Callable) -> RemovableHandle:
    """Run ``hook(module, name, parameter)`` at every registration; what it returns, unless None, is registered."""
    return _add(_global_parameter_registration_hooks, hook)


def register_module_buffer_registration_hook(hook: Callable) -> RemovableHandle:
    """Run ``hook(module, name, buffer)`` at every registration; what it returns, unless None, is registered."""
    return _add(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Callable) -> RemovableHandle:
    """Run ``hook(module, name, submodule)`` at every registration; what it returns, unless None, is registered."""
    return _add(_global_module_registration_hooks, hook)


def call_with_hooks(module: Module, args: tuple, kwargs: dict[str, Any]) -> Any:
    """What calling a module with hooks does: global hooks before its own, in the order of registration."""
    own = module.__dict__
    with_kwargs = own.get("_forward_hooks_with_kwargs", {}) | _global_forward_hooks_with_kwargs
    always = own.get("_forward_hooks_always_called", {}) | _global_forward_hooks_always_called
    output = None
    ran: set[int] = set()
    try:
        args, kwargs = _run_pre_hooks(module, args, kwargs)
        output = module.forward(*args, **kwargs)
        for key, hook in [*_global_forward_hooks.items(), *own.get("_forward_hooks", {}).items()]:
            ran.add(key)
            changed = hook(module, args, kwargs, output) if key in with_kwargs else hook(module, args, output)
            if changed is not None:
                output = changed
        return output
    except Exception:
        for key, hook in [*_global_forward_hooks.items(), *own.get("_forward_hooks", {}).items()]:
            if key in always and key not in ran:
                try:
                    changed = hook(module, args, kwargs, output) if key in with_kwargs else hook(module, args, output)
                    if changed is not None:
                        output = changed
                except Exception as second:
                    warnings.warn(
                        f"a forward hook of {type(module).__name__} that always runs raised {second!r} while another "
                        "exception was on its way; that other one is raised",
                        stacklevel=2,
                    )
        raise


def _run_pre_hooks(module: Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    own = module.__dict__
    with_kwargs = own.get("_forward_pre_hooks_with_kwargs", {})
    for key, hook in [*_global_forward_pre_hooks.items(), *own.get("_forward_pre_hooks", {}).items()]:
        if key in with_kwargs:
            changed = hook(module, args, kwargs)
            if changed is None:
                continue
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(
                    f"a forward pre-hook of {type(module).__name__} that takes kwargs must return None or a pair "
                    f"(args, kwargs), not {changed!r}"
                )
            args, kwargs = changed
        else:
            changed = hook(module, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
    return args, kwargs
