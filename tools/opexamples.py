"""Examples of the operators' pages: a call made from the operator's samples, and what it prints.

Calls are made on meta, where tensors print their sizes and dtype. The call is made on the cpu if its result depends on
values, or if the result has few values and they say more than the sizes.
"""

from __future__ import annotations

import keyword
import re
import warnings
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np

# Families whose examples show values, if the tensors are small.
VALUES = {
    "activation", "axes", "binary", "comparison", "contraction", "differences", "distance", "gathering", "histograms", "joining",
    "matmul", "norms", "padding", "ranges", "rearrange", "reduction", "scan", "scattering", "slices", "softmax", "sorting",
    "special", "statistics", "ternary", "triangles", "unary", "values", "windows",
}  # fmt: skip
FEW = 9  # elements of a tensor whose values are shown
SAMPLES = 8  # samples to choose from
# Sets of values for tensors. A call uses the first set that gives a finite result. Its tensors get different values.
NUMBERS = {
    "mixed": ([1.5, -0.5, 0.0, 2.0, -1.0, 0.25, 3.0, -2.0, 0.75], [2, -3, 0, 5, 1, -4, 6, 3, -1]),
    "fractions": ([0.25, 0.5, 0.75, 0.125, 0.875, 0.375, 0.625, 0.0625, 0.9375], [2, 3, 5, 1, 4, 6, 7, 8, 9]),
    "large": ([1.0, 1.5, 2.0, 4.0, 3.0, 2.5, 5.0, 8.0, 6.0], [2, 3, 5, 1, 4, 6, 7, 8, 9]),
}  # fmt: skip

