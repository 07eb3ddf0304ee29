"""Sparse products on a GPU by gpumem-spgemm: arrays of CuPy, PyTorch and SciPy in and out, on the stream of the caller.

    from gpumem import sparse

    c = sparse.multiply(a, b)                                     # C = A B, of the kind of A
    c = sparse.multiply(a, b, alpha=2, addend=d, beta=-1)         # C = 2 A B - D
    c = sparse.multiply(a, b, op_a="T")                           # C = A' B; "H": the conjugate transpose
    coarse = sparse.triple(None, a, p)                            # P' A P
    c = sparse.multiply(a, b, semiring="min-plus")                # the shortest paths of two edges

    with sparse.Multiplier("float64") as multiplier:              # keeps its memory from call to call
        c = multiplier.multiply(a, b)
        structure = multiplier.symbolic(a, b)                     # counted once
        c = structure.multiply(a, b)                              # values only; can be captured in a graph of CUDA

A matrix is a csr_matrix or csr_array of CuPy or SciPy, a sparse CSR tensor of PyTorch, or a Csr of arrays that have
__cuda_array_interface__ or __dlpack__. Values are float32, float64, complex64 or complex128. 64-bit indices of PyTorch are converted,
which copies them. SciPy's matrices are copied to the device and back, by CuPy or PyTorch.

The rows of C are sorted and have no double entries. So must those of the operands be: a matrix of CuPy or SciPy that is not
(`has_canonical_format`) is sorted, and its double entries are added, in a copy. Other matrices that are not sorted are refused, because
the positions of all operands are checked, unless check=False; Multiplier.sort() sorts one.

C has the kind of A; with dtype "pattern" it is a Csr. Its memory is that of the multiplier, and is freed with the arrays; that of
structure.multiply() is the framework's. A multiplier takes its memory from CUDA, or where `memory` says: "torch" and "cupy" are the pools
of these frameworks; an object with allocate() and free(), as gpumem.plug, is any other place (gpumem.sparse_memory). The functions of
this module take the pool of A's framework, and the type of values that both operands can be converted to.

Work is submitted to the current stream of the framework, or to `stream`, an integer. The caller orders that stream after the current one,
in which indices are converted and memory for C is taken. The device of A must be current. A Multiplier is used by one thread at a time.

The library is that of the wheel, else the installed one, unless GPUMEM_SPGEMM is the path of another libgpumem-spgemm.so.0. ImportError:
there is none.
"""

import ctypes
import os

import gpumem
from gpumem import sparse_memory

_CHECK = 8
_OUT_OF_MEMORY = 2
_PRECISIONS = {"float64": 0, "float32": 1, "complex128": 2, "complex64": 3, "pattern": 4}
_SEMIRINGS = {"plus-times": _PRECISIONS, "min-plus": {"float64": 5, "float32": 6}}
_TYPES = {0: "<f8", 1: "<f4", 2: "<c16", 3: "<c8", 5: "<f8", 6: "<f4"}
_OPERATIONS = {"N": 0, "T": 1, "H": 2}


class _Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("limit", ctypes.c_size_t), ("precision", ctypes.c_uint64), ("allocate", ctypes.c_void_p),
                ("free", ctypes.c_void_p), ("context", ctypes.c_void_p), ("resource", ctypes.c_void_p)]


class _Csr(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("rows", ctypes.c_int64), ("columns", ctypes.c_int64), ("stored", ctypes.c_int64),
                ("offsets", ctypes.c_void_p), ("indices", ctypes.c_void_p), ("values", ctypes.c_void_p), ("wide_offsets", ctypes.c_void_p),
                ("operation", ctypes.c_uint64), ("scale", ctypes.c_void_p)]


class _Output(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("offsets", ctypes.c_void_p), ("indices", ctypes.c_void_p), ("values", ctypes.c_void_p),
                ("capacity", ctypes.c_int64), ("regions", ctypes.c_void_p * 3), ("wide_offsets", ctypes.c_void_p)]


