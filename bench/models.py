"""mlc beside ONNX Runtime on whole models: models.py [--backend=llvm|c] [--markdown] [--rounds=N] [-- OPTION…] [NAME or MARK…]

Both run in this process, one thread, in turn: a round times each engine for a slice of at least 20 ms (or one run); the figure is the median of the
rounds. Pin the process (taskset -c 1). Before timing the outputs are compared: largest difference over largest magnitude. Free dimensions stay free. The
model is compiled once and runs all input sets; each set is a row. Ratio: time of ONNX Runtime over time of mlc, above 1 mlc is faster.
MLC is the command, BUILD the folder for data; needs onnxruntime. Exit status 1 when a model cannot be compiled or run.
"""

import argparse
import ctypes
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "models"))
from models import MODELS  # noqa: E402

MLC = os.environ.get("MLC", "mlc")
SLICE = 0.02
FROM_ONNX = {1: np.float32, 2: np.uint8, 3: np.int8, 6: np.int32, 7: np.int64, 9: np.bool_, 11: np.float64}


class TensorInfo(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("onnx_name", ctypes.c_char_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
        ("shape", ctypes.POINTER(ctypes.c_char_p)), ("state", ctypes.c_int32), ("dynamic", ctypes.c_int32)]  # fmt: skip


class ModelInfo(ctypes.Structure):
    _fields_ = [("abi", ctypes.c_uint32), ("name", ctypes.c_char_p), ("version", ctypes.c_char_p), ("counts", ctypes.c_int32 * 6),
        ("inputs", ctypes.POINTER(TensorInfo)), ("outputs", ctypes.POINTER(TensorInfo)), ("dims", ctypes.POINTER(ctypes.c_char_p)),
        ("dim_lo", ctypes.c_void_p), ("dim_hi", ctypes.c_void_p), ("nodes", ctypes.c_void_p), ("state_bytes", ctypes.c_size_t),
        ("arena_bytes", ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int)),
        ("run_env", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)),
        ("state_init", ctypes.c_void_p), ("regions", ctypes.c_void_p), ("region_bytes", ctypes.c_void_p), ("team", ctypes.c_int32),
        ("weights_bytes", ctypes.c_size_t), ("weights_check", ctypes.c_void_p)]  # fmt: skip


class Env(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("arena", ctypes.c_void_p), ("arena_bytes", ctypes.c_size_t), ("regions", ctypes.c_void_p),
        ("weights", ctypes.c_void_p), ("weights_bytes", ctypes.c_size_t), ("state", ctypes.c_void_p), ("pool", ctypes.c_void_p),
        ("parallel_for", ctypes.c_void_p), ("host", ctypes.c_void_p), ("alloc", ctypes.c_void_p), ("dealloc", ctypes.c_void_p),
        ("user", ctypes.c_void_p), ("seed", ctypes.c_uint64), ("hook", ctypes.c_void_p)]  # fmt: skip


def aligned(count, dtype=np.uint8):
    size = count * np.dtype(dtype).itemsize
    raw = np.zeros(size + 64, np.uint8)
    skip = -raw.ctypes.data % 64
    return raw[skip : skip + size].view(dtype)


class Compiled:
    """A shared library made by mlc, opened through the table it describes itself with."""

    def __init__(self, path):
        library = ctypes.CDLL(path)
        symbols = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
        name = re.search(r" (\w+_info)$", symbols, re.MULTILINE).group(1)
        self.info = ModelInfo.in_dll(library, name)
        self.ninputs, self.noutputs, self.ndims, self.nstates = list(self.info.counts)[:4]

    def bind(self, feeds):
        """Fixes dimensions, inputs and buffers; returns the function that runs and a function that gives the outputs."""
        info, dims = self.info, {}
        values = []
        for i in range(self.ninputs):
            tensor = info.inputs[i]
            value = np.ascontiguousarray(feeds[tensor.onnx_name.decode()])
            held = aligned(value.size, value.dtype)
            held[:] = value.ravel()
            values.append(held)
            for axis in range(tensor.rank):
                dims[tensor.shape[axis].decode()] = value.shape[axis]
        names = [info.dims[i].decode() for i in range(self.ndims)]
        dim_values = (ctypes.c_int64 * max(1, self.ndims))(*[dims.get(n, 1) for n in names])
        scope = {re.sub(r"\W", "_", n): dims.get(n, 1) for n in names}
        outputs, shapes = [], []
        slots = []
        for i in range(self.noutputs):
            tensor = info.outputs[i]
            if tensor.dynamic:
                raise RuntimeError("outputs of data-dependent size are not timed here")
            shape = [evaluate(tensor.shape[axis].decode(), names, scope) for axis in range(tensor.rank)]
            outputs.append(aligned(math.prod(shape), FROM_ONNX[tensor.dtype]))
            shapes.append(shape)
            slots.append(outputs[-1].ctypes.data)
        arena_bytes = info.arena_bytes(dim_values, 1)
        if arena_bytes >= 1 << 63:
            raise RuntimeError("dimensions out of bounds")
        arena, state = aligned(arena_bytes + 1), aligned(info.state_bytes + 1)
        pointers = (ctypes.c_void_p * self.ninputs)(*[v.ctypes.data for v in values])
        results = (ctypes.c_void_p * self.noutputs)(*slots)
        env = Env(struct_size=ctypes.sizeof(Env), arena=arena.ctypes.data, arena_bytes=arena_bytes, state=state.ctypes.data)
        arguments = (ctypes.addressof(dim_values), ctypes.addressof(pointers), ctypes.addressof(results), ctypes.addressof(env))
        keep = (values, outputs, arena, state, dim_values, pointers, results, env)
        function = info.run_env

        def run():
            status = function(*arguments)
            if status:
                raise RuntimeError(f"status {status}")

        return run, lambda: {info.outputs[i].onnx_name.decode(): outputs[i].reshape(shapes[i]) for i in range(self.noutputs)}, keep


