"""Gradients of custom operators."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from metatensor._core.gradients import prepare_again, tables
from metatensor._core.late import later
from metatensor._core.schema import parse
from metatensor._core.tensor import Tensor
from metatensor.library.operators import get_op

__all__ = ["compute_through", "function_gradient", "gradient", "has_gradient", "overload_of"]

_lock = threading.Lock()


def overload_of(name: str) -> Any:
    """Return the overload named `name`, such as ``"acme::rope"`` or ``"max.dim"``."""
    overloads = get_op(name).functional.overloads
    for overload in overloads:
        if overload.qualname == name:
            return overload
    raise ValueError(f"{name}: name one of its schemas: {', '.join(o.qualname for o in overloads)}")


def gradient(name: str, /, *function_or_names: Any, **rules: Callable[..., Any]) -> Any:
    """Declare the gradient of an operator.

    There are two ways. With keyword arguments, each keyword names an argument of the operator, and its value is a
    function that returns the gradient of that argument. Otherwise the result is a decorator for one function that
    returns the gradients of the named arguments, by default of all tensor arguments, as a tuple.

    The names of a function's parameters determine what it receives, and therefore what a call keeps: ``grad`` is the
    gradient of the result, the name of an argument is that argument, ``result`` or the name of a result is that
    result, and the name of an argument followed by ``_meta`` is a `Spec` of it. See docs/gradients.md. A function must
    not capture variables.

    A call raises RuntimeError if a tensor argument that is not named requires grad. To give such an argument no
    gradient, name it and return None for it.

    Parameters
    ----------
    name : str
        The name of one schema, such as ``"acme::rope"``.
    *function_or_names : callable or str
        Names of the arguments whose gradients the decorated function returns, or the function itself.
    **rules : callable
        For each named argument, the function that returns its gradient.

    Raises
    ------
    RuntimeError
        If the operator has a gradient already, or writes to an argument.
    TypeError
        If a function captures variables, or has a parameter whose name does not belong to the operator.

    Examples
    --------
    >>> import metatensor as mt
    >>> @mt.op("acme_docs::square")
    ... def square(x: mt.Tensor) -> mt.Spec:
    ...     return mt.Spec(x.shape, x.dtype)
    >>> _ = square.decomposition(lambda x: x * x)
    >>> square.gradient(x=lambda grad, x: 2 * x * grad)
    >>> x = mt.tensor([3.0], device="cpu", requires_grad=True)
    >>> square(x).backward()
    >>> x.grad
    tensor([6.])
    """
    overload = _writable(name)
    if rules:
        if function_or_names:
            raise TypeError(f"{name}: pass either functions by keyword or the names of the arguments")
        for argument, rule in rules.items():
            if not callable(rule):
                raise TypeError(f"{name}: the gradient of {argument} must be a function, not {type(rule).__name__}")
        _declare(name, overload, rules=rules)
        return None
    if len(function_or_names) == 1 and not isinstance(function_or_names[0], str):
        return gradient(name)(function_or_names[0])
    names = function_or_names or tuple(a.name for a in parse(overload.text).arguments if a.type.startswith("Tensor"))
    for given in names:
        if not isinstance(given, str):
            raise TypeError(f"{name}: the names of arguments must be str, not {type(given).__name__}")

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(function):
            raise TypeError(f"{name}: the gradient must be a function, not {type(function).__name__}")
        _declare(name, overload, joint=function, rules=dict.fromkeys(names, True))
        return function

    return decorate


def _writable(name: str) -> Any:
    overload = overload_of(name)
    schema = parse(overload.text)
    if any(argument.mutated for argument in schema.arguments):
        raise RuntimeError(f"{name}: an operator that writes to its arguments cannot have a gradient; define one that returns new "
                           f"tensors: {overload.text}")  # fmt: skip
    return overload


def has_gradient(name: str) -> bool:
    """Return whether the overload named `name` has a declared gradient."""
    return any(name in table for table in tables())


def _replace(overload: Any, through: Any = None, joint: Any = None, rules: Any = None) -> None:
    """Replace the gradient of an overload. If a function does not fit, the old gradient is kept."""
    name, (by_others, declared) = overload.qualname, tables()
    before = by_others.pop(name, None), declared.pop(name, None)
    if through is not None:
        by_others[name] = through
    if rules:
        declared[name] = None, joint, None, rules
    try:
        prepare_again(overload)
    except BaseException:
        for table, old in zip((by_others, declared), before, strict=True):
            table.pop(name, None)
            if old is not None:
                table[name] = old
        raise


def _declare(name: str, overload: Any, **how: Any) -> None:
    with _lock:
        if has_gradient(name) and name not in _derived:
            raise RuntimeError(f"{name}: a gradient is declared already")
        _replace(overload, **how)
        _derived.discard(name)


_derived: set[str] = set()  # operators differentiated through their decomposition or body until a gradient is declared


def compute_through(name: str, function: Callable[..., Any], *, derived: bool = False) -> None:
    """Use `function` to compute an operator while gradients are recorded. It is called with all arguments by position.

    If it returns NotImplemented, the operator's kernel runs. If `derived`, a gradient that is declared later replaces
    it.
    """
    overload = overload_of(name)
    with _lock:
        if has_gradient(name) and (derived or name not in _derived):
            if derived:
                return
            raise RuntimeError(f"{name}: a gradient is declared already")
        _replace(overload, through=function)
        _derived.discard(name)
        if derived:
            _derived.add(name)


# Gradients with a context -----------------------------------------------------------------------------------------------


class _Call:
    """The nesting of the arguments or results of a call, whose tensors are passed on as a flat list.

    It holds no tensors after the call.
    """

    def __init__(self, arguments: tuple, keep: bool = True) -> None:
        self.flat: list = []
        self.sizes: list[int | None] = []  # for each argument the length of a list of tensors, or None
        for value in arguments:
            is_list = isinstance(value, (list, tuple)) and any(isinstance(t, Tensor) for t in value)
            self.sizes.append(len(value) if is_list else None)
            if keep:
                self.flat += value if is_list else [value]
        self.outputs: _Call | None = None  # the nesting of the results, or None for a single result
        self.kind: type = tuple
        self.keywords: dict[str, Any] = {}

    def nested(self, flat: Any) -> tuple:
        """Return flat values in the nesting of the arguments."""
        values = iter(flat)
        return tuple(next(values) if size is None else [next(values) for _ in range(size)] for size in self.sizes)

    def flattened(self, name: str, gradients: Any) -> list:
        """Return the gradients as a flat list. Raise RuntimeError if their nesting differs from that of the arguments."""
        gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        if len(gradients) > len(self.sizes) and all(g is None for g in gradients[len(self.sizes) :]):
            gradients = gradients[: len(self.sizes)]
        if len(gradients) != len(self.sizes):
            raise RuntimeError(f"{name}: backward returned {len(gradients)} gradients for {len(self.sizes)} arguments; return one for "
                               "each, or None for arguments without a gradient")  # fmt: skip
        flat: list = []
        for i, (g, size) in enumerate(zip(gradients, self.sizes, strict=True)):
            if size is None:
                flat.append(g)
            elif g is None:
                flat += [None] * size
            elif isinstance(g, (list, tuple)) and len(g) == size:
                flat += g
            else:
                what = f"{len(g)} gradients" if isinstance(g, (list, tuple)) else type(g).__name__
                raise RuntimeError(f"{name}: argument {i} is a list of {size} tensors, but backward returned {what} for it")
        return flat


def function_gradient(
    name: str,
    backward: Callable[..., Any],
    setup_context: Callable[..., Any] | None = None,
    compute: Callable[..., Any] | None = None,
) -> None:
    """Declare the gradient of an operator by functions that take a context, like those of an `autograd.Function`.

    Parameters
    ----------
    name : str
        The name of one schema.
    backward : callable
        ``backward(ctx, *grads)`` returns the gradients of the positional arguments.
    setup_context : callable, optional
        ``setup_context(ctx, inputs, output)`` stores in `ctx` what `backward` needs. If the operator has keyword-only
        arguments, it also receives ``keyword_only_inputs``, a dict.
    compute : callable, optional
        Function that computes the operator. Default: the operator itself.

    Raises
    ------
    RuntimeError
        If the operator writes to an argument or has a gradient already.
    NotImplementedError
        If a keyword-only argument is a tensor.
    """
    Function: Any = later("Function")
    overload = _writable(name)
    schema = parse(overload.text)
    keywords = [a.name for a in schema.arguments if a.kwonly]
    if any(a.kwonly and a.type.startswith("Tensor") for a in schema.arguments):
        raise NotImplementedError(f"{name}: a keyword-only argument is a tensor, which has no gradient here; make it positional: "
                                  f"{overload.text}")  # fmt: skip
    operator = get_op(name)
    split = len(schema.arguments) - len(keywords)
    run = operator if compute is None else compute

    def forward(ctx: Any, *flat: Any) -> Any:
        call = flat[-1]
        inputs = call.nested(flat[:-1])
        named = call.keywords
        result = run(*inputs, **named)
        ctx.needs_input_grad = call.nested(ctx.needs_input_grad[:-1])
        if setup_context is not None:
            more = {"keyword_only_inputs": named} if keywords else {}
            setup_context(ctx=ctx, inputs=inputs, output=result, **more)
        ctx._call = call
        call.kind = type(result)
        if isinstance(result, Tensor):
            return result
        call.outputs = _Call(tuple(result), keep=False)
        return tuple(t for r in result for t in (r if isinstance(r, (list, tuple)) else (r,)))

    def walk(ctx: Any, *grads: Any) -> Any:
        call = ctx._call
        if call.outputs is not None:
            grads = (list(grads),) if call.kind is list else call.outputs.nested(grads)
        return (*call.flattened(name, backward(ctx, *grads)), None)

    label = "GeneratedBackwardFor_" + name.replace("::", "_") + ("" if "." in name else "_default")
    made: Any = type(label.replace(".", "_"), (Function,), {"forward": staticmethod(forward), "backward": staticmethod(walk)})

    def through(*arguments: Any) -> Any:
        call = _Call(arguments[:split])
        call.keywords = dict(zip(keywords, arguments[split:], strict=True))
        outputs = made.apply(*call.flat, call)
        call.flat = []
        if call.outputs is None:
            return outputs
        return call.kind(call.outputs.nested(outputs))  # a tuple, a named one or a list

    compute_through(name, through)
