"""Programs: what a callable does, as a list of operator calls.

`trace` runs a callable once and returns a `Program`, which runs without the callable, on any device, with other
parameters, and can be printed, saved, compared and transformed. `fx` has the interface of ``torch.fx``.
"""

from metatensor.program.comparing import diff, equal
from metatensor.program.passes import common_subexpressions, dead_code, functionalize, views_and_copies
from metatensor.program.program import Program
from metatensor.program.saving import load
from metatensor.program.tickets import Tickets
from metatensor.program.tracing import trace

__all__ = ["Program", "Tickets", "common_subexpressions", "dead_code", "diff", "equal", "functionalize", "load", "trace", "views_and_copies"]
