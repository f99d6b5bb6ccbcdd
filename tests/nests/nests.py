"""Random nests of If, Loop and Scan with captured values, in the backend-test layout: nests.py FOLDER FIRST LAST (seeds, inclusive).

What must come out is ONNX Runtime's without graph optimisation (the optimiser of 1.32 confuses captured names: some nests come out different). Values are vectors of any length (v), vectors of three (f), 2x3 matrices (m) and scalars (s): a loop may
carry a vector that grows or shrinks, a branch may give one of another length, trip counts and conditions come from data, and every body
uses values of the graphs around it. Beside the cases: cases.txt and list.txt for tests/conform.
"""

import os
import random
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

SHAPES = {"v": [None], "f": [3], "m": [2, 3], "s": []}
F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
LENGTHS = "L", "K"  # of the model's vectors


def info(name, kind, dtype=F):
    return helper.make_tensor_value_info(name, dtype, SHAPES[kind])


class Body:
    """The nodes of one graph, and the values by kind that its nodes may use: its own and those around it."""

    def __init__(self, rng, names, outer=None, depth=0):
        self.rng, self.names, self.depth = rng, names, depth
        self.nodes = []
        self.values = {kind: list(outer.values[kind]) if outer else [] for kind in SHAPES}
        self.own = set()

    def name(self):
        self.names[0] += 1
        return f"t{self.names[0]}"

    def node(self, op, inputs, outputs=1, **attributes):
        outs = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, outs, **attributes))
        return outs if outputs > 1 else outs[0]

    def const(self, value, dtype=F):
        value = np.asarray(value, helper.tensor_dtype_to_np_dtype(dtype))
        return self.node("Constant", [], value=numpy_helper.from_array(value))

    def give(self, kind, name):
        self.values[kind].append(name)
        self.own.add(name)
        return name

    def pick(self, kind):
        """A value of the kind; recent ones, which are the graph's own, more often."""
        values = self.values[kind]
        return values[max(self.rng.randrange(len(values)), self.rng.randrange(len(values)))]

    def squash(self, name):
        """Keeps numbers small, whatever the nest does to them."""
        return self.node("Tanh", [name])

    # ---- one node ----
    def unary(self):
        kind = self.rng.choice("vfms")
        self.give(kind, self.node(self.rng.choice(["Neg", "Abs", "Tanh", "Sin"]), [self.pick(kind)]))

    def binary(self):
        kind = self.rng.choice("fms")
        self.give(kind, self.node(self.rng.choice(["Add", "Sub", "Mul", "Max"]), [self.pick(kind), self.pick(self.rng.choice([kind, "s"]))]))

    def scale(self):
        self.give("v", self.node(self.rng.choice(["Add", "Mul"]), [self.pick("v"), self.pick("s")]))

    def reduce(self):
        self.give("s", self.squash(self.node("ReduceSum", [self.pick(self.rng.choice("vfm"))], keepdims=0)))

    def append(self):
        self.give("v", self.node("Concat", [self.pick("v"), self.pick(self.rng.choice("vf"))], axis=0))

    def cut(self):
        first, last = self.const([self.rng.randrange(3)], I), self.const([self.rng.choice([2, 5, 1 << 40])], I)
        self.give("v", self.node("Slice", [self.pick("v"), first, last]))

    def product(self):
        self.give("f", self.squash(self.node("MatMul", [self.node("Transpose", [self.pick("m")]), self.node("MatMul", [self.pick("m"), self.pick("f")])])))

    def condition(self):
        return self.node("Less", [self.pick("s"), self.pick("s")])

    def branch(self):
        kinds = [self.rng.choice("vfms") for _ in range(self.rng.randint(1, 3))]
        bodies = []
        for label in "then", "else":
            body = Body(self.rng, self.names, self, self.depth + 1)
            body.fill()
            outs = [body.node("Identity", [body.pick(kind)]) for kind in kinds]
            bodies.append(helper.make_graph(body.nodes, label, [], [info(out, kind) for out, kind in zip(outs, kinds, strict=True)]))
        outs = self.node("If", [self.condition()], len(kinds), then_branch=bodies[0], else_branch=bodies[1])
        self.take(kinds, outs)

    def take(self, kinds, outs):
        for kind, out in zip(kinds, outs if isinstance(outs, list) else [outs], strict=True):
            self.give(kind, out)

    def trips(self):
        """At least one: 1 to 3 known, or from data."""
        if self.rng.random() < 0.4:
            return self.const(self.rng.randint(1, 3), I)
        length = self.node("Size", [self.pick("v")])
        return self.node("Add", [self.node("Mod", [length, self.const(3, I)]), self.const(1, I)])

    def loop(self):
        kinds = [self.rng.choice("vvfms") for _ in range(self.rng.randint(0, 3))]
        scanned = self.rng.randint(0 if kinds else 1, 2)
        body = Body(self.rng, self.names, self, self.depth + 1)
        iteration, going = body.name(), body.name()
        params = [body.give(kind, body.name()) for kind in kinds]
        body.give("s", body.node("Cast", [iteration], to=F))
        body.fill()
        on = body.condition() if self.rng.random() < 0.4 else body.node("Identity", [going])
        outs = [body.node("Identity", [body.pick(kind)]) for kind in kinds]
        rows = [body.node("Identity", [body.pick("f")]) for _ in range(scanned)]
        inputs = [info(iteration, "s", I), info(going, "s", B)] + [info(p, kind) for p, kind in zip(params, kinds, strict=True)]
        outputs = [info(on, "s", B)] + [info(o, kind) for o, kind in zip(outs, kinds, strict=True)] + [info(row, "f") for row in rows]
        graph = helper.make_graph(body.nodes, "body", inputs, outputs)
        start = [self.pick(kind) for kind in kinds]
        outs = self.node("Loop", [self.trips(), self.const(True, B), *start], len(kinds) + scanned, body=graph)
        outs = outs if isinstance(outs, list) else [outs]
        self.take(kinds, outs[: len(kinds)])
        for out in outs[len(kinds) :]:
            self.give("f", self.squash(self.node("ReduceSum", [out, self.const([0], I)], keepdims=0)))

    def scan(self):
        body = Body(self.rng, self.names, self, self.depth + 1)
        state, row = body.give("s", body.name()), body.give("f", body.name())
        body.fill()
        outs = [body.node("Identity", [body.pick("s")]), body.node("Identity", [body.pick("f")])]
        graph = helper.make_graph(body.nodes, "body", [info(state, "s"), info(row, "f")], [info(outs[0], "s"), info(outs[1], "f")])
        outs = self.node("Scan", [self.pick("s"), self.pick("m")], 2, body=graph, num_scan_inputs=1)
        self.give("s", outs[0])
        self.give("m", outs[1])

    def fill(self):
        plain = [self.unary, self.binary, self.scale, self.reduce, self.append, self.cut, self.product]
        nests = [self.branch, self.loop, self.loop, self.scan]
        for _ in range(self.rng.randint(2, 5) if self.depth else 6):
            nest = self.depth < 3 and self.rng.random() < (0.5, 0.35, 0.25)[self.depth]
            self.rng.choice(nests if nest else plain)()


