"""PyTorch multiplies sparse tensors by gpumem-spgemm, and compares with its own product.

usage: torch_spgemm.py [SIDE]

C = A A for a five-point stencil on a SIDE x SIDE grid (300 unless given), and C = A B for random matrices: cold, warm, of the same
structure, and into a tensor. The library is found by the loader, or named by GPUMEM_SPGEMM. Skips (77) without PyTorch or a GPU.
"""

import ctypes
import os
import sys

SAME_STRUCTURE = 1


class Csr(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("rows", ctypes.c_int64), ("columns", ctypes.c_int64),
                ("stored", ctypes.c_int64), ("offsets", ctypes.c_void_p), ("indices", ctypes.c_void_p),
                ("values", ctypes.c_void_p)]  # fmt: skip


class Output(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("offsets", ctypes.c_void_p), ("indices", ctypes.c_void_p),
                ("values", ctypes.c_void_p), ("capacity", ctypes.c_int64), ("regions", ctypes.c_void_p * 3)]  # fmt: skip


class Result(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("rows", ctypes.c_int64), ("columns", ctypes.c_int64),
                ("stored", ctypes.c_int64), ("offsets", ctypes.c_void_p), ("indices", ctypes.c_void_p),
                ("values", ctypes.c_void_p), ("products", ctypes.c_int64), ("peak", ctypes.c_size_t)]  # fmt: skip


class Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("limit", ctypes.c_size_t), ("precision", ctypes.c_uint64)]


class Array:
    """Device memory as CUDA array interface, which torch.as_tensor() takes without a copy."""

    def __init__(self, address, count, kind):
        self.__cuda_array_interface__ = {"shape": (count,), "typestr": kind, "data": (address or 0, False), "version": 3}


class Multiplier:
    """C = A B for sparse CSR tensors with 32-bit indices. A result lies in the multiplier's memory until its next call."""

    def __init__(self, library, dtype):
        self.library, self.dtype, self.handle = library, dtype, ctypes.c_void_p()
        options = Options(ctypes.sizeof(Options), 0, dtype == torch.float32)
        self.check(library.gpumem_spgemm_create(ctypes.byref(options), ctypes.byref(self.handle)))

    def check(self, status):
        if status:
            raise RuntimeError(self.library.gpumem_spgemm_last_error().decode())

    def close(self):
        self.library.gpumem_spgemm_destroy(self.handle)
        self.handle = None

    def operand(self, m):
        assert m.layout == torch.sparse_csr and m.crow_indices().dtype == torch.int32 and m.dtype == self.dtype
        return Csr(ctypes.sizeof(Csr), *m.shape, m.values().numel(), m.crow_indices().data_ptr(), m.col_indices().data_ptr(),
                   m.values().data_ptr())  # fmt: skip

    def multiply(self, a, b, flags=0, output=None):
        c = Result(ctypes.sizeof(Result))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.check(self.library.gpumem_spgemm_multiply(
            self.handle, ctypes.byref(self.operand(a)), ctypes.byref(self.operand(b)),
            ctypes.byref(output) if output else None, ctypes.c_uint64(flags), stream, ctypes.byref(c)))  # fmt: skip
        kind = "<f4" if self.dtype == torch.float32 else "<f8"
        parts = (Array(c.offsets, c.rows + 1, "<i4"), Array(c.indices, c.stored, "<i4"), Array(c.values, c.stored, kind))
        tensors = [torch.as_tensor(part, device="cuda") for part in parts]
        return torch.sparse_csr_tensor(*tensors, size=(c.rows, c.columns), check_invariants=False)


def values(count, dtype):
    return torch.rand(count, device="cuda", dtype=dtype) + 0.5


def stencil(side, dtype):
    """Rows of a five-point stencil on a square grid."""
    points = torch.arange(side * side, device="cuda", dtype=torch.int64).view(side, side)
    pairs = [(points, points), (points[1:], points[:-1]), (points[:-1], points[1:]), (points[:, 1:], points[:, :-1]),
             (points[:, :-1], points[:, 1:])]  # fmt: skip
    at = torch.stack([torch.cat([p[i].reshape(-1) for p in pairs]) for i in (0, 1)])
    return compressed(at, values(at.shape[1], dtype), (side * side, side * side))


