"""One call of an operator or of its reference, and the comparison of two calls, for `check_op`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from metatensor._core.device import Device, backend_for
from metatensor._core.nested import map_tensors
from metatensor._core.storage import make_storage
from metatensor._core.storage_views import tensor_from_storage
from metatensor._core.tensor import Tensor
from metatensor.testing.values import FORMATS, difference, place, to_values, used_memory

__all__ = ["Reference", "Run", "is_pytorch", "metadata", "move", "repeated", "strided", "value_differences"]


class Run:
    """A call of the operator on one device: the arguments before and after, and the results as a flat list."""

    def __init__(self, op: Any, schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any], device: str) -> None:
        names = [argument.name for argument in schema.arguments]
        self.schema, self.device = schema, device
        self.arguments = dict(zip(names, (move(value, device) for value in args), strict=False))
        self.arguments |= {name: move(value, device) for name, value in kwargs.items()}
        tensors = dict(_tensors(self.arguments))
        for argument in schema.arguments:
            if argument.type.startswith("device") and (argument.name in self.arguments or not tensors):
                self.arguments[argument.name] = device
        self.before = {} if device == "meta" else _snapshot(self.arguments)
        self._layouts = {name: _layout(tensor) for name, tensor in tensors.items()}
        # NumPy's strides are comparable only if all arguments are contiguous.
        self.is_plain = all(tensor.is_contiguous() for tensor in tensors.values())
        self._versions = {name: tensor._version for name, tensor in tensors.items()}
        # An operator that resizes a tensor in place may replace its storage.
        self._storages = {name: tensor.untyped_storage() for name, tensor in tensors.items()}
        positional = names[: len(args)]
        with used_memory(device):
            result = op(*[self.arguments[name] for name in positional],
                        **{name: value for name, value in self.arguments.items() if name not in positional})  # fmt: skip
        self.results = list(result) if isinstance(result, (tuple, list)) else [] if result is None else [result]

    def after(self) -> dict[str, np.ndarray]:
        return _snapshot(self.arguments)

    def layouts(self) -> dict[str, tuple[Any, ...]]:
        """Return shape, strides and dtype of the tensor arguments after the call."""
        return {name: _layout(tensor) for name, tensor in _tensors(self.arguments)}

    def _is_marked(self, name: str) -> bool:
        return name.partition("[")[0] in {argument.name for argument in self.schema.arguments if argument.mutated}

    def marked(self) -> Iterator[tuple[str, bool]]:
        """Yield each argument that the schema marks as written, and whether it changed."""
        after = self.after()
        for name, values in self.before.items():
            if self._is_marked(name) and values.size:
                changed = values.tobytes() != after[name].tobytes() or self._layouts[name] != _layout(_named(self.arguments, name))
                yield name.partition("[")[0], changed

    def placement(self) -> Iterator[str]:
        """Yield messages about results that are not on the device of the call."""
        for number, result in enumerate(self.results):
            if isinstance(result, Tensor) and result.device.type != self.device:
                yield f"result {number} is on the device {result.device}, but the arguments are on {self.device}"

    def mutation(self) -> Iterator[str]:
        """Yield messages about arguments that changed although the schema does not mark them as written."""
        after = {} if self.device == "meta" else self.after()
        for name, tensor in _tensors(self.arguments):
            if self._is_marked(name):
                continue
            said = f"but the schema does not mark it as written: {self.schema.text}"
            if name in after and self.before[name].tobytes() != after[name].tobytes():
                yield f"argument {name} changes, {said}"
            elif _layout(tensor) != self._layouts[name]:
                yield f"argument {name} changes from {_say(self._layouts[name])} to {_say(_layout(tensor))}, {said}"
            elif tensor._version != self._versions[name]:
                yield f"argument {name} is written to (its version rises), {said}"

    def aliasing(self) -> Iterator[str]:
        """Yield messages about results that share memory differently than the schema declares."""
        marks = [_letter(kind) for kind, _ in self.schema.returns]
        aliased = {argument.name: _letter(argument.type) for argument in self.schema.arguments if argument.aliased}
        seen: dict[int, int] = {}
        for number, result in enumerate(self.results):
            if not isinstance(result, Tensor):
                continue
            mark = marks[number if len(marks) == len(self.results) else 0] if marks else None
            # If no result is marked, any result may be a view of a marked argument.
            allowed = {name for name, letter in aliased.items() if (letter == mark if any(marks) else True)}
            shared = self.shared(number)
            wrong = [name for name in shared if name.partition("[")[0] not in allowed]
            if wrong:
                yield f"result {number} shares memory with argument {wrong[0]}, unlike the schema: {self.schema.text}"
            elif mark is not None and not shared and result.numel():
                yield f"result {number} shares no memory with an argument, unlike the schema: {self.schema.text}"
            elif not shared:
                first = seen.setdefault(id(result.untyped_storage()), number)
                if first != number:
                    yield f"results {first} and {number} share memory"

    def shared(self, number: int) -> list[str]:
        """Return the names of the arguments that a result shares memory with."""
        result = self.results[number]
        return [name for name, storage in self._storages.items() if storage is result.untyped_storage()]


class Reference:
    """A call of the reference on copies of the arguments, with the same interface as `Run`."""

    def __init__(self, function: Callable[..., Any], pytorch: bool, schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.schema, self.is_torch = schema, pytorch
        convert = _to_torch if self.is_torch else _copy
        copies = [convert(value) for value in args]
        named = {name: convert(value) for name, value in kwargs.items()}
        names = [argument.name for argument in schema.arguments]
        self.arguments = dict(zip(names, copies, strict=False)) | named
        self.before = self.after()
        self._layouts = self.layouts()
        self._addresses = {name: _address(value) for name, value in self._arrays()} if self.is_torch else {}
        result = function(*copies, **named)
        self.results = list(result) if isinstance(result, (tuple, list)) else [] if result is None else [result]

    def _arrays(self) -> Iterator[tuple[str, Any]]:
        for name, value in self.arguments.items():
            if _is_array(value):
                yield name, value
            elif isinstance(value, (tuple, list)):
                yield from ((f"{name}[{i}]", item) for i, item in enumerate(value) if _is_array(item))

    def after(self) -> dict[str, np.ndarray]:
        return {name: _array(value).copy() for name, value in self._arrays()}

    def layouts(self) -> dict[str, tuple[Any, ...]]:
        """Return shape, strides and dtype of the tensor arguments after the call."""
        return {name: _layout(value) for name, value in self._arrays()}

    def _changes(self) -> Iterator[tuple[str, bool, bool]]:
        """Yield each tensor argument, whether the schema marks it as written, and whether the reference changed it."""
        mutated = {argument.name for argument in self.schema.arguments if argument.mutated}
        after, layouts = self.after(), self.layouts()
        for name, values in self.before.items():
            changed = values.tobytes() != after[name].tobytes() or self._layouts[name] != layouts[name]
            yield name, name.partition("[")[0] in mutated, changed

    def marked(self) -> Iterator[tuple[str, bool]]:
        """Yield each argument that the schema marks as written, and whether it changed."""
        return ((name.partition("[")[0], changed) for name, marked, changed in self._changes() if marked and self.before[name].size)

    def mutation(self) -> Iterator[str]:
        """Yield messages about arguments that the reference writes to but the schema does not mark."""
        for name, marked, changed in self._changes():
            if changed and not marked:
                yield f"the reference changes argument {name}, but the schema does not mark it as written: {self.schema.text}"

    def shared(self, number: int) -> list[str] | None:
        """Return the names of the arguments that a result shares memory with, or None if that is not meaningful."""
        result = self.results[number]
        if not self.is_torch or not _is_array(result) or not result.numel():
            return None  # a plain function returns new arrays
        return [name for name, address in self._addresses.items() if address and address == _address(result)]


def metadata(run: Run, expected: Run | Reference, whose: str, check_strides: bool) -> Iterable[str]:
    """Yield differences in number, type, shape, dtype, strides and memory sharing of the results."""
    got, due = run.results, expected.results
    if len(got) != len(due):
        yield f"the call returned {_count(len(got))}, but {whose} returned {len(due)}"
        return
    for number, (a, b) in enumerate(zip(got, due, strict=True)):
        if not isinstance(a, Tensor) or not _is_array(b):
            if isinstance(a, Tensor) != (_is_array(b) or isinstance(b, (bool, int, float, complex))):
                yield f"result {number} is a {type(a).__name__}, but {whose} returned a {type(b).__name__}"
            elif isinstance(a, Tensor) and a.dim():
                yield f"result {number} has shape {tuple(a.shape)}, but {whose} returned a number"
            continue
        name = str(b.dtype).rpartition(".")[2]
        if tuple(a.shape) != tuple(b.shape):
            yield f"result {number} has shape {tuple(a.shape)}, but {whose} returned shape {tuple(b.shape)}"
        elif a.dtype.name != name:
            yield f"result {number} has dtype {a.dtype.name}, but {whose} returned dtype {name}"
        elif check_strides and _used(a.shape, a.stride()) not in (possible := _strides(b)) and (run.is_plain or hasattr(b, "stride")):
            yield f"result {number} has strides {tuple(a.stride())}, but {whose} returned strides {possible[0]}"
        elif isinstance(expected, Reference) and (theirs := expected.shared(number)) is not None and theirs != run.shared(number):
            mine = run.shared(number)
            yield (f"result {number} shares memory with {', '.join(mine) or 'no argument'}, but the result of "
                   f"{whose} shares memory with {', '.join(theirs) or 'none'}")  # fmt: skip
    if isinstance(expected, Reference):
        yield from _written_layouts(run, expected, check_strides)


def _written_layouts(run: Run, expected: Reference, check_strides: bool) -> Iterator[str]:
    """Yield arguments whose shape, dtype or strides after the call differ from the reference's."""
    theirs = expected.layouts()
    for name, layout in run.layouts().items():
        if name in theirs:
            due = theirs[name]
            if (layout[0], layout[2]) != (due[0], due[2]) or (check_strides and layout[1] != due[1]):
                yield f"argument {name} has {_say(layout)} after the call, but {_say(due)} after a call of the reference"


