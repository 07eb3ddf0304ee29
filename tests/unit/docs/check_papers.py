#!/usr/bin/env python3
"""Checks tests/PAPERS.md: every row is whole, names one test or none, and every file, function and test that it names exists.

usage: check_papers.py PAPERS.md SOURCE BUILD [PART]...

PART: what this build is without. Its tests are then missing, too: where nothing else is wrong, the check ends with 77.
"""

import json
import pathlib
import re
import sys

SKIP = 77
NO_TEST = "the build has no test"
PAPERS = (
    "hybrid-allocation-he.txt",
    "dynamic-spgemm-vmm-thesis.txt",
    "memhc.txt",
    "rocblas-device-memory.txt",
    "cuda-memory-resource-proposal.txt",
)


def rows(text):
    """(line number, cells) of the table's rows, without its head."""
    lines = [(at, line) for at, line in enumerate(text.splitlines(), 1) if line.startswith("|")]
    return [(at, [cell.strip() for cell in line.strip().strip("|").split("|")]) for at, line in lines[2:]]


def test_names(build):
    """meson writes what it knows into the build folder."""
    return {test["name"] for test in json.loads((pathlib.Path(build) / "meson-info/intro-tests.json").read_text())}


def test_of(cell):
    """Name of the row's one test; None where it has none."""
    found = re.fullmatch(r"`test ([^`]+)`", cell)
    return found and found[1]


def troubles_of(proof, source, tests):
    targets = [word for word in re.findall(r"`([^`]+)`", proof) if "/" in word or word.startswith("test ")]
    for target in targets:
        if target.startswith("test "):
            if target[5:] not in tests:
                yield f"{NO_TEST} '{target[5:]}'"
            continue
        path, _, name = target.partition("::")
        if not (source / path).is_file():
            yield f"no file {path}"
        elif name and not re.search(r"(?<!\w)" + re.escape(name) + r"(?!\w)", (source / path).read_text(encoding="utf-8")):
            yield f"{path} has no {name}"


def status_of(troubles, left_out, good):
    """Prints the troubles, or what is good. Exit status of a check in a build without these parts."""
    if left_out and troubles and all(NO_TEST in trouble for trouble in troubles):
        print(f"{len(troubles)} names are not known here: the build is without {', '.join(left_out)}")
        return SKIP
    print("\n".join(troubles) or good)
    return 1 if troubles else 0


def main():
    papers, source, build, *left_out = sys.argv[1:]
    found = rows(pathlib.Path(papers).read_text(encoding="utf-8"))
    tests = test_names(build)
    troubles = []
    for at, cells in found:
        if len(cells) != 4 or not all(cells):
            troubles.append(f"{papers}:{at}: {len(cells)} cells, some of them empty")
            continue
        if cells[0].strip("`") not in PAPERS:
            troubles.append(f"{papers}:{at}: {cells[0]} is no paper")
        if not test_of(cells[2]) and (cells[2] != "none" or not re.search(r"\bopen\b|\blimit:", cells[3])):
            troubles.append(f"{papers}:{at}: neither one test, nor none with a limit or open: {cells[2]}")
        troubles += [f"{papers}:{at}: {trouble}" for cell in cells[2:] for trouble in troubles_of(cell, pathlib.Path(source), tests)]
    for paper in PAPERS:
        if not any(cells[0].strip("`") == paper for _, cells in found):
            troubles.append(f"{papers}: no row for {paper}")
    return status_of(troubles, left_out, f"{len(found)} rows")


if __name__ == "__main__":
    sys.exit(main())
