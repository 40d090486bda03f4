"""Custom operators with PyTorch's interface, on top of `metatensor.library`.

If an operator has a fake (meta) function, this function computes the metadata of its results on every device. Otherwise
the operator itself is run to find the metadata, which needs arguments with data.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import threading
import typing
from collections.abc import Callable, Sequence
from typing import Any

import metatensor as mt
from metatensor import library as core
from metatensor._core.nested import tensors_in
from metatensor._core.op import registry
from metatensor._core.schema import parse
from metatensor.library.gradients import compute_through, function_gradient, has_gradient
from metatensor.library.hints import infer_arguments

__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "fallthrough_kernel", "get_ctx", "impl", "impl_abstract", "infer_schema", "opcheck",
    "register_autocast", "register_autograd", "register_fake", "register_kernel", "register_torch_dispatch", "register_vmap",
    "triton_op", "wrap_triton",
]  # fmt: skip

DEVICES = {"CPU": "cpu", "CUDA": "cuda", "Meta": "meta", "XPU": "xpu", "MPS": "mps", "HPU": "hpu"}
EVERY = ("CompositeExplicitAutograd", "CompositeImplicitAutograd", "CompositeExplicitAutogradNonFunctional", "BackendSelect")
IGNORED = re.compile(r"Autograd|Autocast|ADInplaceOrView|Functionalize|Functorch|Python|Batched|Vmap|FuncTorch")

_run = threading.local()


class _Record:
    """The functions registered for an operator: its fake function, and its kernels by device type (None for all types).
    """

    def __init__(self, name: str, schema: str) -> None:
        self.name = name
        self.keywords = [a.name for a in parse(schema).arguments if a.kwonly]
        self.fake: Callable[..., Any] | None = None
        self.kernels: dict[str | None, Callable[..., Any]] = {}

    def meta(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of the fake function. If there is none, run the kernel and keep its result for `compute`.
        """
        _run.outcome = None
        tensors = list(tensors_in((args, kwargs)))
        kind = next((t.device.type for t in tensors), "cpu")
        function = _plain(self.kernels.get(kind, self.kernels.get(None)))
        if self.fake is not None:
            try:
                return self.fake(*args, **kwargs)
            except mt.DataDependentError:
                if function is None or any(t.untyped_storage().data is None for t in tensors):
                    raise
                # The fake function needs values and the arguments have them, so run the kernel instead.
        elif function is None or any(t.untyped_storage().data is None for t in tensors) and not self.kernels.get(None):
            raise NotImplementedError(
                f"{self.name}: the metadata of its results for tensors on {kind} cannot be computed; "
                f"use @torch.library.register_fake({self.name!r})"
            )
        result = function(*args, **kwargs)
        _run.outcome = (self, result)
        return result

    def compute(self, kind: str) -> Callable[..., Any]:
        """Return the kernel for a device type with metatensor's calling convention.

        It receives the allocated outputs first, and may return other tensors instead.
        """

        def kernel(out: Any, *args: Any) -> Any:
            owner, result = getattr(_run, "outcome", None) or (None, None)
            _run.outcome = None
            if owner is self:
                return result
            split = len(args) - len(self.keywords)
            keywords = dict(zip(self.keywords, args[split:], strict=True))
            return self.kernels.get(kind, self.kernels.get(None))(*args[:split], **keywords)  # type: ignore[misc]

        return kernel

    def add(self, device_type: str | None, function: Callable[..., Any]) -> None:
        """Register `function` as the kernel for a device type."""
        if device_type == "meta":
            self.fake = function
            return
        if device_type in self.kernels:
            raise RuntimeError(f"{self.name}: a kernel for {device_type or 'all devices'} is registered already")
        self.kernels[device_type] = function
        for kind in (device_type,) if device_type else ("cpu", "cuda"):
            if core.find_kernel(self.name, kind) is None:
                core.kernel(self.name, kind)(self.compute(kind))


    def compute_by(self, function: Callable[..., Any], device_type: str | None, derived: bool = False) -> None:
        """Use `function` to compute the operator while gradients are recorded, on one device type or on all."""

        def through(*args: Any) -> Any:
            kind = next((t.device.type for t in tensors_in(args)), "cpu")
            if device_type not in (None, kind) or (derived and kind in self.kernels):
                return NotImplemented
            split = len(args) - len(self.keywords)
            return function(*args[:split], **dict(zip(self.keywords, args[split:], strict=True)))

        compute_through(self.name, through, derived=derived)

    def outcome(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of an operator whose gradient uses a context: that of the kernel if it already ran for the metadata."""
        owner, result = getattr(_run, "outcome", None) or (None, None)
        _run.outcome = None
        return result if owner is self else registry[self.name](*args, **kwargs)


def _plain(function: Any) -> Any:
    """Return a kernel whose calls are not recorded."""
    if function is None:
        return None

    def run(*args: Any, **kwargs: Any) -> Any:
        with mt.no_grad():
            return function(*args, **kwargs)

    return run


_records: dict[str, _Record] = {}
_lock = threading.RLock()


_TYPES = {"SymInt": "int", "ScalarType": "dtype", "Device": "device", "Layout": "layout", "MemoryFormat": "memory_format",
          "Generator": "generator", "SymFloat": "float", "SymBool": "bool", "complex": "Scalar", "Dimname": "str"}  # fmt: skip


def _translate(schema: str) -> str:
    """Translate a schema from PyTorch's type names to metatensor's."""
    for theirs, ours in _TYPES.items():
        schema = re.sub(rf"\b{theirs}\b", ours, schema)
    return re.sub(r"Tensor\?\[\]", "any", schema)


def _define(name: str, schema: str) -> Any:
    """Define an operator and its record."""
    name = name.partition(".")[0] if "::" not in name else name
    text = _translate(f"{name}{schema}")
    with _lock:
        made = core.define(text)
        record = _records[name] = _Record(name, text)
        core.meta(name)(record.meta)
    return made


def _record(name: Any) -> _Record:
    """Return the record of an operator, given by name or as an object."""
    if isinstance(name, CustomOpDef):
        name = name._qualname
    elif not isinstance(name, str):
        name = _name_of(name)
    record = _records.get(name.removesuffix(".default"))
    if record is None:
        raise RuntimeError(f"{name}: no operator of this name was defined through torch.library")
    return record


def _name_of(op: Any) -> str:
    """Return the name of an operator or an overload. The attribute ``name`` of an overload is a method."""
    name = op.name() if callable(op.name) else op.name
    return str(name)


class Library:
    """Operators of one namespace. `define` declares an operator, and `impl` registers its kernels.

    Parameters
    ----------
    ns : str
        The namespace.
    kind : {"DEF", "FRAGMENT", "IMPL"}
    dispatch_key : str
        Default dispatch key of `impl`.

    Raises
    ------
    ValueError
        For any other kind, or if the namespace belongs to PyTorch and `kind` is not "IMPL".

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.torch_api.torch.library import Library, register_fake
    >>> lib = Library("docs_library", "DEF")
    >>> lib.define("halve(Tensor x) -> Tensor")
    'halve'
    >>> lib.impl("halve", lambda x: x / 2, "CPU")
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "FRAGMENT", "IMPL"):
            raise ValueError(f"torch.library.Library: kind must be DEF, FRAGMENT or IMPL, got {kind!r}")
        if kind in ("DEF", "FRAGMENT") and ns in ("aten", "prim", "prims"):
            raise ValueError(f"torch.library.Library: the namespace {ns!r} is PyTorch's own")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Declare an operator by its schema, such as ``"scale(Tensor x, float by) -> Tensor"``. Return its name."""
        name = schema.partition("(")[0].strip()
        _define(f"{self.ns}::{name}", schema[schema.index("(") :])
        return name

    def impl(self, op_name: Any, fn: Any, dispatch_key: str = "", *, with_keyset: bool = False, allow_override: bool = False) -> None:
        """Register `fn` as the kernel of an operator for a dispatch key.

        The key is "CPU", "CUDA", another device, "Meta" for the fake function, or a Composite key for all devices. Keys
        of dispatch steps that metatensor does not have are ignored. With "Autograd", or "AutogradCPU" and so on for one
        device, `fn` computes the operator where gradients are recorded. It then calls an `autograd.Function` that calls
        the operator.
        """
        name = op_name if isinstance(op_name, str) else _name_of(op_name)
        qualified = name if "::" in name else f"{self.ns}::{name}"
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        _implement(qualified, key, fn, "Library.impl")

    def _register_fake(self, op_name: str, fn: Any, *_: Any, **__: Any) -> None:
        register_fake(f"{self.ns}::{op_name}", fn)

    def _destroy(self) -> None:
        """Do nothing. Operators exist until the process ends."""


def fallthrough_kernel(*_: Any) -> None:
    """Raise NotImplementedError. Passed to `Library.impl`, it means that a dispatch key does nothing."""
    raise NotImplementedError("torch.library.fallthrough_kernel: pass it to Library.impl; it cannot be called")


def _implement(qualname: Any, key: str, function: Any, caller: str) -> None:
    """Register `function` as the kernel of an operator for a dispatch key or a device type."""
    if function is not fallthrough_kernel and key.startswith("Autograd") and key.removeprefix("Autograd") in ("", *DEVICES):
        _record(qualname).compute_by(function, DEVICES.get(key.removeprefix("Autograd")))
        return
    if function is fallthrough_kernel or IGNORED.search(key) and key not in EVERY:
        return  # metatensor's dispatcher has no such step
    if key in EVERY or key == "default":
        _record(qualname).add(None, function)
        if key == "CompositeImplicitAutograd":
            _record(qualname).compute_by(function, None, derived=True)
    elif key in DEVICES or key.islower():
        _record(qualname).add(DEVICES.get(key, key), function)
    else:
        raise RuntimeError(f"torch.library.{caller}: unknown dispatch key {key!r}")


def define(qualname: Any, schema: str, alias_analysis: str = "", *, lib: Library | None = None, tags: Any = ()) -> Any:
    """Declare an operator.

    Parameters
    ----------
    qualname : str or Library
        Name of the operator, ``"ns::name"``.
    schema : str
        Schema without a name, such as ``"(Tensor x) -> Tensor"``. If `qualname` is a `Library`, the schema has the
        name.

    Returns
    -------
    None or callable
        If `qualname` is a `Library`, a decorator that registers the kernel for all devices.
    """
    if not isinstance(qualname, Library):
        _define(qualname, schema)
        return None
    library = qualname

    def register(function: Any) -> Any:
        library.impl(library.define(schema, alias_analysis, tags=tags), function)
        return function

    return register


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Library | None = None) -> Any:
    """Register the kernel of an operator for device types or a dispatch key.

    Parameters
    ----------
    qualname : str or Library
        Name of the operator, ``"ns::name"``.
    types : str or sequence of str
        Device types, or a dispatch key. If `qualname` is a `Library`, the name of the operator in it.
    func : callable, optional
        The kernel. If it is missing, a decorator is returned. If `qualname` is a `Library`, the dispatch key instead.
    """
    if isinstance(qualname, Library):
        library, name, key = qualname, types, func or ""

        def fill(function: Any) -> Any:
            library.impl(name, function, key)
            return function

        return fill

    def register(function: Any) -> Any:
        for kind in (types,) if isinstance(types, str) else types:
            _implement(qualname, kind, function, "impl")
        return function

    return register if func is None else register(func)


def register_fake(op: Any, func: Any = None, /, *, lib: Library | None = None, _stacklevel: int = 1, allow_override: bool = False) -> Any:
    """Register the function that computes the metadata of an operator's results. Without `func`, return a decorator.

    Raise RuntimeError if the operator has such a function already, unless `allow_override` is true.
    """

    def register(function: Any) -> Any:
        record = _record(op)
        if record.fake is not None and not allow_override:
            raise RuntimeError(f"register_fake: {record.name} already has a fake function")
        record.fake = function
        return function

    return register if func is None else register(func)


impl_abstract = register_fake


def register_kernel(op: Any, device_types: Any, func: Any = None, /, *, lib: Library | None = None) -> Any:
    """Register the kernel of an operator for device types, or for all types (None).

    Without `func`, return a decorator.
    """

    def register(function: Any) -> Any:
        for kind in (device_types,) if device_types is None or isinstance(device_types, str) else device_types:
            _record(op).add(kind, function)
        return function

    return register if func is None else register(func)


def register_autograd(op: Any, backward: Callable[..., Any], /, *, setup_context: Any = None, lib: Library | None = None) -> None:
    """Declare the gradient of an operator.

    Parameters
    ----------
    op : str, operator or CustomOpDef
        The operator. It writes to no argument, and no keyword-only argument is a tensor.
    backward : callable
        ``backward(ctx, *grads)`` returns the gradients of the positional arguments, None for those without. For a list
        of tensors it returns a list.
    setup_context : callable, optional
        ``setup_context(ctx, inputs, output)`` saves on `ctx` what `backward` needs. If the operator has keyword-only
        arguments, it also receives ``keyword_only_inputs``.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.torch_api.torch.library import custom_op, register_autograd
    >>> @custom_op("docs_custom::tripled", mutates_args=())
    ... def tripled(x: mt.Tensor) -> mt.Tensor:
    ...     return x * 3
    >>> register_autograd("docs_custom::tripled", lambda ctx, grad: grad * 3)
    >>> x = mt.ones(2, device="cpu", requires_grad=True)
    >>> tripled(x).sum().backward()
    >>> x.grad
    tensor([3., 3.])
    """
    record = _record(op)
    function_gradient(record.name, backward, setup_context, record.outcome)


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Library | None = None) -> None:
    """Raise NotImplementedError: custom operators keep their dtypes under autocast."""
    raise NotImplementedError("torch.library.register_autocast: custom operators keep their dtypes under autocast")


def register_vmap(op: Any, func: Any = None, /, *, lib: Library | None = None) -> Any:
    """Let `vmap` call ``func(info, in_dims, *args, **kwargs)`` for an operator. Without `func`, return a decorator.

    `func` returns the outputs and where their batch dimensions are.
    """
    from metatensor.func._functions import CUSTOM

    name = _record(op).name

    def register(function: Any) -> Any:
        CUSTOM[name] = function
        return function

    return register if func is None else register(func)


def register_torch_dispatch(op: Any, torch_dispatch_class: Any, func: Any = None, /, *, lib: Library | None = None) -> Any:
    """Raise NotImplementedError: override operators with ``__torch_function__`` or a mode instead."""
    raise NotImplementedError("torch.library.register_torch_dispatch: use __torch_function__ or a mode instead")


class FakeContext:
    """The context of a fake function."""

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> int:
        """Raise DataDependentError: a size that depends on values is unknown without data."""
        error = mt.DataDependentError("torch.library.get_ctx().new_dynamic_size: a size that depends on values is unknown without data")
        error.declared = True
        raise error

    create_unbacked_symint = new_dynamic_size


def get_ctx() -> FakeContext:
    """Return the context of a fake function."""
    return FakeContext()


# Operators defined by functions ---------------------------------------------------------------------------------------------


def infer_schema(prototype_function: Callable[..., Any], /, *, mutates_args: Any = (), op_name: str | None = None) -> str:
    """Return the schema of a function with annotated parameters and results.

    Parameters
    ----------
    prototype_function : callable
    mutates_args : iterable of str, or "unknown"
        Names of the arguments that the function writes to. "unknown" means all tensors.
    op_name : str, optional
        Name to put in front of the schema.

    Raises
    ------
    ValueError
        If an annotation is missing or cannot be expressed in a schema.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.torch_api.torch.library import infer_schema
    >>> def scale(x: mt.Tensor, by: float) -> mt.Tensor:
    ...     return x * by
    >>> infer_schema(scale, mutates_args=())
    '(Tensor x, float by) -> Tensor'
    """
    mutated = _mutated(prototype_function, mutates_args)
    returns = _returns(typing.get_type_hints(prototype_function).get("return", inspect.Parameter.empty))
    return f"{op_name or ''}({infer_arguments(prototype_function, op_name or 'infer_schema', mutated)}) -> {returns}"


def _mutated(function: Callable[..., Any], mutates_args: Any) -> tuple[str, ...]:
    if mutates_args == "unknown":
        hints = typing.get_type_hints(function)
        return tuple(name for name in inspect.signature(function).parameters if hints.get(name) is mt.Tensor)
    return tuple(mutates_args)


def _returns(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        raise ValueError("infer_schema: a return annotation is missing")
    if annotation in (None, type(None)):
        return "()"
    parts = typing.get_args(annotation)
    if typing.get_origin(annotation) is tuple and Ellipsis not in parts:
        return f"({', '.join(map(_returns, parts))})"
    if typing.get_origin(annotation) in (list, tuple, Sequence):
        return f"{_returns(parts[0])}[]"
    known = {mt.Tensor: "Tensor", int: "int", float: "float", bool: "bool"}
    if annotation not in known:
        raise ValueError(f"infer_schema: cannot express the return type {annotation!r} in a schema")
    return known[annotation]


class CustomOpDef:
    """An operator defined by `custom_op`. It can be called, and has methods that register further functions."""

    def __init__(self, qualname: str, function: Callable[..., Any], op: Any) -> None:
        self._qualname, self._init_fn, self._op = qualname, function, op
        self._namespace, _, self._name = qualname.partition("::")
        self.__name__ = self._name
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._op(*args, **kwargs)

    @property
    def _opoverload(self) -> Any:
        return self._op

    def register_fake(self, fn: Any, /) -> Any:
        """Register the function that computes the metadata of the operator's results."""
        record = _record(self._qualname)
        record.fake = fn
        return fn

    def register_kernel(self, device_types: Any, fn: Any = None, /) -> Any:
        """Register the kernel for device types."""
        return register_kernel(self._qualname, device_types, fn)

    def register_autograd(self, backward: Callable[..., Any], /, *, setup_context: Any = None) -> None:
        """Declare the gradient. See `register_autograd`."""
        register_autograd(self._qualname, backward, setup_context=setup_context)

    def register_vmap(self, func: Any = None) -> Any:
        """Let `vmap` call ``func(info, in_dims, *args, **kwargs)``."""
        return register_vmap(self._qualname, func)

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Any:
        """Return a context manager that disables the kernel of a device type if `enabled` is false.

        The kernel for all device types is used instead, if there is one.
        """
        kernels = _record(self._qualname).kernels
        kept = None if enabled else kernels.pop(device_type, None)
        try:
            yield
        finally:
            if kept is not None:
                kernels[device_type] = kept


