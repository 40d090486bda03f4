"""Time operators on the cpu device and compare with the same computation in plain NumPy, in one run.

    python -m benchmarks.cpu                          # sizes 1 to 10**7; about ten minutes
    python -m benchmarks.cpu --ops add,softmax --sizes 1,1000000
    python -m benchmarks.cpu --json out.json --check

Each row of the table has an op, the call on metatensor and the code for NumPy. Up to `SMALL` elements the figure is the
time of a call minus NumPy's, which must be at most 1.5 microseconds. From `LARGE` elements on it is the time of a call
divided by NumPy's, which must be at most 1.1. Both libraries use as many threads as NumPy's BLAS.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .harness import interleaved

SIZES = tuple(10**n for n in range(8))
SMALL, LARGE = 1000, 10**6
MICROSECONDS, RATIO = 1.5, 1.1

# op | code for metatensor (m: the library, F: nn.functional, t: inputs) | code for NumPy (t: the same inputs as arrays)
TABLE = """
add | m.add(t.x, t.y) | np.add(t.x, t.y)
mul | m.mul(t.x, t.y) | np.multiply(t.x, t.y)
mul number | t.x * 2.0 | t.x * 2.0
add half | m.add(t.h, t.h) | np.add(t.h.astype("f4"), t.h.astype("f4")).astype("f2")
add_ | t.z.add_(t.y) | np.add(t.z, t.y, out=t.z)
add out | m.add(t.x, t.y, out=t.z) | np.add(t.x, t.y, out=t.z)
exp | m.exp(t.x) | np.exp(t.x)
sum | m.sum(t.x) | np.sum(t.x)
sum rows | m.sum(t.rows, 1) | np.sum(t.rows, 1)
mean | m.mean(t.x) | np.mean(t.x)
max | m.max(t.x) | np.max(t.x)
matmul | m.matmul(t.rows, t.wide) | np.matmul(t.rows, t.wide)
linear | F.linear(t.rows, t.square, t.bias) | np.matmul(t.rows, t.square.T) + t.bias
softmax | m.softmax(t.rows, 1) | np_softmax(t.rows)
layer_norm | F.layer_norm(t.rows, t.rows.shape[1:], t.row, t.row) | np_layer_norm(t.rows, t.row, t.row)
gelu | F.gelu(t.x) | np_gelu(t.x)
relu | m.relu(t.x) | np.maximum(t.x, np.float32(0))
cat | m.cat((t.rows, t.rows)) | np.concatenate((t.rows, t.rows))
index_select | m.index_select(t.rows, 0, t.order) | np.take(t.rows, t.order, axis=0)
where | m.where(t.mask, t.x, t.y) | np.where(t.mask, t.x, t.y)
gt | m.gt(t.x, t.y) | np.greater(t.x, t.y)
clone | m.clone(t.x) | t.x.copy()
full | m.full((t.n,), 1.5) | np.full(t.n, 1.5, "f4")
to double | t.x.to(m.float64) | t.x.astype("f8")
transpose | t.rows.T.contiguous() | np.ascontiguousarray(t.rows.T)
conv2d | F.conv2d(t.image, t.kernel, padding=1) | np_conv2d(t.image, t.kernel)
sdpa | F.scaled_dot_product_attention(t.heads, t.heads, t.heads) | np_attention(t.heads, t.heads, t.heads)
embedding | F.embedding(t.tokens, t.table) | np.take(t.table, t.tokens, axis=0)
cumsum | m.cumsum(t.x, 0) | np.cumsum(t.x)
sort | m.sort(t.x) | np_sort(t.x)
normal_ | t.z.normal_() | np_normal(t.n)
uniform_ | t.z.uniform_() | np_uniform(t.n)
"""


class Inputs:
    """The inputs with ``n`` elements, as arrays or as tensors with the same values in separate memory."""

    def __init__(self, n: int) -> None:
        draw = np.random.default_rng(0)
        columns = 10 ** math.ceil(math.log10(n) / 2)
        side = max(1, round(math.sqrt(n / 8)))
        length = max(1, min(256, n // 128))
        single = np.float32
        self.n = n
        self.x, self.y, self.z = (draw.standard_normal(n, single) for _ in range(3))
        self.h = self.x.astype("f2")
        self.mask = self.x > 0
        self.rows = draw.standard_normal((n // columns, columns), single)
        self.wide = draw.standard_normal((columns, min(columns, 64)), single)
        self.square = draw.standard_normal((min(columns, 256), columns), single)
        self.bias = draw.standard_normal(min(columns, 256), single)
        self.row = draw.standard_normal(columns, single)
        self.order = draw.permutation(n // columns)
        self.image = draw.standard_normal((1, 8, side, side), single)
        self.kernel = draw.standard_normal((8, 8, 3, 3), single)
        self.heads = draw.standard_normal((max(1, n // (32 * length)), length, 32), single)
        self.tokens = draw.integers(0, 1000, max(1, n // 64))
        self.table = draw.standard_normal((1000, 64), single)

    def of(self, library: Any) -> Inputs:
        """Return the inputs as tensors of a library. They are copied, because memory alignment affects the times."""
        made = object.__new__(Inputs)
        for name, value in vars(self).items():
            setattr(made, name, library.from_numpy(value).clone() if isinstance(value, np.ndarray) else value)
        return made


# NumPy code ---------------------------------------------------------------------------------------


def np_softmax(x: np.ndarray) -> np.ndarray:
    e = x - x.max(-1, keepdims=True)
    np.exp(e, out=e)
    e /= e.sum(-1, keepdims=True)
    return e


def np_layer_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    y = x - x.mean(-1, keepdims=True)
    y /= np.sqrt(np.square(y).mean(-1, keepdims=True) + np.float32(1e-5))
    y *= weight
    y += bias
    return y


def np_gelu(x: np.ndarray) -> np.ndarray:
    from scipy.special import erf

    y: np.ndarray = erf(x * np.float32(math.sqrt(0.5)))
    y += 1
    y *= x
    y *= np.float32(0.5)
    return y


def np_conv2d(image: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Compute a convolution of one image with padding 1 as one matrix product."""
    around = ((0, 0), (0, 0), (1, 1), (1, 1))
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(image, around), (3, 3), (2, 3))
    patches = windows.transpose(0, 1, 4, 5, 2, 3).reshape(kernel[0].size, -1)
    return (kernel.reshape(len(kernel), -1) @ patches).reshape(1, len(kernel), *image.shape[2:])