# Calls of operators for which samples do not suffice: their arguments are Python values, or their samples show little.
_META = 'input = mt.empty(2, 3, device="meta")'
_MATRIX = 'input = mt.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], device="cpu")'
_VECTOR = 'input = mt.tensor([1.0, 2.0, 3.0, 4.0, 5.0], device="cpu")'
_COMPLEX = 'input = mt.tensor([1 + 2j, 3 - 1j], device="cpu")'
_SPECIAL = 'input = mt.tensor([1.0, float("nan"), float("inf"), -float("inf")], device="cpu")'
_IMAGE = 'input = mt.empty(1, 2, 4, 4, device="meta")'
_CHANNELS = ['input = mt.empty(2, 3, 4, device="meta")', 'mean, var = mt.empty(3, device="meta"), mt.empty(3, device="meta")']
CALLS: dict[str, list[str]] = {
    "meshgrid": ['x, y = mt.tensor([1, 2], device="cpu"), mt.tensor([3, 4], device="cpu")', 'mt.meshgrid(x, y, indexing="ij")'],
    **{name: [_SPECIAL, f"mt.{name}(input)"] for name in ("isfinite", "isinf", "isnan", "isneginf", "isposinf", "nan_to_num")},
    **{name: [_COMPLEX, f"mt.{name}(input)"]
       for name in ("conj", "conj_physical", "imag", "real", "resolve_conj", "isreal", "view_as_real", "view_as_real_copy")},
    **{name: [_META, f"mt.{name}(input, 0, 1)"] for name in ("swapaxes", "transpose", "transpose_copy")},
    **{name: [_VECTOR, f"mt.{name}(input, 2)"] for name in ("chunk", "unsafe_chunk", "tensor_split")},
    **{name: ['input = mt.empty(2, 5, device="meta")', f"mt.{name}(input, (1, 4), dim=1)"]
       for name in ("split_with_sizes", "unsafe_split_with_sizes", "split_with_sizes_copy")},
    **{name: ['input = mt.empty(2, 5, device="meta")', f"mt.{name}(input, 2, dim=1)"] for name in ("split", "unsafe_split", "split_copy")},
    **{name: ['input = mt.empty(4, 6, device="meta")', f"mt.{name}(input, 2)"] for name in ("hsplit", "vsplit")},
    **{name: ['input = mt.empty(1, 3, 1, device="meta")', f"mt.{name}(input)"] for name in ("squeeze", "squeeze_copy")},
    **{f"nn.functional.{name}": [_IMAGE, f"mt.nn.functional.{name}(input, scale_factor=2)"]
       for name in ("upsample", "upsample_bilinear", "upsample_nearest")},
    **{name: ['input = mt.tensor([3.0, 1.0, 1.0, 3.0], device="cpu")', f"mt.{name}(input)"] for name in ("unique", "unique_consecutive")},
    **{name: ['input = mt.empty(3, 1, device="meta")', call]
       for name, call in (("expand", "input.expand(3, 4)"), ("expand_copy", "mt.expand_copy(input, (3, 4))"),
                          ("broadcast_to", "mt.broadcast_to(input, (2, 3, 4))"))},
    "all": ['input = mt.tensor([[True, False], [True, True]], device="cpu")', "mt.all(input, dim=1)"],
    "any": ['input = mt.tensor([[True, False], [False, False]], device="cpu")', "mt.any(input, dim=1)"],
    "as_tensor": ['mt.as_tensor([[1, 2], [3, 4]], device="cpu")'],
    "asarray": ['mt.asarray([1.5, 2.5], device="cpu")'],
    "atleast_3d": ['tensors = [mt.empty(3, device="meta"), mt.empty(2, 3, device="meta")]', "mt.atleast_3d(tensors)"],
    "batch_norm": [*_CHANNELS, "mt.batch_norm(input, None, None, mean, var, False, 0.1, 1e-05, False)"],
    **{name: [f'mt.{name}(5, device="meta")'] for name in ("blackman_window", "signal.windows.blackman")},
    "bucketize": [
        'boundaries = mt.tensor([1.0, 3.0, 5.0], device="cpu")',
        'mt.bucketize(mt.tensor([0.5, 3.0, 9.0], device="cpu"), boundaries)',
    ],
    "cat": ['tensors = [mt.empty(2, 3, device="meta"), mt.empty(4, 3, device="meta")]', "mt.cat(tensors)"],
    "clamp": ['input = mt.tensor([-2.0, 0.5, 3.0], device="cpu")', "mt.clamp(input, min=-1, max=1)"],
    "cpu": ['input = mt.ones(2, device="cpu")', "input.cpu()"],
    "ctc_loss": [
        'log_probs = mt.empty(5, 2, 4, device="meta")', 'targets = mt.empty(2, 3, dtype=mt.int64, device="meta")',
        "mt.ctc_loss(log_probs, targets, (5, 5), (3, 2))",
    ],
    "dropout": [_META, "mt.dropout(input, 0.5, True)"],
    "einsum": ['a, b = mt.empty(2, 3, device="meta"), mt.empty(3, 4, device="meta")', 'mt.einsum("ij,jk->ik", a, b)'],
    "empty_strided": ['mt.empty_strided((2, 3), (1, 2), device="meta")'],
    "histogram": ['input = mt.tensor([1.0, 2.0, 2.5, 4.0], device="cpu")', "mt.histogram(input, 3)"],
    "index_fill": [_MATRIX, 'mt.index_fill(input, 1, mt.tensor([0, 2], device="cpu"), -1)'],
    "index_put": [_VECTOR, 'mt.index_put(input, [mt.tensor([0, 3], device="cpu")], mt.tensor([9.0, 8.0], device="cpu"))'],
    "index_put_": [_VECTOR, 'mt.index_put_(input, [mt.tensor([0, 3], device="cpu")], mt.tensor([9.0, 8.0], device="cpu"))'],
    "index_select": [_MATRIX, 'mt.index_select(input, 1, mt.tensor([2, 0], device="cpu"))'],
    "instance_norm": [*_CHANNELS, "mt.instance_norm(input, None, None, mean, var, True, 0.1, 1e-05, False)"],
    "istft": ['input = mt.empty(3, 5, dtype=mt.complex64, device="meta")', 'window = mt.ones(4, device="meta")',
              "mt.istft(input, 4, window=window, center=False)"],
    "kthvalue": [_VECTOR, "mt.kthvalue(input, 2)"],
    "linalg.tensorinv": ['input = mt.empty(4, 6, 8, 3, device="meta")', "mt.linalg.tensorinv(input, ind=2)"],
    "logsumexp": [_MATRIX, "mt.logsumexp(input, dim=1)"],
    "lu_solve": [
        'B = mt.empty(3, 2, device="meta")', 'LU, pivots = mt.linalg.lu_factor(mt.empty(3, 3, device="meta"))',
        "mt.lu_solve(B, LU, pivots)",
    ],
    "masked.mean": [
        _MATRIX, 'mask = mt.tensor([[True, False, True], [False, False, True]], device="cpu")',
        "mt.masked.mean(input, dim=1, mask=mask)",
    ],
    "masked.sum": [
        _MATRIX, 'mask = mt.tensor([[True, False, True], [False, False, True]], device="cpu")',
        "mt.masked.sum(input, dim=1, mask=mask)",
    ],
    "max": [_MATRIX, "mt.max(input, dim=1)"],
    "mean": [_MATRIX, "mt.mean(input, dim=1)"],
    "min": [_MATRIX, "mt.min(input, dim=1)"],
    "mode": ['input = mt.tensor([1.0, 3.0, 3.0, 2.0], device="cpu")', "mt.mode(input)"],
    "movedim": ['input = mt.empty(2, 3, 4, device="meta")', "mt.movedim(input, 0, 2)"],
    "narrow": [_VECTOR, "mt.narrow(input, 0, 1, 3)"],
    "native_batch_norm": [*_CHANNELS, "mt.native_batch_norm(input, None, None, mean, var, False, 0.1, 1e-05)"],
    "new_empty_strided": [_META, "input.new_empty_strided((2, 3), (1, 2))"],
    "new_tensor": [_META, "input.new_tensor([1, 2, 3])"],
    "nn.functional.channel_shuffle": [
        'input = mt.arange(4.0, device="cpu").view(1, 4, 1, 1)',
        "mt.nn.functional.channel_shuffle(input, 2).flatten()",
    ],
    "nn.functional.glu": ['input = mt.empty(2, 6, device="meta")', "mt.nn.functional.glu(input)"],
    "nn.functional.grouped_mm": [
        'a = mt.empty(2, 8, 16, dtype=mt.bfloat16, device="meta")', 'b = mt.empty(2, 16, 24, dtype=mt.bfloat16, device="meta")',
        "mt.nn.functional.grouped_mm(a, b)"],
    "nn.functional.log_softmax": [_MATRIX, "mt.nn.functional.log_softmax(input, dim=1)"],
    "nn.functional.multi_head_attention_forward": [
        'x = mt.empty(5, 2, 8, device="meta")', 'weight, out = mt.empty(24, 8, device="meta"), mt.empty(8, 8, device="meta")',
        "mt.nn.functional.multi_head_attention_forward(x, x, x, 8, 2, weight, None, None, None, False, 0.0, out, None)",
    ],
    "nn.functional.one_hot": ['mt.nn.functional.one_hot(mt.tensor([0, 2, 1], device="cpu"))'],
    "nn.functional.pixel_shuffle": ['input = mt.empty(1, 8, 3, 3, device="meta")', "mt.nn.functional.pixel_shuffle(input, 2)"],
    "nn.functional.pixel_unshuffle": ['input = mt.empty(1, 2, 6, 6, device="meta")', "mt.nn.functional.pixel_unshuffle(input, 2)"],
    "nn.functional.softmax": [_MATRIX, "mt.nn.functional.softmax(input, dim=1)"],
    "nn.functional.softmin": [_MATRIX, "mt.nn.functional.softmin(input, dim=1)"],
    "nonzero": ['mt.nonzero(mt.tensor([[0, 5], [7, 0]], device="cpu"))'],
    "permute": ['input = mt.empty(2, 3, 4, device="meta")', "mt.permute(input, (2, 0, 1))"],
    "permute_copy": ['input = mt.empty(2, 3, 4, device="meta")', "mt.permute_copy(input, (2, 0, 1))"],
    "randint": ['mt.randint(0, 10, (2, 3), device="meta")'],
    "repeat": [_META, "input.repeat(2, 1)"],
    "repeat_interleave": ['mt.repeat_interleave(mt.tensor([1, 2], device="cpu"), 3)'],
    "searchsorted": [
        'boundaries = mt.tensor([1.0, 3.0, 5.0], device="cpu")',
        'mt.searchsorted(boundaries, mt.tensor([0.5, 3.0, 9.0], device="cpu"))',
    ],
    "select": [_MATRIX, "mt.select(input, 1, 0)"],
    "share_memory_": ['input = mt.ones(2, device="cpu")', "input.share_memory_().is_shared()"],
    "signal.windows.general_cosine": ['mt.signal.windows.general_cosine(5, a=[0.5, 0.3, 0.2], device="cpu")'],
    "slice": [_VECTOR, "input[1:4]"],
    "special.zeta": ['x, q = mt.tensor([2.0, 3.0], device="cpu"), mt.tensor([1.0, 2.0], device="cpu")', "mt.special.zeta(x, q)"],
    "stft": [
        'input, window = mt.empty(16, device="meta"), mt.ones(4, device="meta")',
        "mt.stft(input, 4, window=window, return_complex=True)",
    ],
    "sum": [_MATRIX, "mt.sum(input, dim=1)"],
    "convolution_backward": [
        'input, weight = mt.empty(1, 3, 8, 8, device="meta"), mt.empty(5, 3, 3, 3, device="meta")',
        'grad = mt.empty(1, 5, 6, 6, device="meta")',
        "mt.convolution_backward(grad, input, weight, (1, 1), (0, 0), (1, 1), False, (0, 0), 1, (True, False, False))[0]"],
    "native_layer_norm_backward": [
        'input, mean = mt.empty(2, 3, device="meta"), mt.empty(2, 1, device="meta")',
        "mt.native_layer_norm_backward(input, input, (3,), mean, mean, None, None, 1e-5, (True, False, False))[0]"],
    "native_group_norm_backward": [
        'input, mean = mt.empty(2, 4, 5, device="meta"), mt.empty(2, 2, device="meta")',
        "mt.native_group_norm_backward(input, input, mean, mean, None, 2, 4, 5, 2, 1e-5, (True, False, False))[0]"],
    "native_batch_norm_backward": [
        'input, mean = mt.empty(2, 4, 5, device="meta"), mt.empty(4, device="meta")',
        "mt.native_batch_norm_backward(input, input, None, None, None, mean, mean, True, 1e-5, (True, False, False))[0]"],
    "tensor": ['mt.tensor([[1, 2], [3, 4]], device="cpu")'],
    "threshold": ['input = mt.tensor([-2.0, 0.5, 3.0], device="cpu")', "mt.threshold(input, 1, 0)"],
    "tile": [_META, "mt.tile(input, (2, 1))"],
    "to": [_META, "input.to(mt.float16)"],
    "topk": [_VECTOR, "mt.topk(input, 2)"],
    "type": [_META, "input.type(mt.float64)"],
    "unflatten": ['input = mt.empty(2, 12, device="meta")', "mt.unflatten(input, 1, (3, 4))"],
    "unfold": [_VECTOR, "input.unfold(0, 2, 1)"],
    "unfold_copy": ['input = mt.empty(5, device="meta")', "mt.unfold_copy(input, 0, 2, 1)"],
    "unravel_index": ['mt.unravel_index(mt.tensor([5, 7], device="cpu"), (3, 4))'],
    "view": [_META, "input.view(3, 2)"],
    **{name: [f"mt.{name}(5, device=\"cpu\")"] for name in (
        "bartlett_window", "hamming_window", "hann_window", "kaiser_window", "signal.windows.bartlett",
        "signal.windows.cosine", "signal.windows.exponential", "signal.windows.gaussian",
        "signal.windows.general_hamming", "signal.windows.hamming", "signal.windows.hann", "signal.windows.kaiser",
        "signal.windows.nuttall")},
}  # fmt: skip

