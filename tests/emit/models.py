"""Models for the tests of emitted code: each is small, made here with seeded weights, and comes with input sets and ONNX Runtime's outputs.

Names of models, inputs and outputs are C identifiers, so that the generated programs can name them as they are.
"""

import os
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T, helper as h, numpy_helper

SHARED = os.environ.get("MLC_MODELS", os.path.join(os.path.dirname(__file__), "..", "..", "..", "shared", "models"))


@dataclass
class Set:
    inputs: dict
    dims: dict = field(default_factory=dict)
    outputs: dict = field(default_factory=dict)  # from ONNX Runtime, in the model's order


@dataclass
class Case:
    name: str
    model: onnx.ModelProto
    sets: list
    options: list = field(default_factory=list)  # of `mlc compile`
    state: dict = field(default_factory=dict)  # input: output
    bounds: dict = field(default_factory=dict)  # of dimensions
    dynamic: list = field(default_factory=list)  # outputs whose shape depends on data
    faults: list = field(default_factory=list)  # (what, {input: bad value}, code, node): data that must end in a status
    threads: bool = False  # some kernel is large enough for several threads

    @property
    def constant(self):
        return not self.bounds and not self.state and not any("--region" in o for o in self.options)


class Builder:
    def __init__(self, name, seed):
        self.name, self.rng, self.nodes, self.weights = name, np.random.default_rng(seed), [], []

    def node(self, op, inputs, outputs, **attributes):
        self.nodes.append(h.make_node(op, inputs, outputs, f"{op}_{len(self.nodes) + 1}", **attributes))
        return outputs[0]

    def const(self, name, values):
        self.weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def random(self, name, *shape):
        scale = 1 / np.sqrt(max(1, np.prod(shape[1:])))
        return self.const(name, (self.rng.standard_normal(shape) * scale).astype(np.float32))

    def model(self, inputs, outputs):
        values = [[h.make_tensor_value_info(*v) for v in side] for side in (inputs, outputs)]
        graph = h.make_graph(self.nodes, self.name, *values, self.weights)
        return h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=9)

    def normal(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32)


def mlp():
    """Every size is constant: PREFIX_run exists."""
    b = Builder("mlp", 1)
    b.node("Gemm", ["x", b.random("w1", 96, 40), b.random("b1", 96)], ["t1"], transB=1)
    b.node("Relu", ["t1"], ["t2"])
    b.node("Gemm", ["t2", b.random("w2", 10, 96), b.random("b2", 10)], ["t3"], transB=1)
    b.node("Softmax", ["t3"], ["y"], axis=-1)
    model = b.model([("x", T.FLOAT, [32, 40])], [("y", T.FLOAT, [32, 10])])
    return Case("mlp", model, [Set({"x": b.normal(32, 40)}) for _ in range(2)], threads=True)


def conv():
    """A convolutional net whose batch is symbolic."""
    b = Builder("conv", 2)
    b.node("Conv", ["x", b.random("w1", 8, 3, 3, 3), b.random("b1", 8)], ["t1"], pads=[1, 1, 1, 1])
    stats = [b.random("scale", 8), b.random("shift", 8), b.random("mean", 8), b.const("var", np.linspace(0.5, 2, 8, dtype=np.float32))]
    b.node("BatchNormalization", ["t1", *stats], ["t2"])
    b.node("Relu", ["t2"], ["t3"])
    b.node("MaxPool", ["t3"], ["t4"], kernel_shape=[2, 2], strides=[2, 2])
    b.node("Conv", ["t4", b.random("w2", 8, 1, 3, 3)], ["t5"], group=8, strides=[2, 2], pads=[0, 1, 1, 0])
    b.node("Conv", ["t5", b.random("w3", 12, 8, 1, 1)], ["t6"])
    b.node("Sigmoid", ["t6"], ["t7"])
    b.node("GlobalAveragePool", ["t7"], ["t8"])
    b.node("Flatten", ["t8"], ["y"])
    model = b.model([("x", T.FLOAT, ["N", 3, 14, 14])], [("y", T.FLOAT, ["N", 12])])
    sets = [Set({"x": b.normal(n, 3, 14, 14)}, {"N": n}) for n in (1, 3, 6)]
    return Case("conv", model, sets, ["--dim=N=1..6", "--hooks"], bounds={"N": (1, 6)}, threads=True)


def lstm():
    """An LSTM over four steps whose state stays in the model between runs."""
    b = Builder("lstm", 3)
    weights = [b.random("w", 1, 4 * 12, 8), b.random("r", 1, 4 * 12, 12), b.random("b", 1, 8 * 12)]
    b.node("LSTM", ["x", *weights, "", "h", "c"], ["t1", "hn", "cn"], hidden_size=12)
    b.node("Squeeze", ["t1", b.const("axes", np.array([1], np.int64))], ["t2"])
    b.node("Tanh", ["t2"], ["y"])
    states = [(n, T.FLOAT, [1, 1, 12]) for n in ("h", "c", "hn", "cn")]
    model = b.model([("x", T.FLOAT, [4, 1, 8]), *states[:2]], [("y", T.FLOAT, [4, 1, 12]), *states[2:]])
    sets = [Set({"x": b.normal(4, 1, 8)}) for _ in range(3)]
    return Case("lstm", model, sets, ["--state=h=hn", "--state=c=cn", "--hooks"], state={"h": "hn", "c": "cn"})