def custom_op(
    name: str, fn: Any = None, /, *, mutates_args: Any, device_types: Any = None, schema: str | None = None, tags: Any = None
) -> Any:
    """Define an operator from the function that computes it.

    Parameters
    ----------
    name : str
        Name of the operator, ``"ns::name"``.
    fn : callable, optional
        The function. If it is missing, a decorator is returned.
    mutates_args : iterable of str, or "unknown"
        Names of the arguments that the function writes to. "unknown" means all tensors.
    device_types : str or sequence of str, optional
        Device types that the function supports. Default: all.
    schema : str, optional
        Schema without a name. Default: inferred from the annotations of the function.
    tags : any
        Ignored.

    Returns
    -------
    CustomOpDef
        The operator. `CustomOpDef.register_fake` registers its fake function.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.torch_api.torch.library import custom_op
    >>> @custom_op("docs_custom::double", mutates_args=())
    ... def double(x: mt.Tensor) -> mt.Tensor:
    ...     return x * 2
    >>> _ = double.register_fake(lambda x: mt.empty_like(x))
    >>> double(mt.empty(3, device="meta")).shape
    metatensor.Size([3])
    """

    def make(function: Callable[..., Any]) -> CustomOpDef:
        text = schema if schema is not None else infer_schema(function, mutates_args=mutates_args)
        op = _define(name, text)
        made = CustomOpDef(name, function, op)
        register_kernel(name, device_types, function)
        return made

    return make if fn is None else make(fn)


