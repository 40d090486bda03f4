"""Which module is running: the paths of modules, and trackers of their calls."""
cimport cython
from cpython.object cimport PyObject
from metatensor._core.integer_map cimport map_free, map_get, map_set

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident() noexcept

cdef tuple _followers = ()
n_followers = 0


@cython.final
@cython.binding(False)
cdef class ModulePaths:
    """Modules and their submodules, numbered from 1 in order of their addition. Number 0 stands for no module.

    `paths` has the path of each within its root, or the class name for the root itself; `modules` has the modules in this order.
    """

    def __init__(self, roots=()):
        self.paths, self.roots, self.modules = [""], [], []
        for root in roots:
            self.meet(root)

    def __dealloc__(self):
        map_free(&self._numbers)

    def meet(self, root):
        """Number a module and its submodules, except those that have a number."""
        cdef list pending = [("", root)]
        if map_get(&self._numbers, <long long><size_t><PyObject*>root) >= 0:
            return
        self.roots.append(root)
        while pending:
            path, module = pending.pop()
            if self.add(module, path):
                children = module._modules
                if children:
                    prefix = f"{path}." if path else ""
                    pending += [(prefix + name, child) for name, child in reversed(children.items()) if child is not None]

    cdef bint add(self, object module, str path) except -1:
        """Number one module. Return False if it has a number."""
        cdef long long key = <long long><size_t><PyObject*>module
        if map_get(&self._numbers, key) >= 0:
            return False
        self.modules.append(module)
        map_set(&self._numbers, key, len(self.paths))
        self.paths.append(path or type(module).__name__)
        return True

    cpdef Py_ssize_t number(self, object module) except -1:
        """Return the number of a module. A new one is added."""
        cdef Py_ssize_t found = map_get(&self._numbers, <long long><size_t><PyObject*>module)
        if found < 0:
            self.meet(module)
            found = map_get(&self._numbers, <long long><size_t><PyObject*>module)
        return found


@cython.final
@cython.binding(False)
cdef class Follower:
    """A context manager that keeps ``target.module`` at the number of the module that runs in the thread that entered it.

    `outer` has the numbers of the modules around the running one.
    """
    cdef object target
    cdef ModulePaths paths
    cdef readonly list outer
    cdef unsigned long thread

    def __init__(self, target, ModulePaths paths not None):
        self.target, self.paths, self.outer = target, paths, []

    def __enter__(self):
        global _followers, n_followers
        self.thread = PyThread_get_thread_ident()
        _followers += (self,)
        n_followers = <int>len(_followers)
        return self

    def __exit__(self, *error):
        global _followers, n_followers
        _followers = tuple([f for f in _followers if f is not self])
        n_followers = <int>len(_followers)


cdef tuple enter_module(PyObject* module):
    """Notify the followers that a module is called. Return those to notify when it has returned."""
    cdef tuple now = _followers
    cdef Follower f
    for f in now:
        if f.thread == PyThread_get_thread_ident():
            number = f.paths.number(<object>module)
            f.outer.append(f.target.module)
            f.target.module = number
    return now


cdef int leave_module(tuple followers) except -1:
    """Notify followers that the module has returned or raised."""
    cdef Follower f
    for f in followers:
        if f.outer and f.thread == PyThread_get_thread_ident():
            f.target.module = f.outer.pop()
    return 0
