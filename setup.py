"""Compile every ``.pyx`` of the package; all else is declared in ``pyproject.toml``.

Two switches, both environment variables:

* ``METATENSOR_DEBUG=1`` turns on bounds checks, wrap-around indexing, assertions and
  ``-O0 -g``, to find what the release build assumes.
* ``METATENSOR_JOBS=N`` is how many compilers run side by side (two unless told).
"""

import os
from pathlib import Path

DEBUG = os.environ.get("METATENSOR_DEBUG", "") not in ("", "0")
JOBS = int(os.environ.get("METATENSOR_JOBS", "2"))
PACKAGE = "metatensor"


def directives():
    """The Cython compiler directives of every module, the only place they are set."""
    return {
        "language_level": 3,
        "binding": True,
        "boundscheck": DEBUG,
        "wraparound": DEBUG,
        "initializedcheck": DEBUG,
        "cdivision": True,
        "embedsignature": False,
    }


def compile_flags():
    """Flags for the C compiler; ``-fwrapv`` gives signed overflow one meaning everywhere."""
    if os.name == "nt":
        return ["/Od", "/Zi"] if DEBUG else ["/O2"]
    level = ["-O0", "-g", "-UNDEBUG"] if DEBUG else ["-O2", "-g0"]
    return [
        *level,
        "-fwrapv",
        "-fno-strict-aliasing",
        "-fvisibility=hidden",
        "-Wno-unused-function",
    ]


def extensions():
    """One extension module for each ``.pyx``, in a stable order."""
    from setuptools import Extension

    macros = [] if DEBUG else [("CYTHON_WITHOUT_ASSERTIONS", "1")]
    return [
        Extension(
            ".".join(path.with_suffix("").parts),
            [path.as_posix()],
            extra_compile_args=compile_flags(),
            define_macros=macros,
        )
        for path in sorted(Path(PACKAGE).rglob("*.pyx"))
    ]


def mode_changed(build_dir):
    """Whether the last build here was of the other mode, so that its objects must not be reused."""
    stamp = Path(build_dir) / "mode"
    mode = "debug" if DEBUG else "release"
    before = stamp.read_text() if stamp.exists() else mode
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(mode)
    return before != mode


def main():
    """Cythonise out of the source tree, then hand over to setuptools."""
    from Cython.Build import cythonize
    from setuptools import setup

    os.chdir(Path(__file__).resolve().parent)
    force = mode_changed("build")
    setup(
        ext_modules=cythonize(
            extensions(),
            compiler_directives=directives(),
            build_dir="build/cython",
            nthreads=JOBS,
            force=force,
        ),
        options={"build_ext": {"parallel": JOBS, "force": force}},
    )


if __name__ == "__main__":
    main()
