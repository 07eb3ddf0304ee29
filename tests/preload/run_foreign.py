#!/usr/bin/env python3
"""What the pages of other processes name: files that only the caller may read or write, groups of other users, pipes,
and links that lead out of a root. All of them are files of this test.

usage: run_foreign.py GPUMEM SHIM PROGRAM CUDA CASE
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import run_top
from commanded import NOBODY, Commanded, other_user
from run_top import GPUMEM, LIMIT_S, MIB, PROGRAM, SHIM, SKIP, Program, check, environment, equal, top

NAME = f"t{os.getpid()}"

# Holds a page of counters, as a process of `user` below the folder `root`.
HOLDER = """
import fcntl, os, struct, sys
page, user, root, group, trace = bytearray(open(sys.argv[1], 'rb').read()), int(sys.argv[2]), sys.argv[3], *map(os.fsencode, sys.argv[4:])
page[8:12] = struct.pack('i', os.getpid())
page[48:96] = group.ljust(48, b'\\0')
page[224:480] = trace.ljust(256, b'\\0')
fd = os.memfd_create('gpumem-stats', os.MFD_ALLOW_SEALING)
os.write(fd, page)
fcntl.fcntl(fd, 1033, 6)  # neither shrinks nor grows
if root != '/':
    os.chroot(root)
    os.chdir('/')
if user != os.geteuid():
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
print('ready', flush=True)
sys.stdin.read()
"""


class World:
    """A folder that all users can enter, and in it a page and what others must not reach."""

    def __init__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="gm")
        self.folder = pathlib.Path(self.temporary.name)
        self.folder.chmod(0o755)
        self.hidden = self.folder / "h"
        self.hidden.mkdir(mode=0o700)
        self.page = self.folder / "page"
        with Program() as program:
            program.do("alloc")
            self.page.write_bytes(run_top.descriptors(program.pid)[0].read_bytes())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.temporary.cleanup()

    @contextlib.contextmanager
    def holder(self, user=None, root="/", group="", trace=""):
        arguments = [self.page, os.geteuid() if user is None else user, root, group, trace]
        with subprocess.Popen([sys.executable, "-c", HOLDER, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            equal(process.stdout.readline(), "ready\n", "the process with the page")
            try:
                yield process.pid
            finally:
                process.stdin.close()

    def trace(self, path, owner=None):
        """A real trace of a program."""
        with Program(GPUMEM_TRACE=str(path), GPUMEM_TRACE_FLUSH="0") as program:
            program.do("alloc", "odd")
        if owner is not None:
            os.chown(path, owner, owner)
        return path


def gpumem(*arguments, status=0, **more):
    done = subprocess.run([GPUMEM, *map(str, arguments)], capture_output=True, text=True, timeout=LIMIT_S, env=environment(), **more)
    equal(done.returncode, status, f"status of {arguments}: {done.stderr}")
    if status:
        check(not done.stdout and done.stderr.startswith("gpumem: ") and done.stderr.count("\n") == 1, f"not one line: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def need_root():
    if os.geteuid():
        print("skipped: needs root, to act as another user")
        sys.exit(SKIP)


def group_names():
    """The name of a group leads to no other file, and nothing is made or filled by who only looks."""
    with World() as world:
        victim = world.hidden / "v"
        victim.touch(mode=0o600)
        name = f"{NAME}/../../..{victim}"
        anchors = {pathlib.Path(f"/dev/shm/gpumem-group-{user}-{NAME}") for user in (os.geteuid(), NOBODY)}
        try:
            for anchor in anchors:
                anchor.mkdir()
            for user in (os.geteuid(),) if os.geteuid() else (os.geteuid(), NOBODY):
                with world.holder(user, group=name) as pid:
                    for how in (["--json"], ["--prometheus"], ["--batch"]):
                        equal(top("--count=1", *how, pid)[0], 0, f"top {how}")
                        equal(victim.stat().st_size, 0, "bytes in a file that the page names")
                    check("accepted: 1 to 47" in gpumem("limit", pid, "1G", status=1), "limit of such a group")
        finally:
            for anchor in anchors:
                anchor.rmdir()
        empty = pathlib.Path(f"/dev/shm/gpumem-group-{os.geteuid()}-{NAME}")
        try:
            empty.touch(mode=0o600)
            with world.holder(group=NAME) as pid:
                top("--count=1", "--json", pid)
                check("no content yet" in top("--count=1", "--group=" + NAME)[2], "top of an empty group")
                check("no content yet" in gpumem("limit", NAME, status=1), "limit of an empty group")
                equal(empty.stat().st_size, 0, "who only looks fills nothing")
                check("limit 1.00 GiB" in gpumem("limit", NAME, "1G"), "who sets a limit makes the group")
        finally:
            empty.unlink()


def dumped():
    """A dump takes a trace of the process's user, and nobody else can read the copy."""
    need_root()
    with World() as world:
        copy = world.folder / "copy"
        hidden, text = world.trace(world.hidden / "t.gmt"), world.hidden / "text"
        text.write_text("a dummy that only its owner reads\n")
        own = world.trace(world.folder / "own.gmt", NOBODY)
        link = world.folder / "link.gmt"
        link.symlink_to(hidden)
        os.lchown(link, NOBODY, NOBODY)
        pipe = world.folder / "pipe"
        os.mkfifo(pipe)
        os.chown(pipe, NOBODY, NOBODY)
        plain = world.folder / "plain"
        plain.write_text("seq,time\n")
        os.chown(plain, NOBODY, NOBODY)
        for trace, words in ((hidden, "another user"), (link, "another user"), (text, "another user"), (pipe, "not a plain file"),
                             (plain, "no trace"), (world.folder, "is a directory"), (world.folder / "none", "No such file")):
            with world.holder(NOBODY, trace=trace) as pid:
                check(words in gpumem("trace", "dump", pid, f"--output={copy}", status=1), f"the reason for {trace}")
            check(not copy.exists(), f"a copy of {trace}")
        with world.holder(NOBODY, trace=own) as pid:
            gpumem("trace", "dump", pid, f"--output={copy}", umask=0)
        equal(copy.stat().st_mode & 0o777, 0o600, "rights of the copy")
        check("allocations" in gpumem("report", copy), "the copy")


