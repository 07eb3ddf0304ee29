#!/usr/bin/env python3
"""The completions complete in the shells themselves. Ends with 77 where the shell is not installed.

usage: check_shells.py fish SCRIPT | zsh SCRIPT
"""
import os
import shutil
import subprocess
import sys

SKIP = 77
# What is typed, and what must be offered or, of a single word, be put in its place.
CASES = [("gpumem repo", "report"), ("gpumem report --le", "--leaks"), ("gpumem top --so", "--sort"), ("gpumem run --polic", "--policy"),
         ("gpumem trace du", "dump")]
# An interactive zsh in a terminal of its own gets the text and the key of completion. It shows the expected word, or hangs.
ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1=; fpath=(${(q)1} \$fpath); autoload -Uz compinit; compinit -u -D; unsetopt list_beep; stty columns 200; echo rea''dy"
zpty -r shell text '*ready*'
zpty -w -n shell "$2"$'\t'
zpty -r shell text "*$3*"
print -r -- "$text"
zpty -d shell
"""


def run(*command):
    environment = {**os.environ, "TERM": "dumb"}
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, env=environment).stdout
    except subprocess.TimeoutExpired:
        return "nothing within 30 s"


def fish(script, typed, _):
    return run("fish", "--no-config", "-c", f"source '{script}'; complete -C '{typed}'")


def zsh(script, typed, expected):
    return run("zsh", "-f", "-c", ZSH, "zsh", os.path.dirname(script), typed, expected)


def main():
    shell, script = sys.argv[1], os.path.abspath(sys.argv[2])
    if not shutil.which(shell):
        print(f"no {shell}")
        return SKIP
    status = 0
    for typed, expected in CASES:
        shown = {"fish": fish, "zsh": zsh}[shell](script, typed, expected)
        if expected not in shown:
            print(f"{shell}: '{typed}' is not completed to {expected}:\n{shown}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
