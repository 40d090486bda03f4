"""The safetensors reader: what it reads, what it refuses, and that it always raises the right error."""

import io
import json
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from metatensor.checkpoint import CheckpointError, inspect, load
from metatensor.checkpoint.formats import HEAD
from metatensor.checkpoint.safetensors import DTYPES, MAX_HEADER


def pack(header, data=b""):
    """Return a file with this header: a dict, or raw text."""
    text = header if isinstance(header, (str, bytes)) else json.dumps(header)
    text = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def refuse(content, *words):
    """Check that loading `content` raises a CheckpointError whose message contains all of `words`."""
    for read in (lambda: load(io.BytesIO(content), "meta"), lambda: inspect(io.BytesIO(content))):
        with pytest.raises(CheckpointError) as caught:
            read()
        for word in (*words, "open file"):
            assert word in str(caught.value)
        assert len(str(caught.value)) < 500


# Reading ----------------------------------------------------------------------


def test_names_shapes_and_dtypes_on_meta():
    content = pack({"a": entry(), "b": entry("BF16", (), (8, 10)), "c": entry("BOOL", (0, 3), (10, 10))}, bytes(10))
    tensors = load(io.BytesIO(content), map_location="meta")
    assert {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in tensors.items()} == {
        "a": (mt.float32, (2,)),
        "b": (mt.bfloat16, ()),
        "c": (mt.bool, (0, 3)),
    }
    assert all(tensor.is_meta for tensor in tensors.values())


