"""Module hooks: registration, per module or global, and calls of modules with hooks."""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from metatensor.nn._base import global_backward_hooks as _global_backward_hooks
from metatensor.nn._base import global_backward_pre_hooks as _global_backward_pre_hooks
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


class RemovableHandle:
    """Handle of a registered hook. `remove`, or the end of a ``with`` block, unregisters the hook.

    Parameters
    ----------
    hooks_dict : OrderedDict
        Table that contains the hook under ``id``. Only a weak reference to it is kept.
    extra_dict : dict or list of dict, optional
        Further tables that have an entry for the hook under the same id.

    Attributes
    ----------
    id : int
        Key of the hook in the tables.
    hooks_dict_ref : weakref.ref
        Weak reference to ``hooks_dict``.
    extra_dict_ref : tuple of weakref.ref
        Weak references to the further tables.

    Examples
    --------
    >>> import metatensor as mt
    >>> layer = mt.nn.ReLU()
    >>> with layer.register_forward_hook(lambda module, args, output: print(output.shape)):
    ...     _ = layer(mt.empty(2, 3))
    metatensor.Size([2, 3])
    """

    def __init__(self, hooks_dict: OrderedDict, *, extra_dict: Any = None) -> None:
        self.id: int = next(_ids)
        extra = [] if extra_dict is None else extra_dict if isinstance(extra_dict, (list, tuple)) else [extra_dict]
        self._refer(hooks_dict, extra)

    def _refer(self, hooks_dict: OrderedDict, extra: Iterable[Any]) -> None:
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.extra_dict_ref = tuple(weakref.ref(table) for table in extra)

    def remove(self) -> None:
        """Unregister the hook. Do nothing if it, or its module, no longer exists."""
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            table = ref()
            if table is not None:
                table.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()

    def __getstate__(self) -> tuple[Any, int, tuple[Any, ...]]:
        return self.hooks_dict_ref(), self.id, tuple(ref() for ref in self.extra_dict_ref)

    def __setstate__(self, state: tuple[Any, int, tuple[Any, ...]]) -> None:
        table, self.id, *extra = state
        tables = (table, *(extra[0] if extra else ()))
        first, *others = [OrderedDict() if table is None else table for table in tables]
        self._refer(first, others)


