#!/usr/bin/env python3
"""gpumem.sparse on a card: CuPy, PyTorch and SciPy in and out, against their own products; captures, streams and memory of a pool.

usage: sparse_door.py

Prints one line for each case, "ok NAME" or "FAILED NAME WHY", and times of the framework's own product beside ours. Exits with 77
where PyTorch, CuPy or a GPU is missing.
"""

import ctypes
import sys
import time
import traceback

try:
    import cupy
    import cupyx.scipy.sparse as cusparse
    import numpy
    import torch

    if not torch.cuda.is_available():
        raise ImportError("no GPU")
except ImportError as error:
    print(f"sparse_door: {error}")
    sys.exit(77)

from gpumem import sparse

TOLERANCE = {"float32": 2e-4, "float64": 1e-12, "complex64": 2e-4, "complex128": 1e-12}
failed = False


def case(name):
    def run(function):
        global failed
        try:
            said = function()
            cupy.cuda.Device().synchronize()
            print(f"ok {name} {said or ''}".rstrip(), flush=True)
        except Exception as error:
            failed = True
            print(f"FAILED {name} {type(error).__name__} {error} {traceback.extract_tb(error.__traceback__)[-1]}", flush=True)
        return function

    return run


def random(rows, columns, each, dtype, seed):
    """A matrix of CuPy, sorted, with about `each` entries in a row."""
    chance = cupy.random.RandomState(seed)
    count = rows * each
    row, column = cupy.repeat(cupy.arange(rows), each), chance.randint(0, columns, count)
    values = chance.rand(count) - 0.3
    if "complex" in dtype:
        values = values + 1j * (chance.rand(count) - 0.5)
    made = cusparse.coo_matrix((values.astype(dtype), (row, column)), shape=(rows, columns)).tocsr()
    made.sum_duplicates()
    return made


def same(found, wanted, dtype):
    wanted.sum_duplicates()
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    assert int(found.indptr[-1]) >= int(wanted.indptr[-1]) and (cupy.diff(found.indptr) >= 0).all()
    worst = abs(found - wanted).max() if found.nnz or wanted.nnz else 0
    scale = max(1.0, float(abs(wanted).max()) if wanted.nnz else 1.0)
    assert worst <= TOLERANCE[dtype] * scale, f"off by {worst}"
    if found.nnz == wanted.nnz:
        assert (found.indptr == wanted.indptr).all() and (found.indices == wanted.indices).all(), "other positions"


def all_products(dtype):
    a, b, d = random(3000, 2000, 9, dtype, 1), random(2000, 2500, 11, dtype, 2), random(3000, 2500, 3, dtype, 3)
    same(sparse.multiply(a, b, check=True), a @ b, dtype)
    same(sparse.multiply(a, b, alpha=2, addend=d, beta=-1.5), 2 * (a @ b) - 1.5 * d, dtype)
    same(sparse.multiply(a, a, op_a="H"), a.conj().T.tocsr() @ a, dtype)
    same(sparse.multiply(b, b, op_b="T"), b @ b.T.tocsr(), dtype)
    square, p = random(2000, 2000, 7, dtype, 4), random(2000, 300, 2, dtype, 5)
    same(sparse.triple(None, square, p), p.conj().T.tocsr() @ (square @ p), dtype)
    thin, hub = random(2000, 64, 30, dtype, 6), random(3000, 2000, 9, dtype, 7)
    same(sparse.multiply(hub, thin), hub @ thin, dtype)
    long = random(40, 2000, 1500, dtype, 8)
    same(sparse.multiply(long, thin), long @ thin, dtype)
    same(sparse.multiply(long, random(2000, 200000, 40, dtype, 9)), long @ random(2000, 200000, 40, dtype, 9), dtype)
    with sparse.Multiplier(dtype) as multiplier:
        structure = multiplier.symbolic(a, b, d)
        same(structure.multiply(a, b, addend=d, beta=3, check=True), a @ b + 3 * d, dtype)
        unsorted = cusparse.csr_matrix((a.data[::-1].copy(), a.indices[::-1].copy(), (a.indptr[-1] - a.indptr[::-1]).copy()), shape=a.shape)
        same(multiplier.sort(unsorted), cusparse.csr_matrix(unsorted.tocoo()), dtype)


