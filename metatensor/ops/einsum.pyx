"""`einsum` parses an equation into a plan, and runs the plan as sums, permutations and batched matrix products."""
from cpython.object cimport PyObject
from metatensor._core.layout cimport Layout, mul_dims
from metatensor._core.op cimport COMPOSITE, FUNCTION_ONLY, Call, Op, arg, as_declared, call, define, find, tensors_arg
from metatensor._core.tensor cimport Tensor, hooks, shape_str
from metatensor._core.types cimport MAX_ARGS, MAX_DIMS, dim_t
from metatensor.ops.axes cimport permuted
from metatensor.ops.view cimport insert_dim, is_plain, read_layout, reshape_to, view_of

cdef enum:
    MAX_PLANS = 512     # cached plans


cdef object raise_einsum(str message):
    raise RuntimeError(f"einsum(): {message}")


# Parsing the equation -----------------------------------------------------------

# The dimensions of a plan are those of the result, in order, then the summed dimensions, sorted by
# label. Each of them has a label. For each operand and each label, the plan holds a tuple of the
# operand's dimensions with that label. The tuple is () if the operand lacks the label.

cdef dict _plans = {}


cdef list read_subscripts(str text, str what):
    """Return the labels of one operand: letters, and "." for the ellipsis."""
    cdef list labels = []
    cdef int i = 0, n = len(text)
    while i < n:
        ch = text[i]
        if ch == ".":
            if text[i:i + 3] != "..." or "." in labels:
                raise_einsum(f"each operand may have one ellipsis ('...') and no other dots, got {text!r} for {what}")
            labels.append(".")
            i += 2
        elif "a" <= ch <= "z" or "A" <= ch <= "Z":
            labels.append(ch)
        elif ch != " ":
            raise_einsum(f"subscripts must be letters, got {ch!r} in {what}")
        i += 1
    return labels


cdef tuple make_plan(str equation, tuple ndims):
    """Return the number of result dimensions and the number of all dimensions.

    Also return, for each operand, its tuples, and whether a label is repeated in it, that is, whether a tuple has more
    than one dimension.
    """
    cdef str left, arrow, right
    cdef int ellipsis = 0, k, position, extra
    left, arrow, right = equation.partition("->")
    parts = left.split(",")
    if len(parts) != len(ndims):
        raise_einsum(f"{equation!r} names {len(parts)} operands, but {len(ndims)} were given")
    inputs = [read_subscripts(part, f"operand {k}") for k, part in enumerate(parts)]
    counts = {}
    for k, labels in enumerate(inputs):
        named = len(labels) - ("." in labels)
        if "." in labels:
            extra = ndims[k] - named
            ellipsis = max(ellipsis, extra)
        if ndims[k] < named or ("." not in labels and ndims[k] != named):
            raise_einsum(f"operand {k} has {ndims[k]} dimensions, but {parts[k].strip()!r} names {named}")
        for label in labels:
            counts[label] = counts.get(label, 0) + 1
    if arrow:
        output = read_subscripts(right, "the output")
        for label in output:
            if label != "." and label not in counts:
                raise_einsum(f"the output subscript {label!r} is in no operand of {equation!r}")
            if output.count(label) > 1:
                raise_einsum(f"the output subscript {label!r} appears more than once in {equation!r}")
    else:
        output = ["."] if "." in counts else []
        output += sorted([label for label in counts if label != "." and counts[label] == 1])
    summed = sorted([label for label in counts if label not in output and label != "."])
    place = {}
    position = 0
    for label in output:
        place[label] = position
        position += ellipsis if label == "." else 1
    n_out = position
    if "." in counts and "." not in output:
        place["."] = position
        position += ellipsis
    for label in summed:
        place[label] = position
        position += 1
    if position > MAX_DIMS:
        raise_einsum(f"at most {MAX_DIMS} dimensions are supported, but {equation!r} has {position}")
    operands = []
    for k, labels in enumerate(inputs):
        axes = [()] * position
        d = 0
        for label in labels:
            if label == ".":
                extra = ndims[k] - len(labels) + 1
                for e in range(extra):
                    axes[place["."] + ellipsis - extra + e] = (d,)
                    d += 1
            else:
                axes[place[label]] += (d,)
                d += 1
        operands.append((axes, any([len(group) > 1 for group in axes])))
    return n_out, position, operands


