"""The points of memhc.py: what examples/hadron runs for each figure and table of the paper, the most important first."""

import collections

SIZES = (1, 2, 4, 8, 16, 32)
RATES = ("0/1", "1/8", "1/4", "1/2", "3/4", "1/1")
# BASELINE: the paper's. UNIFIED: each contraction makes managed memory of its own.
BASELINE, UNIFIED, FULL, PINNED = "unified_once", "unified_reorg", "full", "full, pinned"
SLOW = 16  # a link whose transfers cost beside the contractions what they cost on the paper's machines, or more
# Figure 8: each step switches on one more part.
STEPS = ("unified_naive", "unified_reorg", "explicit_naive", "explicit_reorg", "explicit_reorg_sync", "full")
# Ours: one part of the full version off, and the others on.
WITHOUT = {"without reorganisation": {"reorganise": "off"}, "without on-demand sync": {"on-demand-sync": "off"},
           "without duplicates": {"duplicates": "off"}, "without lazy release": {"lazy-release": "off"}}
POLICIES = ("random", "mru", "lru", "car", "clock_pro", "preprotected_lru", "window")
PERCENTS = (50, 100, 150, 200, 250)
# Vector size, oversubscription, repeated rate of tables 1 to 3.
TABLES = [(64, 50, "1/2"), (64, 100, "1/2"), (64, 150, "1/2"), (8, 50, "1/2"), (16, 50, "1/2"), (32, 50, "1/2"), (64, 50, "1/8"),
          (64, 50, "1/4"), (64, 50, "3/4")]
FUNCTIONS = ("a1_rhopi", "f0d2", "f0d4")
MIB, GIB = 1 << 20, 1 << 30

# figures: names of the figures and tables that use the point.
Point = collections.namedtuple("Point", "name figures arguments")


class Scale:
    """How much is run. `host`: bytes of nodes on the host, at most; `slow`: vectors and loops of versions without reuse; `steps`:
    which of the tensors figure 8 takes."""

    def __init__(self, vectors=100, loops=10, slow=(40, 3), host=40 * GIB, tensors=(192, 384), steps=1, tensor_tables=384, scales=None,
                 own=False):
        self.vectors, self.loops, self.slow, self.host, self.tensors = vectors, loops, slow, host, tensors
        self.tensor_tables, self.scales, self.own, self.steps = tensor_tables, scales or {}, own, tensors[steps]


FULL_RUN = Scale()
QUICK = Scale(loops=3, slow=(12, 2), host=10 * GIB, steps=0, scales={"f0d2": 25, "f0d4": 25})
TINY = Scale(vectors=4, loops=1, slow=(3, 1), tensors=(2, 3), tensor_tables=2, scales={"a1_rhopi": 20, "f0d2": 1, "f0d4": 1}, own=True)


def vectors_of(scale, variant, label, tensor, size, rate):
    """(vectors, loops): those of the run, fewer where the nodes would not fit the host."""
    vectors, loops = scale.slow
    if variant in (FULL, "resident", "zgemm"):
        # With a switch, a part is missing: slow too, but enough vectors that the first one, which finds nothing, hardly counts.
        vectors, loops = (scale.vectors, scale.loops) if label in (None, PINNED) else (min(scale.vectors, 40), loops)
    part, whole = map(int, rate.split("/"))
    new = size * (whole - part) / whole
    most = (scale.host / (16 * 16 * tensor * tensor) - 2 * size) / new if new else vectors
    return max(2, min(vectors, int(most))), loops


def vector_point(scale, figures, variant, tensor, size, rate, label=None, **more):
    vectors, loops = vectors_of(scale, variant, label, tensor, size, rate)
    name = f"vectors|{tensor}|{size}|{rate}|{label or variant}"
    return Point(name, figures, {"variant": variant, "tensor": tensor, "vector-size": size, "repeated-rate": rate, "vectors": vectors,
                                 "loops": loops, **more})


