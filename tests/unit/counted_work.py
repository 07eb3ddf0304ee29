#!/usr/bin/env python3
"""Counts the instructions that a program executes, all or those of its function measured().

Not time, so a busy machine changes nothing.
usage: counted_work.py VALGRIND LIMIT all|measured PROGRAM [ARGUMENT ...]
"""
import os
import re
import subprocess
import sys


def count(valgrind, part, program):
    part = ['--toggle-collect=measured'] if part == 'measured' else []
    done = subprocess.run([valgrind, '--tool=callgrind', '--callgrind-out-file=' + os.devnull, *part, *program],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    counted = re.search(r'Collected : (\d+)', done.stderr)
    assert done.returncode == 0 and counted, done.stderr
    return int(counted[1])


def main(valgrind, limit, part, *program):
    work = count(valgrind, part, program)
    print(f'{work} instructions of {limit}: {" ".join(program)}')
    assert 0 < work <= int(limit)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
