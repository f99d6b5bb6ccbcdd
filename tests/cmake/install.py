"""The installed CMake package, pkg-config file, man page and completion: a plain project, weights in a file, a cross toolchain file; a changed model,
external data included, is compiled anew, and nothing else is. BUILD and PYTHON in the environment."""

import os
import sys
import tempfile

import numpy as np
import onnx

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "weights"))
import weights
from weights import BUILD, check, command, model


def external(path, seed):
    """The model with its constants in a file beside it; the sum of its outputs for ones."""
    model(path, 96, seed)
    m = onnx.load(path)
    a, b, c = (onnx.numpy_helper.to_array(i).astype(np.float64) for i in m.graph.initializer)
    onnx.save(m, path, save_as_external_data=True, location=os.path.basename(path) + ".data", size_threshold=0)
    return float((np.maximum(np.ones(64) @ a, 0) @ b + c).sum())


def configure(temp, prefix, source, kind, *options):
    folder = f"{temp}/{kind}"
    found = command("cmake", "-G", "Ninja", "-S", os.path.join(HERE, "project"), "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DMODEL={source}",
        f"-DKIND={kind}", *options)  # fmt: skip
    check(f"{kind}: configure", found[0] == 0, found[1])
    return folder


def build(folder, name):
    status, text = command("cmake", "--build", folder)
    check(f"{name}: build", status == 0, text[-1500:])
    return text


def result(folder, wanted, name):
    status, text = command(folder + "/program")
    words = text.split()
    check(name, status == 0 and len(words) == 2 and abs(float(words[1]) - wanted) < 0.01, (text, wanted))


def plain(temp, prefix, source, wanted):
    folder = configure(temp, prefix, source, "host")
    build(folder, "host")
    result(folder, wanted, "the program's output")
    check("nothing to do", "no work to do" in build(folder, "again"))
    before = os.stat(source).st_mtime_ns
    wanted = external(source, 4)
    os.utime(source, ns=(before, before))  # the model's own file stays, its data changes
    check("changed data is compiled anew", "Compiling the model big" in build(folder, "changed"))
    result(folder, wanted, "the output of the changed model")
    return wanted


def chip(temp, prefix, source):
    folder = configure(temp, prefix, source, "chip", f"-DCMAKE_TOOLCHAIN_FILE={HERE}/project/arm.cmake")
    build(folder, "chip")
    header = command("arm-none-eabi-readelf", "-hSW", folder + "/program")[1]
    check("an Arm program", "Machine: ARM" in " ".join(header.split()), header)
    check("with its weights where they belong", "90000000" in header, header)
    with open(folder + "/portable.mlc/portable.h", encoding="utf-8") as file:
        check("generic without --target", "for target generic" in file.readline())


def texts(prefix):
    page = prefix + "/share/man/man1/mlc.1"
    check("man page", os.path.exists(page))
    check("man page has no fault", command("groff", "-man", "-Tutf8", "-ww", "-z", page) == (0, ""), command("groff", "-man", "-Tutf8", "-ww", "-z", page))
    shown = command("sh", "-c", f"groff -man -Tascii {page} | col -b")[1]
    check("man page shows", "--weights=PLACE" in shown and "write the model as C" in " ".join(shown.split()), shown[:300])
    completion = prefix + "/share/bash-completion/completions/mlc"
    script = f"source {completion}; COMP_WORDS=(mlc compile --wei); COMP_CWORD=2; $(complete -p mlc | sed 's/.*-F \\([^ ]*\\).*/\\1/'); echo ${{COMPREPLY[@]}}"
    check("completion", "--weights" in command("bash", "-c", script)[1], command("bash", "-c", script))


def main():
    with tempfile.TemporaryDirectory() as temp:
        prefix, source = temp + "/prefix", temp + "/with space.onnx"
        status, text = command("cmake", "--install", BUILD, "--prefix", prefix)
        check("install", status == 0, text)
        wanted = plain(temp, prefix, source, external(source, 3))
        folder = configure(temp, prefix, source, "file")
        build(folder, "file")
        result(folder, wanted, "with weights from a file")
        chip(temp, prefix, source)
        texts(prefix)
        with open(temp + "/pool.c", "w", encoding="utf-8") as file:
            file.write("#include <mlc_pool.h>\nint main(void) { mlc_pool *p = mlc_pool_create(2); mlc_pool_destroy(p); return !p; }\n")
        flags = f"PKG_CONFIG_PATH={prefix}/lib/pkgconfig:{prefix}/lib/x86_64-linux-gnu/pkgconfig pkg-config --static --define-prefix --cflags --libs mlc-runtime"
        found = command("sh", "-c", f"cc {temp}/pool.c $({flags}) -o {temp}/pool && {temp}/pool")
        check("pkg-config", found[0] == 0, found)
    print(f"{weights.passed} passed, {weights.failed} failed")
    return weights.failed > 0


if __name__ == "__main__":
    sys.exit(main())
