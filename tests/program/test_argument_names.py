"""Names of the positional arguments of programs."""

import functools
import inspect

import pytest

import metatensor as mt
from metatensor.program.argument_names import parameters_of


def meta(*shape):
    return mt.empty(*shape, device="meta")


def test_arguments_have_the_names_of_parameters():
    program = mt.program.trace(lambda ids, *rest, scale: ids * rest[0] * scale, meta(3), meta(3), scale=meta(3))
    assert program.names == ("ids",) and "def forward(tensors, ids, x1, scale):" in program.code
    assert "  x1: float32[3]" in str(program)
    with pytest.raises(ValueError, match=r"<lambda>\(\): argument 'ids': expected"):
        program(meta(4), meta(3), scale=meta(3))
    with pytest.raises(ValueError, match=r"<lambda>\(\): argument 'x1': expected"):
        program(meta(3), meta(4), scale=meta(3))


def test_arguments_may_be_passed_by_name():
    program = mt.program.trace(lambda a, b: a @ b, meta(2, 3), meta(3, 4))
    assert program(meta(2, 3), b=meta(3, 4)).shape == program(b=meta(3, 4), a=meta(2, 3)).shape == (2, 4)
    with pytest.raises(TypeError, match=r"expected 2 positional arguments \(a, b\), got 1"):
        program(meta(2, 3))
    with pytest.raises(TypeError, match=r"expected 2 positional arguments \(a, b\), got 1 and the keyword arguments c"):
        program(meta(2, 3), c=meta(3, 4))
    sized = mt.program.trace(lambda a: a.relu(), meta(2, 3), sizes={"n": (1, 9)}, dims={"a": ["n", None]})
    assert sized(a=meta(5, 3)).shape == (5, 3)


def test_files_keep_the_names(tmp_path):
    program = mt.program.trace(lambda a, b: a @ b, meta(2, 3), meta(3, 4))
    program.save(tmp_path / "a.mtp")
    assert mt.program.load(tmp_path / "a.mtp").names == ("a", "b")
    assert mt.program.dead_code(program).names == ("a", "b")


def test_names_that_the_source_uses_itself():
    program = mt.program.trace(lambda mt, float, n: (mt * float * n).clamp(max=1e400), meta(2, 3), meta(2, 3), meta(2, 3),
                               sizes={"n": (1, 9)}, dims={0: ["n", None], 1: ["n", None], 2: ["n", None]})  # fmt: skip
    scope = {}
    exec(program.code, scope)
    assert scope["forward"]({}, meta(4, 3), meta(4, 3), meta(4, 3)).shape == (4, 3)


def test_an_argument_with_the_name_of_a_parameter():
    class Net(mt.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = mt.nn.Parameter(mt.ones(3, device="cpu"))

        def forward(self, weight):
            return weight * self.weight

    program = mt.program.trace(Net(), mt.ones(3, device="cpu"))
    scope = {}
    exec(program.code, scope)
    assert scope["forward"](program.tensors, mt.ones(3, device="cpu")).tolist() == [1.0, 1.0, 1.0]
    pytest.importorskip("onnx")
    from metatensor.program.onnx import model_of

    assert [value.name for value in model_of(program).graph.input] == ["weight_input"]


def test_names_are_those_of_the_signature():
    class Owner:
        def method(self, a, b=1, /, c=2, *rest, d, **more):
            return a

        @functools.wraps(method)
        def wrapped(self, *args, **kwargs):
            return self.method(*args, **kwargs)

        def anything(*args):
            return args

    def signed(*args):
        return args

    signed.__signature__ = inspect.Signature([inspect.Parameter("named", inspect.Parameter.POSITIONAL_OR_KEYWORD)])
    assert [parameters_of(f) for f in (Owner.method, Owner().method, Owner().wrapped, Owner().anything, signed)] == [
        ["self", "a", "b", "c"], ["a", "b", "c"], ["a", "b", "c"], [], ["named"]
    ]  # fmt: skip