def gru():
    """One step of a streaming GRU with a convolution in front: what a microcontroller runs on each frame."""
    b = Builder("gru", 4)
    b.node("Conv", ["x", b.random("w1", 6, 4, 5), b.random("b1", 6)], ["t1"], strides=[2])
    b.node("Relu", ["t1"], ["t2"])
    b.node("Transpose", ["t2"], ["t3"], perm=[2, 0, 1])
    weights = [b.random("w2", 1, 3 * 10, 6), b.random("r2", 1, 3 * 10, 10), b.random("b2", 1, 6 * 10)]
    b.node("GRU", ["t3", *weights, "", "h"], ["", "hn"], hidden_size=10, linear_before_reset=1)
    b.node("Squeeze", ["hn", b.const("axes", np.array([0], np.int64))], ["t4"])
    b.node("Gemm", ["t4", b.random("w3", 5, 10), b.random("b3", 5)], ["t5"], transB=1)
    b.node("Softmax", ["t5"], ["y"])
    state = [(n, T.FLOAT, [1, 1, 10]) for n in ("h", "hn")]
    model = b.model([("x", T.FLOAT, [1, 4, 21]), state[0]], [("y", T.FLOAT, [1, 5]), state[1]])
    sets = [Set({"x": b.normal(1, 4, 21)}) for _ in range(4)]
    return Case("gru", model, sets, ["--state=h=hn"], state={"h": "hn"})


def order():
    """TopK, NonZero and Unique: sizes of outputs depend on the data."""
    b = Builder("order", 5)
    b.node("TopK", ["x", b.const("k", np.array([4], np.int64))], ["top", "at"], axis=1)
    b.node("Greater", ["x", b.const("zero", np.float32(0.5))], ["t1"])
    b.node("NonZero", ["t1"], ["where"])
    b.node("Unique", ["z"], ["distinct"])
    inputs = [("x", T.FLOAT, [3, 9]), ("z", T.INT64, [10])]
    outputs = [("top", T.FLOAT, [3, 4]), ("at", T.INT64, [3, 4]), ("where", T.INT64, [2, "M"]), ("distinct", T.INT64, ["D"])]
    floats = b.normal(3, 9), np.zeros((3, 9), np.float32), np.ones((3, 9), np.float32)
    sets = [Set({"x": x, "z": b.rng.integers(-3, 3, 10)}) for x in floats]
    return Case("order", b.model(inputs, outputs), sets, dynamic=["where", "distinct"])


def types():
    """Integers of several widths, bool, f64 and f16; an index and a divisor from the data, which may be bad."""
    b = Builder("types", 6)
    b.node("Gather", [b.const("table", b.rng.integers(-100, 100, (5, 3)).astype(np.int8)), "index"], ["picked"])
    b.node("Cast", ["picked"], ["wide"], to=T.INT32)
    b.node("Div", ["wide", "divisor"], ["quotient"])
    b.node("BitShift", ["bits", b.const("by", np.array([1, 2, 3], np.uint8))], ["shifted"], direction="RIGHT")
    b.node("Less", ["wide", b.const("limit", np.int32(7))], ["small"])
    b.node("Cast", ["wide"], ["t1"], to=T.DOUBLE)
    b.node("Sqrt", [b.node("Abs", ["t1"], ["t2"])], ["root"])
    b.node("Cast", ["root"], ["half"], to=T.FLOAT16)
    b.node("ReduceSum", [b.node("Cast", ["quotient"], ["t3"], to=T.INT64)], ["total"], keepdims=0)
    inputs = [("index", T.INT64, [4]), ("divisor", T.INT32, [3]), ("bits", T.UINT8, [2, 3])]
    shapes = {"picked": T.INT8, "quotient": T.INT32, "small": T.BOOL, "root": T.DOUBLE, "half": T.FLOAT16}
    outputs = [(n, t, [4, 3]) for n, t in shapes.items()] + [("shifted", T.UINT8, [2, 3]), ("total", T.INT64, [])]
    model = b.model(inputs, outputs)
    good = {"index": np.array([4, 0, -5, 2]), "divisor": np.array([3, -2, 7], np.int32), "bits": b.rng.integers(0, 256, (2, 3)).astype(np.uint8)}
    faults = [("an index too large", {"index": np.array([0, 5, 0, 0])}, 3, 1), ("an index too small", {"index": np.array([0, 0, 0, -6])}, 3, 1),
              ("a divisor of 0", {"divisor": np.array([1, 0, 1], np.int32)}, 4, 3)]
    return Case("types", model, [Set(good), Set({**good, "index": np.array([1, 1, 3, -1])})], faults=faults)


def shared_model(name, c_name, inputs):
    """A real model, or None where the shared folder is not there. Its input and output names must be C identifiers."""
    path = os.path.join(SHARED, name + ".onnx")
    if not os.path.exists(path):
        print(f"left out: {name} (its file is not here)")
        return None
    rng = np.random.default_rng(7)
    sets = [Set({n: rng.standard_normal(shape).astype(np.float32) for n, shape in inputs.items()}) for _ in range(2)]
    return Case(c_name, onnx.load(path), sets, threads=True)


def mnist():
    return shared_model("mnist-cntk", "mnist", {"Input3": (1, 1, 28, 28)})


def finish(case, folder):
    """Writes the model and fills the sets' outputs."""
    path = os.path.join(folder, case.name + ".onnx")
    onnx.save(case.model, path)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    shapes = {i.name: i.shape for i in session.get_inputs()}
    state = {i: np.zeros(shapes[i], np.float32) for i in case.state}
    for s in case.sets:
        s.outputs = dict(zip(names, session.run(None, {**s.inputs, **state}), strict=True))
        state = {i: s.outputs[o] for i, o in case.state.items()}
    return case
