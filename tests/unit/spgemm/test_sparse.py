#!/usr/bin/env python3
"""gpumem.sparse on an emulated device, whose memory the host can access: arrays of the device are arrays of the host.

usage: test_sparse.py   (GPUMEM_SPGEMM names the emulated library, or it lies in the package)
"""

import ctypes
import random
import sys
import types

from gpumem import sparse

KINDS = {"float64": (ctypes.c_double, "<f8"), "float32": (ctypes.c_float, "<f4"), "complex128": (ctypes.c_double, "<c16"), "complex64": (ctypes.c_float, "<c8")}


class Device:
    """An array that says that it lies on the device."""

    def __init__(self, memory, count, kind):
        self.memory = memory
        self.__cuda_array_interface__ = {"shape": (count,), "typestr": kind, "data": (ctypes.addressof(memory), False), "version": 3}


def integers(numbers):
    return Device((ctypes.c_int32 * max(1, len(numbers)))(*numbers), len(numbers), "<i4")


def values(numbers, dtype):
    element, kind = KINDS[dtype]
    flat = [part for number in numbers for part in (number.real, number.imag)] if "complex" in dtype else [number.real for number in numbers]
    return Device((element * max(1, len(flat)))(*flat), len(numbers), kind)


def matrix(rows, columns, dtype, seed, every=3):
    """A matrix at chance, and the same as a dict of its entries."""
    chance = random.Random(seed)
    entries = {(i, j): complex(chance.uniform(-1, 1), chance.uniform(-1, 1) if "complex" in dtype else 0)
               for i in range(rows) for j in range(columns) if chance.randrange(every) == 0}
    return compressed(entries, rows, columns, dtype), entries


def compressed(entries, rows, columns, dtype):
    places = sorted(entries)
    offsets = [sum(1 for i, _ in places if i < row) for row in range(rows + 1)]
    return sparse.Csr(integers(offsets), integers([j for _, j in places]), values([entries[place] for place in places], dtype), (rows, columns))


def read(array):
    about = array.__cuda_array_interface__
    count, kind = about["shape"][0], about["typestr"]
    element = {"<i4": ctypes.c_int32, "<f8": ctypes.c_double, "<f4": ctypes.c_float, "<c16": ctypes.c_double, "<c8": ctypes.c_float}[kind]
    pair = "c" in kind
    flat = (element * (count * (1 + pair))).from_address(about["data"][0])[:] if count else []
    return [complex(*flat[2 * i : 2 * i + 2]) for i in range(count)] if pair else list(flat)


def entries_of(c):
    offsets, columns, numbers = read(c.indptr), read(c.indices), read(c.data)
    assert len(offsets) == c.shape[0] + 1 and offsets[-1] == len(columns)
    for row in range(c.shape[0]):
        part = columns[offsets[row] : offsets[row + 1]]
        assert part == sorted(set(part)), f"row {row}: {part}"
    return {(row, columns[k]): numbers[k] for row in range(c.shape[0]) for k in range(offsets[row], offsets[row + 1])}


def turned(entries, operation):
    if operation == "N":
        return entries
    return {(j, i): value.conjugate() if operation == "H" else value for (i, j), value in entries.items()}


def product(a, b, alpha=1, d=None, beta=1):
    c = {place: beta * value for place, value in (d or {}).items()}
    for (i, k), x in a.items():
        for (other, j), y in b.items():
            if k == other:
                c[i, j] = c.get((i, j), 0) + alpha * x * y
    return c


def compare(found, wanted, dtype):
    found = entries_of(found)
    assert found.keys() == wanted.keys(), sorted(found.keys() ^ wanted.keys())[:9]
    tolerance = 1e-12 if dtype in ("float64", "complex128") else 1e-4
    assert all(abs(found[place] - wanted[place]) < tolerance for place in found)