class _Result(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("rows", ctypes.c_int64), ("columns", ctypes.c_int64), ("stored", ctypes.c_int64),
                ("offsets", ctypes.c_void_p), ("indices", ctypes.c_void_p), ("values", ctypes.c_void_p), ("products", ctypes.c_int64),
                ("peak", ctypes.c_size_t), ("wide_offsets", ctypes.c_void_p)]


def _open():
    name = os.environ.get("GPUMEM_SPGEMM") or gpumem._installed("lib/libgpumem-spgemm.so.0", "libgpumem-spgemm.so.0")
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise ImportError(f"gpumem.sparse needs libgpumem-spgemm.so.0, which GPUMEM_SPGEMM may name: {error}") from None
    library.gpumem_spgemm_last_error.restype = ctypes.c_char_p
    library.gpumem_spgemm_destroy.restype = library.gpumem_spgemm_matrix_destroy.restype = None
    library.gpumem_spgemm_structure_destroy.restype = None
    return library


_library = _open()


def _check(status, hook=None):
    if not status:
        return
    text = _library.gpumem_spgemm_last_error().decode()
    if status == _OUT_OF_MEMORY:
        raise MemoryError(text) from (hook and hook.error)
    raise ValueError(text + ("; Multiplier.sort() sorts rows and adds double entries" if "unsorted or doubled" in text else ""))


# ---- arrays


class _Array:
    """Device memory for whoever takes __cuda_array_interface__. Keeps its owner alive."""

    def __init__(self, address, count, kind, owner):
        self.owner = owner
        self.__cuda_array_interface__ = {"shape": (count,), "typestr": kind, "data": (address or 0, False), "version": 3}


def _interface(array):
    """(address, elements, type) of an array on the device."""
    about = getattr(array, "__cuda_array_interface__", None)
    if about is None and hasattr(array, "__dlpack__"):
        about = _by_dlpack(array).__cuda_array_interface__
    if about is None:
        raise TypeError(f"{type(array).__name__} has neither __cuda_array_interface__ nor __dlpack__")
    if len(about["shape"]) != 1 or about.get("strides") not in (None, (int(about["typestr"][2:]),)):
        raise ValueError("an array of a matrix must have one dimension and be contiguous")
    return about["data"][0], about["shape"][0], about["typestr"]


def _framework(why):
    """CuPy or PyTorch."""
    try:
        import cupy

        return cupy
    except ImportError:
        pass
    try:
        import torch

        return torch
    except ImportError:
        raise ImportError(f"{why}: CuPy or PyTorch is needed, and neither is installed") from None


def _by_dlpack(array):
    return _framework("an array that has only __dlpack__").from_dlpack(array)


class Csr:
    """A matrix of arrays: `indptr` and `indices` of 32-bit integers, `data` of values. `framework`: "cupy", "torch" or None."""

    def __init__(self, indptr, indices, data, shape, framework=None):
        self.indptr, self.indices, self.data, self.shape, self.framework = indptr, indices, data, tuple(shape), framework

    def argument(self, precision, operation="N", scale=None):
        """The struct for the library, and the arrays that it needs."""
        if operation not in _OPERATIONS:
            raise ValueError(f"operation {operation!r} is not N, T or H")
        (offsets, count, kind), (indices, stored, other) = _interface(self.indptr), _interface(self.indices)
        if kind != "<i4" or other != "<i4":
            raise ValueError(f"indices are {kind} and {other}, not 32-bit integers (<i4)")
        if count != self.shape[0] + 1:
            raise ValueError(f"{count} offsets, and the matrix has {self.shape[0]} rows")
        values = 0
        if precision != _PRECISIONS["pattern"]:
            values, number, kind = _interface(self.data)
            if kind != _TYPES[precision] or number != stored:
                raise ValueError(f"{number} values of type {kind}, and the product needs {stored} of type {_TYPES[precision]}")
        factor = None if scale is None else _scalar(precision, scale)
        made = _Csr(ctypes.sizeof(_Csr), *self.shape, stored, offsets, indices, values, None, _OPERATIONS[operation],
                    ctypes.cast(factor, ctypes.c_void_p) if factor else None)
        made.kept = (self, factor)
        return made