def value_differences(run: Run, expected: Run | Reference) -> Iterable[str]:
    """Yield differences in the values of results and of written arguments."""
    for number, (a, b) in enumerate(zip(run.results, expected.results, strict=False)):
        if isinstance(a, Tensor) and (_is_array(b) or isinstance(b, (bool, int, float, complex))):
            problem = difference(to_values(a), _array(b), a.dtype.name)
        elif isinstance(a, Tensor) or _is_array(b):
            continue  # reported by `metadata`
        else:
            problem = "" if a == b or a is b else f"{a!r} instead of {b!r}"
        if problem:
            yield f"result {number}: {problem}"
    changed = expected.after()
    for name, values in run.after().items():
        if name in changed:
            problem = difference(values, changed[name], values.dtype.name)
            if problem:
                yield f"argument {name} after the call: {problem}"


def repeated(second: Run, first: Run) -> Iterable[str]:
    """Yield the results that are not bitwise equal in two runs of the same call."""
    for number, (a, b) in enumerate(zip(second.results, first.results, strict=False)):
        if isinstance(a, Tensor) and isinstance(b, Tensor) and to_values(a).tobytes() != to_values(b).tobytes():
            yield f"result {number} differs"


def strided(value: Any) -> Any:
    """Return a copy of a tensor or list of tensors in transposed memory that has gaps."""

    def with_gaps(t: Tensor) -> Tensor:
        if t.dtype.name not in FORMATS:
            return t
        return place(t.device.type, tuple(t.shape), t.dtype.name, bytes(backend_for(t.device).to_host(t)), strided=True)

    return map_tensors(with_gaps, value)


