"""GGUF: files built here and by the gguf package."""

import io
import struct

import pytest

from checkpoint import samples
from checkpoint.samples import gguf
from metatensor.checkpoint import CheckpointError, inspect, load
from metatensor.checkpoint.gguf import BLOCKS, PLAIN

np = pytest.importorskip("numpy")


def refuse(content, *words):
    with pytest.raises(CheckpointError) as caught:
        load(io.BytesIO(content), "meta")
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_file_by_hand():
    pairs = [("general.alignment", 4, struct.pack("<I", 64)), ("name", 8, samples.text("é")), ("on", 7, b"\1")]
    values = np.arange(6, dtype="<f4")
    content = gguf([("w", (3, 2), 0, 0), ("b", (2,), 1, 64)], pairs, values.tobytes() + bytes(40) + b"\0\x3c\0\x40", align=64)
    found = load(io.BytesIO(content), "cpu")
    assert found["w"].tolist() == [[0, 1, 2], [3, 4, 5]]  # the first size is the innermost
    assert found["b"].tolist() == [1.0, 2.0]
    listed = inspect(io.BytesIO(content))
    assert listed.metadata == {"general.alignment": "64", "name": "é", "on": "True"}
    assert listed.tensors["w"].shape == (2, 3)
    assert listed.tensors["b"].dtype == "float16"


@pytest.mark.parametrize("kind", sorted(BLOCKS))
def test_quantised_types_are_blocks(kind):
    name, elements, nbytes = BLOCKS[kind]
    content = gguf([("q", (2 * elements, 3), kind, 0)], data=bytes(range(256)) * 30)
    info = inspect(io.BytesIO(content)).tensors["q"]
    assert (info.dtype, info.shape, info.nbytes) == (name, (3, 2 * elements), 6 * nbytes)
    tensor = load(io.BytesIO(content), "cpu")["q"]
    assert (tensor.dtype.name, tuple(tensor.shape)) == ("uint8", (3, 2 * nbytes))
    assert bytes(tensor.flatten().tolist()) == (bytes(range(256)) * 30)[: 6 * nbytes]


def test_long_arrays_are_shortened_and_all_kinds_are_read():
    strings = struct.pack("<IQ", 8, 1000) + b"".join(samples.text(f"t{i}") for i in range(1000))
    numbers = struct.pack("<IQ", 4, 3) + struct.pack("<3I", 1, 2, 3)
    nested = struct.pack("<IQ", 9, 2) + 2 * (struct.pack("<IQ", 0, 1) + b"\7")
    pairs = [("tokens", 9, strings), ("ids", 9, numbers), ("nested", 9, nested)]
    metadata = inspect(io.BytesIO(gguf(pairs=pairs))).metadata
    assert metadata["tokens"].endswith("... 1,000 items]")
    assert metadata["ids"] == "[1, 2, 3]"


def test_what_is_refused():
    refuse(gguf(version=1), "version 1")
    refuse(gguf(version=0), "version 0")
    refuse(gguf(counts=(1 << 60, 0)), "tensors")
    refuse(gguf(counts=(1, 1 << 60)), "metadata")
    refuse(gguf(counts=(5, 0)), "truncated")
    refuse(gguf([("w", (3, 2), 99, 0)]), "type 99")
    refuse(gguf([("w", (3, 2), 12, 0)]), "blocks of 256")
    refuse(gguf([("w", (1 << 40, 1 << 40), 0, 0)]), "2**63")
    refuse(gguf([("w", (1,) * 9, 0, 0)]), "9 dimensions")
    refuse(gguf([("w", (3,), 0, 5)]), "alignment")
    refuse(gguf([("w", (3,), 0, 1 << 40)]), "truncated")
    refuse(gguf([("w", (3,), 0, 0), ("w", (3,), 0, 32)]), "twice")
    refuse(gguf([("w", (16,), 0, 0), ("v", (3,), 0, 32)], data=bytes(96)), "overlap")
    refuse(gguf(pairs=[("a", 13, b"")]), "type 13")
    refuse(gguf(pairs=[("a", 4, bytes(4)), ("a", 4, bytes(4))]), "twice")
    refuse(gguf(pairs=[("general.alignment", 4, struct.pack("<I", 3))]), "power of two")
    refuse(gguf(pairs=[("general.alignment", 4, struct.pack("<I", 0))]), "power of two")
    refuse(gguf(pairs=[("a", 9, struct.pack("<IQ", 8, 1 << 50))]), "truncated")
    refuse(gguf(pairs=[("a", 9, 8 * struct.pack("<IQ", 9, 1) + struct.pack("<IQ", 0, 1) + b"\1")]), "nested")
    refuse(gguf()[:40], "truncated")
    refuse(b"GGUF", "truncated")


def test_meta_reads_no_data(tmp_path):
    path = tmp_path / "huge.gguf"
    with open(path, "wb") as file:
        file.write(gguf([("w", (1 << 20, 1 << 18), 0, 0)], data=b""))
        file.truncate((1 << 40) + (1 << 20))
    assert load(path, "meta")["w"].shape == (1 << 18, 1 << 20)


@pytest.mark.parametrize("big", [False, True])
def test_against_the_package(tmp_path, big):
    package = pytest.importorskip("gguf")
    order = package.GGUFEndian.BIG if big else package.GGUFEndian.LITTLE
    writer = package.GGUFWriter(tmp_path / "x.gguf", "llama", endianess=order)
    writer.add_string("general.name", "tiny")
    writer.add_array("tokenizer.ggml.tokens", ["a", "b", "é"] * 10)
    rng = np.random.default_rng(0)
    arrays = {"f32": rng.standard_normal((3, 64)).astype("f4"), "f16": rng.standard_normal(5).astype("f2"),
              "i32": np.arange(6, dtype="i4").reshape(2, 3), "f64": rng.standard_normal((2, 2))}  # fmt: skip
    for name, array in arrays.items():
        writer.add_tensor(name, array)
    quantised = package.quants.quantize(arrays["f32"], package.GGMLQuantizationType.Q8_0)
    if not big:
        writer.add_tensor("q8", quantised, raw_dtype=package.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = load(tmp_path / "x.gguf", "cpu")
    for name, array in arrays.items():
        assert found[name].dtype.name == array.dtype.name
        assert np.array_equal(found[name].numpy(), array), name
    if not big:
        assert np.array_equal(found["q8"].numpy(), quantised)
    metadata = inspect(tmp_path / "x.gguf").metadata
    assert metadata["general.name"] == "tiny"
    assert "30 items" in metadata["tokenizer.ggml.tokens"]


def test_the_packages_table_of_types_is_ours():
    package = pytest.importorskip("gguf")
    theirs = {int(kind): (kind.name, *sizes) for kind, sizes in package.GGML_QUANT_SIZES.items()}
    ours = {kind: (name, None, None) for kind, (name, _) in PLAIN.items()} | BLOCKS
    for kind, (name, elements, nbytes) in theirs.items():
        if kind in ours and name != "Q8_1":  # a type of ggml's computations that occurs in no file; the package gives it wider scales
            assert ours[kind] in ((name, None, None), (name, elements, nbytes))
