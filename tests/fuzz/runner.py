"""Run programs and check their results.

Failures are: the end of the process; an exception of the interpreter (SystemError) or of a class that no caller can
expect; an exception that compiled code could not propagate; a KeyError, NameError, AssertionError or failed bounds
check inside the package; an inconsistent tensor (`in_order`); growth of memory or of reference counts.
"""

import collections
import gc
import itertools
import json
import os
import pickle
import random
import re
import signal
import statistics
import sys
import traceback
import warnings

import metatensor as mt
from metatensor._core import modes, op
from metatensor._core.thread import DisableTorchFunctionSubclass

from .calls import Ops, from_records, from_schema
from .graphs import from_graphs
from .surface import from_surface
from .values import Values
from .world import NAMES, Oops, T

ALLOWED = (TypeError, ValueError, RuntimeError, IndexError, OverflowError, AttributeError, ArithmeticError, BufferError,
KeyError,
           MemoryError, OSError, NameError, StopIteration, ImportError, AssertionError, Oops, pickle.PickleError,
           UserWarning)
INTERNAL = (NameError, AssertionError, KeyError, MemoryError)  # must not be raised inside the package
_INTERNAL_TEXT = re.compile(
    r"(list|tuple|string|bytearray) (assignment )?index out of range|Out of bounds|'[\w.]+' object has no attribute"
)
# In lines that match this, misbehaving objects, results of modes and overrides, or claimed lengths of 2**40 reach plain
# Python code, which may raise any exception. `Size` raises the errors of a tuple.
_OPEN = re.compile(r"check_op|Liar|2 ?\*\* ?40|decode_numbers|mt\.Size|\.shape|__deepcopy__|Meddler|set_rng_state|set_state")
_VALUE_LINE = re.compile(r"[tl]\d+ = (T\(|\[)")
# Lines that match this change a storage or a layout on purpose. Afterwards a tensor may reach beyond its storage.
_LOOSENS = re.compile(r"storage|resize|set_|\.data|rebuild|__class__|'data'")
SLOW = 20


class TooSlow(BaseException):
    """A call takes far too long."""


class Failure(Exception):
    """A failure, with its reason and the line of the program."""


def program(seed, number, ops, device, rng=None, graphs=0.2):
    """Return the lines of a program by its number. `graphs` is the share of programs that walk graphs of gradients."""
    rng = rng or random.Random(f"{seed}:{number}")
    v = Values(rng, device, rng.choice([0.0, 0.0, 0.0, 0.05, 0.25]))
    makers = (from_graphs,) if rng.random() < graphs else (from_schema, from_schema, from_schema, from_records, from_surface)
    makers[rng.randrange(len(makers))](v, ops)
    return v.lines


class Runner:
    """Runs programs in this process."""

    def __init__(self, device="meta", only=None):
        T.device = device
        self.device = device
        self.ops = Ops(only)
        self.calls = self.raised = 0
        self.ignored = []
        self._names = set(op.registry)
        sys.unraisablehook = lambda u: self.ignored.append(u.exc_value)
        if hasattr(signal, "SIGALRM"):
            signal.signal(signal.SIGALRM, _too_slow)
        warnings.simplefilter("ignore")
        self._settle()

    def run(self, lines, trace=False):
        """Run a program. Raise Failure if one of its lines fails."""
        names = NAMES.copy()
        text = "\n".join(lines)
        loose = _LOOSENS.search(text) is not None
        if hasattr(signal, "SIGALRM"):
            signal.alarm(SLOW)
        try:
            for line in lines:
                if trace:
                    print("   ", line, flush=True)
                self._line(line, names, loose, text)
        finally:
            if hasattr(signal, "SIGALRM"):
                signal.alarm(0)
            names.clear()
            self._settle()

    def _line(self, line, names, loose, text):
        try:
            code = compile(line, "<program>", "exec")
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return  # a duplicate keyword or a NUL character
        if not _VALUE_LINE.match(line):
            self.calls += 1
        try:
            exec(code, names)
        except TooSlow:
            raise Failure(f"more than {SLOW} s", line) from None
        except BaseException as error:
            self.raised += 1
            why = wrong(error, text if isinstance(error, MemoryError) else line)
            if why:
                raise Failure(why, line) from error
        if self.ignored:
            error = self.ignored.pop()
            self.ignored.clear()
            if not isinstance(error, Oops):
                raise Failure(f"an exception nobody could catch: {error!r}", line)
        if not loose and line.startswith("r ="):
            with DisableTorchFunctionSubclass():
                why = in_order(names.get("r"))
            if why:
                raise Failure(why, line)

    def _settle(self):
        """Restore process-wide settings that programs may have changed."""
        while modes.current_modes():
            modes.current_modes()[-1].__exit__(None, None, None)
        mt.set_default_device(self.device)
        mt.set_default_dtype(mt.float32)
        mt.set_grad_enabled(True)
        if len(op.registry) != len(self._names):
            for name in set(op.registry) - self._names:
                del op.registry[name]


def _too_slow(signum, frame):
    raise TooSlow


