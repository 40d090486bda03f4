"""Copies of the cpu backend in which one kernel is wrong in one way.

``python -m devices.mutants [names of ops] [--kind KIND]``, run in the folder tests, breaks every kernel in every applicable
way. It prints how many mutants `check_device` accepts, and which ones. `test_mutants.py` runs a sample of them.
"""

from __future__ import annotations

import argparse
import dis
import inspect
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from metatensor_cpu.backend import SMALL_FLOATS, CpuBackend
from metatensor_cpu.kernels import TABLE

from metatensor import Tensor, plugins
from metatensor._core.compute import forget_kernels
from metatensor._core.op import operator_flags, registry
from metatensor._core.schema import parse
from metatensor._core.storage_views import tensor_from_storage
from metatensor.devices.array_kit import ArrayBackend
from metatensor.devices.array_kit.interchange import contiguous_strides
from metatensor.testing import check_device, device_kernels
from metatensor.testing.candidates import NOT_VARIED
from metatensor.testing.values import empty, from_values, to_values

FLOATS = {"float16", "bfloat16", "float32", "float64", "complex64", "complex128"}
HALVES = {"float16", "bfloat16"}
INPLACE, OUT, ELEMENTWISE = operator_flags.INPLACE, operator_flags.OUT, operator_flags.ELEMENTWISE
# Operators whose results do not depend on the values of their first argument.
VALUELESS = ("empty", "new_", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like", "fill", "zero",
             "bernoulli.p")  # fmt: skip
# Operators whose results depend on the sign of zero, by IEEE 754.
SIGNED = {"copysign", "atan2", "reciprocal", "signbit", "neg", "sqrt", "sin", "tan", "tanh", "asin", "atan", "sinh", "asinh", "div",
          "trunc", "ceil", "floor", "round", "expm1", "log1p", "erf", "mul", "rsqrt", "nextafter", "conj_physical", "clone", "flip",
          "cat", "stack", "gather", "repeat", "roll", "angle"}  # fmt: skip
# Operators that return the index of the first of equal values (cummax and cummin: of the last), and stable sorts.
FIRST = ("argmax", "argmin", "max.dim", "min.dim", "argsort.stable", "sort.stable", "cummax", "cummin")


class Mutant(NamedTuple):
    op: str
    kind: str
    where: str
    change: Callable[[Any, Any, Any, tuple[Any, ...]], Any]  # kernel, backend, out, args

    def __str__(self) -> str:
        return f"{self.op}: {self.kind} {self.where}".rstrip()


class Broken(CpuBackend):
    """The cpu device with one kernel replaced."""

    mutant: Mutant | None = None

    def __init__(self) -> None:
        ArrayBackend.__init__(self, "mutant", np, dtypes=SMALL_FLOATS, special="scipy.special", table=TABLE)

    def kernel(self, name: str) -> Any:
        own = super().kernel(name)
        mutant = self.mutant
        if own is None or mutant is None or mutant.op != name:
            return own
        return lambda out, *args: mutant.change(own, self, out, args)


def overloads() -> Iterator[tuple[Any, Any]]:
    """Yield op and schema of each kernel of the cpu."""
    seen = set()
    backend = plugins.backend("cpu")
    for op in list(registry.values()):
        if op.functional is not op:
            continue
        for overload in op.overloads:
            if overload.is_view or overload.is_composite or overload.is_host or overload.qualname in seen or "::" in op.name:
                continue
            seen.add(overload.qualname)
            if backend.kernel(overload.qualname) is not None and "Tensor" in overload.text.rpartition("->")[2]:
                yield op, overload


# Operators whose reduction of an empty tensor has a defined value.
OF_NOTHING = {"sum", "prod", "nansum", "all", "any", "mm", "bmm", "matmul", "mv", "dot", "addmm", "baddbmm", "addbmm", "addmv",
              "count_nonzero",
              "linalg.vector_norm", "nn.functional.linear", "logsumexp", "mean", "nn.functional.mse_loss", "trace", "vdot",
              "linalg.vecdot", "cdist", "dist"}  # fmt: skip