@pytest.mark.parametrize("kind", [kind for kind, (bits, name) in DTYPES.items() if name and bits >= 8])
def test_every_dtype(kind):
    bits, name = DTYPES[kind]
    content = pack({"x": entry(kind, (3, 2), (0, 6 * bits // 8))}, bytes(6 * bits // 8))
    tensor = load(io.BytesIO(content), "meta")["x"]
    assert tensor.dtype is getattr(mt, name)
    assert tensor.nbytes == 6 * bits // 8
    assert inspect(io.BytesIO(content)).tensors["x"].dtype == name


def test_four_bit_floats_come_in_pairs():
    content = pack({"x": entry("F4", (3, 4), (0, 6))}, bytes(6))
    tensor = load(io.BytesIO(content), "meta")["x"]
    assert tensor.dtype is mt.float4_e2m1fn_x2
    assert tuple(tensor.shape) == (3, 2)
    assert inspect(io.BytesIO(content)).tensors["x"].shape == (3, 2)
    with pytest.raises(CheckpointError, match="pairs"):
        load(io.BytesIO(pack({"x": entry("F4", (2, 3), (0, 3))}, bytes(3))), "meta")


def test_a_dtype_without_counterpart_can_be_inspected_but_not_loaded():
    content = pack({"x": entry("F6_E2M3", (4,), (0, 3))}, bytes(3))
    assert inspect(io.BytesIO(content)).tensors["x"].dtype == "F6_E2M3"
    with pytest.raises(CheckpointError, match="'x' has dtype F6_E2M3"):
        load(io.BytesIO(content), "meta")


def test_inspect_tells_places_and_metadata():
    content = pack({"__metadata__": {"format": "pt"}, "b": entry(offsets=(8, 16)), "a": entry()}, bytes(16))
    found = inspect(io.BytesIO(content))
    start = len(content) - 16
    assert list(found.tensors) == ["a", "b"]
    assert [info.offset for info in found.tensors.values()] == [start, start + 8]
    assert found.metadata == {"format": "pt"}
    assert (found.format, found.parameters, found.nbytes, found.size) == ("safetensors", 4, 16, len(content))
    assert found.dtypes == {"float32": 4}
    assert json.loads(json.dumps(found.to_dict()))["tensors"]["a"]["shape"] == [2]


def test_only_the_header_is_read_for_meta(tmp_path):
    class Counting(io.FileIO):
        total = 0

        def read(self, size=-1):
            data = super().read(size)
            self.total += len(data)
            return data

    path = tmp_path / "big.safetensors"
    head = pack({"x": entry("F32", (2**20,), (0, 2**22))})
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(len(head) + 2**22)
    with Counting(path) as file:
        assert load(file, "meta")["x"].numel() == 2**20
        assert file.total < 2 * len(head) + HEAD


def test_found_by_content_not_by_name(tmp_path):
    path = tmp_path / "weights.bin"
    path.write_bytes(pack({"a": entry()}, bytes(8)))
    assert list(mt.load(path, map_location="meta")) == ["a"]
    assert list(mt.load(str(path), map_location=mt.device("meta"))) == ["a"]


def test_map_location_forms():
    content = pack({"a": entry()}, bytes(8))
    assert load(io.BytesIO(content), {"cpu": "meta"})["a"].is_meta
    with mt.device("meta"):
        assert load(io.BytesIO(content))["a"].is_meta
    with pytest.raises(TypeError, match="map_location"):
        load(io.BytesIO(content), 3.5)


def test_a_file_is_read_from_where_it_stands():
    file = io.BytesIO(b"before" + pack({"a": entry()}, bytes(8)))
    file.seek(6)
    assert list(load(file, "meta")) == ["a"]


def test_padding_after_the_header_is_allowed():
    assert list(load(io.BytesIO(pack(json.dumps({"a": entry()}) + "   ", bytes(8))), "meta")) == ["a"]


def test_an_empty_header():
    assert load(io.BytesIO(pack("{}")), "meta") == {}
    assert inspect(io.BytesIO(pack("{}"))).parameters == 0


def test_no_such_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        mt.load(tmp_path / "nothing.safetensors", map_location="meta")


# Refusing -------------------------------------------------------------------------


def test_truncated(tmp_path):
    whole = pack({"a": entry()}, bytes(8))
    path = tmp_path / "cut.safetensors"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match=r"cut\.safetensors: .*(truncated|known format|empty)"):
            mt.load(path, map_location="meta")


@pytest.mark.parametrize("length", [MAX_HEADER + 1, 2**32, 2**63 - 1, 2**64 - 1])
def test_a_huge_header_length(tmp_path, length):
    path = tmp_path / "huge.safetensors"
    path.write_bytes(struct.pack("<Q", length) + b"{}" + bytes(100))
    with pytest.raises(CheckpointError, match="header length is"):
        mt.load(path, map_location="meta")


def test_not_a_checkpoint(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("just some text, longer than eight bytes")
    with pytest.raises(CheckpointError, match=r"notes\.txt: not a checkpoint of a known format \(safetensors"):
        mt.load(path, map_location="meta")
    path.write_bytes(b"")
    with pytest.raises(CheckpointError, match="empty"):
        mt.load(path, map_location="meta")


BAD_HEADERS = [
    ('{"a"', "not JSON"),
    ('{"a": NaN}', "not JSON"),
    ('{"a": "\\ud800"}', "'a'", "a string"),
    ('{"\\ud800": {}}', "not Unicode"),
    (b'{"\xff": {}}', "UTF-8"),
    ('{"a": {"dtype":"F32","shape":[2],"data_offsets":[0,8]}, "a": {"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', "'a'", "twice"),
    ('{"a": {"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}', "'dtype' twice"),
    ('{"__metadata__": {"a": "1", "a": "2"}}', "twice"),
    ('{"__metadata__": {"a": 1}}', "__metadata__"),
    ('{"__metadata__": 1}', "__metadata__"),
    ('{"a": []}', "an array"),
    ('{"a": [["dtype","F32"],["shape",[2]],["data_offsets",[0,8]]]}', "an array"),
    ('{"a": 3}', "a number"),
    ('{"a": {"shape":[2],"data_offsets":[0,8]}}', "lacks 'dtype'"),
    ('{"a": {"dtype":"F32","data_offsets":[0,8]}}', "lacks 'shape'"),
    ('{"a": {"dtype":"F32","shape":[2]}}', "lacks 'data_offsets'"),
    ('{"a": {"dtype":"F32","shape":[2],"data_offsets":[0,8],"extra":1}}', "'extra'"),
    ({"a": entry("F33")}, "'F33'"),
    ({"a": entry(["F32"])}, "dtype"),
    ({"a": {"dtype": "F32", "shape": 2, "data_offsets": [0, 8]}}, "shape"),
    ({"a": entry(shape=(-2,))}, "-2"),
    ({"a": entry(shape=(2.0,))}, "2.0"),
    ({"a": entry(shape=(True, 2))}, "True"),
    ({"a": entry(shape=("2",))}, "'2'"),
    ({"a": entry(shape=(1,) * 65)}, "64"),
    ({"a": entry(shape=(2**63,))}, "size"),
    ({"a": entry(shape=(10**4000,))}, "bits"),
    ({"a": entry(shape=(2**40, 2**40))}, "more than 2**63 - 1 bytes"),
    ({"a": entry(shape=(2**62, 2**62, 0), offsets=(0, 0))}, "more than 2**63 - 1 bytes"),
    ({"a": entry(offsets=(0, 8, 9))}, "data_offsets"),
    ({"a": entry(offsets=(8, 0))}, "data_offsets"),
    ({"a": entry(offsets=(-8, 0))}, "data_offsets"),
    ({"a": entry(offsets=(0.0, 8.0))}, "data_offsets"),
    ({"a": entry(offsets=("0", "8"))}, "data_offsets"),
    ({"a": entry(offsets=(0, 2**63))}, "data_offsets"),
    ({"a": entry(offsets=(0, 10**4000))}, "data_offsets"),
    ({"a": entry(shape=(3,))}, "needs 12 bytes", "hold 8"),
    ({"a": entry("F6_E2M3", (3,), (0, 2))}, "needs 2.25 bytes"),
    ({"a": entry(), "b": entry(offsets=(4, 12))}, "'b'", "overlap"),
    ({"a": entry(), "b": entry()}, "overlap"),
    ({"a": entry(offsets=(4, 12))}, "gap"),
    ({"a": entry(), "b": entry(shape=(0,), offsets=(9, 9))}, "gap"),
]


@pytest.mark.parametrize("case", BAD_HEADERS, ids=[str(case[0])[:60] for case in BAD_HEADERS])
def test_bad_headers(case):
    header, *words = case
    refuse(pack(header, bytes(12)), *words)


def test_data_beyond_the_file():
    refuse(pack({"a": entry(shape=(4,), offsets=(0, 16))}, bytes(12)), "truncated", "'a'", "16", "12")


def test_bytes_that_belong_to_nobody():
    refuse(pack({"a": entry()}, bytes(12)), "4 bytes")


def test_a_header_that_is_no_object():
    # The format is given by the name, because the content matches none.
    for text in ("[]", "3", '"a"', "null"):
        with pytest.raises(CheckpointError):
            load(io.BytesIO(pack(text)), "meta")


@pytest.mark.parametrize("opener", ["[", '{"a":'])
def test_deep_nesting(opener):
    refuse(pack('{"a":' + opener * 200_000), "nested too deeply")


def test_a_long_name_is_shortened_in_messages():
    refuse(pack({"n" * 100_000: entry("X")}, bytes(8)), "nnn")


# Fuzzing ------------------------------------------------------------------------------

numbers = st.integers(-5, 20) | st.integers() | st.floats() | st.sampled_from([2**31, 2**63 - 1, 2**63, 2**64])
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=5) | st.sampled_from([*DTYPES, "dtype", "shape"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
entries = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from([*DTYPES]) | values,
        "shape": st.lists(st.integers(0, 5), max_size=4) | values,
        "data_offsets": st.tuples(st.integers(0, 64), st.integers(0, 64)).map(list) | values,
    },
)


def only_checkpoint_errors(content):
    try:
        tensors = load(io.BytesIO(content), "meta")
    except CheckpointError:
        return
    used = sum(tensor.nbytes for tensor in tensors.values())
    assert used == inspect(io.BytesIO(content)).nbytes <= len(content)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(st.dictionaries(st.text(max_size=8) | st.just("__metadata__"), entries | values, max_size=4), st.binary(max_size=64))
def test_any_json(header, data):
    only_checkpoint_errors(pack(header, data))


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(content):
    only_checkpoint_errors(content)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=4), st.integers(0, 400))
def test_a_sound_file_with_bytes_changed_and_cut(changes, cut):
    content = bytearray(pack({"__metadata__": {"format": "pt"}, "a": entry(), "b": entry("I64", (2, 1), (8, 24))}, bytes(24)))
    for place, value in changes:
        content[place % len(content)] = value
    only_checkpoint_errors(bytes(content[: len(content) - cut % 40]))


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=8).filter(lambda name: name != "__metadata__"),
        st.tuples(st.sampled_from(["F32", "I64", "BF16", "U8", "C64"]), st.lists(st.integers(0, 4), max_size=4)),
        max_size=6,
    )
)
def test_every_sound_file_is_read(tensors):
    header, at = {}, 0
    for name, (kind, shape) in tensors.items():
        size = DTYPES[kind][0] // 8
        for dim in shape:
            size *= dim
        header[name] = entry(kind, shape, (at, at + size))
        at += size
    found = load(io.BytesIO(pack(header, bytes(at))), "meta")
    assert {name: (tensor.dtype.name, list(tensor.shape)) for name, tensor in found.items()} == {
        name: (DTYPES[kind][1], shape) for name, (kind, shape) in tensors.items()
    }