def wrong(error, code):
    """Return what is wrong with an exception that `code` raised, or None if a caller may expect it."""
    if isinstance(error, SystemError) or not isinstance(error, ALLOWED):
        return "".join(traceback.format_exception(error))[-1500:]
    try:
        text = str(error) if not isinstance(error, Oops) else ""
    except Exception:  # one of the misbehaving objects is involved
        text = ""
    if isinstance(error, INTERNAL) or _INTERNAL_TEXT.search(text):
        tb = error.__traceback__
        while tb.tb_next is not None:
            tb = tb.tb_next
        where = tb.tb_frame.f_code.co_filename
        # A KeyError or AssertionError whose message has spaces was written for the caller. PyTorch raises these classes
        # too. The same holds for an AttributeError in `nn`, whose modules are plain Python, as in PyTorch.
        meant = " " in text and (isinstance(error, (KeyError, AssertionError)) or (isinstance(error, AttributeError) and "nn/" in where))
        if where.endswith("/size.pyx"):
            return None
        if (where.endswith(".pyx") or "/metatensor/" in where) and not meant and not _OPEN.search(code):
            return "".join(traceback.format_exception(error))[-1500:]
    return None


def in_order(value):
    """Return what is wrong with a result, or None."""
    if isinstance(value, (list, tuple)):
        for item in value[:9]:
            why = in_order(item)
            if why:
                return why
    if not isinstance(value, mt.Tensor):
        return None
    shape, strides, n = tuple(value.shape), value.stride(), 1
    end = value.storage_offset() + 1
    for size, stride in zip(shape, strides):
        if size < 0 or stride < 0:
            return f"a tensor of sizes {shape} and strides {strides}"
        n *= size
        end += (size - 1) * stride
    if len(strides) != len(shape) or n != value.numel() or n >= 2**63 or value.ndim != len(shape):
        return f"a tensor of sizes {shape}, strides {strides} and {value.numel()} elements"
    if n and end * value.itemsize > value.untyped_storage().nbytes():
        return f"a tensor of sizes {shape}, strides {strides}, offset {value.storage_offset()} and {value.dtype} over " \
               f"{value.untyped_storage().nbytes()} bytes"
    return None


# Leaks ----------------------------------------------------------------------------------------------------------

WATCHED = [value for value in vars(mt).values() if isinstance(value, (mt.dtype, mt.layout, mt.memory_format))]
WATCHED += [mt.device("meta"), mt.device("cpu"), mt.Tensor, mt.Size, op.registry["add"], op.registry["empty"]]
if sys.version_info < (3, 12):  # immortal in later versions
    WATCHED += [None, True, False, Ellipsis, NotImplemented, (), 0, 1, 2, ""]


def resident():
    """Return the resident bytes of the process, or 0 if the platform does not report them."""
    try:
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def figures():
    """Return the current (resident bytes, allocated blocks, references)."""
    gc.collect()
    return resident(), sys.getallocatedblocks(), [sys.getrefcount(x) for x in WATCHED]


def objects():
    """Return the number of objects that the garbage collector tracks, by type name."""
    return collections.Counter(f"{type(x).__module__}.{type(x).__qualname__}" for x in gc.get_objects())


def slope(points):
    """Return the median slope between successive (x, y) points. A late import changes one slope, a leak changes all."""
    return statistics.median((y - v) / (x - u) for (u, v), (x, y) in itertools.pairwise(points))


class Growth:
    """Figures between repeated runs of the same programs. They determine the growth per call.

    New programs fill caches: rules of operators, schemas, types that `isinstance` has seen. What the same programs leave
    each time that they run is a leak.
    """

    # Caches of the interpreter and of libraries grow slightly. A leak in one of a hundred calls exceeds these limits.
    BYTES, BLOCKS, REFERENCES, OBJECTS = 16.0, 0.05, 0.01, 0.01
    ROUNDS = 6
    SHARE = 0.05  # the last programs of a run, by the share of its calls
    LEAST = 2_000  # calls in a round

    def __init__(self):
        self.rows = []

    def note(self, calls):
        # As text: the rows must not themselves refer to the numbers whose references are counted.
        self.rows.append(json.dumps((calls, *figures(), objects())))

    def report(self):
        """Return (text, whether the growth is a failure)."""
        rows = [json.loads(row) for row in self.rows[1:]]
        if len(rows) < 3 or rows[-1][0] - rows[0][0] < self.LEAST * (len(rows) - 1):
            return "too few calls for a slope", False
        per_byte = slope([(r[0], r[1]) for r in rows])
        per_block = slope([(r[0], r[2]) for r in rows])
        worst = max(((slope([(r[0], r[3][i]) for r in rows]), repr(x)) for i, x in enumerate(WATCHED)), key=lambda p: abs(p[0]))
        kinds = {kind for r in rows for kind in r[4]}
        most = max((slope([(r[0], r[4].get(kind, 0)) for r in rows]), kind) for kind in kinds)
        text = (f"per call: {per_byte:.2f} bytes resident, {per_block:.4f} blocks, {worst[0]:.5f} references to {worst[1][:60]}, "
                f"{most[0]:.5f} objects of {most[1]}")
        # AddressSanitizer keeps freed memory in quarantine for a while.
        kept = per_byte > self.BYTES and "asan" not in os.environ.get("LD_PRELOAD", "")
        return text, kept or per_block > self.BLOCKS or abs(worst[0]) > self.REFERENCES or most[0] > self.OBJECTS


def leak(runner, lines, times):
    """Return what running a program `times` times leaks, or None. Failures of the program are raised."""
    runner.run(lines)
    for _ in range(3):  # fills caches
        before = figures()
        for _ in range(times):
            runner.run(lines)
        after = figures()
        blocks = after[1] - before[1]
        references = [(b - a, repr(x)) for a, b, x in zip(before[2], after[2], WATCHED) if abs(b - a) >= 0.9 * times]
        if blocks < 0.9 * times and not references:
            return None
    return f"{times} runs leave {blocks} blocks and references {references}"