def triton_op(name: str, fn: Any = None, /, *, mutates_args: Any, schema: str | None = None) -> Any:
    """Define an operator as `custom_op` does. Its Triton kernels cannot run on metatensor's tensors."""
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)


def wrap_triton(triton_kernel: Any, /) -> Any:
    """Return the kernel unchanged."""
    return triton_kernel


def opcheck(op: Any, args: tuple, kwargs: Any = None, *, test_utils: Any = None, raise_exception: bool = True,
            atol: float | None = None, rtol: float | None = None) -> dict[str, str]:  # fmt: skip
    """Check an operator's schema, its fake function, and its gradient. See `metatensor.testing.check_op`.

    Parameters
    ----------
    op : operator, CustomOpDef or str
    args, kwargs : tuple and dict
        Arguments of the call that is checked. The gradient is checked if one of them requires grad.
    test_utils : str or sequence of str, optional
        The tests to run: "test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic". Default: all.
    raise_exception : bool
        If True, a difference raises AssertionError. Default: True.
    atol, rtol
        Ignored.

    Returns
    -------
    dict of str to str
        For each test ``"SUCCESS"``, or the message of the difference.
    """
    chosen = (test_utils,) if isinstance(test_utils, str) else CHECKS if test_utils is None else tuple(test_utils)
    for test in chosen:
        if test not in CHECKS:
            raise ValueError(f"torch.library.opcheck: there is no test {test!r}; the tests are {', '.join(CHECKS)}")
    found = _problems(registry[_record(op).name], args, dict(kwargs or {}))
    if raise_exception and any(found[test] for test in chosen):
        raise AssertionError("\n".join(text for test in chosen for text in found[test]))
    return {test: "\n".join(found[test]) or "SUCCESS" for test in chosen}


CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


def _problems(target: Any, args: tuple, kwargs: dict[str, Any]) -> dict[str, list[str]]:
    """Return the messages of each test of `opcheck`."""
    from metatensor._core.nested import map_tensors
    from metatensor.testing import check_op
    from metatensor.testing.gradients import gradient_problems

    found: dict[str, list[str]] = {test: [] for test in CHECKS}
    wants = any(t.requires_grad for t in tensors_in((args, kwargs)))
    args, kwargs = map_tensors(lambda t: t.detach(), (tuple(args), kwargs))
    try:
        check_op(target, [(*args, kwargs)], gradients=False)
    except AssertionError as error:
        for text in str(error).split("\n")[1:]:
            found["test_schema" if "schema" in text else "test_faketensor"].append(text.strip())
    if wants and not has_gradient(target.name):
        found["test_autograd_registration"].append(f"{target.name}: an argument requires grad, but no gradient is registered")
    elif wants:
        found["test_aot_dispatch_dynamic"] += gradient_problems(target, args, kwargs, ["cpu"])
    return found