WRAPPING = {"add", "sub", "mul", "rsub", "neg", "abs", "square", "pow", "bitwise_left_shift", "addcmul", "lcm"}
# Kinds of mutation that apply only if the operator has arguments or results of a suitable dtype.
BY_DTYPE = {"nan", "infinity", "negative zero", "double in single", "integers in single", "sloppy", "last lost", "half cut off", "strides"}
# Whether a mutation changed any result. `survives` reads this.
DIFFERENT = [0]


# Mutations ----------------------------------------------------------------------------------------------------


def ignoring(place: int, default: Any) -> Any:
    def change(kernel: Any, backend: Any, out: Any, args: tuple[Any, ...]) -> Any:
        return kernel(out, *args[:place], default, *args[place + 1 :])

    return change


def with_inputs(alter: Callable[[np.ndarray], np.ndarray], kinds: set[str], mutated: set[int], exact: bool = False) -> Any:
    """Return a kernel that runs on modified values of its inputs."""

    def one(value: Any) -> Any:
        if isinstance(value, Tensor) and value.dtype.name in kinds and value.numel():
            with np.errstate(all="ignore"):
                changed = alter(to_values(value).copy())
            DIFFERENT[0] += 1
            fresh = empty(value.device.type, tuple(value.shape), value.dtype.name, tuple(value.stride()))
            filled = from_values(value.device.type, changed, value.dtype.name)
            plugins.backend(value.device.type).copy(fresh, filled)
            return fresh
        return [one(item) for item in value] if isinstance(value, list) else value

    def change(kernel: Any, backend: Any, out: Any, args: tuple[Any, ...]) -> Any:
        before = DIFFERENT[0]
        result = kernel(out, *(value if i in mutated else one(value) for i, value in enumerate(args)))
        if exact and not (isinstance(out, Tensor) and out.dtype.name in kinds):
            DIFFERENT[0] = before  # rounding the result hides the modification
        return result

    return change


def as_contiguous(tensor: Tensor) -> Tensor:
    """Return a tensor that reads the memory as if it were contiguous, ignoring the strides."""
    return tensor_from_storage(tensor.untyped_storage(), tensor.dtype, tuple(tensor.shape), contiguous_strides(tuple(tensor.shape)),
                               tensor.storage_offset())  # fmt: skip


def without_strides(kernel: Any, backend: Any, out: Any, args: tuple[Any, ...]) -> Any:
    def wrong(value: Any) -> Any:
        if isinstance(value, list):
            return [wrong(item) for item in value]
        if not isinstance(value, Tensor) or not value.numel():
            return value
        DIFFERENT[0] += not value.is_contiguous()
        return as_contiguous(value)

    return kernel(out, *map(wrong, args))


def out_contiguous(kernel: Any, backend: Any, out: Any, args: tuple[Any, ...]) -> Any:
    outs = out if isinstance(out, tuple) else (out,)
    DIFFERENT[0] += any(not o.is_contiguous() for o in outs)
    wrong = [as_contiguous(o) if o.numel() else o for o in outs]
    return kernel(tuple(wrong) if isinstance(out, tuple) else wrong[0], *args)


def writes_first(kernel: Any, backend: Any, out: Any, args: tuple[Any, ...]) -> Any:
    """Clear the output before the kernel reads the inputs, which may share memory with it."""
    backend.from_host(out, bytes(out.numel() * out.itemsize))
    return kernel(out, *args)


def writes_input(kernel: Any, backend: Any, out: Any, args: tuple[Any, ...]) -> Any:
    result = kernel(out, *args)
    for value in [item for given in args for item in (given if isinstance(given, list) else (given,))]:
        if isinstance(value, Tensor) and value.numel():
            backend.from_host(value, bytes(value.numel() * value.itemsize))
            break
    return result


