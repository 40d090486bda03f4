"""The directory of a zip file: names, offsets and sizes of its members, all checked before use.

The central directory is read in one pass. A member's local header is read, and compared with its entry, when its
content is needed. The reader refuses repeated names, absolute names, names that lead out of the archive, encrypted
or overlapping members, sizes that the file cannot hold, compression methods other than stored and deflated, and
multi-part archives.

Format: APPNOTE.TXT of PKWARE, version 6.3.
"""
import zlib

from cpython.bytes cimport PyBytes_AS_STRING
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.string cimport memcmp
from metatensor.checkpoint.budget import current
from metatensor.checkpoint.errors import CheckpointError

cdef extern from "Python.h":
    const char* utf8_of "PyUnicode_AsUTF8AndSize"(object text, Py_ssize_t* n) except NULL

cdef enum:
    SHORT_TAIL = 1024
    TAIL = 66000                        # enough for an end record with the longest possible comment
    MAX_DIRECTORY = 256 << 20
    RATIO = 100                         # beyond this multiple of the file's size, deflated members are charged
    EOCD = 0x06054B50
    EOCD64 = 0x06064B50
    LOCATOR = 0x07064B50
    LOCATOR_SIZE = 20
    CENTRAL = 0x02014B50
    LOCAL = 0x04034B50


cdef inline unsigned long long number(const unsigned char* p, int width) noexcept:
    cdef unsigned long long value = 0
    cdef int i
    for i in range(width):
        value |= <unsigned long long>p[i] << (8 * i)
    return value


cdef str name_problem(const unsigned char* p, Py_ssize_t n):
    """Return what is wrong with a member's name, or None."""
    cdef Py_ssize_t i
    cdef Py_ssize_t part = 0            # where the current component begins
    if n == 0:
        return "it is empty"
    if p[0] == b'/':
        return "it is absolute"
    for i in range(n + 1):
        if i == n or p[i] == b'/':
            if i - part == 2 and p[part] == b'.' and p[part + 1] == b'.':
                return "it leads out of the archive"
            part = i + 1
        elif p[i] == 0:
            return "it has a NUL character"
        elif p[i] == b'\\':
            return "it has a backslash"
        elif p[i] == b':' and i == 1:
            return "it begins with a drive"
    return None


def problem_of(bytes name not None):
    """Return the reason why a member must not have this name, or None."""
    return name_problem(<const unsigned char*>PyBytes_AS_STRING(name), len(name))