def _add(hooks: OrderedDict, hook: Callable, prepend: bool = False, options: tuple = ()) -> RemovableHandle:
    """Add ``hook`` to ``hooks``. For each pair (table, flag) in ``options``, list it in ``table`` if ``flag`` is true."""
    handle = RemovableHandle(hooks, extra_dict=[table for table, _ in options])
    hooks[handle.id] = hook
    for table, listed in options:
        if listed:
            table[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


class Hooks:
    """Hook methods of `Module`."""

    __slots__ = ()

    def register_forward_pre_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Register a hook that runs before each call of `forward`.

        Parameters
        ----------
        hook : callable
            Called as ``hook(module, args)``. It returns None to keep the arguments, or new ones: a tuple, or a single
            value, which is put into a tuple.
        prepend : bool
            Run it before this module's other hooks. Default False.
        with_kwargs : bool
            Call ``hook(module, args, kwargs)`` instead. It returns None or a pair (args, kwargs). Any other result
            raises RuntimeError during the call. Default False.

        Returns
        -------
        RemovableHandle
            Handle that unregisters the hook.

        Examples
        --------
        >>> import metatensor as mt
        >>> layer = mt.nn.ReLU()
        >>> handle = layer.register_forward_pre_hook(lambda module, args: print(args[0].shape))
        >>> _ = layer(mt.empty(2, 3))
        metatensor.Size([2, 3])
        """
        return _add(
            self._forward_pre_hooks, hook, prepend, ((self._forward_pre_hooks_with_kwargs, with_kwargs),)
        )

    def register_forward_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Register a hook that runs after each call of `forward`.

        Parameters
        ----------
        hook : callable
            Called as ``hook(module, args, output)``. A result other than None replaces the output.
        prepend : bool
            Run it before this module's other hooks. Default False.
        with_kwargs : bool
            Call ``hook(module, args, kwargs, output)`` instead. Default False.
        always_call : bool
            Run the hook even if `forward` or another hook raises. It then receives the current output, or None if there
            is none. Default False.

        Returns
        -------
        RemovableHandle
            Handle that unregisters the hook.

        Examples
        --------
        >>> import metatensor as mt
        >>> layer = mt.nn.ReLU()
        >>> handle = layer.register_forward_hook(lambda module, args, output: output.sum())
        >>> layer(mt.empty(2, 3)).shape
        metatensor.Size([])
        """
        options = (
            (self._forward_hooks_with_kwargs, with_kwargs),
            (self._forward_hooks_always_called, always_call),
        )
        return _add(self._forward_hooks, hook, prepend, options)

    def register_full_backward_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Register a hook that runs when the gradients of the module's outputs are known.

        Parameters
        ----------
        hook : callable
            Called as ``hook(module, grad_output)`` with a tuple. It returns None or a tuple that replaces `grad_output`.
        prepend : bool
            Run it before this module's other hooks. Default False.

        Returns
        -------
        RemovableHandle
            Handle that unregisters the hook.
        """
        return _add(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Register a hook that runs when the gradients of the module's inputs are known.

        Parameters
        ----------
        hook : callable
            Called as ``hook(module, grad_input, grad_output)``. Both are tuples, with None for an argument or result
            that is not a tensor or has no gradient. The hook returns None or a tuple that replaces `grad_input`.
        prepend : bool
            Run it before this module's other hooks. Default False.

        Returns
        -------
        RemovableHandle
            Handle that unregisters the hook.

        Raises
        ------
        RuntimeError
            If the module has a hook from `register_backward_hook`.
        """
        return _add(self._backward_table(full=True), hook, prepend)

    def register_backward_hook(self, hook: Callable) -> RemovableHandle:
        """Register a hook that runs after backward of the module's last operator, with that operator's gradients.

        New code should use `register_full_backward_hook`. Raise RuntimeError if the module has such a hook.
        """
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
        """Register a hook that runs before `state_dict` collects this module's tensors.

        It is called as ``hook(module, prefix, keep_vars)``.
        """
        return _add(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Register a hook that runs after `state_dict` has collected the tensors of this module and its submodules.

        It is called as ``hook(module, state_dict, prefix, local_metadata)``, changes ``state_dict`` in place and
        returns None.
        """
        hook._from_public_api = True  # type: ignore[attr-defined]
        return _add(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable) -> RemovableHandle:
        """Register a hook as `register_state_dict_post_hook` does, but let it return a replacement for the dict."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError("this hook is registered with register_state_dict_post_hook already")
        return _add(self._state_dict_hooks, hook)

    def _register_load_state_dict_pre_hook(self, hook: Callable, with_module: bool = False) -> RemovableHandle:
        """Register a hook as `register_load_state_dict_pre_hook` does. It receives the module only if ``with_module``."""
        if with_module:
            hook = _WrappedHook(hook, self)
        return _add(self._load_state_dict_pre_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Register a hook that runs before this module loads its part of a state dict.

        It is called as ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
        error_msgs)`` and may change the dict and the lists in place.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Register ``hook(module, incompatible_keys)``, which runs after this module and its submodules have loaded.

        The hook may change the lists ``incompatible_keys.missing_keys`` and ``incompatible_keys.unexpected_keys``. A
        strict load reports the names that remain in them.
        """
        return _add(self._load_state_dict_post_hooks, hook)


class _WrappedHook:
    """Hook that receives its module as the first argument. The module is held by a weak reference.

    Copies and pickles contain the module itself. A hook that PyTorch pickled without a module is called without one.
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
    """Register ``hook(module, args)`` to run before every call of `forward` of any module.

    Global hooks run before the module's own. See `Module.register_forward_pre_hook` for the result of a hook.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.nn.modules.module import register_module_forward_pre_hook
    >>> with register_module_forward_pre_hook(lambda module, args: print(module)):
    ...     _ = mt.nn.ReLU()(mt.empty(2))
    ReLU()
    """
    return _add(_global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Register ``hook(module, args, output)`` to run after every call of `forward` of any module.

    Global hooks run before the module's own. See `Module.register_forward_hook` for the parameters.
    """
    options = (
        (_global_forward_hooks_with_kwargs, with_kwargs),
        (_global_forward_hooks_always_called, always_call),
    )
    return _add(_global_forward_hooks, hook, options=options)


def register_module_backward_hook(hook: Callable) -> RemovableHandle:
    """Register a backward hook for all modules. See `Module.register_full_backward_hook`."""
    return _add(_global_backward_hooks, hook)


def register_module_full_backward_hook(hook: Callable) -> RemovableHandle:
    """Register a backward hook for all modules. See `Module.register_full_backward_hook`."""
    return _add(_global_backward_hooks, hook)


def register_module_full_backward_pre_hook(hook: Callable) -> RemovableHandle:
    """Register a backward pre-hook for all modules. See `Module.register_full_backward_pre_hook`."""
    return _add(_global_backward_pre_hooks, hook)


def register_module_parameter_registration_hook(hook: Callable) -> RemovableHandle:
    """Register ``hook(module, name, parameter)`` to run whenever a parameter is registered in any module.

    A result other than None is registered instead of the parameter.
    """
    return _add(_global_parameter_registration_hooks, hook)


def register_module_buffer_registration_hook(hook: Callable) -> RemovableHandle:
    """Register ``hook(module, name, buffer)`` to run whenever a buffer is registered in any module.

    A result other than None is registered instead of the buffer.
    """
    return _add(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Callable) -> RemovableHandle:
    """Register ``hook(module, name, submodule)`` to run whenever a submodule is registered in any module.

    A result other than None is registered instead of the submodule.
    """
    return _add(_global_module_registration_hooks, hook)


def call_with_hooks(module: Module, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Call a module with its hooks. Global hooks run before the module's own hooks."""
    own = module.__dict__
    with_kwargs = own.get("_forward_hooks_with_kwargs", {}) | _global_forward_hooks_with_kwargs
    always = own.get("_forward_hooks_always_called", {}) | _global_forward_hooks_always_called
    output = None
    ran: set[int] = set()
    try:
        args, kwargs = _run_pre_hooks(module, args, kwargs)
        watch = _watched(module)
        if watch is not None:
            args = watch.inputs(args)
        output = module.forward(*args, **kwargs)
        for key, hook in [*_global_forward_hooks.items(), *own.get("_forward_hooks", {}).items()]:
            ran.add(key)
            changed = hook(module, args, kwargs, output) if key in with_kwargs else hook(module, args, output)
            if changed is not None:
                output = changed
        return output if watch is None else watch.outputs(output)
    except Exception:
        for key, hook in [*_global_forward_hooks.items(), *own.get("_forward_hooks", {}).items()]:
            if key in always and key not in ran:
                try:
                    changed = hook(module, args, kwargs, output) if key in with_kwargs else hook(module, args, output)
                    if changed is not None:
                        output = changed
                except Exception as second:
                    warnings.warn(
                        f"a forward hook of {type(module).__name__} with always_call=True raised {second!r} while another "
                        "exception was being handled; the first exception is raised",
                        stacklevel=2,
                    )
        raise


def _watched(module: Module) -> Any:
    """Return a `Watch` that calls the module's backward hooks, or None if it has none."""
    own = module.__dict__
    if not (own.get("_backward_hooks") or own.get("_backward_pre_hooks") or _global_backward_hooks or _global_backward_pre_hooks):
        return None
    from metatensor.nn._backward_hooks import Watch

    full = {**_global_backward_hooks, **own.get("_backward_hooks", {})}
    older = own.get("_is_full_backward_hook") is False
    return Watch(module, full, {**_global_backward_pre_hooks, **own.get("_backward_pre_hooks", {})}, older)


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
