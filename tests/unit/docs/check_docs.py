#!/usr/bin/env python3
"""Checks that manual, completions and README say what the rows of options, policies and commands say.

usage: check_docs.py GPUMEM-ROWS names MAN1 MAN7 BASH ZSH FISH    every name stands where users look for it
       check_docs.py GPUMEM-ROWS man MAN...                       the pages format without a warning
       check_docs.py GPUMEM-ROWS bash BASH                        the completion completes
       check_docs.py GPUMEM-ROWS cli GPUMEM                       the program's own help has the same commands and flags
       check_docs.py GPUMEM-ROWS links SOURCE DOCUMENT...         what the documents name exists
       check_docs.py GPUMEM-ROWS demo README GPUMEM PROGRAM       the summary shown has the lines that the demo prints
       check_docs.py GPUMEM-ROWS readme README [--update]         lists between markers are current; its size is kept
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

README_LISTS = {'options': '--readme', 'policies': '--readme-policies'}
README_LINES, README_COLUMNS = 200, 120


def generated(rows, what):
    return subprocess.run([rows, what], check=True, capture_output=True, text=True).stdout


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


def has_word(text, word):
    return re.search(r'(?<![\w-])' + re.escape(word) + r'(?![\w-])', text) is not None


def check_names(rows, man1, man7, *completions):
    missing = []
    pages = {path: read(path).replace('\\-', '-').replace('\\fP', '') for path in (man1, man7)}
    shells = {path: read(path) for path in completions}
    fish = completions[-1]
    names = [line.split('\t') for line in generated(rows, '--names').splitlines()]
    if len(names) < 20:
        missing.append('the generator names next to nothing')
    for kind, name, *_ in names:
        places = {}
        if kind == 'option':
            places = {man7: name}
        elif kind == 'flag':
            places = {man1: '--' + name, **{path: '--' + name for path in shells}, fish: '-l ' + name}
        elif kind == 'policy':
            places = {man7: name, **{path: name for path in shells}}
        elif kind == 'part':
            places = {man1: '--' + name}
        elif kind == 'format':
            places = {man1: name, **{path: name for path in shells}}
        elif kind == 'command':
            places = {man1: 'gpumem ' + name, **{path: name for path in shells}}
        for path, word in places.items():
            if not has_word({**pages, **shells}[path], word):
                missing.append(f'{kind} {name} is not in {path}')
    return missing


def check_man(_, *pages):
    troubles = []
    groff = shutil.which('groff')
    if not groff:
        print('no groff here')
        sys.exit(77)
    for page in pages:
        result = subprocess.run([groff, '-ww', '-man', '-Kutf8', '-Tutf8', page], capture_output=True, text=True)
        if result.returncode or result.stderr:
            troubles.append(f'{page}: {result.stderr.strip() or result.returncode}')
        if re.search(r'\.\\" @|@[a-z]+@', result.stdout):
            troubles.append(f'{page}: a marker was not replaced')
        if re.search(r'^\.[A-Z]', result.stdout, re.M):
            troubles.append(f'{page}: a request stands in the text')
    return troubles


def complete(script, *words):
    quoted = ' '.join("'" + word + "'" for word in words)
    code = f'source "{script}"; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _gpumem; printf "%s\\n" "${{COMPREPLY[@]}}"'
    result = subprocess.run(['bash', '--norc', '-c', code], capture_output=True, text=True)
    return set(result.stdout.split()), result.stderr


def check_bash(rows, script):
    names = [line.split('\t') for line in generated(rows, '--names').splitlines()]
    commands = {name for kind, name, *_ in names if kind == 'command'}
    policies = {name for kind, name, *_ in names if kind == 'policy'}
    flags = {'--' + name for kind, name, *command in names if kind == 'flag' and command == ['run']}
    cases = [
        (('gpumem', ''), commands | {'--help', '--version'}),
        (('gpumem', 'r'), {name for name in commands if name.startswith('r')}),
        (('gpumem', 'run', '--'), flags),
        (('gpumem', 'run', '--trace-f'), {'--trace-format', '--trace-flush'}),
        (('gpumem', 'run', '--policy', ''), policies),
        (('gpumem', 'run', '--policy', '='), policies),
        (('gpumem', 'run', '--policy', '=', 'man'), {name for name in policies if name.startswith('man')}),
        (('gpumem', 'run', '--sim', '--fill', 'p'), {'poison'}),
        (('gpumem', 'run', '--policy', 'auto', '--fill', '=', 'z'), {'zero'}),
        (('gpumem', 'run', '--stacks', ''), set()),
        (('gpumem', 'run', '--strict', '--sta'), {'--stacks'}),
        (('gpumem', 'report', '--'), {'--' + name for kind, name, *of in names if kind == 'flag' and of == ['report']}),
        (('gpumem', 'report', '--lea'), {'--leaks'}),
        (('gpumem', 'diff', '--'), {'--color', '--help', '--json', '--skip', '--top', '--worse'}),
        (('gpumem', 'export', '--to', '=', 'p'), {'pprof', 'perfetto'}),
        (('gpumem', 'export', '--output', '/proc/self/statu'), {'/proc/self/status'}),
        (('gpumem', 'report', '--suppressions', '=', '/proc/self/statu'), {'/proc/self/status'}),
        (('gpumem', 'help', 's'), {name for name in commands if name.startswith('s')}),
        (('gpumem', 'trace', 's'), {'start', 'stop'}),
        (('gpumem', 'trace', 'd'), {'dump'}),
        (('gpumem', 'top', '--'), {'--color', '--help', '--json', '--batch', '--all', '--count', '--interval', '--group', '--sort', '--prometheus', '--sites'}),
        (('gpumem', 'top', '--interval', ''), set()),
        (('gpumem', 'plan', '--'), {'--help', '--lifetime', '--fit', '--force', '--headroom', '--as-rules', '--compare', '--output'}),
        (('gpumem', 'replay', '--'), {'--help', '--policy', '--limit', '--json'}),
        (('gpumem', 'plan', '/proc/self/statu'), {'/proc/self/status'}),
        (('gpumem', 'run', '--library', '=', '/proc/self/statu'), {'/proc/self/status'}),
        (('gpumem', 'report', '/proc/self/statu'), {'/proc/self/status'}),
        (('gpumem', 'run', '--policy', 'auto', 'cat', '/proc/self/statu'), {'/proc/self/status'}),
        (('gpumem', 'run', '--', 'cat', '/proc/self/statu'), {'/proc/self/status'}),
    ]
    wrong = []
    for words, expected in cases:
        got, errors = complete(script, *words)
        # options of the completion itself can be set only while completing; bash says so
        errors = [line for line in errors.splitlines() if 'compopt' not in line]
        if got != expected or errors:
            wrong.append(f'{" ".join(words)}: {sorted(got)} instead of {sorted(expected)} {errors}')
    return wrong


def check_cli(rows, gpumem):
    names = [line.split('\t') for line in generated(rows, '--names').splitlines()]
    overview = subprocess.run([gpumem, 'help'], check=True, capture_output=True, text=True).stdout
    wrong = []
    for command in [name for kind, name, *_ in names if kind == 'command' and name != 'help']:
        if not has_word(overview, command):
            wrong.append(f'gpumem help does not name {command}')
        text = subprocess.run([gpumem, 'help', command], check=True, capture_output=True, text=True).stdout
        shown = set(re.findall(r'^ +--([a-z-]+)', text, re.M)) | {'help'}
        documented = {line[1] for line in names if line[0] == 'flag' and line[2] == command}
        if shown != documented:
            wrong.append(f'{command}: help and manual differ in {sorted(shown ^ documented)}')
    return wrong


def check_readme(rows, path, update=None):
    text, wrong = read(path), []
    for name, what in README_LISTS.items():
        begin, end, current = f'<!-- {name} -->', f'<!-- /{name} -->', generated(rows, what).strip()
        if text.count(begin) != 1 or text.count(end) != 1:
            return [f'{path} needs {begin} and {end}, once each']
        head, rest = text.split(begin)
        shown, tail = rest.split(end)
        if update == '--update':
            text = f'{head}{begin}\n{current}\n{end}{tail}'
        elif shown.strip() != current:
            wrong.append(f'{path}: {name} are not current; run: check_docs.py {rows} readme {path} --update')
    if update == '--update':
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
    lines = text.splitlines()
    if len(lines) > README_LINES:
        wrong.append(f'{path} has {len(lines)} lines, at most {README_LINES} are allowed')
    wrong += [f'{path}:{at}: {len(line)} columns, at most {README_COLUMNS} are allowed'
              for at, line in enumerate(lines, 1) if len(line) > README_COLUMNS]
    return wrong


def check_links(_, source, *documents):
    """Markdown links, and files of the tree named in backquotes. Words in capitals stand for a name."""
    wrong = []
    for document in documents:
        text, folder = read(document), os.path.dirname(document)
        for link in re.findall(r'\]\(([^)]+)\)', text):
            if '://' not in link and not os.path.exists(os.path.join(folder, link)):
                wrong.append(f'{document}: link to {link}, which is not there')
        for name in re.findall(r'`([\w.-]+/[\w./-]*)`', text):
            places = [os.path.join(source, name), os.path.join(folder, name)]
            if not name.startswith('build/') and not re.search(r'[A-Z]{4}', name.replace('PAPERS', '')) and not any(map(os.path.exists, places)):
                wrong.append(f'{document}: names {name}, which is not there')
    return wrong


def check_demo(_, path, gpumem, program):
    """Numbers vary from run to run; what the lines are called does not."""
    def labels(text):
        return re.findall(r'^(?:    )?gpumem:   ([a-z-]+(?: [a-z-]+)*)  ', text, re.M)

    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([gpumem, 'run', '--sim', '--policy', 'active-list', '--trace', os.path.join(folder, 'demo.trace'), '--', program],
                             check=True, capture_output=True, text=True)
    printed, shown = labels(run.stderr), labels(read(path).split('<!-- demo -->')[1].split('<!-- /demo -->')[0])
    return [] if printed == shown and printed else [f'{path}: the demo shows {shown}, it prints {printed}']


def main():
    checks = {'demo': check_demo, 'links': check_links, 'names': check_names, 'man': check_man, 'bash': check_bash, 'cli': check_cli, 'readme': check_readme}
    if len(sys.argv) < 4 or sys.argv[2] not in checks:
        print(__doc__, file=sys.stderr)
        return 2
    troubles = checks[sys.argv[2]](sys.argv[1], *sys.argv[3:])
    print('\n'.join(troubles))
    return 1 if troubles else 0


if __name__ == '__main__':
    sys.exit(main())
