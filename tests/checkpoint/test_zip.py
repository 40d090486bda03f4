"""The directory of zip files: valid ones are read, and inconsistent ones are refused."""

# ruff: noqa: E501

import io
import struct
import time
import zipfile
import zlib

import pytest

import metatensor as mt
from metatensor.checkpoint import CheckpointError
from metatensor.checkpoint._zip import Directory
from metatensor.checkpoint.source import Source

from .hostile import P2, tensor, zipped


def directory(content):
    return Directory(Source(io.BytesIO(content), "the file"))


def refuse(content, *words):
    with pytest.raises(CheckpointError) as caught:
        for member in (found := directory(content)):
            found.read(member)
    for word in (*words, "the file"):
        assert word in str(caught.value), str(caught.value)


def made(members=(("a/x", b"hello"), ("a/y", b"world" * 9)), method=zipfile.ZIP_STORED, comment=b"", force=False):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members:
            with archive.open(zipfile.ZipInfo(name) if method == 0 else name, "w", force_zip64=force) as member:
                member.write(data)
        archive.comment = comment
    return out.getvalue()


def entries(content):
    """Return the offset of each central entry."""
    found, at = [], 0
    while (at := content.find(b"PK\1\2", at)) >= 0:
        found.append(at)
        at += 4
    return found


def patch(content, at, form, *values):
    raw = struct.pack(form, *values)
    return content[:at] + raw + content[at + len(raw) :]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("comment", [b"", b"a comment", b"x" * 65535, b"PK\5\6" * 20])
@pytest.mark.parametrize("force", [False, True])
def test_what_zipfile_writes(method, comment, force):
    found = directory(made(method=method, comment=comment, force=force))
    assert list(found) == ["a/x", "a/y"] and len(found) == 2 and "a/x" in found and "x" not in found
    assert found.read("a/x") == b"hello" and found.read("a/y") == b"world" * 9
    assert found.size_of("a/y") == 45
    begin, count = found.place_of("a/x")
    if method == zipfile.ZIP_STORED:
        assert found.is_stored("a/x") and made(method=method, comment=comment, force=force)[begin : begin + count] == b"hello"


@pytest.mark.slow
def test_many_members_and_an_archive_of_none():
    members = [(f"m/{i}", b"") for i in range(70_000)]  # more than possible without zip64
    found = directory(made(members))
    assert len(found) == 70_000 and found.read("m/69999") == b""
    assert len(directory(made(()))) == 0


def test_streamed_members_have_their_sizes_behind_them():
    class Pipe(io.RawIOBase):
        def __init__(self):
            self.data = bytearray()

        def writable(self):
            return True

        def write(self, data):
            self.data += data
            return len(data)

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w") as archive:
        archive.writestr("a/x", b"hello")
    assert directory(bytes(pipe.data)).read("a/x") == b"hello"


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", "a/..", "..", "a\\b", "C:x", "a\0b", "C:/x"])
def test_names_that_lead_elsewhere(name):
    raw = name.encode()
    content = made((("A" * len(raw), b"hello"),)).replace(b"A" * len(raw), raw)
    refuse(content, "not safe")


def test_names_that_are_none():
    refuse(made((("AB", b"x"),)).replace(b"AB", b"\xff\xfe"), "UTF-8")
    content = made((("A", b"x"),))
    at = entries(content)[0]
    refuse(patch(content, at + 28, "<H", 0), "empty")


def test_names_twice():
    refuse(made((("a/x", b"1"), ("a/z", b"2"))).replace(b"a/z", b"a/x"), "two members", "'a/x'")


CHANGES = [
    (8, "<H", 1, "encrypted"), (8, "<H", 0x40, "encrypted"), (8, "<H", 0x2000, "encrypted"), (10, "<H", 9, "method 9"), (10, "<H", 99, "method 99"),
    (10, "<H", 12, "method 12"), (20, "<I", 6, "stored"), (24, "<I", 6, "stored"), (24, "<I", 2**31, "stored"), (20, "<I", 2**31, "does not fit"),
    (20, "<II", 2**31, 2**31, "does not fit"), (20, "<II", 50, 50, "extends beyond"), (42, "<I", 5, "extends beyond"), (42, "<I", 2**31, "does not fit"), (42, "<I", 36, ""),
    (28, "<H", 60000, "beyond the zip directory"), (30, "<H", 60000, "beyond the zip directory"), (32, "<H", 60000, "beyond the zip directory"),
    (28, "<H", 2, ""), (0, "<I", 0, "is invalid"), (16, "<I", 12345, "checksum"), (42, "<I", 0xFFFFFFFF, "does not fit"), (20, "<II", 0xFFFFFFFF, 0xFFFFFFFF, "does not fit"),
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=[str(change) for change in CHANGES])
def test_lies_of_an_entry(change):
    offset, form, *values, word = change
    content = made()
    refuse(patch(content, entries(content)[0] + offset, form, *values), word)


