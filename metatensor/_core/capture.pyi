"""Capture: a mode that lists the calls of a thread with the metadata of every value."""

from typing import Any

from metatensor._core.device import Device
from collections.abc import Iterable

from metatensor._core.dtype import DType
from metatensor._core.memory import MemoryLog
from metatensor._core.modes import Mode
from metatensor._core.op import Op
from metatensor._core.random import Generator
from metatensor._core.storage import Storage
from metatensor._core.tensor import Tensor

class Value:
    """What a tensor is in a program: sizes, strides, offset, dtype, device, and which storage it shares."""

    number: int
    storage: int
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: DType
    device: Device
    requires_grad: bool
    def __init__(
        self, number: int, storage: int, offset: int, shape: Any, stride: Any, dtype: DType, device: Device,
        conj: bool = False, neg: bool = False, requires_grad: bool = False,
    ) -> None: ...
    @property
    def conj(self) -> bool: ...
    @property
    def neg(self) -> bool: ...

class ProgramCall:
    """One call of an operator. Where an argument is a tensor, `args` and `kwargs` have its `Value`."""

    op: Op
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    writes: tuple[Value, ...]
    grad: bool
    backward: bool
    module: int
    first: int
    last: int
    def __init__(
        self, op: Op, args: Any, kwargs: dict[str, Any], result: Any, writes: Any = (), grad: bool = True, backward: bool = False,
        module: int = 0, first: int = 0, last: int = 0,
    ) -> None: ...
    def replace(self, **changes: Any) -> ProgramCall: ...
    @property
    def place(self) -> tuple[str, int] | None: ...

class Ticket:
    """The ticket of a random operator, relative to the state of its generator when the capture began."""

    generator: Generator | None
    number: int
    def __init__(self, generator: Generator | None, number: int) -> None: ...

class Capture(Mode):
    """A mode that lists the calls of its thread. It must be entered inside a `MemoryTracker`, which numbers the storages."""

    calls: list[ProgramCall]
    leaves: list[tuple[Value, Tensor]]
    reads: list[tuple[int, str, Value]]
    default_dtype: DType
    module: int
    def __init__(self) -> None: ...
    def check_generators(self) -> None: ...
    def drop_unused_copies(self, outputs: Iterable[Value]) -> None: ...
    def input(self, t: Tensor) -> Value: ...
    def value(self, t: Tensor) -> Value: ...
    def releases(self, log: MemoryLog) -> dict[int, tuple[int, ...]]: ...
    def known(self, t: Tensor) -> Value | None: ...

def note_copy(t: Tensor, copy: Tensor) -> None:
    """Note a copy of what the call that is being handled will overwrite, for its gradient."""

def note_read(t: Tensor, name: str) -> None:
    """Note that the values of a tensor leave the library by other means than operators. `name` says by which."""

def note_storage_read(s: Storage, name: str) -> None:
    """Note that the bytes of a storage leave the library."""

def note_seed(g: Generator, by_chance: bool) -> None:
    """Note that the state of a generator is about to be set, and whether to random bytes."""

def raise_after_call(ends: BaseException) -> None:
    """Raise an exception, but if a call is being traced, after it has returned and been recorded."""

def is_traced() -> bool:
    """Return whether a trace records the calls of this thread now."""

def refuse_in_trace(what: str) -> None:
    """Raise RuntimeError if a trace would miss what is about to happen."""
