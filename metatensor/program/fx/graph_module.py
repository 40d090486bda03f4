"""Modules whose forward is the code of a graph."""

from __future__ import annotations

import contextlib
import copy
import itertools
import linecache
import os
import weakref
from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor._core.thread import _set_grad_enabled, is_grad_enabled
from metatensor.program.fx.codegen import PythonCode, usual_globals
from metatensor.program.fx.graph import Graph
from metatensor.program.fx.interpreter import attribute_of, flattened
from metatensor.program.fx.node import Node, map_aggregate, map_arg

__all__ = ["GraphModule", "reduce_graph_module"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_HOOKS = ("_create_node_hooks", "_erase_node_hooks", "_replace_hooks", "_deepcopy_hooks")
_numbers = itertools.count()


def _forward_from_src(src: str, names: dict[str, Any], co_fields: Any = None, name: str = "forward") -> Any:
    """Return the function `name` that `src` defines. Tracebacks show its lines."""
    file = f"<code of a graph {next(_numbers)}>"
    scope = {**usual_globals(), **names}
    exec(compile(src, file, "exec"), scope)
    made = scope.pop(name)
    linecache.cache[file] = (len(src), None, src.splitlines(keepends=True), file)  # tracebacks show the lines
    weakref.finalize(made, linecache.cache.pop, file, None).atexit = False
    return made


class _CodeOnlyModule(mt.nn.Module):
    """A module with the instance dict of another one.

    A copied or unpickled `GraphModule` takes its attributes from such a module.
    """

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__.update(body)


def _copy_attr(from_module: Any, to_module: Any, target: str) -> None:
    """Copy an attribute with a dotted name from one module to another, and create the modules on its path."""
    *above, name = target.split(".")
    for part in above:
        following = getattr(from_module, part, None)
        if following is None or following is to_module:
            return
        if getattr(to_module, part, None) is None:
            setattr(to_module, part, mt.nn.Module())
        from_module, to_module = following, getattr(to_module, part)
    value = getattr(from_module, name)
    if isinstance(value, mt.Tensor) and not isinstance(value, mt.nn.Parameter):
        to_module.register_buffer(name, value)
    else:
        setattr(to_module, name, value)


def _assign_attr(value: Any, to_module: Any, target: str) -> None:
    """Set an attribute with a dotted name, and create the modules on its path. A tensor becomes a buffer."""
    first, _, rest = target.partition(".")
    if rest:
        inner = getattr(to_module, first, None)
        if inner is None:
            inner = mt.nn.Module()
            setattr(to_module, first, inner)
        _assign_attr(value, inner, rest)
        return
    plain = isinstance(value, mt.Tensor) and not isinstance(value, mt.nn.Parameter)
    (to_module.register_buffer if plain else to_module.__setattr__)(target, value)


class GraphModule(mt.nn.Module):
    """A module that runs the code of a graph.

    It has the attributes that the graph uses, and shares them with the module that they come from. Changes of the graph take
    effect with `recompile`.

    Parameters
    ----------
    root : Module or dict
        Source of the attributes: a module, or a dict from dotted names to attributes.
    graph : Graph
    class_name : str
        Name of the class of the module. Default: "GraphModule".

    Raises
    ------
    RuntimeError
        If `root` is a dict without an attribute that the graph uses, or neither a module nor a dict.
    """

    _own_class = False

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # Each instance has its own class, whose name is that of the traced module or function, and whose forward is its code.
        while cls._own_class:
            cls = cls.__mro__[1]
        return super().__new__(type(cls.__name__, (cls,), {"_own_class": True, "__module__": cls.__module__}))

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        self.meta: dict[str, Any] = {}
        if isinstance(root, mt.nn.Module):
            self.training = root.training
        elif not isinstance(root, dict):
            raise RuntimeError(f"GraphModule: root must be a Module or a dict, got {type(root).__name__}")
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                if isinstance(root, dict):
                    if node.target not in root:
                        raise RuntimeError(f"GraphModule: the graph uses {node.target}, which root does not have")
                    _assign_attr(root[node.target], self, node.target)
                else:
                    _copy_attr(root, self, node.target)
        self.graph = graph
        tracer = graph._tracer_cls
        self._tracer_cls = tracer if tracer is not None and "<locals>" not in tracer.__qualname__ else None

    @property
    def graph(self) -> Graph:
        """The graph that the module runs."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"GraphModule: expected a Graph, got {type(g).__name__}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    def recompile(self) -> PythonCode:
        """Apply changes of the graph: generate its code and install it as ``forward``. Return the code."""
        written = self._graph.python_code()
        made = _forward_from_src(written.src, written.globals, name=self._graph._codegen._func_name)
        made.__qualname__ = f"{type(self).__name__}.forward"
        cls: Any = type(self)
        cls._compiled = staticmethod(made)
        if self._graph.arguments is None and cls.__mro__[1].forward is GraphModule.forward:
            cls.forward = made
        elif "forward" in vars(cls):
            del cls.forward
        self._code = written.src
        return written

    _compiled: Any = None
    @property
    def code(self) -> str:
        """The Python source that the module runs, which defines ``forward``. See `Graph.python_code`."""
        return self._code

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph and return its output."""
        if self._graph.arguments is not None:
            return _forward_of_program(self, *args, **kwargs)
        return self._compiled(self, *args, **kwargs)

    def print_readable(self, print_output: bool = True, *_: Any, **__: Any) -> str:
        """Return the code as a class, followed by the classes of the graph modules inside. Print it if `print_output` is true."""
        parts = [f"class {type(self).__name__}(torch.nn.Module):\n" + "".join(f"    {line}\n" for line in self.code.splitlines())]
        parts += [m.print_readable(print_output=False) for m in self.children() if isinstance(m, GraphModule)]
        text = parts[0] + "".join("".join(f"    {line}\n" if line else "\n" for line in ["", *one.splitlines()]) for one in parts[1:])
        if print_output:
            print(text)
        return text

    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Write a Python package with the code of the graph and the submodules and tensors that it uses.

        Parameters
        ----------
        folder : path
            The folder to create. ``module.py`` in it defines the class `module_name`, whose instances load the tensors.
        module_name : str
            Name of the class. Default: "FxModule".
        """
        from metatensor.program.fx.folders import write

        write(self, folder, module_name)

    def add_submodule(self, target: str, m: Any) -> bool:
        """Add a submodule with a dotted name. Return False if a part of its path is not a module."""
        *above, name = target.split(".")
        module: Any = self
        for part in above:
            if not hasattr(module, part):
                setattr(module, part, mt.nn.Module())
            module = getattr(module, part)
            if not isinstance(module, mt.nn.Module):
                return False
        module.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Remove the submodule with a dotted name. Return False if there is none."""
        above, _, name = target.rpartition(".")
        try:
            parent = attribute_of(self, above) if above else self
        except RuntimeError:
            return False
        if not isinstance(getattr(parent, name, None), mt.nn.Module):
            return False
        delattr(parent, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Remove the submodules that the graph does not use."""
        used: set[str] = set()
        for node in self._graph.nodes:
            if node.op in ("get_attr", "call_module"):
                parts = node.target.split(".")
                used.update(".".join(parts[:count]) for count in range(1, len(parts) + 1))
                if node.op == "call_module":
                    with contextlib.suppress(RuntimeError):  # the submodule may be missing already
                        used.update(f"{node.target}.{name}" for name, _ in attribute_of(self, node.target).named_modules() if name)
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # Hooks of the graph ---------------------------------------------------------------

    def _hook(self, table: str, f: Callable[..., Any], remove: bool) -> None:
        hooks = self.__dict__.setdefault(table, [])
        hooks.remove(f) if remove else hooks.append(f)

    def _register_create_node_hook(self, f: Callable[[Node], Any]) -> None:
        self._hook("_create_node_hooks", f, False)

    def _unregister_create_node_hook(self, f: Callable[[Node], Any]) -> None:
        self._hook("_create_node_hooks", f, True)

    def _register_erase_node_hook(self, f: Callable[[Node], Any]) -> None:
        self._hook("_erase_node_hooks", f, False)

    def _unregister_erase_node_hook(self, f: Callable[[Node], Any]) -> None:
        self._hook("_erase_node_hooks", f, True)

    def _register_replace_node_hook(self, f: Callable[..., Any]) -> None:
        self._hook("_replace_hooks", f, False)

    def _unregister_replace_node_hook(self, f: Callable[..., Any]) -> None:
        self._hook("_replace_hooks", f, True)

    @contextlib.contextmanager
    def _set_replace_hook(self, f: Callable[..., Any]) -> Any:
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)

    # Copies -----------------------------------------------------------------------------

    def _deepcopy_init(self) -> Any:
        return GraphModule.__init__

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        body = {name: value for name, value in self.__dict__.items() if name not in ("_graph", *_HOOKS)}
        fake = _CodeOnlyModule(copy.deepcopy(body, memo))
        self._deepcopy_init()(made, fake, copy.deepcopy(self._graph, memo), type(self).__name__)
        for name in ("_state_dict_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks", *_HOOKS):
            if name in self.__dict__:
                setattr(made, name, copy.copy(self.__dict__[name]))
        made.meta = copy.deepcopy(self.meta, memo)
        for name, value in made.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
            setattr(made, name, value)
        return made

    def __copy__(self) -> Any:
        made = GraphModule(self, copy.deepcopy(self._graph), type(self).__name__)
        made.meta = dict(self.meta)
        return made

    def __reduce__(self) -> Any:
        left_out = ("_graph", "_code", *_HOOKS)
        body = {name: value for name, value in self.__dict__.items() if name not in left_out}
        nodes = [(node.name, node.op, node.target, *_packed(node), node.type) for node in self._graph.nodes]
        codegen = self._graph._codegen
        extras = {"arguments": self._graph.arguments, "tracer_cls": self._tracer_cls, "codegen": None if _usual(codegen) else codegen}
        return reduce_graph_module, (body, nodes, type(self).__name__, extras)

    def __str__(self) -> str:
        return f"{super().__str__()}\n\n{self._code}"


def _forward_of_program(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Run the graph of a program and return its output."""
    values = flattened(self._graph.arguments, (args, kwargs), type(self).__name__)
    recording = is_grad_enabled()
    try:
        return self._compiled(self, *values)
    except BaseException:
        _set_grad_enabled(recording)  # a node may have changed it
        raise


def _usual(codegen: Any) -> bool:
    from metatensor.program.fx.codegen import CodeGen

    return type(codegen) is CodeGen and codegen._body_transformer is None


class _Reference:
    """The name of a node, which represents the node in pickled arguments."""

    def __init__(self, name: str) -> None:
        self.name = name


def _packed(node: Any) -> Any:
    return map_arg((node.args, node.kwargs), lambda given: _Reference(given.name))


def reduce_graph_module(body: dict[str, Any], nodes: list[Any], class_name: str, extras: dict[str, Any]) -> GraphModule:
    """Rebuild a pickled `GraphModule`."""
    graph = Graph(tracer_cls=extras["tracer_cls"])
    graph.arguments = extras["arguments"]
    if extras["codegen"] is not None:
        graph.set_codegen(extras["codegen"])
    made: dict[str, Any] = {}
    for name, op, target, args, kwargs, kind in nodes:
        args, kwargs = map_aggregate((args, kwargs), lambda leaf: made[leaf.name] if isinstance(leaf, _Reference) else leaf)
        made[name] = graph.create_node(op, target, args, dict(kwargs), name, kind)
    result = GraphModule(_CodeOnlyModule(body), graph, class_name)
    result.training = body.get("training", True)
    return result
