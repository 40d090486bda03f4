"""Small files of each format, built byte by byte or by the libraries that own the formats."""

import io
import json
import struct
import zipfile


def npy(descr="<f4", shape=(2, 3), data=bytes(24), fortran=False, version=(1, 0)):
    """Return an array file with this header."""
    text = f"{{'descr': {descr!r}, 'fortran_order': {fortran}, 'shape': {shape!r}, }}"
    text += " " * 10 + "\n"
    size = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + size + text.encode("utf-8") + data


def npz(arrays, compressed=False):
    """Return an archive of array files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as archive:
        for name, content in arrays.items():
            archive.writestr(f"{name}.npy", content)
    return out.getvalue()


def text(value):
    """Return a string of GGUF."""
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def gguf(tensors=(("w", (3, 2), 0, 0),), pairs=(), data=bytes(64), version=3, counts=None, align=32):
    """Return a GGUF file with tensors (name, sizes innermost first, type, offset) and pairs (name, type, bytes of the value)."""
    n_tensors, n_pairs = counts or (len(tensors), len(pairs))
    out = b"GGUF" + struct.pack("<IQQ", version, n_tensors, n_pairs)
    for name, kind, value in pairs:
        out += text(name) + struct.pack("<I", kind) + value
    for name, sizes, kind, offset in tensors:
        out += text(name) + struct.pack("<I", len(sizes)) + struct.pack(f"<{len(sizes)}Q", *sizes) + struct.pack("<IQ", kind, offset)
    return out + bytes(-len(out) % align) + data


def varint(value):
    """Return a number in protobuf's wire format."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes((value,))


def field(number, value):
    """Return a field with bytes, a string or a number."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value & (1 << 64) - 1)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def onnx_tensor(name="w", dims=(2, 3), kind=1, raw=bytes(24), **more):
    """Return a TensorProto. ``more`` are fields named ``f<number>``."""
    out = b"".join(field(1, dim) for dim in dims) + field(2, kind) + field(8, name)
    if raw is not None:
        out += field(9, raw)
    for key, value in more.items():
        for item in value if isinstance(value, list) else [value]:
            out += field(int(key[1:]), item)
    return out


def onnx(tensors=(), nodes=(), **more):
    """Return a ModelProto."""
    graph = b"".join(field(1, node) for node in nodes) + field(2, "g") + b"".join(field(5, tensor) for tensor in tensors)
    out = field(1, 8) + field(2, "samples") + field(7, graph)
    for key, value in more.items():
        out += field(int(key[1:]), value)
    return out


def onnx_constant(output, tensor):
    """Return a NodeProto of a constant."""
    return field(2, output) + field(4, "Constant") + field(5, field(1, "value") + field(5, tensor))


def safetensors(tensors):
    """Return a safetensors file of float32 vectors: name -> number of elements."""
    header, at = {}, 0
    for name, count in tensors.items():
        header[name] = {"dtype": "F32", "shape": [count], "data_offsets": [at, at + 4 * count]}
        at += 4 * count
    encoded = json.dumps(header).encode()
    return struct.pack("<Q", len(encoded)) + encoded + bytes(at)


def sharded(folder, shards, index=None, name="model.safetensors.index.json"):
    """Write an index and its shards to ``folder``: file name -> {tensor: elements}. Return the path of the index."""
    weights = {}
    for file, tensors in shards.items():
        (folder / file).write_bytes(safetensors(tensors))
        weights |= dict.fromkeys(tensors, file)
    content = {"metadata": {"total_size": 1}, "weight_map": weights}
    (folder / name).write_text(json.dumps(content if index is None else index))
    return folder / name
