"""`functionalize`: writes become new values."""

from __future__ import annotations

from typing import Any

from metatensor._core.capture import ProgramCall, Value
from metatensor._core.op import operator_flags, registry
from metatensor.program.passes.rewriting import Rewriter, same_layout, used, written
from metatensor.program.program import Program
from metatensor.program.structure import leaves, mapped

__all__ = ["functionalize"]


def functionalize(program: Program, *, early: bool = False) -> Program:
    """Return the program without writes: in-place and ``out=`` calls compute new values, and views are recomputed from them.

    Writes to arguments, parameters, buffers and constants become calls of ``copy_`` at the end of the program, and assignments to their
    ``.data`` come after these.
    Operators that only exist in place, such as ``normal_``, write to a new copy. Values that were
    overwritten now have their own memory, so the peak memory can grow.

    Parameters
    ----------
    program : Program
        A program.
    early : bool
        Whether to copy new contents to an argument, parameter, buffer or constant after the last call that writes to it, which
        takes less memory than at the end. Default False.

    Returns
    -------
    Program
        A program in which only these copies, and operators without a functional form, write.

    Raises
    ------
    ValueError
        If a call has no functional form: it changes the size of memory that is in use, writes through a view of another
        dtype or a conjugate view, or records gradients for a tensor that was written to without gradients.

    Examples
    --------
    >>> import metatensor as mt
    >>> def fn(x):
    ...     y = x.exp()
    ...     y[0] = 1
    ...     return y.add_(x)
    >>> program = mt.program.functionalize(mt.program.trace(fn, mt.empty(3, device="meta")))
    >>> any(call.writes for call in program.calls)
    False
    """
    return _Functional(program).run(early) if written(program) else program


