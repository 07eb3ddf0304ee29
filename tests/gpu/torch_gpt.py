"""Training steps of a small transformer, then its answer word by word with a cache of keys; prints losses and words, which repeat bit by bit."""
import time

import torch
import torch.nn.functional as F

torch.manual_seed(2)
torch.use_deterministic_algorithms(True, warn_only=True)
WORDS, WIDTH, HEADS, LENGTH = 1000, 256, 8, 128


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.inputs, self.output = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.wide = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x, cache=None):
        q, k, v = (each.unflatten(-1, (HEADS, -1)).transpose(1, 2) for each in self.inputs(self.first(x)).chunk(3, -1))
        if cache is not None:
            k, v = (torch.cat([old, new], 2) for old, new in zip(cache, (k, v))) if cache else (k, v)
            cache[:] = [k, v]
        scores = q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
        if q.shape[2] > 1:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
        x = x + self.output((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        return x + self.wide(self.second(x))


words, ends = torch.nn.Embedding(WORDS, WIDTH).cuda(), torch.nn.Linear(WIDTH, WORDS).cuda()
blocks = torch.nn.ModuleList(Block() for _ in range(4)).cuda()
optimiser = torch.optim.AdamW([*words.parameters(), *ends.parameters(), *blocks.parameters()], lr=1e-3)
text = torch.randint(0, WORDS, (16, LENGTH + 1), device="cuda")
losses = []
for _ in range(60):
    x = words(text[:, :-1])
    for block in blocks:
        x = block(x)
    loss = F.cross_entropy(ends(x).flatten(0, 1), text[:, 1:].flatten())
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    losses.append(loss.detach())
    time.sleep(0.02)
answer, caches = [text[:1, :1]], [[] for _ in blocks]
with torch.no_grad():
    for _ in range(60):
        x = words(answer[-1])
        for block, cache in zip(blocks, caches):
            x = block(x, cache)
        answer.append(ends(x[:, -1:]).argmax(-1))
        time.sleep(0.01)
print("ok torch_gpt", *(loss.item().hex() for loss in losses), torch.cat(answer).flatten().tolist())
