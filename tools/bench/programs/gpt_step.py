"""Training steps of a small GPT: batches come from a pinned loader and are copied on a stream of their own.

usage: gpt_step.py [--steps N] [--samples N]; prints `row repetitions min median max`, times in nanoseconds a step, and a
checksum of the weights on standard error. PYTORCH_NO_CUDA_MEMORY_CACHING=1 and PYTORCH_CUDA_ALLOC_CONF choose the allocator.
"""
import argparse
import sys
import time

import torch
from torch import nn

WORDS, WIDTH, HEADS, LAYERS, LENGTH, BATCH = 50257, 768, 12, 6, 256, 8

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=10, help="a sample")
parser.add_argument("--samples", type=int, default=7)
options = parser.parse_args()
torch.manual_seed(0)
torch.use_deterministic_algorithms(True, warn_only=True)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.queries, self.joined = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.forwards = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        parts = self.queries(self.before(x)).view(BATCH, LENGTH, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
            heads = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.joined(heads.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH))
        return x + self.forwards(self.between(x))


model = nn.Sequential(nn.Embedding(WORDS, WIDTH), *(Layer() for _ in range(LAYERS)), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)).cuda()
optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
copies = torch.cuda.Stream()
texts = torch.randint(0, WORDS, (64, LENGTH + 1), generator=torch.Generator().manual_seed(1))
loader = torch.utils.data.DataLoader(texts, batch_size=BATCH, pin_memory=True)


def batches():
    while True:
        for batch in loader:
            with torch.cuda.stream(copies):
                batch = batch.cuda(non_blocking=True)
            torch.cuda.current_stream().wait_stream(copies)
            batch.record_stream(torch.cuda.current_stream())
            yield batch


def step(batch):
    optimiser.zero_grad()
    words = model(batch[:, :-1])
    loss = nn.functional.cross_entropy(words.view(-1, WORDS), batch[:, 1:].reshape(-1))
    loss.backward()
    optimiser.step()
    return loss


source, times = batches(), []
first = step(next(source)).item()
for sample in range(-1, options.samples):
    torch.cuda.synchronize()
    begin = time.perf_counter_ns()
    for _ in range(options.steps):
        loss = step(next(source))
    torch.cuda.synchronize()
    if sample >= 0:
        times.append((time.perf_counter_ns() - begin) / options.steps)
assert loss.item() < first, (loss.item(), first)
times.sort()
print(f"gpt-step {options.steps} {times[0]:.1f} {times[len(times) // 2]:.1f} {times[-1]:.1f}")
print(f"weights {sum(part.double().sum().item() for part in model.parameters()):.17g}", file=sys.stderr)