def on_results(alter: Callable[[np.ndarray, str], np.ndarray]) -> Any:
    """Return a kernel whose results are modified afterwards."""

    def change(kernel: Any, backend: Any, out: Any, args: tuple[Any, ...]) -> Any:
        result = kernel(out, *args)
        targets = out if out is not None else args[0] if result is None else result
        for target in targets if isinstance(targets, (tuple, list)) else (targets,):
            if isinstance(target, Tensor) and target.numel():
                with np.errstate(all="ignore"):
                    old = to_values(target)
                    values = alter(old.copy(), target.dtype.name)
                DIFFERENT[0] += old.tobytes() != values.astype(old.dtype).tobytes()
                backend.copy(target, from_values(backend.type, values, target.dtype.name))
        return result

    return change


def sloppy(values: np.ndarray, dtype: str) -> np.ndarray:
    factor = {"float32": 1e-3, "float64": 1e-7, "complex64": 1e-3, "complex128": 1e-7}.get(dtype, 0)
    return values * (1 + factor) if factor else values


def toward_zero(values: np.ndarray, dtype: str) -> np.ndarray:
    """Move half of the values in a half dtype one ulp towards zero, as truncation would."""
    if dtype not in HALVES or not values.size:
        return values
    flat = values.reshape(-1)
    step = 2.0**-10 if dtype == "float16" else 2.0**-7
    chosen = np.isfinite(flat) & (np.arange(flat.size) % 2 == 0) & (np.abs(flat) > 1e-3)
    flat[chosen] -= np.sign(flat[chosen]) * step * 2.0 ** np.floor(np.log2(np.abs(flat[chosen])))
    return flat.reshape(values.shape)


def first_ones(values: np.ndarray, dtype: str) -> np.ndarray:
    flat = values.reshape(-1)
    flat[64:] = 0
    return values


def last_lost(values: np.ndarray, dtype: str) -> np.ndarray:
    flat = values.reshape(-1)
    flat[-1] = 77 if dtype != "bool" else not flat[-1]
    return values


def empty_as_seven(kernel: Any, backend: Any, out: Any, args: tuple[Any, ...]) -> Any:
    result = kernel(out, *args)
    tensors = [item for value in args for item in (value if isinstance(value, list) else (value,)) if isinstance(item, Tensor)]
    if any(not t.numel() for t in tensors):
        for target in out if isinstance(out, tuple) else (out,):
            if target.numel():
                backend.copy(target, from_values(backend.type, np.full(tuple(target.shape), 7.0), target.dtype.name))
    return result


def one_off_dims(places: list[int]) -> Any:
    def wrong(value: Any) -> Any:
        return tuple(wrong(v) for v in value) if isinstance(value, tuple) else value + 1 if isinstance(value, int) and value < 0 else value

    def change(kernel: Any, backend: Any, out: Any, args: tuple[Any, ...]) -> Any:
        return kernel(out, *(wrong(value) if i in places else value for i, value in enumerate(args)))

    return change


def saturating(kernel: Any, backend: Any, out: Any, args: tuple[Any, ...]) -> Any:
    """Compute integers in 64 bits, and clamp results to the range of the dtype instead of wrapping them around."""
    if not isinstance(out, Tensor) or out.dtype.name not in ("int32", "uint8", "int16", "int8"):
        return kernel(out, *args)
    wide = empty(out.device.type, tuple(out.shape), "int64")
    result = kernel(wide, *(from_values(v.device.type, to_values(v), "int64") if isinstance(v, Tensor) and v.dtype is out.dtype else v
                            for v in args))  # fmt: skip
    ends = np.iinfo(out.dtype.name)
    backend.copy(out, from_values(out.device.type, np.clip(to_values(wide), ends.min, ends.max), out.dtype.name))
    return result


