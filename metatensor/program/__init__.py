"""Programs: what a callable does, as a list of operator calls.

`trace` runs a callable once and returns a `Program`, which runs without the callable, on any device, with other
parameters, and can be printed, saved, compared and transformed. `fx` has the interface of ``torch.fx``.
"""

from metatensor.program.program import Program
from metatensor.program.saving import load
from metatensor.program.tickets import Tickets
from metatensor.program.tracing import trace

__all__ = ["Program", "Tickets", "load", "trace"]
