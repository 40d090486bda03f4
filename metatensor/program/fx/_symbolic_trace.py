"""Symbolic tracing: run code once with proxies for its arguments, and record what it does as a graph.

Nothing that other threads use is changed: operators dispatch to the proxies among their arguments, modules to the tracer of
the calling thread (`intercept_modules`), and functions that do neither are replaced in copies of the traced functions
(`_namespaces`).
"""

from __future__ import annotations

import functools
import inspect
import math
import threading
import warnings
from collections.abc import Callable
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

import metatensor as mt
from metatensor.nn._base import call_through, intercept_modules
from metatensor.program.fx._namespaces import Namespaces
from metatensor.program.fx._pytree import pytree
from metatensor.program.fx._wrapped import WRAPPED, install_wrapped, wrap
from metatensor.program.fx.graph import Graph, _PyTreeCodeGen, _PyTreeInfo
from metatensor.program.fx.graph_module import GraphModule
from metatensor.program.fx.proxy import ParameterProxy, Scope, ScopeContextManager, TracerBase, first_proxy

__all__ = ["PH", "PHBase", "PHWithMeta", "ProxyableClassMeta", "Tracer", "is_fx_symbolic_tracing", "is_fx_tracing",
           "symbolic_trace", "wrap"]  # fmt: skip

_wrapped_fns_to_patch = WRAPPED
_threads = threading.local()


def is_fx_tracing() -> bool:
    """Return whether a trace is running in this thread."""
    return getattr(_threads, "tracing", 0) > 0


is_fx_symbolic_tracing = is_fx_tracing


class PHBase:
    """The type of `PH`, which marks the entries of ``concrete_args`` that remain arguments of the graph."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """A `PH` whose attributes become those of the placeholder.

    Parameters
    ----------
    ph_key : str, optional
        Stored as an attribute.
    """

    def __init__(self, ph_key: str | None = None) -> None:
        super().__init__()
        self.ph_key = ph_key


class ProxyableClassMeta(type):
    """Metaclass that records a constructor call as a node if an argument is a proxy."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        found = first_proxy((args, kwargs))
        if found is not None:
            return found.tracer.create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)


def _assert_is_none(value: Any, msg: str) -> None:
    """Raise AssertionError unless `value` is None. Target of the nodes that check arguments."""
    if value is not None:
        raise AssertionError(msg)