@pytest.mark.slow
def test_mapped(tmp_path):
    pytest.importorskip("numpy")
    path = tmp_path / "model.safetensors"
    with mt.device("cpu"):
        state = {"big": mt.arange(1 << 20, dtype=mt.float32), "b": mt.arange(7), "e": mt.empty(0, 2)}
        state |= {"c": mt.ones(3, dtype=mt.int8), "odd": mt.ones(1, dtype=mt.int8)}
    mt.save(state, path)
    before = path.read_bytes()
    for file in (path, io.BytesIO(before)):
        ours = load(file, "cpu", mmap=True)
        assert {name: (value.shape, value.tolist()) for name, value in ours.items()} == {
            name: (value.shape, value.tolist()) for name, value in state.items()
        }
        ours["big"].add_(1)
        assert ours["big"][0].item() == 1 and path.read_bytes() == before

    def allocated(**more):
        """Return the bytes that a load allocates on the device."""
        mt.plugins.backend("cpu").reset_peak_memory_stats()
        kept = load(path, "cpu", **more)
        begin = mt.plugins.backend("cpu").memory_stats()["allocated_bytes.all.current"]
        del kept
        return begin - mt.plugins.backend("cpu").memory_stats()["allocated_bytes.all.current"]

    assert allocated() >= 4 << 20 and allocated(mmap=True) < 1 << 16
    with open(tmp_path / "later", "wb") as out:
        out.write(b"12345" + before)
    with open(tmp_path / "later", "rb") as file:
        file.seek(5)  # nothing is aligned there
        assert load(file, "cpu", mmap=True)["b"].tolist() == list(range(7))
