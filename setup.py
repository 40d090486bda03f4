"""Compile every ``.pyx`` of the package; all else is declared in ``pyproject.toml``.

Five switches, all environment variables:

* ``METATENSOR_DEBUG=1`` turns on bounds checks, wrap-around indexing, assertions and
  ``-O0 -g``, to find what the release build assumes.
* ``METATENSOR_SANITIZE=address,undefined`` compiles with these sanitizers, without
  ``-fwrapv`` and without free lists, so that a signed overflow and a use after the end
  of an object are reported (``make sanitize``).
* ``METATENSOR_QUICK=1`` compiles with ``-O1``, in half the time, for the edit-compile-test
  loop. What was compiled before is kept.
* ``METATENSOR_PREBUILT=1`` compiles nothing: an editable install in a second environment uses
  what was compiled in place for the first (each environment's Cython has files newer than
  that build, and would start it anew).
* ``METATENSOR_JOBS=N`` is how many compilers run side by side (two unless told).
"""

import os
import sys
from pathlib import Path

DEBUG = os.environ.get("METATENSOR_DEBUG", "") not in ("", "0")
SANITIZE = os.environ.get("METATENSOR_SANITIZE", "").strip()
MODE = "-".join(["debug" if DEBUG else "release", *(SANITIZE.split(",") if SANITIZE else [])])
QUICK = os.environ.get("METATENSOR_QUICK", "") not in ("", "0")
PREBUILT = os.environ.get("METATENSOR_PREBUILT", "") not in ("", "0")
NUMPY_MACROS = [("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")]
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
    """Flags for the C compiler; ``-fwrapv`` gives signed overflow one meaning everywhere but under sanitizers."""
    if os.name == "nt":
        return ["/Od", "/Zi"] if DEBUG else ["/O2"]
    level = ["-O0", "-g", "-UNDEBUG"] if DEBUG else ["-O1" if QUICK else "-O3", "-g0", "-fno-plt"]
    if SANITIZE:
        level = ["-O0" if DEBUG else "-O1", "-g1", "-UNDEBUG", "-fno-omit-frame-pointer", f"-fsanitize={SANITIZE}"]
    return [
        *level,
        *(() if SANITIZE else ("-fwrapv",)),
        "-fno-strict-aliasing",
        "-ffp-contract=off",  # the same floating-point results on every machine
        "-fno-math-errno",  # these two let compilers make vectors of loops with square roots and choices
        "-fno-trapping-math",
        "-fvisibility=hidden",
        "-fno-builtin-memset",  # GCC clears a new object with `rep stos`, far slower than a call for so few bytes
        "-Wno-unused-function",
        "-Wno-array-bounds",  # a cast of None to an extension type reads no field
    ]


def link_flags():
    """Flags for the linker. Two segments instead of four for each of some hundred modules make the import a millisecond shorter."""
    flags = ["-Wl,-z,noseparate-code"] if sys.platform.startswith("linux") else []
    return [*flags, f"-fsanitize={SANITIZE}"] if SANITIZE else flags


def numpy_headers(path):
    """The folder of NumPy's headers for a module that uses its C interface, else nothing."""
    if "cimport numpy" not in path.read_text(encoding="utf-8"):
        return []
    import numpy

    return [numpy.get_include()]


def extensions():
    """One extension module for each ``.pyx``, in a stable order."""
    from setuptools import Extension

    macros = [] if DEBUG or SANITIZE else [("CYTHON_WITHOUT_ASSERTIONS", "1")]
    if SANITIZE:
        macros.append(("CYTHON_USE_FREELISTS", "0"))
    return [
        Extension(
            ".".join(path.with_suffix("").parts),
            [path.as_posix()],
            include_dirs=[".", *numpy_headers(path)],
            extra_compile_args=compile_flags(),
            extra_link_args=link_flags(),
            define_macros=macros + NUMPY_MACROS * bool(numpy_headers(path)),
        )
        for path in sorted(Path(PACKAGE).rglob("*.pyx"))
    ]


def mode_changed():
    """Whether this Python's last build here was of the other mode, so that its objects must not be reused."""
    stamp = Path("build", f"mode-{sys.implementation.cache_tag}")
    before = stamp.read_text() if stamp.exists() else MODE
    stamp.parent.mkdir(exist_ok=True)
    stamp.write_text(MODE)
    return before != MODE


def build_ext():
    """The command that compiles, keeping its objects between editable installs too."""
    from setuptools.command.build_ext import build_ext as command

    class BuildExt(command):
        def finalize_options(self):
            super().finalize_options()
            self.parallel = self.parallel or JOBS  # an editable install forgets the option below
            if self.editable_mode:  # would compile all of it again, in a temporary folder
                plain = self.distribution.get_command_class("build")(self.distribution)
                plain.ensure_finalized()
                self.build_lib, self.build_temp = plain.build_platlib, plain.build_temp

    return BuildExt


def main():
    """Cythonise out of the source tree, then hand over to setuptools."""
    from Cython.Build import cythonize
    from setuptools import setup

    os.chdir(Path(__file__).resolve().parent)
    if PREBUILT:
        setup(ext_modules=[])
        return
    setup(
        ext_modules=cythonize(
            extensions(),
            compiler_directives=directives(),
            build_dir=f"build/cython-{MODE}",
            nthreads=JOBS,
        ),
        cmdclass={"build_ext": build_ext()},
        options={"build_ext": {"parallel": JOBS, "force": mode_changed()}},
    )


if __name__ == "__main__":
    main()
