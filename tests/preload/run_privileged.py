#!/usr/bin/env python3
"""A set-uid program that is linked to the library: the library reads no option, opens no file and quotes none, since it
would do so with the rights of another user than the one whose environment it is.

usage: run_privileged.py PROGRAM
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from commanded import NOBODY, other_user

SKIP, LIMIT_S = 77, 60
SECRET = "a-dummy-that-only-its-owner-reads"


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIP)


def run(program, folder, options):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GPUMEM_", "SIMCUDA_", "LD_"))}
    done = subprocess.run([program], capture_output=True, text=True, timeout=LIMIT_S, env={**kept, **options}, cwd=folder)
    return done.returncode, done.stdout, done.stderr, sorted(os.listdir(folder / "traces"))


def main():
    if not other_user(sys.argv[1]):
        sys.exit(SKIP)
    with tempfile.TemporaryDirectory(prefix="gm") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        program, secret, traces, config = (folder / part for part in ("program", "secret", "traces", "config"))
        shutil.copy(sys.argv[1], program)
        secret.write_text(SECRET + "\n")
        secret.chmod(0o600)
        traces.mkdir()
        config.write_text(f"trace = {traces}/config.gmt\n")
        for path in (program, secret, traces, config):
            os.chown(path, NOBODY, NOBODY)
        options = {"GPUMEM_TRACE": f"{traces}/t.gmt", "GPUMEM_TRACE_FLUSH": "0", "GPUMEM_POLICY": f"static:@{secret}", "GPUMEM_LOG": "info",
                   "GPUMEM_COVERAGE": "1", "GPUMEM_CONFIG": str(config), "GPUMEM_GROUP": f"t{os.getpid()}", "GPUMEM_UNKNOWN": "1"}
        program.chmod(0o755)
        status, out, err, made = run(program, folder, options)
        assert (status, out) == (0, "ok plain\n") and SECRET in err and made == ["t.gmt"], (status, out, err, made)
        (traces / "t.gmt").unlink()
        pathlib.Path(f"/dev/shm/gpumem-group-0-t{os.getpid()}").unlink()
        program.chmod(0o4755)
        status, out, err, made = run(program, folder, options)
        if out == "ok plain\n":
            skip("this file system has no set-uid programs")
        assert (status, out, err, made) == (0, "ok privileged\n", "", []), (status, out, err, made)
        assert not list(pathlib.Path("/dev/shm").glob(f"gpumem-group-*-t{os.getpid()}")), "a group was made"


if __name__ == "__main__":
    main()