def rooted():
    """Names are those that the process has: a link leads to no file outside of its root."""
    need_root()
    with World() as world:
        root = world.folder / "root"
        root.mkdir(mode=0o755)
        world.trace(root / "inside.gmt", NOBODY)
        outside = world.trace(world.folder / "outside.gmt", NOBODY)
        (root / "absolute.gmt").symlink_to("/inside.gmt")
        (root / "out.gmt").symlink_to(outside)
        (root / "up.gmt").symlink_to("../outside.gmt")
        for name, status in (("inside", 0), ("absolute", 0), ("out", 1), ("up", 1)):
            copy = world.folder / f"copy-{name}"
            with world.holder(NOBODY, root, trace=f"/{name}.gmt") as pid:
                gpumem("trace", "dump", pid, f"--output={copy}", status=status)
                sites = json.loads(top("--json", "--count=1", "--sites", pid)[1])["sites"]
            equal((copy.exists(), sites is not None), (not status, not status), f"dump and sites of {name}")


def pipes():
    """A pipe that nobody writes is named: no viewer waits for it."""
    with World() as world:
        pipe = world.folder / "pipe"
        os.mkfifo(pipe)
        with world.holder(trace=pipe) as pid:
            status, out, err = top("--batch", "--count=1", "--sites", pid)
            equal((status, err), (0, ""), "status of top")
            check("pipe: is not a plain file" in out, out)
            check("is not a plain file" in gpumem("trace", "dump", pid, f"--output={world.folder / 'copy'}", status=1), "dump")
        done = subprocess.run([PROGRAM], input="alloc\n", capture_output=True, text=True, timeout=LIMIT_S,
                              env=environment(LD_PRELOAD=SHIM, GPUMEM_POLICY=f"static:@{pipe}"))
        check(done.returncode == 0 and done.stderr.count("\n") == 1 and "is not a plain file" in done.stderr, done.stderr)


class Member(Commanded):
    def fill(self):
        """Blocks of 16 MiB until one is refused; their number."""
        taken = 0
        while True:
            self.process.stdin.write("try\n")
            self.process.stdin.flush()
            if self.process.stdout.readline() != "try 0\n":
                return taken
            taken += 1


def limits():
    """Root sees and changes the group of the process's user, not its own of the same name."""
    as_nobody = other_user(GPUMEM)
    if not as_nobody:
        sys.exit(SKIP)
    paths = [pathlib.Path(f"/dev/shm/gpumem-group-{user}-{NAME}") for user in (0, NOBODY)]
    more = environment(LD_PRELOAD=SHIM, GPUMEM_POLICY="cache", GPUMEM_GROUP=NAME, GPUMEM_LIMIT="32MiB", GPUMEM_OOM="trim,fail", GPUMEM_LOG="error")
    try:
        gpumem("limit", NAME, "64MiB")
        with Member([PROGRAM], LIMIT_S, env=more, **as_nobody) as member:
            equal(member.fill(), 2, "blocks below its limit")
            check("limit 32.00 MiB, 1 process" in gpumem("limit", member.pid), "its limit")
            equal(json.loads(top("--json", "--count=1", member.pid)[1])["limit_bytes"], 32 * MIB, "what top shows")
            check("limit 48.00 MiB, 1 process" in gpumem("limit", member.pid, "48MiB"), "its new limit")
            equal(member.fill(), 1, "blocks below the new limit")
            check("limit 64.00 MiB, 0 processes" in gpumem("limit", NAME), "the group of the caller")
            status, out, err = top("--json", "--count=1", "--group=" + NAME)
            equal((status, err, len(out.splitlines())), (0, "", 1), "top of the caller's group lists no process of others")
            os.truncate(paths[1], 0)
            check("no content yet" in gpumem("limit", member.pid, status=1), "a group that its owner cut")
            equal(top("--json", "--count=1", member.pid)[0], 0, "top of it")
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


def main():
    {function.__name__: function for function in (group_names, dumped, rooted, pipes, limits)}[sys.argv[5]]()


if __name__ == "__main__":
    main()
