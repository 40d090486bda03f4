"""Runs the code of a TorchScript archive, statement by statement, with metatensor's operators.

Nothing is passed to Python's ``exec``, ``eval`` or ``getattr``: each kind of statement and expression has a method
here, and those without one raise. A call ends with a RuntimeError after `MAX_STEPS` steps.
"""

from __future__ import annotations

import ast
import math
import threading
from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor._core.device import Device
from metatensor._core.dtype import DType
from metatensor._core.formats import LayoutTag, MemoryFormatTag
from metatensor._core.nested import tensors_in
from metatensor._core.tensor import Tensor
from metatensor.program.aten import find
from metatensor.program.aten.codes import dtype_code
from metatensor.program.aten.placing import common_device, default_device, same_grad_mode
from metatensor.program.torchscript.primitives import CONTAINERS, PRIM, SCALARS
from metatensor.program.torchscript.source import Class, Code, Function
from metatensor.program.torchscript.types import converted, is_a
from metatensor.program.torchscript.values import Bound, EnumMember, ScriptObject, Uninitialized, named_tuple

__all__ = ["MAX_DEPTH", "MAX_STEPS", "Interpreter", "dotted"]

MAX_STEPS = 10_000_000
"""Maximum steps of one call of a module: statements, calls, and elements of lists and strings."""
MAX_DEPTH = 100
"""Maximum depth of nested calls."""
_NUMBERS = {"inf": math.inf, "nan": math.nan, "infj": complex(0, math.inf), "nanj": complex(0, math.nan)}
_LIBRARY = ("torch", "ops", "__torch__", "CONSTANTS")
_NO = object()


class _Running(threading.local):
    """The remaining steps of the current call in this thread, and where it runs."""

    def __init__(self) -> None:
        self.depth, self.left, self.device = 0, 0, None
        self.line: int = 0
        self.noted: Any = None

    def grow(self, count: int) -> None:
        """Charge `count` steps before they are taken."""
        self.left -= count
        if self.left < 0:
            raise RuntimeError(f"the TorchScript code takes more than {MAX_STEPS:,} steps "
                               "(metatensor.program.torchscript.interpreter.MAX_STEPS)")  # fmt: skip


_running = _Running()


