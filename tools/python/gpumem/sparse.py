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

A matrix is a csr_matrix of CuPy, a sparse CSR tensor of PyTorch, a csr_matrix of SciPy, or a Csr of arrays that have
__cuda_array_interface__ or __dlpack__. Values are float32, float64, complex64 or complex128. Rows must be sorted and have no
double entries; `sort` makes such a matrix. 64-bit indices of PyTorch are converted, which copies them. SciPy's matrices are copied to
the device and back, by CuPy or PyTorch.

C has the kind of A; with dtype "pattern" it is a Csr. Its memory is gpumem's, and is freed with the arrays; that of structure.multiply()
is the framework's. Work is submitted to the current stream of the framework, or to `stream`, an integer. The caller orders that stream
after the current one, in which indices are converted and memory for C is taken. The device of A must be current. A Multiplier is used by
one thread at a time.

The library is that of the wheel, else the installed one, unless GPUMEM_SPGEMM is the path of another libgpumem-spgemm.so.0. ImportError:
there is none.
"""

import ctypes
import os

import gpumem

_SAME_STRUCTURE, _CHECK = 1, 8
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


def _check(status):
    if status:
        text = _library.gpumem_spgemm_last_error().decode()
        raise MemoryError(text) if status == _OUT_OF_MEMORY else ValueError(text)


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


def _by_dlpack(array):
    try:
        import cupy

        return cupy.from_dlpack(array)
    except ImportError:
        import torch

        return torch.from_dlpack(array)


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
                raise ValueError(f"{number} values of type {kind}, not {stored} of type {_TYPES[precision]}")
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
        return matrix.framework
    module = type(matrix).__module__.split(".")[0]
    if module in ("torch", "cupyx", "scipy"):
        return module
    raise TypeError(f"{type(matrix).__name__} is not a sparse matrix of CuPy, PyTorch or SciPy, nor a Csr")


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
    """CuPy or PyTorch, to copy SciPy's matrices."""
    try:
        import cupy

        return cupy
    except ImportError:
        pass
    try:
        import torch

        return torch
    except ImportError:
        raise ImportError("matrices of SciPy need CuPy or PyTorch, which copy them to the device") from None


def _given(kind, shape, offsets, indices, values):
    """C for the caller. The three are arrays of the framework, or have __cuda_array_interface__."""
    if values is None:
        return Csr(offsets, indices, None, shape, kind)
    if kind == "torch" or (kind == "scipy" and _of_the_host().__name__ == "torch"):
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
            made = _cupy_matrix(cupyx.scipy.sparse.csr_matrix, parts[::-1], shape)
            made.has_sorted_indices = made.has_canonical_format = True
            return made
        parts = [cupy.asnumpy(part) for part in parts]
    else:
        return Csr(offsets, indices, values, shape, kind)
    import scipy.sparse

    return scipy.sparse.csr_matrix((parts[2], parts[1], parts[0]), shape=shape)


def _cupy_matrix(csr_matrix, parts, shape):
    """The constructor of CuPy 14.2 reads the offsets, in CuPy's current stream: too early for C of another stream, and never in a capture.
    CuPy has _from_parts() where it does that."""
    make = getattr(csr_matrix, "_from_parts", None)
    return make(*parts, shape) if make else csr_matrix(tuple(parts), shape=shape)


def _stream_of(kind, stream):
    if stream is not None and kind == "scipy":
        raise ValueError("matrices of SciPy are copied in the current stream of CuPy or PyTorch, so `stream` is not for them")
    if stream is not None:
        return stream
    if kind == "torch" or (kind == "scipy" and _of_the_host().__name__ == "torch"):
        import torch

        return torch.cuda.current_stream().cuda_stream
    if kind in ("cupyx", "scipy"):
        import cupy

        return cupy.cuda.get_current_stream().ptr
    return 0


def _precision_of(matrix):
    kind = _interface(matrix.data)[2]
    for precision, name in _TYPES.items():
        if name == kind:
            return precision
    raise ValueError(f"values of type {kind}; {', '.join(_TYPES.values())} are possible")