cdef tuple plan_for(str equation, tuple ndims):
    key = (equation, ndims)
    plan = _plans.get(key)
    if plan is None:
        plan = make_plan(equation, ndims)
        if len(_plans) >= MAX_PLANS:
            _plans.clear()
        _plans[key] = plan
    return plan


cdef str label_of(object number):
    if not isinstance(number, int) or not 0 <= number < 52:
        raise_einsum(f"subscripts in a list must be integers from 0 to 51, or ..., got {number!r}")
    return chr(ord("A") + number) if number < 26 else chr(ord("a") + number - 26)


cdef tuple from_sublists(list given):
    """Convert arguments such as (a, [0, 1], b, [1, 2], [0, 2]) to an equation and a list of operands."""
    cdef list operands = given[0:len(given) - len(given) % 2:2]
    cdef list texts = []
    for subscripts in given[1::2] + ([given[len(given) - 1]] if len(given) % 2 else []):
        if not isinstance(subscripts, (list, tuple)):
            raise TypeError(f"einsum(): expected a list of subscripts, got {type(subscripts).__name__}")
        texts.append("".join(["..." if s is Ellipsis else label_of(s) for s in subscripts]))
    equation = ",".join(texts[:len(operands)])
    if len(given) % 2:
        equation += "->" + texts[len(operands)]
    return equation, operands


# Computing --------------------------------------------------------------------

cdef Tensor in_order(Tensor t, const int* order):
    """Return a view of `t` with its dimensions in `order`; `t` itself if they are in that order already."""
    cdef int i
    for i in range(t.ndim):
        if order[i] != i:
            return permuted(t, order) if is_plain(t) else call("permute", (t, [order[k] for k in range(t.ndim)]))
    return t


cdef Tensor with_diagonals(Tensor t, list axes, int k, list kept):
    """Return an operand in which a diagonal, the last dimension, replaces the dimensions of a repeated subscript.

    `kept` lists the original numbers of the operand's dimensions, in order. This updates it.
    """
    for group in axes:
        for d in group[1:]:
            first, second = kept.index(group[0]), kept.index(d)
            if t.sizes[first] != t.sizes[second]:
                raise_einsum(f"a repeated subscript of operand {k} names dimensions of different sizes, "
                             f"{t.sizes[first]} and {t.sizes[second]}; the operand has shape {shape_str(t)}")
            t = call("diagonal", (t, 0, first, second))
            kept[:] = [a for a in kept if a != group[0] and a != d] + [group[0]]
    return t


cdef Tensor to_plan(Tensor t, list axes, bint repeats, int k):
    """Return an operand with the dimensions of the plan. A dimension that the operand lacks gets size 1.

    `repeats` says whether subscripts of the operand are repeated.
    """
    cdef int order[MAX_DIMS]
    cdef int i, n = <int>len(axes)
    cdef Layout lay
    cdef list kept = None
    if repeats:
        kept = list(range(t.ndim))
        t = with_diagonals(t, axes, k, kept)
    # Append missing dimensions before permuting: PyTorch does so, and the strides of the result depend on it.
    read_layout(t, &lay)
    for i in range(n):
        group = <tuple>axes[i]
        if group:
            order[i] = kept.index(group[0]) if repeats else group[0]
        else:
            order[i] = lay.ndim
            insert_dim(&lay, lay.ndim)
            if not is_plain(t):
                t = call("unsqueeze", (t, -1))
    if t.ndim < n:
        t = view_of(t, &lay)
    return in_order(t, order)


cdef Tensor product(Tensor left, Tensor right):
    """Return the products of two batches of matrices."""
    cdef PyObject* args[2]
    cdef Op bmm = find("bmm")
    args[0] = <PyObject*>left
    args[1] = <PyObject*>right
    return <Tensor>as_declared(bmm, hooks.invoke(<PyObject*>bmm, args, 2))


