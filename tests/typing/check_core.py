"""Typical user code that mypy must accept. ``tests/test_stubs.py`` type-checks it; it is never run."""

from typing import Any

from typing_extensions import assert_type

import metatensor as mt
from metatensor import nn
from metatensor.nn import functional as F

# Factories, attributes and methods.
x = mt.empty(2, 3, device="meta", dtype=mt.float32)
y = mt.zeros((2, 3), device=mt.device("meta"))
assert_type(x, mt.Tensor)
assert_type(x.shape, mt.Size)
assert_type(x.shape[0], int)
assert_type(x.size(), mt.Size)
assert_type(x.size(0), int)
assert_type(x.stride(), tuple[int, ...])
assert_type(x.dtype, mt.dtype)
assert_type(x.device, mt.device)
assert_type(x.requires_grad, bool)
assert_type(x.numel(), int)
assert_type(mt.float32.itemsize, int)

# Operators and functions.
assert_type(x + y, mt.Tensor)
assert_type(2 * x, mt.Tensor)
assert_type(x @ y.T, mt.Tensor)
assert_type(x < 1, mt.Tensor)
assert_type(x[0, :, None], mt.Tensor)
assert_type(mt.add(x, y, alpha=2), mt.Tensor)
assert_type(x.view(3, 2), mt.Tensor)
assert_type(x.view((3, 2)), mt.Tensor)
assert_type(x.permute(1, 0), mt.Tensor)
assert_type(mt.cat([x, y], dim=1), mt.Tensor)
assert_type(x.add_(1), mt.Tensor)
assert_type(mt.add(x, y, out=x), mt.Tensor)
assert_type(F.relu(x), mt.Tensor)
assert_type(F.linear(x, y), mt.Tensor)
assert_type(F.softmax(x, dim=-1), mt.Tensor)

# Functions with several named results.
assert_type(x.max(dim=1).values, mt.Tensor)
assert_type(mt.max(x), mt.Tensor)
values, indices = mt.max(x, 1)
assert_type(values, mt.Tensor)

x[0] = 1.0
x += 1
for row in x:
    assert_type(row, mt.Tensor)


class Model(nn.Module):
    """A typical module."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.scale = nn.Parameter(mt.ones(width))

    def forward(self, x: mt.Tensor) -> mt.Tensor:
        y: mt.Tensor = self.linear(x)
        return F.gelu(self.norm(y)) * self.scale


with mt.device("meta"), mt.no_grad():
    model = Model(8).eval()
    result: Any = model(mt.empty(1, 8))

total: int = sum(p.numel() for p in model.parameters())
generator = mt.manual_seed(0)
assert_type(mt.rand(2, generator=generator), mt.Tensor)
assert_type(mt.promote_types(mt.int8, mt.float16), mt.dtype)


class Trace(mt.DispatchMode):
    """A typical mode."""

    def dispatch(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        print(op.name)
        return op(*args, **kwargs)
