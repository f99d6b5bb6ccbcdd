"""What every kind of output promises, whatever the backend, the target and the place of the weights: all symbols that others see begin with the prefix and
nothing is needed but memcpy, memset and memmove; another folder, locale, time zone, number of processors, load and build of mlc give the same bytes; two
models live in one program, with two threads on each. MLC, BUILD, SANITIZED and PYTHON in the environment."""

import itertools
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "weights"))
import weights
from weights import BUILD, CC, MLC, check, command, model

HERE = os.path.dirname(os.path.abspath(__file__))
OTHER = os.path.join(os.environ["SANITIZED"], "mlc")
NEEDED = {"memcpy", "memset", "memmove", "_GLOBAL_OFFSET_TABLE_", "_DYNAMIC"}
TARGETS = "x86-64", "x86-64-v2", "generic"  # the first: code for three levels and a choice among them
# Suffix, backend and place of the weights of every output there is.
FORMS = [
    *((".c", "c", place) for place in ("inline", "object", "file", "extern")),
    *((suffix, backend, place) for suffix in (".o", ".so") for backend in ("llvm", "c") for place in ("inline", "object")),
    *((suffix, "c", place) for suffix in (".o", ".so") for place in ("file", "extern")),
    *((suffix, "llvm", "inline") for suffix in (".ll", ".bc")),
]


def outputs():
    """All that can be made: (target, suffix, backend, place)."""
    for target, (suffix, backend, place) in itertools.product(TARGETS, FORMS):
        if target == "generic" and place == "object":
            continue  # it has no object format
        yield target, suffix, backend, place


def emit(mlc, source, folder, name, form, before=(), **options):
    """Compiles in `folder`; status and text."""
    target, suffix, backend, place = form
    words = [*before, mlc, "compile", source, "-o", os.path.join(folder, name + suffix), f"--target={target}", f"--weights={place}", f"--name={name}"]
    words += [f"--backend={backend}"] if suffix in (".o", ".so") else []
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    return done.returncode, done.stdout


def contents(folder):
    found = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            found[name] = file.read()
    return found


def symbols(path, dynamic):
    """Names that others see and names that others must give."""
    shown, wanted = set(), set()
    for line in command("nm", *(["-D"] if dynamic else ["-g"]), path)[1].splitlines():
        found = re.match(r"[0-9a-f ]{16} (\w) ([^@]+)", line)
        if found:
            (wanted if found[1] in "Uw" else shown).add(found[2])
    return shown, wanted


def objects(folder, suffix):
    """The object files and libraries of an output; C is compiled."""
    if suffix == ".c":
        status, text = command(*CC, "-O1", "-fPIC", "-c", folder + "/m.c", "-o", folder + "/m.compiled.o", cwd=folder)
        check("compile the C", status == 0, text)
    return [os.path.join(folder, n) for n in sorted(os.listdir(folder)) if n.endswith((".o", ".so"))]


def one_output(source, temp, number, form):
    title = f"{form[1]} {form[2]} {form[3]} for {form[0]}"
    first, second = (os.path.join(temp, f"{number}", *rest) for rest in (["a"], ["b", "deeper ü"]))
    for folder in first, second:
        os.makedirs(folder)
    status, text = emit(MLC, source, first, "m", form)
    if not check_true(f"{title}: is written", status == 0, text):
        return
    # The sanitized mlc writes the same, but is slow: it takes every third.
    mlc = OTHER if number % 3 == 0 and form[2] == "c" else MLC
    surroundings = {**os.environ, "LC_ALL": "de_DE.UTF-8", "LANG": "tr_TR.UTF-8", "TZ": "Asia/Tokyo", "HOME": second, "MLC_JOBS": "1"}
    status, text = emit(mlc, os.path.relpath(source, second), ".", "m", form, ["taskset", "-c", "0"], cwd=second, env=surroundings)
    one, two = contents(first), contents(second)
    differing = [n for n in sorted({*one, *two}) if one.get(n) != two.get(n)]
    check(f"{title}: the same bytes of {' '.join(one)}", status == 0 and one and not differing, differing or text)
    if form[1] in (".ll", ".bc"):
        return
    for path in objects(first, form[1]):
        shown, wanted = symbols(path, path.endswith(".so"))
        name = f"{title}: {os.path.basename(path)}"
        check(f"{name} shows its prefix only", shown and all(s.startswith("m_") for s in shown), shown)
        wanted = {s for s in wanted if not s.startswith("m_weights")} - NEEDED
        check(f"{name} needs nothing", not wanted or path.endswith(".so") and all(s.startswith("_") for s in wanted), wanted)


def check_true(name, good, detail):
    check(name, good, detail)
    return good


def two_models(temp, one, two):
    """Both models in one program, two threads on each; the same bits in every form for one level."""
    forms = [(".c", "c", "inline"), (".c", "c", "object"), (".c", "c", "file"), (".o", "llvm", "inline"), (".o", "llvm", "object"), (".o", "c", "object")]
    for target in TARGETS:
        bits = set()
        for form in forms:
            if target == "generic" and form[2] == "object":
                continue
            folder = os.path.join(temp, f"two-{target}-{form[0][1:]}-{form[1]}-{form[2]}")
            os.makedirs(folder)
            good = all(emit(MLC, source, folder, name, (target, *form))[0] == 0 for name, source in (("one", one), ("two", two)))
            parts = [os.path.join(folder, n) for n in sorted(os.listdir(folder)) if n.endswith((".o", ".c"))]
            status, text = command(*CC, "-O1", "-I", folder, os.path.join(HERE, "threads.c"), *parts, os.path.join(BUILD, "libmlc_runtime.a"), "-lpthread",
                "-lm", "-ldl", "-o", folder + "/program")  # fmt: skip
            status, text = command(folder + "/program", *([folder + "/one.bin", folder + "/two.bin"] if form[2] == "file" else [])) if good and status == 0 else (1, text)
            check(f"two models, two threads each: {form[0]} {form[1]} {form[2]} for {target}", status == 0 and len(text.split()) == 64, text)
            bits.add(text)
        check(f"two models: the same bits in every form for {target}", len(bits) == 1, bits)


def can_fail(temp, source):
    """Other models and options give other bytes, and a name that is not the prefix's is seen."""
    for name, options in ("a", []), ("b", ["-O0"]):
        os.makedirs(os.path.join(temp, name))
        command(MLC, "compile", source, "-o", os.path.join(temp, name, "m.o"), *options)
    check("other options give other bytes", contents(temp + "/a")["m.o"] != contents(temp + "/b")["m.o"])
    check("another prefix is seen", any(not s.startswith("n_") for s in symbols(temp + "/a/m.o", False)[0]))


def main():
    with tempfile.TemporaryDirectory() as temp, ThreadPoolExecutor(int(os.environ.get("MLC_JOBS") or os.cpu_count())) as pool:
        one, two = temp + "/one.onnx", temp + "/two.onnx"
        model(one, 160, 2)
        model(two, 96, 3)
        list(pool.map(lambda work: one_output(one, temp, *work), enumerate(outputs())))
        two_models(temp, one, two)
        os.makedirs(temp + "/other")
        can_fail(temp + "/other", one)
    print(f"{weights.passed} passed, {weights.failed} failed")
    return weights.failed > 0


if __name__ == "__main__":
    sys.exit(main())
