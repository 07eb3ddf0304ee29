"""One memory error in a real program. Argument: the error.

cupy_behind: a raw kernel writes the element behind the end of an array, which CuPy frees then. torch_behind: a raw kernel gets a
tensor's address and writes far behind it. torch_freed: the same after the tensor was freed. torch_graph: a graph is replayed whose
tensor was freed since the capture. torch_table: a gather in a table of addresses, of which one tensor was freed. cupy_reused: an array
is written after its free, when an array of the same size has natively its address, so nothing shows. torch_right: all of
these without the error."""
import sys

error = sys.argv[1]


def kernel():
    import cupy

    return cupy.RawKernel(r'extern "C" __global__ void write_at(float *to, long long at) { to[at] = 7; }', "write_at")


def launch(address, at):
    import numpy

    kernel()((1,), (1,), (numpy.uint64(address), numpy.int64(at)))


def synchronise():
    import torch

    try:
        torch.cuda.synchronize()
    except RuntimeError as failure:  # also torch.AcceleratorError
        print("failed:", str(failure).splitlines()[0])


def cupy_behind(wrong=True):
    import cupy

    cupy.cuda.set_allocator(None)
    array = cupy.zeros(1000, dtype=cupy.float32)
    kernel()((1,), (1,), (array, 1000 if wrong else 999))
    total = float(array.sum())
    del array
    print("sum", total)


def cupy_reused(wrong=True):
    import cupy

    cupy.cuda.set_allocator(None)
    array = cupy.ones(1000, dtype=cupy.float32)
    address = array.data.ptr
    if wrong:
        del array
    other = cupy.ones(1000, dtype=cupy.float32)
    launch(address, 0)
    try:
        cupy.cuda.Device().synchronize()
    except cupy.cuda.runtime.CUDARuntimeError as failure:
        print("failed:", failure)
    else:
        print("sum", float(other.sum()), "at the same address" if other.data.ptr == address else "at another address")


def torch_behind(wrong=True):
    import torch

    tensor = torch.zeros(1024, device="cuda")
    launch(tensor.data_ptr(), (1 << 20) if wrong else 1023)
    synchronise()


def torch_freed(wrong=True):
    import torch

    tensor = torch.zeros(1024, device="cuda")
    address = tensor.data_ptr()
    if wrong:
        del tensor
    launch(address, 0)
    synchronise()


def torch_graph(wrong=True):
    import torch

    tensor = torch.zeros(1024, device="cuda")
    tensor.add_(1)  # loads the kernel before the capture
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tensor.add_(1)
    graph.replay()
    synchronise()
    if wrong:
        del tensor
    graph.replay()
    synchronise()


def torch_table(wrong=True):
    import cupy
    import numpy
    import torch

    follow = cupy.RawKernel(r'extern "C" __global__ void follow(float **table, int at) { table[at][0] += 1; }', "follow")
    parts = [torch.zeros(1024, device="cuda") for _ in range(4)]
    table = torch.tensor([part.data_ptr() for part in parts], device="cuda")
    if wrong:
        parts.pop(2)
    follow((1,), (1,), (numpy.uint64(table.data_ptr()), numpy.int32(2)))
    synchronise()


if error == "torch_right":
    for make in (cupy_behind, cupy_reused, torch_behind, torch_freed, torch_graph, torch_table):
        make(wrong=False)
else:
    globals()[error]()
print("ok guarded_programs")
