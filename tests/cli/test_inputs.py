"""The grammar of inputs and arguments: what is accepted, and the messages for what is not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt

pytest.importorskip("click")
from metatensor.cli.inputs import InputError, parse_arguments, parse_input, parse_value


def spec(tensor):
    assert tensor.is_meta
    return tensor.dtype, tuple(tensor.shape)


@pytest.mark.parametrize(
    ("text", "dtype", "shape"),
    [
        ("int64[1,1024]", "int64", (1, 1024)),
        ("float32[1, 3, 224, 224]", "float32", (1, 3, 224, 224)),
        (" bool [ 7 ] ", "bool", (7,)),
        ("float[2]", "float32", (2,)),
        ("long[2,]", "int64", (2,)),
        ("bf16[1_000]", "bfloat16", (1000,)),
        ("f16[0,3]", "float16", (0, 3)),
        ("i32[4]", "int32", (4,)),
        ("float8_e4m3fn[2,2]", "float8_e4m3fn", (2, 2)),
        ("complex64[]", "complex64", ()),
        ("float32[ ]", "float32", ()),
        ("int64[1,2,3,4,5,6,7]", "int64", (1, 2, 3, 4, 5, 6, 7)),
    ],
)
def test_tensors(text, dtype, shape):
    name, value = parse_input(text)
    assert name is None
    assert spec(value) == (getattr(mt, dtype), shape)


def test_names():
    name, value = parse_input("mask=bool[1,8]")
    assert name == "mask"
    assert spec(value) == (mt.bool, (1, 8))
    assert parse_input(" scale = -0.5") == ("scale", -0.5)
    assert parse_input("text='a=b'") == ("text", "a=b")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3), ("-2.5", -2.5), ("True", True), ("None", None), ("'word'", "word"), ("(1, 2)", (1, 2)),
        ("[1, [2]]", [1, [2]]), ("{'a': 1}", {"a": 1}), ("()", ()), ("1e-5", 1e-5), ("+3", 3), ("2j", 2j),
    ],
)  # fmt: skip
def test_plain_values(text, value):
    assert parse_value(text) == value


def test_tensors_within_values():
    states, options = parse_value("([float32[2], float32[]], {'mask': bool[3]})")
    assert [spec(t) for t in states] == [(mt.float32, (2,)), (mt.float32, ())]
    assert spec(options["mask"]) == (mt.bool, (3,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("mask=", "empty"),
        ("int64", "lacks a shape"),
        ("int64[1,1024", "cannot be read"),
        ("int63[1]", "'int63' is not a dtype"),
        ("Tensor[1]", "not a dtype"),
        ("__name__[1]", "not a dtype"),
        ("int64[-1]", "'-1' must be a non-negative integer"),
        ("int64[1.5]", "'1.5' must be"),
        ("int64[n]", "'n' must be"),
        ("int64[1:3]", "'1:3' must be"),
        ("int64[True]", "must be"),
        ("int64['a']", "must be"),
        ("int64[1][2]", "is not the name of a dtype"),
        ("mt.int64[1]", "is not the name of a dtype"),
        ("hello", "a string needs quotes"),
        ("f(1)", "neither a tensor"),
        ("1 + 1", "neither a tensor"),
        ("[*x]", "neither a tensor"),
        ("{**x}", "neither a tensor"),
        ("...", "neither a tensor"),
        ("-'a'", "neither a tensor"),
        ("int64[4611686018427387904,4611686018427387904]", "int64["),
        ("float32[99999999999999999999999]", "float32["),
        ("a b", "cannot be read"),
        ("(" * 300 + ")" * 300, "cannot be read"),
        ("1" * 20000, "10,000"),
    ],
)
def test_bad_inputs_get_clear_errors(text, message):
    with pytest.raises(InputError) as caught:
        parse_input(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["-" * 3000 + "1", "(1," * 80 + ")" * 80, "-" * 9000 + "x", "[" * 5000, "a." * 4000 + "b"])
def test_deep_nesting(text):
    for parse in (parse_value, parse_arguments):
        try:
            parse(text)
        except InputError:
            pass


def test_arguments():
    assert parse_arguments("") == ([], {})
    assert parse_arguments("12, 'a', width=768, deep=(1, 2),") == ([12, "a"], {"width": 768, "deep": (1, 2)})
    positional, named = parse_arguments("float32[2], mask=bool[3]")
    assert spec(positional[0]) == (mt.float32, (2,))
    assert spec(named["mask"]) == (mt.bool, (3,))


@pytest.mark.parametrize("text", ["12,,", "*x", "**x", "a=1, a=2", "1)(2", "x", "a=", "f(", ") + f("])
def test_bad_arguments(text):
    with pytest.raises(InputError):
        parse_arguments(text)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.text(max_size=30) | st.text(alphabet="int64[],=()'{}: -.\\\n\0", max_size=20))
def test_any_text_is_an_input_or_an_input_error(text):
    for parse in (parse_input, parse_arguments):
        try:
            parse(text)
        except InputError:
            pass