class Tracer(TracerBase):
    """Tracer that records modules and functions as graphs.

    Subclasses may override `is_leaf_module`, `call_module`, `getattr`, `create_arg` and others to choose what becomes a node.

    Parameters
    ----------
    autowrap_modules : tuple of module
        The public functions of these modules become single nodes when a proxy is passed to them. Default: `math`.
    autowrap_functions : tuple of callable
        Further functions that become single nodes where traced code calls them by a global name.
    param_shapes_constant : bool
        Treat the shapes of parameters as constants instead of recording nodes for them. Default: False.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.program import fx
    >>> print(fx.Tracer().trace(lambda x: mt.relu(x) + 1))
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %relu : [num_users=1] = call_function[target=metatensor.relu](args = (%x,), kwargs = {})
        %add : [num_users=1] = call_function[target=operator.add](args = (%relu, 1), kwargs = {})
        return add
    """

    def __init__(
        self, autowrap_modules: tuple[ModuleType, ...] = (math,), autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self._autowrap_search = list(autowrap_modules)
        self._autowrap_functions = [one for one in autowrap_functions if callable(one)] + [
            value
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value) and not isinstance(value, type)
        ]
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Any, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack: dict[str, Any] = {}
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope: dict[str, tuple[str, Any]] = {}
        self.tensor_attrs: dict[int, str] = {}

    # Methods that subclasses may override -------------------------------------------

    def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
        """Return whether each call of the module `m` becomes a single node.

        By default this is so for every layer of `torch.nn` except Sequential.
        """
        ours = m.__module__.startswith(("metatensor.nn", "torch.nn", "torch.ao.nn"))
        return ours and not isinstance(m, mt.nn.Sequential)

    def path_of_module(self, mod: Any) -> str:
        """Return the dotted name of a submodule of the root. Raise NameError for any other module."""
        if self.submodule_paths is not None:
            name = self.submodule_paths.get(mod)
        else:
            name = next((name for name, one in self.root.named_modules() if one is mod), None)
        if name is not None:
            return name
        raise NameError(f"fx: a module of type {type(mod).__name__} is called, but it is not a submodule of the traced module")

    def call_module(self, m: Any, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of calling a submodule: a proxy for a leaf module, else the result of its forward."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))):
            count = self.num_calls.get(path, 0)
            self.num_calls[path] = count + 1
            key = f"{path}@{count}" if count else path
            self.module_stack[key] = (path, type(m))
            try:
                return self.create_proxy("call_module", path, args, kwargs) if self.is_leaf_module(m, path) else forward(*args, **kwargs)
            finally:
                self.module_stack.pop(key, None)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """Return an attribute of a module: a proxy for a parameter of the root, else the attribute itself."""
        if isinstance(attr_val, mt.nn.Parameter):
            named = self.root.named_parameters()
        elif self.proxy_buffer_attributes and isinstance(attr_val, mt.Tensor):
            named = self.root.named_buffers()
        else:
            return attr_val
        name = next((name for name, one in named if one is attr_val), None)
        if name is None:
            return attr_val
        if name not in parameter_proxy_cache:
            options: dict[str, Any] = {}
            if self.param_shapes_constant and isinstance(attr_val, mt.nn.Parameter):
                options = {"proxy_factory_fn": lambda node: ParameterProxy(self, node, name, attr_val)}
            parameter_proxy_cache[name] = self.create_proxy("get_attr", name, (), {}, **options)
        return parameter_proxy_cache[name]

    def create_arg(self, a: Any) -> Any:
        """Convert an argument of a traced call to an argument of a node.

        Parameters, other tensors and modules become nodes that read attributes of the root. A tensor that is not an attribute
        becomes one. See also `TracerBase.create_arg`.
        """
        if isinstance(a, mt.Tensor):
            return self._tensor(a)
        if isinstance(a, mt.nn.Module):
            for name, one in self.root.named_modules():
                if one is a:
                    return self.create_node("get_attr", name, (), {})
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return self.create_node("call_function", type(a), tuple(self.create_arg(one) for one in a), {})
        if type(type(a)) is ProxyableClassMeta or isinstance(type(a), ProxyableClassMeta):
            return self.create_node("get_attr", self._attribute(a, f"_{type(a).__name__}_constant_"), (), {})
        return super().create_arg(a)

    def _tensor(self, a: Any) -> Any:
        if isinstance(a, mt.nn.Parameter):
            for name, one in self.root.named_parameters():
                if one is a:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("fx: a parameter is used that the traced module does not have")
        for name, one in self.root.named_buffers():
            if one is a:
                return self.create_node("get_attr", name, (), {})
        name = self.tensor_attrs.get(id(a))
        if name is None:
            name = self.tensor_attrs[id(a)] = self._attribute(a, "_tensor_constant")
        return self.create_node("get_attr", name, (), {})

    def _attribute(self, value: Any, prefix: str) -> str:
        """Return the name of the root's attribute that holds `value`. Create the attribute if there is none."""
        for name, one in vars(self.root).items():
            if one is value:
                return str(name)
        name = self.get_fresh_qualname(prefix)
        object.__setattr__(self.root, name, value)
        return name

    def get_fresh_qualname(self, prefix: str) -> str:
        """Return a name with a prefix and a number that is not an attribute of the root."""
        number = 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"

    # Tracing ------------------------------------------------------------------------

    def _placeholder(self, name: str, concrete: Any, fn: Any, signature: inspect.Signature) -> Any:
        """Return a proxy for an argument, or its value from `concrete_args`."""
        if name in concrete:
            parameter = signature.parameters.get(name)
            default = () if parameter is None or parameter.default is inspect.Parameter.empty else (parameter.default,)
            count = 0

            def one(value: Any) -> Any:
                nonlocal count
                count += 1
                made = self.create_proxy("placeholder", f"{name}_{count}", default, {})
                if isinstance(value, PHBase):
                    if value is not PH:
                        vars(made.node).update({key: item for key, item in vars(value).items() if not hasattr(made.node, key)})
                    return made
                message = f"{name} has been traced with the value {value}, but got another one"
                if value is None:
                    self.create_proxy("call_function", _assert_is_none, (made, message), {})
                elif isinstance(value, (bool, int, float, str, complex)):
                    mt_assert(made == value, message)
                else:
                    warnings.warn(f"fx: the graph does not check that {name} has the value that it was traced with", stacklevel=8)
                return value

            return pytree().tree_map(one, concrete[name])
        kind = getattr(fn, "__annotations__", {}).get(name.lstrip("*"))
        parameter = signature.parameters.get(name)
        default = () if parameter is None or parameter.default is inspect.Parameter.empty else (parameter.default,)
        return self.create_proxy("placeholder", name, default, {}, type_expr=kind)

    def create_args_for_root(self, root_fn: Any, is_module: bool, concrete_args: Any = None) -> tuple[Any, list[Any]]:
        """Return the function to run, and a list with a proxy or a concrete value for each of its arguments."""
        fn = inspect.unwrap(root_fn)
        code = fn.__code__
        signature = inspect.signature(fn)
        names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
        args: list[Any] = []
        if is_module:
            if not names:
                raise RuntimeError("fx: forward has no parameter self")
            args.append(self.root)
        concrete = concrete_args or {}
        if isinstance(concrete, tuple):
            if len(concrete) != len(names) - len(args):
                raise RuntimeError(f"fx: expected {len(names) - len(args)} concrete_args, got {len(concrete)}")
            concrete = dict(zip(names[len(args) :], concrete))
        args += [self._placeholder(name, concrete, fn, signature) for name in names[len(args) :]]
        stars = [kind for flag, kind in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")) if code.co_flags & flag]
        for kind, name in zip(stars, code.co_varnames[len(names) :]):
            args.append(self._placeholder(kind + name, concrete, fn, signature))
        run = self._spaces.copied(fn) if self._spaces.needs(fn) else root_fn
        if stars or code.co_kwonlyargcount:
            # Make all arguments positional, so that `args` and `kwargs` can be proxies instead of a tuple and a dict.
            run = self._spaces.copied(fn) if self._spaces.needs(fn) else fn
            flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
            plain = code.replace(co_flags=flags, co_argcount=len(args), co_posonlyargcount=0, co_kwonlyargcount=0)
            run = FunctionType(plain, run.__globals__, fn.__name__, None, run.__closure__)
        leaves, spec = pytree().tree_flatten(tuple(args))
        if not concrete or all(pytree().tree_is_leaf(one) for one in args):
            return run, args
        codegen = _PyTreeCodeGen(_PyTreeInfo(names, pytree().tree_structure(tuple(args[is_module:])), None))
        self.graph.set_codegen(codegen)

        def flat(*values: Any) -> Any:
            result, found = pytree().tree_flatten(run(*pytree().tree_unflatten(list(values), spec)))
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=found)
            return result

        return flat, leaves

    def trace(self, root: Any, concrete_args: Any = None) -> Graph:
        """Trace a module or a function.

        Parameters
        ----------
        root : Module or callable
        concrete_args : dict, optional
            Values of arguments by name, which are used unchanged. A `PH` among them, also inside lists and dicts, becomes a
            proxy. The other arguments are proxies. The graph checks that it gets the same values.

        Returns
        -------
        Graph

        Raises
        ------
        TraceError
            If the code needs the value of a proxy, for example to branch on it.
        AssertionError
            If `root` is neither a module nor a function.
        """
        is_module = isinstance(root, mt.nn.Module)
        if is_module:
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError(f"fx: {type(root).__name__} has no method {self.traced_func_name}")
            fn = getattr(type(root), self.traced_func_name)
            self.root, self.root_module_name = root, type(root).__name__
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            fn, self.root = root, mt.nn.Module()
            self.submodule_paths = None
        if not callable(fn) or not hasattr(inspect.unwrap(fn), "__code__"):
            raise AssertionError(f"fx: expected a module or a function of Python, got {type(root).__name__}")
        self.graph = Graph(tracer_cls=type(self))
        self.module_stack, self.num_calls = {}, {}
        self.tensor_attrs = {id(value): name for name, value in _tensors(self.root, "")}
        install_wrapped()
        self._spaces = Namespaces(self._autowrap_functions, self._autowrap_search)
        fn_to_run, args = self.create_args_for_root(fn, is_module, concrete_args)
        cache: dict[str, Any] = {}
        before = intercept_modules((
            lambda module, args, kwargs: self.call_module(module, functools.partial(_through, module), args, kwargs),
            lambda module, name, value: self.getattr(name, value, cache),
            self._spaces.method,
        ))  # fmt: skip
        _threads.tracing = getattr(_threads, "tracing", 0) + 1
        try:
            result = fn_to_run(*args)
            self.create_node("output", "output", (self.create_arg(result),), {}, None, getattr(fn, "__annotations__", {}).get("return"))
        finally:
            _threads.tracing -= 1
            intercept_modules(before)
            self._spaces.finish()
            self.submodule_paths = None
        return self.graph

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = type(self).__new__(type(self))
        vars(made).update(vars(self))
        return made


def mt_assert(condition: Any, message: str) -> None:
    """Record that a condition on a proxy must hold."""
    import_module("metatensor.torch_api.torch")._assert(condition, message)


def _through(module: Any, *args: Any, **kwargs: Any) -> Any:
    return call_through(module, args, kwargs)


def _tensors(module: Any, prefix: str) -> Any:
    """Yield the names and values of the attributes that are tensors."""
    for name, value in vars(module).items():
        if isinstance(value, mt.Tensor):
            yield prefix + name, value
    for name, child in module.named_children():
        yield from _tensors(child, f"{prefix}{name}.")


def symbolic_trace(root: Any, concrete_args: Any = None) -> GraphModule:
    """Trace a module or a function into a module that runs the recorded graph.

    Parameters
    ----------
    root : Module or callable
    concrete_args : dict, optional
        Values of arguments by name, which are used unchanged. The other arguments become placeholders. See `Tracer.trace`.

    Returns
    -------
    GraphModule

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.program import fx
    >>> traced = fx.symbolic_trace(mt.nn.Linear(3, 2, device="meta"))
    >>> traced(mt.empty(5, 3, device="meta")).shape
    metatensor.Size([5, 2])
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, mt.nn.Module) else getattr(root, "__name__", type(root).__name__)
    return GraphModule(tracer.root, graph, name)

