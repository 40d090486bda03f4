"""Compile every ``.pyx`` file of the package. Everything else is declared in ``pyproject.toml``.

On Linux, the modules of each package in ``BUNDLED`` are linked into one file, ``_bundle``: opening more than a hundred
files would be a quarter of the time of the import. See ``metatensor/_core/bundles.py``.

Five environment variables control the build:

* ``METATENSOR_DEBUG=1`` enables bounds checks, wrap-around indexing and assertions, and
  compiles with ``-O0 -g``.
* ``METATENSOR_SANITIZE=address,undefined`` compiles with these sanitizers, without
  ``-fwrapv`` and without free lists, so that signed overflow and use after free are
  reported (``make sanitize``).
* ``METATENSOR_QUICK=1`` compiles with ``-O1``, which takes half the time. Modules that are
  already compiled are not compiled again.
* ``METATENSOR_PREBUILT=1`` compiles nothing. An editable install in a second environment
  then uses the modules compiled in place for the first one. Without it everything would be
  compiled again, because the Cython files of the second environment are newer than the build.
* ``METATENSOR_JOBS=N`` sets the number of parallel compilers. Default: 2.
"""

import os
import sys
from importlib.metadata import version
from pathlib import Path

DEBUG = os.environ.get("METATENSOR_DEBUG", "") not in ("", "0")
SANITIZE = os.environ.get("METATENSOR_SANITIZE", "").strip()
MODE = "-".join(["debug" if DEBUG else "release", *(SANITIZE.split(",") if SANITIZE else [])])
QUICK = os.environ.get("METATENSOR_QUICK", "") not in ("", "0")
PREBUILT = os.environ.get("METATENSOR_PREBUILT", "") not in ("", "0")
NUMPY_MACROS = [("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")]
JOBS = int(os.environ.get("METATENSOR_JOBS", "2"))
PACKAGE = "metatensor"
BUNDLED = ["metatensor._core", "metatensor.ops"] if sys.platform.startswith("linux") else []


def directives():
    """Return the Cython compiler directives of all modules. They are set nowhere else."""
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
    """Return the flags for the C compiler. ``-fwrapv`` makes signed overflow wrap; builds with sanitizers omit it."""
    if os.name == "nt":
        return ["/Od", "/Zi"] if DEBUG else ["/O2"]
    level = ["-O0", "-g", "-UNDEBUG"] if DEBUG else ["-O1" if QUICK else "-O3", "-g0", "-fno-plt"]
    if SANITIZE:
        level = ["-O0" if DEBUG else "-O1", "-g1", "-UNDEBUG", "-fno-omit-frame-pointer", f"-fsanitize={SANITIZE}"]
    return [
        *level,
        *(() if SANITIZE else ("-fwrapv",)),
        "-fno-strict-aliasing",
        "-ffp-contract=off",  # same floating-point results on every machine
        "-fno-math-errno",  # this and the next one allow vectorizing loops with square roots and conditionals
        "-fno-trapping-math",
        "-fvisibility=hidden",
        "-fno-builtin-memset",  # GCC would clear new objects with `rep stos`, which is slow for few bytes
        "-Wno-unused-function",
        "-Wno-array-bounds",  # false warnings about casts of None to extension types
    ]


def link_flags():
    """Flags for the linker. Two segments instead of four for each of some hundred modules make the import a millisecond shorter."""
    flags = ["-Wl,-z,noseparate-code"] if sys.platform.startswith("linux") else []
    return [*flags, f"-fsanitize={SANITIZE}"] if SANITIZE else flags


def numpy_headers(path):
    """Return the include directories that a module needs for NumPy's C API."""
    if "cimport numpy" not in path.read_text(encoding="utf-8"):
        return []
    import numpy

    return [numpy.get_include()]


def extensions():
    """Return one extension module for each ``.pyx`` file, sorted by path."""
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


BUNDLE_SOURCE = """\
#include <Python.h>

static int add_names(PyObject *module) { return PyModule_AddStringConstant(module, "names", "%s"); }
static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)add_names}, {0, NULL}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_bundle", "Compiled modules in one file.", 0, NULL, slots};

PyMODINIT_FUNC PyInit__bundle(void) { return PyModuleDef_Init(&definition); }
"""