def last_tie(kernel: Any, backend: Any, out: Any, args: tuple[Any, ...]) -> Any:
    """Run the kernel on reversed input, so that it finds the last of equal values."""
    result = kernel(out, *args)
    x = args[0]
    dims = [a for a in args[1:] if isinstance(a, int) and not isinstance(a, bool)]
    if not x.dim() or not x.numel():
        return result
    dim = dims[0] if dims else None
    turned = to_values(x)[::-1] if dim is None else np.flip(to_values(x), dim)
    if dim is None:
        turned = np.flip(to_values(x))
    kernel(out, from_values(x.device.type, np.ascontiguousarray(turned), x.dtype.name), *args[1:])
    last = (x.numel() if dim is None else x.shape[dim]) - 1
    for target in out if isinstance(out, tuple) else (out,):
        values = to_values(target)
        if target.dtype.name == "int64" and not (isinstance(out, tuple) and target is out[0]):
            values = last - values
        if dim is not None and values.ndim == x.dim() and values.shape == tuple(x.shape):
            values = np.flip(values, dim)
        backend.copy(target, from_values(target.device.type, np.ascontiguousarray(values), target.dtype.name))
    return result


def nothing_huge(x: np.ndarray) -> np.ndarray:
    return np.where(np.isinf(x), 3, x)


def is_read(name: str, place: int) -> bool:
    """Return True if a kernel's code uses an argument. If it does not, ignoring the argument changes nothing."""
    function = plugins.backend("cpu").table.find(name).function
    code = inspect.unwrap(function).__code__
    if place + 2 >= code.co_argcount:
        return not (code.co_flags & inspect.CO_VARARGS) or code.co_varnames[code.co_argcount + code.co_kwonlyargcount] in read_names(code)
    return code.co_varnames[place + 2] in read_names(code)


def read_names(code: Any) -> set[str]:
    loaded = {i.argval for i in dis.get_instructions(code) if i.opname.startswith("LOAD_") and isinstance(i.argval, str)}
    return loaded | set(code.co_cellvars)


def mutants(op: Any, overload: Any) -> Iterator[Mutant]:
    """Yield all mutants for one schema."""
    name, arguments = overload.qualname, parse(overload.text).arguments
    mutated = {i for i, a in enumerate(arguments) if a.mutated}
    tensors = [a for a in arguments if a.type.startswith("Tensor")]
    elementwise = bool(overload.flags & ELEMENTWISE)
    for place, argument in enumerate(arguments):
        if not argument.required and argument.name not in NOT_VARIED | {"dtype"} and is_read(name, place):
            default = argument.default
            if argument.type.startswith("int[") and isinstance(default, int):
                default = (default,) * (argument.repeat or 1)
            yield Mutant(name, "argument", argument.name, ignoring(place, default))
    dims = [i for i, a in enumerate(arguments) if a.name.startswith("dim") and a.type.startswith("int")]
    if dims:
        yield Mutant(name, "negative dims", "", one_off_dims(dims))
    valueless = name.startswith(VALUELESS) or not tensors
    if not valueless:
        if not name.startswith(("bitwise", "gcd", "lcm", "isin", "nn.functional.one_hot", "_int", "_scaled")) and "lu_" not in name:
            yield Mutant(name, "nan", "", with_inputs(lambda x: np.where(np.isnan(x), 0, x), FLOATS, mutated))
            yield Mutant(name, "infinity", "", with_inputs(nothing_huge, FLOATS, mutated))
        if name in SIGNED:
            yield Mutant(name, "negative zero", "", with_inputs(lambda x: x + 0.0, FLOATS, mutated))
        yield Mutant(name, "strides", "", without_strides)
        yield Mutant(name, "double in single", "", with_inputs(
            lambda x: x.astype("c8" if x.dtype.kind == "c" else "f4"), {"float64", "complex128"}, mutated, True))  # fmt: skip
        yield Mutant(name, "integers in single", "", with_inputs(lambda x: x.astype("f4").astype("f8"), {"int64", "int32"}, mutated, True))
        if not mutated:
            yield Mutant(name, "writes its input", "", writes_input)
    returns_tensor = not overload.flags & 16 and parse(overload.text).returns and not mutated
    if returns_tensor and not name.startswith("empty") and not name.startswith("new_empty"):
        yield Mutant(name, "out contiguous", "", out_contiguous)
        yield Mutant(name, "sloppy", "", on_results(sloppy))
        yield Mutant(name, "first 64 alone", "", on_results(first_ones))
        yield Mutant(name, "last lost", "", on_results(last_lost))
        if elementwise and not valueless:
            yield Mutant(name, "half cut off", "", on_results(toward_zero))
            if overload.flags & (INPLACE | OUT):
                yield Mutant(name, "writes first", "", writes_first)
        if name in WRAPPING:
            yield Mutant(name, "saturates", "", saturating)
        if name in OF_NOTHING:
            yield Mutant(name, "empty", "", empty_as_seven)
    if name in FIRST:
        yield Mutant(name, "ties", "", last_tie)


