"""A training step, 60 times; with `item` the loss is read in each step, for which PyTorch pins host memory. With `deep` the network
has 12 layers of 1024 x 1024, and a step allocates more often. With `turns` each line of standard input is a number of steps, measured
when it comes. With
`plugged=RESOURCE` gpumem serves every tensor from that resource, with `pool=RESOURCE` it serves PyTorch's cache of the thread.
One line of the bench's kind for each measure."""
import contextlib
import sys
import time

import torch

memory = contextlib.nullcontext()
for how, _, resource in (word.partition("=") for word in sys.argv[1:] if "=" in word):
    from gpumem import plug

    plug.use(resource)
    allocator = plug.pytorch_allocator()
    if how == "plugged":
        torch.cuda.memory.change_current_allocator(allocator)
    else:
        torch.cuda.init()
        memory = torch.cuda.use_mem_pool(torch.cuda.MemPool(allocator.allocator()))

torch.manual_seed(0)
deep = [part for _ in range(12) for part in (torch.nn.Linear(1024, 1024), torch.nn.GELU())] if "deep" in sys.argv else []
layers = deep or [torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 10)]
model = torch.nn.Sequential(*layers).cuda()
optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
x = torch.randn(256, 1024, device="cuda")
y = torch.randint(0, 10, (256,), device="cuda")
item = "item" in sys.argv


def step():
    optimiser.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimiser.step()
    return loss.item() if item else None


def timed_step():
    torch.cuda.synchronize()
    begin = time.perf_counter_ns()
    step()
    torch.cuda.synchronize()
    return time.perf_counter_ns() - begin


with memory:
    for _ in range(20):
        step()
    for line in sys.stdin if "turns" in sys.argv else ["60"]:
        times = sorted(timed_step() for _ in range(int(line)))
        print("torch-step-item" if item else "torch-step", len(times), times[0], times[len(times) // 2], times[-1],
              f"mean={sum(times) // len(times)}", flush=True)
