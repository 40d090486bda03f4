"""Host memory for tensors, and memory statistics.

A `Block` is a piece of host memory with the buffer protocol, so NumPy can create arrays over it without copying. A
`Ledger` counts live blocks, and live arrays of libraries that allocate their own memory.
"""
import weakref

cimport cython
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_STRIDES

cdef extern from *:
    """
    #include <stdint.h>
    #include <stdlib.h>
    #if defined(__linux__)
    #include <sys/mman.h>
    #endif
    #define MT_LARGE ((size_t)1 << 22)
    #define MT_HUGE ((size_t)1 << 25)   /* minimum size of huge blocks: malloc would call mmap for each too */
    #define MT_KEEP ((size_t)1 << 27)
    #define MT_PAGE ((uintptr_t)4096)
    /* The most recently freed huge block, kept for the next one of similar size: mapping new pages and faulting them in
       costs as much as a simple operator. Callers hold the GIL. The block is released before any other huge block is
       mapped, so it does not raise the peak. */
    static void *mt_kept = NULL;
    static size_t mt_kept_size = 0;

    static size_t mt_drop_kept(void) {
        size_t n = mt_kept_size;
    #if defined(__linux__)
        if (mt_kept != NULL) munmap(mt_kept, n);
    #endif
        mt_kept = NULL;
        mt_kept_size = 0;
        return n;
    }

    /* Large blocks request huge pages, which reduces page faults. Blocks mapped directly from the system are zero,
       which zeros() makes use of. `room` is the size of a mapped block, or 0 for a block from malloc. */
    static void *mt_new_block(size_t n, size_t *room, int *zero) {
        void *p;
        *room = 0;
        *zero = 0;
        if (n < 65536) return malloc(n ? n : 1);
    #if defined(__linux__) && defined(MADV_HUGEPAGE)
        if (n >= MT_HUGE) {
            if (n <= mt_kept_size && n >= mt_kept_size - mt_kept_size / 8) {
                p = mt_kept;
                *room = mt_kept_size;
                mt_kept = NULL;
                mt_kept_size = 0;
                return p;
            }
            mt_drop_kept();
            p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (p == MAP_FAILED) return NULL;
            madvise(p, n, MADV_HUGEPAGE);
            *room = n;
            *zero = 1;
            return p;
        }
    #endif
        if (posix_memalign(&p, 64, n)) return NULL;
    #if defined(__linux__) && defined(MADV_HUGEPAGE)
        if (n >= MT_LARGE) {
            uintptr_t start = ((uintptr_t)p + MT_PAGE - 1) & ~(MT_PAGE - 1);
            madvise((void *)start, n - (start - (uintptr_t)p), MADV_HUGEPAGE);
        }
    #endif
        return p;
    }
    static void mt_free_block(void *p, size_t room) {
        if (room == 0) {
            free(p);
        } else {
            mt_drop_kept();
            mt_kept = p;
            mt_kept_size = room;
            if (room > MT_KEEP) mt_drop_kept();
        }
    }
    """
    void* new_block "mt_new_block" (size_t n, size_t* room, int* zero) noexcept
    void free_block "mt_free_block" (void* p, size_t room) noexcept
    size_t drop_kept "mt_drop_kept" () noexcept


@cython.final
@cython.binding(False)
cdef class Ledger:
    """Counts current and peak allocations, by bytes and by number."""

    cdef int add(self, long long nbytes) except -1:
        self.count += 1
        self.total += nbytes
        if self.total - self.freed > self.peak:
            self.peak = self.total - self.freed
        if self.count - self.freed_count > self.peak_count:
            self.peak_count = self.count - self.freed_count
        return 0

    cdef void remove(self, long long nbytes) noexcept:
        self.freed += nbytes
        self.freed_count += 1

    def allocate(self, nbytes):
        """Allocate a `Block` that is counted here. Raise MemoryError if there is not enough memory."""
        cdef Block b = Block.__new__(Block)
        cdef long long n = nbytes
        cdef size_t room = 0
        cdef int zero = 0
        if n < 0:
            raise ValueError(f"a block cannot have {nbytes} bytes")
        b.start = <char*>new_block(<size_t>n, &room, &zero)
        if b.start == NULL:
            raise MemoryError(f"cannot allocate {n} bytes")
        b.nbytes = n
        b.room = room
        b.zero = zero
        b.touched = False
        b.ledger = self
        self.add(n)
        return b

    def track(self, array, nbytes):
        """Count the memory of an array as allocated until the array is garbage-collected.

        The array must own its memory and support weak references.
        """
        cdef long long n = nbytes

        def gone(entry):
            self.live.discard(entry)
            self.remove(n)

        if self.live is None:
            self.live = set()
        self.add(n)
        self.live.add(_Entry(array, gone))

    def stats(self):
        """Return ``allocated_bytes.all.X`` and ``allocation.all.X`` for X in current, peak, allocated and freed."""
        return {
            "allocated_bytes.all.current": self.total - self.freed,
            "allocated_bytes.all.peak": self.peak,
            "allocated_bytes.all.allocated": self.total,
            "allocated_bytes.all.freed": self.freed,
            "allocation.all.current": self.count - self.freed_count,
            "allocation.all.peak": self.peak_count,
            "allocation.all.allocated": self.count,
            "allocation.all.freed": self.freed_count,
        }

    def reset_peak(self):
        """Reset the peaks to the current values."""
        self.peak = self.total - self.freed
        self.peak_count = self.count - self.freed_count


class _Entry(weakref.ref):
    """A weak reference that is hashed by identity, because arrays are not hashable."""

    __slots__ = ()
    __hash__ = object.__hash__
    __eq__ = object.__eq__


@cython.final
@cython.freelist(64)
@cython.binding(False)
cdef class Block:
    """Uninitialized host memory, freed together with the object. Created by `Ledger.allocate`."""

    @property
    def address(self):
        """Return the address of the first byte."""
        self.touched = True
        return <size_t>self.start

    def __len__(self):
        return self.nbytes

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        # Fill the buffer by hand: PyBuffer_FillInfo would leak the reference to None that Cython stores in buffer.obj
        # first.
        self.touched = True
        buffer.buf = self.start
        buffer.obj = self
        buffer.len = self.nbytes
        buffer.itemsize = 1
        buffer.readonly = 0
        buffer.ndim = 1
        buffer.format = NULL
        if flags & PyBUF_FORMAT:
            buffer.format = b"B"
        buffer.shape = &buffer.len if flags & PyBUF_ND else NULL
        buffer.strides = &buffer.itemsize if flags & PyBUF_STRIDES == PyBUF_STRIDES else NULL
        buffer.suboffsets = NULL
        buffer.internal = NULL

    def __dealloc__(self):
        if self.start != NULL:
            free_block(self.start, self.room)
            self.ledger.remove(self.nbytes)

    def __repr__(self):
        return f"<Block of {self.nbytes} bytes>"


def give_back():
    """Return the block kept for reuse to the operating system. Return its size in bytes."""
    return drop_kept()


def human_bytes(nbytes):
    """Format a size for messages: ``512 bytes``, ``1.50 GiB``."""
    if nbytes < 1024:
        return f"{int(nbytes)} bytes"
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        nbytes /= 1024
        if nbytes < 1024:
            return f"{nbytes:.2f} {unit}"
    return f"{nbytes / 1024:.2f} EiB"