def _scalar(precision, value):
    kind = ctypes.c_float if precision in (1, 3, 6) else ctypes.c_double
    value = complex(value)
    if precision in (2, 3):
        return (kind * 2)(value.real, value.imag)
    if value.imag:
        raise ValueError(f"the factor {value} is complex, and the values are real")
    return (kind * 1)(value.real)


def _kind_of(matrix):
    if isinstance(matrix, Csr):
        return "cupyx" if matrix.framework == "cupy" else matrix.framework
    module = type(matrix).__module__.split(".")[0]
    if module in ("torch", "cupyx", "scipy"):
        return module
    raise TypeError(f"{type(matrix).__name__} is not a sparse matrix of CuPy, PyTorch or SciPy, nor a Csr")


def _framework_of(matrix):
    """"torch" or "cupy", which has the arrays of the matrix on the device; None: neither."""
    kind = _kind_of(matrix)
    if kind == "scipy":
        return _of_the_host().__name__
    module = type(matrix.indptr).__module__.split(".")[0] if kind is None else kind
    return {"torch": "torch", "cupy": "cupy", "cupyx": "cupy"}.get(module)


def _taken(matrix):
    """Any matrix as a Csr on the device."""
    kind = _kind_of(matrix)
    if kind == "torch":
        import torch

        if matrix.layout != torch.sparse_csr:
            raise TypeError(f"the tensor has layout {matrix.layout}, not torch.sparse_csr")
        return Csr(matrix.crow_indices().int(), matrix.col_indices().int(), matrix.values().detach(), matrix.shape, "torch")
    if kind == "cupyx":
        if matrix.format != "csr":
            raise TypeError(f"the matrix has format {matrix.format}, not csr")
        return Csr(matrix.indptr, matrix.indices, matrix.data, matrix.shape, "cupyx")
    if kind == "scipy":
        if matrix.format != "csr":
            raise TypeError(f"the matrix has format {matrix.format}, not csr")
        framework = _of_the_host()
        up = framework.asarray if framework.__name__ == "cupy" else lambda array: framework.as_tensor(array, device="cuda")
        return Csr(up(matrix.indptr.astype("int32")), up(matrix.indices.astype("int32")), up(matrix.data), matrix.shape, "scipy")
    return matrix


def _of_the_host():
    return _framework("matrices of SciPy are copied to the device")


def _is_canonical(matrix):
    """Whether rows are sorted and have no double entries, where the matrix knows."""
    return _kind_of(matrix) not in ("cupyx", "scipy") or getattr(matrix, "has_canonical_format", True)


def _class_of(package, matrix):
    """csr_array where the matrix is one."""
    array = getattr(package, "csr_array", None)
    return array if array and isinstance(matrix, array) else package.csr_matrix


def _given(like, shape, offsets, indices, values):
    """C for the caller, of the kind of `like`. The three are arrays of the framework, or have __cuda_array_interface__."""
    kind = _kind_of(like)
    if values is None:
        return Csr(offsets, indices, None, shape, kind)
    if kind == "torch" or (kind == "scipy" and _framework_of(like) == "torch"):
        import torch

        parts = [None if part is None else torch.as_tensor(part, device="cuda") for part in (offsets, indices, values)]
        if kind == "torch":
            return torch.sparse_csr_tensor(*parts, size=shape, check_invariants=False)
        parts = [part.cpu().numpy() for part in parts]
    elif kind in ("cupyx", "scipy"):
        import cupy
        import cupyx.scipy.sparse

        parts = [cupy.asarray(part) for part in (offsets, indices, values)]
        if kind == "cupyx":
            made = _cupy_matrix(_class_of(cupyx.scipy.sparse, like), parts[::-1], shape)
            made.has_sorted_indices = made.has_canonical_format = True
            return made
        parts = [cupy.asnumpy(part) for part in parts]
    else:
        return Csr(offsets, indices, values, shape, kind)
    import scipy.sparse

    made = _class_of(scipy.sparse, like)((parts[2], parts[1], parts[0]), shape=shape)
    made.has_sorted_indices = made.has_canonical_format = True
    return made