def refused(kind, says, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except kind as error:
        assert says in str(error), error
        return
    raise AssertionError(f"no {kind.__name__}: {says}")


def products(dtype):
    (a, of_a), (b, of_b), (d, of_d) = matrix(12, 9, dtype, 1), matrix(9, 14, dtype, 2), matrix(12, 14, dtype, 3)
    stream = 9
    compare(sparse.multiply(a, b, stream=stream), product(of_a, of_b), dtype)
    compare(sparse.multiply(a, b, alpha=2, addend=d, beta=-0.5, check=True, stream=stream), product(of_a, of_b, 2, of_d, -0.5), dtype)
    for operation in "TH":
        at, _ = compressed(turned(of_a, "T"), 9, 12, dtype), None
        compare(sparse.multiply(at, b, op_a=operation, stream=stream), product(turned(turned(of_a, "T"), operation), of_b), dtype)
    square, of_square = matrix(12, 12, dtype, 4)
    restricted = product(turned(of_a, "H"), of_square)
    compare(sparse.triple(None, square, a, stream=stream), product(restricted, of_a), dtype)
    with sparse.Multiplier(dtype) as multiplier:
        kept = multiplier.multiply(a, b, stream=stream)
        compare(multiplier.multiply(b, b, op_b="T", stream=stream), product(of_b, turned(of_b, "T")), dtype)
        compare(kept, product(of_a, of_b), dtype)
        structure = multiplier.symbolic(a, b, d, stream=stream)
        out = (integers([0] * 13), integers([0] * structure.stored), values([0] * structure.stored, dtype))
        compare(structure.multiply(a, b, addend=d, beta=3, out=out, check=True, stream=stream), product(of_a, of_b, 1, of_d, 3), dtype)
        refused(ValueError, "and the structure has 3", structure.multiply, a, b, out=out, stream=stream)
        more = (out[0], integers([0] * (structure.stored + 1)), values([0] * (structure.stored + 1), dtype))
        refused(ValueError, f"`out` has {structure.stored + 1} entries, and C has {structure.stored}", structure.multiply, a, b, addend=d, out=more, stream=stream)
        refused(ValueError, "values of type <i4", structure.multiply, a, b, addend=d, out=(out[0], out[1], out[1]), stream=stream)
        refused(TypeError, "needs `out`", structure.multiply, a, b, addend=d, stream=stream)
    compare(kept, product(of_a, of_b), dtype)  # it outlives its multiplier
    other, _ = matrix(9, 14, "float64" if dtype == "float32" else "float32", 2)
    refused(ValueError, "values of type", sparse.multiply, a, other)
    refused(ValueError, "A has 9 columns and B has 12 rows", sparse.multiply, a, a, stream=stream)
    refused(ValueError, "operation 'X' is not N, T or H", sparse.multiply, a, b, op_a="X")


def shortest_paths(dtype):
    (a, of_a), (b, of_b), (d, of_d) = matrix(12, 9, dtype, 1), matrix(9, 14, dtype, 2), matrix(12, 14, dtype, 3)
    wanted = {place: value.real - 0.5 for place, value in of_d.items()}
    for (i, k), x in of_a.items():
        for (other, j), y in of_b.items():
            if k == other:
                wanted[i, j] = min(wanted.get((i, j), float("inf")), 2 + x.real + y.real)
    compare(sparse.multiply(a, b, alpha=2, addend=d, beta=-0.5, semiring="min-plus", stream=9), wanted, dtype)
    refused(ValueError, "semiring max is not one of plus-times, min-plus", sparse.multiply, a, b, semiring="max")
    refused(ValueError, "dtype complex64 is not one of float64, float32", sparse.Multiplier, "complex64", semiring="min-plus")


class Pool:
    """Memory of the host, with a bound, that says what is done with it."""

    def __init__(self, most=1 << 30):
        self.held, self.streams, self.left = {}, set(), most

    def allocate(self, size, device, stream):
        assert device == 0
        if size > self.left:
            raise ValueError("the pool is empty")
        self.left -= size
        self.streams.add(stream)
        block = ctypes.create_string_buffer(size + 256)
        address = (ctypes.addressof(block) + 255) // 256 * 256
        self.held[address] = block, size
        return address

    def free(self, address, size, device, stream):
        assert self.held.pop(address)[1] == size and device == 0
        self.streams.add(stream)


def memory_of_the_caller():
    (a, of_a), (b, of_b) = matrix(12, 9, "float64", 1), matrix(9, 14, "float64", 2)
    pool = Pool()
    with sparse.Multiplier(memory=pool) as multiplier:
        kept = multiplier.multiply(a, b, stream=9)
        structure = multiplier.symbolic(a, b, stream=9)
        assert pool.streams == {9} and len(pool.held) > 3
    compare(kept, product(of_a, of_b), "float64")
    assert len(pool.held) > 3
    del structure, kept
    assert not pool.held
    with sparse.Multiplier(memory=Pool(100)) as multiplier:
        refused(MemoryError, "out of device memory", multiplier.multiply, a, b, stream=9)
        try:
            multiplier.multiply(a, b, stream=9)
        except MemoryError as error:
            assert "the pool is empty" in str(error.__cause__)
    refused(ValueError, "memory 'jax' is not one of torch, cupy", sparse.Multiplier, memory="jax")
    refused(TypeError, "memory of a int, which has no allocate() and free()", sparse.Multiplier, memory=3)


def closed():
    (a, _), (b, _) = matrix(12, 9, "float64", 1), matrix(9, 14, "float64", 2)
    multiplier = sparse.Multiplier()
    structure = multiplier.symbolic(a, b, stream=9)
    multiplier.close()
    multiplier.close()
    for call in (multiplier.multiply, multiplier.symbolic, structure.multiply):
        refused(ValueError, "the multiplier is closed", call, a, b, stream=9)
    refused(ValueError, "the multiplier is closed", multiplier.triple, None, a, b, stream=9)
    refused(ValueError, "the multiplier is closed", multiplier.sort, a, stream=9)
    refused(ValueError, "the multiplier is closed", multiplier.trim)


def types_of_values():
    class float64:  # as numpy.float64 is one
        pass

    (a, of_a), (b, of_b) = matrix(12, 9, "float32", 1), matrix(9, 14, "float32", 2)
    for dtype in (float64, float, "float64", types.SimpleNamespace(name="float64")):
        assert sparse.Multiplier(dtype)._precision == 0
    assert sparse._name_of_type(type("dtype", (), {"name": "float32", "__eq__": lambda *_: True})()) == "float32"
    assert sparse.Multiplier(complex)._precision == 2
    refused(ValueError, "limit -1 is negative", sparse.Multiplier, limit=-1)
    # Another type of values: converted where the framework can, else refused.
    double, _ = matrix(9, 14, "float64", 2)
    refused(ValueError, "values of type <f4 beside values of type float64", sparse.multiply, a, double, stream=9)
    a.data.astype = lambda name: values([of_a[place] for place in sorted(of_a)], name)
    compare(sparse.multiply(a, double, stream=9), product(of_a, of_b), "float32")
    assert sparse.multiply(a, double, stream=9).data.__cuda_array_interface__["typestr"] == "<f8"
    refused(ValueError, "values of type <i4; float64, float32, complex128, complex64 are possible", sparse.multiply,
            sparse.Csr(a.indptr, a.indices, a.indices, a.shape), b)


def without_a_framework():
    """Where neither CuPy nor PyTorch is, the error says so."""
    there = {name: sys.modules.get(name) for name in ("cupy", "torch")}
    sys.modules |= dict.fromkeys(there)
    refused(ImportError, "CuPy or PyTorch is needed, and neither is installed", sparse._interface, types.SimpleNamespace(__dlpack__=None))
    refused(ImportError, "CuPy or PyTorch is needed, and neither is installed", sparse._of_the_host)
    for name in there:
        del sys.modules[name]
    sys.modules |= {name: module for name, module in there.items() if module}


def sorted_rows():
    unsorted = sparse.Csr(integers([0, 3, 5]), integers([4, 1, 4, 2, 0]), values([1, 2, 3, 4, 5], "float64"), (2, 5))
    with sparse.Multiplier() as multiplier:
        for call in (multiplier.multiply, multiplier.symbolic):
            refused(ValueError, "row 0 of A has columns that are out of range, unsorted or doubled; Multiplier.sort()", call, unsorted, unsorted,
                    op_b="T", stream=9)
        refused(ValueError, "row 0 of A has columns", multiplier.triple, unsorted, compressed({}, 5, 2, "float64"), unsorted, stream=9)
        compare(multiplier.sort(unsorted, stream=9), {(0, 1): 2, (0, 4): 4, (1, 0): 5, (1, 2): 4}, "float64")
        refused(TypeError, "is not a sparse matrix", multiplier.sort, [1, 2])
    refused(ValueError, "dtype int8 is not one of", sparse.Multiplier, "int8")
    refused(ValueError, "the factor (1+2j) is complex", sparse.multiply, unsorted, unsorted, op_b="T", alpha=1 + 2j, stream=9)
    refused(ValueError, "indices are <f8", sparse.multiply, sparse.Csr(values([0, 1], "float64"), integers([0]), values([1], "float64"), (1, 1)), unsorted)


class Stream:
    """As CuPy has them, and what was done with them."""

    current, log = 9, []

    def __init__(self, ptr):
        self.ptr = ptr

    def __enter__(self):
        self.before, Stream.current = Stream.current, self.ptr

    def __exit__(self, *_):
        Stream.current = self.before

    def record(self):
        return self.ptr

    def wait_event(self, event):
        Stream.log.append((self.ptr, event))


class Block:
    live = 0

    def __init__(self, size):
        self.memory = ctypes.create_string_buffer(size + 256)
        self.ptr = (ctypes.addressof(self.memory) + 255) // 256 * 256
        self.stream = Stream.current
        Block.live += 1

    def __del__(self):
        assert Stream.current == self.stream
        Block.live -= 1


def cupy_with(csr_matrix):
    def asarray(array):
        return types.SimpleNamespace(__cuda_array_interface__=array.__cuda_array_interface__, owner=array)

    cuda = types.SimpleNamespace(ExternalStream=Stream, alloc=Block, get_current_stream=lambda: Stream(Stream.current),
                                 Device=lambda: types.SimpleNamespace(id=0))
    package = types.SimpleNamespace(csr_matrix=csr_matrix)
    scipy = types.SimpleNamespace(sparse=package)
    cupyx = types.SimpleNamespace(scipy=scipy)
    cupy = types.SimpleNamespace(asarray=asarray, cuda=cuda, __name__="cupy")
    sys.modules |= {"cupy": cupy, "cupyx": cupyx, "cupyx.scipy": scipy, "cupyx.scipy.sparse": package}


def as_in_cupy():
    """A matrix of CuPy is made by what does not read the offsets, where CuPy has that. Its memory is that of CuPy's pool."""

    class csr_matrix:
        format = "csr"

        def __init__(self, parts, shape):
            assert not hasattr(type(self), "_from_parts"), "the constructor reads the offsets"
            (self.data, self.indices, self.indptr), self.shape = parts, shape

    def from_parts(data, indices, indptr, shape):
        made = csr_matrix.__new__(csr_matrix)
        made.data, made.indices, made.indptr, made.shape = data, indices, indptr, shape
        return made

    csr_matrix.__module__ = "cupyx.scipy.sparse"
    cupy_with(csr_matrix)
    (a, of_a), (b, of_b) = matrix(12, 9, "float64", 1), matrix(9, 14, "float64", 2)
    given = from_parts(a.data, a.indices, a.indptr, a.shape)
    for _ in range(2):
        c = sparse.multiply(given, b)
        assert isinstance(c, csr_matrix) and c.has_canonical_format and c.has_sorted_indices
        compare(c, product(of_a, of_b), "float64")
        assert Block.live >= 3
        csr_matrix._from_parts = from_parts
    del c
    assert not Block.live and not Stream.log
    # Memory goes back to the pool in the stream of its allocation, after the stream that used it.
    with sparse.Multiplier(memory="cupy") as multiplier:
        multiplier.multiply(given, b, stream=9)
        multiplier.multiply(given, b, stream=10)
    assert not Block.live and set(Stream.log) == {(9, 10)}
    with sparse.Multiplier("pattern") as multiplier:
        c = multiplier.multiply(given, b, stream=9)
    assert isinstance(c, sparse.Csr) and c.data is None and read(c.indptr)[-1] == len(product(of_a, of_b))
    unsorted_of_cupy(from_parts)
    csr_matrix.__module__ = "scipy.sparse"
    refused(ValueError, "so `stream` is not for them", sparse._stream_of, given, 9)


def unsorted_of_cupy(from_parts):
    """A matrix that says that it is not canonical is sorted, and its double entries are added."""
    parts = integers([0, 3, 5]), integers([4, 1, 4, 2, 0]), values([1, 2, 3, 4, 5], "float64")
    unsorted, entries = from_parts(*parts[::-1], (2, 5)), {(0, 1): 2, (0, 4): 4, (1, 0): 5, (1, 2): 4}
    refused(ValueError, "row 0 of A has columns", sparse.multiply, unsorted, unsorted, op_b="T")
    unsorted.has_canonical_format = False
    (b, of_b), (d, of_d) = matrix(5, 6, "float64", 1), matrix(2, 6, "float64", 2)
    compare(sparse.multiply(unsorted, b), product(entries, of_b), "float64")
    compare(sparse.multiply(unsorted, unsorted, op_b="T"), product(entries, turned(entries, "T")), "float64")
    compare(sparse.triple(unsorted, compressed({(k, k): 2 for k in range(5)}, 5, 5, "float64"), b), product(entries, of_b, 2), "float64")
    with sparse.Multiplier() as multiplier:
        structure = multiplier.symbolic(unsorted, b, d)
        out = (integers([0] * 3), integers([0] * structure.stored), values([0] * structure.stored, "float64"))
        structure.multiply(unsorted, b, addend=d, out=out, check=True)
        compare(sparse.Csr(*out, (2, 6)), product(entries, of_b, 1, of_d), "float64")


def as_in_torch():
    """The pool of PyTorch holds each block by a tensor, which knows the streams that use it."""
    log = []

    class Tensor(Block):
        def data_ptr(self):
            return self.ptr

        def record_stream(self, stream):
            log.append((self.stream, stream.ptr))

        def __del__(self):
            Block.live -= 1

    cuda = types.SimpleNamespace(ExternalStream=Stream, stream=lambda stream: stream, is_initialized=lambda: True, current_device=lambda: 0)
    sys.modules["torch"] = types.SimpleNamespace(cuda=cuda, uint8=None, empty=lambda size, dtype, device: Tensor(size))
    (a, of_a), (b, of_b) = matrix(12, 9, "float64", 1), matrix(9, 14, "float64", 2)
    with sparse.Multiplier(memory="torch") as multiplier:
        for stream in (9, 10):
            compare(multiplier.multiply(a, b, stream=stream), product(of_a, of_b), "float64")
        assert Block.live
    assert not Block.live and set(log) == {(9, 10)}
    del sys.modules["torch"]


def as_in_scipy():
    """Sorted and of the class of A, if SciPy is there; a CuPy of the host copies."""
    try:
        import numpy
        import scipy.sparse
    except ImportError:
        return

    class Array:
        def __init__(self, array):
            self.array = array
            self.__cuda_array_interface__ = array.__array_interface__

    cupy = sys.modules["cupy"]
    cupy.asarray, cupy.asnumpy = (lambda array: array if isinstance(array, Array) else Array(numpy.array(_seen(array)))), (lambda array: array.array)

    def _seen(array):
        return array if isinstance(array, numpy.ndarray) else numpy.array(read(array), array.__cuda_array_interface__["typestr"])

    a = scipy.sparse.random(30, 20, 0.3, "csr", random_state=1)
    b = scipy.sparse.random(20, 25, 0.3, "csr", random_state=2)
    square = a @ b
    assert not square.has_canonical_format
    for kind in ("csr_matrix", "csr_array"):
        make = getattr(scipy.sparse, kind)
        c = sparse.multiply(make(square), make(square.T.tocsr()))
        assert type(c) is make and c.has_canonical_format
        assert abs(c - square @ square.T).max() < 1e-12
    c = sparse.multiply(square, scipy.sparse.csr_matrix(square.T.astype("float32")))
    assert c.dtype == "float64" and abs(c - square @ square.T).max() < 1e-4


for name in KINDS:
    products(name)
for name in ("float64", "float32"):
    shortest_paths(name)
sorted_rows()
memory_of_the_caller()
closed()
types_of_values()
without_a_framework()
as_in_cupy()
as_in_torch()
as_in_scipy()
print("ok sparse")