END_CHANGES = [
    (4, "<H", 1, "several parts"), (6, "<H", 1, "several parts"), (8, "<H", 1, "several parts"), (8, "<HH", 1, 1, "belong to no entry"), (8, "<HH", 3, 3, "3 members do not fit"),
    (8, "<HH", 60000, 60000, "60,000 members"), (12, "<I", 2**31, "claims"), (12, "<I", 10, "does not end"), (16, "<I", 0, "does not end"),
    (16, "<I", 2**31, "does not end"), (20, "<H", 1, "no end record"), (0, "<I", 0, "no end record"), (16, "<I", 0xFFFFFFFF, "does not end"),
]  # fmt: skip


@pytest.mark.parametrize("change", END_CHANGES, ids=[str(change) for change in END_CHANGES])
def test_lies_of_the_end(change):
    offset, form, *values, word = change
    content = made()
    refuse(patch(content, content.rindex(b"PK\5\6") + offset, form, *values), word)


def zip64(content, **lies):
    """Return the same archive with zip64 records."""
    at = content.rindex(b"PK\5\6")
    n, size, start = struct.unpack("<HII", content[at + 10 : at + 20])
    fields = {"n": n, "total": n, "size": size, "start": start, "disk": 0, "length": 44, "where": at, "disks": 1, "signature": b"PK\6\6", **lies}
    record = struct.pack("<4sQHHIIQQQQ", fields["signature"], fields["length"], 45, 45, fields["disk"], 0, fields["n"], fields["total"], fields["size"], fields["start"])
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, fields["where"], fields["disks"])
    return content[:at] + record + locator + content[at:]


def test_zip64():
    assert directory(zip64(made())).read("a/x") == b"hello"


@pytest.mark.parametrize(
    ("lies", "word"),
    [
        ({"n": 1}, "several parts"), ({"disk": 1}, "several parts"), ({"n": 1, "total": 1}, "contradict"), ({"size": 2**40}, "contradict"), ({"start": 2**40}, "contradict"),
        ({"length": 45}, "no zip64 end record"), ({"where": 0}, "no zip64 end record"), ({"where": 2**63}, "outside"), ({"where": 2**64 - 1}, "outside"), ({"disks": 2}, "outside"),
        ({"signature": b"PK\6\0"}, "no zip64 end record"), ({"n": 2**63, "total": 2**63}, "contradict"),
    ],
)  # fmt: skip
def test_lies_of_zip64(lies, word):
    refuse(zip64(made(), **lies), word)


def test_zip64_values_of_an_entry():
    content = made()
    at = entries(content)[1]
    header = struct.unpack("<I", content[at + 42 : at + 46])[0]

    def wide(*values):
        extra = struct.pack("<HH", 1, 8 * len(values)) + struct.pack(f"<{len(values)}Q", *values)
        new = content[:at] + content[at : at + 20] + b"\xff" * 8 + content[at + 28 : at + 30] + struct.pack("<H", len(extra)) + content[at + 32 : at + 42]
        new += b"\xff" * 4 + content[at + 46 : at + 49] + extra + content[at + 49 :]
        end = new.rindex(b"PK\5\6")
        return patch(new, end + 12, "<I", struct.unpack("<I", new[end + 12 : end + 16])[0] + len(extra))

    assert directory(wide(45, 45, header)).read("a/y") == b"world" * 9
    for lie in ((2**63, 2**63, header), (45, 2**63, header), (45, 45, 2**63), (2**64 - 1, 2**64 - 1, header), (45,), (45, 45), (45, 45, 2**64 - 40)):
        refuse(wide(*lie), "")