def _cupy_matrix(csr_matrix, parts, shape):
    """The constructor of CuPy 14.2 reads the offsets, in CuPy's current stream: too early for C of another stream, and never in a capture.
    CuPy has _from_parts() where it does that."""
    make = getattr(csr_matrix, "_from_parts", None)
    return make(*parts, shape) if make else csr_matrix(tuple(parts), shape=shape)


def _stream_of(matrix, stream):
    if stream is not None and _kind_of(matrix) == "scipy":
        raise ValueError("matrices of SciPy are copied in the current stream of CuPy or PyTorch, so `stream` is not for them")
    if stream is not None:
        return stream
    framework = _framework_of(matrix)
    if framework == "torch":
        import torch

        return torch.cuda.current_stream().cuda_stream
    if framework == "cupy":
        import cupy

        return cupy.cuda.get_current_stream().ptr
    return 0


def _type_of(matrix):
    """The name of the type of its values."""
    dtype = getattr(matrix, "dtype", None)
    if dtype is None:
        kind = _interface(matrix.data)[2]
        names = [name for name, precision in _PRECISIONS.items() if _TYPES.get(precision) == kind]
    else:
        kind = _name_of_type(dtype)
        names = [name for name in _PRECISIONS if name == kind]
    if not names or names[0] == "pattern":
        raise ValueError(f"values of type {kind}; {', '.join(name for name in _PRECISIONS if name != 'pattern')} are possible")
    return names[0]


def _alike(*matrices):
    """The type that the values of all matrices can be converted to, and the matrices with such values."""
    types = [None if m is None else _type_of(m) for m in matrices]
    there = {name for name in types if name}
    wide = there & {"float64", "complex128"}
    common = ("complex128" if wide else "complex64") if any(name.startswith("complex") for name in there) else "float64" if wide else "float32"
    return common, [m if name in (None, common) else _with_type(m, common) for m, name in zip(matrices, types)]


def _with_type(matrix, name):
    kind = _kind_of(matrix)
    if kind == "torch" and not isinstance(matrix, Csr):
        taken = _taken(matrix)
        return Csr(taken.indptr, taken.indices, _values_of_type(taken.data, name), taken.shape, kind)
    if isinstance(matrix, Csr):
        return Csr(matrix.indptr, matrix.indices, _values_of_type(matrix.data, name), matrix.shape, matrix.framework)
    return matrix.astype(name)


def _values_of_type(values, name):
    if type(values).__module__.split(".")[0] == "torch":
        import torch

        return values.to(getattr(torch, name))
    if hasattr(values, "astype"):
        return values.astype(name)
    raise ValueError(f"values of type {_interface(values)[2]} beside values of type {name}")


class _Matrix:
    """Memory of a C, which was handed over."""

    def __init__(self, handle, stream, hook):
        self.handle, self.stream, self.hook = handle, stream, hook

    def __del__(self):
        _library.gpumem_spgemm_matrix_destroy(self.handle, ctypes.c_void_p(self.stream))


# ---- products


def _name_of_type(dtype):
    """The name of a type of NumPy, CuPy, PyTorch or Python, or a name."""
    if dtype is float or dtype is complex:
        return "float64" if dtype is float else "complex128"
    return str(getattr(dtype, "name", getattr(dtype, "__name__", dtype))).rsplit(".", 1)[-1]