def bundles(names, folder):
    """Return one extension module for each bundle of the modules ``names``. Their attribute ``names`` lists their modules."""
    from setuptools import Extension

    found = []
    for package in BUNDLED:
        members = [name.rpartition(".")[2] for name in names if name.rpartition(".")[0] == package]
        source, text = Path(folder, f"{package}.c"), BUNDLE_SOURCE % " ".join(members)
        source.parent.mkdir(parents=True, exist_ok=True)
        if not source.exists() or source.read_text() != text:
            source.write_text(text)
        found.append(
            Extension(
                f"{package}._bundle", [source.as_posix()], extra_compile_args=compile_flags(), extra_link_args=link_flags()
            )
        )
    return found


def mode_changed():
    """Return True if the last build with this Python used another mode, so that its object files cannot be reused."""
    stamp = Path("build", f"mode-{sys.implementation.cache_tag}")
    before = stamp.read_text() if stamp.exists() else MODE
    stamp.parent.mkdir(exist_ok=True)
    stamp.write_text(MODE)
    return before != MODE


def in_bundle(name):
    """Return True if the module is linked into a bundle."""
    package, _, last = name.rpartition(".")
    return package in BUNDLED and last != "_bundle"


def build_ext():
    """Return the command that compiles. It keeps object files between editable installs."""
    from setuptools.command.build_ext import build_ext as command

    class BuildExt(command):
        def finalize_options(self):
            super().finalize_options()
            self.parallel = self.parallel or JOBS  # an editable install ignores the option in main()
            if self.editable_mode:  # by default it compiles everything again, in a temporary directory
                plain = self.distribution.get_command_class("build")(self.distribution)
                plain.ensure_finalized()
                self.build_lib, self.build_temp = plain.build_platlib, plain.build_temp

        def get_ext_fullpath(self, ext_name):
            path = super().get_ext_fullpath(ext_name)
            return os.path.join(self.build_temp, os.path.relpath(path, self.build_lib)) if in_bundle(ext_name) else path

        def build_extensions(self):
            declared = self.extensions
            members = [ext for ext in declared if in_bundle(ext.name)]
            joint = [ext for ext in declared if ext.name.rpartition(".")[2] == "_bundle"]
            for ext in members:
                path, earlier = self.get_ext_fullpath(ext.name), super().get_ext_fullpath(ext.name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                if os.path.exists(earlier):  # built before there were bundles: it must not get into a wheel
                    os.replace(earlier, path)
            self.extensions = [ext for ext in declared if ext not in joint]
            super().build_extensions()
            for bundle in joint:
                package = bundle.name.rpartition(".")[0]
                sources = [source for ext in members if ext.name.rpartition(".")[0] == package for source in ext.sources]
                bundle.extra_objects = bundle.depends = self.compiler.object_filenames(sources, output_dir=self.build_temp)
            self.extensions = joint
            super().build_extensions()
            self.extensions = [ext for ext in declared if ext not in members]  # the files to install

        def copy_extensions_to_source(self):
            super().copy_extensions_to_source()
            for ext in self.distribution.ext_modules:
                if in_bundle(ext.name):  # a module's own file takes precedence over the bundle
                    Path(self.get_ext_filename(ext.name)).unlink(missing_ok=True)

    return BuildExt


def main():
    """Run Cython, which writes C files below build/, and then setuptools."""
    from Cython.Build import cythonize
    from setuptools import setup

    os.chdir(Path(__file__).resolve().parent)
    if PREBUILT:
        setup(ext_modules=[])
        return
    # The C of modules that cimport NumPy depends on its version, and environments of one clone may have several.
    folder = f"build/cython-{MODE}-numpy{version('numpy')}"
    modules = cythonize(extensions(), compiler_directives=directives(), build_dir=folder, nthreads=JOBS)
    setup(
        ext_modules=modules + bundles([ext.name for ext in modules], folder),
        cmdclass={"build_ext": build_ext()},
        options={"build_ext": {"parallel": JOBS, "force": mode_changed()}},
    )


if __name__ == "__main__":
    main()