# Operators without an example: they need hardware.
HARDWARE = {"cuda", "pin_memory"}


def example(op: Any, family: str) -> str:
    """Return the lines of an example: prompts, calls and what the last call prints."""
    if op.name in CALLS:
        if (text := _run(CALLS[op.name])) is None:
            raise LookupError(f"the call of {op.name} in CALLS fails: {CALLS[op.name][-1]}")
        return text
    for overload in op.overloads:
        for sample in _samples(op, overload):
            for lines in _candidates(op, overload, sample, family):
                if (text := _run(lines)) is not None:
                    return text
    raise LookupError(f"no sample of {op.name} gives an example: add a call to CALLS in tools/opexamples.py")


def _samples(op: Any, overload: Any) -> list[Any]:
    """Return the samples of a schema. Those with nonempty results that differ in shape from the inputs come first."""
    search = import_module("metatensor.testing.search")
    flags = import_module("metatensor._core.op").operator_flags
    found = [_public(sample) for sample in search.base_samples(op, overload, SAMPLES)]

    def shown(sample: Any) -> tuple[Any, ...]:
        shapes = [item[0] for item in search.on_meta(op, sample) or () if isinstance(item, tuple) and item and isinstance(item[0], tuple)]
        given = [spec.shape for _, spec in sample.specs()]
        sizes = [int(np.prod(shape)) for shape in (*shapes, *given)]
        changed = not op.flags & flags.INPLACE and bool(shapes and given) and shapes[0] not in given
        return 0 not in sizes, changed, min(6, int(np.prod(shapes[0])) if shapes else 0)

    return sorted(found, key=shown, reverse=True)  # stable: equally good samples keep their order


