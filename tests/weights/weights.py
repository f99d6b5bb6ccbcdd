"""Weights inline, in an object, in a file, in the caller's memory: the same bits everywhere; damaged, short and foreign ones are refused; sections;
what compiling 25 MB takes. MLC, BUILD and PYTHON in the environment."""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
MLC, BUILD = os.environ["MLC"], os.environ["BUILD"]
CC = os.environ.get("CC", "cc").split()
WRONG = (1, "the weights do not belong to this model\n")
ARM = ["arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mfloat-abi=hard"]
passed = failed = 0


def check(name, good, detail=""):
    global passed, failed
    if good:
        passed += 1
    else:
        failed += 1
        print(f"FAIL {name}: {str(detail).strip()[:400]}")


def command(*words, cwd=None):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False, cwd=cwd)
    return done.returncode, done.stdout + done.stderr


def model(path, hidden, seed):
    rng = np.random.default_rng(seed)
    shapes = {"a": (64, hidden), "b": (hidden, 32), "c": (32,)}
    arrays = [numpy_helper.from_array((rng.standard_normal(s) / 64).astype(np.float32), n) for n, s in shapes.items()]
    nodes = [helper.make_node("MatMul", ["x", "a"], ["h"]), helper.make_node("Relu", ["h"], ["r"]), helper.make_node("MatMul", ["r", "b"], ["m"]),
        helper.make_node("Add", ["m", "c"], ["y"])]  # fmt: skip
    value = lambda n, s: helper.make_tensor_value_info(n, TensorProto.FLOAT, s)  # noqa: E731
    graph = helper.make_graph(nodes, "big", [value("x", [1, 64])], [value("y", [1, 32])], arrays)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def build(folder, *options, sources=("big.c",), name="program"):
    program = os.path.join(folder, name)
    status, text = command(*CC, "-O1", "-I", folder, *options, os.path.join(HERE, "program.c"), *(os.path.join(folder, s) for s in sources),
        os.path.join(BUILD, "libmlc_runtime.a"), "-lpthread", "-ldl", "-lm", "-o", program)  # fmt: skip
    return program if status == 0 else check(f"build in {os.path.basename(folder)}", False, text)


def compiled(folder, source, *options, output="big.c"):
    os.makedirs(folder, exist_ok=True)
    status, text = command(MLC, "compile", source, "-o", os.path.join(folder, output), *options)
    check(f"compile {output} {' '.join(options)}", status == 0, text)
    return folder


def flip(path, at, bit):
    data = bytearray(open(path, "rb").read())
    data[at] ^= 1 << bit
    with open(path, "wb") as file:
        file.write(data)


def forms(temp, source, other):
    """All places give the same bits; returns them."""
    inline = compiled(temp + "/inline", source, "--weights=inline")
    _, bits = command(build(inline))
    check("bits", len(bits.split()) == 32, bits)
    usual = compiled(temp + "/object", source)
    check("the default above 4 MiB is an object", sorted(os.listdir(usual)) == ["big.c", "big.h", "big.weights.o"], os.listdir(usual))
    check("object", command(build(usual, sources=("big.c", "big.weights.o"))) == (0, bits))
    check("no warning of the linker", command(*CC, "-Wall", "-Werror", "-Wl,--fatal-warnings", "-I", usual, os.path.join(HERE, "program.c"), usual + "/big.c",
        usual + "/big.weights.o", "-o", usual + "/strict")[0] == 0)  # fmt: skip
    file = compiled(temp + "/file", source, "--weights=file")
    program = build(file)
    check("file", command(program, file + "/big.bin") == (0, bits), command(program, file + "/big.bin"))
    extern = compiled(temp + "/extern", source, "--weights=extern")
    check("extern writes no weights", sorted(os.listdir(extern)) == ["big.c", "big.h"])
    check("extern", command(build(extern), file + "/big.bin") == (0, bits))
    for backend in "llvm", "c":
        for option in "--weights=inline", "--weights=object":
            folder = compiled(temp + f"/so-{backend}{option}", source, f"--backend={backend}", option, output="big.so")
            check(f".so {backend} {option}", command(build(folder, "-DLOADER", sources=()), folder + "/big.so") == (0, bits))
            exported = {line.split()[-1] for line in command("nm", "-D", "--defined-only", folder + "/big.so")[1].splitlines()}
            check(f".so {backend} {option} exports", exported and not any("weights" in n or not n.startswith("big_") for n in exported), exported)
        folder = compiled(temp + f"/o-{backend}", source, f"--backend={backend}", output="big.o")
        check(f".o {backend}", command(build(folder, sources=("big.o", "big.weights.o"))) == (0, bits))
    loaded = compiled(temp + "/so-file", source, "--backend=c", "--weights=file", output="big.so")
    loader = build(loaded, "-DLOADER", sources=())
    return file, program, loaded, loader, usual, other, bits


