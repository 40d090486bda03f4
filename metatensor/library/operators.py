"""Registration of operators and of their meta functions, kernels, FLOP rules and decompositions."""

import functools
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from metatensor._core.compute import forget_kernels
from metatensor._core.op import define_op, op_by_name, operator_flags, registry, set_meta
from metatensor._core.schema import parse
from metatensor._core.tensor import Tensor
from metatensor.library.hints import infer_schema

__all__ = ["decomposition", "define", "flops", "get_op", "infer_schema", "kernel", "meta", "op"]

_lock = threading.Lock()


class _Registered(NamedTuple):
    function: Callable[..., Any]
    override: bool


_kernels: dict[tuple[str, str], _Registered] = {}  # (qualified name, device type) -> kernel


def op(name, *, schema=None, mutates_args=(), composite=False, data_dependent=False):
    """Return a decorator that defines an op from its meta function.

    The decorated function receives the arguments of the op. It returns a `Spec` for each result, or an empty tensor
    made with ``new_empty`` or similar. Several results are returned as a tuple. The decorator returns the `Op`.

    Parameters
    ----------
    name : str
        The qualified name, ``"namespace::name"``.
    schema : str, optional
        The schema without the name, ``"(Tensor x, float by=2.0) -> Tensor"``. Default: inferred from the type hints.
    mutates_args : iterable of str
        Names of the tensor arguments that the kernels write to. Use it only without `schema`, which marks such
        arguments as ``Tensor(a!) x``.
    composite : bool
        If True, the function computes the result by calling other ops, and the op needs no kernels. Default False.
    data_dependent : bool
        If True, the shapes of the results depend on values. The function then only checks the arguments, its return
        value is ignored, and the kernels return the results. For tensors without data the op raises
        `DataDependentError`. Default False.

    Raises
    ------
    RuntimeError
        If the name is already in use.
    TypeError
        If `schema` is combined with `mutates_args`, if `composite` is combined with `data_dependent`, or if the type
        hints cannot be expressed as a schema.
    ValueError
        If the name is not of the form ``namespace::name``.

    Examples
    --------
    >>> import metatensor as mt
    >>> @mt.op("acme_docs::double")
    ... def double(x: mt.Tensor) -> mt.Spec:
    ...     return mt.Spec(x.shape, x.dtype)
    >>> tuple(double(mt.empty(2, 3, device="meta")).shape)
    (2, 3)
    """
    if callable(name):
        raise TypeError(f"op: a name is missing; write @metatensor.op(\"namespace::{getattr(name, '__name__', 'name')}\")")
    _check_name(name)
    if schema is not None and mutates_args:
        raise TypeError(f"{name}: pass either schema or mutates_args; a schema marks mutated arguments as Tensor(a!) x")
    if composite and data_dependent:
        raise TypeError(f"{name}: an op is either composite or data-dependent, not both")

    def decorate(function):
        text = infer_schema(function, name, mutates_args) if schema is None else name + schema
        flags = _flags(text, composite, data_dependent)
        made = define_op(text, function, flags, _first_line(function.__doc__))
        if flags & operator_flags.VIEW:
            _gradient_of_body(name, function)
        return made

    return decorate


def define(schema, *, data_dependent=False, doc=""):
    """Define an op from its schema and return it. Register its meta function with `meta`.

    Parameters
    ----------
    schema : str
        The schema with the name, ``"acme::scale(Tensor input, float factor) -> Tensor"``.
    data_dependent : bool
        Whether the shapes of the results depend on values. Such an op needs no meta function. Default False.
    doc : str
        The documentation of the op.

    Returns
    -------
    Op

    Raises
    ------
    RuntimeError
        If the name is already in use.
    """
    _check_name(schema.partition("(")[0].strip())
    return define_op(schema, None, _flags(schema, False, data_dependent), doc)