# Counting -----------------------------------------------------------------------------------------------------


def broken_backend() -> Broken:
    """Return the registered backend."""
    try:
        return plugins.backend("mutant")
    except RuntimeError:
        backend = Broken()
        plugins.register_backend(backend)
        return backend


def survives(backend: Broken, op: Any, mutant: Mutant) -> bool | None:
    """Return True if `check_device` accepts a mutant, or None if the mutation changed no result."""
    DIFFERENT[0] = 0
    backend.mutant = mutant
    forget_kernels(op)
    try:
        check_device("mutant", only=[mutant.op])
    except AssertionError:
        return False
    finally:
        backend.mutant = None
        forget_kernels(op)
    if mutant.kind == "out contiguous":  # without out=, the operator itself chooses the layout of the output
        return True if DIFFERENT[0] or any(o.flags & OUT for o in op.overloads if o.qualname == mutant.op) else None
    return True if DIFFERENT[0] or mutant.kind not in BY_DTYPE else None


def remember_the_reference() -> None:
    """Compute the cpu's results for samples once for all mutants."""
    call, known = device_kernels._call, {}

    def remembered(op: Any, sample: Any, device: str, strided: bool) -> Any:
        if device != "cpu":
            return call(op, sample, device, strided)
        key = op.name, str(sample.variant), str(sample.arguments)
        if key not in known:
            known[key] = call(op, sample, device, strided)
        return known[key]

    device_kernels._call = remembered


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the mutants of the cpu device that check_device lets pass.")
    parser.add_argument("names", nargs="*", help="operators (default: all)")
    parser.add_argument("--kind", action="append", help="kinds of mutations (default: all)")
    parser.add_argument("--part", default="0/1", help="I/N, such as 3/8: every eighth operator, starting with the fourth")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    backend = broken_backend()
    remember_the_reference()
    total: Counter[str] = Counter()
    alive: dict[str, list[str]] = {}
    started = time.process_time()
    for number, (op, overload) in enumerate(overloads()):
        if number % parts != part or (options.names and overload.qualname not in options.names):
            continue
        if not survives(backend, op, Mutant(overload.qualname, "none", "", lambda kernel, device, out, args: kernel(out, *args))):
            print(f"{overload.qualname}: the unbroken kernel fails", flush=True)
            continue
        for mutant in mutants(op, overload):
            if options.kind and mutant.kind not in options.kind:
                continue
            alone = survives(backend, op, mutant)
            total[mutant.kind] += alone is not None
            if alone:
                alive.setdefault(mutant.kind, []).append(f"{mutant.op} {mutant.where}".rstrip())
    for kind in total:
        print(f"{kind}: {len(alive.get(kind, []))} of {total[kind]} survive: {', '.join(alive.get(kind, []))}")
    print(f"all: {sum(map(len, alive.values()))} of {sum(total.values())} survive; {time.process_time() - started:.0f} s")


if __name__ == "__main__":
    main()
