"""Normalization of call arguments to the order and names of a signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import metatensor as mt
from metatensor._core.op import Op, OpMethod
from metatensor.overloads import OpOverload

__all__ = ["ArgsKwargsPair", "check_for_mutable_operation", "create_type_hint", "get_signature_for_torch_op", "normalize_function",
           "normalize_module", "type_matches"]  # fmt: skip


class ArgsKwargsPair(NamedTuple):
    """Positional arguments and keyword arguments."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def get_signature_for_torch_op(op: Any, return_schemas: bool = False) -> Any:
    """Return the signatures of an operator, one for each of its overloads, or None for other objects.

    With `return_schemas`, return a pair of the signatures and the schemas as text.
    """
    texts: list[str] | None = None
    if isinstance(op, OpOverload):
        texts = [str(op._schema)]
    elif isinstance(op, (Op, OpMethod)):
        operator = op if isinstance(op, Op) else getattr(mt, getattr(op, "__name__", ""), None)
        texts = None if operator is None else [overload.text for overload in operator.overloads]
    found = None if texts is None else [_signature(text) for text in texts]
    return (found, texts) if return_schemas else found


def _signature(text: str) -> inspect.Signature:
    """Return the signature that a schema describes."""
    from metatensor.overloads.calls import _declared

    kinds = inspect.Parameter
    parameters = [
        kinds(a.name, kinds.KEYWORD_ONLY if a.kwonly else kinds.POSITIONAL_OR_KEYWORD, default=kinds.empty if a.required else a.default)
        for a in _declared(text)
    ]
    return inspect.Signature(parameters, __validate_parameters__=False)


def check_for_mutable_operation(target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise RuntimeError for an operator that changes its first argument in place."""
    if isinstance(target, Op) and target.functional is not target:
        raise RuntimeError(f"fx: {target.__name__}() changes an argument in place")


def create_type_hint(x: Any) -> Any:
    """Return the common type of the elements of a list or tuple of types as ``list[...]`` or ``tuple[...]``, else `x`."""
    if not isinstance(x, (list, tuple)):
        return x
    kinds = [one for one in x if isinstance(one, type)]
    base: Any = next((one for one in kinds if len(kinds) == len(x) and all(issubclass(other, one) for other in kinds)), Any)
    return list.__class_getitem__(base) if isinstance(x, list) else tuple.__class_getitem__((base, ...))


def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """Return whether an argument of a type fits a parameter of a type."""
    if signature_type is argument_type or signature_type is Any:
        return True
    if isinstance(signature_type, type) and isinstance(argument_type, type):
        return issubclass(argument_type, signature_type) or signature_type is float and argument_type is int
    return argument_type in getattr(signature_type, "__args__", ())


def normalize_function(
    target: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, arg_types: Any = None, kwarg_types: Any = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:  # fmt: skip
    """Return the arguments of a call of a function in the order and under the names of its signature.

    Arguments that were not given have their default values.

    Parameters
    ----------
    target : callable
        An operator, or a function of Python.
    args, kwargs : tuple and dict
        The arguments, which may be nodes.
    arg_types, kwarg_types : tuple and dict, optional
        Ignored.
    normalize_to_only_use_kwargs : bool
        Return all arguments by keyword. Default False.

    Returns
    -------
    ArgsKwargsPair or None
        None if there is no signature that fits.
    """
    kwargs = dict(kwargs or {})
    if isinstance(target, OpOverload):
        signatures = get_signature_for_torch_op(target)
    else:
        try:
            signatures = [inspect.signature(target)]
        except (TypeError, ValueError):
            signatures = get_signature_for_torch_op(target)
        if isinstance(target, Op):
            signatures = [*(signatures or ()), *(get_signature_for_torch_op(target) or ())]
    for signature in signatures or ():
        found = _bound(signature, args, kwargs, normalize_to_only_use_kwargs)
        if found is not None:
            return found
    return None


def normalize_module(
    root: Any, target: str, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, normalize_to_only_use_kwargs: bool = False
) -> ArgsKwargsPair | None:
    """Return the arguments of a call of a layer in the order and under the names of its ``forward``.

    None if the submodule is not a layer of ``torch.nn``, or if the arguments do not fit. Raise RuntimeError if it does not exist.
    """
    try:
        module = root.get_submodule(target)
    except AttributeError:
        raise RuntimeError(f"normalize_module: the module has no submodule {target!r}") from None
    if not type(module).__module__.startswith(("metatensor.nn", "torch.nn")):
        return None
    return _bound(inspect.signature(module.forward), args, dict(kwargs or {}), normalize_to_only_use_kwargs)


def _bound(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any], by_name: bool) -> ArgsKwargsPair | None:
    parameters = signature.parameters.values()
    if any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in parameters):
        return None
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    if by_name:
        return ArgsKwargsPair((), dict(bound.arguments))
    kwonly = {one.name for one in parameters if one.kind is one.KEYWORD_ONLY}
    given = [one.name for one in parameters if one.kind is not one.KEYWORD_ONLY]
    positional = given[: len(args)] if args else []
    rest = {name: value for name, value in bound.arguments.items() if name not in positional or name in kwonly}
    return ArgsKwargsPair(tuple(bound.arguments[name] for name in positional), rest)
