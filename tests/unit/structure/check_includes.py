#!/usr/bin/env python3
"""No include runs up, no files form a circle, and no two structs have one name.

usage: check_includes.py SOURCE

A source file and the header of its name are one module: the graph has an edge from the module that includes to the one that is
included. Rooms stand in ROOMS from the bottom up; a file includes from its own room and from those below.
"""

import pathlib
import re
import sys

# Folders from the bottom up, one list for each tree that stands by itself.
ROOMS = {
    "shim": ["policy", "policy/eviction", "shim/base", "shim/trace", "shim/driver", "shim/resource", "shim/cache",
             "shim/placement", "shim/region", "shim/residency", "shim/workspace", "shim/plug", "shim/sites", "shim/explain", "shim/pipeline",
             "shim/api", "shim/grow", "shim/start", "shim/hook"],
    "spgemm": ["spgemm"],
    "tools": ["tools/cli"],
}  # fmt: skip
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
DEFINITION = re.compile(r"^(?:static |const |typedef )*(struct|union|enum) ((?:gm|spg|gpumem)_\w+) \{", re.MULTILINE)
NAMED = ["policy", "shim", "spgemm", "tools/cli", "tools/gen", "tools/sim"]
SUFFIXES = {".c", ".h", ".S", ".cu", ".cuh", ".hpp"}


def sources(root, folder):
    return sorted(path for path in (root / folder).iterdir() if path.suffix in SUFFIXES)


def included(root, path):
    """Files of the project that `path` includes, relative to the root."""
    for name in INCLUDE.findall(path.read_text()):
        for candidate in (root / name, path.parent / name):
            if candidate.is_file():
                yield candidate.resolve().relative_to(root)
                break


def upward(root):
    for rooms in ROOMS.values():
        for level, room in enumerate(rooms):
            for path in sources(root, room):
                for target in included(root, path):
                    above = [other for other in rooms[level + 1 :] if target.parent == pathlib.Path(other)]
                    if above:
                        yield f"{path.relative_to(root)} includes {target}, which stands above it"


def twice_named(root):
    """Structs, unions and enums of the project's prefixes that several files define."""
    homes = {}
    for path in sorted(path for folder in NAMED for path in (root / folder).rglob("*") if path.suffix in SUFFIXES):
        for kind, name in DEFINITION.findall(path.read_text()):
            homes.setdefault(f"{kind} {name}", []).append(str(path.relative_to(root)))
    return {name: files for name, files in homes.items() if len(files) > 1}


def module_of(path):
    return str(path.with_suffix(""))


def graph_of(root):
    graph = {}
    for rooms in ROOMS.values():
        for room in rooms:
            for path in sources(root, room):
                edges = graph.setdefault(module_of(path.relative_to(root)), set())
                edges.update(module_of(target) for target in included(root, path))
    return {module: edges - {module} for module, edges in graph.items()}


def circles(graph):
    """Strongly connected modules of more than one, by Tarjan's algorithm."""
    index, low, stack, found = {}, {}, [], []

    def visit(module):
        index[module] = low[module] = len(index)
        stack.append(module)
        for target in sorted(graph.get(module, ())):
            if target not in index:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], index[target])
        if low[module] == index[module]:
            circle = []
            while not circle or circle[-1] != module:
                circle.append(stack.pop())
            if len(circle) > 1:
                found.append(sorted(circle))

    for module in sorted(graph):
        if module not in index:
            visit(module)
    return found


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    wrong = list(upward(root))
    wrong += ["a circle: " + ", ".join(circle) for circle in circles(graph_of(root))]
    wrong += [f"{name} is defined in {', '.join(files)}" for name, files in twice_named(root).items()]
    for line in wrong:
        print(line)
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
