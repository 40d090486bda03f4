"""Functions of layers without their state: ``nn.functional.linear(x, weight, bias)`` and the like.

They are operators, declared in `metatensor.ops` under "nn.functional.*", not Python functions around operators; this
module only gives them a place. One that is declared later (a plugin's) is found when first asked for.
"""

from typing import Any

from metatensor._core.op import namespace as _namespace
from metatensor._core.op import op_by_name as _op_by_name

globals().update(_namespace("nn.functional"))


def __getattr__(name: str) -> Any:
    try:
        op = _op_by_name(f"nn.functional.{name}")
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    globals()[name] = op
    return op


def __dir__() -> list[str]:
    return sorted({*globals(), *_namespace("nn.functional")})
