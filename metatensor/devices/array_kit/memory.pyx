"""Host memory for tensors, and the count of who holds how much.

A `Block` is a piece of host memory with the buffer protocol: NumPy makes arrays over it without copying. A `Ledger`
counts blocks, and arrays of libraries that bring their own memory, from birth to death.
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
    #define MT_HUGE ((size_t)1 << 25)   /* from here on malloc asks the system every time, too */
    #define MT_KEEP ((size_t)1 << 27)
    #define MT_PAGE ((uintptr_t)4096)
    /* The huge block freed last, for the next one of about its size: fresh pages cost as much as a simple operator.
       Callers hold the GIL. It is given back before any other huge one is asked for, so that it adds to no peak of those. */
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

    /* Large blocks ask for huge pages: filling them then takes far fewer page faults. Those that come straight
       from the system are zero, which zeros() makes use of. `room` is what a mapped block really has, else 0. */
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
    """Current and peak bytes, and counts, of what it was told of."""

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
        """A new `Block` that is counted here. MemoryError where there is not that much."""
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
        """Count an array that brought its own memory, until it is gone; it must allow weak references."""
        cdef long long n = nbytes

        def gone(entry):
            self.live.discard(entry)
            self.remove(n)

        if self.live is None:
            self.live = set()
        self.add(n)
        self.live.add(_Entry(array, gone))

    def stats(self):
        """The figures now: ``allocated_bytes.all.`` and ``allocation.all.`` ``current``, ``peak``, ``allocated``, ``freed``."""
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
        """Let the peaks start again from what is in use now."""
        self.peak = self.total - self.freed
        self.peak_count = self.count - self.freed_count


class _Entry(weakref.ref):
    """A weak reference that is hashed by itself: arrays have no hash."""

    __slots__ = ()
    __hash__ = object.__hash__
    __eq__ = object.__eq__


@cython.final
@cython.freelist(64)
@cython.binding(False)
cdef class Block:
    """Uninitialised host memory, freed with the object. Made by `Ledger.allocate`."""

    @property
    def address(self):
        """The address of the first byte."""
        self.touched = True
        return <size_t>self.start

    def __len__(self):
        return self.nbytes

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        # By hand: PyBuffer_FillInfo would lose the reference to None that Cython puts into buffer.obj beforehand.
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
    """Give the memory back to the system that is kept for the next large block; how many bytes."""
    return drop_kept()


def human_bytes(nbytes):
    """A size for a person: ``512 bytes``, ``1.50 GiB``."""
    if nbytes < 1024:
        return f"{int(nbytes)} bytes"
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        nbytes /= 1024
        if nbytes < 1024:
            return f"{nbytes:.2f} {unit}"
    return f"{nbytes / 1024:.2f} EiB"