def evaluate(text, names, scope):
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, re.sub(r"\W", "_", name))
    return eval(text, {"floordiv": lambda a, b: a // b, "ceildiv": lambda a, b: -(-a // b), "mod": lambda a, b: a % b, "min": min, "max": max, **scope})


def slice_of(run, count, clock=time.perf_counter):
    begin = clock()
    for _ in range(count):
        run()
    return (clock() - begin) / count


def compare(ours, session, feeds):
    worst = 0.0
    for output, theirs in zip(session.get_outputs(), session.run(None, feeds), strict=True):
        mine = ours[output.name]
        if not np.issubdtype(theirs.dtype, np.floating):
            worst = max(worst, float((mine != theirs).any()))
        elif theirs.size:
            worst = max(worst, float(np.abs(mine - theirs).max() / max(np.abs(theirs).max(), 1e-30)))
    return worst


def compile_model(model, path, args, folder, name, options):
    """The library, opened, and the seconds it took to make."""
    library = os.path.join(folder, re.sub(r"\W", "_", name) + ".so")
    command = [MLC, "compile", path, "-o", library, "--target=native", f"--backend={args.backend}", f"--cc={args.cc}", *args.options, *options]
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().split("\n")[0])
    return Compiled(library), time.perf_counter() - begin


def medians(engines, args):
    """Milliseconds of each engine, timed in turn."""
    counts = []
    for engine in engines:
        engine()
        counts.append(max(1, int(SLICE / max(slice_of(engine, 1), 1e-7))))
    times = [[] for _ in engines]
    clock = time.thread_time if args.cpu else time.perf_counter
    begin = time.perf_counter()
    for _ in range(args.rounds):
        for engine, count, list_of in zip(engines, counts, times, strict=True):
            list_of.append(slice_of(engine, count, clock))
        if time.perf_counter() - begin > args.seconds and len(times[0]) > 2:
            break
    return [statistics.median(t) * 1e3 for t in times]


def measure(model, args, folder):
    path = model.file()
    if path is None:
        raise RuntimeError("the file cannot be had")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    compiled, seconds = compile_model(model, path, args, folder, model.name, [])
    if args.peer == "fixed" and compiled.ndims == 0:
        return
    for number in range(len(model.sets)):
        feeds = model.feeds(number)
        run, outputs, keep = compiled.bind(feeds)
        run()
        difference = compare(outputs(), session, feeds)
        peer, kept = lambda: session.run(None, feeds), None  # noqa: B023
        if args.peer == "fixed":
            shapes = [f"--shape={name}={'x'.join(map(str, value.shape))}" for name, value in feeds.items() if value.ndim]
            fixed, _ = compile_model(model, path, args, folder, f"{model.name}_{number}", shapes)
            peer, _, kept = fixed.bind(feeds)
        ours, theirs = medians([run, peer], args)
        yield number, theirs, ours, difference, seconds
        del keep, kept


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="models or marks (F, S) of tests/models/models.py; all with mark S when none is given")
    parser.add_argument("--backend", choices=("llvm", "c"), default="llvm")
    parser.add_argument("--cc", default="cc -O2", help="C compiler with flags, for --backend=c")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=6, help="at most about so long a row")
    parser.add_argument("--peer", choices=("ort", "fixed"), default="ort",
        help="fixed: in place of ONNX Runtime a build of mlc for just these sizes; models without free dimensions are left out")  # fmt: skip
    parser.add_argument("--cpu", action="store_true", help="the thread's own time instead of the clock's, for a loaded machine")
    parser.add_argument("--option", dest="options", action="append", default=[], help="passed on to mlc compile")
    args = parser.parse_args()
    names = set(args.names or ["S"])
    rows, failed = [], False
    print(f"| model | set | {'ORT' if args.peer == 'ort' else 'fixed'} ms | mlc ms | ratio | difference | compile s |\n|-|-|-|-|-|-|-|")
    with tempfile.TemporaryDirectory() as folder:
        for model in MODELS:
            if not (model.name in names or names & set(model.marks)) or model.state:
                continue
            try:
                for number, theirs, ours, difference, seconds in measure(model, args, folder):
                    rows.append((theirs, ours))
                    print(f"| {model.name} | {number} | {theirs:.4g} | {ours:.4g} | {theirs / ours:.2f} | {difference:.1g} | {seconds:.1f} |", flush=True)
            except (RuntimeError, subprocess.CalledProcessError, KeyError) as error:
                failed = True
                print(f"| {model.name} | – | – | – | – | {str(error)[:160]} | – |", flush=True)
    for label, low, high in ("1 ms and above", 1, math.inf), ("0.2 to 1 ms", 0.2, 1), ("below 0.2 ms", 0, 0.2):
        ratios = [t / o for t, o in rows if low <= t < high]
        if ratios:
            print(f"\n{label}: geometric mean {statistics.geometric_mean(ratios):.2f}, least {min(ratios):.2f}, {len(ratios)} rows")
    return failed


if __name__ == "__main__":
    sys.exit(main())
