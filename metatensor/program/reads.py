"""Numbers that a trace read from tensors. Its branches and sizes may depend on them."""

from __future__ import annotations

from metatensor._core.capture import Value
from metatensor.program.program import Program
from metatensor.program.structure import leaves

__all__ = ["Read", "dependent_reads", "describe"]

Read = tuple[int, str, Value]


def dependent_reads(program: Program) -> list[Read]:
    """Return the reads of tensors that depend on arguments, parameters or buffers: another run may read other numbers.

    Each read is the index of the next call, the name of the operator that reads, and the value. Reads of constants, and of
    tensors made of constants alone, are left out.
    """
    if not program.reads:
        return []
    touched = {value.storage for value in program.inputs}
    touched |= {value.storage for name, value in program.held.items() if program.kinds[name] != "constant"}
    found, reads = [], sorted(program.reads, key=lambda read: read[0])
    for i in range(len(program.calls) + 1):
        while reads and reads[0][0] == i:
            read = reads.pop(0)
            if read[2].storage in touched:
                found.append(read)
        if i < len(program.calls):
            call = program.calls[i]
            if any(value.storage in touched for value in leaves(Value, (call.args, call.kwargs))):
                touched |= {value.storage for value in (*leaves(Value, call.result), *call.writes)}
    return found


def describe(program: Program, read: Read) -> str:
    """Return what was read and by which operator it was made, for messages."""
    at, op, value = read
    made = None
    for call in program.calls[:at]:
        if any(one.storage == value.storage for one in leaves(Value, call.result)):
            made = call
    source = "an argument, parameter or buffer" if made is None else f"the result of {made.op.name}"
    where = "" if made is None or made.place is None else f", at {made.place[0]}:{made.place[1]}"
    return f"{op} of {source} ({value.dtype.name}[{', '.join(map(str, value.shape))}]){where}"
