"""More than 500 files that could cost excessive time or memory. Each is generated and read in a separate process.

    python tests/checkpoint/costly.py [step] [part of a name]

Each file is loaded onto meta and onto the cpu, listed, and converted. All of these must return a result or raise
`CheckpointError`, and use at most `SECONDS` of processor time and `BYTES` of additional memory.
"""

# ruff: noqa: E501
import io
import itertools
import json
import os
import pickle
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import zipfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1])] if __name__ == "__main__" else []

import metatensor as mt
from checkpoint import chunks, samples
from checkpoint.hostile import P2, P4, legacy, long4, name, storage, tensor, text
from metatensor.checkpoint import CheckpointError, convert, inspect, load

SECONDS = 2.0
BYTES = 256 << 20

FILES = {}
"""Name -> function that writes the file into a given folder and returns the path to load."""


def file(label, make, *args):
    """Register a file. ``make(*args)`` returns its content, or a dict of contents by file name, the first of which is loaded."""

    def write(folder):
        content = make(*args)
        if isinstance(content, dict):
            for base, data in content.items():
                (folder / base).write_bytes(data)
            return folder / next(iter(content))
        if callable(content):
            return content(folder)
        path = folder / "model.bin"
        path.write_bytes(content)
        return path

    assert label not in FILES, label
    FILES[label] = write


# Pickles --------------------------------------------------------------------------


