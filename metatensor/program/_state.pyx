"""The parameters and buffers of the modules that a callable refers to, before and after a run."""
cimport cython
from cpython.object cimport PyObject
from metatensor._core.capture cimport Capture, Value
from metatensor._core.integer_map cimport IntegerMap, map_free, map_get, map_set
from metatensor._core.tensor cimport Tensor
from metatensor.nn._base cimport ModuleBase, attributes
from metatensor.nn._cpython cimport Py_TYPE, _PyType_Lookup
from metatensor.nn._following cimport ModulePaths

import sys

from metatensor.program.program import Effect


cdef str PARAMETERS = "_parameters"
cdef str BUFFERS = "_buffers"
cdef str MODULES = "_modules"


cdef inline object _members(object module, str which):
    """Return one of the dicts of a module."""
    cdef PyObject* attrs
    if isinstance(module, ModuleBase) and _PyType_Lookup(Py_TYPE(<PyObject*>module), <PyObject*>which) == NULL:
        attrs = attributes(<PyObject*>module)
        found = None if attrs == NULL else (<dict>attrs).get(which)
        if found is not None:
            return found
    return getattr(module, which)


cdef inline object _grad(Tensor t):
    return None if t.extra is None else t.grad


@cython.final
@cython.binding(False)
cdef class State:
    """The parameters and buffers of modules, by name. With several modules, each name begins with the class of its module.

    Raises
    ------
    RecursionError
        If a module contains itself.
    """
    cdef readonly ModulePaths paths
    cdef list names, tensors, grads
    cdef list members, keys     # for each, the dict that holds it, and its key there
    cdef list buffers           # whether each is a buffer
    cdef IntegerMap first       # address of a tensor -> the index of its first name
    cdef list further           # for tensors with several names: the index of a further name, and of the first

    def __init__(self, modules):
        cdef bint several
        modules = list(modules)
        several = len(modules) > 1
        self.paths = ModulePaths()
        self.names, self.tensors, self.grads, self.members, self.keys, self.buffers, self.further = [], [], [], [], [], [], []
        for number, root in enumerate(modules):
            self.paths.roots.append(root)
            self.walk(root, f"{type(root).__name__}{number}." if several else "")

    def __dealloc__(self):
        map_free(&self.first)

    cdef int walk(self, object root, str prefix) except -1:
        cdef list modules = [root], paths = [""], depths = [0], few
        cdef int depth, limit = sys.getrecursionlimit()
        cdef Py_ssize_t i
        while modules:
            module, path, depth = modules.pop(), paths.pop(), depths.pop()
            if depth > limit:
                raise RecursionError(f"{path[:40]}... is too deep; a module contains itself")
            self.paths.add(module, path)
            start = path + "." if path else ""
            members = _members(module, PARAMETERS)
            if members:
                self.add(prefix + start, members, False)
            members = _members(module, BUFFERS)
            if members:
                self.add(prefix + start, members, True)
            children = _members(module, MODULES)
            if children:
                few = list(children.items())
                for i in range(len(few) - 1, -1, -1):
                    name, child = <tuple>few[i]
                    if child is not None:
                        modules.append(child)
                        paths.append(start + name)
                        depths.append(depth + 1)
        return 0

    cdef int add(self, object start, object members, bint are_buffers) except -1:
        cdef Py_ssize_t known
        for name, tensor in members.items():
            if tensor is None:
                continue
            known = map_get(&self.first, <long long><size_t><PyObject*>tensor)
            if known < 0:
                map_set(&self.first, <long long><size_t><PyObject*>tensor, len(self.names))
            else:
                self.further.append((len(self.names), known))
            self.names.append(start + name)
            self.tensors.append(tensor)
            self.grads.append(_grad(tensor))
            self.members.append(members)
            self.keys.append(name)
            self.buffers.append(are_buffers)
        return 0

    cdef Py_ssize_t place(self, Tensor t) noexcept:
        """Return the index of the first name of a tensor, or -1."""
        return map_get(&self.first, <long long><size_t><PyObject*>t)

    def effects(self, Capture capture not None):
        """Return what the run changed: gradients that it set, and parameters and buffers that it replaced."""
        cdef Py_ssize_t i
        cdef list found = []
        for i in range(len(self.names)):
            grad = _grad(self.tensors[i])
            if grad is not None and grad is not self.grads[i] and self.place(self.tensors[i]) == i:
                found.append(Effect("grad", self.names[i], capture.value(grad)))
        for i in range(len(self.names)):
            now = self.members[i].get(self.keys[i])
            if now is not None and now is not self.tensors[i]:
                found.append(Effect("replaced", self.names[i], capture.value(now)))
        return found

    def replaced(self, dict held not None):
        """Return the tensors that the run put in place of parameters and buffers, by name, where they have the layout of those before."""
        cdef Py_ssize_t i
        cdef dict found = {}
        cdef Value value
        for i in range(len(self.names)):
            now, value = self.members[i].get(self.keys[i]), held.get(self.names[i])
            if now is self.tensors[i] or now is None or value is None:
                continue
            if (<Tensor>now).dtype is value.dtype and now.shape == value.shape and now.device == value.device:
                found[self.names[i]] = now
        return found

    def held(self, Capture capture not None, inputs):
        """Return the values, by name, of the tensors that existed before the run, except inputs; these tensors; the kind of each
        (``"parameter"``, ``"buffer"`` or ``"constant"``); and further names of parameters and buffers, each with the first name."""
        cdef dict values = {}, tensors = {}, kinds = {}, tied = {}
        cdef set known = set()
        cdef int constants = 0
        cdef Value value
        cdef Py_ssize_t index
        cdef tuple leaf
        for value in inputs:
            known.add(value.number)
        for leaf in capture.leaves:
            value = <Value>leaf[0]
            if known and value.number in known:
                continue
            index = self.place(<Tensor>leaf[1])
            if index < 0:
                name, kind = f"constant{constants}", "constant"
                constants += 1
            else:
                name, kind = self.names[index], "buffer" if self.buffers[index] else "parameter"
            values[name], tensors[name], kinds[name] = value, leaf[1], kind
        for index, known_as in self.further:
            name = self.names[known_as]
            if name in values:
                tied[self.names[index]] = name
        return values, tensors, kinds, tied
