"""Tensors of PyTorch that are paused and resumed through the interface of torch_memory_saver, and a process that is asleep for a while."""
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "python"))
import gpumem  # noqa: E402
from gpumem.torch_memory_saver import torch_memory_saver  # noqa: E402

# Sums of 64-bit integers need no copy of the tensor.
SIZE, OTHERS = 1 << 30, 256 << 20


def free():
    return torch.cuda.mem_get_info()[0]


def must_be_free(least):
    """But for what the copies, the sums and the graph take."""
    assert free() >= least - OTHERS, f"{(least - free()) >> 20} MiB are missing"


torch.cuda.init()
graph, result = torch.cuda.CUDAGraph(), torch.zeros((), dtype=torch.float64, device="cuda")
with torch_memory_saver.region(tag="weights", enable_cpu_backup=True):
    weights = torch.arange(SIZE // 8, dtype=torch.int64, device="cuda")
with torch_memory_saver.region(tag="kv"):
    cache = torch.full((SIZE // 8,), 3, dtype=torch.int64, device="cuda")
others = torch.full((SIZE // 8,), 5, dtype=torch.int64, device="cuda")
sums = [each.sum().item() for each in (weights, others)]
small = weights[: 1 << 20]
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    result.copy_(small.sum(dtype=torch.float64))
side.synchronize()
with torch.cuda.graph(graph):
    result.copy_(small.sum(dtype=torch.float64))
full = free()
torch_memory_saver.pause("kv")
must_be_free(full + SIZE)
assert others.sum().item() == sums[1]
torch_memory_saver.pause("weights")
must_be_free(full + 2 * SIZE)
assert others.sum().item() == sums[1]
torch_memory_saver.resume()
assert free() <= full and [weights.sum().item(), cache.sum().item()] == [sums[0], 0]
graph.replay()
assert result.item() == float(sum(range(1 << 20)))
with gpumem.asleep():
    assert gpumem.suspended()
    must_be_free(full + 3 * SIZE)
assert [each.sum().item() for each in (weights, others)] == sums
print("ok torch_pause")
