#!/usr/bin/env python3
"""Counts the instructions that a program executes: all, those of its function measured(), or those of measured() in one
library.

Not time, so a busy machine changes nothing.
usage: counted_work.py VALGRIND LIMIT all|measured|measured:LIBRARY [VARIABLE=VALUE ...] PROGRAM [ARGUMENT ...]
"""
import os
import re
import subprocess
import sys
import tempfile


def of_library(lines, library):
    """Sums the own costs of a library's functions in a callgrind profile: the second number of a line that begins with a
    position, unless the line before says that it is the cost of a call."""
    names, inside, of_call, total = {}, False, False, 0
    for line in lines:
        named = re.match(r'(c?)ob=\((\d+)\)(?: (.*))?$', line)
        if named:
            name = names.setdefault(named[2], named[3])
            inside = inside if named[1] else library in name
        elif re.match(r'[+*\d-]', line):
            total += int(line.split()[1]) if inside and not of_call else 0
        of_call = line.startswith('calls=')
    return total


def count_of_library(valgrind, library, variables, program):
    with tempfile.TemporaryDirectory() as folder:
        profile = os.path.join(folder, 'profile')
        subprocess.run([valgrind, '--quiet', '--tool=callgrind', '--callgrind-out-file=' + profile, '--toggle-collect=measured',
                        *program], check=True, stdout=subprocess.DEVNULL, env=os.environ | variables)
        with open(profile) as lines:
            return of_library(lines, library)


def count(valgrind, part, program):
    part = ['--toggle-collect=measured'] if part == 'measured' else []
    done = subprocess.run([valgrind, '--tool=callgrind', '--callgrind-out-file=' + os.devnull, *part, *program],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    counted = re.search(r'Collected : (\d+)', done.stderr)
    assert done.returncode == 0 and counted, done.stderr
    return int(counted[1])


def main(valgrind, limit, part, *program):
    variables = dict(word.split('=', 1) for word in program if '=' in word)
    program = [word for word in program if '=' not in word]
    part, _, library = part.partition(':')
    work = count_of_library(valgrind, library, variables, program) if library else count(valgrind, part, program)
    print(f'{work} instructions of {limit}: {" ".join(program)}')
    assert 0 < work <= int(limit)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
