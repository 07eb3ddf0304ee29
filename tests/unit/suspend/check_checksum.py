#!/usr/bin/env python3
"""The kernel that computes checksums on the device (shim/suspend/checksum_kernel.h) and its host twin agree with the polynomial.

usage: check_checksum.py PROGRAM CUDA-FOLDER WORK-FOLDER [PTXAS]

There is no GPU here, so the text of the kernel is interpreted, all threads of a block side by side, for a page of few words. With
PTXAS the text is also translated for the cards that it knows.
"""

import os
import pathlib
import random
import re
import subprocess
import sys

P, MASK, THREADS, ROUNDS = (1 << 61) - 1, (1 << 64) - 1, 256, 2
PAGE = 2 << 20
PROGRAM, CUDA, WORK, *PTXAS = sys.argv[1:]


def check(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


def polynomial(words, key):
    total = 0
    for word in words:
        total = (total * key + word) % P
    return total


def words_of(data):
    return memoryview(data).cast("I")


class Block:
    """One block of threads that runs the text; a register is a list with a value for each thread."""

    def __init__(self, text, parameters, memory):
        lines = [line.strip() for line in text[text.index("{") :].replace(";", "\n").splitlines()]
        self.lines = [line for line in lines if line and not line.startswith((".", "{", "}"))]
        self.labels = {line[:-1]: i for i, line in enumerate(self.lines) if line.endswith(":")}
        self.parameters, self.memory = parameters, memory
        self.shared, self.registers, self.carry, self.stored = {}, {"%tid.x": range(THREADS), "%ctaid.x": [0] * THREADS, "parts": [0] * THREADS}, [0] * THREADS, {}  # fmt: skip

    def values(self, operand):
        return [int(operand, 0)] * THREADS if operand[0].isdigit() else self.registers[operand]

    def address(self, operand):
        name, _, offset = operand.strip("[]").partition(" + ")
        return [value + int(offset or 0) for value in self.registers[name]]

    def run(self):
        at = 0
        while at < len(self.lines):
            line = self.lines[at]
            at += 1
            predicate, line = re.fullmatch(r"(?:@(\w+) )?(.*)", line).groups()
            if line.endswith(":") or line in ("bar.sync 0", "ret"):
                continue
            operation, _, rest = line.partition(" ")
            operands = [part.strip() for part in re.findall(r"\{[^}]*\}|\[[^]]*\]|[^,{}\[\]\s]+", rest)]
            if operation == "bra":
                taken = self.registers[predicate]
                if operands[0] == "done":  # all but one thread leave
                    check(taken == [thread > 0 for thread in range(THREADS)], "the first thread alone stores")
                    continue
                check(len(set(taken)) == 1, f"the threads part at {line}")
                at = self.labels[operands[0]] if taken[0] else at
                continue
            self.step(operation, operands, predicate)

    def step(self, operation, operands, predicate):
        name, kind = operation.split(".")[0], operation.split(".")[-1]
        if name == "ld" and "param" in operation:
            results = [[self.parameters[operands[1].strip("[]")]] * THREADS]
        elif name == "ld":
            count = 4 if ".v4." in operation else 1
            source = self.shared if "shared" in operation else self.memory
            step = int(kind[1:]) // 8
            results = [[source[address + i * step] for address in self.address(operands[1])] for i in range(count)]
        elif name == "st":
            values = [self.registers[register] for register in operands[1].strip("{}").split(", ")]
            for thread, address in enumerate(self.address(operands[0])):
                if "shared" in operation:
                    self.shared.update({address + 8 * i: value[thread] for i, value in enumerate(values)})
                elif thread == 0:
                    self.stored = [value[thread] for value in values]
            return
        else:
            results = [self.compute(operation, name, kind, [self.values(operand) for operand in operands[1:]])]
        for register, result in zip(operands[0].strip("{}").split(", "), results, strict=True):
            if predicate:
                result = [new if chosen else old for new, chosen, old in zip(result, self.registers[predicate], self.registers[register])]
            self.registers[register] = result

    def compute(self, operation, name, kind, sources):
        whole = {
            "mov": lambda a: a, "cvt": lambda a: a, "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "and": lambda a, b: a & b,
            "or": lambda a, b: a | b, "shl": lambda a, b: a << b, "shr": lambda a, b: a >> b, "addc": lambda a, b: a + b,
            "mul": lambda a, b: a * b >> 64 if ".hi." in operation else a * b,
            "mad": lambda a, b, c: (a * b & MASK) + c, "madc": lambda a, b, c: (a * b >> 64) + c,
            "setp": lambda a, b: {"ne": a != b, "lt": a < b, "ge": a >= b}[operation.split(".")[1]],
        }[name]  # fmt: skip
        results = [whole(*values) + (carry if name in ("addc", "madc") else 0) for *values, carry in zip(*sources, self.carry)]
        if ".cc." in operation:
            self.carry = [result >> 64 for result in results]
        if name == "setp":
            return results
        mask = MASK if kind.endswith("64") or ".wide." in operation else (1 << 32) - 1
        return [result & mask for result in results]


def interpret(text, data, keys):
    memory = {1 << 40: 1 << 41} | {(1 << 41) + 4 * i: word for i, word in enumerate(words_of(data))}
    short = text.replace("mov.u32 left, 256", f"mov.u32 left, {ROUNDS}")
    check(short != text, "the number of rounds is not found")
    block = Block(short, {"pages": 1 << 40, "sums": 0, "first_key": keys[0], "second_key": keys[1]}, memory)
    block.run()
    return block.stored


def pages(choose):
    """Pages that differ little, of zeros, of ones, and of random words."""
    some = bytearray(choose.randbytes(PAGE))
    other = bytearray(some)
    other[PAGE - 1] ^= 1
    return [some, other, bytes(PAGE), b"\xff" * PAGE]


def twin(data, keys):
    file = pathlib.Path(WORK)
    file.mkdir(parents=True, exist_ok=True)
    (file / "pages").write_bytes(b"".join(data))
    environment = {**os.environ, "LD_LIBRARY_PATH": CUDA}
    out = subprocess.run([PROGRAM, "sums", file / "pages", *map(str, keys)], capture_output=True, text=True, check=True, env=environment).stdout
    return [list(map(int, line.split())) for line in out.splitlines()]


def main():
    text = subprocess.run([PROGRAM, "text"], capture_output=True, text=True, check=True, env={**os.environ, "LD_LIBRARY_PATH": CUDA}).stdout
    choose = random.Random(5)
    short = THREADS * 16 * 2 * ROUNDS
    keys = [choose.randrange(1, P), P - 1]
    data = pages(choose)
    for page in data:
        expected = [polynomial(words_of(page)[: short // 4], key) for key in keys]
        check(interpret(text, bytes(page[:short]), keys) == expected, "the kernel's text computes another sum")
    expected = [[polynomial(words_of(page), key) for key in keys] for page in data]
    check(twin(data, keys) == expected, "the twin computes another sum")
    check(expected[2] == [0, 0] and expected[0] != expected[1], "zeros have the sum zero")
    for card in ("sm_75", "sm_80", "sm_90", "sm_100") if PTXAS else ():
        done = subprocess.run([PTXAS[0], f"-arch={card}", "-o", os.devnull, "-"], input=text, capture_output=True, text=True)
        check(done.returncode == 0, f"{card}: {done.stdout}{done.stderr}")


main()
