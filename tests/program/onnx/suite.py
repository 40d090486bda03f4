"""The backend test suite of the ``onnx`` package: its node tests, run here for values and for metadata."""

import contextlib
import functools
import warnings
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

import metatensor as mt
from metatensor._core.errors import DataDependentError
from metatensor.program.onnx import OnnxModel
from metatensor.program.onnx.importing.tensors import tensor_from
from metatensor.program.onnx.importing.values import Small

STRING = TensorProto.STRING


@functools.cache
def cases():
    """Return the node tests by name."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in load_model_tests(kind="node")}


SOME = ("add", "if", "loop", "scan", "lstm", "resize", "quantizelinear", "cast", "convtranspose", "sequenceinsert", "scatternd",
        "roialign", "dft", "attention", "gather", "slice", "pad", "topk", "einsum", "layernormalization", "unique",
        "qlinearconv", "optional")  # fmt: skip
"""Modules with tests of some operators. To make all tests takes half a minute, most of it for pooling."""


def some_cases():
    """Return the node tests of some operators by name, or all if they are there."""
    from importlib import import_module

    from onnx.backend.test.case import node

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in SOME:
            with contextlib.suppress(ImportError):  # the modules are those of newer versions of the package
                import_module(f"{node.__name__}.{name}")
    return {case.name: case for case in node._NodeTestCases}


def model_of(case):
    return case.model if case.model is not None else onnx.load(case.model_dir + "/model.onnx")


def kinds(graph):
    """Yield the types of the inputs and outputs of a graph."""
    for value in (*graph.input, *graph.output):
        kind = value.type
        while kind.WhichOneof("value") in ("sequence_type", "optional_type"):
            kind = getattr(kind, kind.WhichOneof("value")).elem_type
        yield kind.tensor_type.elem_type


def is_text(case):
    """Return whether a test has strings."""
    graph = model_of(case).graph
    return STRING in kinds(graph) or any(a.t.data_type == STRING or a.type == 8 for node in graph.node for a in node.attribute)


def tensor(array, device="cpu"):
    """Return a tensor, or a list of tensors, of what the suite has as an input or output."""
    if array is None:
        return None
    if isinstance(array, list):
        return [tensor(one, device) for one in array]
    message = array if isinstance(array, TensorProto) else numpy_helper.from_array(np.asarray(array))
    found = tensor_from(message, "", device)
    return found.tensor if isinstance(found, Small) else found


def numbers(t):
    """Return the elements as an array that NumPy can compare."""
    t = t.to(mt.float32) if t.dtype is mt.bfloat16 or t.dtype.name.startswith("float8") else t
    return t.numpy()


def compare(found, wanted, rtol, atol):
    """Raise AssertionError if a result is not what the suite expects: type, shape and values."""
    if isinstance(wanted, list):
        assert isinstance(found, list), f"no sequence: {type(found).__name__}"
        assert len(found) == len(wanted), f"{len(found)} elements, {len(wanted)} expected"
        for one, other in zip(found, wanted, strict=True):
            compare(one, other, rtol, atol)
        return
    if wanted is None:
        assert found is None
        return
    assert tuple(found.shape) == tuple(wanted.shape), f"shape {tuple(found.shape)}, {tuple(wanted.shape)} expected"
    assert found.dtype is wanted.dtype, f"{found.dtype}, {wanted.dtype} expected"
    if found.is_meta:
        return
    found = found.to("cpu")
    rtol = max(rtol, 2**-6) if wanted.dtype is mt.bfloat16 else rtol  # as the suite's own runner does
    np.testing.assert_allclose(numbers(found), numbers(wanted), rtol=rtol, atol=atol)


def run(case, place):
    """Run a test with inputs that `place` makes of the suite's, by their position; compare the results."""
    net = OnnxModel(model_of(case), device=place.device)
    for inputs, outputs in case.data_sets:
        with mt.no_grad():
            found = net(*[place(tensor(array)) for array in inputs])
        found = found if isinstance(found, tuple) else (found,)
        assert len(found) == len(outputs)
        for one, other in zip(found, outputs, strict=True):
            assert not isinstance(one, mt.Tensor) or one.device.type == place.device
            compare(one, tensor(other), case.rtol, max(case.atol, 1e-7))


class Values:
    """All inputs with their values."""

    device = "cpu"

    def __call__(self, value):
        return value


class Metadata:
    """Inputs on meta; those of integers keep their values if `known` is true."""

    device = "meta"

    def __init__(self, known=False):
        self.known = known

    def __call__(self, value):
        if isinstance(value, list):
            return [self(one) for one in value]
        if value is None or self.known and not value.is_floating_point() and not value.is_complex():
            return value
        return value.to("meta")


class Everything:
    """A model on meta, whose inputs all have values."""

    device = "meta"

    def __call__(self, value):
        return value


def check_values(case):
    run(case, Values())


def check_metadata(case):
    """Check dtypes and shapes on meta. Return which inputs had to have values: none, integers or all."""
    for name, place in (("none", Metadata()), ("integers", Metadata(True))):
        try:
            run(case, place)
        except DataDependentError:
            continue
        return name
    run(case, Everything())
    return "all"




# Models with their inputs and outputs in files ---------------------------------------------------------


def stored(kind):
    """Return the tests of a kind that have no strings."""
    from onnx.backend.test.loader import load_model_tests

    return [case for case in load_model_tests(kind=kind) if STRING not in kinds(model_of(case).graph)]


def _file(path, value):
    content = path.read_bytes()
    form = value.type.WhichOneof("value")
    if form == "sequence_type":
        return tensor(numpy_helper.to_list(onnx.SequenceProto.FromString(content)))
    return tensor(TensorProto.FromString(content))


def check_stored(case):
    """Compare values on cpu, and dtypes and shapes on meta."""
    folder = Path(case.model_dir)
    graph = model_of(case).graph
    for device in ("cpu", "meta"):
        net = OnnxModel(folder / "model.onnx", device=device)
        names = [one.name for one in net.inputs]
        for data in sorted(folder.glob("test_data_set_*")):
            inputs = {v.name: _file(data / f"input_{i}.pb", v) for i, v in enumerate(graph.input) if v.name in names}
            outputs = [_file(data / f"output_{i}.pb", v) for i, v in enumerate(graph.output)]
            if device == "meta":
                inputs = {name: Metadata(True)(value) for name, value in inputs.items()}
            with mt.no_grad():
                found = net(*[inputs[name] for name in names])
            for one, other in zip(found if isinstance(found, tuple) else (found,), outputs, strict=True):
                compare(one, other, case.rtol, max(case.atol, 1e-6))
