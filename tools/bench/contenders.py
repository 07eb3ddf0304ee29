"""Who is measured: the native allocator, the alternatives that need another source, PyTorch's, and each policy of the library."""

NATIVE, OWN_CACHE = "native", "PyTorch"
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


class Contender:
    """allocator: argument of tools/bench/alloc, "torch" for PyTorch's. settings: environment. shimmed: under the library.
    rows: prefixes of the rows it runs, all where empty. quick: part of a quick run. step: settings of a PyTorch training step with
    this allocator, None where it has none. replays: takes part in replays of traces."""

    def __init__(self, name, allocator=NATIVE, settings=None, shimmed=False, rows=(), quick=False, step=None, replays=True):
        self.name, self.allocator, self.settings, self.shimmed = name, allocator, settings or {}, shimmed
        self.rows, self.quick, self.step, self.replays = rows, quick, step, replays


UNCACHED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


def policy(name, value, rows=(), quick=False, step=True, replays=True, **settings):
    settings = {"GPUMEM_POLICY": value, **settings}
    return Contender(name, settings=settings, shimmed=True, rows=rows, quick=quick, step=UNCACHED if step else None,
                     replays=replays)


PATTERNS = ("mixed", "fresh-", "bootstrap")
LOOPS = ("pair:1048576", "kernel-", "loop-", "thrust-sort")
TOUCH = ("pair:1048576", "first-touch", "loop-")

CONTENDERS = [
    Contender(NATIVE, quick=True, step=UNCACHED),
    Contender("MallocAsync", "async", quick=True, step={"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}),
    Contender(OWN_CACHE, "torch", quick=True, step={}),
    Contender("PyTorch expandable", "torch", EXPANDABLE, step=EXPANDABLE),
    policy("observe", "observe", quick=True, replays=False),
    policy("cache", "cache", quick=True),
    policy("cache fence 1", "cache", quick=True, step=False, GPUMEM_FENCE_BATCH="1"),
    policy("cache fence 4", "cache", LOOPS, step=False, replays=False, GPUMEM_FENCE_BATCH="4"),
    policy("cache fence 64", "cache", LOOPS, step=False, replays=False, GPUMEM_FENCE_BATCH="64"),
    policy("cache wait", "cache", (*LOOPS, *PATTERNS, "busy-streams", "threads-same"), quick=True, replays=False, GPUMEM_FREE="wait"),
    policy("cache order", "cache", (*LOOPS, "busy-streams", "threads-same"), replays=False, GPUMEM_FREE="order"),
    policy("cache async", "cache", quick=True, step=False, GPUMEM_FREE="async"),
    policy("auto", "auto", quick=True),
    policy("auto async", "auto", quick=True, step=False, GPUMEM_FREE="async"),
    policy("async", "async"),
    policy("managed", "managed", quick=True, GPUMEM_MANAGED="pool"),
    policy("managed plain", "managed", GPUMEM_MANAGED="plain", step=False),
    policy("managed prefetch", "managed", TOUCH, step=False, replays=False, GPUMEM_MANAGED="pool", GPUMEM_MANAGED_PREFETCH="1"),
    policy("managed plain prefetch", "managed", TOUCH, step=False, replays=False, GPUMEM_MANAGED="plain",
           GPUMEM_MANAGED_PREFETCH="1"),
    policy("active-list", "active-list"),
]
ORDER = [contender.name for contender in CONTENDERS]
KEEPERS = ("cache", "auto")  # policies that the targets are for
QUICK_ROWS = ("pair:", "kernel-", "loop-", "free-behind", "busy-streams:100", "threads-same", *PATTERNS, "first-touch:1048576",
              "managed-", "thrust-sort")