def random(rows, columns, each, dtype):
    at = torch.stack([torch.arange(rows, device="cuda").repeat_interleave(each),
                      torch.randint(0, columns, (rows * each,), device="cuda")])  # fmt: skip
    return compressed(at, values(rows * each, dtype), (rows, columns))


def compressed(at, numbers, size):
    """CSR with 32-bit indices, ascending and unique in each row."""
    m = torch.sparse_coo_tensor(at, numbers, size).coalesce().to_sparse_csr()
    return torch.sparse_csr_tensor(m.crow_indices().int(), m.col_indices().int(), m.values(), size=size)


def listed(m):
    """The tensor as coordinates, which PyTorch multiplies with 64-bit indices."""
    rows = torch.repeat_interleave(torch.arange(m.shape[0], device="cuda"), m.crow_indices().long().diff())
    return torch.sparse_coo_tensor(torch.stack([rows, m.col_indices().long()]), m.values(), m.shape).coalesce()


def compare(name, c, a, b):
    wanted, found = torch.sparse.mm(listed(a), listed(b)).coalesce(), listed(c)
    assert found.shape == wanted.shape and torch.equal(found.indices(), wanted.indices()), f"{name}: other positions"
    tolerance = 1e-5 if c.dtype == torch.float32 else 1e-13
    worst = ((found.values() - wanted.values()).abs() / wanted.values().abs()).max().item() if wanted.values().numel() else 0
    assert worst <= tolerance, f"{name}: relative difference {worst:.3g}"
    print(f"{name}: {found.values().numel()} entries, relative difference {worst:.2g}")


def multiply_all(library, side, dtype):
    multiplier = Multiplier(library, dtype)
    a = stencil(side, dtype)
    compare("cold", multiplier.multiply(a, a), a, a)
    compare("warm", multiplier.multiply(a, a), a, a)
    b = torch.sparse_csr_tensor(a.crow_indices(), a.col_indices(), values(a.values().numel(), dtype), size=a.shape)
    c = multiplier.multiply(a, b, SAME_STRUCTURE)
    compare("same structure", c, a, b)
    # Into tensors, in another stream.
    parts = [torch.empty(side * side + 1, dtype=torch.int32, device="cuda"),
             torch.empty(c.values().numel(), dtype=torch.int32, device="cuda"),
             torch.empty(c.values().numel(), dtype=dtype, device="cuda")]  # fmt: skip
    output = Output(ctypes.sizeof(Output), *(part.data_ptr() for part in parts), parts[2].numel())
    side_stream = torch.cuda.Stream()
    side_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side_stream):
        compare("into tensors", multiplier.multiply(b, a, output=output), b, a)
    torch.cuda.synchronize()
    p, q = random(5000, 3000, 7, dtype), random(3000, 4000, 9, dtype)
    compare("rectangular", multiplier.multiply(p, q), p, q)
    multiplier.check(library.gpumem_spgemm_trim(multiplier.handle))
    compare("after a trim", multiplier.multiply(p, q), p, q)
    try:
        multiplier.multiply(p, p)
    except RuntimeError as error:
        assert "A has 3000 columns and B has 5000 rows" in str(error), error
    else:
        raise AssertionError("a product that does not fit was computed")
    multiplier.close()


try:
    import torch
except ImportError:
    print("torch_spgemm: no PyTorch")
    sys.exit(77)
if not torch.cuda.is_available():
    print("torch_spgemm: no GPU")
    sys.exit(77)
spgemm = ctypes.CDLL(os.environ.get("GPUMEM_SPGEMM", "libgpumem-spgemm.so.0"))
spgemm.gpumem_spgemm_last_error.restype = ctypes.c_char_p
spgemm.gpumem_spgemm_destroy.restype = None
torch.manual_seed(0)
torch.zeros(1, device="cuda")  # the context must be current
for value_type in (torch.float64, torch.float32):
    multiply_all(spgemm, int(sys.argv[1]) if len(sys.argv) > 1 else 300, value_type)
print("ok torch_spgemm")