def packed(data, storages=(("0", bytes(16)),), method=8):
    """Return a compressed PyTorch archive with this pickle."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("a/data.pkl", data)
        for key, content in storages:
            archive.writestr(f"a/data/{key}", content)
    return out.getvalue()


def pickled(label, make, *args):
    """Register a pickle in three forms: in a compressed archive, in an uncompressed one, and in the older format."""
    file(f"{label}, compressed", lambda: packed(make(*args)))
    file(f"{label}, stored", lambda: packed(make(*args), method=0))
    file(f"{label}, older", lambda: legacy(make(*args)))


def number(value):
    """Return LONG4 with any integer."""
    return long4(value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))


def frozen(items):
    return b"(" + b"".join(items) + b"\x91"


def small(values):
    return [number(v) if not -(2**31) <= v < 2**31 else b"J" + struct.pack("<i", v) for v in values]


def again(prepare, use, count, end=b"t."):
    """Return a pickle that memoizes the value of ``prepare`` and uses it ``count`` times by ``use``."""
    return P4 + prepare + b"(" + use * count + end


def orbit(bits, count, step=1):
    """Return integers that lie on the probe sequence of 0 in a hash table with 2**bits entries."""
    mask, i, found = (1 << bits) - 1, 0, [step << bits]
    for _ in range(count):
        i = 5 * i + 1 & mask
        found.append(i)
    return found


KEYS = {
    "frozensets": (frozen(small(7 * i for i in range(40000))),) * 2,
    "small frozensets": (frozen(small(i << 20 for i in range(250))),) * 2,
    "long texts": (text("k" * 3_000_000),) * 2,
    "long bytes": (b"B" + struct.pack("<I", 3_000_000) + b"k" * 3_000_000,) * 2,
    "tuples of long integers": (b"(" + number(1 << 4000) * 250 + b"t",) * 2,
    "tuples of texts": (b"(" + text("x" * 100_000) * 20 + b"t",) * 2,
    "nested tuples": (b"(" + b"".join(small(range(15))) + b"t" + b"2" * 15 + b"(" + b"K\1" * 100 + b"tt",) * 2,
    "long integers": (number((1 << 30000) - 1),) * 2,
    "wide integers": (number((1 << 4090) - 1),) * 2,
    "ranges": (name("builtins", "range") + b"(K\0" + number(1 << 100000) + b"K\1tR",) * 2,
    "tuples of frozensets": (b"(" + b"".join(frozen(small(i << 30 for i in range(20))) for _ in range(12)) + b"t",) * 2,
}


def keys_again(first, second, container):
    """Return a pickle that sets a key and an equal key in a container again and again."""
    prepare = (first + b"q\x000" + second + b"q\x010") if b"2" * 15 not in first else P4[:0] + b"Nq\x000Nq\x010"
    if container == "dict":
        return P4 + prepare + b"}" + b"h\0Nsh\1Ns" * 40000 + b"."
    if container == "items":
        return P4 + prepare + b"}(" + b"h\0Nh\1N" * 40000 + b"u."
    if container == "set":
        return P4 + prepare + b"\x8f(" + b"h\0h\1" * 40000 + b"\x90."
    if container == "frozenset":
        return P4 + prepare + b"(" + b"h\0h\1" * 40000 + b"\x91."
    if container == "ordered":
        return P4 + prepare + name("collections", "OrderedDict") + b")R(" + b"h\0Nh\1N" * 40000 + b"u."
    return P4 + prepare + name("builtins", "set") + b"(](" + b"h\0h\1" * 40000 + b"etR."


for label, (one, two) in KEYS.items():
    for container in ("dict", "items", "set", "frozenset", "ordered", "call"):
        file(f"equal {label} in {container}", lambda one=one, two=two, container=container: packed(keys_again(one, two, container)))

for bits in (11, 13, 15, 17, 18):
    for container in ("dict", "set", "ordered", "call"):
        for kind in ("the same", "others"):

            def crowded(bits=bits, container=container, kind=kind):
                keys = small(orbit(bits, int(0.6 * (1 << bits)) - 2000))
                more = [b"K\0"] * 200_000 if kind == "the same" else small(i << bits for i in range(2, 1900))
                if container in ("dict", "ordered"):
                    start = b"}(" if container == "dict" else name("collections", "OrderedDict") + b")R("
                    return packed(P2 + start + b"".join(key + b"N" for key in keys + more) + b"u.")
                if container == "set":
                    return packed(P4 + b"\x8f(" + b"".join(keys + more) + b"\x90.")
                return packed(P4 + name("builtins", "frozenset") + b"(](" + b"".join(keys + more) + b"etR.")

            file(f"integers on one path of {bits} bits in {container}, {kind}", crowded)

for shape in (12, 2, 1):
    pickled(f"tuples of {shape} with one hash", lambda shape: P2 + b"}(" + b"".join(
        b"(" + b"".join(small(-1 - (i >> k & 1) for k in range(12))) * (12 // shape) + b"tN" for i in range(4096)) + b"u.", shape)
pickled("fractions on one path", lambda: P2 + b"}(" + b"".join(
    b"G" + struct.pack(">d", i * 2.0**-20 * 2**40) + b"N" for i in range(60000)) + b"u.")

for kind in ("range", "slice", "xrange"):
    for bits in (1000, 100_000, 800_000):
        pickled(f"a {kind} of {bits} bits", lambda kind, bits: P2 + name("__builtin__" if kind == "xrange" else "builtins", kind) + b"q\x00(K\0"
                + number(1 << bits) + number((1 << bits // 2) - 1) + b"tq\x010(" + b"h\0h\1R" * 2000 + b"t.", kind, bits)

COPIES = {
    "frozensets": (b"](" + b"".join(small(range(50000))) + b"e\x85q\0000" + name("builtins", "frozenset") + b"q\0010", b"h\1h\0R"),
    "sets": (b"](" + b"".join(small(range(50000))) + b"e\x85q\0000" + name("builtins", "set") + b"q\0010", b"h\1h\0R"),
    "sizes": (b"(" + b"K\1" * 50000 + b"t\x85q\0000" + name("torch", "Size") + b"q\0010", b"h\1h\0R"),
    "ordered dicts": (b"](" + b"NN\x86" * 20000 + b"e\x85q\0000" + name("collections", "OrderedDict") + b"q\0010", b"h\1h\0R"),
    "counters": (b"}(" + b"".join(key + b"K\1" for key in small(range(20000))) + b"u\x85q\0000" + name("collections", "Counter") + b"q\0010", b"h\1h\0R"),
    "bytes": (b"B" + struct.pack("<I", 1 << 20) + bytes(1 << 20) + b"\x85q\0000" + name("builtins", "bytearray") + b"q\0010", b"h\1h\0R"),
    "encoded": (text("x" * (1 << 20)) + text("latin1") + b"\x86q\0000" + name("_codecs", "encode") + b"q\0010", b"h\1h\0R"),
    "arrays": (b"(" + b"B" + struct.pack("<I", 1 << 20) + bytes(1 << 20) + name("numpy", "dtype") + text("u1") + b"\x85R"
               + b"J" + struct.pack("<i", 1 << 20) + b"\x85" + text("C") + b"tq\0000" + name("numpy.core.numeric", "_frombuffer") + b"q\0010", b"h\1h\0R"),
    "attributes": (b"}(" + b"".join(text(f"a{i}") + b"N" for i in range(20000)) + b"uq\0000" + name("collections", "OrderedDict") + b"q\0010", b"h\1)Rh\0b"),
    "long attributes": (b"}" + text("a" * 1_000_000) + b"Nsq\0000" + name("collections", "OrderedDict") + b"q\0010", b"h\1)Rh\0b"),
    "globals": (text("__torch__." + "m" * 3000) + b"q\0000" + text("C") + b"q\0010", b"h\0h\1\x93"),
    "names": (text("u" * 3000) + b"q\0000" + text("C") + b"q\0010", b"h\0h\1\x93"),
    "empty sets": (b"N", b"\x8f"),
    "empty dicts": (b"N", b"}"),
    "empty ordered dicts": (name("collections", "OrderedDict") + b"q\0000", b"h\0)R"),
    "tuples": (b"Nq\0000", b"h\0\x85"),
    "dtypes": (name("numpy", "dtype") + b"q\0000" + text("f4") + b"\x85q\0010", b"h\0h\1R"),
    "meta tensors": (name("torch._utils", "_rebuild_meta_tensor_no_storage") + b"q\0000(" + name("torch", "float32") + b"(" + b"K\1" * 60 + b"t("
                     + b"K\1" * 60 + b"t\x89tq\0010", b"h\0h\1R"),
    "tensors": (tensor() + b"q\0000", b"h\0\x85"),
}  # fmt: skip
for label, (prepare, use) in COPIES.items():
    pickled(f"{label} again and again", again, prepare + (b"0" if prepare == b"N" else b""), use, 60_000)


# Traversal of results -------------------------------------------------------------


def shared_lists(*counts):
    """Return a pickle of a list that contains a list several times, and so on down to a tensor."""
    out = P2 + tensor() + b"q\0000"
    for i, count in enumerate(counts):
        out += b"](" + b"h" + bytes([i]) + b"h" + bytes([i]) * 0 + (b"h" + bytes([i])) * (count - 1) + b"eq" + bytes([i + 1]) + b"0" if False else (
            b"](" + (b"h" + bytes([i])) * count + b"eq" + bytes([i + 1]) + b"0")
    return out + b"h" + bytes([len(counts)]) + b"."


def spelled(depth, separator="."):
    """Return a pickle of nested dicts whose paths all give the same name."""
    out = P2 + tensor() + b"q\0q\x010"
    x = b"\0"
    for i in range(depth):
        x, y = bytes([i % 2]), bytes([(i + 1) % 2])
        out += b"}" + text("a") + b"h" + y + b"s" + text(f"a{separator}a") + b"h" + x + b"sq" + x + b"0"
    return out + b"h" + x + b"."


def deep(keys, length, tensors=1):
    """Return a pickle of nested dicts with long keys."""
    return P2 + text("k" * length) + b"q\0000" + b"}h\0" * keys + b"(" + tensor() * tensors + b"t" + b"s" * keys + b"."


def unknown(inner):
    """Return a pickle in which a value is the state of an object of an unknown class."""
    return P2 + name("somewhere", "Module") + b")R" + inner[2:-1] + b"b."


for counts in ((2000, 100), (210, 210, 210), (60, 60, 60, 30), (10,) * 6, (100_000, 3)):
    pickled(f"shared lists of {counts}", shared_lists, *counts)
    file(f"shared lists of {counts} in an unknown object", lambda counts=counts: packed(unknown(shared_lists(*counts))))
for depth in (16, 22, 28, 40, 90):
    pickled(f"paths of one name, {depth} deep", spelled, depth)
for keys, length in ((150, 1_000_000), (190, 100_000), (100, 30_000)):
    for tensors in (1, 300):
        pickled(f"{keys} keys of {length} characters, {tensors} tensors", deep, keys, length, tensors)
        file(f"{keys} keys of {length} characters, {tensors} tensors, unknown", lambda k=keys, n=length, t=tensors: packed(unknown(deep(k, n, t))))
for length in (1_000_000, 5_000_000):
    pickled(f"a name of {length} characters", lambda length: P2 + b"}" + text("n." * (length // 2)) + tensor() + b"s.", length)


def script(data, constants=P2 + b")."):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", 8) as archive:
        for base, content in (("data.pkl", data), ("constants.pkl", constants), ("version", b"3\n"), ("data/0", bytes(16))):
            archive.writestr(f"a/{base}", content)
    return out.getvalue()


for count in (20_000, 200_000):
    for length in (40, 3000):
        file(f"{count} names of classes of {length} characters", lambda count=count, length=length: script(
            again(text("__torch__." + "m" * length) + b"q\0000" + text("C") + b"q\0010", b"h\0h\1\x93)\x81", count)))
        file(f"{count} different classes of {length} characters", lambda count=count, length=length: script(
            P4 + text("m" * length) + b"q\0000(" + b"".join(text(f"__torch__.{i}") + b"h\0\x93)\x81" for i in
            range(count // 10)) + b"t."))
for counts in ((210, 210, 210), (1000, 1000)):
    file(f"a script of shared lists of {counts}", lambda counts=counts: script(shared_lists(*counts)))
    file(f"a script with constants of shared lists of {counts}", lambda counts=counts: script(P2 + tensor() + b".", shared_lists(*counts)))
file("a script of paths of one name", lambda: script(spelled(28)))


# Tensors computed from values -----------------------------------------------------


def expanded(numel, itemsize=4):
    return tensor(size=number(numel) + b"\x85", stride=(0,))


def device_tensor(values, dtype="float32", function="cpu_tensor", location="cpu"):
    return name("torch._utils", f"_rebuild_device_tensor_from_{function}") + b"(" + values + name("torch", dtype) + text(location) + b"\x89tR"


def array(code, data=bytes(16), shape=None):
    return name("numpy.core.numeric", "_frombuffer") + b"(B" + struct.pack("<I", len(data)) + data + name("numpy", "dtype") + b"(" + text(code) \
        + b"\x89\x88tR" + (b"K\1\x85" if shape is None else shape) + text("C") + b"tR"  # fmt: skip


for power in (20, 28, 33, 40, 60):
    pickled(f"a tensor of 2**{power} elements in one", lambda power: P2 + b"}" + text("w") + expanded(1 << power) + b"s.", power)
    pickled(f"a device's tensor of 2**{power} elements in one", lambda power: P2 + device_tensor(expanded(1 << power)) + b".", power)
for dtype in ("complex128", "qint8", "float4_e2m1fn_x2", "bool", "int64", "complex32", "float8_e5m2"):
    pickled(f"a device's tensor of {dtype} from floats", lambda dtype: P2 + device_tensor(tensor(), dtype) + b".", dtype)
for code in (">f4", ">i8", "f2", "<c8", ">c16", "S16", "U4", "b1", "<f8", "f16", "c32"):
    size = {"S16": 1, "U4": 1, "b1": 16, "f2": 8, ">f4": 4, "<f8": 2, ">i8": 2, "<c8": 2, ">c16": 1, "f16": 1, "c32": 1}[code]
    data = bytes(32 if code == "c32" else 16)
    pickled(f"a device's tensor of an array of {code}", lambda code, data, size: P2 + device_tensor(
        array(code, data, b"K" + bytes([size]) + b"\x85"), "float32", "numpy") + b".", code, data, size)
pickled("an array of 2**40 bytes", lambda: P2 + name("numpy.core.numeric", "_frombuffer") + b"(" + number(1 << 40) + name("numpy", "dtype")
        + b"(" + text("u1") + b"\x89\x88tRK\1\x85" + text("C") + b"tR.")
pickled("a device's tensor of one on meta", lambda: P2 + device_tensor(
    name("torch._utils", "_rebuild_meta_tensor_no_storage") + b"(" + name("torch", "float32") + b"K\4\x85K\1\x85\x89tR") + b".")
for count in (100, 20_000):
    file(f"{count} devices' tensors of one storage", lambda count=count: packed(
        again(device_tensor(tensor(storage("0", 1 << 16), size=(1 << 16,)))[:-1].replace(b"tR", b"tR") + b"q\0000" + name("torch._utils",
              "_rebuild_device_tensor_from_cpu_tensor") + b"q\0010", b"h\1h\0R", count), [("0", bytes(1 << 18))]))
for location in ("cuda:0", "cuda:999", "xla:0", "nonsense:1", "a" * 90, "Ω", "\x1b[31m"):
    pickled(f"a tensor saved on {location!r}", lambda location: P2 + tensor(storage(location=location)) + b".", location)
file("20,000 devices", lambda: packed(P2 + b"(" + b"".join(
    name("torch", "device") + text(f"dev{i}") + b"\x85R" for i in range(20000)) + b"t."))
file("20,000 locations", lambda: packed(P2 + b"(" + b"".join(tensor(storage(str(i), location=f"place{i}")) for i in range(2000)) + b"t.",
                                         [(str(i), bytes(16)) for i in range(2000)], 0))


# Archives -------------------------------------------------------------------------

for count in (200, 2000):
    for size in (1 << 16, 1 << 22):
        file(f"{count} views of one compressed storage of {size} bytes", lambda count=count, size=size: packed(
            P2 + b"}(" + b"".join(text(f"v{i}") + tensor(storage("0", size // 4), offset=i, size=(4,)) for i in
            range(count)) + b"u.", [("0", bytes(size))]))
for size in (1 << 20, 1 << 26, 1 << 28, 1 << 29):
    file(f"a compressed storage of {size} zeros", lambda size=size: packed(P2 + tensor(storage("0", size // 4), size=(4,)) + b".", [("0", bytes(size))]))
    file(f"a compressed pickle of {size} bytes", lambda size=size: packed(P2 + b"N0" * (size // 2) + b"N."))
for count in (100, 3000):
    for size in (1 << 10, 1 << 17):
        file(f"{count} compressed arrays of {size} zeros", lambda count=count, size=size: samples.npz(
            {f"a{i}": samples.npy("|u1", (size,), bytes(size)) for i in range(min(count, (1 << 28) // size))}, compressed=True))
for length in (60_000, 1000):
    file(f"500 members with names of {length} characters", lambda length=length: packed(
        P2 + b"N.", [(f"{i}{'n' * length}", b"") for i in range(500)]))


# ONNX -----------------------------------------------------------------------------


def nested(depth, label, tensors, at="If"):
    """Return an ONNX file with tensors in nested graphs."""
    graph = b"".join(samples.field(5, samples.field(1, 0) + samples.field(2, 1) + samples.field(8, str(i))) for i in range(tensors))
    for _ in range(depth):
        node = samples.field(3, label) + samples.field(4, at) + samples.field(5, samples.field(1, "b") + samples.field(6, graph))
        graph = samples.field(1, node)
    return samples.field(1, 8) + samples.field(2, "x") + samples.field(7, graph)


for depth in (5, 20, 31, 33, 200):
    for length in (10, 65536):
        for tensors in (100, 20_000):
            file(f"{tensors} tensors {depth} graphs deep, names of {length}", nested, depth, "n" * length, tensors)


def external(count, elements, size, offsets=lambda i: 0):
    def one(i):
        entries = [samples.field(1, "location") + samples.field(2, "w.bin"), samples.field(1, "offset") + samples.field(2, str(offsets(i)))]
        return samples.onnx_tensor(f"t{i}", (elements,), 1, None, f13=entries, f14=1)

    return {"m.onnx": samples.onnx([one(i) for i in range(count)]), "w.bin": bytes(size)}


for count in (2, 300, 5000):
    for elements in (16, 1 << 16, 1 << 18):
        file(f"{count} tensors of {elements} elements in one range", external, count, elements, 1 << 20)
    file(f"{count} tensors in ranges one element apart", external, count, 1 << 17, 1 << 20, lambda i: 4 * i)
for count in (1000, 300_000):
    empty = b"\x0a\0" * count
    file(f"{count} empty fields of a graph", lambda e=empty: samples.field(1, 8) + samples.field(2, "x") + samples.field(7, e))
    file(f"{count} attributes of a node", lambda c=count: samples.onnx(nodes=[b"\x2a\0" * c]))
    file(f"{count} tensors of an attribute", lambda c=count: samples.onnx(nodes=[samples.field(4, "Constant") + samples.field(5, b"\x2a\0" * c)]))
    file(f"{count} sizes of a tensor", lambda c=count: samples.onnx([b"\x08\1" * c + samples.field(2, 1)]))
    file(f"{count} unpacked elements", lambda c=count: samples.onnx([samples.onnx_tensor("w", (c,), 7, None) + b"\x38\1" * c]))
    file(f"{count} packed elements", lambda c=count: samples.onnx([samples.onnx_tensor("w", (c,), 7, None, f7=b"\x81\1" * c)]))
    file(f"{count} metadata", lambda c=count: samples.onnx() + samples.field(14, b"") * c)
    file(f"{count} empty tensors", lambda c=count: samples.onnx([b""] * c))


# GGUF -----------------------------------------------------------------------------


def big_endian(count):
    """Return a file with tensors of the other byte order."""
    out = b"GGUF" + struct.pack(">IQQ", 3, count, 0)
    for i in range(count):
        label = f"t{i}".encode()
        out += struct.pack(">Q", len(label)) + label + struct.pack(">IQIQ", 1, 8, 0, 32 * i)
    return out + bytes(-len(out) % 32) + bytes(32 * count)


for count in (100, 5000, 30_000):
    file(f"{count} tensors of the other byte order", big_endian, count)
for inner in (8, 9):
    for count in (1000, 300_000, 2_000_000):
        file(f"an array of {count} empty items of type {inner}", lambda inner=inner, count=count: samples.gguf(
            pairs=[("a", 9, struct.pack("<IQ", inner, count) + bytes((8 if inner == 8 else 12) * count))]))
for count in (10, 60_000):
    file(f"{count} pairs of metadata", lambda count=count: samples.gguf(pairs=[(f"k{i}", 7, b"\1") for i in range(count)]))
for length in (60_000, 5_000_000):
    file(f"metadata of {length} characters", lambda n=length: samples.gguf(pairs=[("a", 8, samples.text("x" * n))]))
    file(f"a GGUF name of {length} characters", lambda n=length: samples.gguf([("n" * n, (3, 2), 0, 0)]))


# Distributed ----------------------------------------------------------------------


def part(numel, stride=1, size=None, dims=1):
    """Return a chunk of float32 with ``dims`` dimensions, all but the last of size 1."""
    ones = (1,) * (dims - 1)
    data = P2 + tensor(storage("0", numel), size=(*ones, size or numel), stride=(*ones, stride)) + b"."
    return packed(data, [("0", bytes(4 * numel))], 0)


def distributed(tensors, content, others=(), change=None):
    """Return a distributed checkpoint with tensors given as name -> (shape, [(offsets, sizes, begin, length)])."""
    records = chunks.maker()
    table, places = {}, {}
    for key, (shape, parts) in tensors.items():
        for offsets, _, begin, length in parts:
            info = records("_StorageInfo", chunks.FILESYSTEM, relative_path="__0_0.distcp", offset=begin, length=length)
            places[records("MetadataIndex", fqn=key, offset=offsets, index=None)] = info
        listed = [records("ChunkStorageMetadata", offsets=offsets, sizes=sizes) for offsets, sizes, _, _ in parts]
        table[key] = records("TensorStorageMetadata", properties=records("TensorProperties", dtype=chunks.Dtype("float32")), size=shape, chunks=listed)
    for key, begin, length in others:
        table[key] = records("BytesStorageMetadata")
        info = records("_StorageInfo", chunks.FILESYSTEM, relative_path="__0_0.distcp", offset=begin, length=length)
        places[records("MetadataIndex", fqn=key, offset=None, index=None)] = info
    out = io.BytesIO()
    chunks.Pickler(out, protocol=4).dump(records("Metadata", state_dict_metadata=table, planner_data=None, storage_data=places))
    return {".metadata": out.getvalue(), "__0_0.distcp": content}


def claims(count, numel):
    data = part(numel)
    return distributed({f"t{i}": ((numel,), [((0,), (numel,), 0, len(data))]) for i in range(count)}, data)


def strided(size):
    data = part(4, 0, size)
    return distributed({"t": ((size,), [((0,), (size,), 0, len(data))])}, data)


def grid(*cuts, break_it=None):
    """Return a tensor that is cut along every dimension. All chunks have the same byte range."""
    data = part(1, dims=len(cuts))
    shape = tuple(cuts)
    parts = [(place, (1,) * len(cuts), 0, len(data)) for place in itertools.product(*map(range, cuts))]
    if break_it == "overlap":
        parts[-1] = (parts[0][0][:-1] + (1,), *parts[-1][1:])
    return distributed({"t": (shape, parts)}, data)


for count, numel in ((2, 1000), (1000, 1 << 16), (600, 1 << 18), (800, 4)):
    file(f"{count} distributed tensors of {numel} elements in one range", claims, count, numel)
for size in (1 << 20, 1 << 26, 1 << 40):
    file(f"a chunk of {size} elements of stride 0", strided, size)
for cuts in ((1500,), (30, 30), (10, 10, 10), (2,) * 9, (1500, 1), (1, 1500)):
    for broken in (None, "overlap"):
        file(f"chunks {cuts}, {broken}", lambda cuts=cuts, broken=broken: grid(*cuts, break_it=broken))
for bits in (64, 40_000):
    huge = 1 << bits
    file(f"a chunk at 2**{bits}", lambda h=huge: distributed({"t": ((4,), [((h,), (4,), 0, 4)])}, part(4)))
    file(f"a chunk of 2**{bits}", lambda h=huge: distributed({"t": ((h,), [((0,), (h,), 0, 4)])}, part(4)))
    file(f"a place at 2**{bits}", lambda h=huge: distributed({"t": ((4,), [((0,), (4,), h, 4)])}, part(4)))
    file(f"a place of 2**{bits}", lambda h=huge: distributed({"t": ((4,), [((0,), (4,), 0, h)])}, part(4)))
for count in (10, 500):
    bomb = packed(P2 + tensor(storage("0", 1 << 22), size=(4,)) + b".", [("0", bytes(1 << 24))])
    file(f"{count} values in one range", lambda c=count, b=bomb: distributed({}, b, [(f"v{i}", 0, len(b)) for i in range(c)]))
    spam = packed(P2 + b"(" + b"\x8f" * 200_000 + b"t.")
    file(f"{count} values of many sets in one range", lambda c=count, b=spam: distributed({}, b, [(f"v{i}", 0, len(b)) for i in range(c)]))


# Headers in JSON ------------------------------------------------------------------


def header(content):
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return struct.pack("<Q", len(raw)) + raw


ENTRY = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
for length in (1_000_000, 5_000_000):
    file(f"a tensor called by {length} characters", lambda n=length: header({"x" * n: ENTRY}))
    file(f"a tensor called by {length} dots", lambda n=length: header({"." * n: ENTRY}))
    file(f"a tensor called by {length} escapes", lambda n=length: header({"\x1b" * n: ENTRY}))
    file(f"a size of {length} digits", lambda n=length: header(b'{"a":{"dtype":"F32","shape":[' + b"9" * n + b'],"data_offsets":[0,0]}}'))
    file(f"JSON nested {length} deep", lambda n=length: header(b'{"a":' + b"[" * n))
    file(f"metadata of {length} characters in JSON", lambda n=length: header({"__metadata__": {"a": "b" * n}}))
    file(f"an index with a number of {length} digits", lambda n=length: {"i.index.json": b'{"metadata": ' + b"9" * n + b', "weight_map": {"a": "b"}}'})
    file(f"an index of names of {length} characters", lambda n=length: {"i.index.json": json.dumps({"weight_map": {"a": "b" * n}}).encode()})
    file(f"an npy header of {length} spaces", lambda n=length: b"\x93NUMPY\2\0" + struct.pack("<I", n) + b" " * n)
file("50,000 empty tensors in JSON", lambda: header({f"t{i}": ENTRY for i in range(50_000)}))
file("a lone surrogate in metadata", lambda: header(b'{"__metadata__":{"a":"\\ud800"},"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}'))
file("a lone surrogate in a name", lambda: packed(P2 + b"}" + text("\ud800") + tensor() + b"s."))
file("an index of nested metadata", lambda: {"i.index.json": b'{"metadata": {"a": ' + b"[" * 900 + b"]" * 900 + b'}, "weight_map": {"w": "w"}}',
                                             "w": samples.safetensors({"w": 3})})


def many_shards(count, content):
    shards = {f"s{i}": content.replace(b"t-----", b"t%05d" % i) for i in range(count)}
    return {"i.index.json": json.dumps({"weight_map": {f"t{i:05d}": f"s{i}" for i in range(count)}}).encode(), **shards}


for count in (5, 60):
    bomb = P2 + b"}" + text("t-----") + tensor(storage("0", 1 << 22), size=(4,)) + b"s."
    file(f"{count} shards of compressed storages", lambda c=count, b=bomb: {k: v if k == "i.index.json" else packed(v, [("0", bytes(1 << 24))])
                                                                          for k, v in many_shards(c, b).items()})  # fmt: skip
    spam = P2 + b"}" + text("t-----") + tensor() + b"s" + text("x") + b"(" + b"\x8f" * 100_000 + b"ts."
    file(f"{count} shards of many sets", lambda c=count, b=spam: {k: v if k == "i.index.json" else packed(v) for k, v in many_shards(c, b).items()})


# Reading the files ----------------------------------------------------------------

ACTS = {
    "meta": lambda path: load(path, "meta"),
    "cpu": lambda path: load(path, "cpu"),
    "anywhere": load,
    "inspect": inspect,
    "convert": lambda path: convert(path, path.parent / "out" / "x.safetensors"),
    "convert to torch": lambda path: convert(path, path.parent / "out" / "x.pt"),
}


def figure(name):
    """Return a figure of this process in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise LookupError(name)