# Tensors of metatensor and of the reference ------------------------------------------------


def _tensors(arguments: dict[str, Any]) -> Iterable[tuple[str, Tensor]]:
    for name, value in arguments.items():
        if isinstance(value, Tensor):
            yield name, value
        elif isinstance(value, (tuple, list)):
            yield from ((f"{name}[{i}]", item) for i, item in enumerate(value) if isinstance(item, Tensor))


def _named(arguments: dict[str, Any], name: str) -> Tensor:
    return dict(_tensors(arguments))[name]


def _snapshot(arguments: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: to_values(value).copy() for name, value in _tensors(arguments)}


def move(value: Any, device: str) -> Any:
    """Return a copy of a tensor or list of tensors on ``device``, with the same strides."""
    return map_tensors(lambda tensor: _moved(tensor, device), value)


def _moved(tensor: Tensor, device: str) -> Tensor:
    reach = sum((extent - 1) * step for extent, step in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    nbytes = reach * tensor.itemsize if tensor.numel() else 0
    data = None if device == "meta" else backend_for(device).allocate(nbytes, 0)
    moved = tensor_from_storage(make_storage(device, nbytes, data), tensor.dtype, tensor.shape, tensor.stride(), 0)
    if device != "meta":
        backend_for(device).from_host(moved, bytes(backend_for(tensor.device).to_host(tensor)))
    return moved


def _copy(value: Any) -> Any:
    return map_tensors(lambda tensor: _moved(tensor, tensor.device.type), value)


def is_pytorch(function: Any) -> bool:
    """Return True for PyTorch's functions. Most built-in ones have no ``__module__``."""
    if str(getattr(function, "__module__", "")).partition(".")[0] == "torch":
        return True
    return type(function).__module__.partition(".")[0] == "torch" or "torch" in repr(getattr(function, "__self__", ""))[:40]


def _to_torch(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(_to_torch(item) for item in value)
    if isinstance(value, Tensor):
        import torch

        return torch.from_dlpack(_copy(value))
    if isinstance(value, Device):
        return str(value)
    if type(value).__module__.startswith("metatensor."):
        import torch

        return getattr(torch, str(value).rpartition(".")[2])
    return value


def _address(value: Any) -> int:
    """Return the address of the memory of a PyTorch tensor."""
    return value.untyped_storage().data_ptr()


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _array(value: Any) -> np.ndarray:
    if isinstance(value, Tensor):
        return to_values(value).copy()
    if type(value).__module__.partition(".")[0] == "torch":
        from metatensor.interchange.dlpack import from_dlpack

        return to_values(from_dlpack(value.detach().resolve_conj().resolve_neg()))
    return np.asarray(value)


def _layout(value: Any) -> tuple[Any, ...]:
    """Return the shape, the strides that matter (see `_used`), and the dtype."""
    return tuple(value.shape), _strides(value)[0], str(value.dtype).rpartition(".")[2]


def _say(layout: tuple[Any, ...]) -> str:
    return f"shape {layout[0]}, strides {layout[1]} and dtype {layout[2]}"


def _strides(value: Any) -> list[tuple[int, ...]]:
    """Return the strides, in elements, that a result may have: its own and, for NumPy arrays, contiguous ones."""
    if callable(getattr(value, "stride", None)):
        return [_used(value.shape, value.stride())]
    contiguous: list[int] = []
    step = 1
    for extent in reversed(value.shape):
        contiguous.insert(0, step)
        step *= extent
    own = [step // max(value.itemsize, 1) for step in value.strides]
    return [_used(value.shape, own), _used(value.shape, contiguous)]


def _used(shape: Any, strides: Any) -> tuple[int, ...]:
    """Return the strides of dimensions whose size is not 1, or () for an empty tensor."""
    return tuple(step for extent, step in zip(shape, strides, strict=True) if extent != 1) if 0 not in shape else ()


def _letter(kind: str) -> str | None:
    """Return the letter of an alias mark: "a" for ``Tensor(a!)``."""
    match = re.search(r"\(([a-z])!?\)", kind)
    return match and match[1]


def _count(number: int) -> str:
    return f"{number} result{'' if number == 1 else 's'}"
