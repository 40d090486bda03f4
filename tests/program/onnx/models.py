"""Small ONNX models."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper, shape_inference

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def node(kind, inputs, outputs, **attributes):
    """Return a node. Names are separated by spaces; ``-`` is an input or output that is left out."""
    split = [["" if n == "-" else n for n in names.split()] for names in (inputs, outputs)]
    return helper.make_node(kind, *split, **attributes)


def value(text, kind=FLOAT):
    """Return a declared value, from a text such as ``x[batch,3]``."""
    name, _, sizes = text.rstrip("]").partition("[")
    if not text.endswith("]"):
        return helper.make_tensor_value_info(name, kind, None)
    shape = [int(n) if n.isdecimal() else None if n == "?" else n for n in sizes.split(",") if n]
    return helper.make_tensor_value_info(name, kind, shape)


def graph(nodes, inputs, outputs, **held):
    """Return a graph with initializers that are given as arrays or lists of integers."""
    initializers = [numpy_helper.from_array(np.asarray(v), name.replace("__", ".")) for name, v in held.items()]
    inputs, outputs = ([v if not isinstance(v, str) else value(v) for v in values] for values in (inputs, outputs))
    return helper.make_graph(nodes, "sample", inputs, outputs, initializers)


def model(*args, opset=18, functions=(), **held):
    """Return a model of one graph."""
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    return helper.make_model(graph(*args, **held), opset_imports=opsets, ir_version=9, functions=list(functions))


def weights(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def flattening():
    """Return a model that multiplies, and joins all dimensions but the first by arithmetic on its shape."""
    nodes = [
        node("Gemm", "x fc.weight fc.bias", "h", transB=1), node("Relu", "h", "r"), node("Shape", "r", "s"),
        node("Gather", "s zero", "n"), node("Unsqueeze", "n axis", "n1"), node("Concat", "n1 rest", "shape", axis=0),
        node("Reshape", "r shape", "y"),
    ]  # fmt: skip
    return model(nodes, ["x[batch,4]"], ["y[batch,k]"], fc__weight=weights(6, 4), fc__bias=weights(6), zero=np.int64(0),
                 axis=np.array([0]), rest=np.array([-1]))  # fmt: skip


def inferred(made):
    """Return the names of the values whose shape the onnx package finds, with all sizes as numbers or names that are declared."""
    found = shape_inference.infer_shapes(made, data_prop=True)
    names = {d.dim_param for v in made.graph.input for d in v.type.tensor_type.shape.dim}
    return {v.name for v in (*found.graph.value_info, *found.graph.output)
            if all(d.HasField("dim_value") or d.dim_param in names - {""} for d in v.type.tensor_type.shape.dim)}  # fmt: skip
