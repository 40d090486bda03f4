"""The fast reader of safetensors headers gives the same results as the general one, or none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metatensor.checkpoint import CheckpointError
from metatensor.checkpoint._entries import plain_entries
from metatensor.checkpoint.safetensors import _BITS, _check_entries, _check_metadata, _decoded

SPACE = st.sampled_from(["", " ", "\n\t "])
NUMBER = st.sampled_from(["0", "1", "4", "7", "64", "007", "-1", "1.0", "1e3", str(2**62), str(2**63 - 1), str(2**63), "9" * 30, ""])
ODD_NAMES = ["a", "b.weight", "__metadata__", "ä", "\\u0061", "\\n", '\\"', "\x01", "\\ud800", "{", "}"]
NAME = st.one_of(st.sampled_from(ODD_NAMES), st.text(max_size=3))
METADATA = ['{"format":"pt"}', "{}", '{"a":"\\"}{"}', '{"a":1}', '{"a":{"b":"}"}}', '{"a":"b","a":"c"}', "[]", "{"]
TOO_SHORT = [b"", b"{", b'{"', b'{"a', b'{"a"', b'{"a":', b'{"__metadata__":{', b'{"__metadata__":{"\\', b"\xff", b"null"]


def slow(text):
    try:
        return _check_entries(_decoded(text, "file"), "file")
    except CheckpointError:
        return None


def quick(text):
    found = plain_entries(text, _BITS)
    if found is None:
        return None
    metadata, entries = found
    try:
        return {} if metadata is None else _check_metadata(_decoded(metadata, "file"), "file"), entries
    except CheckpointError:
        return None


def agree(text):
    found = quick(text)
    assert found is None or found == slow(text)
    return found


@st.composite
def entries(draw):
    kind = draw(st.sampled_from([*_BITS, "F31", ""]))
    shape = draw(st.lists(NUMBER, max_size=3))
    if draw(st.booleans()):  # a valid one
        shape = [str(draw(st.integers(1, 9))) for _ in shape]
        needed = _BITS.get(kind, 8)
        for size in shape:
            needed *= int(size)
        offsets = ["0", str(needed // 8)]
    else:
        offsets = draw(st.lists(NUMBER, min_size=1, max_size=3))
    s = draw(SPACE)
    members = [f'"dtype"{s}:"{kind}"', f'"shape":{s}[{",".join(shape)}]', f'"data_offsets":[{(s + ",").join(offsets)}{s}]']
    members = draw(st.permutations(members))
    members += draw(st.sampled_from([[], [], [], ['"extra":1'], [members[0]]]))
    return "{" + (s + "," + s).join(members) + s + "}"


@st.composite
def headers(draw):
    s = draw(SPACE)
    members = []
    for name in draw(st.lists(NAME, max_size=4)):
        value = draw(entries())
        if name == "__metadata__":
            value = draw(st.sampled_from(METADATA))
        members.append(f'"{name}"{s}:{s}{value}')
    return s + "{" + ",".join(members) + draw(st.sampled_from(["}", "}", "} ", "", "}}", ",}", "}\0"]))


@pytest.mark.slow
@given(headers())
def test_the_two_readers_agree(text):
    agree(text.encode("utf-8", "surrogatepass"))


@pytest.mark.slow
@given(headers(), st.integers(0, 10**6), st.binary(max_size=2))
def test_they_agree_on_damaged_headers(text, at, put):
    text = text.encode("utf-8", "surrogatepass")
    at %= len(text) + 1
    agree(text[:at] + put + text[at + 1 :])


def test_a_header_as_it_is_written_is_read_quickly():
    written = {
        "__metadata__": {"format": "pt", "config": '{"a": "}"}'},
        "wte": {"dtype": "F32", "shape": [10, 4], "data_offsets": [0, 160]},
        "gewicht.ü": {"dtype": "BF16", "shape": [2, 1, 3], "data_offsets": [160, 172]},
        "scale": {"dtype": "F64", "shape": [], "data_offsets": [172, 180]},
    }
    for options in ({"separators": (",", ":")}, {}, {"indent": 2}):
        for spaces in (b"", b"   "):
            found = agree(json.dumps(written, ensure_ascii=False, **options).encode() + spaces)
            assert found is not None and [entry[0] for entry in found[1]] == ["wte", "gewicht.ü", "scale"]
            assert found[0]["config"] == '{"a": "}"}'


@pytest.mark.parametrize("text", TOO_SHORT)
def test_texts_that_end_too_soon(text):
    assert plain_entries(text, _BITS) is None
