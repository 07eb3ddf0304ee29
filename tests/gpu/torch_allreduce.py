"""An all-reduce over NCCL between two processes with a GPU each: torchrun --nproc-per-node 2 torch_allreduce.py"""
import os

import torch
import torch.distributed

rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", rank))
for i in range(5):
    x = torch.full((1 << 20,), float(rank + 1 + i), device="cuda")
    torch.distributed.all_reduce(x)
torch.cuda.synchronize()
if rank == 0:
    print(f"ok torch_allreduce sum {x.double().sum().item():.1f}")
torch.distributed.destroy_process_group()
