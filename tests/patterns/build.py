"""Small ONNX models as expressions: `m = Model({"x": (2, 8)}); m.output(m.Mul("x", m.Sigmoid("x")))`."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

DIMENSION = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.bool_): TensorProto.BOOL, np.dtype(np.int64): TensorProto.INT64}


class Graph:
    """Nodes in the making. Any operator's name is a method: operands are names, numbers and arrays, keywords attributes; it gives the output's name
    (a list with outputs=N). A number is a constant in the type `number`; None leaves an operand out."""

    made = 0  # names are unique in all graphs, so that those inside of others need no prefix

    def __init__(self, number=np.float32):
        self.nodes, self.constants, self.outputs, self.number = [], [], [], number

    def name(self, stem):
        Graph.made += 1
        return f"{stem}_{Graph.made}"

    def constant(self, value):
        if isinstance(value, (bool, int, float)):
            value = np.array(value, self.number)
        elif isinstance(value, (list, tuple)):
            value = np.array(value, np.int64)
        value = np.asarray(value)
        name = self.name("c")
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name))
        return name

    def operand(self, value):
        return "" if value is None else value if isinstance(value, str) else self.constant(value)

    def __getattr__(self, op):
        if op.startswith("_"):
            raise AttributeError(op)

        def node(*operands, outputs=1, domain="", **attributes):
            results = [self.name(op) for _ in range(outputs)]
            names = [self.operand(v) for v in operands]
            self.nodes.append(helper.make_node(op, names, results, name=results[0], domain=domain, **attributes))
            return results if outputs > 1 else results[0]

        return node


class Model(Graph):
    def __init__(self, inputs, opset=18, number=np.float32):
        super().__init__(number)
        self.inputs, self.opset = inputs, opset

    def output(self, *names):
        self.outputs += names

    def save(self, path):
        values = [helper.make_tensor_value_info(n, DIMENSION[np.dtype(t)], s) for n, (s, t) in self.described().items()]
        # outputs get names of their own, so that variants differ in nothing else
        nodes = self.nodes + [helper.make_node("Identity", [n], [f"y{i}"]) for i, n in enumerate(self.outputs)]
        outputs = [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, None) for i in range(len(self.outputs))]
        graph = helper.make_graph(nodes, "pattern", values, outputs, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)], ir_version=10)
        onnx.save(model, path)

    def described(self):
        return {n: s if isinstance(s[0], tuple) else (s, np.float32) for n, s in self.inputs.items()}

    def feeds(self):
        rng = np.random.default_rng(1)
        return {n: rng.standard_normal(s).astype(t) if t != np.bool_ else rng.random(s) < 0.7 for n, (s, t) in self.described().items()}
