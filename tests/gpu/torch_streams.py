"""Products and sums in several streams and from several threads, blocks handed from stream to stream; the result repeats bit by bit."""
import threading

import torch

torch.manual_seed(0)
torch.backends.cuda.matmul.allow_tf32 = False
SIDE, ROUNDS, STREAMS = 256, 30, 4
start = torch.randn(SIDE, SIDE, device="cuda") / 16
torch.cuda.synchronize()


def chain(number, results):
    streams = [torch.cuda.Stream() for _ in range(2)]
    value = start.clone()
    torch.cuda.current_stream().synchronize()
    for turn in range(ROUNDS):
        mine, last = streams[turn % 2], streams[(turn + 1) % 2]
        mine.wait_stream(last)
        with torch.cuda.stream(mine):
            value.record_stream(mine)
            scratch = torch.full((SIDE, SIDE * (1 + turn % 3)), 0.001 * (number + 1), device="cuda")
            value = torch.tanh(value @ start + scratch[:, :SIDE])
            del scratch
    for stream in streams:
        stream.synchronize()
    results[number] = value


results = {}
threads = [threading.Thread(target=chain, args=(number, results)) for number in range(STREAMS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("ok torch_streams", *(results[number].double().sum().item().hex() for number in range(STREAMS)))
