"""A captured CUDA graph, replayed, with allocations and frees between, in a side stream and during the capture."""
import torch

torch.manual_seed(0)
a = torch.randn(1 << 20, device="cuda")
out = torch.empty_like(a)
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    for _ in range(3):
        out.copy_(torch.sin(a) * 2 + torch.cos(a))
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=stream):
    out.copy_(torch.sin(a) * 2 + torch.cos(a))
for i in range(10):
    kept = torch.full((1 << (10 + i),), float(i), device="cuda")
    a.fill_(0.001 * i)
    graph.replay()
    del kept
torch.cuda.empty_cache()
torch.cuda.synchronize()
print(f"ok torch_graph sum {out.double().sum().item().hex()}")
