"""The operator overloads of PyTorch's dispatcher, which ``__torch_dispatch__`` receives.

`packet` finds an operator by namespace and name. `overload_call` returns the overload and the arguments that correspond
to a call of a metatensor operator. Signatures come from `aten.txt` if PyTorch has the operator, else from metatensor's
schema.
"""

from __future__ import annotations

from functools import cache, cached_property
from importlib import resources
from typing import Any

from metatensor._core.op import registry
from metatensor._core.overrides import handle_torch_function
from metatensor._core.tensor import Tensor
from metatensor.overloads import calls
from metatensor.overloads.names import aten_names, registry_names
from metatensor.overloads.schema import FunctionSchema
from metatensor.overloads.tags import tags_of

__all__ = ["OpOverload", "OpOverloadPacket", "overload_call", "packet", "schemas"]


@cache
def schemas() -> dict[str, dict[str, str]]:
    """Return the signatures of PyTorch's operators by operator name, then by overload name ("default" if unnamed)."""
    found: dict[str, dict[str, str]] = {}
    text = resources.files(__name__).joinpath("aten.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        name, _, overload = line.partition("(")[0].partition(".")
        found.setdefault(name, {})[overload or "default"] = line
    return found


def _has_others(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether an argument, also inside a list, is an object with ``__torch_function__`` that is not a tensor."""
    for a in (*args, *kwargs.values()) if kwargs else args:
        for one in a if isinstance(a, (list, tuple)) else (a,):
            if not isinstance(one, (Tensor, int, float, str)) and hasattr(type(one), "__torch_function__"):
                return True
    return False


def _ask_others(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return handle_torch_function(function, (*args, *kwargs.values()), *args, **kwargs)


class OpOverload:
    """One overload of an operator. Calling it takes the arguments of its signature, ``_schema``.

    Parameters
    ----------
    packet : OpOverloadPacket
        The operator.
    overload : str
        The name of the overload.
    schema : FunctionSchema
        Its signature.
    """

    def __init__(self, packet: OpOverloadPacket, overload: str, schema: FunctionSchema) -> None:
        self._overloadpacket = packet
        self._overloadname = overload
        self._schema = schema
        self.namespace = packet.namespace
        self.__name__ = f"{packet.__name__}.{overload}"
        self.__qualname__ = str(self)
        self.__module__ = f"torch._ops.{packet.namespace}"

    @property
    def tags(self) -> list[Any]:
        """The tags that follow from the operator's declaration. See `metatensor.overloads.tags`."""
        return tags_of(self.op)

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """The operator that this overload belongs to."""
        return self._overloadpacket

    @property
    def op(self) -> Any:
        """The operator of metatensor that computes this overload."""
        return self._overloadpacket._op

    @cached_property
    def is_view(self) -> bool:
        """Whether the result is a view of an argument and the operator writes to no argument."""
        infos = [argument.alias_info for argument in self._schema.arguments]
        return any(infos) and not self._schema.is_mutable and bool(self.op.overloads[0].is_view)

    def name(self) -> str:
        """Return the name with its namespace, such as ``"aten::add.Tensor"``."""
        suffix = "" if self._overloadname == "default" else f".{self._overloadname}"
        return f"{self._overloadpacket._qualified_op_name}{suffix}"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if _has_others(args, kwargs):
            return _ask_others(self, args, kwargs)
        return calls.run(self, args, kwargs)

    def __str__(self) -> str:
        return f"{self._overloadpacket}.{self._overloadname}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self._overloadpacket}', overload='{self._overloadname}')>"

    def __reduce__(self) -> Any:
        return _restored, (self.namespace, self._overloadpacket.__name__, self._overloadname)

    def __copy__(self) -> OpOverload:
        return self

    def __deepcopy__(self, memo: Any) -> OpOverload:
        return self


class OpOverloadPacket:
    """An operator, such as ``torch.ops.aten.add``. Its overloads are attributes: ``torch.ops.aten.add.Tensor``.

    Parameters
    ----------
    namespace : str
        The namespace, "aten" for PyTorch's own operators.
    name : str
        The name in that namespace.
    op : Op
        The operator of metatensor that computes it.
    """

    def __init__(self, namespace: str, name: str, op: Any) -> None:
        self.namespace = namespace
        self.__name__ = name
        self.__qualname__ = name
        self.__module__ = f"torch._ops.{namespace}"
        self._qualified_op_name = f"{namespace}::{name}"
        self._op = op

    def _texts(self) -> dict[str, str]:
        if self.namespace == "aten" and self.__name__ in schemas():
            return schemas()[self.__name__]
        stem = self._op.functional.name
        own = {overload.qualname[len(stem) + 1 :] or "default": overload.text for overload in self._op.overloads}
        return {name: calls.translated(text, self.__name__, self._op.variant) for name, text in own.items()}

    def overloads(self) -> list[str]:
        """Return the names of the overloads."""
        return list(self._texts())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        text = self._texts().get(name)
        if text is None:
            raise AttributeError(f"the operator {self._qualified_op_name} has no overload {name!r}")
        found = OpOverload(self, name, FunctionSchema(text, self.namespace))
        setattr(self, name, found)
        return found

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if _has_others(args, kwargs):
            return _ask_others(self, args, kwargs)
        if self.namespace == "aten" and self.__name__ in calls.DIFFERENT:  # the operator takes other arguments
            return calls.run(getattr(self, self.overloads()[0]), args, kwargs)
        return self._op(*args, **kwargs)

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"

    def __reduce__(self) -> Any:
        return packet, (self.namespace, self.__name__)

    def __copy__(self) -> OpOverloadPacket:
        return self

    def __deepcopy__(self, memo: Any) -> OpOverloadPacket:
        return self


def _restored(namespace: str, name: str, overload: str) -> Any:
    return getattr(packet(namespace, name), overload)


_packets: dict[tuple[str, str], OpOverloadPacket] = {}


def packet(namespace: str, name: str) -> OpOverloadPacket:
    """Return the operator with the given namespace and name.

    Parameters
    ----------
    namespace : str
        The namespace, "aten" for PyTorch's own operators.
    name : str
        The name in that namespace.

    Raises
    ------
    AttributeError
        If there is no such operator.
    """
    found = _packets.get((namespace, name))
    if found is None:
        names = registry_names(name) if namespace == "aten" else (f"{namespace}::{name}",)
        op = next((registry[one] for one in names if one in registry), None)
        if op is None and namespace == "aten" and name in calls.TRANSLATED:
            op = registry[calls.TRANSLATED[name]]
        if op is None:
            raise AttributeError(f"there is no operator {namespace}::{name} in metatensor")
        found = _packets[namespace, name] = OpOverloadPacket(namespace, name, op)
    elif namespace != "aten" and found._op is not registry.get(f"{namespace}::{name}", found._op):
        del _packets[namespace, name]  # the operator was redefined
        return packet(namespace, name)
    return found


def overload_call(op: Any, overload: Any, variant: int, values: dict[str, Any], given: set[str], out: Any) -> tuple[Any, tuple, dict]:
    """Return the overload and its positional and keyword arguments for a call of an operator of metatensor.

    Parameters
    ----------
    op : Op
        The operator that was called.
    overload
        The schema of `op` that the call matched.
    variant : int
        0 for a plain call, 1 for an in-place call, 2 for a call with `out`.
    values : dict
        The arguments by name, including defaults.
    given : set of str
        Names of the arguments that the caller passed.
    out : Tensor, sequence of Tensor or None
        The ``out`` argument.
    """
    stem = op.functional.name
    if "::" in stem:
        namespace, _, name = op.name.partition("::")
        chosen = getattr(packet(namespace, name), overload.qualname[len(stem) + 1 :] or "default")
        return chosen, *calls.own_arguments(overload, values, given, out)
    special = calls.special(stem, values, given) if out is None else None
    if special is not None:
        name, which, args = special
        return getattr(packet("aten", name), which), args, {}
    for name in aten_names(stem):
        if variant == 1 and not name.endswith("_"):
            name += "_"
        for which in schemas().get(name, {}):
            target = getattr(packet("aten", name), which)
            if (variant == 2) == any(argument.is_out for argument in target._schema.arguments):
                found = calls.matched(target, op, overload, values, given, out)
                if found is not None:
                    return target, *found
    return _own(op, overload, variant), *calls.own_arguments(overload, values, given, out)


_own_overloads: dict[Any, Any] = {}


def _own(op: Any, overload: Any, variant: int) -> OpOverload:
    """Return an overload in the namespace ``metatensor``.

    It is used if PyTorch's dispatcher has no matching operator.
    """
    key = (op, overload.qualname, variant)
    if key not in _own_overloads:
        name = op.name.replace(".", "_")
        text = calls.translated(overload.text, name, variant)
        which = overload.qualname[len(op.functional.name) + 1 :] or "default"
        _own_overloads[key] = OpOverload(OpOverloadPacket("metatensor", name, op), which, FunctionSchema(text, "metatensor"))
    return _own_overloads[key]
