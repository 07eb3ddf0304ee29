"""The interface of the package torch_memory_saver, for programs that use it and run under `gpumem run --suspend=on`.

    from gpumem.torch_memory_saver import torch_memory_saver

    with torch_memory_saver.region(tag="weights", enable_cpu_backup=True):
        model = load()
    torch_memory_saver.pause("weights")
    torch_memory_saver.resume("weights")

Tensors of a region keep their addresses. Those without a backup are zero after resume(). Between both calls the program must not use them;
the rest of the program goes on. What a CUDA graph allocates while it is captured stays on the device, and so do blocks of up to 1 MiB.
"""

import contextlib

import gpumem


class TorchMemorySaver:
    """pause() and resume() move the memory of regions; each pair of tag and backup has a memory pool of PyTorch."""

    enabled = True

    def __init__(self):
        self._pools, self._numbers = {}, {}

    @contextlib.contextmanager
    def region(self, tag="default", enable_cpu_backup=False):
        """Tensors that are made in the body belong to the tag. Regions may be nested: the inner one counts."""
        import torch

        key = self._tag(tag, enable_cpu_backup)
        if key not in self._pools:
            self._pools[key] = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(self._pools[key]), gpumem.tag(key):
            yield

    @contextlib.contextmanager
    def disable(self):
        """Tensors that are made in the body belong to no region."""
        import torch

        with torch.cuda.use_mem_pool(torch.cuda.MemPool()), gpumem.tag(""):
            yield

    @contextlib.contextmanager
    def cuda_graph(self, cuda_graph, pool=None, stream=None, capture_error_mode="global", tag="default", enable_cpu_backup=False):
        """torch.cuda.graph(): the graph works with paused and resumed tensors; its own memory stays on the device."""
        import torch

        with torch.cuda.graph(cuda_graph, pool=pool, stream=stream, capture_error_mode=capture_error_mode):
            yield

    def pause(self, tag=None):
        """Gives the memory of a tag, or of all, back to the device. Waits for the work in flight. Errors: those of gpumem.suspend()."""
        gpumem.suspend(only=self._glob(tag, "?"), drop=self._glob(tag, "d"), aside=True)

    def resume(self, tag=None):
        """Brings it back. MemoryError: the device has too little free memory, and a later call can succeed."""
        gpumem.resume(self._glob(tag, "?"))

    def get_cpu_backup(self, tensor):
        raise NotImplementedError("gpumem does not hand out its copy of a paused tensor; resume it first")

    def _tag(self, tag, backup):
        number = self._numbers.setdefault(tag, len(self._numbers))
        return f"tms.{number}.{'b' if backup else 'd'}"

    def _glob(self, tag, kind):
        return f"tms.{'*' if tag is None else self._numbers.get(tag, 'none')}.{kind}"


torch_memory_saver = TorchMemorySaver()
