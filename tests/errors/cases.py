"""Malformed and unsupported models: each is made here, read by `mlc dump --stage=import`, and must end in its exit status and its messages.

usage: cases.py MLC. Statuses: 1 the model is at fault, 2 an option is, 3 unsupported, 5 a limit; anything else (a crash, a sanitizer) is a failure.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
from onnx import TensorProto as T, helper as h, numpy_helper

F = T.FLOAT


def value(name, shape=(3,), dtype=F):
    return h.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs=None, outputs=None, init=(), functions=(), opsets=None, ir=9, sparse=()):
    graph = h.make_graph(list(nodes), "g", [value("x")] if inputs is None else inputs, [value("y")] if outputs is None else outputs, list(init),
                         sparse_initializer=list(sparse))
    opsets = [h.make_opsetid(d, v) for d, v in (opsets or {"": 18}).items()]
    return h.make_model(graph, functions=list(functions), opset_imports=opsets, ir_version=ir)


def edited(m, edit):
    edit(m)
    return m


def node(op, ins, outs, **kw):
    return h.make_node(op, ins, outs, **kw)


def weights(name="w", n=3):
    return numpy_helper.from_array(np.zeros(n, np.float32), name)


def graph(nodes, outs, ins=()):
    return h.make_graph(list(nodes), "sub", list(ins), [value(o, None) for o in outs])


def branches(then, other):
    return {"then_branch": then, "else_branch": other}


def function(name, nodes, ins=("a",), outs=("b",), attrs=()):
    return h.make_function("local", name, list(ins), list(outs), list(nodes), [h.make_opsetid("", 18), h.make_opsetid("local", 1)], list(attrs))


def bad_tensor(**kw):
    t = weights()
    for k, v in kw.items():
        setattr(t, k, v)
    return t


def chain(n):
    """Functions that call each other twice: 2**n nodes when expanded."""
    fs = [function("f0", [node("Identity", ["a"], ["b"])])]
    for i in range(1, n):
        fs.append(function(f"f{i}", [node(f"f{i - 1}", ["a"], ["c"], domain="local"), node(f"f{i - 1}", ["c"], ["b"], domain="local")]))
    return fs


LOCAL = {"": 18, "local": 1}


def single(op, shapes, outs=("y",), types=None, opset=22, **kw):
    """A model of one node with inputs x0, x1 … of these shapes (None: a missing one)."""
    names = ["" if s is None else f"x{i}" for i, s in enumerate(shapes)]
    inputs = [value(k, s, (types or {}).get(i, F)) for i, (k, s) in enumerate(zip(names, shapes)) if s is not None]
    return model([node(op, names, list(outs), name="n", **kw)], inputs, [value(o, None) for o in outs if o], opsets={"": opset})


ADD = node("Add", ["x", "w"], ["y"], name="add")
BOOL = [value("x"), value("c", (), T.BOOL)]
LONG = "n" * 1000000

# name, model, status, messages that must all appear, options
CASES = [
    ("no outputs", model([ADD], outputs=[], init=[weights()]), 1, ["the model has no outputs"]),
    ("unknown input", model([node("Relu", ["z"], ["y"], name="r")]), 1, ["node 'r' (Relu): input 0, 'z', is defined nowhere"]),
    ("unknown output", model([node("Relu", ["x"], ["z"])]), 1, ["an output of the model, 'y', is defined nowhere"]),
    ("cycle", model([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Relu", ["b"], ["y"])]), 1, ["'b', is computed by a later node"]),
    ("order", model([node("Relu", ["a"], ["y"]), node("Relu", ["x"], ["a"])]), 1, ["the nodes are out of order or form a cycle"]),
    ("duplicate output", model([node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])]), 1, ["the name 'y' is given twice"]),
    ("duplicate initializer", model([ADD], init=[weights(), weights()]), 1, ["the name 'w' is given twice"]),
    ("duplicate input", model([node("Relu", ["x"], ["y"])], inputs=[value("x"), value("x")]), 1, ["two inputs called 'x'"]),
    ("duplicate result", model([node("Relu", ["x"], ["y"])], outputs=[value("y"), value("y")]), 1, ["two outputs called 'y'"]),
    ("all at once", model([node("Relu", ["p"], ["a"]), node("Relu", ["q"], ["b"]), node("Add", ["a", "b"], ["y"])]), 1,
     ["'p', is defined nowhere", "'q', is defined nowhere"]),
    ("output type", model([node("Relu", ["x"], ["y"])], outputs=[value("y", (3,), T.INT64)]), 1, ["declared i64, but the nodes compute f32"]),
    ("unknown operator", model([node("Frobnicate", ["x"], ["y"], name="f")]), 3, ["node 'f' (Frobnicate): the operator is not supported yet"]),
    ("unknown domain", model([node("F", ["x"], ["y"], domain="d")]), 1, ["its domain 'd' is not among the opset imports"]),
    ("no operator", edited(model([node("Relu", ["x"], ["y"])]), lambda m: m.graph.node[0].ClearField("op_type")), 1, ["names no operator"]),
    ("no opset", edited(model([node("Relu", ["x"], ["y"])]), lambda m: m.ClearField("opset_import")), 1, ["is not among the opset imports"]),
    ("too many inputs", model([node("Relu", ["x", "x"], ["y"])]), 1, ["has 2 inputs, expected at most 1"]),
    ("too few inputs", model([node("Relu", [], ["y"])]), 1, ["has 0 inputs, expected at least 1"]),
    ("missing input", model([node("Add", ["", "x"], ["y"])]), 1, ["input 0 is missing"]),
    ("too many outputs", model([node("Relu", ["x"], ["y", "z"])]), 1, ["has 2 outputs, expected at most 1"]),
    ("unknown attribute", model([node("Relu", ["x"], ["y"], slope=1.0)]), 1, ["attribute 'slope' does not exist"]),
    ("attribute twice", edited(model([node("Softmax", ["x"], ["y"], axis=0)]), lambda m: m.graph.node[0].attribute.append(m.graph.node[0].attribute[0])), 1,
     ["has attribute 'axis' twice"]),
    ("attribute kind", model([node("Softmax", ["x"], ["y"], axis=1.0)]), 1, ["attribute 'axis' is a float, expected an integer"]),
    ("attribute missing", model([node("Cast", ["x"], ["y"])]), 1, ["attribute 'to' is missing"]),
    ("attribute empty", edited(model([node("Constant", [], ["y"], value=weights())]), lambda m: m.graph.node[0].attribute[0].ClearField("t")), 1,
     ["attribute 'value' has no value"]),
    ("constant twice", model([node("Constant", [], ["y"], value_int=1, value_float=1.0)]), 1, ["has both 'value_float' and 'value_int'"]),
    ("constant none", model([node("Constant", [], ["y"])]), 1, ["has no value"]),
    ("axis", model([node("Softmax", ["x"], ["y"], axis=4)]), 1, ["axis 4 lies outside of rank 1"]),
    ("broadcast", model([ADD], init=[weights(n=4)]), 1, ["node 'add' (Add): f32[3] and f32[4] do not broadcast"]),
    ("raw size", model([ADD], init=[bad_tensor(raw_data=b"1234567")]), 1, ["initializer 'w' holds 7 bytes of raw data, f32[3] needs 12"]),
    ("element type", model([ADD], init=[bad_tensor(data_type=77)]), 1, ["initializer 'w' has unknown element type 77"]),
    ("negative dimension", model([ADD], init=[edited(weights(), lambda t: t.dims.append(-3))]), 1, ["has the negative dimension -3"]),
    ("huge dimensions", model([ADD], init=[edited(weights(), lambda t: t.dims.extend([2**62, 2**62]))]), 1, ["has more than 2^48 elements"]),
    ("rank", model([ADD], init=[edited(weights(), lambda t: t.dims.extend([1] * 40))]), 1, ["has rank 41, the limit is 16"]),
    ("nameless initializer", model([ADD], init=[bad_tensor(name="")]), 1, ["initializer 0 has no name"]),
    ("sparse index", model([ADD], sparse=[h.make_sparse_tensor(weights(n=1), numpy_helper.from_array(np.array([9])), [3])]), 1,
     ["the index of its value 0 lies outside of f32[3]"]),
    ("input dimension", model([node("Relu", ["x"], ["y"])], inputs=[value("x", (-7,))]), 1, ["input 'x' has the negative dimension -7"]),
    ("input size", model([node("Relu", ["x"], ["y"])], inputs=[value("x", (2**40, 2**40))]), 1, ["input 'x' has more than 2^44 elements"]),
    ("input shape", model([node("Relu", ["x"], ["y"])], inputs=[value("x", None)]), 3, ["input 'x' has no shape", "--shape x="]),
    ("input type", edited(model([node("Relu", ["x"], ["y"])]), lambda m: m.graph.input[0].type.tensor_type.ClearField("elem_type")), 1,
     ["input 'x' has unknown element type 0"]),
    ("sequence input", model([node("Identity", ["x"], ["y"])], inputs=[h.make_tensor_sequence_value_info("x", F, None)]), 3, ["input 'x' is a sequence"]),
    ("condition type", model([node("If", ["x"], ["y"], **branches(graph([], ["x"]), graph([], ["x"])))]), 1, ["the condition is f32[3]"]),
    ("branch outputs", model([node("If", ["c"], ["y"], **branches(graph([], ["x"]), graph([], [])))], inputs=BOOL), 1, ["its attribute 'else_branch' 0"]),
    ("both branches", model([node("If", ["c"], ["y"], **branches(graph([], ["p"]), graph([], ["q"])))], inputs=BOOL), 1,
     ["'p', is defined nowhere", "'q', is defined nowhere", "neither of its branches"]),
    ("loop outputs", model([node("Loop", ["", "", "x"], ["y"], body=graph([], ["c"], [value("i", (), T.INT64), value("c", (), T.BOOL), value("v")]))]), 1, ["its body has 0 outputs beside the condition"]),
    ("loop inputs", model([node("Loop", ["", "", "x"], ["y"], body=graph([], ["x", "x"]))]), 1, ["attribute 'body' has 0 inputs, expected 3"]),
    ("function recursion", model([node("f", ["x"], ["y"], domain="local")], opsets=LOCAL, functions=[function("f", [node("f", ["a"], ["b"], domain="local")])]),
     1, ["the function calls itself"]),
    ("function attribute", model([node("f", ["x"], ["y"], domain="local", k=1)], opsets=LOCAL, functions=[function("f", [node("Relu", ["a"], ["b"])])]), 1,
     ["the function has no attribute 'k'"]),
    ("function sees no caller", model([node("f", ["x"], ["y"], domain="local")], opsets=LOCAL, functions=[function("f", [node("Relu", ["x"], ["b"])])]), 1,
     ["node 'y/b' (Relu): input 0, 'x', is defined nowhere"]),
    ("function explosion", model([node("f30", ["x"], ["y"], domain="local")], opsets=LOCAL, functions=chain(31)), 5, ["has more than 262144 nodes"]),
    ("reference outside", edited(model([node("Softmax", ["x"], ["y"], axis=0)]), lambda m: setattr(m.graph.node[0].attribute[0], "ref_attr_name", "q")), 1,
     ["refers to an attribute of a function, but stands in none"]),
    ("long names", model([node("Relu", [LONG], ["y"], name=LONG)]), 1, ["is defined nowhere"]),
    ("no such dimension", model([node("Relu", ["x"], ["y"])], inputs=[value("x", ("N",))], outputs=[value("y", ("N",))]), 2, ["there are: 'N'"], ["--dim=M=3"]),
    ("no such input", model([node("Relu", ["x"], ["y"])]), 2, ["the model has no input of that name"], ["--shape=z=3"]),
    ("other rank", model([node("Relu", ["x"], ["y"])]), 2, ["has rank 2, the model's input has rank 1"], ["--shape=x=3x3"]),
    ("other size", model([node("Relu", ["x"], ["y"])]), 2, ["axis 0 is 3 in the model, not 4"], ["--shape=x=4"]),
    ("no such state", model([node("Relu", ["x"], ["y"])]), 2, ["the model has no output 'z'"], ["--state=x=z"]),
    ("state type", model([node("Shape", ["x"], ["y"])], outputs=[value("y", (1,), T.INT64)]), 2, ["they must agree"], ["--state=x=y"]),
    # what operators check of their inputs and attributes
    ("layer norm bias", single("LayerNormalization", [(2, 3, 5), (3, 5), (3, 16)], axis=1), 1, ["node 'n' (LayerNormalization): f32[2, 3, 5] and f32[3, 16]"]),
    ("layer norm rank", single("LayerNormalization", [(3,), (2, 3)]), 1, ["input 1 is f32[2, 3], input 0 f32[3]"]),
    ("rms norm type", single("RMSNormalization", [(3,), (3,)], types={0: T.INT64}, opset=23), 1, ["a float type is needed"]),
    ("batch norm scale", single("BatchNormalization", [(2, 3, 4), (4,), (3,), (3,), (3,)]), 1, ["input 1 is f32[4], at axis 0 the extent 3 is needed"]),
    ("batch norm rank", single("BatchNormalization", [(2, 3, 4), (1, 3), (3,), (3,), (3,)]), 1, ["input 1 is f32[1, 3], rank 1 is needed"]),
    ("group norm groups", single("GroupNormalization", [(2, 5, 4), (5,), (5,)], num_groups=2), 1, ["does not divide into 2 groups"]),
    ("conv bias", single("Conv", [(1, 2, 5, 5), (4, 2, 3, 3), (3,)]), 1, ["bias is f32[3], the output has 4 channels"]),
    ("conv padding", single("Conv", [(1, 2, 5, 5), (4, 2, 3, 3)], auto_pad="SOME"), 1, ["attribute 'auto_pad' is 'SOME', expected one of NOTSET, SAME_UPPER"]),
    ("transposed groups", single("ConvTranspose", [(1, 2, 5), (2, 2, 3)], group=0), 1, ["group is 0"]),
    ("gemm", single("Gemm", [(2, 3), (3, 4), (5,)]), 1, ["C is f32[5], the product f32[2, 4]"]),
    ("gemm rank", single("Gemm", [(2, 3), (3, 4), (1, 2, 4)]), 1, ["C is f32[1, 2, 4], the product f32[2, 4]"]),
    ("lstm bias", single("LSTM", [(4, 2, 3), (1, 20, 3), (1, 20, 5), (1, 20)], hidden_size=5), 1, ["input 3 is f32[1, 20], at axis 1 the extent 40 is needed"]),
    ("lstm recurrence", single("LSTM", [(4, 2, 3), (1, 20, 3), (1, 10, 5)], hidden_size=5), 1, ["R is f32[1, 10, 5], at axis 1 the extent 20"]),
    ("lstm state", single("LSTM", [(4, 2, 3), (1, 20, 3), (1, 20, 5), None, None, (2, 5)], hidden_size=5), 1, ["input 5 is f32[2, 5], rank 3 is needed"]),
    ("lstm peephole", single("LSTM", [(4, 2, 3), (1, 20, 3), (1, 20, 5), None, None, None, None, (1, 5)], hidden_size=5), 1, ["input 7 is f32[1, 5]"]),
    ("lstm direction", single("LSTM", [(4, 2, 3), (1, 20, 3), (1, 20, 5)], hidden_size=5, direction="down"), 1, ["'direction' is 'down', expected one of forward"]),
    ("gru lengths", single("GRU", [(4, 2, 3), (1, 15, 3), (1, 15, 5), None, (3,)], types={4: T.INT32}, hidden_size=5), 1, ["input 4 is i32[3], at axis 0"]),
    ("rnn scalar", single("RNN", [(4, 2, 3), (1, 5, 3), ()], hidden_size=5), 1, ["input 2 is f32[], rank 3 is needed"]),
    ("one hot values", single("OneHot", [(3,), None, (1,)], types={0: T.INT64}, opset=11), 1, ["input 1 is missing"]),
    ("split sum", single("Split", [(5,)], outs=("y", "z"), opset=11, split=[2, 2]), 1, ["split adds up to 4, axis 0 has 5"]),
    ("split negative", single("Split", [(5,)], outs=("y", "z"), opset=11, split=[7, -2]), 1, ["split has the entry -2"]),
    ("scatter extents", single("ScatterElements", [(3, 3), (2, 3), (1, 3)], types={1: T.INT64}), 1, ["extent 2 does not broadcast to 1"]),
    ("attention mask", single("Attention", [(1, 2, 3, 8), (1, 2, 4, 8), (1, 2, 4, 8), (2, 4)], opset=23), 1, ["extent 2 does not broadcast to 3"]),
    ("pow types", single("Pow", [(3,), (3,)], types={1: T.COMPLEX64}), 1, ["node 'n' (Pow): cast: operand must be a number or bool, found c64"]),
    ("cast complex", single("Cast", [(3,)], types={0: T.COMPLEX64}, to=F), 3, ["node 'n' (Cast): casts from c64"]),
]


def run(mlc, path, options):
    return subprocess.run([mlc, "dump", "--stage=import", path, *options], capture_output=True, text=True, errors="replace", timeout=300)


def check(mlc, folder, name, m, status, messages, options=()):
    path = os.path.join(folder, "m.onnx")
    with open(path, "wb") as f:
        f.write(m.SerializeToString())
    r = run(mlc, path, options)
    missing = [t for t in messages if t not in r.stderr]
    if r.returncode == status and not missing and len(r.stderr) < 4000:
        return True
    print(f"FAIL {name}: status {r.returncode}, expected {status}; missing {missing}; said:\n{r.stderr[:1500]}")
    return False


def main():
    mlc = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        results = [check(mlc, folder, *case) for case in CASES]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
