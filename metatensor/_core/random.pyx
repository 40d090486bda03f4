"""Generators of random numbers: a seed and a count of tickets.

Values come from a counter-based stream: element i of a random op depends on the seed, on the op's ticket and on i
alone. A generator therefore has no state but how many tickets it gave out, and every random op takes exactly one,
on every device, the meta device included. Its methods run under the interpreter's lock, so threads never share a
ticket.
"""
import os
import struct

cimport cython
from cpython.object cimport PyObject
from metatensor._core.device cimport META, Device, place_of, backend_of, cpu_device
from metatensor._core.dtype cimport U8, by_code
from metatensor._core.op cimport Call, hold, op_name
from metatensor._core.tensor cimport Tensor, new_contiguous
from metatensor._core.thread cimport hints
from metatensor._core.types cimport dim_t

cdef enum:
    STATE_BYTES = 16

# Types of device that PyTorch names without ever having generated random numbers there.
_WITHOUT_GENERATOR = frozenset(("opengl", "opencl", "mkldnn", "ideep", "ve", "fpga", "maia", "lazy", "vulkan", "ipu"))

_FIRST_SEED = 67280421310721    # what an unseeded Generator() starts from, as in PyTorch


cdef unsigned long long _wrap_seed(object seed) except? 0:
    """A seed modulo 2**64, from -2**63 on, as PyTorch takes it."""
    try:
        seed = int(seed)
    except (TypeError, ValueError):
        raise TypeError(f"manual_seed: expected an int, got {type(seed).__name__}") from None
    if not -(1 << 63) <= seed < 1 << 64:
        raise RuntimeError(f"manual_seed: the seed must lie in [-2**63, 2**64), got {seed}")
    return seed % (1 << 64)


@cython.final
@cython.binding(False)
cdef class Generator:
    """A source of tickets for random ops: ``rand(3, generator=g)``.

    The same seed and the same sequence of random ops give the same values on every device. `device` is kept for
    PyTorch's sake; a generator works with tensors anywhere.
    """

    def __init__(self, device="cpu"):
        self.device = place_of(device)
        if self.device.type in _WITHOUT_GENERATOR:
            raise RuntimeError(f"Generator: there are no random numbers on devices of type {self.device.type}")
        self.key = _FIRST_SEED
        self.taken = 0

    def manual_seed(self, seed):
        """Start again from `seed`, an int in [-2**63, 2**64); returns the generator."""
        self.key = _wrap_seed(seed)
        self.taken = 0
        return self

    def seed(self):
        """Start again from a seed drawn from the system's entropy, and return it."""
        self.key = int.from_bytes(os.urandom(8), "little")
        self.taken = 0
        return self.key

    def initial_seed(self):
        """The seed that the current stream started from."""
        return self.key

    def get_state(self):
        """The state: 16 bytes as a uint8 tensor on the cpu, or as plain bytes where no cpu device is installed."""
        return _as_tensor(struct.pack("<QQ", self.key, self.taken))

    def set_state(self, new_state):
        """Go to a state that `get_state` returned. TypeError or RuntimeError for anything else."""
        self.key, self.taken = struct.unpack("<QQ", _as_bytes(new_state))
        return self

    def clone_state(self):
        """A new generator in the same state."""
        cdef Generator g = Generator.__new__(Generator)
        g.device = self.device
        g.key = self.key
        g.taken = self.taken
        return g

    def __reduce__(self):
        return (_rebuild, (str(self.device), self.key, self.taken))

    def __repr__(self):
        return f"<metatensor.Generator device={self.device} seed={self.key} tickets={self.taken}>"


def _rebuild(device, key, taken):
    cdef Generator g = Generator(device)
    g.key = key
    g.taken = taken
    return g


cdef object _as_tensor(bytes state):
    cdef Device cpu = cpu_device()
    cdef dim_t size = STATE_BYTES
    cdef Tensor t
    try:
        backend = backend_of(cpu)
    except (RuntimeError, ImportError):
        return state
    t = new_contiguous(1, &size, by_code(U8), cpu)
    t.storage.data = backend.allocate(STATE_BYTES, 0)
    backend.from_host(t, state)
    return t


cdef bytes _as_bytes(object state):
    if isinstance(state, Tensor):
        if (<Tensor>state).dtype.code != U8:
            raise TypeError(f"set_state: expected a uint8 tensor, got {(<Tensor>state).dtype.name}")
        state = bytes(state.tolist())
    elif not isinstance(state, (bytes, bytearray, memoryview)):
        raise TypeError(f"set_state: expected what get_state returned, got {type(state).__name__}")
    if len(state) != STATE_BYTES:
        raise RuntimeError(f"set_state: a state has {STATE_BYTES} bytes, got {len(state)}")
    return bytes(state)


# The generator of the process ---------------------------------------------------------------

cdef Generator default = Generator()
default.seed()
default_generator = default


def manual_seed(seed):
    """Seed the process's generator with an int in [-2**63, 2**64), and return it."""
    return default.manual_seed(seed)


def seed():
    """Seed the process's generator from the system's entropy, and return the seed."""
    return default.seed()


def initial_seed():
    """The seed that the process's generator started from."""
    return default.initial_seed()


def get_rng_state():
    """The state of the process's generator; see `Generator.get_state`."""
    return default.get_state()


def set_rng_state(new_state):
    """Set the process's generator to a state that `get_rng_state` returned."""
    default.set_state(new_state)


# Tickets -----------------------------------------------------------------------------------

cdef int take_ticket(Call* c, int slot) except -1:
    """Take the ticket of a random op, whose generator argument stands in `slot`.

    Where something beyond the meta kernel may want it (a device's kernel, a mode), the slot then holds the tuple
    (seed, ticket). A tuple that is there already is a ticket to be drawn again, and none is taken.
    """
    cdef object given = <object>c.args[slot]
    cdef Generator g
    cdef object ticket
    if given is None:
        g = default
    elif isinstance(given, Generator):
        g = <Generator>given
    elif type(given) is tuple and len(given) == 2:
        return 0
    else:
        raise TypeError(f"{op_name(c)}(): argument 'generator' must be Generator or None, not {type(given).__name__}")
    g.taken += 1
    if c.device != <PyObject*>META or hints.modes:
        ticket = (g.key, g.taken - 1)
        hold(c, ticket)
        c.args[slot] = <PyObject*>ticket
    return 0
