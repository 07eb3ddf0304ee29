#!/usr/bin/env python3
"""examples/hadron on the simulated CUDA: every way to manage memory gives the reference's numbers, and counts what the model counts.

usage: run_hadron.py --examples DIR --cuda DIR --shim FILE --bench FILE CASE

All numbers of a check are compared for equality: at these sizes the program compares every element of every output.
"""

import csv
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

from run_examples import POLICIES as LIBRARY_POLICIES
from run_examples import Place, check, main_of

VARIANTS = ("unified_naive", "unified_reorg", "unified_once", "unified_kept", "explicit_naive", "explicit_reorg", "explicit_reorg_sync", "full", "resident")
POLICIES = ("random", "mru", "lru", "car", "clock_pro", "preprotected_lru", "window")
WORKLOADS = {
    "mesons": ("--vector-size", 4, "--vectors", 3, "--tensor", 5),
    "baryons": ("--system", "baryon", "--vector-size", 4, "--vectors", 3, "--tensor", 3),
    "meson graphs": ("--function", "a1_rhopi", "--scale", 50, "--vector-size", 4, "--tensor", 4),
    "baryon graphs": ("--function", "two_point", "--system", "baryon", "--vector-size", 4, "--tensor", 4),
}
GRAPHS = WORKLOADS["meson graphs"]
NODE = 16 * 4 * 4 * 16  # bytes of a meson, tensor 4
BUDGET = ("--budget", 14 * NODE)
NUMBERS = 16 * 4 * 4


def hadron(place, *arguments, **more):
    """The row as the program prints it."""
    said = place.run("hadron", "--products", "own", *arguments, OMP_WAIT_POLICY="passive", **more)
    rows = list(csv.DictReader(said.splitlines()))
    check(len(rows) == 1 and None not in rows[0] and None not in rows[0].values(), f"{arguments}: {said}")
    return rows[0]


def right(place, *arguments, results="all", **more):
    row = hadron(place, *arguments, "--check", "--results", results, **more)
    check(row["check"] == "right" and int(row["compared"]) > 0, f"{arguments}: {row}")
    return row


def hadron_right(place):
    """Every version with every workload and both mappings: all outputs, or those of the last vector after the clock."""
    compared = {}
    for (name, workload), variant, mapping in itertools.product(WORKLOADS.items(), VARIANTS, ("random", "natural")):
        row = right(place, *workload, "--variant", variant, "--mapping", mapping, "--loops", 2, "--breakdown")
        check(compared.setdefault(name, row["compared"]) == row["compared"], f"{variant} compares as many numbers: {row}")
        check(float(row["kernel_s"]) > 0 and float(row["gflop"]) > 0, f"{row}")
    for workload, variant in itertools.product(WORKLOADS.values(), VARIANTS):
        right(place, *workload, "--variant", variant, results="last")
    check(hadron(place, *WORKLOADS["mesons"], "--variant", "zgemm")["check"] == "", "products alone have no outputs")


def hadron_functions(place):
    """Graphs of table 4's sizes: each node misses once where nothing is evicted, and repeated data is found."""
    for name, nodes, contractions in (("two_point", 36, 12), ("a1_rhopi", 106, 68), ("f0d2", 2173, 1968), ("f0d4", 2173, 1970)):
        for system in ("meson", "baryon"):
            row = right(place, "--function", name, "--system", system, "--tensor", 1, results="last")
            got = int(row["misses"]), int(row["contractions"]), int(row["hits"]) + int(row["misses"])
            check(got == (nodes, contractions, 3 * contractions), f"{name}, {system}: {got}")
    half = right(place, "--function", "f0d2", "--scale", 50, "--tensor", 1, results="last")
    check((int(half["misses"]), int(half["contractions"])) == (102 + 984, 984), f"{half}")