def _public(sample: Any) -> Any:
    """Return a sample without private arguments."""
    return sample._replace(arguments={name: value for name, value in sample.arguments.items() if not name.startswith("_")})


def _candidates(op: Any, overload: Any, sample: Any, family: str) -> Iterator[list[str]]:
    """Yield calls in the order of preference, as lines of code."""
    flags = import_module("metatensor._core.op").operator_flags
    depends = op.flags & flags.DATA
    if depends or (family in VALUES and not op.flags & flags.RANDOM and "float8" not in str(sample)):
        smaller = _smaller(op, sample)
        kind = next((kind for kind in NUMBERS if _is_finite(op, smaller, kind)), "mixed")
        if depends or _is_small(op, smaller, kind):
            yield _call(op, overload, smaller, kind)
    yield _call(op, overload, sample, "")


def _smaller(op: Any, sample: Any) -> Any:
    """Return a sample with vectors instead of matrices if the operator works element by element."""
    search = import_module("metatensor.testing.search")
    shapes = {spec.shape for _, spec in sample.specs()}
    if shapes != {(2, 3)}:
        return sample
    smaller = sample.map(lambda name, spec: spec._replace(shape=(3,)))
    before, after = search.on_meta(op, sample), search.on_meta(op, smaller)
    return smaller if before and after and before[0][0] == (2, 3) and after[0][0] == (3,) else sample