class Multiplier:
    """Computes products, and keeps its helper memory between them. dtype: "float64", "float32", "complex128", "complex64" or "pattern"; limit:
    bytes of device memory, 0: no limit. semiring: "plus-times"; or "min-plus" for the first two dtypes, if the library was built with
    `-Dsemirings=enabled`. The semiring or-and is that of patterns. memory: None, "torch", "cupy", or an object with allocate() and free()."""

    def __init__(self, dtype="float64", limit=0, semiring="plus-times", memory=None):
        self._handle, name = None, _name_of_type(dtype)
        if semiring not in _SEMIRINGS:
            raise ValueError(f"semiring {semiring} is not one of {', '.join(_SEMIRINGS)}")
        precisions = _SEMIRINGS[semiring]
        if name not in precisions:
            raise ValueError(f"dtype {name} is not one of {', '.join(precisions)}")
        if limit < 0:
            raise ValueError(f"limit {limit} is negative")
        self._precision, self._hook, handle = precisions[name], sparse_memory.hook_of(memory), ctypes.c_void_p()
        options = _Options(ctypes.sizeof(_Options), limit, self._precision)
        if self._hook:
            options.allocate, options.free = self._hook.allocate, self._hook.free
        _check(_library.gpumem_spgemm_create(ctypes.byref(options), ctypes.byref(handle)))
        self._handle = handle

    def close(self):
        """Frees all memory but that of matrices which were returned."""
        handle, self._handle = self._handle, None
        _library.gpumem_spgemm_destroy(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if self._handle:
            self.close()

    def multiply(self, a, b, alpha=None, addend=None, beta=None, op_a="N", op_b="N", op_addend="N", check=True, stream=None):
        """C = alpha op(A) op(B) + beta op(D). check: refuses wrong matrices, which costs a read of their positions."""
        at = self._at(a, stream)
        operands = self._operands(at, (a, op_a, alpha), (b, op_b, None), (addend, op_addend, beta))
        return self._run(a, at, lambda c: _library.gpumem_spgemm_multiply_add(self._handle, *operands, None, _flags(check), at, c))

    def triple(self, r, a, p, check=True, stream=None):
        """C = R A P; R None: the conjugate transpose of P."""
        at = self._at(a, stream)
        operands = self._operands(at, *((m, "N", None) for m in (r, a, p)))
        return self._run(a, at, lambda c: _library.gpumem_spgemm_triple(self._handle, *operands, None, _flags(check), at, c))

    def sort(self, a, op="N", stream=None):
        """op(A) with sorted rows; double entries are added."""
        at = self._at(a, stream)
        return _given(a, *self._sorted(_taken(a), op, at))

    def symbolic(self, a, b, addend=None, op_a="N", op_b="N", op_addend="N", check=True, stream=None):
        """The Structure of op(A) op(B) + op(D)."""
        at, handle, operations = self._at(a, stream), ctypes.c_void_p(), (op_a, op_b, op_addend)
        sorts = [m is not None and not _is_canonical(m) for m in (a, b, addend)]
        operands = self._operands(at, *zip((a, b, addend), operations, (None, None, None)), sorts=sorts)
        _check(_library.gpumem_spgemm_symbolic(self._handle, *operands, _flags(check), at, ctypes.byref(handle)), self._hook)
        return Structure(self, handle, at.value or 0, operations, sorts)

    def trim(self):
        """Frees the memory that is kept for the next product. Waits for the last one."""
        self._at(None, 0)
        _check(_library.gpumem_spgemm_trim(self._handle))

    def _at(self, matrix, stream):
        """The stream of a call."""
        if not self._handle:
            raise ValueError("the multiplier is closed")
        return ctypes.c_void_p(stream if matrix is None else _stream_of(matrix, stream))

    def _operands(self, at, *given, sorts=None):
        """Arguments for matrices with their operations and scales. sorts: of each, whether it is sorted; None: if it says that it is not."""
        return [_pointer(None if m is None else self._argument(at, m, op, scale, sorts[i] if sorts else not _is_canonical(m)))
                for i, (m, op, scale) in enumerate(given)]

    def _argument(self, at, matrix, op, scale, sorts):
        taken = _taken(matrix)
        if sorts:
            shape, *parts = self._sorted(taken, "N", at)
            taken = Csr(*parts, shape)
        return taken.argument(self._precision, op, scale)

    def _sorted(self, taken, op, at):
        operand = _pointer(taken.argument(self._precision, op))
        return self._parts(at, lambda c: _library.gpumem_spgemm_sort(self._handle, operand, None, _flags(False), at, c))

    def _run(self, like, at, call):
        return _given(like, *self._parts(at, call))

    def _parts(self, at, call):
        """Shape and arrays of the C that the call computes."""
        c, handle = _Result(ctypes.sizeof(_Result)), ctypes.c_void_p()
        _check(call(ctypes.byref(c)), self._hook)
        _check(_library.gpumem_spgemm_detach(self._handle, ctypes.byref(handle)))
        owner = _Matrix(handle, at.value or 0, self._hook)
        kinds = ((c.offsets, c.rows + 1, "<i4"), (c.indices, c.stored, "<i4"), (c.values, c.stored, _TYPES.get(self._precision)))
        return ((c.rows, c.columns), *(None if kind is None else _Array(address, count, kind, owner) for address, count, kind in kinds))


def _flags(check):
    return ctypes.c_uint64(_CHECK if check else 0)


def _pointer(argument):
    """A pointer that keeps what it points to."""
    if argument is None:
        return None
    pointer = ctypes.pointer(argument)
    pointer.kept = argument
    return pointer


class Structure:
    """Positions of C, counted once. multiply() computes values for operands with the positions of those that were counted."""

    def __init__(self, multiplier, handle, stream, operations, sorts):
        self._multiplier, self._handle, self._stream, self._operations, self._sorts = multiplier, handle, stream, operations, sorts
        self._hook = multiplier._hook  # frees the memory
        self._result = _Result(ctypes.sizeof(_Result))
        _check(_library.gpumem_spgemm_structure_result(handle, ctypes.byref(self._result)))
        self.shape, self.stored = (self._result.rows, self._result.columns), self._result.stored

    def __del__(self):
        if getattr(self, "_handle", None):
            _library.gpumem_spgemm_structure_destroy(self._handle, ctypes.c_void_p(self._stream))

    def multiply(self, a, b, alpha=None, addend=None, beta=None, out=None, check=False, stream=None, multiplier=None):
        """C in arrays of the framework, or in `out`: (offsets, indices, values). Does not wait, unless `check` compares the positions, or an
        operand is sorted as when it was counted. Several multipliers may use one structure at one time; without `multiplier` it is the one
        that counted."""
        used = multiplier or self._multiplier
        at = used._at(a, stream)
        operands = used._operands(at, *zip((a, b, addend), self._operations, (alpha, None, beta)), sorts=self._sorts)
        parts = out or _arrays(_framework_of(a), self._result.rows + 1, self.stored, used._precision)
        c = Csr(*parts, self.shape).argument(used._precision)
        if c.stored != self.stored:
            raise ValueError(f"`out` has {c.stored} entries, and C has {self.stored}")
        output = _Output(ctypes.sizeof(_Output), c.offsets, c.indices, c.values, c.stored)
        _check(_library.gpumem_spgemm_numeric(used._handle, self._handle, *operands, ctypes.byref(output), _flags(check), at), used._hook)
        return _given(a, self.shape, *parts)


def _arrays(framework, offsets, stored, precision):
    if framework == "torch":
        import torch

        dtype = [torch.float64, torch.float32, torch.complex128, torch.complex64, None, torch.float64, torch.float32][precision]
        return (torch.empty(offsets, dtype=torch.int32, device="cuda"), torch.empty(stored, dtype=torch.int32, device="cuda"),
                torch.empty(stored, dtype=dtype, device="cuda") if dtype else None)
    if framework == "cupy":
        import cupy

        return cupy.empty(offsets, "<i4"), cupy.empty(stored, "<i4"), cupy.empty(stored, _TYPES[precision]) if precision in _TYPES else None
    raise TypeError("a Csr without a framework needs `out`")


def multiply(a, b, semiring="plus-times", addend=None, **options):
    """Multiplier.multiply() by a multiplier for this product alone."""
    name, (left, right, addend) = _alike(a, b, addend)
    with Multiplier(name, semiring=semiring, memory=_framework_of(a)) as multiplier:
        return multiplier.multiply(left, right, addend=addend, **options)


def triple(r, a, p, semiring="plus-times", **options):
    """Multiplier.triple() by a multiplier for this product alone."""
    name, operands = _alike(r, a, p)
    with Multiplier(name, semiring=semiring, memory=_framework_of(a)) as multiplier:
        return multiplier.triple(*operands, **options)
