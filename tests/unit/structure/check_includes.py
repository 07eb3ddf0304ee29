#!/usr/bin/env python3
"""No include and no call runs up, no modules form a circle, and no two structs have one name.

usage: check_includes.py SOURCE

A source file and the header of its name are one module. One graph has an edge from the module that includes to the one that is
included, the other from the module that calls a function to the one that defines it. Calls through function pointers are not
counted. Rooms stand in ROOMS from the bottom up; a file includes from its own room and from those below, and calls these. A call up
is one of the events of EVENTS, which the lower room publishes; no global pointer to a function calls up unseen.
Two lists hold the calls that still run up or close a circle. A line without need fails the test, too, so the lists only shrink.
"""

import pathlib
import re
import sys

# Folders from the bottom up, one list for each tree that stands by itself.
ROOMS = {
    "shim": ["policy", "policy/eviction", "shim/base", "shim/accounts", "shim/trace", "shim/driver", "shim/resource", "shim/cache",
             "shim/placement", "shim/region", "shim/residency", "shim/workspace", "shim/sites", "shim/explain", "shim/pipeline", "shim/suspend",
             "shim/api", "shim/plug", "shim/grow", "shim/start", "shim/hook", "shim/process"],
    "spgemm": ["spgemm"],
    "tools": ["tools/cli"],
}  # fmt: skip
EVENTS = "shim/base/events.h"
# Calls from a module to another that are allowed although they run up, or close a circle: each with its reason.
ALLOWED_UP = """
"""
ALLOWED_CIRCLES = """
shim/trace/chunks -> shim/trace/writer: a thread that fills a chunk numbers its events and wakes the flusher, which writes chunks
shim/cache/parts -> shim/cache/limits: what is inlined into a free calls the file for the rare case, and the file uses the parts
shim/residency/objects -> shim/residency/release: who forgets an object ends its copy; who ends a copy reads its object
shim/residency/objects -> shim/residency/transfer: who forgets an object gives its home back; a transfer reads its object
"""
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
DEFINITION = re.compile(r"^(?:static |const |typedef )*(struct|union|enum) ((?:gm|spg|gpumem)_\w+) \{", re.MULTILINE)
POINTER = re.compile(r"^(?!static |typedef )\w[\w *]*\(\*(?:const )?(gm_\w+)(?:\[\w*\])?\)\(", re.MULTILINE)
NAME = r"\b(?:gm|spg|gpumem)_\w+(?=\()"
TOKEN = re.compile(r"^[ \t]*#(?P<macro>(?:[^\n\\]|\\.)*)|(?P<brace>[{}])|" + NAME, re.MULTILINE | re.DOTALL)
ARGUMENTS = re.compile(r"\([^;{}]*\)\s*\{")
NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
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


def functions(text):
    """Names of the functions that `text` defines, and of those that it calls. A name outside of braces is declared only."""
    code = re.sub(r'extern\s+"C" \{', " ", NO_CODE.sub(lambda match: '"C"' if match[0] == '"C"' else " ", text))
    defined, called, depth = set(), set(), 0
    for match in TOKEN.finditer(code):
        if match["macro"]:
            names = re.findall(NAME, match[0])
            defined.update(names[:1] if re.match(r"\s*#\s*define\s+" + NAME, match[0]) else [])
            called.update(names)
        elif match["brace"]:
            depth += 1 if match[0] == "{" else -1
        elif depth:
            called.add(match[0])
        elif ARGUMENTS.match(code, match.end()):
            defined.add(match[0])
    return defined, called


def calls_of(root, events):
    """{module that calls: {module that is called: a file and a function}}, and the events that are published: calls up"""
    homes, files, published = {}, [], set()
    for path in (path for rooms in ROOMS.values() for room in rooms for path in sources(root, room)):
        path = path.relative_to(root)
        defined, called = functions((root / path).read_text())
        homes.update((name, module_of(path)) for name in defined)
        files.append((path, called))
    graph = {module_of(path): {} for path, _ in files}
    for path, called in files:
        for name in sorted(called & set(homes)):
            if name in events and is_upward(module_of(path), homes[name]):
                published.add(name)
            elif homes[name] != module_of(path):
                graph[module_of(path)].setdefault(homes[name], f"{path} calls {name}")
    return graph, published


