"""`Module`, the base class of layers and models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from metatensor._core.late import later
from metatensor.nn._base import InstanceDict, ModuleBase, install, module_getattr
from metatensor.nn._conversion import Conversion
from metatensor.nn._hooks import Hooks, call_with_hooks
from metatensor.nn._members import Members
from metatensor.nn._notes import add_module_note
from metatensor.nn._register import add_module, module_delattr, module_setattr, register_buffer, register_parameter
from metatensor.nn._state_dict import StateDict

if TYPE_CHECKING:
    import inspect

    from typing_extensions import Self

__all__ = ["Module"]


class _CallSignature:
    """Descriptor that gives `inspect.signature` the call signature of an instance. Classes keep their constructor's."""

    def __get__(self, module: Any, cls: type | None = None) -> inspect.Signature:
        if module is None:
            raise AttributeError("__signature__")
        import inspect  # slow to import and rarely needed

        call = type(module).__call__
        if call is not Module.__call__:
            return inspect.signature(call.__get__(module))
        kinds = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
        return inspect.Signature([inspect.Parameter(name, kind) for name, kind in zip(("args", "kwargs"), kinds, strict=True)])


class Module(Members, Hooks, StateDict, Conversion, ModuleBase):
    """Base class of layers and models.

    Parameters, buffers and modules that are assigned as attributes are registered under the attribute's name.
    `parameters`, `state_dict`, `to` and other methods then find them. A subclass calls ``super().__init__()`` before
    such assignments, and defines ``forward``, which computes the result of a call. A call also runs the hooks.

    An exception that leaves a call has a note and an attribute ``module_path`` with the dotted path of the module that
    raised it.

    Examples
    --------
    >>> import metatensor as mt
    >>> class Scale(mt.nn.Module):
    ...     def __init__(self, size):
    ...         super().__init__()
    ...         self.scale = mt.nn.Parameter(mt.ones(size))
    ...     def forward(self, x):
    ...         return x * self.scale
    >>> layer = Scale(3)
    >>> layer(mt.empty(2, 3)).shape
    metatensor.Size([2, 3])
    >>> list(layer.state_dict())
    ['scale']
    """

    __signature__ = _CallSignature()

    training: bool
    """True in training mode, False in evaluation mode. Set by `train` and `eval`."""

    call_super_init: bool = False
    """Whether ``Module.__init__`` calls ``super().__init__``, for multiple inheritance."""

    dump_patches: bool = False
    _version: int = 1
    _is_full_backward_hook: bool | None = None
    _compiled_call_impl = None

    __init__ = ModuleBase.__init__  # a shorter look-up than through all base classes
    __dict__ = InstanceDict()  # type: ignore[assignment]
    __setattr__ = module_setattr
    __delattr__ = module_delattr
    __getattr__ = module_getattr
    register_parameter = register_parameter
    register_buffer = register_buffer
    add_module = add_module

    def register_module(self, name: str, module: Module | None) -> None:
        """Register a submodule. See `add_module`."""
        self.add_module(name, module)

    def forward(self, *input: Any) -> Any:
        """Compute the result of a call. Subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} is called, but defines no forward()")

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        return ModuleBase.__call__(self, *args, **kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing. The method exists for compatibility: metatensor does not compile modules."""

    def train(self, mode: bool = True) -> Self:
        """Set training or evaluation mode of this module and its submodules, and return this module.

        In training mode dropout drops elements, and batch norms use and update the statistics of the batch.

        Parameters
        ----------
        mode : bool
            True (the default) for training mode.

        Raises
        ------
        ValueError
            If ``mode`` is not a bool.

        Examples
        --------
        >>> import metatensor as mt
        >>> mt.nn.Dropout().train(False).training
        False
        """
        if not isinstance(mode, bool):
            raise ValueError(f"train: expected a bool, got {mode!r}")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Set evaluation mode of this module and its submodules, and return this module. Same as ``train(False)``."""
        return self.train(False)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __dir__(self) -> Iterable[str]:
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers}
        return sorted(name for name in names if not name[:1].isdigit())

    def _get_name(self) -> str:
        return type(self).__name__

    def unresolved(self) -> list[Any]:
        """Return the parameters, buffers and tensor attributes without data, with their names and places of creation.

        `metatensor.assert_materialized` raises an error if there are any.
        """
        return later("unresolved")(self)

    def extra_repr(self) -> str:
        """Return the text between the parentheses of the module's repr. Subclasses override it."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): " + repr(module).replace("\n", "\n  ") for name, module in self._modules.items()]
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({extra})"
        if not lines and not children:
            return f"{self._get_name()}()"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"


install(Module, call_with_hooks, add_module_note)
