"""Patterns: what exporters write for one operator becomes the kernels of that operator.

A group of pattern_table.py states a number of kernels and has forms, the first being the operator where ONNX has one. For each form: the kernels that a run
calls and the bytes of the arena (no more than the first form's), and the results against ONNX Runtime (against the group's reference where that lacks
the operator). usage: patterns.py [-v] [--time] [GROUP…]   MLC in the environment.
"""

import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime
from pattern_table import GROUPS

MLC = os.environ["MLC"]
TARGET = "--target=x86-64-v3"


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().split("\n")[0][:300])
    return done.stdout


def kernels_of(path):
    """Calls of kernels in a run's straight line and in the bodies of its loops, and the arena's bytes."""
    text = run(MLC, "dump", "--stage=loops", TARGET, path)
    main = text[text.index("\nmain") :]
    arena = int(re.search(r"^arena (\d+)", text, re.MULTILINE)[1])
    return len(re.findall(r"^ *call ", main, re.MULTILINE)), arena


def reference(path, feeds):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
        return session.run(None, feeds)
    except Exception:
        return None


def outputs(path, feeds, folder):
    arguments = []
    for name, value in feeds.items():
        np.save(f"{folder}/{name}.npy", value)
        arguments += ["-i", f"{name}={folder}/{name}.npy"]
    run(MLC, "run", path, *arguments, "-o", f"{folder}/out", "--no-cache")
    return [np.load(f"{folder}/out/y{i}.npy") for i in range(len(os.listdir(f"{folder}/out")))]


def difference(ours, theirs):
    """The largest difference over the largest magnitude."""
    worst = 0.0
    for mine, other in zip(ours, theirs, strict=True):
        if mine.shape != other.shape:
            return np.inf
        error = np.abs(mine.astype(np.float64) - other)
        worst = max(worst, float(np.nanmax(error, initial=0) / max(np.nanmax(np.abs(other), initial=0), 1e-30)))
        if (np.isnan(mine) != np.isnan(other)).any():
            return np.inf
    return worst


class Group:
    def __init__(self, name, kernels, forms, bound=2e-6):
        self.name, self.kernels, self.forms, self.bound = name, kernels, forms, bound
        self.arena, self.theirs = None, None

    def check(self, index, folder, verbose):
        label, make = list(self.forms.items())[index]
        model, path = make(), f"{folder}/pattern.onnx"
        model.save(path)
        faults = []
        count, arena = kernels_of(path)
        self.arena = arena if index == 0 else self.arena
        if count != self.kernels:
            faults.append(f"{count} kernels, expected {self.kernels}")
        if self.arena is not None and arena > self.arena:
            faults.append(f"{arena} bytes of arena, the first form has {self.arena}")
        theirs = reference(path, model.feeds())
        self.theirs = theirs if self.theirs is None else self.theirs
        if theirs is None and self.theirs is None:
            faults.append("no reference")
        else:
            error = difference(outputs(path, model.feeds(), folder), theirs or self.theirs)
            if not error <= self.bound:
                faults.append(f"differs by {error:.1e}, {self.bound:.0e} is allowed")
        if verbose or faults:
            print(f"{'FAIL' if faults else 'ok'} {self.name}: {label}: {'; '.join(faults) or f'{count} kernels, {arena} bytes'}")
        return not faults


def main():
    names = [a for a in sys.argv[1:] if not a.startswith("-")]
    verbose = "-v" in sys.argv
    passed = failed = 0
    for row in GROUPS:
        group = Group(**row)
        if names and not any(n in group.name for n in names):
            continue
        for index in range(len(group.forms)):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    good = group.check(index, folder, verbose)
                except RuntimeError as e:
                    print(f"FAIL {group.name}: {list(group.forms)[index]}: {e}")
                    good = False
            passed, failed = passed + good, failed + (not good)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
