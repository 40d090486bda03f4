"""Random number generators: a seed and a count of random ops.

Random numbers come from a counter-based stream. A generator numbers the random ops that use it. The number of an op is
its *ticket*. Element i of the result depends only on the seed, the ticket and i. The state of a generator is therefore
its seed and the number of tickets taken. Every random op takes exactly one ticket, also on the meta device. Generators
are used while holding the GIL, so no two threads get the same ticket.
"""
import os
import struct

cimport cython
from cpython.object cimport PyObject
from metatensor._core.device cimport META, Device, concrete_device, backend_of, cpu_device
from metatensor._core.dtype cimport U8, by_code
from metatensor._core.op cimport Call, hold, op_name
from metatensor._core.tensor cimport Tensor, new_contiguous
from metatensor._core.thread cimport hints
from metatensor._core.types cimport dim_t

from metatensor._core.late import later

cdef enum:
    STATE_BYTES = 16

# Device types of PyTorch that have no random number generator.
_WITHOUT_GENERATOR = frozenset(("opengl", "opencl", "mkldnn", "ideep", "ve", "fpga", "maia", "lazy", "vulkan", "ipu"))

_FIRST_SEED = 67280421310721    # the seed of a new Generator(), as in PyTorch


cdef long long _made = 0


cdef long long generators_made() noexcept:
    """Return the number of generators that have been created."""
    return _made


cdef int _reseeding(Generator g, bint by_chance) except -1:
    """Tell a trace that the state of a generator is about to be set, and whether to random bytes."""
    if hints.modes:
        later("note_seed")(g, by_chance)
    return 0


cdef unsigned long long _wrap_seed(object seed) except? 0:
    """Return a seed in [-2**63, 2**64) modulo 2**64.

    Raise ValueError if it is out of range, TypeError if it is not an int.
    """
    try:
        seed = int(seed)
    except (TypeError, ValueError):
        raise TypeError(f"manual_seed: expected an int, got {type(seed).__name__}") from None
    if not -(1 << 63) <= seed < 1 << 64:
        raise ValueError(f"manual_seed: the seed must lie in [-2**63, 2**64), got {seed}")
    return seed % (1 << 64)


@cython.final
@cython.binding(False)
cdef class Generator:
    """A random number generator, passed to random ops: ``rand(3, generator=g)``.

    The same seed and the same sequence of random ops give the same values on every device.

    Parameters
    ----------
    device : device, str or int
        Stored as the attribute `device`, for compatibility with PyTorch. The generator works with tensors on any
        device. Default "cpu".

    Raises
    ------
    RuntimeError
        If the device type has no random numbers in PyTorch.

    Examples
    --------
    >>> import metatensor as mt
    >>> g = mt.Generator().manual_seed(1)
    >>> g.initial_seed()
    1
    """

    def __init__(self, device="cpu"):
        self.device = concrete_device(device)
        if self.device.type in _WITHOUT_GENERATOR:
            raise RuntimeError(f"Generator: there are no random numbers on devices of type {self.device.type}")
        self.key = _FIRST_SEED
        self.taken = 0
        global _made
        self.serial = _made
        _made += 1

    def manual_seed(self, seed):
        """Set the seed, restart the stream and return the generator.

        Parameters
        ----------
        seed : int
            An int in [-2**63, 2**64), taken modulo 2**64.

        Raises
        ------
        ValueError
            If `seed` is out of range.
        TypeError
            If `seed` is not an int.
        """
        cdef unsigned long long key = _wrap_seed(seed)
        _reseeding(self, False)
        self.key = key
        self.taken = 0
        return self

    def seed(self):
        """Set a seed from the entropy of the system, restart the stream and return the seed."""
        _reseeding(self, True)
        self.key = int.from_bytes(os.urandom(8), "little")
        self.taken = 0
        return self.key

    def initial_seed(self):
        """Return the seed, modulo 2**64."""
        return self.key

    def get_state(self):
        """Return the state: a uint8 tensor of shape (16,) on the cpu, or bytes if no cpu device is installed."""
        return _as_tensor(struct.pack("<QQ", self.key, self.taken))

    def set_state(self, new_state):
        """Set the state and return the generator.

        Parameters
        ----------
        new_state : Tensor or bytes
            A state that `get_state` returned.

        Raises
        ------
        TypeError
            If `new_state` is neither bytes nor a uint8 tensor.
        RuntimeError
            If it does not have 16 bytes.
        """
        key, taken = struct.unpack("<QQ", _as_bytes(new_state))
        _reseeding(self, False)
        self.key, self.taken = key, taken
        return self

    def clone_state(self):
        """Return a new generator with the same device and state."""
        if hints.modes:
            later("refuse_in_trace")("clone_state() of a generator")
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


# The default generator of the process -------------------------------------------------------

cdef Generator default = Generator()
default.seed()
default_generator = default


def manual_seed(seed):
    """Seed the default generator and return it.

    Parameters
    ----------
    seed : int
        An int in [-2**63, 2**64), taken modulo 2**64.

    Raises
    ------
    ValueError
        If `seed` is out of range.
    TypeError
        If `seed` is not an int.
    """
    return default.manual_seed(seed)


def seed():
    """Seed the default generator from the entropy of the system and return the seed."""
    return default.seed()


def initial_seed():
    """Return the seed of the default generator, modulo 2**64."""
    return default.initial_seed()


def get_rng_state():
    """Return the state of the default generator. See `Generator.get_state`."""
    return default.get_state()


def set_rng_state(new_state):
    """Set the state of the default generator. See `Generator.set_state`."""
    default.set_state(new_state)


# Tickets -----------------------------------------------------------------------------------

cdef int take_ticket(Call* c, int slot) except -1:
    """Take the ticket of a random op from the generator in `slot`.

    On devices with data and under modes, replace the argument by the tuple (seed, ticket), which kernels receive. If
    the slot already holds a tuple, a recorded op is replayed and no ticket is taken.
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
