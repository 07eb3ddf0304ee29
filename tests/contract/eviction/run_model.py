#!/usr/bin/env python3
"""The model of memhc's eviction experiment against the paper's tables 1 to 3, and what it refuses.

usage: run_model.py HADRON GOLDEN

GOLDEN holds the paper's rows with errata. Rows of preprotected_lru are met exactly. Allocate, Hit and Miss of the LRU rows are
met within 5 %, as means over LOOPS seeds; the paper's are means of ten loops of one unknown generator.
"""

import csv
import math
import subprocess
import sys

HADRON, GOLDEN = sys.argv[1:]
LOOPS = 400
PAPERS = ("random", "mru", "lru", "car", "clock_pro", "preprotected_lru")
OURS = "window"
DISTRIBUTIONS = ("uniform", "gaussian")
COUNTS = ("allocate", "evictions", "hit", "miss")
WITHIN = 0.05
# LRU misses 3 of 4 repeated nodes in this row, and 4 of 8, 5 of 16, 14 of 32 in the next ones: no distribution that was tried
# meets all of them.
WIDER = {("8", "50", "1/2", "lru_uniform"): 0.11}
# Evictions of LRU are met within one in the rows that are not here. Those here are not reproduced: the mean of the model stands
# beside the paper's number. Tried without success, for all rows together: the repeated nodes drawn uniformly or normally with
# five deviations; at random places, first, last, evenly spread, normally placed, or where they were; in their order, reversed, or
# shuffled; LRU, and FIFO, which the paper calls its base. In the paper a later vector loses fewer repeated nodes than the one
# before (14, 6 and 4 of 32), and hardly any at a rate of 3/4; here each vector loses as many.
NOT_REPRODUCED = {
    ("8", "50", "1/2", "lru_uniform"): (5.3, 8),
    ("16", "50", "1/2", "lru_uniform"): (10.6, 12),
    ("16", "50", "1/2", "lru_gaussian"): (10.2, 12),
    ("64", "50", "1/2", "lru_uniform"): (42.6, 46),
    ("64", "100", "1/2", "lru_uniform"): (85.2, 84),
    ("64", "150", "1/2", "lru_uniform"): (127.7, 120),
    ("64", "150", "1/2", "lru_gaussian"): (122.0, 112),
    ("64", "50", "1/8", "lru_uniform"): (59.6, 64),
    ("64", "50", "1/8", "lru_gaussian"): (59.6, 62),
    ("64", "50", "1/4", "lru_uniform"): (54.8, 60),
    ("64", "50", "1/4", "lru_gaussian"): (54.2, 58),
    ("64", "50", "3/4", "lru_uniform"): (25.6, 20),
    ("64", "50", "3/4", "lru_gaussian"): (22.3, 18),
}
# Figure 11 (6.4, text): evictions of Pre-Protected LRU in percent of the geometric mean of the other policies.
FIGURE_11 = {("uniform", 150): 77.2, ("uniform", 200): 71.6, ("uniform", 250): 82.1, ("gaussian", 150): 79.7, ("gaussian", 200): 78.1,
             ("gaussian", 250): 81.6}
POINTS = 9  # of percent that the model may differ


def check(holds, what):
    if not holds:
        print(f"run_model: {what}", file=sys.stderr)
        sys.exit(1)


def call(*arguments, status=0):
    done = subprocess.run([HADRON, *map(str, arguments)], capture_output=True, text=True)
    check(done.returncode == status, f"{arguments}: status {done.returncode}: {done.stderr}")
    return done.stdout if status == 0 else done.stderr


def rows_of(size, percent, rate, *more):
    """{policy with distribution: row} of one experiment."""
    text = call("--model", "--vector-size", size, "--oversubscription", percent, "--repeated-rate", rate, *more)
    found = {}
    for row in csv.DictReader(text.splitlines()):
        check((row["vector_size"], row["oversubscription_pct"]) == (str(size), str(percent)), f"{row}")
        name = row.pop("policy")
        found[name] = {key: row[key] if key == "repeated_rate" else float(row[key]) for key in row}
    return found


def closed_form(size, k, rate):
    evictions = k * size * (1 - rate)
    hit, miss = (1 + 2 * k) * size - 1 - evictions, (2 + k) * size + 1 + evictions
    return {"allocate": 2 * size + 4 + evictions, "evictions": evictions, "hit": hit, "miss": miss}


def check_relations(size, percent, rate, found):
    """Evictions decide all other counts, and no policy can do with fewer than preprotected_lru."""
    k = percent // 50
    part, whole = map(int, rate.split("/"))
    least = closed_form(size, k, part / whole)
    for name, row in found.items():
        more = row["evictions"] - least["evictions"]
        sign = {"hit": -1}
        for key in COUNTS:
            expected = least[key] + sign.get(key, 1) * more
            check(math.isclose(row[key], expected, abs_tol=0.03), f"{name}, {size}, {percent} %, {rate}: {key} {row[key]}")
        check(abs(row["hit_rate_pct"] - 100 * row["hit"] / (row["hit"] + row["miss"])) < 0.02, f"{name}: hit rate {row}")
        least_of_all = name.startswith(("preprotected_lru", OURS))
        check(more == 0 if least_of_all else more >= 0, f"{name}, {size}, {percent} %, {rate}: {more} evictions more")


def check_grid():
    for size in (2, 8, 24, 64):
        for percent in (50, 100, 250):
            for rate in ("0/1", "1/2", "1/1"):
                found = rows_of(size, percent, rate)
                check(len(found) == 2 * (len(PAPERS) + 1), f"{list(found)}")
                check_relations(size, percent, rate, found)


