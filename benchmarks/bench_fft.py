"""Fourier transforms and window functions."""

from .harness import suite, table

CASES = table(
    "fft",
    """
fft.fft | m.fft.fft(a) | np.fft.fft(a)
fft.fft2 | m.fft.fft2(a) | np.fft.fft2(a)
fft.fftn | m.fft.fftn(t) | np.fft.fftn(t)
fft.fftfreq | m.fft.fftfreq(4, device=dev) | np.fft.fftfreq(4)
fft.fftshift | m.fft.fftshift(a) | np.fft.fftshift(a)
fft.hfft | m.fft.hfft(z) | np.fft.hfft(z)
fft.hfft2 | m.fft.hfft2(z)
fft.hfftn | m.fft.hfftn(z)
fft.ifft | m.fft.ifft(z) | np.fft.ifft(z)
fft.ifft2 | m.fft.ifft2(z) | np.fft.ifft2(z)
fft.ifftn | m.fft.ifftn(z) | np.fft.ifftn(z)
fft.ifftshift | m.fft.ifftshift(a) | np.fft.ifftshift(a)
fft.ihfft | m.fft.ihfft(a) | np.fft.ihfft(a)
fft.ihfft2 | m.fft.ihfft2(a)
fft.ihfftn | m.fft.ihfftn(a)
fft.irfft | m.fft.irfft(z) | np.fft.irfft(z)
fft.irfft2 | m.fft.irfft2(z) | np.fft.irfft2(z)
fft.irfftn | m.fft.irfftn(z) | np.fft.irfftn(z)
fft.rfft | m.fft.rfft(a) | np.fft.rfft(a)
fft.rfft2 | m.fft.rfft2(a) | np.fft.rfft2(a)
fft.rfftfreq | m.fft.rfftfreq(4, device=dev) | np.fft.rfftfreq(4)
fft.rfftn | m.fft.rfftn(t) | np.fft.rfftn(t)
istft | m.istft(spectrum, 4, window=ones)
stft | m.stft(wave, 4, window=ones, return_complex=True)
hann_window | m.hann_window(4, device=dev)
signal.windows.bartlett | m.signal.windows.bartlett(4, device=dev) | np.bartlett(4)
signal.windows.blackman | m.signal.windows.blackman(4, device=dev) | np.blackman(4)
signal.windows.cosine | m.signal.windows.cosine(4, device=dev)
signal.windows.exponential | m.signal.windows.exponential(4, device=dev)
signal.windows.gaussian | m.signal.windows.gaussian(4, device=dev)
signal.windows.general_cosine | m.signal.windows.general_cosine(4, a=[0.5, 0.5], device=dev)
signal.windows.general_hamming | m.signal.windows.general_hamming(4, device=dev)
signal.windows.hamming | m.signal.windows.hamming(4, device=dev) | np.hamming(4)
signal.windows.hann | m.signal.windows.hann(4, device=dev) | np.hanning(4)
signal.windows.kaiser | m.signal.windows.kaiser(4, device=dev) | np.kaiser(4, 12.0)
signal.windows.nuttall | m.signal.windows.nuttall(4, device=dev)
""",
)

Fft = suite(CASES)
