"""Steps of data-parallel training over NCCL, a GPU for each of two processes: torchrun --nproc-per-node 2 torch_ddp.py

Rank 0 prints the losses as hexadecimal numbers, so that two runs can be compared bit for bit."""
import os

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

STEPS = int(os.environ.get("DDP_STEPS", "12"))
rank = int(os.environ["RANK"])
device = torch.device("cuda", rank)
torch.cuda.set_device(device)
torch.use_deterministic_algorithms(True)
torch.distributed.init_process_group("nccl", device_id=device)
torch.manual_seed(3)
layers = [layer for _ in range(6) for layer in (torch.nn.Linear(1024, 1024), torch.nn.LayerNorm(1024), torch.nn.GELU())]
model = DistributedDataParallel(torch.nn.Sequential(*layers).to(device), bucket_cap_mb=4)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(rank)
losses = []
for step in range(STEPS):
    batch = torch.randn(256 + 64 * (step % 3), 1024, device=device)  # sizes vary, so blocks move between free lists
    loss = (model(batch) - batch.roll(1, 1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())
total = torch.stack(losses)
torch.distributed.all_reduce(total)
if rank == 0:
    print("ok torch_ddp", *(value.hex() for value in total.tolist()))
torch.distributed.destroy_process_group()