class _Functional:
    """Tracks, for each storage that is written to, a value with its current contents and the layout of its first value."""

    def __init__(self, program: Program) -> None:
        self.program, self.made = program, Rewriter(program)
        self.changed = written(program)
        self.base: dict[int, Value] = {}
        self.whole: dict[int, Value] = {}
        self.version: dict[int, int] = {}
        self.valid: dict[int, int] = {}
        self.views: dict[int, tuple[Any, Any, dict[str, Any], Any]] = {}
        self.last: dict[int, ProgramCall] = {}
        self.moved: dict[int, tuple[Value, Value]] = {}  # outer tensors that got other memory: by the value after it, before and after
        self.trains = any(call.backward for call in program.calls)
        self.graded: set[int] = set()   # storages with values that require grad, so far
        self.alone: set[int] = set()    # values without gradients: detach(), .data, and views of these
        self.cut: set[int] = set()      # graded storages that were written to without gradients
        self.ungraded: dict[int, Value] = {}  # the contents of storages before they were written to without gradients
        self.call = program.calls[0]

    def run(self, early: bool) -> Program:
        given = [*self.program.inputs, *self.program.held.values()]
        for value in given:
            self.begin(value, value)
        self.graded |= {value.storage for value in given if value.requires_grad}
        outer = {value.storage: value for value in given if value.storage in self.changed}
        last = {value.storage: i for i, call in enumerate(self.program.calls) for value in call.writes} if early else {}
        reads: list[Any] = []
        for i, call in enumerate(self.program.calls):
            self.made.at(i)
            self.call = call
            reads += [(len(self.made.calls), op, self.present(value)) for at, op, value in self.program.reads if at == i]
            own = self.changes_argument(call)
            for value in (*used(call), *call.writes):
                if value.storage in self.cut and not own and value.requires_grad and call.grad and not self.trains:
                    self.fail("its memory was written to without gradients, and gradients are recorded here")
                self.present(value)
            if call.writes:
                self.write_call(call)
            elif own:
                given = [*map(self.present, call.args[1]), *self.ungraded_contents(call.args[0])]
                self.made.replace(call.result, self.emit(call.op.name, self.present(call.args[0]), given, call.args[2]))
            else:
                self.made.keep(call)
            self.note(call)
            if call.op.name == "_without_backward" and call.args[0].storage in self.changed:
                self.custom(call, own)
            for storage in {value.storage for value in call.writes} & outer.keys():
                if last.get(storage) == i:
                    self.copy_back(outer.pop(storage))
        for value in outer.values():
            self.copy_back(value)
        for before, after in self.moved.values():
            self.made.emit(registry["_set_data"], (before, self.present(after)), {}, like=self.call, writes=(before,))
        for value in [*given, *self.program.outputs, *(effect.value for effect in self.program.effects)]:
            self.present(value)
        return self.made.finish(reads=reads)

    def note(self, call: ProgramCall) -> None:
        """Note the values that a call returned: views, and the first values of storages."""
        given = {value.storage for value in used(call)}
        numbers = {value.number for value in used(call)}
        if self.changed & given:
            alone = call.op.flags & operator_flags.VIEW and call.op.flags & operator_flags.NO_GRAD or self.alone & numbers
            self.alone |= {v.number for v in leaves(Value, call.result) if alone and v.storage in given and v.number not in numbers}
        self.graded |= {value.storage for value in leaves(Value, call.result) if value.requires_grad}
        for value in leaves(Value, call.result):
            if value.storage not in self.changed or value.number in numbers:
                continue
            if value.storage in given and not call.writes:
                self.views[value.number] = call.op, call.args, call.kwargs, call.result
                self.valid[value.number] = self.version[value.storage]
            elif value.storage not in given:
                self.begin(value, self.made.value(value))

    def begin(self, value: Value, now: Value) -> None:
        """Note the first value of a storage."""
        if value.storage not in self.changed:
            return
        if value.storage in self.base:
            if not (same_layout(self.base[value.storage], value) and self.base[value.storage].offset == value.offset):
                self.fail("arguments, parameters or results share memory with different layouts")
            return
        self.base[value.storage], self.whole[value.storage] = value, now
        self.version[value.storage] = self.valid[value.number] = 0

    def fail(self, why: str) -> None:
        raise ValueError(f"functionalize: {self.call.op.name} in {self.program.name} has no functional form: {why}")

    def emit(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return self.made.emit(registry[name], args, kwargs, like=self.call)

    # Reading --------------------------------------------------------------------------------------------

    def is_base(self, value: Value) -> bool:
        base = self.base[value.storage]
        return same_layout(base, value) and base.offset == value.offset

    def present(self, value: Value) -> Value:
        """Return the new value for a value. It is recomputed if its memory was written to."""
        if value.storage not in self.changed or self.valid.get(value.number) == self.version[value.storage]:
            return self.made.value(value)
        found = self.whole[value.storage] if self.is_base(value) else self.viewed(value)
        self.made.same[value.number] = found
        self.valid[value.number] = self.version[value.storage]
        return found

    def viewed(self, value: Value) -> Value:
        self.check(value)
        op, args, kwargs, results = self.views.get(value.number, (None, (), {}, None))
        parents = list(leaves(Value, (args, kwargs)))
        if op is not None and all(same_layout(self.present(parent), parent) for parent in parents):
            again = self.made.emit(op, *mapped(self.present, Value, (args, kwargs)), like=self.call)
            for one, other in zip(leaves(Value, results), leaves(Value, again), strict=True):
                self.made.same[one.number] = other
                self.valid[one.number] = self.version[one.storage]
            return self.made.value(value)
        return self.strided("as_strided", self.whole[value.storage], value)  # type: ignore[no-any-return]

    def check(self, value: Value) -> None:
        base = self.base[value.storage]
        if value.dtype is not base.dtype or (value.conj, value.neg) != (base.conj, base.neg):
            self.fail("its memory is used through a view of another dtype, or a conjugate view")

    def strided(self, name: str, whole: Value, value: Value, *source: Value) -> Any:
        offset = value.offset - self.base[value.storage].offset + whole.offset
        return self.emit(name, whole, *source, value.shape, value.stride, offset)

    # Writing --------------------------------------------------------------------------------------------

    def write(self, value: Value, content: Value) -> None:
        """Overwrite the elements of a value."""
        if value.storage in self.graded and (not self.call.grad or value.number in self.alone):
            self.cut.add(value.storage)
        if content.dtype is not value.dtype:
            content = self.emit("_to_copy", content, value.dtype)
        if content.shape != value.shape:
            self.fail(f"it writes {list(content.shape)} to {list(value.shape)}")
        whole = self.whole[value.storage]
        if not self.call.grad:
            self.ungraded.setdefault(value.storage, whole)
        self.check(value)
        op, args, kwargs, _ = self.views.get(value.number, (None, (), {}, None))
        if not self.is_base(value) and op is not None and not kwargs and isinstance(args[0], Value):
            back = self.back(op.name, args, content)
            if back is not None:
                return self.write(args[0], back)
        if not self.is_base(value) or not same_layout(content, value):
            content = self.strided("as_strided_scatter", whole, value, content)
            if not same_layout(content, self.base[value.storage]):
                self.fail("its memory has gaps")
        self.whole[value.storage] = content
        self.version[value.storage] += 1
        self.last[value.storage] = self.call
        return None

    def back(self, view: str, args: Any, content: Value) -> Value | None:
        """Return the base's contents after those of a view have changed. None if no operator computes them."""
        parent, rest = args[0], args[1:]
        found: Any = None
        if view in ("select", "slice", "diagonal"):
            found = self.emit(f"{view}_scatter", self.present(parent), content, *rest)
        elif view in ("t", "transpose"):
            found = self.emit(view, content, *rest)
        elif view == "permute" and len(rest) == 1:
            dims = [d % len(parent.shape) for d in rest[0]]
            found = self.emit(view, content, tuple([dims.index(d) for d in range(len(dims))]))
        elif view in ("view", "unsqueeze", "squeeze", "flatten", "unflatten") and content.dtype is parent.dtype:
            found = self.emit("reshape", content, parent.shape)
        elif view in ("detach", "_data", "_without_backward"):
            found = content
        return found  # type: ignore[no-any-return]

    def write_call(self, call: ProgramCall) -> None:
        op, (args, kwargs) = call.op, self.made.mapped((call.args, call.kwargs))
        if op.variant == 1 and op.flags & operator_flags.VIEW:
            result = self.made.emit(op.functional, args, kwargs, like=call)
            self.made.replace(call.result, result)
            self.views[call.result.number] = op.functional, call.args, call.kwargs, call.result
            self.valid[call.result.number] = self.version[call.result.storage]
        elif op.flags & operator_flags.HOST:
            self.host(call)
        elif "out" in kwargs:
            self.out(call, args, {key: value for key, value in kwargs.items() if key != "out"})
        elif op.name == "copy_":
            target, source = call.args[0], args[1]
            if source.shape != target.shape:
                source = self.emit("expand", source, target.shape)
            if source.dtype is target.dtype and source.device == target.device:
                source = self.emit("clone", source)
            else:
                source = self.emit("_to_copy", source, target.dtype, device=target.device)
            self.write(target, source)
        elif op.variant == 1:
            self.write(call.writes[0], self.made.emit(op.functional, args, kwargs, like=call))
        elif op.flags & operator_flags.INPLACE_ARG and len(call.writes) == 1:
            args, kwargs = self.not_in_place(call, args, kwargs)
            self.write(call.writes[0], self.made.emit(op, args, kwargs, like=call))
        else:
            self.on_copies(call)

    def not_in_place(self, call: ProgramCall, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        place = call.op.overloads[0].argument_names.index("inplace")
        if "inplace" in kwargs:
            return args, {key: value for key, value in kwargs.items() if key != "inplace"}
        return (*args[:place], False, *args[place + 1 :]), kwargs

    def changes_argument(self, call: ProgramCall) -> bool:
        """Return whether a call stands for a custom function that has changed its argument in place."""
        return call.op.name == "_without_backward" and any(v.number == call.args[0].number for v in call.args[1])

    def ungraded_contents(self, value: Value) -> list[Value]:
        """Return the contents of a value's memory before the function wrote to it without gradients."""
        return [self.ungraded.pop(value.storage)] if value.storage in self.ungraded else []

    def custom(self, call: ProgramCall, own: bool) -> None:
        """Handle the result of a custom function: the contents of its memory depend on the arguments through the function alone."""
        (value, inputs, _), result = call.args, call.result
        if not own and value.storage in {v.storage for v in inputs}:
            return  # a view of an argument, which keeps its own gradient
        content = self.made.value(result)
        self.cut.discard(value.storage)
        self.write(value, content)
        self.made.same[result.number] = content
        self.valid[result.number] = self.version[result.storage]
        self.views[result.number] = self.views.get(value.number, (None, (), {}, None))

    def out(self, call: ProgramCall, args: Any, kwargs: dict[str, Any]) -> None:
        targets = list(leaves(Value, call.kwargs["out"]))
        after = list(leaves(Value, call.result))
        made = list(leaves(Value, self.made.emit(call.op, args, kwargs, like=call)))
        for target, content, result in zip(targets, made, after, strict=True):
            if result.shape != target.shape:
                self.resized(target, result, content)
            else:
                self.write(target, content)

    def resized(self, target: Value, result: Value, content: Value) -> None:
        """Replace a tensor's contents by contents of another size."""
        if target.number in {v.number for v in self.program.inputs} | {v.number for v in self.program.held.values()}:
            self.fail("it changes the size of an argument, a parameter or a buffer")
        if content.dtype is not result.dtype:
            content = self.emit("_to_copy", content, result.dtype)
        if not same_layout(content, result):
            self.fail(f"it changes the size of memory to {list(result.shape)}")
        self.base[result.storage], self.whole[result.storage] = result, content
        self.version[result.storage] += 1
        self.valid[result.number] = self.version[result.storage]
        self.made.same[result.number] = content

    def host(self, call: ProgramCall) -> None:
        """Handle a call that gives a tensor another layout or other memory."""
        result, target = call.result, call.writes[0]
        if call.op.name == "resize_" and isinstance(result, Value) and 0 in target.shape:
            like = self.made.mapped(call.args)[0]
            self.resized(target, result, self.emit("new_empty", like, result.shape))
        elif call.op.name in ("set_", "_set_data") and isinstance(result, Value) and [type(a) for a in call.args] == [Value, Value]:
            source = call.args[1]
            if not (same_layout(source, result) and source.offset == result.offset):
                self.fail("it takes other memory with another layout")
            self.made.same[result.number] = self.present(source)
            if result.requires_grad:
                self.cut.add(result.storage)
            self.valid[result.number] = self.version[result.storage]
            before, _ = self.moved.pop(target.number, (target, None))
            if before.number in {v.number for v in [*self.program.inputs, *self.program.held.values()]}:
                self.moved[result.number] = before, result
        else:
            self.fail("it changes a tensor in a way that no value shows")

    def on_copies(self, call: ProgramCall) -> None:
        """Make an operator that only exists in place write to copies."""
        copies = {}
        for value in call.writes:
            copies[value.number] = self.emit("clone", self.present(value))
        args, kwargs = mapped(lambda v: copies.get(v.number) or self.made.value(v), Value, (call.args, call.kwargs))
        result = self.made.emit(call.op, args, kwargs, like=call, writes=tuple(copies.values()))
        own = {value.number for value in call.writes}
        for one, other in zip(leaves(Value, call.result), leaves(Value, result), strict=True):
            if one.number not in own:
                self.made.same[one.number] = other
        for value in call.writes:
            self.write(value, copies[value.number])

    def copy_back(self, value: Value) -> None:
        """Copy the contents to the original memory. From then on, values in this memory are views of it again."""
        storage = value.storage
        if self.version[storage]:
            self.call = self.last[storage]
            now = self.present(value)
            self.made.emit(registry["copy_"], (value, now), {}, like=self.call, writes=(value,))
            self.whole[storage] = value
            self.version[storage] += 1