def check_golden_itself(row, golden):
    """Where the paper's row agrees with itself: its evictions count to within one, the known misprint aside."""
    size, k = int(row["vector_size"]), int(row["oversubscription_pct"]) // 50
    evictions = 84 if "misprint: 84" in row["errata"] else golden["evictions"]
    check(abs(golden["allocate"] - 2 * size - 4 - evictions) <= 1, f"evictions of {row}")
    check(golden["hit"] + golden["miss"] == 3 * (1 + k) * size, f"look-ups of {row}")


def check_evictions(key, made, golden):
    met, stated = abs(made - golden) <= 1, NOT_REPRODUCED.get(key)
    check(met == (stated is None), f"{key}: {made:.1f} evictions, paper {golden}: is the row one of NOT_REPRODUCED?")
    check(met or abs(made - stated[0]) <= 0.5 and stated[1] == golden, f"{key}: {made:.1f} evictions, paper {golden}, stated {stated}")


def check_table(golden_rows):
    for row in golden_rows:
        key = (row["vector_size"], row["oversubscription_pct"], row["repeated_rate"], row["policy"])
        golden = {count: int(row[count]) for count in COUNTS}
        check_golden_itself(row, golden)
        if row["policy"] == "preprotected_lru":
            found = rows_of(*key[:3], "--policy", "preprotected_lru")
            for distribution in DISTRIBUTIONS:
                made = found[f"preprotected_lru_{distribution}"]
                check(all(made[count] == golden[count] for count in COUNTS), f"{key}: {made}")
            print(*key, "exact")
            continue
        found = rows_of(*key[:3], "--policy", "lru", "--loops", LOOPS, "--spread")
        made, spread = found[row["policy"]], found[row["policy"] + "_spread"]
        check(spread["hit"] > 0, f"{key}: no spread")
        print(*key, *(f"{count} {made[count]:.1f} +- {spread[count]:.1f} (paper {golden[count]})" for count in COUNTS))
        for count in ("allocate", "hit", "miss"):
            within = WIDER.get(key, WITHIN) * golden[count]
            check(abs(made[count] - golden[count]) <= within, f"{key}: {count} {made[count]}, not {golden[count]}")
        check_evictions(key, made["evictions"], 84 if "misprint: 84" in row["errata"] else golden["evictions"])


def check_fewest(golden_rows):
    experiments = {(int(row["vector_size"]), int(row["oversubscription_pct"]), row["repeated_rate"]) for row in golden_rows}
    for size, percent, rate in sorted(experiments | {(64, percent, "1/2") for percent in (200, 250)}):
        found = rows_of(size, percent, rate, "--loops", 50)
        check_relations(size, percent, rate, found)
        for distribution in DISTRIBUTIONS:
            of = {policy: found[f"{policy}_{distribution}"]["evictions"] for policy in PAPERS}
            least = of.pop("preprotected_lru")
            check(all(least < other for other in of.values()), f"{size}, {percent} %, {rate}, {distribution}: {least} of {of}")
            mean = math.prod(of.values()) ** (1 / len(of))
            share, paper = 100 * least / mean, FIGURE_11.get((distribution, percent)) if (size, rate) == (64, "1/2") else None
            print(f"vector size {size}, {percent} %, {rate}, {distribution}: {share:.1f} % of the others' evictions (paper {paper or '-'})")
            check(not paper or abs(share - paper) <= POINTS, f"figure 11, {distribution}, {percent} %: {share:.1f} %, paper {paper} %")


def check_options():
    plain, summed = rows_of(64, 150, "1/2"), rows_of(64, 150, "1/2", "--sum")
    check(plain == rows_of(64, 150, "2/4", "--seed", 1), "the same seed gives the same rows, rates are reduced")
    check(plain != rows_of(64, 150, "1/2", "--seed", 2), "another seed")
    for name in plain:
        check(abs(summed[name]["evictions"] - 10 * plain[name]["evictions"]) < 0.2, f"sum of {name}")
    check(len(call("--model", "--loops", 1).splitlines()) == 1 + 5 * 2 * (len(PAPERS) + 1), "50 to 250 % by default")
    check(call("--model", "--help").startswith("usage: hadron "), "help")


def check_refusals():
    for arguments in (
        ("--model", "rest"),
        ("--model", "--nothing"),
        ("--model", "--policy", "fifo"),
        ("--model", "--distribution", "normal"),
        ("--model", "--vector-size", "0"),
        ("--model", "--vector-size", "-1"),
        ("--model", "--vector-size", "8x"),
        ("--model", "--oversubscription", "75"),
        ("--model", "--oversubscription", "0"),
        ("--model", "--repeated-rate", "0.5"),
        ("--model", "--repeated-rate", "3/2"),
        ("--model", "--repeated-rate", "1/0"),
        ("--model", "--repeated-rate", "1/3"),
        ("--model", "--loops", "0"),
        ("--model", "--seed", ""),
        ("--model", "--sum", "--spread"),
    ):
        said = call(*arguments, status=2)
        check(said.count("\n") == 1 and "hadron: " in said, f"{arguments}: {said}")


def main():
    with open(GOLDEN, newline="", encoding="utf-8") as file:
        golden_rows = list(csv.DictReader(file))
    check(len(golden_rows) == 27, f"{len(golden_rows)} rows")
    check_table(golden_rows)
    check_grid()
    check_fewest(golden_rows)
    check_options()
    check_refusals()


main()
