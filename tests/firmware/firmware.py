"""Compiled models on a Cortex-M4 (QEMU's mps2-an386), without libc: firmware.py. MLC and BUILD in the environment; needs Arm's gcc and QEMU.

A program is a model as C for cortex-m4, the checks that tests/emit writes for it (all input sets, all wrong calls) and start.c; its exit status
says whether they held. The model's object must need nothing but memcpy and memset.
"""

import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
EMIT = os.path.join(HERE, "..", "emit")
sys.path.insert(0, EMIT)

import harness
import models

MLC = os.environ["MLC"]
WORK = os.path.join(os.environ["BUILD"], "firmware")
CPU = ["-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard", "-mthumb"]
CC = ["arm-none-eabi-gcc", *CPU, "-std=c99", "-ffreestanding", "-Wall", "-Wextra", "-Werror"]
BOARD = ["-machine", "mps2-an386", "-nographic", "-monitor", "none", "-serial", "none", "-semihosting-config", "enable=on,target=native"]
# maker, options of `mlc compile` besides the case's own, memory regions that must be in use
PROGRAMS = [(models.gru, ["--region=fast=1088,slow=384"], 2), (models.lstm, [], 0), (models.mnist, ["--region=a=16K,b=26K"], 2), (models.mlp, [], 0)]


class Failure(Exception):
    pass


def run(command, status=0):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=120)
    text = done.stdout.decode(errors="replace")
    if done.returncode != status:
        raise Failure(f"status {done.returncode}, expected {status}: {' '.join(command)}\n{text[-3000:]}")
    return text


def cut(text, pattern):
    found = re.search(pattern, text)
    return int(found.group(1)) if found else 0


def object_of(case, level):
    """The model's object: what it needs, and its sizes."""
    base = os.path.join(WORK, case.name)
    path = f"{base}{level}.o"
    run([*CC, "-pedantic", level, "-c", base + ".c", "-o", path])
    needed = set(re.findall(r"\bU (\S+)", run(["arm-none-eabi-nm", "-u", path]))) - {"memcpy", "memset"}
    if needed:
        raise Failure(f"{case.name}: the object needs {' '.join(sorted(needed))}")
    sizes = {m[0]: int(m[1]) for m in re.findall(r"^(\.\S+)\s+(\d+)", run(["arm-none-eabi-size", "-A", path]), re.M)}
    code, constants, data, bss = (sum(v for k, v in sizes.items() if k.startswith(section)) for section in (".text", ".rodata", ".data", ".bss"))
    if data or bss:
        raise Failure(f"{case.name}: the object has writable data: .data {data}, .bss {bss}")
    return path, code, constants


def program(case, obj, tag, spoiled=False):
    base = os.path.join(WORK, case.name)
    listing, elf = f"{base}-models.c", f"{base}{tag}.elf"
    harness.write_models([case.name], listing, pool=False)
    sources = [os.path.join(HERE, "start.c"), os.path.join(EMIT, "harness.c"), f"{WORK}/check_{case.name}.c", listing]
    own = ["-O2", "-fno-tree-loop-distribute-patterns", "-I", EMIT, "-I", WORK, *(["-DSPOIL"] if spoiled else [])]
    run([*CC, *own, *sources, obj, "-nostdlib", "-T", os.path.join(HERE, "board.ld"), "-o", elf, "-lgcc"])
    return elf


def test(case, options, regions):
    path = os.path.join(WORK, case.name)
    run([MLC, "compile", path + ".onnx", "-o", path + ".c", "--target=cortex-m4", *case.options, *options])
    harness.write_check(case, WORK)
    with open(path + ".h", encoding="utf-8") as file:
        header = file.read()
    used = re.findall(r"_REGION_\w+_BYTES (\d+)", header)
    if len(used) != regions:
        raise Failure(f"{case.name}: {len(used)} memory regions in use, expected {regions}")
    arena, state = cut(header, r"_ARENA_BYTES (\d+)"), cut(header, r"_STATE_BYTES (\d+)")
    for level in "-O2", "-Os":
        obj, code, constants = object_of(case, level)
        text = run(["qemu-system-arm", *BOARD, "-kernel", program(case, obj, level)])
        print(f"ok   {case.name} {level}: code {code}, constants {constants}, arena {arena}, regions {' '.join(used) or 0}, state {state} bytes; {text.strip()}")
    run(["qemu-system-arm", *BOARD, "-kernel", program(case, obj, "-spoiled", True)], status=1)


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    passed = failed = 0
    for make, options, regions in PROGRAMS:
        case = make()
        if case is None:
            continue
        case.options = case.options + options
        try:
            test(models.finish(case, WORK), [], regions)
            passed += 1
        except Failure as fault:
            print(f"FAIL {fault}")
            failed += 1
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