def dotted(node: ast.expr) -> str | None:
    """Return the text of an expression like ``a.b.c``, or None for any other."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


class Interpreter:
    """Runs functions of an archive.

    Parameters
    ----------
    code : Code
        Its classes and functions.
    constants : list
        The values of ``CONSTANTS.c0``, ``CONSTANTS.c1`` and so on.
    """

    def __init__(self, code: Code, constants: list[Any]) -> None:
        self.code, self.constants = code, constants
        self._placed: dict[tuple[int, Any], Any] = {}
        self._tuples: dict[str, Any] = {}
        self._enums: dict[str, dict[str, EnumMember]] = {}
        self._operators: dict[str, Callable[..., Any] | None] = {}

    def __deepcopy__(self, memo: Any) -> Interpreter:
        return self

    # Calls ------------------------------------------------------------------------------------------

    def enter(self, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: Callable[[], Any]) -> Any:
        """Call a function from Python.

        Parameters
        ----------
        function : Function
            The function or method.
        args, kwargs
            Its arguments, with the module of a method first.
        tensors : callable
            Returns the tensors of the module. The code creates tensors on the device of these and the arguments.
        """
        if _running.depth:
            return self.call(function, args, kwargs)
        given = [_inward(a) for a in args], {key: _inward(a) for key, a in kwargs.items()}
        _running.left, _running.device = MAX_STEPS, common_device([*tensors(), *tensors_in(given)])
        try:
            with default_device(_running.device), same_grad_mode():
                return self.call(function, tuple(given[0]), given[1])
        except RecursionError:
            raise RuntimeError(f"{function.name}: its code is nested too deeply") from None
        finally:
            _running.device = _running.noted = None

    def call(self, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], around: dict[str, Any] | None = None) -> Any:
        """Call a function with values of TorchScript. `around` has the variables of the enclosing function."""
        if _running.depth >= MAX_DEPTH:
            raise RuntimeError(f"{function.name}: more than {MAX_DEPTH} calls inside one another")
        scope = {**(around or {}), **self._bound(function, args, kwargs)}
        _running.depth += 1
        try:
            result = self._block(function.body, scope)
        except Exception as error:
            if _running.noted is not error and hasattr(error, "add_note"):  # name the innermost place, from Python 3.11 on
                _running.noted = error
                error.add_note(f"in TorchScript code: {function.name}, line {_running.line}")
            raise
        finally:
            _running.depth -= 1
        return None if result is _NO else result

    def _bound(self, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        names, short = function.names, function.name.rpartition(".")[2]
        if len(args) > len(names):
            raise RuntimeError(f"{short}() expected at most {len(names)} arguments, got {len(args)}")
        scope = dict(zip(names, args))
        for key, value in kwargs.items():
            if key not in names or key in scope:
                raise RuntimeError(f"{short}() got an {'unknown' if key not in names else 'argument twice:'} keyword argument {key!r:.60}")
            scope[key] = value
        for name in names:
            if name not in scope:
                if name not in function.defaults:
                    raise RuntimeError(f"{short}() is missing a value for argument {name!r}")
                scope[name] = self._value(function.defaults[name], {})
        for name, kind in zip(names, function.types):
            if kind is not None and name != "self":
                scope[name] = converted(scope[name], kind, name, short)
        return scope

    def method(self, owner: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method of a value."""
        call = getattr(type(owner), "_call_method", None)  # of a ScriptedModule
        if call is not None:
            return call(owner, name, args, kwargs)
        if isinstance(owner, ScriptObject):
            function = owner._class.methods.get(name)
            if function is None:
                raise RuntimeError(f"{owner._class.name} has no method {name!r:.60}")
            return self.call(function, (owner, *args), kwargs)
        if hasattr(owner, "wait") and name == "wait":
            return owner.wait()
        raise NotImplementedError(f"TorchScript code calls the method {name!r:.60} of {type(owner).__name__}")

    # Statements ---------------------------------------------------------------------------------------

    def _block(self, statements: list[ast.stmt], scope: dict[str, Any]) -> Any:
        """Run statements. Return what a ``return`` among them returns, else `_NO`."""
        for statement in statements:
            _running.grow(1)
            _running.line = statement.lineno
            kind = type(statement)
            if kind is ast.Assign:
                value = self._value(statement.value, scope)  # type: ignore[attr-defined]
                for target in statement.targets:  # type: ignore[attr-defined]
                    self._assign(target, value, scope)
            elif kind is ast.Expr:
                self._value(statement.value, scope)  # type: ignore[attr-defined]
            elif kind is ast.Return:
                return None if statement.value is None else self._value(statement.value, scope)  # type: ignore[attr-defined]
            elif kind is ast.Pass:
                pass
            else:
                run = _STATEMENTS.get(kind)
                if run is None:
                    raise NotImplementedError(f"TorchScript code has a statement {kind.__name__}, line {statement.lineno}")
                result = run(self, statement, scope)
                if result is not _NO:
                    return result
        return _NO

    def _if(self, node: Any, scope: dict[str, Any]) -> Any:
        return self._block(node.body if self._truth(node.test, scope) else node.orelse, scope)

    def _while(self, node: Any, scope: dict[str, Any]) -> Any:
        while self._truth(node.test, scope):
            _running.grow(1)
            result = self._block(node.body, scope)
            if result is not _NO:
                return result
        return _NO

    def _for(self, node: Any, scope: dict[str, Any]) -> Any:
        over = node.iter
        if not (isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "range" and not over.keywords):
            items = self._value(over, scope)
        else:
            items = range(*[int(self._value(a, scope)) for a in over.args])
        for item in items:
            _running.grow(1)
            self._assign(node.target, item, scope)
            result = self._block(node.body, scope)
            if result is not _NO:
                return result
        return _NO

    def _annotated(self, node: Any, scope: dict[str, Any]) -> Any:
        if node.value is not None:
            self._assign(node.target, self._value(node.value, scope), scope)
        return _NO

    def _with(self, node: Any, scope: dict[str, Any]) -> Any:
        managers = []
        for item in node.items:
            manager = self._value(item.context_expr, scope)
            entered = self.method(manager, "__enter__", (), {})
            managers.append(manager)
            if item.optional_vars is not None:
                self._assign(item.optional_vars, entered, scope)
        try:
            return self._block(node.body, scope)
        finally:
            for manager in reversed(managers):
                self.method(manager, "__exit__", (None, None, None), {})

    def _define(self, node: Any, scope: dict[str, Any]) -> Any:
        """Define a nested function, which sees the enclosing variables."""
        scope[node.name] = Bound(Function(node.name, node, [], self.code.file), scope)
        return _NO

    def _truth(self, node: ast.expr, scope: dict[str, Any]) -> bool:
        return bool(self._value(node, scope))

    def _assign(self, target: ast.expr, value: Any, scope: dict[str, Any]) -> None:
        if isinstance(target, ast.Name):
            scope[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            if not isinstance(value, (tuple, list)) or len(value) != len(target.elts):
                found = len(value) if isinstance(value, (tuple, list)) else type(value).__name__
                raise RuntimeError(f"TorchScript code needs {len(target.elts)} values, got {found}")
            for one, part in zip(target.elts, value):
                self._assign(one, part, scope)
        elif isinstance(target, ast.Attribute):
            owner = self._value(target.value, scope)
            if isinstance(owner, ScriptObject):
                vars(owner)[target.attr] = value
            elif hasattr(type(owner), "_call_method"):
                owner._set(target.attr, value)
            else:
                raise NotImplementedError(f"TorchScript code sets an attribute of {type(owner).__name__}")
        elif isinstance(target, ast.Subscript):
            owner = self._value(target.value, scope)
            if not isinstance(owner, (list, dict)):
                raise NotImplementedError(f"TorchScript code sets an element of {type(owner).__name__}")
            owner[self._value(target.slice, scope)] = value
        else:
            raise NotImplementedError(f"TorchScript code assigns to a {type(target).__name__}")

    # Expressions ---------------------------------------------------------------------------------------

    def _value(self, node: ast.expr, scope: dict[str, Any]) -> Any:
        """Return the value of an expression."""
        kind = type(node)
        if kind is ast.Name:
            name = node.id  # type: ignore[attr-defined]
            if name in scope:
                return scope[name]
            if name in _NUMBERS:
                return _NUMBERS[name]
            raise RuntimeError(f"TorchScript code uses {name!r:.60}, which has no value")
        if kind is ast.Constant:
            if node.value is ... or isinstance(node.value, bytes):  # type: ignore[attr-defined]
                raise NotImplementedError(f"TorchScript code has a constant {node.value!r:.40}")  # type: ignore[attr-defined]
            return node.value  # type: ignore[attr-defined]
        evaluate = _EXPRESSIONS.get(kind)
        if evaluate is None:
            raise NotImplementedError(f"TorchScript code has an expression {kind.__name__}, line {node.lineno}")
        return evaluate(self, node, scope)

    def _list(self, node: Any, scope: dict[str, Any]) -> list:
        return [self._value(one, scope) for one in node.elts]

    def _tuple(self, node: Any, scope: dict[str, Any]) -> tuple:
        return tuple([self._value(one, scope) for one in node.elts])

    def _dict(self, node: Any, scope: dict[str, Any]) -> dict:
        if None in node.keys:
            raise NotImplementedError("TorchScript code has a dict in a dict display")
        return {self._value(key, scope): self._value(value, scope) for key, value in zip(node.keys, node.values)}

    def _subscript(self, node: Any, scope: dict[str, Any]) -> Any:
        owner = self._value(node.value, scope)
        if not isinstance(owner, (list, tuple, dict, str)):
            if isinstance(owner, ScriptObject) or hasattr(type(owner), "_call_method"):
                return self.method(owner, "__getitem__", (self._value(node.slice, scope),), {})
            raise NotImplementedError(f"TorchScript code takes an element of {type(owner).__name__}")
        if isinstance(node.slice, ast.Slice):
            bounds = [None if part is None else self._value(part, scope) for part in (node.slice.lower, node.slice.upper, node.slice.step)]
            _running.grow(len(owner))
            return owner[slice(*bounds)]  # type: ignore[index]
        return owner[self._value(node.slice, scope)]

    def _unary(self, node: Any, scope: dict[str, Any]) -> Any:
        value = self._value(node.operand, scope)
        if isinstance(node.op, ast.Not):
            return not value
        return {ast.USub: lambda: -value, ast.UAdd: lambda: +value, ast.Invert: lambda: ~value}[type(node.op)]()

    def _binary(self, node: Any, scope: dict[str, Any]) -> Any:
        name = _BINARY.get(type(node.op))
        if name is None:
            raise NotImplementedError(f"TorchScript code has an operation {type(node.op).__name__}")
        return self._library(f"torch.{name}", (self._value(node.left, scope), self._value(node.right, scope)), {})

    def _boolean(self, node: Any, scope: dict[str, Any]) -> Any:
        value: Any = None
        for one in node.values:
            value = self._value(one, scope)
            if bool(value) is isinstance(node.op, ast.Or):
                break
        return value

    def _either(self, node: Any, scope: dict[str, Any]) -> Any:
        return self._value(node.body if self._truth(node.test, scope) else node.orelse, scope)

    def _attribute(self, node: Any, scope: dict[str, Any]) -> Any:
        name = dotted(node)
        if name is not None:
            root = name.partition(".")[0]
            if root not in scope and root in _LIBRARY:
                return self._named(name)
        return self._member(self._value(node.value, scope), node.attr)

    def _named(self, name: str) -> Any:
        """Return the object that a name of the library or the archive refers to."""
        root, _, rest = name.partition(".")
        if root == "CONSTANTS":
            if not rest[1:].isdigit() or len(rest) > 12 or int(rest[1:]) >= len(self.constants):
                raise RuntimeError(f"TorchScript code uses {name[:60]}; the archive has {len(self.constants)} constants")
            return self._constant(int(rest[1:]))
        if root == "__torch__":
            found = self.code.find(name)
            if isinstance(found, Function):
                return Bound(found)
            owner, _, last = name.rpartition(".")
            kind = self.code.find(owner)
            if isinstance(kind, Class) and kind.kind == "Enum":
                members = self.enum(kind)
                if last in members:
                    return members[last]
        raise RuntimeError(f"TorchScript code uses {name[:80]}, which neither the archive nor metatensor has")

    def _member(self, owner: Any, name: str) -> Any:
        """Return an attribute of a value."""
        if isinstance(owner, ScriptObject):
            if name in vars(owner) and name != "_class":
                return vars(owner)[name]
        elif hasattr(type(owner), "_call_method"):
            return owner._get(name)
        elif isinstance(owner, tuple) and name in getattr(type(owner), "_fields", ()):
            return owner[type(owner)._fields.index(name)]  # type: ignore[attr-defined]
        elif isinstance(owner, EnumMember) and name in ("name", "value"):
            return vars(owner)[name]
        elif isinstance(owner, Tensor) and name in PRIM:
            return self._checked(PRIM[name](_running, owner))
        raise RuntimeError(f"TorchScript code uses the attribute {name!r:.60} of {type(owner).__name__}, which it does not have")

    def _constant(self, number: int) -> Any:
        """Return a constant. A tensor is moved to the device of the call."""
        value = self.constants[number]
        device = _running.device
        if device is None or not isinstance(value, Tensor) or value.device == device:
            return value
        if device.type == "meta" and value.dim() == 0:  # a number, on which sizes may depend
            return value
        key = number, device
        if key not in self._placed:
            self._placed[key] = value.to(device)
        return self._placed[key]

    # Calls in the code -----------------------------------------------------------------------------------

    def _call(self, node: Any, scope: dict[str, Any]) -> Any:
        _running.grow(1)
        function = node.func
        if isinstance(function, ast.Name) and function.id not in scope:
            special = _SPECIAL.get(function.id)
            if special is None:
                raise NotImplementedError(f"TorchScript code calls {function.id!r:.60}, which is unknown")
            return special(self, node, scope)
        name = dotted(function) if isinstance(function, ast.Attribute) else None
        if name is not None and name.endswith(".__new__"):
            return self._library(name, (), {})
        args = tuple([self._value(a, scope) for a in node.args])
        kwargs = {key.arg: self._value(key.value, scope) for key in node.keywords}
        if None in kwargs:
            raise NotImplementedError("TorchScript code passes a dict as keyword arguments")
        if name is not None:
            root = name.partition(".")[0]
            if root not in scope and root in _LIBRARY:
                return self._library(name, args, kwargs)  # type: ignore[arg-type]
        if isinstance(function, ast.Attribute):
            return self.method(self._value(function.value, scope), function.attr, args, kwargs)  # type: ignore[arg-type]
        value = self._value(function, scope)
        if isinstance(value, Bound):
            return self.call(value.function, args, kwargs, value.scope)  # type: ignore[arg-type]
        raise NotImplementedError(f"TorchScript code calls a value of class {type(value).__name__}")

    def _library(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call an operator, a primitive, or a class or function of the archive by its dotted name."""
        root, _, rest = name.partition(".")
        if root == "__torch__":
            found = self.code.find(name)
            if isinstance(found, Function):
                return self.call(found, args, kwargs)
            if isinstance(found, Class):
                return self.create(found, args, kwargs)
            owner, _, last = name.rpartition(".")
            kind = self.code.find(owner)
            if isinstance(kind, Class) and kind.kind == "object" and last == "__new__":
                return ScriptObject(kind)
            raise RuntimeError(f"TorchScript code calls {name[:80]}, which the archive does not have")
        if root == "torch" and rest == "device":
            return self._device(mt.device(*args, **kwargs))
        if root == "torch" and rest == "wait":
            return args[0].wait()
        if root == "ops":
            namespace, _, rest = rest.partition(".")
            if namespace == "prim" and rest in PRIM:
                return self._checked(PRIM[rest](_running, *args, **kwargs))
        else:
            namespace = "aten"
        if namespace in ("aten", "prim") and rest in SCALARS and args and self._is_scalar(rest, args, kwargs):
            return SCALARS[rest](_running, *args, **kwargs)
        key = f"{namespace}::{rest}"
        if key not in self._operators:
            self._operators[key] = find("aten" if namespace == "prim" else namespace, rest)
        operator = self._operators[key]
        if operator is None:
            if rest in SCALARS:
                return SCALARS[rest](_running, *args, **kwargs)
            raise NotImplementedError(f"metatensor has no operator {key}, which the TorchScript code calls")
        return self._checked(operator(*args, **kwargs))

    @staticmethod
    def _is_scalar(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return True if a call is one of numbers, strings or containers."""
        if isinstance(args[0], Tensor):
            return name in ("__is__", "__isnot__")
        if name in CONTAINERS:
            return True
        return not any(isinstance(a, Tensor) for a in args) and not kwargs.keys() & {"dtype", "device"}

    def _device(self, device: Device) -> Device:
        """Return the device to use for a device in the code: the common device of the module and its arguments, if there is one."""
        return device if _running.device is None else _running.device

    @staticmethod
    def _checked(value: Any) -> Any:
        """Return a result as a value of TorchScript."""
        if isinstance(value, DType):
            return dtype_code(value)
        if type(value) is mt.Size:
            return list(value)
        return value

    def create(self, kind: Class, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return a new object of a class of the archive."""
        if kind.kind == "NamedTuple":
            fields = self.tuple_of(kind)
            values = dict(zip(fields._fields, args)) | kwargs
            return fields(*[values[key] if key in values else self._value(kind.constants[key], {}) for key in fields._fields])
        if kind.kind not in ("object",):
            raise NotImplementedError(f"TorchScript code creates an object of class {kind.name}")
        made = ScriptObject(kind)
        if "__init__" in kind.methods:
            self.call(kind.methods["__init__"], (made, *args), kwargs)
        return made

    def tuple_of(self, kind: Class) -> Any:
        """Return the class of a named tuple."""
        if kind.name not in self._tuples:
            self._tuples[kind.name] = named_tuple(kind.short, kind.types)
        return self._tuples[kind.name]

    def enum(self, kind: Class) -> dict[str, EnumMember]:
        """Return the members of an enumeration by name."""
        if kind.name not in self._enums:
            self._enums[kind.name] = {key: EnumMember(kind.name, key, self._value(value, {})) for key, value in kind.constants.items()}
        return self._enums[kind.name]

    def constant_of(self, kind: Class, name: str) -> Any:
        """Return the value of a constant attribute of a class."""
        if not _running.depth:
            _running.left = MAX_STEPS
        return self._value(kind.constants[name], {})

    # Calls of names that take types ------------------------------------------------------------------------

    def _annotate(self, node: Any, scope: dict[str, Any]) -> Any:
        kind, value = node.args[0], self._value(node.args[1], scope)
        if isinstance(kind, ast.Name) and isinstance(value, Tensor) and kind.id in ("int", "float", "bool", "complex", "number"):
            return _NUMBER_OF[kind.id](value.item())
        if isinstance(kind, ast.Name) and kind.id == "float" and type(value) is int:
            return float(value)
        return value

    def _cast(self, node: Any, scope: dict[str, Any]) -> Any:
        return self._value(node.args[1], scope)

    def _uninitialized(self, node: Any, scope: dict[str, Any]) -> Any:
        return Uninitialized()

    def _isinstance(self, node: Any, scope: dict[str, Any]) -> bool:
        return is_a(self._value(node.args[0], scope), node.args[1])

    def _getattr(self, node: Any, scope: dict[str, Any]) -> Any:
        return self._member(self._value(node.args[0], scope), str(self._value(node.args[1], scope)))

    def _convert(self, node: Any, scope: dict[str, Any]) -> Any:
        name, value = node.func.id, self._value(node.args[0], scope)
        if isinstance(value, Tensor):
            value = value.item()
        if name == "str":
            return SCALARS["str"](_running, value)
        if isinstance(value, str):
            _running.grow(len(value))
            return int(value, *[self._value(a, scope) for a in node.args[1:]]) if name == "int" else _NUMBER_OF[name](value)
        return _NUMBER_OF[name](*[value, *[self._value(a, scope) for a in node.args[1:]]])

    def _sequence(self, node: Any, scope: dict[str, Any]) -> Any:
        value = self._value(node.args[0], scope) if node.args else []
        _running.grow(len(value))
        return list(value) if node.func.id == "list" else tuple(value)

    def _range(self, node: Any, scope: dict[str, Any]) -> list:
        items = range(*[int(self._value(a, scope)) for a in node.args])
        _running.grow(len(items))
        return list(items)

    def _fork(self, node: Any, scope: dict[str, Any]) -> Any:
        rest = ast.copy_location(ast.Call(func=node.args[0], args=node.args[1:], keywords=node.keywords), node)
        return _Done(self._call(rest, scope))

    def _wait(self, node: Any, scope: dict[str, Any]) -> Any:
        return self._value(node.args[0], scope).wait()


class _Done:
    """The result of ``fork``. The function has already run."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def wait(self) -> Any:
        """Return the result."""
        return self.value


_NUMBER_OF: dict[str, Callable[..., Any]] = {"int": int, "float": float, "bool": bool, "complex": complex, "number": lambda value: value}
_BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "remainder", ast.Pow: "pow"}
_STATEMENTS: dict[type, Callable[..., Any]] = {
    ast.If: Interpreter._if, ast.While: Interpreter._while, ast.For: Interpreter._for, ast.AnnAssign: Interpreter._annotated,
    ast.With: Interpreter._with, ast.FunctionDef: Interpreter._define,
}  # fmt: skip
_EXPRESSIONS: dict[type, Callable[..., Any]] = {
    ast.Call: Interpreter._call, ast.Attribute: Interpreter._attribute, ast.List: Interpreter._list, ast.Tuple: Interpreter._tuple,
    ast.Dict: Interpreter._dict, ast.Subscript: Interpreter._subscript, ast.UnaryOp: Interpreter._unary, ast.BinOp: Interpreter._binary,
    ast.BoolOp: Interpreter._boolean, ast.IfExp: Interpreter._either,
}  # fmt: skip
_SPECIAL: dict[str, Callable[..., Any]] = {
    "annotate": Interpreter._annotate, "unchecked_cast": Interpreter._cast, "uninitialized": Interpreter._uninitialized,
    "isinstance": Interpreter._isinstance, "getattr": Interpreter._getattr, "list": Interpreter._sequence, "tuple": Interpreter._sequence,
    "range": Interpreter._range, "fork": Interpreter._fork, "wait": Interpreter._wait,
    **dict.fromkeys(("int", "float", "bool", "complex", "str"), Interpreter._convert),
}  # fmt: skip


# Arguments from Python ------------------------------------------------------------------------------------


def _inward(value: Any) -> Any:
    """Return an argument as a value of TorchScript: dtypes, layouts and memory formats as numbers."""
    if isinstance(value, DType):
        return dtype_code(value)
    if isinstance(value, LayoutTag):
        return 0
    if isinstance(value, MemoryFormatTag):
        return ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d").index(repr(value).rpartition(".")[2])
    return list(value) if type(value) is mt.Size else value
