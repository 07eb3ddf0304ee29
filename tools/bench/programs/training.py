"""Training steps of a multi-layer perceptron; prints `row repetitions min median max`, times in nanoseconds a step.

usage: training.py [--steps N] [--samples N]; PYTORCH_NO_CUDA_MEMORY_CACHING=1 and PYTORCH_CUDA_ALLOC_CONF choose the allocator.
"""
import argparse
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=20, help="a sample")
parser.add_argument("--samples", type=int, default=9)
options = parser.parse_args()
torch.manual_seed(0)
widths = [784, 1024, 1024, 512, 512, 256, 10]
layers = [part for a, b in zip(widths, widths[1:]) for part in (torch.nn.Linear(a, b), torch.nn.ReLU())][:-1]
model = torch.nn.Sequential(*layers).cuda()
optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
x, y = torch.randn(512, 784, device="cuda"), torch.randint(0, 10, (512,), device="cuda")


def step():
    optimiser.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimiser.step()
    return loss


first = step().item()
times = []
for sample in range(-1, options.samples):
    torch.cuda.synchronize()
    begin = time.perf_counter_ns()
    for _ in range(options.steps):
        loss = step()
    torch.cuda.synchronize()
    if sample >= 0:
        times.append((time.perf_counter_ns() - begin) / options.steps)
assert loss.item() < first, (loss.item(), first)
times.sort()
print(f"torch-step {options.steps} {times[0]:.1f} {times[len(times) // 2]:.1f} {times[-1]:.1f}")
