"""A program that is exported to ONNX and imported is the same program."""

import base64
import io
import zipfile

import pytest

pytest.importorskip("onnx")

import onnx

import metatensor as mt
from metatensor import nn
from metatensor.program.onnx.original import KEY


class Net(nn.Module):
    """A model with tied weights, writes, views, a structured result, and calls that ONNX has no form for."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 4))
        self.outer = nn.Linear(4, 4)
        self.outer.weight = nn.Parameter(mt.rand(4, 4, device="cpu").t())
        self.again = self.outer
        self.register_buffer("scale", mt.rand(4, device="cpu"))

    def forward(self, x, *, factor=1.0):
        y = self.inner(x).mul_(self.scale).transpose(0, 1).contiguous().t()
        return {"out": self.again(nn.functional.scaled_dot_product_attention(y, y, y)) * factor, "first": y[:1]}


@pytest.fixture
def net():
    return Net().to("cpu").eval()


def traced(net, **options):
    return mt.program.trace(net, mt.rand(3, 4, device="cpu"), factor=2.0, **options)


def exported(program, **options):
    file = io.BytesIO()
    program.to_onnx(file, **options)
    return file.getvalue()


def imported(data, *inputs, **options):
    return mt.program.from_onnx(io.BytesIO(data), *inputs, **options)


@pytest.mark.parametrize("options", [{}, {"opset": 18}, {"functions": True}, {"input_names": ["image"], "output_names": ["a", "b"]}])
def test_the_same_program(net, options):
    program, x = traced(net), mt.rand(3, 4, device="cpu")
    again = imported(exported(program, **options))
    assert mt.program.equal(program, again) and mt.program.diff(program, again) == []
    assert again.tied == program.tied and again.kinds == program.kinds and again.names == ("x",)
    assert [again.modules[call.module] for call in again.calls] == [program.modules[call.module] for call in program.calls]
    assert mt.equal(again(x, factor=2.0)["out"], program(x, factor=2.0)["out"])
    assert again.tensors["outer.weight"].stride() == (1, 4)
    assert mt.program.equal(imported(exported(again)), program)


def test_inputs_and_devices(net):
    data = exported(traced(net))
    assert "mul_" in imported(data, mt.empty(3, 4, device="meta")).operators()
    assert all(t.is_meta for t in imported(data, device="meta").tensors.values())
    assert imported(data, exported=False).operators() != imported(data).operators()
    with pytest.raises(ValueError, match="got a tensor of shape"):
        imported(data, mt.empty(5, 4, device="meta"))
    with pytest.raises(ValueError, match="no input has a size named"):
        imported(data, sizes={"n": 3})


def test_inputs_that_share_memory_and_unused_random_numbers():
    def fn(x, y):
        mt.empty(3, device="cpu").uniform_()
        x = nn.functional.dropout(x, 0.0, False)  # the same tensor
        return (x.view(2, 8)[:, :3] + y).view_as(y) + mt.ones(1, device="cpu").expand(2, 3)

    x = mt.rand(2, 8, device="cpu")
    program = mt.program.trace(fn, x, x[:, :3])
    again = imported(exported(program))
    assert mt.program.equal(again, program) and mt.equal(again(x, x[:, :3]), program(x, x[:, :3]))


def test_data_beside_the_model(net, tmp_path):
    program = traced(net)
    program.to_onnx(tmp_path / "net.onnx", external_data=True)
    again = mt.program.from_onnx(tmp_path / "net.onnx")
    assert mt.program.equal(program, again) and mt.equal(again.tensors["scale"], net.scale)


def test_named_sizes():
    net = nn.Sequential(nn.Linear(4, 4), nn.Flatten(0)).to("cpu")
    program = mt.program.trace(net, mt.rand(3, 4, device="cpu"), sizes={"batch": (2, 64)}, dims=[["batch", None]])
    data = exported(program)
    again, x = imported(data), mt.rand(7, 4, device="cpu")
    assert mt.equal(again(x), program(x))
    assert mt.program.equal(imported(data, sizes={"batch": 9}), program.at(batch=9))
    assert imported(data, x).inputs[0].shape == (7, 4)


def test_ignored_writes_are_not_in_the_program():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", mt.zeros(1, device="cpu"))
            self.register_buffer("scale", mt.ones(1, device="cpu"))

        def forward(self, x):
            self.count += 1
            return x.exp().add_(self.scale)

    program = mt.program.trace(Counting(), mt.rand(3, device="cpu"))
    again = imported(exported(program, ignore_writes=True))
    assert list(again.held) == ["scale"] and not any("count" in str(call) for call in again.calls)
    x = mt.rand(3, device="cpu")
    assert mt.equal(again(x), program(x))


def test_a_model_that_was_changed_is_read_from_its_nodes():
    program = mt.program.trace(lambda x: x.exp().relu_(), mt.rand(3, device="cpu"))
    model = onnx.load_from_string(exported(program))
    assert mt.program.from_onnx(model).operators() == {"exp": 1, "relu_": 1}
    model.graph.node[0].op_type = "Sin"
    assert mt.program.from_onnx(model).operators() == {"sin": 1, "nn.functional.relu": 1}


def test_constants_and_declarations_are_compared():
    program = mt.program.trace(lambda x: (x + 2.5)[:, None], mt.rand(3, device="cpu"))
    for change in (lambda g: setattr(next(t for t in g.initializer if t.data_type == 1), "raw_data", b"\0\0\0\0"),
                   lambda g: setattr(g.input[0].type.tensor_type.shape.dim[0], "dim_param", "n")):  # fmt: skip
        model = onnx.load_from_string(exported(program))
        change(model.graph)
        x = mt.ones(3, device="cpu")
        again = mt.program.from_onnx(model, x)
        assert not mt.program.equal(again, program)
        assert mt.equal(again(x), mt.program.OnnxModel(model, device="cpu")(x))


@pytest.mark.parametrize("entry", ["", "!", "UEsDBAoAAAAAAA==", base64.b64encode(b"PK\5\6" + bytes(18)).decode()])
def test_damaged_entries_are_ignored(entry):
    model = onnx.load_from_string(exported(mt.program.trace(lambda x: x.exp(), mt.rand(3, device="cpu"))))
    next(one for one in model.metadata_props if one.key == KEY).value = entry
    assert mt.program.from_onnx(model).operators() == {"exp": 1}


def test_another_program_in_the_metadata_is_ignored():
    entries = []
    for fn in (lambda x: x.exp(), lambda x: x.sin(), lambda x: mt.arange(1 << 40, device="meta")[:3].float() + x.to("meta")):
        program = mt.program.trace(fn, mt.rand(3, device="cpu"))
        file = io.BytesIO()
        program.save(file)
        entries.append(base64.b64encode(file.getvalue()).decode())
    model = onnx.load_from_string(exported(mt.program.trace(lambda x: x.exp(), mt.rand(3, device="cpu"))))
    for entry in entries:
        next(one for one in model.metadata_props if one.key == KEY).value = entry
        assert mt.program.from_onnx(model).operators() == {"exp": 1}


def test_a_program_whose_values_are_not_those_of_its_calls_is_ignored():
    """An export takes sizes and strides from the values, so a program whose calls differ from them could have the same graph."""
    model = onnx.load_from_string(exported(mt.program.trace(lambda x: (x * 2).view(8).relu_(), mt.rand(2, 4, device="cpu"))))
    entry = next(one for one in model.metadata_props if one.key == KEY)
    before = mt.program.from_onnx(model)
    assert before.operators() == {"mul": 1, "view": 1, "relu_": 1}
    for member, old, new in (("calls.jsonl", "[8]", "[-1]"), ("calls.jsonl", "[8]", "[4]")):
        found = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(base64.b64decode(entry.value))) as source, zipfile.ZipFile(found, "w") as target:
            for name in source.namelist():
                text = source.read(name).decode()
                target.writestr(name, text.replace(old, new) if name == member else text)
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        next(one for one in changed.metadata_props if one.key == KEY).value = base64.b64encode(found.getvalue()).decode()
        again = mt.program.from_onnx(changed)
        assert mt.equal(again(mt.ones(2, 4, device="cpu")), mt.full((8,), 2.0, device="cpu"))
        assert ("relu_" in again.operators()) == (new != "[4]")


def test_without_metadata_and_with_own_conversions():
    program = mt.program.trace(lambda x: x.exp(), mt.rand(3, device="cpu"))
    own = {"exp": lambda graph, arguments, result: graph.op("Exp", arguments.input)}
    for options in ({"metadata": False}, {"conversions": own}):
        assert not onnx.load_from_string(exported(program, **options)).metadata_props
