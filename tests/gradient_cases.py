"""Calls of every operator that has a gradient, with values in double precision."""

import warnings

import metatensor as mt
from metatensor._core.errors import NotDifferentiableError
from metatensor._core.gradients import declared
from metatensor._core.op import registry
from metatensor.testing.device_gradients import constant_arguments
from metatensor.testing.search import base_samples

SEED = 5
ROLES = ("unit", "fine", "positive", "definite")


def operators():
    """Return the overloads that have a rule, or are recorded as other operators, by name."""
    names = set(declared())
    found = {}
    for op in dict.fromkeys(registry.values()):
        for overload in op.overloads:
            if overload.qualname in names and (op.functional is op or overload.qualname not in found):
                found[overload.qualname] = op, overload
    return found


def written_operators():
    """Return the operators that work in place whose functional form has a rule, by name."""
    names = set(declared())
    return {op.name: (op, overload) for op in dict.fromkeys(registry.values()) for overload in op.overloads[:1]
            if op.functional is not op and op.name.endswith("_") and overload.qualname in names}  # fmt: skip


def tensors(value):
    """Yield the tensors in nested tuples and lists."""
    if isinstance(value, mt.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors(item)


def is_differentiable(t):
    return t.is_floating_point() or t.is_complex()


class Call:
    """A call of an operator as a function of its differentiable tensors. A call that draws numbers draws the same each time."""

    def __init__(self, op, sample, device="cpu", constant=()):
        self.op, self.sample = op, sample
        self.arguments = sample.on(device)
        for name, spec in sample.specs():
            if spec.role == "labels":
                constant = {*constant, name}
        self.constant = constant
        self.inputs = tuple(t for name, value in self.arguments.items() if name not in constant for t in tensors(value)
                            if is_differentiable(t))  # fmt: skip
        self.draws = any("generator" in overload.argument_names for overload in op.overloads)
        self.writes = op.functional is not op or op.name.endswith("_")

    def __call__(self, *inputs):
        remaining = iter(inputs)

        def put(value):
            if isinstance(value, mt.Tensor):
                return next(remaining) if is_differentiable(value) else value
            return [put(item) for item in value] if isinstance(value, (tuple, list)) and next(tensors(value), None) is not None else value

        arguments = {name: value if name in self.constant else put(value) for name, value in self.arguments.items()}
        if self.writes:
            first = next(iter(arguments))
            arguments[first] = arguments[first].clone()
        if self.draws:
            arguments["generator"] = mt.Generator().manual_seed(SEED)
        mt.manual_seed(SEED)
        positional = [arguments[name] for name in self.sample.positional]
        return self.op(*positional, **{name: value for name, value in arguments.items() if name not in self.sample.positional})


def calls(op, overload, *, limit=3, largest=700, device="cpu", constant=()):
    """Yield calls whose results are finite and require grad."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = base_samples(op, overload, limit)
    for dtype in ("float64", "complex128"):
        found = 0
        for role in ROLES:
            for sample in samples:
                call = _call(op, sample, dtype, role, device, constant)
                if call is None or sum(t.numel() for t in call.inputs) > largest:
                    continue
                if _is_usable(call):
                    found += 1
                    yield call
        if found:
            return


def _call(op, sample, dtype, role, device, constant):
    def change(name, spec):
        if not spec.dtype.startswith(("float", "bfloat", "complex")):
            return spec
        return spec._replace(dtype=dtype, role=spec.role if spec.role in ("sorted", "labels") else role)

    try:
        sample = sample.map(change)
        call = Call(op, sample, device, constant)
    except Exception:
        return None  # there are no such values
    for t in call.inputs:
        t.requires_grad_()
    if _needs_constants(call):
        more = constant_arguments(op, sample, device) - set(constant)
        return _call(op, sample, dtype, role, device, {*constant, *more}) if more else None
    return call if call.inputs else None


def _needs_constants(call):
    try:
        call(*call.inputs)
    except NotDifferentiableError:
        return True
    except Exception:
        pass
    return False


def _is_usable(call):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = list(tensors(call(*call.inputs)))
    except Exception:
        return False  # the operator does not take these values
    if not any(t.requires_grad for t in results):
        return False
    return all(bool(mt.isfinite(t).all()) for t in results if is_differentiable(t) and t.device.type != "meta")