def hadron_switches(place):
    """Each part of the full version alone: right numbers, and the traffic that the part saves."""
    arguments = (*WORKLOADS["mesons"], "--threads", 1)
    node = 16 * 5 * 5 * 16
    full, naive = right(place, *arguments, results="last"), right(place, *arguments, "--variant", "explicit_naive", results="last")
    nodes = 1 + 4 + 2 * 2  # shared, first vector, half of each later vector
    check(int(full["h2d_bytes"]) == nodes * node and int(full["d2h_bytes"]) == 0, f"each node is sent once, no output returns: {full}")
    check(int(full["allocations"]) == nodes + 4 and int(full["reused"]) == 8, f"outputs overwrite those of the vector before: {full}")
    check(int(naive["h2d_bytes"]) == 2 * 12 * node and int(naive["d2h_bytes"]) == 12 * node, f"two operands each, one output: {naive}")
    check(int(naive["allocations"]) == 16 * 3 * 12, f"an allocation for each spin: {naive}")
    packed = right(place, *arguments, "--variant", "explicit_reorg", results="last")
    check(int(packed["allocations"]) == 3 * 12 and packed["h2d_bytes"] == naive["h2d_bytes"], f"one for each node: {packed}")
    synced = right(place, *arguments, "--variant", "explicit_reorg_sync", results="last")
    check(int(synced["d2h_bytes"]) == 0 and synced["h2d_bytes"] == naive["h2d_bytes"], f"outputs stay on the device: {synced}")
    slow = right(place, *arguments, "--link-slowdown", 5, results="last")
    check(all(slow[key] == full[key] for key in ("h2d_bytes", "misses", "evictions")), f"a slower link changes no count: {slow}")
    for switch, key, expected in (("--reorganise", "allocations", 16 * int(full["allocations"])), ("--on-demand-sync", "d2h_bytes", 12 * node),
                                  ("--lazy-release", "reused", 0)):
        row = right(place, *arguments, switch, "off", results="last")
        check(int(row[key]) == expected, f"{switch} off: {key} is {row[key]}, not {expected}")
    check(int(right(place, *arguments, "--duplicates", "off", results="last")["h2d_bytes"]) > int(full["h2d_bytes"]), "duplicates are sent again")
    for variant, switches in itertools.product(("full", "explicit_naive"), itertools.product(("on", "off"), repeat=4)):
        names = ("--reorganise", "--on-demand-sync", "--duplicates", "--lazy-release")
        right(place, *GRAPHS, "--variant", variant, *itertools.chain(*zip(names, switches)), "--host", "pinned" if switches[0] == "on" else "pageable")
    for switches in itertools.product(("on", "off"), repeat=2):
        right(place, *GRAPHS, "--variant", "unified_naive", *itertools.chain(*zip(("--reorganise", "--prefetch"), switches)))


def hadron_evictions(place):
    """Every policy under a budget, in several orders of the streams; and the counts of the model."""
    for policy, (name, more) in itertools.product(POLICIES, {"packed": (), "spins": ("--reorganise", "off"), "copies": ("--on-demand-sync", "off"),
                                                             "no pool": ("--lazy-release", "off")}.items()):
        row = right(place, *GRAPHS, *BUDGET, "--eviction", policy, *more)
        check(int(row["evictions"]) > 0 and int(row["peak_bytes"]) <= BUDGET[1], f"{policy}, {name}: {row}")
    for policy, order in itertools.product(POLICIES, ("manual", "random:1", "random:2", "random:3")):
        right(place, *GRAPHS, *BUDGET, "--eviction", policy, SIMCUDA_STREAMS=order)
        right(place, "--function", "a1_rhopi", "--tensor", 2, "--vector-size", 16, "--threads", 8, "--budget", 50 * NODE // 4, "--loops", 3,
              "--eviction", policy, SIMCUDA_STREAMS=order)
    for policy, distribution, (size, percent, rate) in itertools.product(
            POLICIES[1:], ("uniform", "gaussian"), ((8, 50, "1/2"), (8, 150, "1/4"), (6, 100, "0/1"), (5, 250, "1/1"))):
        common = ("--vector-size", size, "--oversubscription", percent, "--repeated-rate", rate, "--loops", 6, "--distribution", distribution)
        row = right(place, *common, "--tensor", 2, "--eviction", policy, results="last")
        model = next(csv.DictReader(place.run("hadron", "--model", *common, "--policy", policy).splitlines()))
        got = {"allocate": float(row["allocations"]) + 3, "evictions": float(row["evictions"]), "hit": float(row["hits"]), "miss": float(row["misses"])}
        check(all(abs(got[key] - float(model[key])) < 0.01 for key in got), f"{policy} {common}: {got}, model {model}")


def hadron_policies(place):
    """Under the library, too."""
    for policy, variant in itertools.product(LIBRARY_POLICIES, ("full", "explicit_reorg_sync", "unified_reorg", "resident")):
        right(place, *GRAPHS, "--variant", variant, *(BUDGET if variant == "full" else ()), policy=policy)