def events_of(root):
    """The functions that rows of GM_EVENTS_LINKED declare."""
    rows = re.search(r"#define GM_EVENTS_LINKED\(X\)(?:.*\\\n)*.*", (root / EVENTS).read_text())[0]
    return set(re.findall(r"\bX\((gm_\w+),", rows))


def pointers(root):
    """Variables through which a room could call one above it unseen."""
    for room in ROOMS["shim"]:
        for path in sources(root, room):
            for name in POINTER.findall(path.read_text()):
                yield f"{path.relative_to(root)}: {name} is a global pointer to a function; make it an event of {EVENTS}"


def is_upward(module, other):
    """Whether `other` stands in a room above that of `module`."""
    rooms = [str(pathlib.Path(name).parent) for name in (module, other)]
    return any(set(rooms) <= set(tree) and tree.index(rooms[1]) > tree.index(rooms[0]) for tree in ROOMS.values())


def wrong_calls(graph, allowed_up, allowed_circles):
    """What is not allowed, and what is allowed without need."""
    up, ways = pairs(allowed_up), pairs(allowed_circles)
    for module, homes in graph.items():
        for home in sorted(home for home in homes if is_upward(module, home) and (module, home) not in up):
            yield f"{homes[home]} of {home}, which stands above it"
    rest = {module: {home for home in homes if (module, home) not in ways} for module, homes in graph.items()}
    for circle in circles(rest):
        yield "a circle of calls: " + ", ".join(circle)
        for module in circle:
            yield from (f"    {graph[module][home]} of {home}" for home in sorted(rest[module] & set(circle)))
    for module, home in sorted(up):
        if home not in graph.get(module, {}) or not is_upward(module, home):
            yield f"ALLOWED_UP needs no line {module} -> {home}"
    for module, home in sorted(ways):
        if home not in graph.get(module, {}) or not reaches(rest, home, module):
            yield f"ALLOWED_CIRCLES needs no line {module} -> {home}"


def pairs(lines):
    return {tuple(line.split(":")[0].split(" -> ")) for line in lines.split("\n") if line}


def reaches(graph, module, other):
    found, left = set(), [module]
    while left:
        found.add(here := left.pop())
        left += graph.get(here, set()) - found
    return other in found


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
    calls, published = calls_of(root, events_of(root))
    wrong += wrong_calls(calls, ALLOWED_UP, ALLOWED_CIRCLES)
    wrong += [f"{EVENTS} needs no row {event}" for event in sorted(events_of(root) - published)]
    wrong += pointers(root)
    wrong += [f"{name} is defined in {', '.join(files)}" for name, files in twice_named(root).items()]
    for line in wrong:
        print(line)
    check_itself()
    return 1 if wrong else 0


def check_itself():
    assert POINTER.findall("GM_INTERNAL extern bool (*gm_a)(int);\nvoid *(*gm_b[2])(void);\nstatic void (*gm_c)(void);") == ["gm_a", "gm_b"]
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    text = """/* gm_no(1) */ void gm_declared(void);\nint gm_defined(int a,\n    int b) { return gm_called(a, "gm_no(2)") + gm_pointer; }
#define gm_macro(a) \\\n    gm_by_macro(a)\nextern "C" {\nint gm_in_c(void);\n}\n"""
    assert functions(text) == ({"gm_defined", "gm_macro"}, {"gm_called", "gm_macro", "gm_by_macro"}), functions(text)
    graph = {"shim/base/a": {"shim/trace/b": "up"}, "shim/trace/b": {"shim/base/a": "down"}}
    assert len(list(wrong_calls(graph, "", ""))) == 4
    way = "shim/base/a -> shim/trace/b: why"
    assert not list(wrong_calls(graph, way, way))
    assert len(list(wrong_calls(graph, f"{way}\nshim/base/a -> shim/base/c", f"{way}\nshim/trace/b -> shim/base/c"))) == 2


if __name__ == "__main__":
    sys.exit(main())
