"""Dispatch on x86: what `--target=host` compiles runs the level that the processor has. qemu-x86_64 stands for older processors; it does not emulate
AVX-512, so x86-64-v4 is compiled and looked at only, unless this machine has it. MLC, BUILD and PYTHON in the environment."""

import os
import platform
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "weights"))
import weights
from weights import CC, MLC, check, command, compiled, model

# Processors of qemu and the level that each has; Conroe has SSSE3 only.
PROCESSORS = [("Conroe", None), ("Nehalem", "x86-64-v2"), ("SandyBridge", "x86-64-v2"), ("Haswell", "x86-64-v3"), ("EPYC", "x86-64-v3"), ("Haswell,-fma", "x86-64-v2")]
PROGRAM = os.path.join(os.path.dirname(weights.__file__), "program.c")


def build(folder, cc, sources, *options):
    program = os.path.join(folder, "program")
    status, text = command(*cc, "-O2", "-static", *options, "-I", folder, PROGRAM, *(os.path.join(folder, s) for s in sources), "-o", program)
    check(f"build {os.path.basename(folder)}", status == 0, text)
    return program


def forms(temp, source):
    """The model for all levels, made in every way: name, program."""
    for name, cc in ("gcc", ["gcc", "-Wall", "-Wextra", "-Werror"]), ("clang", ["clang", "-Wall", "-Wextra", "-Werror"]):
        yield name, build(compiled(f"{temp}/{name}", source), cc, ["big.c"])
    yield "object", build(compiled(temp + "/object", source, "--weights=object"), CC, ["big.c", "big.weights.o"])
    yield "LLVM", build(compiled(temp + "/llvm", source, output="big.o"), CC, ["big.o"])


def emulated(processor, program):
    """What the program prints on this processor, without qemu's remarks on what it cannot emulate."""
    lines = command("qemu-x86_64", "-cpu", processor, program)[1].splitlines()
    return "".join(line + "\n" for line in lines if "warning: TCG" not in line)


def instructions(path):
    """Names of functions and whether they use zmm registers."""
    zmm, name = {}, None
    for line in command("objdump", "-d", path)[1].splitlines():
        head = re.match(r"[0-9a-f]+ <(.+)>:", line)
        if head:
            name = head[1]
            zmm[name] = False
        elif "%zmm" in line:
            zmm[name] = True
    return zmm


def main():
    if platform.machine() != "x86_64":
        print("0 passed, 0 failed")
        return 0
    with tempfile.TemporaryDirectory() as temp:
        source = temp + "/big.onnx"
        model(source, 96, 7)
        bits = {None: "the processor lacks an instruction set this model was compiled for\n"}
        for level in "x86-64-v2", "x86-64-v3":
            folder = compiled(f"{temp}/{level}", source, f"--target={level}")
            bits[level] = emulated("Haswell", build(folder, CC, ["big.c"]))
        check("the levels can be told apart", len(set(bits.values())) == 3, bits)
        for name, program in forms(temp, source):
            for processor, level in PROCESSORS:
                found = emulated(processor, program)
                check(f"{name} on {processor}", found == bits[level], (found, bits[level]))
            zmm = instructions(program)
            wide = [f for f, z in zmm.items() if z and f.startswith("big_")]
            check(f"{name}: AVX-512 in v4 only", wide and all("x86_64_v4" in f for f in wide), wide)
            check(f"{name} here", command(program)[0] == 0)
        again = compiled(temp + "/again", source, "--target=x86-64")
        with open(again + "/big.c", encoding="utf-8") as one, open(temp + "/gcc/big.c", encoding="utf-8") as two:
            check("host is x86-64, whatever the machine", one.read() == two.read())
        native = command(MLC, "compile", source, "-o", "-", "--target=native")[1]
        check("native is one level", "x86_64_v2_body" not in native)
    print(f"{weights.passed} passed, {weights.failed} failed")
    return weights.failed > 0


if __name__ == "__main__":
    sys.exit(main())