def wrong(temp, file, program, loaded, loader, usual, other, bits):
    rng = np.random.default_rng(1)
    size = os.path.getsize(file + "/big.bin")
    for at in [0, 9, 20, 24, 32, 36, 41, 50, 127, size - 1, *rng.integers(128, size, 12)]:
        copy = temp + "/flipped.bin"
        shutil.copy(file + "/big.bin", copy)
        flip(copy, int(at), int(rng.integers(8)))
        check(f"bit flipped in byte {at}", command(program, copy) == WRONG, command(program, copy))
    shutil.copy(file + "/big.bin", temp + "/short.bin")
    os.truncate(temp + "/short.bin", size - 64)
    check("short file", command(program, temp + "/short.bin") == (1, "not mapped\n"))
    foreign = compiled(temp + "/foreign", other, "--weights=file")
    check("another model's file", command(program, foreign + "/big.bin") == WRONG, command(program, foreign + "/big.bin"))
    generic = compiled(temp + "/generic", temp + "/big.onnx", "--weights=file", "--target=generic")
    check("another target's file", command(program, generic + "/big.bin")[0] == 1)
    objects = compiled(temp + "/foreign-object", other)
    text = command(*CC, "-I", usual, os.path.join(HERE, "program.c"), usual + "/big.c", objects + "/big.weights.o", "-o", temp + "/x")
    check("another model's object does not link", text[0] != 0 and "undefined reference" in text[1], text)
    check("loader", command(loader, loaded + "/big.so") == (0, bits), command(loader, loaded + "/big.so"))
    flip(loaded + "/big.bin", size // 2, 3)
    check("loader refuses a damaged file", "damaged or another model's" in command(loader, loaded + "/big.so")[1], command(loader, loaded + "/big.so"))
    os.truncate(loaded + "/big.bin", size // 2)
    check("loader refuses a short file", "another size" in command(loader, loaded + "/big.so")[1])


def sections(temp, source):
    arm = compiled(temp + "/arm", source, "--target=cortex-m4", "--section=weights=.qspi")
    status, text = command(*ARM, "-c", "-O1", arm + "/big.c", "-o", arm + "/big.o")
    check("Arm source", status == 0, text)
    with open(arm + "/main.c", "w") as file:
        file.write("#include \"big.h\"\nvoid _exit(int c) { (void)c; for (;;) {} }\nint main(void) { return big_run(0, 0, 0); }\n")
    status, text = command(*ARM, "-nostartfiles", "-Wl,-e,main,--section-start=.qspi=0x90000000,--fatal-warnings", arm + "/main.c", arm + "/big.o",
        arm + "/big.weights.o", "-o", arm + "/image.elf")  # fmt: skip
    check("Arm image", status == 0, text)
    headers = command("arm-none-eabi-objdump", "-h", arm + "/image.elf")[1]
    check("weights in .qspi", any(line.split()[1:4:2] == [".qspi", "90000000"] for line in headers.splitlines() if len(line.split()) > 4), headers)
    small = compiled(temp + "/arm-inline", source, "--target=cortex-m4", "--section=weights=.qspi", "--weights=inline")
    command(*ARM, "-c", "-O1", small + "/big.c", "-o", small + "/big.o")
    headers = command("arm-none-eabi-objdump", "-h", small + "/big.o")[1]
    check("inline weights in .qspi", ".qspi" in headers, headers)
    llvm = compiled(temp + "/llvm-inline", source, "--section=weights=.far", "--weights=inline", output="big.o")
    check("LLVM's weights in .far", ".far" in command("readelf", "-SW", llvm + "/big.o")[1])


def usage(temp, source):
    for words, status, text in [
        (["-o", "x.c", "--weights=nowhere"], 2, "expected inline, object, file or extern, found 'nowhere'"),
        (["-o", "-", "--weights=file"], 2, "--weights=file goes with C written to a file"),
        (["-o", "x.so", "--backend=llvm", "--weights=file"], 2, "--weights=file goes through the C compiler: --backend=c"),
        (["-o", "x.c", "--section=text=a"], 2, "--section: expected weights=NAME"),
        (["-o", "x.c", "--section=weights=a b"], 2, "--section: expected weights=NAME"),
        (["-o", "x.c", "--section=weights=.q", "--weights=extern"], 2, "weights of --weights=extern are in no section"),
        (["-o", "x.c", "--target=generic", "--weights=object"], 3, "no object format is known for target generic"),
        (["-o", "x.ll", "--backend=c"], 2, "only LLVM writes .ll"),
        (["-o", "x.c", "--backend=eval"], 2, "--backend: expected llvm or c, found 'eval'"),
    ]:
        found = command(MLC, "compile", source, *words, cwd=temp)
        check(" ".join(words), found[0] == status and text in found[1], found)
    check("refused commands write nothing", not [n for n in os.listdir(temp) if n.startswith("x.")], os.listdir(temp))


def cost(temp):
    """25 MB: less than 5 s of CPU time, at most 1.3 x data + 100 MB of memory; the largest child of this process so far is smaller than that, or it fails."""
    source = temp + "/large.onnx"
    model(source, 65536, 5)
    megabytes = os.path.getsize(source) / 1e6
    begin = time.process_time()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    folder = compiled(temp + "/large", source, output="large.c")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime + time.process_time() - begin
    check(f"{megabytes:.0f} MB take {seconds:.1f} s", megabytes > 24 and seconds < 5)
    script = f"import resource, subprocess; subprocess.run([{MLC!r}, 'compile', {source!r}, '-o', {folder + '/large.c'!r}], check=True); " \
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"  # fmt: skip
    used = int(command(sys.executable, "-c", script)[1]) * 1024 / 1e6
    check(f"{megabytes:.0f} MB take {used:.0f} MB of memory", used <= 1.3 * megabytes + 100)


def main():
    with tempfile.TemporaryDirectory() as temp:
        source, other = temp + "/big.onnx", temp + "/other.onnx"
        model(source, 12000, 2)
        model(other, 12000, 3)
        wrong(temp, *forms(temp, source, other))
        sections(temp, source)
        usage(temp, source)
        cost(temp)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