for kind in TOLERANCE:
    case(f"CuPy {kind}")(lambda kind=kind: all_products(kind))


@case("min-plus")
def shortest_paths():
    """Against dense minima, if the library has the semiring."""
    for dtype in ("float64", "float32"):
        for rows, inner, columns, each in ((300, 200, 250, 9), (300, 200, 900, 6), (3, 150, 20000, 90)):
            a, b = random(rows, inner, each, dtype, 1), random(inner, columns, each, dtype, 2)
            try:
                c = sparse.multiply(a, b, semiring="min-plus")
            except ValueError as error:
                assert "-Dsemirings=enabled" in str(error), error
                return "not in this library"
            paths = cupy.full((rows, columns), cupy.inf, dtype)
            for k in range(inner):
                to, on = ((m.indices[m.indptr[k] : m.indptr[k + 1]], m.data[m.indptr[k] : m.indptr[k + 1]]) for m in (a.T.tocsr(), b))
                places = cupy.ix_(to[0], on[0])
                paths[places] = cupy.minimum(paths[places], to[1][:, None] + on[1][None, :])
            found = cupy.full((rows, columns), cupy.inf, dtype)
            found[cupy.repeat(cupy.arange(rows), [int(n) for n in cupy.diff(c.indptr)]), c.indices] = c.data
            assert (cupy.isinf(found) == cupy.isinf(paths)).all() and c.nnz == int((~cupy.isinf(paths)).sum()), "other positions"
            assert (found == paths).all(), "other lengths"


def tensor(m):
    return torch.sparse_csr_tensor(torch.as_tensor(m.indptr), torch.as_tensor(m.indices), torch.as_tensor(m.data), size=m.shape)


@case("PyTorch and SciPy")
def frameworks():
    import scipy.sparse

    a, b = random(3000, 2000, 9, "float64", 1), random(2000, 2500, 11, "float64", 2)
    c = sparse.multiply(tensor(a), tensor(b))
    same(cusparse.csr_matrix((cupy.asarray(c.values()), cupy.asarray(c.col_indices()), cupy.asarray(c.crow_indices())), shape=c.shape), a @ b, "float64")
    on_host = sparse.multiply(a.get(), b.get())
    assert isinstance(on_host, scipy.sparse.csr_matrix) and abs(on_host - a.get() @ b.get()).max() < 1e-12
    x = sparse.multiply(sparse.Csr(*(torch.as_tensor(part) for part in (a.indptr, a.indices, a.data)), a.shape), sparse.Csr(b.indptr, b.indices, b.data, b.shape),
                        stream=torch.cuda.current_stream().cuda_stream)
    assert x.shape == (3000, 2500)


@case("captured")
def captured():
    for each, columns in ((9, 2500), (30, 64), (6, 2500)):
        a, b = random(3000, 2000, each if each != 6 else 5, "float64", 1), random(2000, columns, 11, "float64", 2)
        at, bt = tensor(a), tensor(b)
        with sparse.Multiplier() as multiplier:
            structure = multiplier.symbolic(at, bt)
            out = sparse._arrays("torch", a.shape[0] + 1, structure.stored, 0)
            structure.multiply(at, bt, out=out)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                structure.multiply(at, bt, out=out)
            for factor in (2.0, -0.5):
                at.values().mul_(factor)
                a.data *= factor if at.values().data_ptr() != a.data.data.ptr else 1
                out[2].fill_(float("nan"))
                graph.replay()
                torch.cuda.synchronize()
                same(cusparse.csr_matrix((cupy.asarray(out[2]), cupy.asarray(out[1]), cupy.asarray(out[0])), shape=(3000, columns)), a @ b, "float64")


BUSY = 200  # ms


def beside_busy(call):
    """The time of a call beside a kernel in the legacy stream, after a call that loads its kernels."""
    call()
    torch.cuda.synchronize()
    torch.cuda._sleep(BUSY * 2_000_000)
    begin = time.perf_counter()
    call()
    took = (time.perf_counter() - begin) * 1e3
    torch.cuda.synchronize()
    return took


