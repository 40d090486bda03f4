"""Running exported models in onnxruntime, and comparing with the cpu device."""

import io

import numpy as np
import onnx
import onnxruntime

import metatensor as mt
from metatensor._core.capture import Value
from metatensor.program.structure import leaves

onnxruntime.set_default_logger_severity(4)


def exported(program, **options):
    """Return the bytes of the model of a program, after ONNX's own checks."""
    file = io.BytesIO()
    program.to_onnx(file, **options)
    onnx.checker.check_model(onnx.load_from_string(file.getvalue()), full_check=True)
    return file.getvalue()


def model_of(program, **options):
    return onnx.load_from_string(exported(program, **options))


def array(t):
    """Return a tensor as an array that onnxruntime takes."""
    return t.detach().resolve_conj().resolve_neg().contiguous().numpy()


def given(model, tensors):
    """Return what a session takes: arrays by the names of the inputs."""
    names = [value.name for value in onnx.load_from_string(model).graph.input]
    assert len(names) == len(tensors)
    return {name: array(t) for name, t in zip(names, tensors)}


def run(model, *tensors):
    """Return the outputs of a model as arrays."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, given(model, tensors))


def assert_runs_alike(program, tensors, results, tolerance=1e-4, **options):
    """Assert that the exported model gives what the program gives."""
    outputs = run(exported(program, **options), *tensors)
    wanted = list(leaves(mt.Tensor, results))
    assert len(outputs) == len(wanted)
    for got, t in zip(outputs, wanted):
        assert_close(got, array(t), tolerance)


def assert_close(got, wanted, tolerance=1e-4):
    assert got.dtype == wanted.dtype and got.shape == wanted.shape, (got.dtype, got.shape, wanted.dtype, wanted.shape)
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(got, wanted)


def check(fn, *tensors, tolerance=1e-4, **options):
    """Trace a function, export it, and compare. Return the program."""
    program = mt.program.trace(fn, *tensors)
    distinct = {value.number: t for value, t in zip(program.inputs, leaves(mt.Tensor, tensors))}
    assert_runs_alike(program, list(distinct.values()), fn(*tensors), tolerance, **options)
    return program


def inputs_of(program, tensors):
    """Return the tensors of distinct inputs."""
    return list({value.number: t for value, t in zip(leaves(Value, program.arguments), tensors)}.values())
