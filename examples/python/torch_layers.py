"""A model whose weights do not fit its share of the card: gpumem.residency against managed memory and PyTorch's own offloading.

usage: torch_layers.py [--layers 16] [--budget 12] [--size 4096] [--batch 2048] [--passes 20] [--picture FILE.svg]

Each pass multiplies the input by the weights of all layers in their order. `budget` layers may be on the card at one time. Prints for
each way the milliseconds of a pass (the first is not counted), the layers that were transferred, and whether the result is that of
weights that all lie on the card. --picture draws when each layer was transferred and used in one pass.

    resident    all weights on the card: what no way can beat
    offload     PyTorch's own: each layer is copied to the card for its use (pinned, non-blocking), and dropped
    managed     cudaMallocManaged: the next layer is prefetched to the card, and the one used longest ago to the host, so that this way
                holds `budget` layers, too (the card itself is never filled)
    lru         gpumem.residency, told nothing
    announced   gpumem.residency, told the layers of this pass and the next
    prefetched  as well, and the next layer is on its way while one works
"""

import argparse
import ctypes
import json
import sys
import time

import torch

from gpumem.residency import Residency


DRIVER = ctypes.CDLL("libcuda.so.1")


class Managed:
    """A tensor in managed memory: for torch.as_tensor()."""

    def __init__(self, runtime, like):
        self.runtime, self.size = runtime, like.numel() * like.element_size()
        self.address = ctypes.c_void_p()
        if runtime.cudaMallocManaged(ctypes.byref(self.address), ctypes.c_size_t(self.size), 1):
            raise MemoryError(f"{self.size} bytes of managed memory")
        ctypes.memmove(self.address, like.data_ptr(), self.size)
        self.__cuda_array_interface__ = {"shape": (self.size,), "typestr": "|u1", "data": (self.address.value, False), "version": 3}
        self.tensor = torch.as_tensor(self, device="cuda").view(like.dtype).view(like.shape)

    def prefetch(self, device, stream):
        place = torch.cuda.current_device() if device else -1
        DRIVER.cuMemPrefetchAsync(ctypes.c_uint64(self.address.value), ctypes.c_size_t(self.size), place, ctypes.c_void_p(stream.cuda_stream))


def resident(options, weights):
    on_card = [weight.cuda() for weight in weights]

    def run(x):
        for weight in on_card:
            x = x @ weight
        return x

    return run, lambda: 0


def offload(options, weights):
    count = [0]

    def run(x):
        for weight in weights:
            x = x @ weight.to("cuda", non_blocking=True)
            count[0] += 1
        return x

    return run, lambda: count[0]


def managed(options, weights):
    names = ("libcudart.so.13", "libcudart.so.12", "libcudart.so")
    runtime = next(found for found in map(opened, names) if found)
    layers, copies, count = [Managed(runtime, weight) for weight in weights], torch.cuda.Stream(), [0]

    def run(x):
        for at, layer in enumerate(layers):
            x = x @ layer.tensor
            copies.wait_stream(torch.cuda.current_stream())  # the layer that leaves is not in use any more
            layers[(at + 1 - options.budget) % len(layers)].prefetch(False, copies)
            layers[(at + 1) % len(layers)].prefetch(True, copies)
            torch.cuda.current_stream().wait_stream(copies)
            count[0] += 1
        return x

    return run, lambda: count[0]


def opened(name):
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


def of_residency(announces, prefetches):
    def made(options, weights):
        copies = Residency(budget=options.budget * weights[0].numel() * weights[0].element_size())
        layers = [copies.register(weight) for weight in weights]

        def run(x):
            stream = torch.cuda.current_stream().cuda_stream
            if announces:
                copies.announce(layers + layers)
            for at, layer in enumerate(layers):
                with copies.use(layer, stream=stream) as (copy,):
                    if prefetches:
                        copies.prefetch([layers[(at + 1) % len(layers)]])
                    x = x @ copy.torch()
            return x

        return run, lambda: copies.stats()["transfers_to_device"]

    return made


WAYS = {"resident": resident, "offload": offload, "managed": managed, "lru": of_residency(False, False),
        "announced": of_residency(True, False), "prefetched": of_residency(True, True)}


def measure(name, options, weights, x, expected):
    run, transfers = WAYS[name](options, weights)
    first = run(x)
    torch.cuda.synchronize()
    wrong = 0 if expected is None else int((first != expected).sum())
    before, begin = transfers(), time.perf_counter()
    for _ in range(options.passes):
        run(x)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    row = {"way": name, "ms_per_pass": round(1e3 * seconds / options.passes, 3), "transfers": transfers() - before, "wrong": wrong}
    print(json.dumps(row), flush=True)
    return first, row


def picture(options, weights, x, path):
    """When each layer was on its way and at work in one pass, from PyTorch's profiler."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    run, _ = WAYS["prefetched"](options, weights)
    run(x)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run(x)
        torch.cuda.synchronize()
    events = [event for event in profile.events() if str(event.device_type).endswith("CUDA")]
    begin = min(event.time_range.start for event in events)
    figure, axes = pyplot.subplots(figsize=(8, 2))
    for event in events:
        copies = "memcpy" in event.name.lower()
        axes.broken_barh([((event.time_range.start - begin) / 1e3, (event.time_range.end - event.time_range.start) / 1e3)],
                         (0 if copies else 1, 0.8), color="tab:orange" if copies else "tab:blue")
    axes.set_yticks([0.4, 1.4], ["transfers", "work"])
    axes.set_xlabel("ms")
    figure.tight_layout()
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("layers", 16), ("budget", 12), ("size", 4096), ("batch", 2048), ("passes", 20)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--picture")
    options = parser.parse_args()
    torch.manual_seed(1)
    torch.cuda.init()
    # Powers of two and few bits: every order of additions gives the same numbers.
    weights = [torch.eye(options.size).roll(layer, 0).pin_memory() for layer in range(options.layers)]
    x = torch.randint(0, 16, (options.batch, options.size), device="cuda").float()
    expected, rows = None, []
    for name in WAYS:
        result, row = measure(name, options, weights, x, expected)
        expected = result if expected is None else expected
        rows.append(row)
    if options.picture:
        picture(options, weights, x, options.picture)
    wrong = sum(row["wrong"] for row in rows)
    print("ok torch_layers", wrong, "wrong")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