def test_overlapping_members():
    content = made((("a/x", b"x" * 100), ("a/y", b"y" * 50)))
    first, second = entries(content)
    refuse(patch(content, second + 42, "<I", 10), "extends beyond")
    refuse(patch(content, second + 42, "<I", 0), "extends beyond")
    # Fifield's zip bomb: many entries for the same data.
    core = content[:first]
    one = content[first : first + 49]
    many = b"".join(one[:46] + b"a/%c" % (65 + i) for i in range(26))
    bomb = core + many + struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 26, 26, len(many), len(core), 0)
    refuse(bomb, "extends beyond")


@pytest.mark.parametrize(("offset", "form", "value"), [(0, "<I", 0), (26, "<H", 9), (28, "<H", 60000), (8, "<H", 8), (6, "<H", 1), (18, "<I", 4), (22, "<I", 9), (30, "<3s", b"b/x")])
def test_lies_of_a_members_own_header(offset, form, value):
    refuse(patch(made(), offset, form, value), "a/x")


@pytest.mark.slow
def test_bombs():
    began = time.perf_counter()
    zeros = bytes(300 << 20)
    content = made((("a/data.pkl", zeros),), zipfile.ZIP_DEFLATED)
    with pytest.raises(CheckpointError, match="no such content"):
        directory(content)
    # The size differs from that of the decompressed data.
    content = made((("a/x", zeros[: 1 << 20]),), zipfile.ZIP_DEFLATED)
    at = entries(content)[0]
    for lie, word in ((10, "more"), (1 << 20 | 1, "fewer")):
        changed = patch(patch(content, at + 24, "<I", lie), 22, "<I", lie)
        refuse(changed, word)
    refuse(patch(patch(content, at + 24, "<I", 2**31), 22, "<I", 2**31), "impossible")
    # The size of a decompressed pickle does not increase the allowance.
    pickle = P2 + b"(" + b"]" * (40 << 20) + b"t."
    packed = made((("a/data.pkl", pickle),), zipfile.ZIP_DEFLATED)
    with pytest.raises(CheckpointError, match="bound"):
        mt.load(io.BytesIO(packed), "meta")
    assert time.perf_counter() - began < 30


def test_damaged_deflated_content():
    content = made((("a/x", b"hello" * 100),), zipfile.ZIP_DEFLATED)
    begin, count = directory(content).place_of("a/x")
    assert directory(content).inflated("a/x", content[begin : begin + count], 500) == b"hello" * 100
    refuse(content[:begin] + b"\xff" * count + content[begin + count :], "decompressed")


def test_a_deflated_archive_loads():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in (("data.pkl", P2 + tensor() + b"."), ("data/0", struct.pack("<4f", 1, 2, 3, 4))):
            archive.writestr(f"archive/{name}", data)
    assert mt.load(io.BytesIO(out.getvalue()), "meta").shape == (4,)
    if "cpu" in mt.plugins.device_types():
        assert mt.load(io.BytesIO(out.getvalue()), "cpu").tolist() == [1, 2, 3, 4]


def test_a_zip_file_that_is_no_checkpoint():
    with pytest.raises(CheckpointError, match=r"no checkpoint of a known format.*'a/x'"):
        mt.load(io.BytesIO(made()), "meta")
    for content in (made()[:-1], made()[:60], made()[20:], b"PK\3\4", b"PK\5\6" + bytes(17)):
        with pytest.raises(CheckpointError):
            mt.load(io.BytesIO(content), "meta")


def test_the_pickle_is_checked_against_its_checksum():
    content = zipped(P2 + tensor() + b".")
    at = content.index(b"FloatStorage")
    broken = content[: at + 3] + b"A" + content[at + 4 :]
    with pytest.raises(CheckpointError, match="checksum"):
        mt.load(io.BytesIO(broken), "meta")
    assert zlib.crc32(b"") == 0  # written by programs that compute no checksum, so it is not checked


def test_what_follows_the_pickle():
    with pytest.raises(CheckpointError, match="3 bytes follow"):
        mt.load(io.BytesIO(zipped(P2 + tensor() + b".abc")), "meta")


def test_a_byte_order_that_is_none():
    content = zipped(P2 + tensor() + b".").replace(b"little", b"middle")
    with pytest.raises(CheckpointError):
        mt.load(io.BytesIO(content), "cpu" if "cpu" in mt.plugins.device_types() else "meta")
