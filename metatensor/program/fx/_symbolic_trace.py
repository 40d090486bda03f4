"""Symbolic tracing: run code once with proxies for its arguments, and record what it does as a graph."""

from __future__ import annotations

import builtins
import functools
import inspect
import math
import sys
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from types import FunctionType, ModuleType
from typing import Any

import metatensor as mt
from metatensor._core.op import Op
from metatensor.interchange.torch_modules import TREE
from metatensor.program.fx._wrapped import WRAPPED
from metatensor.program.fx.graph import Graph
from metatensor.program.fx.graph_module import GraphModule
from metatensor.program.fx.proxy import Proxy, TracerBase, find_tracer, has_proxy

__all__ = ["PH", "ProxyableClassMeta", "Tracer", "is_fx_tracing", "symbolic_trace"]

_tracing = 0


def is_fx_tracing() -> bool:
    """Return whether a trace is running."""
    return _tracing > 0


class _Placeholder:
    """The type of `PH`, which marks the entries of ``concrete_args`` that remain arguments of the graph."""

    def __repr__(self) -> str:
        return "PH"


PH = _Placeholder()


class ProxyableClassMeta(type):
    """Metaclass that records a constructor call as a node if an argument is a proxy."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if has_proxy((args, kwargs)):
            return find_tracer((args, kwargs)).create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)


class Tracer(TracerBase):
    """Tracer that records modules and functions as graphs.

    Subclasses may override `is_leaf_module`, `call_module` and `getattr` to choose what becomes a single node.

    Parameters
    ----------
    autowrap_modules : tuple of module
        The public functions of these modules become single nodes when a proxy is passed to them. Default: `math`.
    autowrap_functions : tuple of callable
        Further functions that become single nodes.
    param_shapes_constant : bool
        Stored but not used.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.program import fx
    >>> print(fx.Tracer().trace(lambda x: mt.relu(x) + 1))
    graph(%x):
        %relu : [num_users=1] = call_function[target=relu](x)
        %add : [num_users=1] = call_function[target=add](relu, 1)
        return add
    """

    def __init__(
        self, autowrap_modules: tuple[ModuleType, ...] = (math,), autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:  # fmt: skip
        self._autowrap_modules = autowrap_modules
        self._autowrap_functions = {id(fn) for fn in autowrap_functions} | {
            id(value)
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        }
        self.param_shapes_constant = param_shapes_constant
        self._parameters: dict[str, Any] = {}
        self._classes: dict[type, type] = {}

    # Methods that subclasses may override -------------------------------------------

    def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
        """Return whether each call of the module `m` becomes a single node.

        By default this is so for every layer of `torch.nn` except Sequential.
        """
        ours = m.__module__.startswith(("metatensor.nn", "torch.nn", "torch.ao.nn"))
        return ours and not isinstance(m, mt.nn.Sequential)

    def path_of_module(self, mod: Any) -> str:
        """Return the dotted name of a submodule of the root. Raise NameError for any other module."""
        for name, one in self.root.named_modules():
            if one is mod:
                return str(name)
        raise NameError(f"fx: a module of type {type(mod).__name__} is called, but it is not a submodule of the traced module")

    def call_module(self, m: Any, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of calling a submodule: a proxy for a leaf module, else the result of its forward."""
        path = self.path_of_module(m)
        if self.is_leaf_module(m, path):
            return self.create_proxy("call_module", path, args, kwargs)
        return forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """Return an attribute of a module: a proxy for a parameter of the root, else the attribute itself."""
        if not isinstance(attr_val, mt.nn.Parameter):
            return attr_val
        for name, one in self.root.named_parameters():
            if one is attr_val:
                if name not in parameter_proxy_cache:
                    parameter_proxy_cache[name] = self.create_proxy("get_attr", name, (), {})
                return parameter_proxy_cache[name]
        return attr_val

    # Tracing ------------------------------------------------------------------------

    def _leaf(self, a: Any) -> Any:
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, mt.Tensor):
            named = self.root.named_parameters() if isinstance(a, mt.nn.Parameter) else self.root.named_buffers()
            for name, one in named:
                if one is a:
                    return self.create_node("get_attr", name, (), {})
            return self.create_node("get_attr", self._constant(a), (), {})
        if isinstance(a, mt.nn.Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        return a

    def _constant(self, tensor: Any) -> str:
        """Return the name of the root's attribute that holds `tensor`. Create the attribute if there is none."""
        for name, value in vars(self.root).items():
            if value is tensor:
                return str(name)
        number = 0
        while hasattr(self.root, f"_tensor_constant{number}"):
            number += 1
        object.__setattr__(self.root, f"_tensor_constant{number}", tensor)
        return f"_tensor_constant{number}"

    def create_args_for_root(
        self, fn: Any, is_module: bool, concrete_args: dict[str, Any] | None = None
    ) -> tuple[Any, list[Any]]:
        """Return the function to run, and a list with a proxy or a concrete value for each of its arguments."""
        fn = inspect.unwrap(fn)
        code = fn.__code__
        parameters = inspect.signature(fn).parameters
        args: list[Any] = []
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            if is_module and not args:
                args.append(self.root)
                continue
            given = (concrete_args or {}).get(name, PH)
            default = parameters[name].default if given is PH else given
            proxy = self.create_proxy("placeholder", name, () if default is inspect.Parameter.empty else (default,), {})
            args.append(proxy if given is PH else given)
        stars = [kind for flag, kind in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")) if code.co_flags & flag]
        for kind, name in zip(stars, code.co_varnames[len(args) :]):
            args.append(self.create_proxy("placeholder", kind + name, (), {}))
        if not stars and not code.co_kwonlyargcount:
            return fn, args
        # Make all arguments positional, so that `args` and `kwargs` can be proxies instead of a tuple and a dict.
        flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
        plain = code.replace(co_flags=flags, co_argcount=len(args), co_posonlyargcount=0, co_kwonlyargcount=0)
        return FunctionType(plain, fn.__globals__, fn.__name__, None, fn.__closure__), args

    def trace(self, root: Any, concrete_args: dict[str, Any] | None = None) -> Graph:
        """Trace a module or a function.

        Parameters
        ----------
        root : Module or callable
        concrete_args : dict, optional
            Values of arguments by name, which are used unchanged. The other arguments are proxies.

        Returns
        -------
        Graph

        Raises
        ------
        TraceError
            If the code needs the value of a proxy, for example to branch on it.
        """
        global _tracing
        is_module = isinstance(root, mt.nn.Module)
        self.root = root if is_module else mt.nn.Module()
        fn = type(root).forward if is_module else root
        self.graph = Graph(tracer_cls=type(self))
        self._parameters = {}
        fn, args = self.create_args_for_root(fn, is_module, concrete_args)
        _tracing += 1
        try:
            with self._watched(fn):
                result = fn(*args)
            self.create_node("output", "output", (self.create_arg(result),), {}, None, getattr(fn, "__annotations__", {}).get("return"))
        finally:
            _tracing -= 1
        return self.graph

    @contextmanager
    def _watched(self, fn: Any) -> Any:
        """Return a context in which module calls, parameters and wrapped functions are recorded."""
        alias = sys.modules.get(TREE)  # the module `torch`, if it has been imported
        with ExitStack() as stack:
            for module in self.root.modules():
                stack.callback(object.__setattr__, module, "__class__", type(module))
                object.__setattr__(module, "__class__", self._watched_class(type(module)))
            for namespace, name in WRAPPED:
                self._wrap(stack, namespace, name)
            # An operator calls the tracer itself if a proxy is passed in place of a tensor, but not if it is passed in
            # place of a number. All functions are therefore wrapped.
            for place in filter(None, (mt, alias, mt.nn.functional, mt.fft, mt.linalg, mt.special)):
                for name, value in list(vars(place).items()):
                    if isinstance(value, Op) or isinstance(value, FunctionType) and (name == "_assert" or not name.startswith("_")):
                        self._wrap(stack, vars(place), name)
            found = [*map(vars, self._autowrap_modules), *(self._globals(one) for one in (fn, *self.root.modules()))]
            spaces = {id(space): space for space in found if space}
            for space in spaces.values():
                for name, value in list(space.items()):
                    if isinstance(value, Op) or id(value) in self._autowrap_functions:
                        self._wrap(stack, space, name)
            yield

    @staticmethod
    def _globals(of: Any) -> dict[str, Any] | None:
        found = inspect.unwrap(type(of).forward if isinstance(of, mt.nn.Module) else of)
        return getattr(found, "__globals__", None)

    @staticmethod
    def _wrap(stack: ExitStack, namespace: dict[str, Any], name: str) -> None:
        """Replace a function by one that records calls with proxies, until the stack is closed."""
        there = name in namespace
        plain = namespace.get(name, getattr(builtins, name, None))
        if plain is None or hasattr(plain, "_fx_plain"):
            return

        # Reading an operator's `__doc__` would generate its documentation.
        @functools.wraps(plain, assigned=("__module__", "__name__", "__qualname__"))
        def recording(*args: Any, **kwargs: Any) -> Any:
            if has_proxy((args, kwargs)):
                return find_tracer((args, kwargs)).create_proxy("call_function", plain, args, kwargs)
            return plain(*args, **kwargs)

        recording._fx_plain = plain  # type: ignore[attr-defined]
        namespace[name] = recording
        stack.callback(namespace.__setitem__ if there else lambda key, _: namespace.pop(key), name, plain)

    def _watched_class(self, cls: type) -> type:
        """Return a subclass of `cls` that records calls and parameters of its instances while tracing."""
        made = self._classes.get(cls)
        if made is not None:
            return made
        tracer = self

        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            return tracer.call_module(module, lambda *args, **kwargs: cls.__call__(module, *args, **kwargs), args, kwargs)

        def attribute(module: Any, name: str) -> Any:
            return tracer.getattr(name, cls.__getattr__(module, name), tracer._parameters)  # type: ignore[attr-defined]

        made = type(cls.__name__, (cls,), {
            "__slots__": (), "__call__": call, "__getattr__": attribute, "__module__": cls.__module__,
            "__qualname__": cls.__qualname__, "__doc__": cls.__doc__,
        })  # fmt: skip
        self._classes[cls] = made
        return made


def symbolic_trace(root: Any, concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """Trace a module or a function into a module that runs the recorded graph.

    Parameters
    ----------
    root : Module or callable
    concrete_args : dict, optional
        Values of arguments by name, which are used unchanged. The other arguments become placeholders.

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
    named = type(root) if isinstance(root, mt.nn.Module) else root
    tracer = Tracer()
    traced = tracer.trace(root, concrete_args)
    return GraphModule(root=tracer.root, graph=traced, class_name=named.__name__)
