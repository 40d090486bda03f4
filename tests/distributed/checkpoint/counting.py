"""Counting what checkpoints read from files."""

import io
from contextlib import contextmanager

from metatensor.checkpoint import distributed, opening, source


class Reads(dict):
    """The (begin, end) ranges that were read, by path."""

    def total(self, path=None):
        """Return the number of bytes read from a file, or from all."""
        return sum(end - begin for name, found in self.items() if path in (None, name) for begin, end in found)

    def after(self, path, begin):
        """Return the number of bytes read behind a position of a file."""
        return sum(max(0, end - max(start, begin)) for start, end in self[str(path)])


@contextmanager
def counted():
    """Record what is read inside the block."""
    found = Reads()

    class Counting(io.FileIO):
        def readinto(self, buffer):
            begin = self.tell()
            count = super().readinto(buffer)
            found.setdefault(self.name, []).append((begin, begin + count))
            return count

        def read(self, size=-1):
            begin = self.tell()
            data = super().read(size)
            found.setdefault(self.name, []).append((begin, begin + len(data)))
            return data

    def open_file(path):
        return Counting(str(path), "rb", opener=source._ordinary)

    read_at = opening.read_at

    def counting_read_at(file, target, position):
        count = read_at(file, target, position)
        found.setdefault(file.name, []).append((position, position + count))
        return count

    before = [(module, module.open_file) for module in (distributed, opening)]
    for module, _ in before:
        module.open_file = open_file
    opening.read_at = counting_read_at
    try:
        yield found
    finally:
        opening.read_at = read_at
        for module, function in before:
            module.open_file = function