def hadron_refusals(place):
    """Managed memory that could not stay on the card, nodes beyond the budget or the card, wrong usage: one line each."""
    for words, arguments, megabytes in (
            ("refused: 1132.5 MB of managed memory", ("--variant", "unified_reorg", "--tensor", 384, "--vector-size", 10, "--repeated-rate", "1/1"), 3000),
            ("refused: 1245.7 MB of managed memory", ("--variant", "unified_kept", "--tensor", 384, "--vector-size", 8, "--vectors", 5,
                                                      "--repeated-rate", "1/2"), 2800),
            ("refused: 1208.0 MB of products", ("--tensor", 384, "--vector-size", 8, "--repeated-rate", "1/1"), 1500),
            ("nothing can be evicted", (*GRAPHS, "--budget", 5 * NODE), 4000),
            ("larger than", (*GRAPHS, "--budget", NODE - 1), 4000)):
        said = place.run("hadron", "--products", "own", *arguments, status=1, SIMCUDA_MEMORY=str(megabytes * 10**6))
        check(words in said and said.count("\n") == 1, f"{arguments}: {said}")
    for arguments in (
            ("--variant", "best"), ("--reorganise", "yes"), ("--eviction", "fifo"), ("--budget", "0"), ("--host", "gpu"), ("--vector-size", "0"),
            ("--vectors", "-1"), ("--repeated-rate", "0.5"), ("--repeated-rate", "1/3"), ("--distribution", "both"), ("--oversubscription", "75"),
            ("--oversubscription", "100", "--vectors", "5"), ("--oversubscription", "100", "--budget", "100000"),
            ("--oversubscription", "100", "--system", "baryon"), ("--function", "rho"), ("--scale", "50"), ("--function", "f0d2", "--scale", "0"),
            ("--function", "f0d2", "--vectors", "5"), ("--function", "f0d2", "--repeated-rate", "1/2"), ("--system", "tetraquark"), ("--tensor", "x"),
            ("--mapping", "none"), ("--products", "blas"), ("--threads", "0"), ("--copy-threads", "65"), ("--loops", ""), ("--seed", "x"), ("--results", "none"),
            ("--variant", "explicit_naive", "--eviction", "lru"), ("--variant", "unified_reorg", "--budget", "100000"),
            ("--variant", "explicit_naive", "--oversubscription", "50"), ("--variant", "unified_reorg", "--duplicates", "on"),
            ("--prefetch", "on"), ("--variant", "resident", "--reorganise", "off"), ("--variant", "zgemm", "--check"), ("more",), ("--more",)):
        said = place.run("hadron", *arguments, status=2)
        check(said.count("\n") == 1 and "hadron" in said, f"{arguments}: {said}")
    for words in (("more",), ("--more",), ("--model", "more"), ("--model", "--more"), ("--model", "--loops")):
        check(place.run("hadron", *words, status=2).startswith(f"hadron: {words[-1]} is no option"), f"{words}")
    check(place.run("hadron", "--help").startswith("usage: hadron "), "help")


def memhc_bench(place):
    """The bench runs to its end and has a row for every figure and table; what the times are does not matter here."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "memhc.json"
        done = subprocess.run([sys.executable, place.options.bench, "--sim", "--build", place.options.examples.parent, "--out", out],
                              capture_output=True, text=True)
        check(done.returncode == 0, f"memhc.py: status {done.returncode}: {done.stdout[-300:]}{done.stderr[-600:]}")
        made, text = json.loads(out.read_text()), out.with_suffix(".txt").read_text()
    check(made["simulated"] and not made["failed"] and not made["left_out"], f"failed {made['failed']}, left out {made['left_out']}")
    check(made["checked"] == [*VARIANTS, *POLICIES], f"{made['checked']}")
    check("not measured" not in text and "OK" not in text, text)
    for number in ("Figure 7", "Figure 8", "Figure 10", "Tables 1 to 3", "Figure 11", "Table 5", "= 1 x"):
        check(number in text, f"no {number}")
    for name, row in made["points"].items():
        expected = 8e-9 * int(row["tensor"]) ** 3 * 64 * int(row["contractions"])
        check(abs(float(row["gflop"]) - expected) < 2e-6, f"{name}: {row['gflop']} GFLOP, not {expected}")
        check(abs(float(row["gflops"]) * float(row["seconds"]) - expected) < 0.02 * expected + 1e-4, f"{name}: {row}")
    evicting = {name: row for name, row in made["points"].items() if name.startswith("evict|64|100|1/2|") and not name.endswith("|slow")}
    least = min(float(row["evictions"]) for row in evicting.values())
    check(len(evicting) == 2 * len(POLICIES) and float(evicting["evict|64|100|1/2|preprotected_lru|uniform"]["evictions"]) == least == 64,
          "Pre-Protected LRU evicts least")
    check("MISSED: rows in which Pre-Protected LRU" not in text, text)


CASES = {case.__name__: case for case in (hadron_right, hadron_functions, hadron_switches, hadron_evictions, hadron_policies, hadron_refusals,
                                          memhc_bench)}

if __name__ == "__main__":
    main_of(CASES, __doc__, pathlib.Path(__file__).name)
