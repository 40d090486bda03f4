"""Mistakes that mypy must report. Each marked line has exactly one; unused marks are errors too."""

import metatensor as mt
from metatensor.nn import functional as F

x = mt.empty(2, 3, device="meta")
mt.empty(2, 3, dtype="float32")  # type: ignore[call-overload]
x.add("1")  # type: ignore[arg-type]
x.ndim = 3  # type: ignore[misc]
mt.no_such_function(x)  # type: ignore[attr-defined]
F.relu()  # type: ignore[call-arg]
x.view(1.5)  # type: ignore[call-overload]
mt.float32.itemsize = 2  # type: ignore[misc]