def _flags(text, composite, data_dependent):
    """Return the flags of an op. It is a view op if every result aliases an argument that is not written to."""
    returns = parse(text).returns
    view = bool(returns) and all("(" in kind and "!" not in kind for kind, _ in returns)
    flags = operator_flags.COMPOSITE if composite else operator_flags.VIEW if view else 0
    return flags | (operator_flags.DATA if data_dependent else 0)


def meta(name):
    """Return a decorator that registers the meta function of an op made by `define`.

    Raises
    ------
    RuntimeError
        If the op already has a meta function.

    Examples
    --------
    >>> import metatensor as mt
    >>> scale = mt.library.define("acme_docs::scale(Tensor input, float factor) -> Tensor")
    >>> @mt.library.meta("acme_docs::scale")
    ... def scale_meta(input, factor):
    ...     return mt.Spec(input.shape, input.dtype)
    >>> tuple(scale(mt.empty(2, 3, device="meta"), 2.0).shape)
    (2, 3)
    """

    def decorate(function):
        target = op_by_name(name)
        with _lock:
            set_meta(target, function)
        if target.flags & operator_flags.VIEW:
            _gradient_of_body(name, function)
        return function

    return decorate


def _gradient_of_body(name, function):
    """Differentiate a view through the operators in its body, unless a gradient is declared."""
    from metatensor.library.gradients import compute_through, overload_of

    keywords = [a.name for a in parse(overload_of(name).text).arguments if a.kwonly]

    def through(*args):
        split = len(args) - len(keywords)
        return function(*args[:split], **dict(zip(keywords, args[split:], strict=True)))

    compute_through(name, through, derived=True)


def kernel(name, device, *, override=False):
    """Return a decorator that registers a kernel of an op, custom or built in, for one device type.

    The kernel is called as ``kernel(out, *args)`` with tensors that hold data. ``out`` is allocated with the shape and
    dtype that the meta function returns. It is a tuple if there are several results. The kernel fills ``out`` or
    returns a tensor of the same shape and dtype. For a data-dependent op ``out`` is None and the kernel returns the
    results.

    Parameters
    ----------
    name : str
        The name of an op or of one of its overloads, such as ``"acme::rope"`` or ``"max.dim"``.
    device : str
        The device type, ``"cuda"``.
    override : bool
        Whether to replace an existing kernel for the op and device. Default False.

    Raises
    ------
    RuntimeError
        If the op already has a kernel on the device and `override` is False. If the device is not loaded yet, the first
        use of the op on the device raises the error.
    TypeError
        If `device` is not a str.
    ValueError
        If `device` is "meta" or not a device type, or if the op cannot have kernels, because it is a view, for example.
    """
    target, name = _schema_of(name, "kernels")
    if not isinstance(device, str):
        raise TypeError(f"{name}: the device type of a kernel must be a str, not {type(device).__name__}")
    if not device.isidentifier() or device == "meta":
        what = "the meta device computes no values" if device == "meta" else 'write the type alone, "cuda"'
        raise ValueError(f"{name}: there are no kernels for the device type {device!r}: {what}")

    def decorate(function):
        with _lock:
            if not override:
                _check_free(name, device)
            _kernels[name, device] = _Registered(function, bool(override))
        forget_kernels(target)
        return function

    return decorate


def _check_free(name, device):
    from metatensor import plugins

    if (name, device) in _kernels:
        raise RuntimeError(f"{name}: a kernel for {device!r} is registered already, by {kernel_owner(name, device)}; "
                           "override=True replaces it")
    backend = plugins.loaded_backend(device)
    if backend is not None and backend.kernel(name) is not None:
        raise _two_kernels(name, device)


def _two_kernels(name, device):
    from metatensor import plugins

    return RuntimeError(f"{name}: the device {device!r} has a kernel of its own, from {plugins.provider(device)}; override=True "
                        "replaces it")


