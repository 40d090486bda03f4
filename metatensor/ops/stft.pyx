"""The short-time Fourier transform, which transforms the windowed frames of a signal, and its inverse."""
import warnings

from metatensor._core.dtype cimport DType, to_real
from metatensor._core.layout cimport add_dims, mul_dims
from metatensor._core.op cimport (
    COMPOSITE, FUNCTION_ONLY, Call, arg, bool_arg, call, define, int_arg, is_none, result_device, tensor_arg,
)
from metatensor._core.tensor cimport Tensor, new_contiguous, shape_str
from metatensor._core.types cimport KIND_BOOL, KIND_COMPLEX, KIND_FLOAT, dim_t
from metatensor.ops.spatial cimport fail
from metatensor._core.gradients import gradient

# istft() cannot recover a point of the signal if the sum of the squared windows there is below this value.
cdef double LEAST_ENVELOPE = 1e-11


# Adding up overlapping frames -----------------------------------------------------------

cdef object overlap_add_meta(Call* c):
    """Arguments: input (n, frames, size), step. Returns (n, size + step * (frames - 1))."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t sizes[2]
    if t.ndim != 3 or t.sizes[1] == 0 or int_arg(c, 1) < 1:
        fail(c, "expected an input of shape [n, frames, size] with at least one frame, and a positive step, got shape "
                f"{shape_str(t)} and step {arg(c, 1)}")
    sizes[0] = t.sizes[0]
    sizes[1] = add_dims(t.sizes[2], mul_dims(int_arg(c, 1), t.sizes[1] - 1))
    return new_contiguous(2, sizes, t.dtype, result_device(c))


define("_overlap_add(Tensor input, int step) -> Tensor", overlap_add_meta, FUNCTION_ONLY,
       "Add up overlapping frames that start `step` points apart. An input of shape (n, frames, size) gives "
       "(n, size + step * (frames - 1)).")
gradient("_overlap_add", node="UnfoldBackwardBackward0", input=lambda grad, input_meta, step: grad.unfold(-1, input_meta.shape[2], step))


# Shared by both directions -----------------------------------------------------------------

cdef struct Frames:
    dim_t size          # n_fft, the number of points in a transform
    dim_t hop           # number of points from one frame to the next
    dim_t window        # number of points in the window, which is centered in a frame


cdef int _read_frames(Call* c, Frames* f) except -1:
    """Read the arguments n_fft, hop_length and win_length."""
    f.size = int_arg(c, 1)
    f.hop = f.size >> 2 if is_none(c, 2) else int_arg(c, 2)
    f.window = f.size if is_none(c, 3) else int_arg(c, 3)
    return 0


cdef int _check_window(Call* c, Frames* f) except -1:
    cdef Tensor window
    if not 0 < f.window <= f.size:
        fail(c, f"win_length must be from 1 to n_fft={f.size}, got {f.window}")
    if not is_none(c, 4):
        window = tensor_arg(c, 4)
        if window.ndim != 1 or window.sizes[0] != f.window:
            fail(c, f"the window must be a vector of win_length={f.window} values, got shape {shape_str(window)}")
    return 0


cdef Tensor _window(Call* c, Frames* f, DType dtype):
    """Return the window (default: ones), padded with zeros on both sides to the size of a frame."""
    cdef object window = arg(c, 4)
    cdef dim_t left = (f.size - f.window) // 2
    if window is None:
        window = call("ones", (f.window,), {"dtype": dtype, "device": result_device(c)})
    if f.window < f.size:
        window = call("constant_pad_nd", (window, (left, f.size - f.window - left)))
    return <Tensor>window


# Forward --------------------------------------------------------------------------------------

cdef Tensor _centered(Call* c, Tensor t, object mode):
    """Pad a signal by half a frame at both ends, so that frames are centered at their points in time."""
    cdef object half = arg(c, 1) // 2, padded
    cdef list shape = [1] * (3 - t.ndim) + list(t.shape)
    padded = call("nn.functional.pad", (call("view", (t, shape)), (half, half), mode))
    return <Tensor>call("view", (padded, padded.shape[max(0, 3 - t.ndim):]))


cdef object stft_body(Call* c):
    """Arguments: input, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided,
    return_complex, align_to_window.
    """
    cdef Tensor signal = tensor_arg(c, 0), t = signal
    cdef Frames f
    cdef object result
    cdef dim_t margin, points
    cdef bint onesided
    cdef int normalization = 1 if bool_arg(c, 7) else 0
    if bool_arg(c, 5):
        if not is_none(c, 10):
            fail(c, "align_to_window requires center=False")
        t = _centered(c, t, arg(c, 6))
    _read_frames(c, &f)
    if is_none(c, 9) and t.dtype.kind != KIND_COMPLEX and (is_none(c, 4) or tensor_arg(c, 4).dtype.kind != KIND_COMPLEX):
        fail(c, "return_complex must be given if input and window are real")
    if t.dtype.kind != KIND_FLOAT and t.dtype.kind != KIND_COMPLEX:
        fail(c, f"the input must be floating-point or complex, got {t.dtype.name}")
    if t.ndim != 1 and t.ndim != 2:
        fail(c, f"the input must have shape [points] or [batch, points], got shape {shape_str(signal)}")
    if t.ndim == 1:
        t = <Tensor>call("unsqueeze", (t, 0))
    points = t.sizes[1]
    if not 0 < f.size <= points:
        fail(c, f"n_fft must be from 1 to {points}, the number of points in the signal, got {f.size}")
    if f.hop < 1:
        fail(c, f"hop_length must be positive, got {f.hop}")
    _check_window(c, &f)
    if not is_none(c, 10) and bool_arg(c, 10):
        margin = (f.size - f.window) // 2
        t = <Tensor>call("constant_pad_nd", (t, (margin, margin)))
        if (t.sizes[1] - f.size) // f.hop != (points - f.window) // f.hop:
            fail(c, f"with align_to_window the last window of {f.window} points would exceed the signal of {points} "
                    "points")
    t = <Tensor>call("unfold", (t, 1, f.size, f.hop))
    if not is_none(c, 4) or f.window < f.size:
        t = <Tensor>call("mul", (t, _window(c, &f, t.dtype)))
    onesided = t.dtype.kind != KIND_COMPLEX if is_none(c, 8) else bool_arg(c, 8)
    if t.dtype.kind != KIND_COMPLEX:
        result = call("_fft_r2c", (t, (2,), normalization, onesided))
    elif onesided:
        fail(c, "onesided=True is not supported if input or window is complex")
    else:
        result = call("_fft_c2c", (t, (2,), normalization, True))
    result.transpose_(1, 2)
    if signal.ndim == 1:
        result.squeeze_(0)
    return result if is_none(c, 9) or bool_arg(c, 9) else call("view_as_real", (result,))


define("stft(Tensor input, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, "
       "str pad_mode='reflect', bool normalized=False, bool? onesided=None, bool? return_complex=None, "
       "bool? align_to_window=None) -> Tensor", stft_body, COMPOSITE,
       "Short-time Fourier transform of a signal (points,) or (N, points): the transforms of its windowed frames. The "
       "result is complex with shape (..., frequencies, frames). If `return_complex` is False, it is real with an "
       "additional last dimension of size 2. `hop_length` defaults to `n_fft // 4`.")


# Inverse --------------------------------------------------------------------------------------

cdef int _check_envelope(Call* c, Tensor envelope) except -1:
    """Raise RuntimeError if the windows do not cover all of the result. If `envelope` has no data, check nothing."""
    cdef Tensor least = <Tensor>call("min", (call("abs", (envelope,)),))
    while getattr(type(least), "_overrides_operators_only", False):
        least = (<object>least).value.amin()    # of all members of a batch
    if least.storage.data is not None and (<object>least).item() < LEAST_ENVELOPE:
        fail(c, "the windows do not cover the whole signal: the sum of their squares is (almost) 0 at some point")
    return 0


cdef object istft_body(Call* c):
    """Arguments: input, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex."""
    cdef Tensor spectrum = tensor_arg(c, 0), t = spectrum, window
    cdef Frames f
    cdef int normalization = 1 if bool_arg(c, 6) else 2
    cdef bint onesided, to_complex = bool_arg(c, 9)
    cdef dim_t frames, frequencies, total, start, end
    cdef object y, envelope
    _read_frames(c, &f)
    if t.dtype.kind != KIND_COMPLEX:
        fail(c, f"the input must be complex, as stft() returns it, got {t.dtype.name}")
    if t.ndim < 2:
        raise IndexError(f"istft(): the input must have at least 2 dimensions, got shape {shape_str(t)}")
    if t.ndim > 3:
        fail(c, "the input must have shape [frequencies, frames] or [batch, frequencies, frames], got shape "
                f"{shape_str(t)}")
    if t.total == 0:
        fail(c, f"the input must not be empty, got shape {shape_str(t)}")
    frequencies = t.sizes[t.ndim - 2]
    frames = t.sizes[t.ndim - 1]
    onesided = frequencies != f.size if is_none(c, 7) else bool_arg(c, 7)
    if frequencies != (f.size // 2 + 1 if onesided else f.size):
        fail(c, f"an input of shape {shape_str(t)} has {frequencies} frequencies, but n_fft={f.size} with "
                f"onesided={bool(onesided)} requires {f.size // 2 + 1 if onesided else f.size}")
    if not 0 < f.hop <= f.window:
        fail(c, f"hop_length must be from 1 to win_length={f.window}, got {f.hop}")
    _check_window(c, &f)
    window = _window(c, &f, to_real(t.dtype))
    if window.dtype.kind == KIND_BOOL:      # sums of bools would be bools
        window = <Tensor>call("to", (window, to_real(t.dtype)))
    if t.ndim == 2:
        t = <Tensor>call("unsqueeze", (t, 0))
    t = <Tensor>call("transpose", (t, 1, 2))
    if to_complex:
        if onesided:
            fail(c, "return_complex=True requires onesided=False, with all frequencies")
        t = <Tensor>call("_fft_c2c", (t, (2,), normalization, False))
    else:
        if window.dtype.kind == KIND_COMPLEX:
            fail(c, "return_complex must be True if the window is complex")
        if not onesided:
            t = <Tensor>call("narrow", (t, 2, 0, f.size // 2 + 1))
        t = <Tensor>call("_fft_c2r", (t, (2,), normalization, f.size))
    y = call("_overlap_add", (call("mul", (t, window)), f.hop))
    envelope = call("expand", (call("mul", (window, window)), (1, frames, f.size)))
    envelope = call("_overlap_add", (envelope, f.hop))
    total = (<Tensor>y).sizes[1]
    start = f.size // 2 if bool_arg(c, 5) else 0
    if not is_none(c, 8):
        end = add_dims(start, int_arg(c, 8))
    else:
        end = -start if bool_arg(c, 5) else total
    y = y[:, start:end]
    envelope = envelope[:, start:end]
    _check_envelope(c, <Tensor>envelope)
    y = call("div", (y, envelope))
    if spectrum.ndim == 2:
        y = call("squeeze", (y, 0))
    if end > total:
        warnings.warn(f"istft(): the frames give {total - start} points, fewer than length={arg(c, 8)}, "
                      "so the rest is 0",
                      UserWarning, stacklevel=2)
        y = call("constant_pad_nd", (y, (0, end - total)))
    return y


define("istft(Tensor input, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, "
       "bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False) -> Tensor", istft_body,
       COMPOSITE,
       "Inverse short-time Fourier transform: the least-squares signal (..., points) for a spectrum (..., "
       "frequencies, frames) as `stft` returns it. The arguments must be those of `stft`. The result is padded or "
       "truncated to `length`.")
