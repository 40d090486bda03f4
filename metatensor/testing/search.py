"""Generation of samples for any operator from its schema.

Every required argument gets candidate values by its type and name. Combinations are tried on the meta device, where an
invalid one raises an error within microseconds. The valid ones are the *bases*. Further samples are derived from them:

* option values that are *telling*: they change what the reference device computes;
* other dtypes and special values: NaN, infinities, negative zeros, ties, the limits of a dtype, numbers that need
  rounding;
* empty tensors and larger ones;
* the in-place operator, and calls with ``out=``.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from metatensor._core.op import operator_flags, registry
from metatensor._core.schema import parse
from metatensor._core.tensor import Tensor
from metatensor.testing.candidates import NOT_VARIED, optional_values, required_values
from metatensor.testing.known import BASES, SHAPES, TENSOR_LISTS
from metatensor.testing.samples import Sample, Spec
from metatensor.testing.values import to_values

__all__ = ["base_samples", "find_samples", "outcome"]

INDEX_NAMES = {"index", "indices", "indices1", "indices2"}
FIRST_DTYPES = ("float32", "target alike", "int64", "bool", "complex64", "index first")
ATTEMPTS = 600  # maximum number of combinations of required arguments
TRIALS = 160  # maximum number of reference calls per option
LENGTHS = ("size", "steps", "n", "end", "window_length", "row", "high")
LARGEST = 4000  # maximum number of elements of a tensor
# Matrix decompositions. For non-finite values, their results are not unique or not defined.
MATRICES = frozenset("""cholesky cholesky_ex cholesky_inverse cholesky_solve eig eigh eigvals eigvalsh svd svdvals qr lu lu_factor_ex
    lu_solve lu_unpack solve_ex solve_triangular triangular_solve inv_ex det slogdet logdet _linalg_det _linalg_slogdet
    _linalg_solve_ex _linalg_lstsq ldl_factor_ex ldl_solve
    ormqr orgqr geqrf householder_product matrix_exp pinv matrix_norm""".split())
HALVES = ("float16", "bfloat16")
COUNTS = ("bincount", "one_hot", "repeat_interleave")
ROLES = [
    ("special", "float32"), ("special", "float64"), ("special", "float16"), ("special", "bfloat16"), ("zeros", "float32"),
    ("ties", "float32"), ("ties", "int64"), ("wide", "float32"), ("unit", "float64"), ("fine", "float16"), ("fine", "bfloat16"),
    ("fine", "float64"), ("fine", "complex64"), ("fine", "complex128"), ("fine", "int64"), ("extreme", "float32"),
    ("extreme", "int64"), ("extreme", "int32"), ("extreme", "uint8"), ("large", "int64"), ("large", "int32"), ("ties", "bool"),
    ("positive", "float32"), ("nans", "float32"), ("infinite", "float32"), ("nans", "float64"), ("infinite", "float16"),
    ("nans", "complex64"), ("infinite", "complex64"), ("close", "float64"),
]  # fmt: skip


def find_samples(op: Any, overload: Any, dtypes: tuple[str, ...], reference: str, limit: int = 4) -> list[Sample]:
    """Return samples for one schema of `op`, or [] if none of the combinations tried is valid on the meta device.

    ``dtypes`` are the dtypes to try, ``reference`` is the device that shows the effect of an option, and ``limit`` is
    the maximum number of bases.
    """
    schema = parse(overload.text)
    bases = base_samples(op, overload, limit)
    if not bases:
        return []
    found = list(bases)
    for base in bases[:3]:
        found += _dtypes(op, base, dtypes)
    options = _options(op, schema, bases, reference)
    found += options
    found += _special(op, bases, dtypes)
    if op.name.rpartition(".")[2] not in MATRICES:
        found += _valid(op, (sample.with_values(role=role) for sample in options[:12] for role in ("special", "nans", "infinite")))
    found += _sizes(op, bases, found)
    found += _variants(op, overload, found)
    unique: list[Sample] = []
    seen = set()
    for sample in found:
        if str(key := (sample.variant, sample.arguments)) not in seen:
            seen.add(str(key))
            unique.append(sample)
    return unique


def base_samples(op: Any, overload: Any, limit: int = 4) -> list[Sample]:
    """Return samples for one schema of `op` that have the required arguments. Only meta is used."""
    known = [sample for sample in BASES.get(overload.qualname, []) if on_meta(op, sample) is not None]
    return known + (_bases(op, parse(overload.text), limit) if len(known) < 2 else [])


def on_meta(op: Any, sample: Sample) -> Any:
    """Return the metadata of the results on meta, which identifies a sample, or None if the meta kernel rejects it."""
    from metatensor import DataDependentError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = op(**sample.on("meta"))
    except DataDependentError:
        return tuple(value for value in sample.arguments.values() if isinstance(value, Spec))
    except Exception:
        return None
    results = result if isinstance(result, (tuple, list)) else (result,)
    return tuple((tuple(item.shape), item.dtype.name) if hasattr(item, "shape") else item for item in results)


def outcome(op: Any, sample: Sample, device: str) -> Any:
    """Return a comparable result of a call: the bytes of results and written tensors, or the name of the error."""
    import metatensor

    arguments = sample.on(device)
    if any("generator" in overload.argument_names for overload in op.overloads):
        arguments["generator"] = metatensor.Generator().manual_seed(5)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = op(**arguments)
    except Exception as error:
        return type(error).__name__
    results = result if isinstance(result, (tuple, list)) else [result]
    written = [value for value in arguments.values() if isinstance(value, Tensor)]
    return [_bytes(value) for value in [*results, *written]]


def _bytes(value: Any) -> Any:
    if isinstance(value, Tensor):
        array = to_values(value)
        if array.dtype.kind in "fc":  # ignore differences due to rounding
            with np.errstate(all="ignore"):
                array = np.where(np.isfinite(array), np.round(array, 3), array) + 0.0
        return value.dtype.name, array.shape, array.tobytes()
    return repr(value)


# Bases ----------------------------------------------------------------------------------------------------


def _bases(op: Any, schema: Any, limit: int) -> list[Sample]:
    """Return up to ``limit`` samples with different results, all of the first dtype for which there are any."""
    found: list[Sample] = []
    seen = set()
    for dtype in FIRST_DTYPES:
        for sample in itertools.islice(_combinations(schema, dtype), ATTEMPTS):
            result = on_meta(op, sample)
            if result is None or result in seen:
                continue
            seen.add(result)
            found.append(sample)
            if len(found) == limit:
                break
        if found:
            break
    return found


def _combinations(schema: Any, dtype: str) -> Iterator[Sample]:
    """Yield combinations of the required arguments, then the same with each optional tensor added."""
    required = [argument for argument in schema.arguments if argument.required]
    optional = [a for a in schema.arguments if not a.required and a.type in ("Tensor?", "Tensor|Scalar?")]
    for extra in [[], *([argument] for argument in optional)]:
        arguments = required + extra
        tensors = [a for a in arguments if a.type.startswith("Tensor") and "[]" not in a.type]
        others = [a for a in arguments if a not in tensors]
        choices = [_tensor_lists(dtype) if a.type.startswith("Tensor") else required_values(a) for a in others]
        groups = SHAPES.get(len(tensors), [((2, 3),) * len(tensors), ((3,),) * len(tensors)])
        # Vary shapes fastest: most operators accept the first candidates of their other arguments.
        for values in itertools.product(*choices):
            for group in groups:
                specs = [_spec(a.name, shape, dtype, seed) for seed, (a, shape) in enumerate(zip(tensors, group))]
                pairs = zip([*tensors, *others], [*specs, *values], strict=False)
                yield Sample({a.name: value for a, value in pairs}, any(a.name == "device" for a in schema.arguments))


def _tensor_lists(dtype: str) -> list[list[Spec]]:
    dtype = "float32" if " " in dtype else dtype
    return [[Spec(shape, dtype, seed) for seed, shape in enumerate(shapes)] for shapes in TENSOR_LISTS]


def _spec(name: str, shape: tuple[int, ...], dtype: str, seed: int) -> Spec:
    if dtype == "index first":
        return Spec(shape, "float32", seed) if seed else Spec(shape, "int64", seed, "index")
    if name in INDEX_NAMES or (name == "target" and dtype != "target alike"):
        return Spec(shape, "int64", seed, "index")
    if name in ("mask", "condition"):
        return Spec(shape, "bool", seed)
    if dtype == "target alike":
        return Spec(shape, "float32", seed)
    return Spec(shape, dtype, seed)


# Samples derived from the bases ---------------------------------------------------------------------------


def _valid(op: Any, samples: Iterator[Sample]) -> list[Sample]:
    return [sample for sample in samples if on_meta(op, sample) is not None]


def _dtypes(op: Any, base: Sample, dtypes: tuple[str, ...]) -> list[Sample]:
    return _valid(op, (base.with_values(dtype=dtype) for dtype in dtypes))


def _options(op: Any, schema: Any, bases: list[Sample], reference: str) -> list[Sample]:
    """Return samples that give each option other values, if these change what the reference computes."""
    found: list[Sample] = []
    for argument in schema.arguments:
        if argument.name in NOT_VARIED or (argument.type.startswith("Tensor") and argument.required and "|" not in argument.type):
            continue
        wanted = 6 if argument.type.startswith("str") else 4 if argument.type.startswith("int") else 2
        found += itertools.islice(_telling(op, schema, argument, bases, reference), wanted)
    return found


def _telling(op: Any, schema: Any, argument: Any, bases: list[Sample], reference: str) -> Iterator[Sample]:
    """Yield samples whose results differ from those without the argument, and from each other."""
    trials, seen, count = 0, set(), 0
    known: dict[str, Any] = {}

    def result(sample: Sample) -> Any:
        key = str(sample.arguments)
        if key not in known:
            known[key] = outcome(op, sample, reference)
        return known[key]

    for stage in _stages(schema, argument, bases):
        for base in stage:
            for value in optional_values(argument, base):
                sample = base.change(**{argument.name: value})
                if on_meta(op, sample) is None:
                    continue
                trials += 1
                if trials > TRIALS:
                    return
                got = result(sample)
                plain = Sample({k: v for k, v in base.arguments.items() if k != argument.name or argument.required}, base.factory,
                               positional=base.positional)
                mark = str(got) + "-" * _is_negative(value)  # keep a negative dimension beside its equivalent
                if isinstance(got, str) or got == result(plain) or mark in seen:
                    continue
                seen.add(mark)
                count += 1
                yield sample
        if count:
            return


def _is_negative(value: Any) -> bool:
    values = value if isinstance(value, tuple) else (value,)
    return any(isinstance(item, int) and item < 0 for item in values)


def _stages(schema: Any, argument: Any, bases: list[Sample]) -> Iterator[Iterator[Sample]]:
    """Yield groups of bases with which an option is tried: unchanged, with other values, and with a second option."""
    yield iter(bases)
    yield (base.with_values(role=role) for base in bases[:2] for role in ("special", "wide", "ties", "unit", "fine"))
    yield iter((bases[0].with_values(dtype="int64", role="ties"), bases[0].with_values(dtype="complex64")))
    others = [a for a in schema.arguments if a.name not in NOT_VARIED and a is not argument and not a.required]
    yield (base.change(**{other.name: value}) for other in others for base in bases[:2]
           for value in itertools.islice(optional_values(other, base), 8))  # fmt: skip


def _special(op: Any, bases: list[Sample], dtypes: tuple[str, ...]) -> list[Sample]:
    """Return the first bases with special values."""
    matrices = op.name.rpartition(".")[2] in MATRICES
    counts = any(word in op.name for word in COUNTS)
    found = []
    for base in bases[:2]:
        for role, dtype in ROLES:
            if dtype in dtypes or dtype in ("float32", "complex128"):
                singular = matrices and role in ("special", "extreme", "ties", "nans", "infinite")
                # a sum of huge numbers depends on the order of its terms
                huge = (counts and role in ("extreme", "large")) or (
                    role == "extreme" and dtype.startswith("float") and not op.flags & operator_flags.ELEMENTWISE)
                if not singular and not huge:
                    found.append(base.with_values(role=role, dtype=dtype))
        if matrices:
            found += [base.with_values(role="definite", dtype=dtype) for dtype in ("float32", "float64", "complex64")]
    return _valid(op, iter(found))


def _sizes(op: Any, bases: list[Sample], others: list[Sample]) -> list[Sample]:
    """Return the first bases with one size replaced by 0 and with one size replaced by a larger one."""
    found = []
    for base in bases[:3]:
        sizes = dict.fromkeys(size for _, spec in base.specs() for size in spec.shape if size)
        found += [_resized(base, size, 0) for size in sizes]
    ranked = sorted(others, key=lambda sample: -_result_rank(op, sample))[:2]
    for base in bases[:2] + ranked:
        sizes = dict.fromkeys(size for _, spec in base.specs() for size in spec.shape if size > 1)
        large = (_resized(base, size, 77).with_values(role="fine") for size in sizes)
        larger = _valid(op, (sample for sample in large if all(_count(spec) <= LARGEST for _, spec in sample.specs())))
        larger = sorted(larger, key=lambda sample: -_result_size(op, sample))[:1]
        found += larger + [sample.with_values(role="fine", dtype="float16") for sample in larger]
        if op.name.rpartition(".")[2] not in MATRICES:  # singular ones have no answer
            found += [sample.with_values(role="ties") for sample in larger]
    for base in bases[:1] if any(base.factory for base in bases) else []:
        numbers = {name: value for name, value in base.arguments.items() if name in LENGTHS}
        found += [base.change(**{name: (9, 11) if isinstance(value, tuple) else 99}) for name, value in numbers.items()]
    return _valid(op, iter(found))


def _count(spec: Spec) -> int:
    return int(np.prod(spec.shape))


def _resized(sample: Sample, old: int, new: int) -> Sample:
    """Return the sample with size ``old`` replaced by ``new`` in all tensors and in lists of sizes."""
    changed = sample.map(lambda name, spec: spec._replace(shape=tuple(new if size == old else size for size in spec.shape)))
    shapes = {name: tuple(new if size == old else size for size in value) for name, value in sample.arguments.items()
              if name in ("normalized_shape", "size") and isinstance(value, tuple)}  # fmt: skip
    return changed.change(**shapes)


def _variants(op: Any, overload: Any, samples: list[Sample]) -> list[Sample]:
    """Return some of the samples in place and with ``out=``."""
    found = []
    if op.flags & operator_flags.INPLACE and op.name + "_" in registry:
        found += [s._replace(variant="_") for s in samples if isinstance(next(iter(s.arguments.values()), None), Spec)][:12]
    if overload.flags & operator_flags.OUT:
        chosen = samples[:3] + sorted(samples[3:], key=lambda sample: -_result_rank(op, sample))[:6]
        found += [s._replace(variant="out") for s in chosen if not any(spec.dtype in HALVES for _, spec in s.specs())]
        if overload.flags & operator_flags.ELEMENTWISE:
            found += [s._replace(variant="alias") for s in samples[:6] if _may_alias(op, s)]
    return found


def _may_alias(op: Any, sample: Sample) -> bool:
    """Return True if the result can be written to the first argument, because shape and dtype are equal."""
    first = next(iter(sample.arguments.values()), None)
    return isinstance(first, Spec) and on_meta(op, sample) == ((first.shape, first.dtype),)


def _result_size(op: Any, sample: Sample) -> int:
    """Return the number of elements of the first result."""
    results = on_meta(op, sample)
    first = results[0] if results else None
    return int(np.prod(first[0])) if isinstance(first, tuple) and isinstance(first[0], tuple) else 0


def _result_rank(op: Any, sample: Sample) -> int:
    """Return the number of dimensions with more than one element in the first result."""
    results = on_meta(op, sample)
    first = results[0] if results else None
    return sum(size > 1 for size in first[0]) if isinstance(first, tuple) and isinstance(first[0], tuple) else 0
