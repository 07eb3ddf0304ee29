#!/usr/bin/env python3
"""Checks the table of tools/mutate without a build: each operation applies to the definition that its row names, each test
exists, and every row of tests/PAPERS.md that names a test has a mutation that this test must catch.

usage: check_mutations.py MUTATE PAPERS.md BUILD [PART]...    PART: as for check_papers.py
"""

import importlib.machinery
import importlib.util
import pathlib
import sys

from check_papers import NO_TEST, rows, status_of, test_names, test_of

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools" / "lib"))
import mutation  # noqa: E402

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
    for row in table:
        if not row.shows.startswith(PAPER):
            continue
        found = [says for says in named if row.shows[len(PAPER):] in says]
        if len(found) != 1:
            yield f"{row.name}: {papers} has {len(found)} rows of '{row.shows[len(PAPER):]}', not one"
        elif named[found[0]] != row.test:
            yield f"{row.name}: test '{row.test}', but the row of {papers} names '{named[found[0]]}'"
        shown.update(found)
    for says, test in named.items():
        if test and says not in shown:
            yield f"{papers}: no mutation shows that test '{test}' fails when this breaks: {says}"


SAMPLE = """#define MOST 5
ROW(one, 1)
ROW(two, 2)
int calls(int a);
static int first(int a) { return a; }
static int second(struct s *s, int a) {
    /* not first(1) */
    s->size = first(a);
    for (int i = 0; i < a; i++)
        if (s->size > MOST && GM_LIKELY(!first(s->size)))
            free(s, "first(2)");
    return s->size;
}
"""
# Place, operation, text before and after.
APPLIED = [
    ("MOST", "swaps", ("5", "6"), "MOST 5", "MOST 6"),
    ("second", "returns", ("7",), "s->size = first(a);", "return 7; s->size = first(a);"),
    ("second", "gives", ("0",), "return s->size", "return 0"),
    ("second", "drops", ("free",), 'free(s, "first(2)");', ";"),
    ("second", "always", ("first(s",), " && GM_LIKELY(!first(s->size))", " && GM_LIKELY(true)"),
    ("second", "never", ("size >",), "s->size > MOST &&", "false &&"),
    ("second", "always", ("size >",), "s->size > MOST && ", ""),
    ("second", "skips", ("MOST",), "s->size > MOST && GM_LIKELY(!first(s->size))", "false"),
    ("second", "enters", ("i < a",), "i < a", "true"),
    ("second", "sets", ("s->size", "2"), "= first(a)", "= 2"),
    ("second", "passes", ("free", 1, "0"), '"first(2)"', "0"),
    ("ROW(two", "leaves_out", (), "ROW(two, 2)", ""),
]
REFUSED = [
    ("third", "gives", ("0",), "third: it has 0 definitions of this name, not one"),
    ("calls", "returns", ("0",), "calls: it has 0 definitions"),
    ("second", "answers", ("first", "0"), "it has 2 times 'first(', not once"),
    ("second", "drops", ("size",), "of kind statement with 'size', not one"),
    ("second", "passes", ("free", 2, "0"), "'free' has no argument 2"),
    ("first", "gives", ("a",), "nothing changes"),
    ("second", "swaps", ("s->size = first(a)", ""), "has more than 5 tokens"),
]


def check_operations():
    for place, name, arguments, before, after in APPLIED:
        found = getattr(mutation, name)(*arguments)(SAMPLE, place, "a.c").replace(" ", "")
        assert found == SAMPLE.replace(before, after, 1).replace(" ", ""), (place, name, found)
    for place, name, arguments, words in REFUSED:
        try:
            found = getattr(mutation, name)(*arguments)(SAMPLE, place, "a.c")
        except ValueError as error:
            found = str(error)
        assert words in found, (place, name, found)


def main():
    mutate, papers, build, *left_out = sys.argv[1:]
    program = load(mutate)
    check_operations()
    table, tests = program.load_table(), test_names(build)
    troubles = list(program.troubles_of(table))
    troubles += [f"{row.name}: {NO_TEST} '{row.test}'" for row in table if row.test not in tests]
    troubles += troubles_of_papers(table, papers)
    if len(table) < LEAST:
        troubles.append(f"{len(table)} mutations, fewer than {LEAST}")
    return status_of(troubles, left_out, f"{len(table)} mutations")


if __name__ == "__main__":
    sys.exit(main())
