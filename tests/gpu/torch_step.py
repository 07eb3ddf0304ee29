"""Twenty training steps of a small network; prints the losses and the sum of all weights, which repeat bit by bit."""
import torch

torch.manual_seed(0)
torch.use_deterministic_algorithms(True, warn_only=True)
model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)).cuda()
optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(256, 512, device="cuda")
y = torch.randint(0, 10, (256,), device="cuda")
losses = []
for _ in range(20):
    optimiser.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimiser.step()
    losses.append(loss.detach())  # read at the end: nothing waits between steps
weights = sum(parameter.double().sum().item() for parameter in model.parameters())
print("ok torch_step", *(loss.item().hex() for loss in losses), weights.hex())