def np_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    scores = (q * np.float32(1 / math.sqrt(q.shape[-1]))) @ k.swapaxes(-1, -2)
    return np_softmax(scores) @ v


def np_sort(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(x, kind="stable")
    return x[order], order


_DRAW = np.random.Generator(np.random.Philox(0))


def np_normal(n: int) -> np.ndarray:
    return _DRAW.standard_normal(n, np.float32)


def np_uniform(n: int) -> np.ndarray:
    return _DRAW.random(n, np.float32)


# Measuring --------------------------------------------------------------------------------------------


def rows(wanted: list[str]) -> list[tuple[str, str, str]]:
    """Return the rows whose op contains one of the given words."""
    found = [tuple(part.strip() for part in line.split(" | ")) for line in TABLE.strip().splitlines()]
    return [(op, ours, theirs) for op, ours, theirs in found if not wanted or any(word in op for word in wanted)]


def loop(call: str, scope: dict[str, Any]) -> Callable[[int], None]:
    """Return a function that runs `call` n times. All names are local, so only the calls are timed."""
    inputs = vars(scope["t"])
    used = sorted(name for name in inputs if f"t.{name}" in call)
    for name in sorted(used, key=len, reverse=True):
        call = call.replace(f"t.{name}", f"_{name}")
    source = f"def loop(n, {', '.join(f'_{name}' for name in used)}):\n    for _ in range(n):\n        {call}\n"
    names: dict[str, Any] = dict(scope)
    exec(compile(source, "<case>", "exec"), names)
    values = [inputs[name] for name in used]
    return lambda n: names["loop"](n, *values)


def time_row(ours: str, theirs: str, n: int, rounds: int, budget: float) -> tuple[float, float]:
    """Return the seconds per call of metatensor and NumPy, as minima over many short turns."""
    import metatensor
    from metatensor.nn import functional

    inputs = Inputs(n)
    helpers = {name: value for name, value in globals().items() if name.startswith("np")}
    loops = {
        "ours": loop(ours, {"m": metatensor, "F": functional, "t": inputs.of(metatensor)}),
        "theirs": loop(theirs, helpers | {"t": inputs}),
    }
    with metatensor.no_grad():
        seconds = interleaved(loops, rounds, budget, min)
    return seconds["ours"], seconds["theirs"]


def verdict(n: int, ours: float, theirs: float) -> bool | None:
    """Return True if a figure is within its limit. Return None for medium sizes, which have no limit."""
    if n <= SMALL:
        return ours - theirs <= MICROSECONDS * 1e-6
    return ours <= RATIO * theirs if n >= LARGE else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", default="", help="comma separated parts of names of ops")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="comma separated numbers of elements")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", metavar="FILE", help="write every figure to a file, in seconds")
    parser.add_argument("--check", action="store_true", help="exit 1 if a limit is missed")
    args = parser.parse_args()
    sizes = [int(size) for size in args.sizes.split(",")]
    found: dict[str, dict[int, tuple[float, float]]] = {}
    missed = []
    print("up to 1000 elements: microseconds minus NumPy's; from there: time divided by NumPy's; *: above the limit")
    print(f"{'op':14}" + "".join(f"{n:>11}" for n in sizes))
    for op, ours, theirs in rows(list(filter(None, args.ops.split(",")))):
        print(f"{op:14}", end="", flush=True)
        for n in sizes:
            a, b = found.setdefault(op, {})[n] = time_row(ours, theirs, n, args.rounds, 0.0005)
            mark = "*" if verdict(n, a, b) is False else " "
            if mark == "*":
                missed.append(f"{op} at {n}")
            figure = f"{1e6 * (a - b):.2f}us" if n <= SMALL else f"{a / b:.2f}x"
            print(f"{figure:>10}{mark}", end="", flush=True)
        print()
    print(f"missed: {', '.join(missed) or 'none'}")
    if args.json:
        with open(args.json, "w") as file:
            json.dump(found, file, indent=1)
    return int(args.check and bool(missed))


if __name__ == "__main__":
    sys.exit(main())