def nest(seed):
    rng = random.Random(seed)
    top = Body(rng, [0])
    inputs = [helper.make_tensor_value_info(f"x{i}", F, [LENGTHS[i]]) for i in range(2)] + [info("f0", "f"), info("m0", "m"), info("s0", "s")]
    for kind, name in zip("vvfms", ("x0", "x1", "f0", "m0", "s0"), strict=True):
        top.values[kind].append(name)
    top.fill()
    while not top.own:
        top.fill()
    outs = []
    for kind in SHAPES:
        made = [name for name in top.values[kind] if name in top.own]
        outs += [(kind, name) for name in made[-2:]]
    graph = helper.make_graph(top.nodes, f"nest{seed}", inputs, [info(name, kind) for kind, name in outs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def feeds(model, seed):
    rng = np.random.default_rng(seed)
    lengths = {name: int(rng.integers(1, 6)) for name in LENGTHS}
    for value in model.graph.input:
        shape = [dim.dim_value or lengths[dim.dim_param] for dim in value.type.tensor_type.shape.dim]
        yield value.name, np.asarray(rng.standard_normal(shape), np.float32)


def main(folder, first, last):
    names = []
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for seed in range(first, last + 1):
        model = nest(seed)
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        name = f"nest_{seed}"
        names.append(name)
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        onnx.save(model, os.path.join(folder, name, "model.onnx"))
        for number in range(2):
            inputs = dict(feeds(model, 2 * seed + number))
            data = os.path.join(folder, name, f"test_data_set_{number}")
            os.makedirs(data, exist_ok=True)
            for kind, values in ("input", inputs.values()), ("output", session.run(None, inputs)):
                for i, value in enumerate(values):
                    with open(os.path.join(data, f"{kind}_{i}.pb"), "wb") as file:
                        file.write(numpy_helper.from_array(np.asarray(value)).SerializeToString())
    for file, line in ("cases.txt", "%s 1e-4 1e-5\n"), ("list.txt", "%s\n"):
        with open(os.path.join(folder, file), "w") as out:
            out.writelines(line % name for name in names)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
