"""Who is measured by hybrid.py, and at which sizes."""

import dataclasses

MIB, GIB = 1 << 20, 1 << 30


class Scheme:
    """allocator, advice: options of the program. settings: None natively, else the library's. plan, rules: `{plan}` and `{rules}` in
    the policy stand for files made from a trace of the same run. beyond: runs where data is larger than the limit. sequence: takes
    part in the sequences. quick: part of a quick run."""

    def __init__(self, name, allocator="malloc", advice="off", policy=None, beyond=False, sequence=False, quick=True, **settings):
        self.name, self.allocator, self.advice = name, allocator, advice
        self.settings = {"GPUMEM_POLICY": policy, **settings} if policy else None
        self.beyond, self.sequence, self.quick = beyond, sequence, quick

    def needs(self, what):
        return self.settings is not None and f"{{{what}}}" in self.settings["GPUMEM_POLICY"]

    def planned(self):
        return any(self.needs(what) for what in ("plan", "rules", "advised"))


NATIVE, ASYNC, MANAGED, MANAGED_ADVISED = "cudaMalloc", "cudaMallocAsync", "cudaMallocManaged", "cudaMallocManaged, advice"
HYBRID, HYBRID_ADVISED, AUTO, ACTIVE, PLAN = "hybrid source", "hybrid source, advice", "auto", "active-list", "plan"
SCHEMES = [
    Scheme(NATIVE, sequence=True),
    Scheme(ASYNC, "async", sequence=True),
    Scheme(MANAGED, "managed", sequence=True),
    Scheme(MANAGED_ADVISED, "managed", "on"),
    Scheme(HYBRID, "hybrid"),
    Scheme(HYBRID_ADVISED, "hybrid", "on", sequence=True),
    Scheme("observe", policy="observe", beyond=True, quick=False),
    Scheme(AUTO, policy="auto", beyond=True, sequence=True),
    Scheme("cache", policy="cache", beyond=True, sequence=True),
    Scheme("async", policy="async", beyond=True, quick=False),
    Scheme("managed plain", policy="managed", quick=False, GPUMEM_MANAGED="plain"),
    Scheme("managed pool", policy="managed", beyond=True, sequence=True, GPUMEM_MANAGED="pool"),
    Scheme("managed pool, prefetch", policy="managed", GPUMEM_MANAGED="pool", GPUMEM_MANAGED_PREFETCH="1"),
    Scheme(ACTIVE, policy="active-list", beyond=True, sequence=True),
    Scheme("static rules", policy="static:@{rules}", beyond=True),
    Scheme("static rules, advice", policy="static:@{advised}"),
    Scheme(PLAN, policy="plan:{plan}", beyond=True, sequence=True),
]
ORDER = [scheme.name for scheme in SCHEMES]


@dataclasses.dataclass
class Sizes:
    """budget, chunk_budget: bytes that percentages are of; also the limit where data is larger."""
    set: str = "large"
    operations: str = "all"
    budget: int = 2 * GIB
    fits: tuple = (25, 50, 95)
    beyond: tuple = (110, 150, 200)
    iterations: int = 15
    beyond_iterations: int = 6
    rounds: int = 3
    sequences: tuple = (("bootstrap", ("--set", "all", "--operation", "bootstrap", "--iterations", 2)),
                        ("resnet", ("--set", "large", "--operation", "resnet", "--iterations", 2)))
    chunk_budget: int = 512 * MIB
    chunk_block: int = 2 * MIB
    chunk_fits: tuple = (25, 50, 75, 95)
    chunk_beyond: tuple = (110, 150, 200)
    chunk_rounds: int = 2
    ratios: tuple = (0, 25, 50, 75, 80, 85, 90, 95)
    ranges: tuple = (1, 2, 5, 10, 20, 100)                  # of the active list, X
    lifetimes: tuple = ("1ms", "10ms", "100ms", "1s", "4s") # of plans, N
    single_chunks: bool = True                              # every chunk allocated by itself too, as in the paper


QUICK = Sizes(fits=(50,), beyond=(150,), iterations=24, rounds=2, chunk_budget=128 * MIB, chunk_fits=(50, 95), chunk_beyond=(150,),
              ranges=(), lifetimes=(), single_chunks=False,
              sequences=(("bootstrap", ("--set", "small,medium,large", "--operation", "bootstrap", "--iterations", 10)),
                         ("resnet", ("--set", "medium", "--operation", "resnet", "--iterations", 3))))
# On the simulated CUDA, where times mean nothing and memory is small.
TINY = Sizes(set="small", operations="multiply,add", budget=32 * MIB, fits=(95,), beyond=(150,), iterations=2, beyond_iterations=1,
             rounds=1, ratios=(0, 50, 95), ranges=(2,), lifetimes=("10ms",), chunk_budget=MIB,
             chunk_block=16384, chunk_fits=(95,), chunk_beyond=(200,), chunk_rounds=1,
             sequences=(("bootstrap", ("--set", "small", "--operation", "bootstrap", "--iterations", 1)),))
