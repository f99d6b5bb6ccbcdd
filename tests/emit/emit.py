"""Emitted C under every compiler and checker: emit.py [PATTERN] runs all tests, or those whose name matches the regular expression.

MLC, BUILD and SANITIZED (a folder with another mlc) stand in the environment; needs gcc, g++, clang, valgrind.

Each model of models.py is compiled as generic C99 and, on x86-64, as hosted C. A test is one thing shown of one file or program; see the functions
below. Programs check themselves (harness.py); their expectations are shown to be able to fail by one run with all of them changed.
"""

import itertools
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import harness
import models

HERE = os.path.dirname(os.path.abspath(__file__))
MLC = os.environ["MLC"]
OTHER_MLC = os.path.join(os.environ["SANITIZED"], "mlc")
WORK = os.path.join(os.environ["BUILD"], "emit")
RUNTIME = os.path.join(HERE, "..", "..", "runtime")
JOBS = int(os.environ.get("MLC_JOBS") or os.cpu_count())
STRICT = ["-Wall", "-Wextra", "-Werror"]
C99 = ["-std=c99", "-pedantic", *STRICT]
LIBRARY = {"memcpy", "memset", "_GLOBAL_OFFSET_TABLE_"}  # the last is the linker's, where code is position independent
HOSTED_LIBRARY = {"memmove"}  # what gcc makes of a loop that copies; a hosted C library has it
COMPILERS = "gcc", "clang"
CASES = [models.mlp, models.conv, models.lstm, models.gru, models.order, models.types, models.mnist]


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **options)
    return done.returncode, done.stdout.decode(errors="replace")


def succeeds(command, **options):
    """None, or what the command said."""
    status, text = run(command, **options)
    return f"status {status}: {' '.join(command)}\n{text[-2000:]}" if status else None


class Target:
    """A folder with all models emitted for one target."""

    def __init__(self, name, flags):
        self.name, self.flags, self.folder = name, flags, os.path.join(WORK, name)
        os.makedirs(self.folder)

    def emit(self, case, mlc=MLC, folder=None):
        folder = folder or self.folder
        options = [f"--target={self.name}", *case.options, *(["--threads=2"] if case.threads else [])]
        return succeeds([mlc, "compile", os.path.join(folder, case.name + ".onnx"), "-o", os.path.join(folder, case.name + ".c"), *options])

    def path(self, case, suffix=".c"):
        return os.path.join(self.folder, case.name + suffix)

    def program(self, cases, cc, flags, tag, link=()):
        """Builds a program of the models and their checks; flags are for the models. Its path, or what went wrong."""
        out = os.path.join(self.folder, f"program-{tag}")
        listing = f"{out}.c"
        harness.write_models([c.name for c in cases], listing)
        include = ["-I", HERE, "-I", RUNTIME, "-I", self.folder]
        objects = []
        for c in cases:
            objects.append(f"{out}-{c.name}.o")
            if fault := succeeds([cc, *flags, "-c", self.path(c), "-o", objects[-1]]):
                return None, fault
        sources = [os.path.join(HERE, "harness.c"), os.path.join(HERE, "host.c"), os.path.join(RUNTIME, "pool.c"), listing]
        sources += [os.path.join(self.folder, f"check_{c.name}.c") for c in cases]
        fault = succeeds([cc, "-std=gnu11", "-w", *link, *include, *sources, *objects, "-lpthread", "-o", out])
        return (None, fault) if fault else (out, None)


def targets():
    found = [Target("generic", C99)]
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        if " avx2 " in file.read():
            found.append(Target("x86-64-v3", ["-std=gnu11", *STRICT]))
        else:
            print("left out: hosted C (this processor has no AVX2)")
    return found


# ---- one file ----
def undefined(path):
    _, text = run(["nm", "-u", path])
    return set(re.findall(r"\bU (\S+)", text))


def compiles(target, case, cc, flags):
    """Without a warning, and the object needs nothing but memcpy and memset."""
    path = target.path(case, f"-{cc}-{len(flags)}.o")
    if fault := succeeds([cc, *target.flags, *flags, "-c", target.path(case), "-o", path]):
        return fault
    needed = undefined(path) - LIBRARY - (set() if target.name == "generic" else HOSTED_LIBRARY)
    return f"the object needs {' '.join(sorted(needed))}" if needed else None


def header(target, case, compiler, flags):
    return succeeds([compiler, *flags, "-pedantic", *STRICT, "-fsyntax-only", target.path(case, ".h")])


def alone(target, case):
    """One self-contained file on standard output."""
    path = target.path(case, "-alone.c")
    with open(path, "wb") as file:
        done = subprocess.run([MLC, "compile", target.path(case, ".onnx"), "-o", "-", f"--name={case.name}", f"--target={target.name}", *case.options],
                              stdout=file, stderr=subprocess.PIPE, check=False)
    return done.stderr.decode() if done.returncode else succeeds(["gcc", *target.flags, "-O1", "-c", path, "-o", path + ".o"])


def repeats(target, case):
    """Another build of mlc gives the same bytes from a copy elsewhere."""
    folder = os.path.join(target.folder, "again", case.name)
    os.makedirs(folder)
    shutil.copy(target.path(case, ".onnx"), folder)
    if fault := target.emit(case, OTHER_MLC, folder):
        return fault
    for suffix in ".c", ".h":
        with open(target.path(case, suffix), "rb") as one, open(os.path.join(folder, case.name + suffix), "rb") as two:
            if one.read() != two.read():
                return f"{case.name}{suffix} differs from the one in {folder}"
    return None


