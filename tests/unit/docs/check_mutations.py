#!/usr/bin/env python3
"""Checks the table of tools/mutate without a build: each old text stands once in its file, each test exists, and every row of
tests/PAPERS.md that names a test has a mutation that this test must catch.

usage: check_mutations.py MUTATE PAPERS.md BUILD
"""

import importlib.machinery
import importlib.util
import pathlib
import sys

from check_papers import rows, test_names, test_of

LEAST = 40
PAPER = "paper: "


def load(path):
    """tools/mutate is a program without an ending in its name."""
    spec = importlib.util.spec_from_loader("mutate", importlib.machinery.SourceFileLoader("mutate", path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def troubles_of_papers(table, papers):
    named = {cells[1]: test_of(cells[2]) for _, cells in rows(pathlib.Path(papers).read_text(encoding="utf-8"))}
    shown = set()
    for mutation in table:
        if not mutation.shows.startswith(PAPER):
            continue
        found = [says for says in named if mutation.shows[len(PAPER):] in says]
        if len(found) != 1:
            yield f"{mutation.name}: {papers} has {len(found)} rows of '{mutation.shows[len(PAPER):]}', not one"
        elif named[found[0]] != mutation.test:
            yield f"{mutation.name}: test '{mutation.test}', but the row of {papers} names '{named[found[0]]}'"
        shown.update(found)
    for says, test in named.items():
        if test and says not in shown:
            yield f"{papers}: no mutation shows that test '{test}' fails when this breaks: {says}"


def main():
    mutate, papers, build = sys.argv[1:]
    sys.dont_write_bytecode = True
    program = load(mutate)
    table, tests = program.load_table(), test_names(build)
    troubles = list(program.troubles_of(table))
    troubles += [f"{mutation.name}: the build has no test '{mutation.test}'" for mutation in table if mutation.test not in tests]
    troubles += troubles_of_papers(table, papers)
    if len(table) < LEAST:
        troubles.append(f"{len(table)} mutations, fewer than {LEAST}")
    print("\n".join(troubles) or f"{len(table)} mutations")
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