cdef class Directory:
    """The members of a zip file that spans the whole of ``source``.

    It supports ``name in directory``, iteration over names, `size_of`, `place_of` and `read`. Invalid files raise
    `CheckpointError`.
    """

    def __init__(self, source not None):
        cdef bytes tail
        cdef long long base = 0, at = -1, count, size, start
        cdef int length
        self.source = source
        self.file = source.name
        self.index = {}
        if self.entries:
            raise RuntimeError("a directory is read once")
        total = <long long>source.size
        for length in range(2):  # few files have a long comment after the end record
            base = total - min(<long long>(TAIL if length else SHORT_TAIL), total)
            tail = source.read(base, total - base, "the end of the zip file")
            at = self.find_end(tail)
            if at >= LOCATOR_SIZE or base == 0:
                break
        if at < 0:
            raise self.wrong(total, "the zip file has no end record: it is truncated, or not a zip file")
        self.read_end(tail, base, at, &count, &size, &start)
        if start >= base:
            self.fill(tail[start - base:start - base + size], start, count, size)
        else:
            self.fill(source.read(start, size, "the zip directory"), start, count, size)

    def __dealloc__(self):
        PyMem_Free(self.entries)

    def __contains__(self, name):
        return name in self.index

    def __iter__(self):
        return iter(self.index)

    def __len__(self):
        return self.count

    cdef object wrong(self, long long at, str reason):
        return CheckpointError(self.file, f"at byte {at:,}: {reason}")

    cdef Py_ssize_t find(self, str name) except -2:
        """Return a member's number, or -1 if there is no such member."""
        found = self.index.get(name)
        return -1 if found is None else <Py_ssize_t>found

    cdef Py_ssize_t find_next(self, str prefix, str key) except -2:
        """Return the number of the member ``prefix`` + ``key`` if it is the next one in order, else -1.

        It must follow the last member found and must not have been returned before.
        """
        cdef Py_ssize_t n = 0, m = 0
        cdef const char* p
        cdef const char* q
        cdef Entry* e = &self.entries[self.hint]
        if self.hint >= self.count:
            return -1
        p = utf8_of(prefix, &n)
        q = utf8_of(key, &m)
        if e.taken or e.name_length != n + m or memcmp(e.name + n, q, m) or memcmp(e.name, p, n):
            return -1
        e.taken = True
        self.hint += 1
        return self.hint - 1

    cdef void forget(self) noexcept:
        """Reset the state of `find_next`."""
        cdef Py_ssize_t i
        self.hint = 0
        for i in range(self.count):
            self.entries[i].taken = False

    # Reading the directory ----------------------------------------------------

    cdef Py_ssize_t find_end(self, bytes tail) except -2:
        """Return the offset of the end record in ``tail``, or -1. The record's comment must end where the file ends."""
        cdef const unsigned char* p = <const unsigned char*>PyBytes_AS_STRING(tail)
        cdef Py_ssize_t n = len(tail)
        cdef Py_ssize_t at = n - 22
        while at >= 0 and at >= n - 22 - 0xFFFF:
            if p[at] == 0x50 and number(p + at, 4) == EOCD and <Py_ssize_t>number(p + at + 20, 2) == n - at - 22:
                return at
            at -= 1
        return -1

    cdef int read_end(self, bytes tail, long long base, Py_ssize_t at, long long* count, long long* size, long long* start) except -1:
        """Read the member count, size and offset of the directory from the end record.

        A zip64 end record takes precedence if there is one.
        """
        cdef const unsigned char* p = <const unsigned char*>PyBytes_AS_STRING(tail) + at
        cdef const unsigned char* q
        cdef unsigned long long many = number(p + 10, 2), long_ = number(p + 12, 4), first = number(p + 16, 4)
        cdef unsigned long long where
        cdef long long end = base + at          # required end of the directory
        cdef bytes record
        if number(p + 4, 2) != number(p + 6, 2) or number(p + 8, 2) != many or number(p + 4, 2) not in (0, 0xFFFF):
            raise self.wrong(base + at, "the zip file is one of several parts")
        if at >= 20 and number(p - 20, 4) == LOCATOR:
            where = number(p - 12, 8)
            if number(p - 16, 4) != 0 or number(p - 4, 4) > 1 or where > <unsigned long long>(base + at - 20):
                raise self.wrong(base + at - 20, "the zip64 locator points outside the file")
            record = self.source.read(where, 56, "the zip64 end record")
            q = <const unsigned char*>PyBytes_AS_STRING(record)
            if number(q, 4) != EOCD64 or number(q + 4, 8) != <unsigned long long>(base + at - 20 - 12) - where:
                raise self.wrong(where, "the zip64 locator points to no zip64 end record")
            if number(q + 16, 4) or number(q + 20, 4) or number(q + 24, 8) != number(q + 32, 8):
                raise self.wrong(where, "the zip file is one of several parts")
            for width, plain, wide in ((2, many, number(q + 32, 8)), (4, long_, number(q + 40, 8)), (4, first, number(q + 48, 8))):
                if plain != (1 << 8 * width) - 1 and plain != wide:
                    raise self.wrong(where, f"the two end records contradict each other: {plain:,} and {wide:,}")
            many, long_, first = number(q + 32, 8), number(q + 40, 8), number(q + 48, 8)
            end = where
        if long_ > MAX_DIRECTORY:
            raise self.wrong(base + at, f"the directory claims {long_:,} bytes; the limit is {<long long>MAX_DIRECTORY:,}")
        if first > <unsigned long long>end or first + long_ != <unsigned long long>end:
            raise self.wrong(base + at, f"the directory, {long_:,} bytes from byte {first:,} on, does not end at byte {end:,}")
        if many > long_ // 46:
            raise self.wrong(base + at, f"{many:,} members do not fit into a directory of {long_:,} bytes")
        count[0], size[0], start[0] = <long long>many, <long long>long_, <long long>first
        return 0

    cdef int fill(self, bytes data, long long start, long long count, long long size) except -1:
        """Read all entries of the directory ``data``, which begins at file offset ``start``."""
        cdef const unsigned char* p = <const unsigned char*>PyBytes_AS_STRING(data)
        cdef Py_ssize_t at = 0, n, i
        cdef long long inflated = 0, before = 0
        cdef bint ordered = True
        cdef Entry* e
        cdef str name, problem
        budget = current()
        self.start = <Py_ssize_t>start
        self.data = data
        self.entries = <Entry*>PyMem_Calloc(max(count, 1), sizeof(Entry))
        if not self.entries:
            raise MemoryError
        for i in range(<Py_ssize_t>count):
            if size - at < 46 or number(p + at, 4) != CENTRAL:
                raise self.wrong(start + at, f"entry {i} of {count:,} of the zip directory is invalid")
            e = &self.entries[i]
            n = <Py_ssize_t>number(p + at + 28, 2)
            if 46 + n + <Py_ssize_t>number(p + at + 30, 2) + <Py_ssize_t>number(p + at + 32, 2) > size - at:
                raise self.wrong(start + at, f"entry {i} of {count:,} reaches beyond the zip directory")
            problem = name_problem(p + at + 46, n)
            try:
                name = PyUnicode_DecodeUTF8(<const char*>p + at + 46, n, NULL)
            except UnicodeDecodeError:
                raise self.wrong(start + at, f"the name of member {i} is not UTF-8") from None
            if problem is not None:
                raise self.wrong(start + at, f"the name of a member is not safe, {problem}: {name[:100]!a}")
            if name in self.index:
                raise self.wrong(start + at, f"two members are called {name[:100]!r}")
            self.index[name] = i
            e.name = p + at + 46
            e.name_length = <unsigned short>n
            self.read_entry(e, p + at, start + at, name)
            if e.method:
                inflated += e.size
                if inflated > <long long>budget.left + RATIO * <long long>self.source.size:
                    raise self.wrong(
                        start + at, f"compressed members claim {inflated:,} bytes: a file of {self.source.size:,} has no such content")
            ordered = ordered and e.header >= before
            before = e.header
            at += 46 + n + <Py_ssize_t>number(p + at + 30, 2) + <Py_ssize_t>number(p + at + 32, 2)
        if at != size:
            raise self.wrong(start + at, f"{size - at:,} bytes of the zip directory belong to no entry")
        budget.left -= max(0, inflated - RATIO * <long long>self.source.size)
        self.count = <Py_ssize_t>count
        return self.check_places(start, ordered)

    cdef int read_entry(self, Entry* e, const unsigned char* p, long long at, str name) except -1:
        """Read one entry at ``p``, file offset ``at``."""
        cdef unsigned long long packed = number(p + 20, 4), size = number(p + 24, 4), header = number(p + 42, 4)
        cdef Py_ssize_t n_extra = <Py_ssize_t>number(p + 30, 2)
        cdef const unsigned char* extra = p + 46 + number(p + 28, 2)
        cdef const unsigned char* field
        cdef Py_ssize_t n, took = 0
        e.flags = <unsigned short>number(p + 8, 2)
        e.method = <unsigned short>number(p + 10, 2)
        e.crc = <unsigned int>number(p + 16, 4)
        if packed == 0xFFFFFFFF or size == 0xFFFFFFFF or header == 0xFFFFFFFF:
            while n_extra >= 4:
                n = <Py_ssize_t>number(extra + 2, 2)
                if n > n_extra - 4:
                    raise self.wrong(at, f"the extra fields of {name[:100]!r} reach beyond its entry")
                if number(extra, 2) == 1:
                    field = extra + 4
                    if size == 0xFFFFFFFF and n - took >= 8:
                        size = number(field + took, 8)
                        took += 8
                    if packed == 0xFFFFFFFF and n - took >= 8:
                        packed = number(field + took, 8)
                        took += 8
                    if header == 0xFFFFFFFF and n - took >= 8:
                        header = number(field + took, 8)
                        took += 8
                    break
                extra += 4 + n
                n_extra -= 4 + n
        if e.flags & 0x2041:
            raise self.wrong(at, f"{name[:100]!r} is encrypted")
        if e.method != 0 and e.method != 8:
            raise self.wrong(at, f"{name[:100]!r} is compressed by method {e.method}; stored (0) and deflated (8) are known")
        if header > <unsigned long long>self.start or packed > <unsigned long long>self.start - header:
            raise self.wrong(at, f"{name[:100]!r}, {packed:,} bytes from byte {header:,} on, does not fit before the directory")
        if e.method == 0 and size != packed:
            raise self.wrong(at, f"{name[:100]!r} is stored without compression, but its sizes differ: {size:,} and {packed:,} bytes")
        # Deflate compresses at most 1032 to 1.
        if e.method and size > 1032 * packed + 64:
            raise self.wrong(at, f"{name[:100]!r} claims {size:,} bytes in {packed:,} compressed ones, which is impossible")
        e.header, e.packed, e.size = <long long>header, <long long>packed, <long long>size
        return 0

    cdef int check_places(self, long long start, bint ordered) except -1:
        """Check that no two members overlap."""
        cdef Py_ssize_t i, j, at
        cdef Entry* e
        cdef list order
        if not self.count:
            return 0
        order = None if ordered else sorted(range(self.count), key=[self.entries[i].header for i in range(self.count)].__getitem__)
        names = None
        for at in range(self.count):
            i = at if order is None else <Py_ssize_t>order[at]
            e = &self.entries[i]
            if at + 1 < self.count:
                j = at + 1 if order is None else <Py_ssize_t>order[at + 1]
                e.limit = self.entries[j].header
            else:
                e.limit = start
            if e.header + 30 + e.packed > e.limit:
                names = list(self.index)
                raise self.wrong(e.header, f"{names[i][:100]!r} extends beyond byte {e.limit:,}, where the next part of the file begins")
        return 0

    # Members ------------------------------------------------------------------

    def size_of(self, str name not None):
        """Return the size of a member's content in bytes. Raise KeyError if there is no such member."""
        return self.entries[<Py_ssize_t>self.index[name]].size

    def is_stored(self, str name not None):
        """Return True if the member is not compressed."""
        return self.entries[<Py_ssize_t>self.index[name]].method == 0

    def place_of(self, str name not None):
        """Return the offset and the size of a member's data in the file. Read the local header for the offset."""
        cdef Entry* e = &self.entries[<Py_ssize_t>self.index[name]]
        cdef Py_ssize_t n, n_extra
        cdef bytes head = self.source.read(e.header, min(30 + 4 * len(name) + 256, e.limit - e.header), "a member's header")
        cdef const unsigned char* p = <const unsigned char*>PyBytes_AS_STRING(head)
        cdef const char* wanted
        cdef Py_ssize_t n_wanted = 0
        cdef long long begin
        wanted = utf8_of(name, &n_wanted)
        if len(head) < 30 or number(p, 4) != LOCAL:
            raise self.wrong(e.header, f"there is no member where the directory has {name[:100]!r}")
        n, n_extra = <Py_ssize_t>number(p + 26, 2), <Py_ssize_t>number(p + 28, 2)
        if n != n_wanted or len(head) < 30 + n or head[30:30 + n] != wanted[:n_wanted]:
            raise self.wrong(e.header, f"the member that the directory calls {name[:100]!r} has another name in its own header")
        if number(p + 8, 2) != e.method or number(p + 6, 2) & 0x2041:
            raise self.wrong(e.header, f"the header of {name[:100]!r} and the directory contradict each other")
        if not e.flags & 8:
            for own, listed in ((number(p + 18, 4), e.packed), (number(p + 22, 4), e.size)):
                if own != 0xFFFFFFFF and own != listed:
                    raise self.wrong(e.header, f"the header of {name[:100]!r} claims {own:,} bytes, but the directory {listed:,}")
        begin = e.header + 30 + n + n_extra
        if begin + e.packed > e.limit:
            raise self.wrong(e.header, f"{name[:100]!r} extends beyond byte {e.limit:,}, where the next part of the file begins")
        return begin, e.packed

    def read(self, str name not None, long long most=1 << 62, bint check=True):
        """Return a member's content, decompressed and checked against its checksum if it has one.

        Raise `CheckpointError` if it has more than ``most`` bytes.
        """
        cdef Entry* e
        found = self.index.get(name)
        if found is None:
            raise CheckpointError(self.file, f"the zip file has no member {name[:100]!r}")
        e = &self.entries[<Py_ssize_t>found]
        if e.size > most:
            raise self.wrong(e.header, f"{name[:100]!r} has {e.size:,} bytes; the limit is {most:,}")
        begin, packed = self.place_of(name)
        data = self.source.read(begin, packed, f"{name[:100]!r}")
        if e.method:
            data = self.inflated(name, data, e.size)
        if check and e.crc and zlib.crc32(data) != e.crc:
            raise self.wrong(begin, f"the content of {name[:100]!r} does not have its checksum: it is damaged")
        return data

    def inflated(self, str name not None, data, long long size):
        """Decompress ``data``, which must yield exactly ``size`` bytes.

        At most one byte more is produced.
        """
        engine = zlib.decompressobj(-15)
        try:
            content = engine.decompress(data, size + 1)
        except zlib.error as error:
            raise CheckpointError(self.file, f"{name[:100]!r} cannot be decompressed: {error}") from None
        if len(content) != size or not engine.eof:
            more = "more" if len(content) > size else "fewer"
            raise CheckpointError(self.file, f"{name[:100]!r} claims {size:,} bytes, but has {more} when decompressed")
        return content