def spreads(target, case):
    with open(target.path(case), encoding="utf-8") as file:
        text = file.read()
    return None if "parallel_for(env->pool" in text else "--threads=2 made no kernel parallel"


# ---- programs ----
def checked(target, cases, cc, flags, tag, before=(), threads=1):
    sanitize = [f for f in flags if f.startswith("-f")]
    program, fault = target.program(cases, cc, [*target.flags, *flags], tag, sanitize)
    return fault or succeeds([*before, program, str(threads)])


def races(target, cases):
    """Under ThreadSanitizer, which some kernels' address layout keeps from starting."""
    fault = checked(target, cases, "gcc", ["-O1", "-g", "-fsanitize=thread"], "tsan", (), 2)
    if fault and "unexpected memory mapping" in fault:
        print(f"left out: {target.name} under TSan (it does not start here)")
        return None
    return fault


def can_fail(target, cases):
    """With every expectation changed, every comparison fails."""
    program, fault = target.program(cases, "gcc", ["-O1"], "spoil")
    if fault:
        return fault
    comparisons = 0
    for c in cases:
        with open(os.path.join(target.folder, f"check_{c.name}.c"), encoding="utf-8") as file:
            comparisons += len(re.findall(r"CHECK\(close_|CHECK\(equal_|spoil, ", file.read()))
    status, text = run([program, "1", "spoil"])
    found = text.count("FAIL ")
    return None if status == 1 and found == comparisons else f"{found} of {comparisons} comparisons failed, status {status}"


def bits(target, cases, build):
    """What a build prints with one and with two threads."""
    cc, std, level = build
    tag = "-".join(["bits", cc, std, level[0]])
    program, fault = target.program(cases, cc, [f"-std={std}", *level], tag, level)
    if fault:
        return fault, fault
    return tuple(run([program, threads, "bits"])[1] for threads in "12")


def same_bits(target, cases, pool):
    builds = list(itertools.product(COMPILERS, ("c99", "gnu11"), (("-O0",), ("-O3", "-flto"))))
    results = list(pool.map(lambda build: bits(target, cases, build), builds))
    first = results[0][0]
    lines = len([line for line in first.splitlines() if re.match(r"\w+ \d+ \w+ -?\d+$", line)])
    if lines < len(cases) * 2:
        return [("the first build's outputs", first)]
    tests = []
    for (cc, std, level), texts in zip(builds, results, strict=True):
        for threads, text in zip("12", texts, strict=True):
            tests.append((f"same bits: {cc} -std={std} {' '.join(level)}, threads: {threads}", None if text == first else f"{text}\nbut the first build gives\n{first}"))
    return tests


def one_target(target, cases, pool, pattern):
    """Tests of a target as (name, what went wrong or None), which run as `pool` has room."""
    work = []

    def test(name, function, *args):
        if re.search(pattern, f"{target.name}: {name}"):
            work.append((f"{target.name}: {name}", pool.submit(function, target, *args)))

    for case in cases:
        for cc in COMPILERS:
            for flags in ["-O2"], ["-O2", "-ffreestanding"]:
                test(f"{case.name}.c, {cc} {' '.join(flags)}", compiles, case, cc, flags)
            test(f"{case.name}.h, {cc} -std=c99", header, case, cc, ["-x", "c", "-std=c99"])
        for cxx in "g++", "clang++":
            test(f"{case.name}.h, {cxx} -std=c++17", header, case, cxx, ["-x", "c++", "-std=c++17"])
        test(f"{case.name}, two compilations", repeats, case)
        if case.threads:
            test(f"{case.name}, parallel kernels", spreads, case)
    test(f"{cases[0].name} as one file", alone, cases[0])
    sanitizers = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    for cc in COMPILERS:
        test(f"all models under ASan and UBSan, {cc}", checked, cases, cc, sanitizers, f"asan-{cc}")
    memcheck = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full"]
    test("all models under valgrind", checked, cases, "gcc", ["-O2", "-g"], "valgrind", memcheck)
    test("all models with three threads", checked, cases, "clang", ["-O2"], "threads", (), 3)
    test("all models under TSan with two threads", races, cases)
    test("expectations can fail", can_fail, cases)
    return work


def main(pattern):
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    cases = [models.finish(c, WORK) for c in (make() for make in CASES) if c]
    tests = []
    with ThreadPoolExecutor(JOBS) as pool:
        for target in targets():
            for case in cases:
                shutil.copy(os.path.join(WORK, case.name + ".onnx"), target.folder)
                fault = target.emit(case)
                tests.append((f"{target.name}: {case.name} is emitted", fault))
                if not fault:
                    harness.write_check(case, target.folder)
            good = [c for c in cases if os.path.exists(target.path(c))]
            tests += [(name, future.result()) for name, future in one_target(target, good, pool, pattern)]
            chosen = [c for c in good if c.name in ("conv", "lstm", "mnist" if any(c.name == "mnist" for c in good) else "mlp")]
            if re.search(pattern, f"{target.name}: same bits"):
                tests += [(f"{target.name}: {name}", fault) for name, fault in same_bits(target, chosen, pool)]
    for name, fault in tests:
        if fault:
            print(f"FAIL {name}\n{fault}")
    failed = sum(fault is not None for _, fault in tests)
    print(f"{len(tests) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