@case("streams overlap")
def streams():
    """Two multipliers in two streams take less time than one after the other; the legacy stream does not hold them up."""
    a = random(20000, 20000, 4, "float64", 1)
    multipliers, cuda_streams = [sparse.Multiplier() for _ in range(2)], [torch.cuda.Stream() for _ in range(2)]
    structures = [m.symbolic(a, a) for m in multipliers]
    outs = [sparse._arrays("torch", 20001, s.stored, 0) for s in structures]
    torch.cuda.synchronize()

    def both(apart):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(30):
            for i in range(2):
                structures[i].multiply(a, a, out=outs[i], stream=cuda_streams[i if apart else 0].cuda_stream, multiplier=multipliers[i])
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) * 1e3 / 30

    together, apart = min(both(False) for _ in range(3)), min(both(True) for _ in range(3))
    # A long kernel in the legacy stream. A numeric call in another stream does not wait for it, nor does the matrix that is returned.
    said = [f"one stream {together:.3f} ms, two streams {apart:.3f} ms"]
    for name, m in (("Csr", sparse.Csr(a.indptr, a.indices, a.data, a.shape)), ("CuPy", a)):

        def numeric(m=m):
            structures[0].multiply(m, m, out=outs[0], stream=cuda_streams[0].cuda_stream)
            cuda_streams[0].synchronize()

        waited = beside_busy(numeric)
        assert waited < BUSY / 4, f"a numeric call of {name} took {waited} ms beside a legacy stream that is busy for {BUSY} ms"
        said.append(f"numeric {name} {waited:.2f} ms beside a busy legacy stream")
    # A symbolic call allocates, so it may wait for the device. Structures are kept: their end frees memory.
    kept = []
    counted = beside_busy(lambda: kept.append(multipliers[1].symbolic(a, a, stream=cuda_streams[1].cuda_stream)))
    return "; ".join([*said, f"symbolic {counted:.2f} ms"])


@case("memory of CuPy's pool")
def pool():
    held = {}

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    def allocate(_, size, stream):
        with cupy.cuda.ExternalStream(stream or 0):
            memory = cupy.get_default_memory_pool().malloc(size)
        held[memory.ptr] = memory
        return memory.ptr

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    def free(_, memory, size, stream):
        del held[memory]

    library, handle = sparse._library, ctypes.c_void_p()
    options = sparse._Options(ctypes.sizeof(sparse._Options), 0, 0, ctypes.cast(allocate, ctypes.c_void_p), ctypes.cast(free, ctypes.c_void_p))
    sparse._check(library.gpumem_spgemm_create(ctypes.byref(options), ctypes.byref(handle)))
    a = random(30000, 30000, 12, "float64", 1)
    operand, c = sparse.Csr(a.indptr, a.indices, a.data, a.shape).argument(0), sparse._Result(ctypes.sizeof(sparse._Result))
    for _ in range(2):
        sparse._check(library.gpumem_spgemm_multiply(handle, ctypes.byref(operand), ctypes.byref(operand), None, ctypes.c_uint64(0), None, ctypes.byref(c)))
    assert len(held) >= 3
    wanted = a @ a
    assert c.stored == wanted.nnz
    library.gpumem_spgemm_destroy(handle)
    assert not held, f"{len(held)} blocks are left"


@case("pools that hold the card")
def full_card():
    """With the pool of the framework holding the card, a product takes its memory there."""
    a = random(20000, 20000, 8, "float64", 1)
    at, wanted = tensor(a), a @ a
    wanted.sum_duplicates()
    for framework in ("torch", "cupy"):
        torch.cuda.empty_cache()
        cupy.get_default_memory_pool().free_all_blocks()
        free = torch.cuda.mem_get_info()[0] - (256 << 20)
        held = torch.empty(free, dtype=torch.uint8, device="cuda") if framework == "torch" else cupy.cuda.alloc(free)
        del held
        c = sparse.multiply(at, at) if framework == "torch" else sparse.multiply(a, a)
        torch.cuda.synchronize()
        assert (c._nnz() if framework == "torch" else c.nnz) == wanted.nnz
        if framework == "cupy":
            same(c, wanted, "float64")
    torch.cuda.empty_cache()
    cupy.get_default_memory_pool().free_all_blocks()


