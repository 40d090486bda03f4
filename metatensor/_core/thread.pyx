"""Per-thread state: modes, grad mode, default device, memory tracker, recorder.

The interpreter's per-thread dictionary owns the state, so it is freed with the
thread. A thread-local C pointer makes access fast.
"""
cimport cython
from cpython.object cimport PyObject

cdef extern from "Python.h":
    PyObject* PyThreadState_GetDict()

cdef extern from *:
    """
    #ifdef _MSC_VER
    static __declspec(thread) PyObject *mt_thread_state = NULL;
    #else
    #ifdef __GLIBC__
    #define MT_FAST __attribute__((tls_model("initial-exec")))      /* one load instead of a call; glibc reserves room for it */
    #else
    #define MT_FAST
    #endif
    static _Thread_local PyObject *mt_thread_state MT_FAST = NULL;
    #endif
    """
    PyObject* mt_thread_state

cdef str _KEY = "metatensor._core.thread"


@cython.final
cdef class ThreadState:
    def __cinit__(self):
        self.grad_enabled = True
        self.modes = []
        self.dual_limit = <unsigned long long>-1

    def __dealloc__(self):
        global mt_thread_state
        if mt_thread_state == <PyObject*>self:
            mt_thread_state = NULL


cdef ThreadState thread_state():
    global mt_thread_state
    cdef PyObject* d
    cdef ThreadState state
    if mt_thread_state != NULL:
        return <ThreadState>mt_thread_state
    state = ThreadState.__new__(ThreadState)
    d = PyThreadState_GetDict()
    if d == NULL:
        raise RuntimeError("metatensor: this thread has no Python thread state")
    (<dict>d)[_KEY] = state
    mt_thread_state = <PyObject*>state
    return state


def is_grad_enabled():
    """Return True if gradients are enabled in this thread.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.is_grad_enabled()
    True
    """
    return thread_state().grad_enabled


def is_inference_mode_enabled():
    """Return True if inference mode is enabled in this thread."""
    return thread_state().inference


def _set_grad_enabled(bint mode):
    cdef ThreadState state = thread_state()
    cdef bint was = state.grad_enabled
    state.grad_enabled = mode
    return was


def _set_inference(bint mode):
    cdef ThreadState state = thread_state()
    cdef bint was = state.inference
    state.inference = mode
    hints.modes += mode - was       # inference tensors are marked in run_modes, so use that path
    return was


@cython.final
@cython.binding(False)
cdef class DisableTorchFunctionSubclass:
    """A context manager that disables ``__torch_function__`` of subclasses in this thread."""
    cdef list _outer

    def __cinit__(self):
        self._outer = []

    def __enter__(self):
        cdef ThreadState state = thread_state()
        self._outer.append(state.overrides_disabled)
        state.overrides_disabled = True

    def __exit__(self, *exc):
        thread_state().overrides_disabled = self._outer.pop()


@cython.final
@cython.binding(False)
cdef class _DisableTorchDispatch:
    """Disables ``__torch_dispatch__`` of modes and subclasses in this thread while the object lives."""
    cdef ThreadState state

    def __cinit__(self):
        self.state = thread_state()
        self.state.dispatch_disabled += 1

    def __dealloc__(self):
        self.leave()

    cdef void leave(self):
        if self.state is not None:
            self.state.dispatch_disabled -= 1
            self.state = None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.leave()


# Hooks for saved tensors ------------------------------------------------------------------------------

cdef object _refusal = None     # message of the error that entering the hooks raises, or None


def push_saved_tensors_hooks(pack, unpack):
    """Call ``pack`` with every tensor that is saved for backward from now on, in this thread."""
    cdef ThreadState state = thread_state()
    if _refusal is not None:
        raise RuntimeError(_refusal)
    if state.saved_hooks is None:
        state.saved_hooks = []
    state.saved_hooks.append((pack, unpack))
    hints.saved_hooks += 1


def pop_saved_tensors_hooks():
    """Undo the last `push_saved_tensors_hooks` of this thread."""
    thread_state().saved_hooks.pop()
    hints.saved_hooks -= 1


def set_saved_tensors_hooks_refusal(message):
    """Make `push_saved_tensors_hooks` raise RuntimeError with this message; None allows it. Return the old message."""
    global _refusal
    before = _refusal
    _refusal = message
    return before


def set_anomaly(int mode):
    """Set anomaly mode: 0 is off, 1 stores the call stack of every recorded call, 2 also checks gradients for NaN.

    Return the old mode.
    """
    cdef int was = hints.anomaly
    hints.anomaly = mode
    return was


def saved_tensors_hooks():
    """Return the innermost pair of hooks for saved tensors of this thread, or None."""
    cdef ThreadState state = thread_state()
    return innermost_hooks(state) if state.saved_hooks else None


cdef tuple innermost_hooks(ThreadState state):
    return <tuple>state.saved_hooks[len(state.saved_hooks) - 1]
