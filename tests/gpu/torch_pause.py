"""Tensors of PyTorch that are paused and resumed through the interface of torch_memory_saver, and a process that is asleep for a while."""
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "python"))
import gpumem  # noqa: E402
from gpumem.torch_memory_saver import torch_memory_saver  # noqa: E402

SIZE, OTHERS = 1 << 30, 64 << 20  # what sums and the graph take meanwhile


def free():
    return torch.cuda.mem_get_info()[0]


torch.cuda.init()
graph, result = torch.cuda.CUDAGraph(), torch.zeros((), dtype=torch.float64, device="cuda")
with torch_memory_saver.region(tag="weights", enable_cpu_backup=True):
    weights = torch.arange(SIZE // 4, dtype=torch.int32, device="cuda")
with torch_memory_saver.region(tag="kv"):
    cache = torch.full((SIZE // 4,), 3, dtype=torch.int32, device="cuda")
others = torch.full((SIZE // 4,), 5, dtype=torch.int32, device="cuda")
sums = [each.sum(dtype=torch.int64).item() for each in (weights, others)]
small = weights[: 1 << 20]
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    result.copy_(small.sum(dtype=torch.float64))
side.synchronize()
with torch.cuda.graph(graph):
    result.copy_(small.sum(dtype=torch.float64))
full = free()
torch_memory_saver.pause("kv")
assert free() >= full + SIZE - OTHERS and others.sum(dtype=torch.int64).item() == sums[1]
torch_memory_saver.pause("weights")
assert free() >= full + 2 * SIZE - OTHERS and others.sum(dtype=torch.int64).item() == sums[1]
torch_memory_saver.resume()
assert free() <= full and [weights.sum(dtype=torch.int64).item(), cache.sum().item()] == [sums[0], 0]
graph.replay()
assert result.item() == float(sum(range(1 << 20)))
with gpumem.asleep():
    assert gpumem.suspended() and free() >= full + 3 * SIZE - OTHERS
assert [each.sum(dtype=torch.int64).item() for each in (weights, others)] == sums
print("ok torch_pause")
