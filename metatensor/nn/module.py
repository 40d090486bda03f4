"""Module: the base class of layers and models."""

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
    """The signature of a module as a function, as `inspect.signature` asks for it. Classes keep that of their constructor."""

    def __get__(self, module: Any, cls: type | None = None) -> inspect.Signature:
        if module is None:
            raise AttributeError("__signature__")
        import inspect  # slow to import, and seldom needed

        call = type(module).__call__
        if call is not Module.__call__:
            return inspect.signature(call.__get__(module))
        kinds = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
        return inspect.Signature([inspect.Parameter(name, kind) for name, kind in zip(("args", "kwargs"), kinds, strict=True)])


class Module(Members, Hooks, StateDict, Conversion, ModuleBase):
    """Base class of everything that has parameters and a `forward`.

    Parameters, buffers and modules that are assigned as attributes are registered: they are found by `parameters`,
    `state_dict`, `to` and the like, under the attribute's name. A subclass calls ``super().__init__()`` before it
    assigns any. Calling a module runs its hooks and `forward`; an exception that leaves it carries, as a note and as
    ``exc.module_path``, the dotted path of the module in which it arose.
    """

    __signature__ = _CallSignature()

    training: bool
    """Whether the module is in training mode (`train`, `eval`)."""

    call_super_init: bool = False
    """Whether ``Module.__init__`` goes on to the next class's ``__init__``, for multiple inheritance."""

    dump_patches: bool = False
    _version: int = 1
    _is_full_backward_hook: bool | None = None
    _compiled_call_impl = None

    __init__ = ModuleBase.__init__  # found here at once, instead of at the end of the bases
    __dict__ = InstanceDict()  # type: ignore[assignment]
    __setattr__ = module_setattr
    __delattr__ = module_delattr
    __getattr__ = module_getattr
    register_parameter = register_parameter
    register_buffer = register_buffer
    add_module = add_module

    def register_module(self, name: str, module: Module | None) -> None:
        """`add_module` by another name."""
        self.add_module(name, module)

    def forward(self, *input: Any) -> Any:
        """What calling the module computes; every subclass that is called defines it."""
        raise NotImplementedError(f"{type(self).__name__} is called, but defines no forward()")

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        return ModuleBase.__call__(self, *args, **kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: calls are not compiled here, and a compiled one would give the same."""

    def train(self, mode: bool = True) -> Self:
        """Set training mode, here and below: dropout drops, batch norm uses and updates statistics of the batch."""
        if not isinstance(mode, bool):
            raise ValueError(f"train: expected a bool, got {mode!r}")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Set evaluation mode: ``train(False)``."""
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
        """Every parameter, buffer and tensor attribute that holds no data, with its name and where it was made.

        `metatensor.assert_materialized` raises where there is one.
        """
        return later("unresolved")(self)

    def extra_repr(self) -> str:
        """What stands between the brackets of this module's repr; several lines are indented."""
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