cdef dim_t sizes_at(Tensor t, const int* dims, int n, dim_t* to) except -1:
    """Write the sizes of `n` dimensions to `to`. Return their product."""
    cdef dim_t total = 1
    cdef int i
    for i in range(n):
        to[i] = t.sizes[dims[i]]
        total = mul_dims(total, to[i])
    return total


cdef Tensor contract(Tensor a, Tensor b, const bint* is_summed):
    """Return the product of two operands in plan order, summed over some dimensions (kept with size 1), by bmm."""
    cdef int both[MAX_DIMS]
    cdef int only_a[MAX_DIMS]
    cdef int only_b[MAX_DIMS]
    cdef int summed[MAX_DIMS]
    cdef int order[MAX_DIMS]
    cdef int back[MAX_DIMS]
    cdef dim_t shape[MAX_DIMS]
    cdef dim_t ignored[MAX_DIMS]
    cdef dim_t matrices[3]
    cdef int n_both = 0, n_a = 0, n_b = 0, n_summed = 0, n = a.ndim, i
    for i in range(n):
        if is_summed[i]:
            summed[n_summed] = i
            n_summed += 1
        elif a.sizes[i] != 1 and b.sizes[i] != 1:
            both[n_both] = i
            n_both += 1
        elif a.sizes[i] != 1:
            only_a[n_a] = i
            n_a += 1
        else:
            only_b[n_b] = i
            n_b += 1
    if n_a and n_b and only_b[n_b - 1] < only_a[0]:
        # The left operand is the one whose own dimensions come first in the plan. The result then needs no permutation.
        a, b = b, a
        for i in range(max(n_a, n_b)):
            only_a[i], only_b[i] = only_b[i], only_a[i]
        n_a, n_b = n_b, n_a
    # Order of the left operand: (both, only_a, summed, only_b). Order of the right operand: (both, summed, only_b,
    # only_a). All dimensions in the last group of each order have size 1.
    joined(order, both, n_both, only_a, n_a, summed, n_summed, only_b, n_b)
    for i in range(n):
        back[order[i]] = i
    matrices[0] = sizes_at(a, both, n_both, shape)
    matrices[1] = sizes_at(a, only_a, n_a, shape + n_both)
    matrices[2] = sizes_at(a, summed, n_summed, ignored)
    left = reshape_to(in_order(a, order), 3, matrices)
    joined(order, both, n_both, summed, n_summed, only_b, n_b, only_a, n_a)
    matrices[1], matrices[2] = matrices[2], sizes_at(b, only_b, n_b, shape + n_both + n_a + n_summed)
    right = reshape_to(in_order(b, order), 3, matrices)
    for i in range(n_summed):
        shape[n_both + n_a + i] = 1
    return in_order(reshape_to(product(left, right), n, shape), back)


cdef void joined(int* to, const int* a, int n_a, const int* b, int n_b, const int* c, int n_c, const int* d, int n_d) noexcept:
    """Write four lists to `to`, one after the other."""
    cdef int i
    for i in range(n_a):
        to[i] = a[i]
    for i in range(n_b):
        to[n_a + i] = b[i]
    for i in range(n_c):
        to[n_a + n_b + i] = c[i]
    for i in range(n_d):
        to[n_a + n_b + n_c + i] = d[i]


cdef int count_operands(list items, int n_all, int* remaining, str equation, list operands) except -1:
    """Write to `remaining`, for each dimension of the plan, the number of operands whose size there is not 1.

    Raise RuntimeError if the sizes do not broadcast.
    """
    cdef Tensor t
    cdef dim_t size
    cdef int d
    for d in range(n_all):
        size = 1
        remaining[d] = 0
        for t in items:
            if t.sizes[d] == 1:
                continue
            if size != 1 and size != t.sizes[d]:
                shapes = ", ".join([shape_str(t) for t in operands])
                raise_einsum(f"sizes {size} and {t.sizes[d]} of one subscript of {equation!r} do not broadcast; the "
                             f"operands have shapes {shapes}")
            size = t.sizes[d]
            remaining[d] += 1
    return 0