def tried(path, act):
    """Run an action in a separate process. Return its seconds, bytes and outcome."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            resource.setrlimit(resource.RLIMIT_AS, (figure("VmSize") + (3 << 30),) * 2)
            resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
            before, began = figure("VmRSS"), time.process_time()
            try:
                ACTS[act](path)
                outcome = "a result"
            except CheckpointError as error:
                outcome = f"CheckpointError: {error}"
                if len(outcome) > 4000 or not outcome.isprintable():
                    outcome = f"a message of {len(outcome)} characters that cannot be shown"
            except BaseException as error:
                outcome = f"{type(error).__name__}: {error}"
            report = time.process_time() - began, figure("VmHWM") - before, outcome[:300]
            os.write(write, pickle.dumps(report))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        content = answer.read()
    status = os.waitpid(child, 0)[1]
    if not content:
        return 30.0, 0, f"killed by signal {signal.Signals(status & 127).name if status & 127 else status}"
    return pickle.loads(content)


ALLOWED_TYPES = ("a result", "CheckpointError: ")


def trial(label, folder, limit=SECONDS):
    """Return what is wrong with the outcome of a file, the maximum seconds and bytes, and the outcomes.

    ``limit`` is the processor time that an act may take, in seconds.
    """
    folder = Path(folder)
    path = FILES[label](folder)
    (folder / "out").mkdir()
    wrong, seconds, most, outcomes = [], 0.0, 0, {}
    for act in ACTS:
        took, grown, outcome = tried(path, act)
        seconds, most = max(seconds, took), max(most, grown)
        outcomes[act] = outcome
        refused = act.startswith("convert") and outcome.startswith(("TypeError: save:", "TypeError: convert:", "RuntimeError: save:", "ValueError: save:"))
        if not outcome.startswith(ALLOWED_TYPES) and not refused:
            wrong.append(f"{label}: {act}: {outcome}")
        if took > limit or grown > BYTES:
            wrong.append(f"{label}: {act}: {took:.2f} s and {grown >> 20} MB: {outcome[:100]}")
    return wrong, seconds, most, outcomes


if __name__ == "__main__":
    mt.ones(2, device="cpu").sum().item()
    import metatensor.checkpoint.torch_script  # noqa: F401  # so that importing is not part of the measurements

    load(io.BytesIO(packed(P2 + device_tensor(array("f4", bytes(4)), "float32", "numpy") + b".")), "cpu")
    step, wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 1, sys.argv[2] if len(sys.argv) > 2 else ""
    labels = [label for label in FILES if wanted in label][::step]
    faults, slowest, largest, errors = [], (0.0, ""), (0, ""), 0
    for label in labels:
        where = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        try:
            wrong, seconds, most, outcomes = trial(label, where)
        finally:
            shutil.rmtree(where)
        for line in wrong:
            print(line, flush=True)
        faults += wrong
        slowest, largest = max(slowest, (seconds, label)), max(largest, (most, label))
        errors += any(outcome.startswith("CheckpointError") for outcome in outcomes.values())
        if wanted:
            print(label, f"{seconds:.2f} s, {most >> 20} MB", outcomes)
    print(f"{len(labels)} of {len(FILES)} files, {len(ACTS)} acts each: {len(faults)} faults; {errors} are refused by an act at least; "
          f"slowest {slowest[0]:.2f} s ({slowest[1]}), largest {largest[0] >> 20} MB ({largest[1]})")
    raise SystemExit(bool(faults))
