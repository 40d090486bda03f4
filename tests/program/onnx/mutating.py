"""Changes of ONNX models: of bytes of the file, and of fields of the message."""

import onnx

NUMBERS = (0, 1, 2, -1, -2, 3, 7, 64, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63))


def bytes_changed(data, rng):
    """Return a file with a few bytes changed, removed or repeated."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at, kind = rng.randrange(len(data)), rng.random()
        if kind < 0.5:
            data[at] = rng.randrange(256)
        elif kind < 0.6:
            data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind < 0.8:
            del data[at : at + rng.randint(1, 9)]
        else:
            data[at:at] = data[at - rng.randint(0, min(at, 30)) : at]
        data = data or bytearray(b"\x08")
    return bytes(data)


def fields_changed(data, rng, kinds):
    """Return a file in which some numbers, names, types or nodes are others. `kinds` are names of operators."""
    model = onnx.ModelProto.FromString(data)
    graph = model.graph
    for _ in range(rng.randint(1, 3)):
        graphs = [graph] + [a.g for node in graph.node for a in node.attribute if a.type == 5]
        node = rng.choice([node for one in graphs for node in one.node] or [onnx.NodeProto()])
        names = [name for one in graph.node for name in (*one.input, *one.output)] or ["x"]
        kind = rng.randrange(9)
        if kind == 0:
            node.op_type = rng.choice(kinds)
        elif kind == 1 and node.input:
            node.input[rng.randrange(len(node.input))] = rng.choice(names)
        elif kind == 2 and node.attribute:
            one = rng.choice(node.attribute)
            if one.ints:
                one.ints[rng.randrange(len(one.ints))] = rng.choice(NUMBERS)
            elif one.type == 2:
                one.i = rng.choice(NUMBERS)
            elif one.type == 1:
                one.f = rng.choice((0.0, -1.0, float("nan"), float("inf"), 1e30))
            elif one.type == 3:
                one.s = rng.choice((b"", b"x", b"\xff" * 9))
        elif kind == 3 and graph.input:
            dims = rng.choice(graph.input).type.tensor_type.shape.dim
            if dims:
                rng.choice(dims).dim_value = rng.choice(NUMBERS)
        elif kind == 4 and graph.input:
            rng.choice(graph.input).type.tensor_type.elem_type = rng.randrange(0, 30)
        elif kind == 5:
            tensors = [*graph.initializer, *(a.t for one in graph.node for a in one.attribute if a.type == 4)]
            if tensors:
                one = rng.choice(tensors)
                if one.dims and rng.random() < 0.3:
                    one.dims[rng.randrange(len(one.dims))] = rng.choice(NUMBERS)
                elif one.int64_data:
                    one.int64_data[rng.randrange(len(one.int64_data))] = rng.choice(NUMBERS)
                elif len(one.raw_data) >= 8:
                    one.raw_data = rng.choice(NUMBERS).to_bytes(8, "little", signed=True) * (len(one.raw_data) // 8)
        elif kind == 6:
            rng.choice(model.opset_import or [onnx.OperatorSetIdProto()]).version = rng.randrange(1, 27)
        elif kind == 7:
            graph.node.append(node)
        elif node.attribute:
            del node.attribute[rng.randrange(len(node.attribute))]
        # sizes that tests give as inputs become constants, which shapes depend on
        if graph.input and rng.random() < 0.5:
            last = graph.input[-1]
            kind = last.type.tensor_type
            if kind.elem_type == 7 and len(kind.shape.dim) == 1 and 0 < kind.shape.dim[0].dim_value < 9:
                numbers = [rng.choice(NUMBERS) for _ in range(kind.shape.dim[0].dim_value)]
                graph.initializer.append(onnx.helper.make_tensor(last.name, 7, [len(numbers)], numbers))
    return model.SerializeToString()