@case("unsorted and doubled")
def not_canonical():
    """Copies that are sorted, where CuPy and SciPy say that a matrix is not canonical; a refusal elsewhere; csr_array and mixed types."""
    import scipy.sparse

    a, b = random(3000, 2000, 9, "float64", 1), random(2000, 2500, 11, "float64", 2)
    parts = (cupy.concatenate([a.data, a.data])[::-1].copy(), cupy.concatenate([a.indices, a.indices])[::-1].copy())
    rows = cupy.concatenate([cupy.repeat(cupy.arange(3000), [int(n) for n in cupy.diff(a.indptr)])] * 2)[::-1]
    order = cupy.argsort(rows, kind="stable")
    offsets = (2 * a.indptr).astype("int32")
    double = cusparse.csr_matrix((parts[0][order], parts[1][order], offsets), shape=a.shape)
    assert not double.has_canonical_format
    same(sparse.multiply(double, b), 2 * (a @ b), "float64")
    for make in (scipy.sparse.csr_matrix, scipy.sparse.csr_array):
        left, right = make(double.get()), make(b.get())
        c = sparse.multiply(left, right)
        assert type(c) is make and abs(c - 2 * (a @ b).get()).max() < 1e-12
        square = left.T.tocsr() @ left
        assert abs(sparse.multiply(square, make(square.astype("float32"))) - square @ square).max() < 1e-3 * abs(square @ square).max()
    try:
        sparse.multiply(tensor(double), tensor(b))
    except ValueError as error:
        assert "unsorted or doubled" in str(error)
    else:
        raise AssertionError("an unsorted tensor was multiplied")


@case("wrong matrices")
def wrong():
    """No kernel leaves its arrays, whatever the matrices hold: the card still works after each."""
    chance, shapes = cupy.random.RandomState(7), ((3000, 2000, 1000, 5), (500, 2000, 100000, 40), (500, 400, 300, 40), (4, 3000, 10**6, 900), (4, 3000, 10**9, 900))
    calls = 0
    for rows, inner, columns, each in shapes:
        for kind in range(5):
            matrices = []
            for height, width in ((rows, inner), (inner, columns)):
                offsets = cupy.arange(height + 1, dtype="int32") * each
                indices = chance.randint(0, width, height * each).astype("int32")  # neither sorted nor unique
                spoiled = chance.rand(len(indices)) < 0.1
                if kind == 1:
                    indices[spoiled] = -1 - indices[spoiled]
                elif kind == 2:
                    indices[spoiled] = 2**31 - 1 - indices[spoiled]
                elif kind >= 3:
                    at = chance.rand(len(offsets)) < 0.1
                    offsets[at] = chance.randint(-(2**31) if kind == 3 else 0, 2**31 - 1 if kind == 3 else height * each, int(at.sum())).astype("int32")
                matrices.append(sparse.Csr(offsets, indices, chance.rand(len(indices)), (height, width)))
            with sparse.Multiplier(memory="cupy" if kind % 2 else None, limit=30 << 30) as multiplier:
                for _ in range(2):
                    try:
                        multiplier.multiply(*matrices, check=False)
                    except (ValueError, MemoryError) as error:
                        assert "illegal" not in str(error) and "launch" not in str(error), error
                    calls += 1
            cupy.cuda.Device().synchronize()
    return f"{calls} products"


def timed(function, runs=7):
    function()
    times = []
    for _ in range(runs):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        function()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) * 1e3)
    return sorted(times)[len(times) // 2]


@case("times")
def times():
    a, thin = random(200000, 200000, 12, "float64", 1), random(200000, 64, 20, "float64", 2)
    said = []
    for name, one, other in (("A A", a, a), ("A times 64 columns", a, thin)):
        at, bt = tensor(one), tensor(other)
        with sparse.Multiplier() as multiplier:
            structure = multiplier.symbolic(one, other)
            said.append(f"{name}: ours {timed(lambda: multiplier.multiply(one, other)):.2f} ms, structure {timed(lambda: structure.multiply(one, other)):.2f}, "
                        f"CuPy {timed(lambda: one @ other):.2f}, PyTorch {timed(lambda: at @ bt):.2f}")
    return "; ".join(said)


assert numpy.__version__
sys.exit(1 if failed else 0)
