"""PyTorch trains in memory of gpumem. Prints the losses, which are those of PyTorch's own allocator.

usage: torch_allocator.py [own|plugged|pool] [RESOURCE]

own: PyTorch's caching allocator. plugged (default): gpumem serves every tensor. pool: gpumem serves PyTorch's cache for what this
thread allocates, and PyTorch raises its own error when memory runs out. RESOURCE: text of the resource, as libgpumem(7) describes
it; async unless given.
"""

import contextlib
import sys

import torch

mode = sys.argv[1] if len(sys.argv) > 1 else "plugged"
memory = contextlib.nullcontext()
if mode != "own":
    from gpumem import plug

    if len(sys.argv) > 2:
        plug.use(sys.argv[2])
    allocator = plug.pytorch_allocator()
    if mode == "pool":
        torch.cuda.init()
        memory = torch.cuda.use_mem_pool(torch.cuda.MemPool(allocator.allocator()))
    else:
        torch.cuda.memory.change_current_allocator(allocator)

torch.manual_seed(0)
torch.use_deterministic_algorithms(True, warn_only=True)
with memory:
    model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)).cuda()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(256, 512, device="cuda")
    y = torch.randint(0, 10, (256,), device="cuda")
    side, losses = torch.cuda.Stream(), []
    for _ in range(20):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimiser.step()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # another stream uses a tensor that is freed at once
            losses.append(loss.detach() * 1)
        loss.record_stream(side)
        del loss
    torch.cuda.synchronize()
print("ok torch_allocator", *(loss.item().hex() for loss in losses))