def find_kernel(name, device, backend=None):
    """Return the kernel of a schema on a device type, or None.

    These candidates are tried in order:

    1. a kernel registered with `kernel`, or the ``backend``'s own;
    2. the kernel of an equivalent operator, such as ``relu`` for ``nn.functional.relu``;
    3. a basic kernel from the base class of devices;
    4. if the op has no decomposition and the backend's ``fallback`` is "cpu", a kernel that computes on the cpu.

    Raise RuntimeError if both a registered kernel and one of the backend exist, and neither overrides the other.
    """
    held = _kernels.get((name, device))
    if backend is None or (held is not None and held.override):
        return held and held.function
    own = backend.kernel(name)
    if held is not None:
        if own is not None:
            raise _two_kernels(name, device)
        return held.function
    from metatensor.devices.basics import NAMES, basic_kernel
    from metatensor.rules.decompositions import decompositions

    if own is None:
        own = _counterpart(name, device, backend)
    if own is None and (found := basic_kernel(backend, name)) is not None:
        return found
    if own is None and name not in decompositions() and backend.fallback is not None:
        return _fallback(name, backend)
    return own if own is None or backend.dtypes is None or name in NAMES else _guarded(own, name, backend)


def _counterpart(name, device, backend):
    """Return a kernel that converts the arguments and calls the kernel of an equivalent operator, or None."""
    from metatensor.rules.pairs import counterparts

    for other, convert in counterparts(name):
        held = _kernels.get((other, device))
        found = backend.kernel(other) if held is None else held.function
        if found is not None:
            return lambda out, *args, found=found, convert=convert: found(out, *convert(*args))
    return None


def _fallback(name, backend):
    if backend.fallback != "cpu":
        raise ValueError(f"the fallback of the device {backend.type} must be \"cpu\" or None, got {backend.fallback!r}")
    from metatensor.devices.fallback import host_kernel

    found = None if backend.type == "cpu" else host_kernel(name, backend)
    if found is not None:
        found.is_fallback = True
    return found


def _guarded(function, name, backend):
    """Return a kernel that calls `function` if the device supports the dtypes of all tensors in the call.

    Otherwise the kernel calls the fallback. It raises NotImplementedError if there is none.
    """

    def refused(values):
        for value in values if isinstance(values, (tuple, list)) else (values,):
            if isinstance(value, Tensor) and value.dtype.name not in backend.dtypes:
                return value.dtype.name
        return None

    def guarded(out, *args):
        for value in (out, *args):
            if (dtype := refused(value)) is not None:
                other = None if backend.fallback is None else _fallback(name, backend)
                if other is None:
                    raise NotImplementedError(f"{name}: the device {backend.type} does not compute with {dtype}")
                return other(out, *args)
        return function(out, *args)

    return guarded


def kernel_owner(name, device):
    """Return a description, for messages, of the provider of an op's kernel on a device type."""
    from metatensor import plugins

    held = _kernels.get((name, device))
    return plugins.provider(device) if held is None else plugins.provider_of_module(held.function)


def decomposition(name):
    """Return a decorator that registers the decomposition of an op.

    The decomposition computes the op by calling other ops. It is used on devices that have no kernel for the op.

    Raises
    ------
    RuntimeError
        If the op already has a decomposition.
    """
    from metatensor.rules import decompositions

    target, name = _schema_of(name, "decompositions")

    def decorate(function):
        with _lock:
            if name in decompositions.decompositions():
                raise RuntimeError(f"{name}: a decomposition is registered already")
            decompositions.TABLE[name] = function
        forget_kernels(target)
        if "::" in name:
            from metatensor.library.gradients import compute_through

            compute_through(name, function, derived=True)
        return function

    return decorate