def _results(op: Any, sample: Any, kind: str) -> list[Any]:
    """Return the results of a call on the cpu with the values that the example writes."""
    mt = import_module("metatensor")

    def place(value: Any) -> Any:
        if isinstance(value, list):
            return [place(item) for item in value]
        return mt.tensor(_values(value, kind), dtype=getattr(mt, value.dtype), device="cpu") if hasattr(value, "role") else value

    arguments = {name: place(value) for name, value in sample.arguments.items()} | ({"device": "cpu"} if sample.factory else {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = op(**arguments)
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _is_finite(op: Any, sample: Any, kind: str) -> bool:
    mt = import_module("metatensor")
    try:
        return all(bool(mt.isfinite(item).all()) for item in _results(op, sample, kind) if isinstance(item, mt.Tensor))
    except Exception:
        return False


def _is_small(op: Any, sample: Any, kind: str) -> bool:
    sizes = [int(np.prod(spec.shape)) for _, spec in sample.specs()]
    try:
        sizes += [item.numel() for item in _results(op, sample, kind) if hasattr(item, "numel")]
    except Exception:
        return False
    return max(sizes, default=0) <= FEW and sum(sizes) <= 3 * FEW


# Code -----------------------------------------------------------------------------------------------------


def _call(op: Any, overload: Any, sample: Any, kind: str) -> list[str]:
    """Return the lines that make the tensors, on meta if ``kind`` is "", and call the operator with them."""
    flags = import_module("metatensor._core.op").operator_flags
    schema = import_module("metatensor._core.schema").parse(overload.text)
    lines: list[str] = []
    args: list[str] = []
    for argument in schema.arguments:
        if argument.name not in sample.arguments:
            continue
        value = sample.arguments[argument.name]
        text = _text(value, kind)
        if text.startswith(("mt.empty", "mt.tensor", "[mt.")):
            variable = argument.name if not keyword.iskeyword(argument.name) else argument.name + "_"
            lines.append(f"{variable} = {text}")
            text = variable
        positional = argument.required and not argument.kwonly and all("=" not in arg for arg in args)
        args.append(text if positional else f"{argument.name}={text}")
    if sample.factory and not lines:
        args.append('device="cpu"' if kind else 'device="meta"')
    name = op.__name__
    if op.flags & flags.PROPERTY:
        lines.append(f"{args[0]}.{name}")
    elif op.flags & flags.METHOD_ONLY:
        lines.append(f"{args[0]}.{name}({', '.join(args[1:])})")
    else:
        lines.append(f"mt.{op.name}({', '.join(args)})")
    return lines


def _text(value: Any, kind: str) -> str:
    """Return the source text of an argument."""
    mt = import_module("metatensor")
    if hasattr(value, "role"):
        dtype = "" if value.dtype == "float32" else f", dtype=mt.{value.dtype}"
        if not kind and value.role != "descending":
            sizes = ", ".join(map(str, value.shape)) or "()"
            return f'mt.empty({sizes}{dtype}, device="meta")'
        plain = value.dtype in ("float32", "int64", "bool") and value.shape
        return f'mt.tensor({_values(value, kind)}{"" if plain else dtype}, device="cpu")'
    if isinstance(value, list):
        return f"[{', '.join(_text(item, kind) for item in value)}]"
    if isinstance(value, mt.dtype):
        return f"mt.{value.name}"
    return repr(value).replace("'", '"')


def _values(spec: Any, kind: str) -> Any:
    """Return the values of a tensor as nested lists. Roles with a structure, such as indices, keep their values."""
    array = spec.array()
    if spec.role in ("values", "fine", "positive", "unit", "ties", "wide") and spec.dtype in ("float32", "int64"):
        numbers = np.roll(NUMBERS[kind or "mixed"][spec.dtype == "int64"], -2 * spec.seed)
        array = np.resize(numbers, spec.shape)
    return (np.round(array, 2) + 0 if array.dtype.kind == "c" else array).tolist()


def _run(lines: list[str]) -> str | None:
    """Return the lines with their prompts and what the last one prints, or None if the call fails or warns."""
    names: dict[str, Any] = {"mt": import_module("metatensor")}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for line in lines[:-1]:
                exec(line, names)
            printed = repr(eval(lines[-1], names))
    except Exception:
        return None
    return "\n".join([*(f">>> {line}" for line in lines), re.sub(r"^$", "<BLANKLINE>", printed, flags=re.M)])
