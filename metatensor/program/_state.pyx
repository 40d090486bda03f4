"""The parameters and buffers of the modules that a callable refers to, before and after a run."""
cimport cython
from cpython.object cimport PyObject
from metatensor._core.capture cimport Capture, Value
from metatensor._core.tensor cimport Tensor
from metatensor.nn._following cimport ModulePaths

import sys

from metatensor.program.program import Effect


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
    cdef list members           # for each, the dict that holds it and its key there
    cdef list buffers           # whether each is a buffer
    cdef dict first             # id of a tensor -> the index of its first name
    cdef list further           # for tensors with several names: the index of a further name, and of the first

    def __init__(self, modules):
        cdef bint several
        modules = list(modules)
        several = len(modules) > 1
        self.paths = ModulePaths()
        self.names, self.tensors, self.grads, self.members, self.buffers, self.first, self.further = [], [], [], [], [], {}, []
        for number, root in enumerate(modules):
            self.paths.roots.append(root)
            self.walk(root, f"{type(root).__name__}{number}." if several else "")

    cdef int walk(self, object root, str prefix) except -1:
        cdef list pending = [("", root, 0)]
        cdef int depth, limit = sys.getrecursionlimit()
        cdef str path, start
        while pending:
            path, module, depth = pending.pop()
            if depth > limit:
                raise RecursionError(f"{path[:40]}... is too deep; a module contains itself")
            self.paths.add(module, path)
            start = f"{path}." if path else ""
            self.add(prefix + start, module._parameters, False)
            self.add(prefix + start, module._buffers, True)
            children = module._modules
            if children:
                pending += [(start + name, child, depth + 1) for name, child in reversed(children.items()) if child is not None]
        return 0

    cdef int add(self, str start, object members, object are_buffers) except -1:
        if not members:
            return 0
        for name, tensor in members.items():
            if tensor is None:
                continue
            index = len(self.names)
            known = self.first.setdefault(<size_t><PyObject*>tensor, index)
            if known is not index:
                self.further.append((index, known))
            self.names.append(start + name)
            self.tensors.append(tensor)
            self.grads.append(_grad(tensor))
            self.members.append((members, name))
            self.buffers.append(are_buffers)
        return 0

    def effects(self, Capture capture not None):
        """Return what the run changed: gradients that it set, and parameters and buffers that it replaced."""
        cdef Py_ssize_t i
        cdef list found = []
        for i in range(len(self.names)):
            grad = _grad(self.tensors[i])
            if grad is not None and grad is not self.grads[i] and self.first[<size_t><PyObject*>self.tensors[i]] == i:
                found.append(Effect("grad", self.names[i], capture.value(grad)))
        for i in range(len(self.names)):
            members, name = <tuple>self.members[i]
            now = members.get(name)
            if now is not None and now is not self.tensors[i]:
                found.append(Effect("replaced", self.names[i], capture.value(now)))
        return found

    def held(self, Capture capture not None, inputs):
        """Return the values, by name, of the tensors that existed before the run, except inputs; these tensors; the kind of each
        (``"parameter"``, ``"buffer"`` or ``"constant"``); and further names of parameters and buffers, each with the first name."""
        cdef dict values = {}, tensors = {}, kinds = {}, tied = {}
        cdef set known = {(<Value>v).number for v in inputs}
        cdef int constants = 0
        cdef Value value
        for value, tensor in capture.leaves:
            if value.number in known:
                continue
            index = self.first.get(<size_t><PyObject*>tensor)
            if index is None:
                name, kind = f"constant{constants}", "constant"
                constants += 1
            else:
                name, kind = self.names[index], "buffer" if self.buffers[index] else "parameter"
            values[name], tensors[name], kinds[name] = value, tensor, kind
        for index, known_as in self.further:
            name = self.names[known_as]
            if name in values:
                tied[self.names[index]] = name
        return values, tensors, kinds, tied