def flops(name):
    """Return a decorator that registers the FLOP rule of an op, ``rule(out, *args) -> int``.

    The rule's result is checked whenever the rule is used. TypeError is raised if it is not a number, ValueError if it
    is negative or not a whole number. Both messages name the rule.

    Raises
    ------
    RuntimeError
        If the op already has a FLOP rule.
    """
    from metatensor.rules import flops as rules

    name = get_op(name).functional.name

    def decorate(function):
        with _lock:
            if name in rules.FLOPS:
                raise RuntimeError(f"{name}: a FLOP rule is registered already")
            rules.FLOPS[name] = _checked_rule(name, function)
        return function

    return decorate


def _checked_rule(name, function):
    """Return the FLOP rule with a check that its results are whole numbers that are not negative."""

    @functools.wraps(function)
    def rule(*args, **kwargs):
        count = function(*args, **kwargs)
        whose = f"{name}: its FLOP rule {getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', function)}"
        if isinstance(count, bool) or not (hasattr(count, "__index__") or isinstance(count, float)):
            raise TypeError(f"{whose} must return an int, but returned {count!r}, a {type(count).__name__}")
        if not count >= 0 or (isinstance(count, float) and count != count // 1):
            raise ValueError(f"{whose} must return a whole number of 0 or more, but returned {count!r}")
        return int(count)

    return rule


def get_op(name):
    """Return the `Op` with the given name, loading the plugin that provides the namespace if necessary.

    Parameters
    ----------
    name : str
        The name of an op, ``"acme::rope"`` or ``"nn.functional.relu"``. For the name of an overload, ``"max.dim"``, the
        op that it belongs to is returned.

    Raises
    ------
    AttributeError
        If there is no such op.
    TypeError
        If `name` is not a str.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.library.get_op("max.dim").name
    'max'
    """
    _check_str(name)
    if name in registry:
        return registry[name]
    stem = name.rpartition(".")[0]
    if stem in registry and any(ov.qualname == name for ov in registry[stem].overloads):
        return registry[stem]
    return op_by_name(name)


def _schema_of(name, what):
    """Return the op and the schema to which ``name`` refers. Raise ValueError if the schema cannot have kernels."""
    target = get_op(name)
    known = {overload.qualname: overload for overload in target.functional.overloads}
    if name not in known:
        if target is not target.functional or target.name not in known:
            raise ValueError(f"{name}: register {what} under the name {' or '.join(known)} instead")
        name = target.name  # `name` was an alias
    overload = known[name]
    if overload.is_view or overload.is_composite or overload.is_host:
        why = "its result is a view" if overload.is_view else "it calls other ops" if overload.is_composite else "it only reads metadata"
        raise ValueError(f"{name}: this op cannot have {what}, because {why}")
    return target, name


def _first_line(doc):
    return (doc or "").strip().partition("\n")[0]


def _check_name(name):
    _check_str(name)
    space, sep, rest = name.partition("::")
    if not sep or not space.isidentifier() or not rest.isidentifier():
        raise ValueError(f"the name of a custom op must be NAMESPACE::NAME, got {name!r}")


def _check_str(name):
    if not isinstance(name, str):
        raise TypeError(f"the name of an op must be a str, got {type(name).__name__}")


class Namespace:
    """The ops of one namespace, as attributes.

    Accessing an op that is not registered yet loads the plugin that provides the namespace.

    Parameters
    ----------
    name : str
        The namespace.
    """

    def __init__(self, name):
        self.__name__ = name

    def __getattr__(self, name):
        found = registry.get(f"{self.__name__}::{name}")
        if found is None and not name.startswith("__"):
            self._load()
            found = registry.get(f"{self.__name__}::{name}")
        if found is None:
            raise AttributeError(f"there is no op {self.__name__}::{name}")
        return found

    def _load(self):
        from metatensor import plugins

        plugins.load_ops(self.__name__)

    def __dir__(self):
        self._load()
        start = self.__name__ + "::"
        return sorted(n[len(start):] for n in registry if n.startswith(start))

    def __repr__(self):
        return f"<ops of {self.__name__}>"
