"""Real models against ONNX Runtime: check.py [NAME…]. One compiled artefact a model and backend runs all input sets.

Float models that are not topologies are also verified per node, and compiled with one pass switched off, another for each model, through LLVM.
With --per-node it runs only `mlc verify --per-node` on the first set, through both: compiled code, and each tensor of the graph after its passes, against the
evaluator. With --each-pass each pass that `mlc passes` lists is switched off in turn; --each-pass=NAME,… are those passes only.
--backend=c or llvm is one of the two.

The largest difference must be at most 1e-3 of the output's largest magnitude; integers and strings must be equal, types and shapes too. Quantised models
are compared with ONNX Runtime's unoptimised graph: floats within 1e-2, 8-bit integers within 2 steps (or what the model says).
MLC is the command, BUILD the folder for packages and data. A NAME may be a mark of models.py's rows.
"""

import os
import re
import subprocess
import sys
import time

import numpy as np
import onnxruntime
from onnx import numpy_helper

from models import MODELS, WORK

MLC = os.environ["MLC"]


def write_sets(model, path, folder):
    """Inputs and ONNX Runtime's outputs of every set in the backend-test layout; returns the names of the inputs."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if model.quantised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    inputs = [i.name for i in session.get_inputs() if i.name not in model.state]
    outputs = [o.name for o in session.get_outputs()]
    state = {i.name: None for i in session.get_inputs() if i.name in model.state}
    for number in range(len(model.sets)):
        feeds = model.feeds(number)
        for name in state:
            if state[name] is None:
                shape = next(o.split("=")[2] for o in model.options if o.startswith(f"--shape={name}="))
                state[name] = np.zeros([int(x) for x in shape.split("x")], np.float32)
            feeds[name] = state[name]
        results = dict(zip(outputs, session.run(None, feeds), strict=True))
        for name, output in model.state.items():
            state[name] = results[output]
        data = os.path.join(folder, f"test_data_set_{number}")
        os.makedirs(data, exist_ok=True)
        for kind, names, values in ("input", inputs, feeds), ("output", outputs, results):
            for index, name in enumerate(names):
                if kind == "output" and np.issubdtype(values[name].dtype, np.floating):
                    assert not np.isnan(values[name]).any(), f"{model.name}: ONNX Runtime gives NaN"
                with open(os.path.join(data, f"{kind}_{index}.pb"), "wb") as file:
                    file.write(numpy_helper.from_array(values[name], name).SerializeToString())
    return inputs


def command(model, path, backend, *words):
    """Runs `mlc verify` on the model; prints the result, and all that was said after a failure."""
    options = model.options + [f"--state={i}={o}" for i, o in model.state.items()]
    begin = time.time()
    done = subprocess.run([MLC, "verify", path, f"--backend={backend}", *words, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    worst = max((float(d) / float(m) for d, m in re.findall(r"difference ([\d.e+-]+), largest magnitude ([\d.e+-]+)", done.stdout) if float(m)), default=0)
    name = " ".join([model.name + (" with state" if model.state else ""), backend, *(w for w in words if w.startswith(("--per", "--disable")))])
    print(f"{'ok  ' if done.returncode == 0 else 'FAIL'} {name}: largest difference over magnitude {worst:.2g}, {time.time() - begin:.1f} s", flush=True)
    if done.returncode:
        print(done.stdout[-3000:])
    return done.returncode == 0


def against_stored(model, path, folder, backend, *words):
    bounds = ["--scaled=1e-2", f"--steps={model.steps}"] if model.quantised else ["--scaled=1e-3"]
    return command(model, path, backend, folder, "--rtol=0", "--atol=0", *bounds, *words)


def per_node(model, path, folder, inputs, backend):
    """Compiled code, and the tensors of the graph after the passes, against the evaluator on the graph as imported."""
    words = [f"-i{name}={os.path.join(folder, 'test_data_set_0', f'input_{index}.pb')}" for index, name in enumerate(inputs)]
    return command(model, path, backend, "--per-node", f"--scaled={model.scaled}", *words)


def switchable():
    """The passes that --disable-pass can leave out."""
    listed = subprocess.run([MLC, "passes"], stdout=subprocess.PIPE, text=True, check=True).stdout
    rows = [line.split() for line in listed.splitlines()]
    return list(dict.fromkeys(row[1] for row in rows if row[2] != "always"))


def checks(model, path, folder, inputs, options):
    """Runs what the options ask for; yields whether each is right."""
    for backend in options.get("backend", "c,llvm").split(","):
        if "per-node" in options:
            yield per_node(model, path, folder, inputs, backend)
        elif "each-pass" in options:
            for name in options["each-pass"].split(",") if options["each-pass"] else switchable():
                yield against_stored(model, path, folder, backend, f"--disable-pass={name}")
        else:
            yield against_stored(model, path, folder, backend)
    if not options and "F" in model.marks and not model.light:
        yield per_node(model, path, folder, inputs, "llvm")
        passes = switchable()
        yield against_stored(model, path, folder, "llvm", f"--disable-pass={passes[MODELS.index(model) % len(passes)]}")


def main(arguments):
    options = dict(a[2:].partition("=")[::2] for a in arguments if a.startswith("--"))
    names = [a for a in arguments if not a.startswith("--")]
    os.makedirs(WORK, exist_ok=True)
    passed = failed = 0
    for number, model in enumerate(MODELS):
        if names and model.name not in names and not set(names) & set(model.marks):
            continue
        if model.large and model.name not in names and not os.environ.get("MLC_LARGE"):
            print(f"left out: {model.name} (large; MLC_LARGE=1 checks it too)")
            continue
        path = model.file()
        if path is None:
            print(f"left out: {model.name} ({'cannot be fetched' if model.package or model.light else 'its file is not here'})")
            failed += bool(model.package or model.light)
            continue
        folder = os.path.join(WORK, f"{number}-{model.name}")
        inputs = write_sets(model, path, folder)
        results = list(checks(model, path, folder, inputs, options))
        passed += results.count(True)
        failed += results.count(False)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