cdef Tensor einsum_of(str equation, list operands):
    cdef Tensor t, a, b
    cdef int n_out, n_all, d, k
    cdef int remaining[MAX_DIMS]        # operands not yet multiplied, for each dimension
    cdef bint sum_both[MAX_DIMS]
    cdef bint contracts
    n_out, n_all, plan = plan_for(equation, tuple([(<Tensor>t).ndim for t in operands]))
    items = []
    for k in range(len(operands)):
        axes, repeats = <tuple>(<list>plan)[k]
        items.append(to_plan(<Tensor>operands[k], axes, repeats, k))
    count_operands(items, n_all, remaining, equation, operands)
    if len(items) == 1:
        return call("sum", (items[0], list(range(n_out, n_all)))) if n_all > n_out else items[0]
    a = <Tensor>items[0]
    for k in range(1, len(items)):
        b = <Tensor>items[k]
        sum_a, sum_b, contracts = [], [], False
        for d in range(n_all):
            sum_both[d] = False
            if d < n_out:
                continue
            if a.sizes[d] != 1 and b.sizes[d] != 1:
                remaining[d] -= 1
                if remaining[d] == 1:
                    sum_both[d] = contracts = True
                    remaining[d] = 0
            elif remaining[d] == 1:
                if a.sizes[d] != 1:
                    sum_a.append(d)
                    remaining[d] = 0
                elif b.sizes[d] != 1:
                    sum_b.append(d)
                    remaining[d] = 0
        # A sum of integers has dtype int64. `mul` promotes the other factor to it, but bmm needs equal dtypes.
        if sum_a:
            a = call("sum", (a, sum_a, True), {"dtype": a.dtype} if contracts else {})
        if sum_b:
            b = call("sum", (b, sum_b, True), {"dtype": b.dtype} if contracts else {})
        a = contract(a, b, sum_both) if contracts else call("mul", (a, b))
    return reshape_to(a, n_out, a.sizes) if n_all > n_out else a


cdef object checked_einsum(object equation, list operands):
    if not operands:
        raise_einsum("at least one operand is needed")
    for t in operands:
        if not isinstance(t, Tensor):
            raise TypeError(f"einsum(): the operands must be Tensors, got {type(t).__name__}")
    return einsum_of(equation, operands)


cdef list given_from(Call* c, int slot):
    """Return the arguments from a slot on, up to the first that was not given."""
    cdef list given = []
    while slot < MAX_ARGS and arg(c, slot) is not None:
        given.append(arg(c, slot))
        slot += 1
    return given


cdef object einsum_body(Call* c):
    """Arguments: equation, operands."""
    return checked_einsum(arg(c, 0), tensors_arg(c, 1))


cdef object several_body(Call* c):
    """Arguments: equation, operand1, operand2, ..."""
    return checked_einsum(arg(c, 0), given_from(c, 1))


cdef object sublists_body(Call* c):
    """Arguments: operand, its subscripts as a list, ..., and optionally the subscripts of the result."""
    equation, operands = from_sublists(given_from(c, 0))
    return checked_einsum(equation, operands)


cdef str slots(str type, str name, int n):
    return ", ".join([f"{type} {name}1"] + [f"{type}? {name}{i}=None" for i in range(2, n + 1)])


define("einsum(str equation, Tensor[] operands) -> Tensor", einsum_body, COMPOSITE | FUNCTION_ONLY,
       "Sum of products of the operands, as specified by an equation such as 'bij,bjk->bik'. The sum is over the "
       "subscripts that are not in the output. '...' stands for any further dimensions, which broadcast. Without "
       "'->', the output has the dimensions of '...', then the subscripts that appear once, in alphabetical order. "
       "The subscripts may also be lists of integers: `einsum(a, [0, 1], b, [1, 2], [0, 2])`.")
define(f"einsum.several(str equation, {slots('Tensor', 'operand', MAX_ARGS - 1)}) -> Tensor", several_body,
       COMPOSITE | FUNCTION_ONLY)
define(f"einsum.sublists(Tensor operand, {slots('any', 'sublist', MAX_ARGS - 1)}) -> Tensor", sublists_body,
       COMPOSITE | FUNCTION_ONLY)