def eviction_point(scale, figures, policy, distribution, size, percent, rate, label="", **more):
    return Point(f"evict|{size}|{percent}|{rate}|{policy}|{distribution}{label}", figures,
                 {"variant": FULL, "tensor": scale.tensor_tables, "vector-size": size, "oversubscription": percent, "repeated-rate": rate,
                  "eviction": policy, "distribution": distribution, "loops": 3 if scale.own else max(scale.loops, 5), **more})


def function_point(scale, name, variant):
    arguments = {"variant": variant, "function": name, "scale": scale.scales.get(name, 100), "loops": 3 if variant == FULL else 1}
    if scale.own:
        arguments["tensor"] = scale.tensor_tables
    return Point(f"function|{name}|{variant}", ["table 5"], arguments)


def all_points(scale):
    """May name a point several times: its figures add up."""
    small, large = scale.tensors

    def pair(figure, tensor, size, rate):
        return [vector_point(scale, [figure], variant, tensor, size, rate) for variant in (BASELINE, FULL)]

    for size in (16, 1, 32, 8, 2, 4):
        yield from pair("7", small, size, "1/1")
    for rate in ("1/2", "0/1", "3/4", "1/4", "1/8"):
        yield from pair("7", small, 16, rate)
    for size, percent, rate in TABLES:
        for policy in ("preprotected_lru", "lru"):
            yield eviction_point(scale, ["tables 1-3", "11"], policy, "uniform", size, percent, rate)
    for size, percent, rate in TABLES:
        for policy in ("preprotected_lru", "lru"):
            yield eviction_point(scale, ["slow link"], policy, "uniform", size, percent, rate, "|slow", **{"link-slowdown": SLOW})
    for rate in ("1/1", "1/2", "0/1"):
        for variant in STEPS:
            yield vector_point(scale, ["8"], variant, scale.steps, 16, rate)
    for label, switch in WITHOUT.items():
        yield vector_point(scale, ["8"], FULL, scale.steps, 16, "1/2", label, **switch)
    for rate in ("1/1", "1/2", "0/1"):
        yield vector_point(scale, ["7"], "unified_kept", small, 16, rate)
        yield vector_point(scale, ["7"], FULL, small, 16, rate, PINNED, host="pinned")
    for rate in ("1/1", "1/2", "0/1"):
        yield from pair("7", large, 16, rate)
    for percent in PERCENTS:
        for policy in POLICIES:
            yield eviction_point(scale, ["11"], policy, "uniform", 64, percent, "1/2")
    for name in FUNCTIONS:
        for variant in (FULL, BASELINE, UNIFIED):
            yield function_point(scale, name, variant)
    for tensor in (small, large) if scale.own else (128, 192, 256, 384):
        for variant in (FULL, BASELINE, "zgemm", UNIFIED):
            yield vector_point(scale, ["10"], variant, tensor, 16, "1/1")
        yield vector_point(scale, ["10"], FULL, tensor, 16, "1/1", "extra copies", **{"on-demand-sync": "off"})
    for size in (1, 32, 8, 2, 4):
        yield from pair("7", large, size, "1/1")
    for rate in ("3/4", "1/4", "1/8"):
        yield from pair("7", large, 16, rate)
    for size, percent, rate in TABLES:
        for policy in ("lru", "preprotected_lru"):
            yield eviction_point(scale, ["tables 1-3"], policy, "gaussian", size, percent, rate)
    for rate in ("1/1", "1/2", "0/1"):
        for variant in STEPS:
            yield vector_point(scale, ["8"], variant, scale.steps, 4, rate)
    for percent in PERCENTS:
        for policy in POLICIES:
            yield eviction_point(scale, ["11"], policy, "gaussian", 64, percent, "1/2")
    for tensor in (small, large):
        for size, rate in [(size, "1/1") for size in SIZES] + [(16, rate) for rate in RATES[:-1]]:
            yield vector_point(scale, ["7"], UNIFIED, tensor, size, rate)


def points(scale):
    found = {}
    for point in all_points(scale):
        if point.name in found:
            found[point.name].figures.extend(one for one in point.figures if one not in found[point.name].figures)
        else:
            found[point.name] = point
    return list(found.values())
