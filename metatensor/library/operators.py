"""Register operators and what is known of them: schema, meta function, kernels, FLOPs and decomposition."""

import functools
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from metatensor._core.compute import forget_kernels
from metatensor._core.op import operator_flags, define_op, op_by_name, registry, set_meta
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
    """Decorator: make an op of a function, whose body is the meta function.

    The body gets the arguments and returns a `Spec`, a tensor made with ``new_empty`` and the like, or a tuple of them.
    The schema follows from the type hints, or is given as text without the name, ``"(Tensor x, float by=2.0) -> Tensor"``.
    ``mutates_args`` names the tensor arguments that the kernels write to (in a schema: ``Tensor(a!) x``).

    With ``composite=True`` the body is instead made of other ops and computes the result itself. With
    ``data_dependent=True`` the shape of the results depends on values: the body only checks the arguments, what it
    returns is not used, kernels return their results, and without data the op raises `DataDependentError`.

    Raises RuntimeError for a name that is taken.
    """
    if callable(name):
        raise TypeError(f"op: a name is missing; write @metatensor.op(\"namespace::{getattr(name, '__name__', 'name')}\")")
    _check_name(name)
    if schema is not None and mutates_args:
        raise TypeError(f"{name}: a schema marks what is written to by itself, Tensor(a!) x; leave out mutates_args")
    if composite and data_dependent:
        raise TypeError(f"{name}: an op is either composite or data-dependent, not both")

    def decorate(function):
        text = infer_schema(function, name, mutates_args) if schema is None else name + schema
        return define_op(text, function, _flags(text, composite, data_dependent), _first_line(function.__doc__))

    return decorate


def define(schema, *, data_dependent=False, doc=""):
    """Define an op from schema text, ``"acme::scale(Tensor input, float factor) -> Tensor"``.

    Its meta function is given with `meta`; one that is ``data_dependent`` needs none. Returns the Op.
    """
    _check_name(schema.partition("(")[0].strip())
    return define_op(schema, None, _flags(schema, False, data_dependent), doc)


def _flags(text, composite, data_dependent):
    """What a schema and the options say of an op. One whose result is a view of an argument needs no kernel."""
    returns = parse(text).returns
    view = bool(returns) and all("(" in kind and "!" not in kind for kind, _ in returns)
    return operator_flags.COMPOSITE * bool(composite) | operator_flags.DATA * bool(data_dependent) | operator_flags.VIEW * (view and not composite)


def meta(name):
    """Decorator: the meta function of an op that `define` made. A second one raises RuntimeError."""

    def decorate(function):
        target = op_by_name(name)
        with _lock:
            set_meta(target, function)
        return function

    return decorate


def kernel(name, device, *, override=False):
    """Decorator: the kernel of an op, custom or built in, for one device type.

    It is called as ``kernel(out, *args)`` with tensors whose storages hold data: ``out`` (a tuple for several results,
    None for a data-dependent op) is allocated as the meta function says, and the kernel only fills it in, or returns
    a result of that shape and dtype. ``name`` is that of one schema: ``"acme::rope"``, ``"max.dim"``.

    Where there is a kernel for the op and device already, registered here or the device's own, RuntimeError is raised
    (at first use, where the device is not loaded yet), unless ``override=True`` says that this one replaces it.
    """
    target, name = _schema_of(name, "kernels")
    if not isinstance(device, str):
        raise TypeError(f"{name}: a kernel is for a device type, a str, not {type(device).__name__}")
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
    """The kernel that an op's schema has on a device type, or None: what `kernel` registered, or the ``backend``'s own.

    Without either, it is the kernel of an operator that computes the same (``relu`` for ``nn.functional.relu``), what the
    base class of devices offers, or where neither this nor a decomposition is there, what the cpu computes for a backend
    whose ``fallback`` is "cpu". RuntimeError where there are both a registered kernel and one of the backend, and nothing says
    which.
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
    """The kernel of an operator that computes the same, called with arguments made of those of `name`; or None."""
    from metatensor.rules.pairs import counterparts

    for other, convert in counterparts(name):
        held = _kernels.get((other, device))
        found = backend.kernel(other) if held is None else held.function
        if found is not None:
            return lambda out, *args, found=found, convert=convert: found(out, *convert(*args))
    return None


def _fallback(name, backend):
    if backend.fallback != "cpu":
        raise ValueError(f"the fallback of the device {backend.type} is {backend.fallback!r}: it can be \"cpu\", or None for none")
    from metatensor.devices.fallback import host_kernel

    found = None if backend.type == "cpu" else host_kernel(name, backend)
    if found is not None:
        found.is_fallback = True
    return found


def _guarded(function, name, backend):
    """A kernel that is called for no dtypes but those that its device computes with."""

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
    """Whose kernel an op has on a device type, for messages."""
    from metatensor import plugins

    held = _kernels.get((name, device))
    return plugins.provider(device) if held is None else plugins.provider_of_module(held.function)


def decomposition(name):
    """Decorator: how to compute an op by other ops on devices without a kernel for it. A second one raises RuntimeError."""
    from metatensor.rules import decompositions

    target, name = _schema_of(name, "decompositions")

    def decorate(function):
        with _lock:
            if name in decompositions.decompositions():
                raise RuntimeError(f"{name}: a decomposition is registered already")
            decompositions.TABLE[name] = function
        forget_kernels(target)
        return function

    return decorate


def flops(name):
    """Decorator: the FLOP rule of an op, ``rule(out, *args) -> int``. A second one raises RuntimeError.

    When it is used, a rule that returns no number raises TypeError, and one that returns a negative number or a fraction
    ValueError; both name the rule.
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
    """A FLOP rule whose results are held to be what they should: whole numbers that are not negative."""

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
    """The Op called `name` ("acme::rope", "nn.functional.relu"); loads the plugin that has the namespace.

    Overloads ("max.dim") are found by their op. Raises AttributeError for an unknown name, TypeError for no str.
    """
    _check_str(name)
    if name in registry:
        return registry[name]
    stem = name.rpartition(".")[0]
    if stem in registry and any(ov.qualname == name for ov in registry[stem].overloads):
        return registry[stem]
    return op_by_name(name)


def _schema_of(name, what):
    """The op and the name of the schema that ``name`` means, one that can have kernels."""
    target = get_op(name)
    known = {overload.qualname: overload for overload in target.functional.overloads}
    if name not in known:
        if target is not target.functional or target.name not in known:
            raise ValueError(f"{name}: register {what} for {' or '.join(known)}, which computes it")
        name = target.name  # given by an alias
    overload = known[name]
    if overload.is_view or overload.is_composite or overload.is_host:
        why = "its result is a view" if overload.is_view else "its body computes it" if overload.is_composite else "metadata answer it"
        raise ValueError(f"{name}: there are no {what} for this op, {why}")
    return target, name


def _first_line(doc):
    return (doc or "").strip().partition("\n")[0]


def _check_name(name):
    _check_str(name)
    space, sep, rest = name.partition("::")
    if not sep or not space.isidentifier() or not rest.isidentifier():
        raise ValueError(f"the name of a custom op is NAMESPACE::NAME, got {name!r}")


def _check_str(name):
    if not isinstance(name, str):
        raise TypeError(f"the name of an op is a str, got {type(name).__name__}")


class Namespace:
    """The ops of one namespace, as attributes; a plugin that provides it is loaded when the first one is asked for."""

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