class _Matrix:
    """Memory of a C, which was handed over."""

    def __init__(self, handle, stream):
        self.handle, self.stream = handle, stream

    def __del__(self):
        _library.gpumem_spgemm_matrix_destroy(self.handle, ctypes.c_void_p(self.stream))


# ---- products


class Multiplier:
    """Computes products, and keeps its helper memory between them. dtype: "float64", "float32", "complex128", "complex64" or "pattern"; limit:
    bytes of device memory, 0: no limit. semiring: "plus-times"; or "min-plus" for the first two dtypes, if the library was built with
    `-Dsemirings=enabled`. The semiring or-and is that of patterns."""

    def __init__(self, dtype="float64", limit=0, semiring="plus-times"):
        name = str(getattr(dtype, "name", dtype)).rsplit(".", 1)[-1]
        if semiring not in _SEMIRINGS:
            raise ValueError(f"semiring {semiring} is not one of {', '.join(_SEMIRINGS)}")
        precisions = _SEMIRINGS[semiring]
        if name not in precisions:
            raise ValueError(f"dtype {name} is not one of {', '.join(precisions)}")
        self._precision, self._handle = precisions[name], ctypes.c_void_p()
        options = _Options(ctypes.sizeof(_Options), limit, self._precision)
        _check(_library.gpumem_spgemm_create(ctypes.byref(options), ctypes.byref(self._handle)))

    def close(self):
        """Frees all memory but that of matrices which were returned."""
        handle, self._handle = self._handle, None
        _library.gpumem_spgemm_destroy(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()

    def multiply(self, a, b, alpha=None, addend=None, beta=None, op_a="N", op_b="N", op_addend="N", check=False, stream=None):
        """C = alpha op(A) op(B) + beta op(D). check: refuses wrong matrices, which costs a read of their positions."""
        operands = self._operands(a, b, addend, alpha, beta, op_a, op_b, op_addend)
        return self._run(_kind_of(a), stream, lambda at, c: _library.gpumem_spgemm_multiply_add(
            self._handle, *operands, None, ctypes.c_uint64(_CHECK if check else 0), at, c))

    def triple(self, r, a, p, check=False, stream=None):
        """C = R A P; R None: the conjugate transpose of P."""
        operands = [_pointer(None if m is None else _taken(m).argument(self._precision)) for m in (r, a, p)]
        return self._run(_kind_of(a), stream, lambda at, c: _library.gpumem_spgemm_triple(
            self._handle, *operands, None, ctypes.c_uint64(_CHECK if check else 0), at, c))

    def sort(self, a, op="N", stream=None):
        """op(A) with sorted rows; double entries are added."""
        operand = _pointer(_taken(a).argument(self._precision, op))
        return self._run(_kind_of(a), stream, lambda at, c: _library.gpumem_spgemm_sort(self._handle, operand, None, ctypes.c_uint64(0), at, c))

    def symbolic(self, a, b, addend=None, op_a="N", op_b="N", op_addend="N", check=False, stream=None):
        """The Structure of op(A) op(B) + op(D)."""
        operands = self._operands(a, b, addend, None, None, op_a, op_b, op_addend)
        at, handle = ctypes.c_void_p(_stream_of(_kind_of(a), stream)), ctypes.c_void_p()
        _check(_library.gpumem_spgemm_symbolic(self._handle, *operands, ctypes.c_uint64(_CHECK if check else 0), at, ctypes.byref(handle)))
        return Structure(self, handle, at.value or 0, (op_a, op_b, op_addend))

    def trim(self):
        """Frees the memory that is kept for the next product. Waits for the last one."""
        _check(_library.gpumem_spgemm_trim(self._handle))

    def _operands(self, a, b, addend, alpha, beta, op_a, op_b, op_addend):
        given = ((a, op_a, alpha), (b, op_b, None), (addend, op_addend, beta))
        return [_pointer(None if m is None else _taken(m).argument(self._precision, op, scale)) for m, op, scale in given]

    def _run(self, kind, stream, call):
        at, c, handle = ctypes.c_void_p(_stream_of(kind, stream)), _Result(ctypes.sizeof(_Result)), ctypes.c_void_p()
        _check(call(at, ctypes.byref(c)))
        _check(_library.gpumem_spgemm_detach(self._handle, ctypes.byref(handle)))
        owner = _Matrix(handle, at.value or 0)
        kinds = ((c.offsets, c.rows + 1, "<i4"), (c.indices, c.stored, "<i4"), (c.values, c.stored, _TYPES.get(self._precision)))
        parts = [None if kind_of_values is None else _Array(address, count, kind_of_values, owner) for address, count, kind_of_values in kinds]
        return _given(kind, (c.rows, c.columns), *parts)


def _pointer(argument):
    """A pointer that keeps what it points to."""
    if argument is None:
        return None
    pointer = ctypes.pointer(argument)
    pointer.kept = argument
    return pointer


class Structure:
    """Positions of C, counted once. multiply() computes values for operands with the positions of those that were counted."""

    def __init__(self, multiplier, handle, stream, operations):
        self._multiplier, self._handle, self._stream, self._operations = multiplier, handle, stream, operations
        self._result = _Result(ctypes.sizeof(_Result))
        _check(_library.gpumem_spgemm_structure_result(handle, ctypes.byref(self._result)))
        self.shape, self.stored = (self._result.rows, self._result.columns), self._result.stored

    def __del__(self):
        if getattr(self, "_handle", None):
            _library.gpumem_spgemm_structure_destroy(self._handle, ctypes.c_void_p(self._stream))

    def multiply(self, a, b, alpha=None, addend=None, beta=None, out=None, check=False, stream=None, multiplier=None):
        """C in arrays of the framework, or in `out`: (offsets, indices, values). Does not wait, unless `check` compares the positions. Several
        multipliers may use one structure at one time; without `multiplier` it is the one that counted."""
        used, kind = multiplier or self._multiplier, _kind_of(a)
        operands = used._operands(a, b, addend, alpha, beta, *self._operations)
        parts = out or _arrays(kind, self._result.rows + 1, self.stored, used._precision)
        c = Csr(*parts, self.shape).argument(used._precision)
        if c.stored != self.stored:
            raise ValueError(f"`out` has {c.stored} entries, and C has {self.stored}")
        output = _Output(ctypes.sizeof(_Output), c.offsets, c.indices, c.values, c.stored)
        at = ctypes.c_void_p(_stream_of(kind, stream))
        _check(_library.gpumem_spgemm_numeric(used._handle, self._handle, *operands, ctypes.byref(output),
                                              ctypes.c_uint64(_CHECK if check else 0), at))
        return _given(kind, self.shape, *parts)


def _arrays(kind, offsets, stored, precision):
    if kind == "torch" or (kind == "scipy" and _of_the_host().__name__ == "torch"):
        import torch

        dtype = [torch.float64, torch.float32, torch.complex128, torch.complex64, None, torch.float64, torch.float32][precision]
        return (torch.empty(offsets, dtype=torch.int32, device="cuda"), torch.empty(stored, dtype=torch.int32, device="cuda"),
                torch.empty(stored, dtype=dtype, device="cuda") if dtype else None)
    if kind in ("cupyx", "scipy"):
        import cupy

        return cupy.empty(offsets, "<i4"), cupy.empty(stored, "<i4"), cupy.empty(stored, _TYPES[precision]) if precision in _TYPES else None
    raise TypeError("a Csr without a framework needs `out`")


def multiply(a, b, semiring="plus-times", **options):
    """Multiplier.multiply() by a multiplier for this product alone."""
    with Multiplier(_name_of(a), semiring=semiring) as multiplier:
        return multiplier.multiply(a, b, **options)


def triple(r, a, p, semiring="plus-times", **options):
    """Multiplier.triple() by a multiplier for this product alone."""
    with Multiplier(_name_of(a), semiring=semiring) as multiplier:
        return multiplier.triple(r, a, p, **options)


def _name_of(matrix):
    precision = _precision_of(_taken(matrix))
    return next(name for name, number in _PRECISIONS.items() if number == precision)
