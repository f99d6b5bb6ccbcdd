"""Structure of models: functions, subgraphs, constants, initialisers, storage. Each model is made here and run on inputs by `mlc verify` through the
evaluator and through compiled code; ONNX Runtime, or an expression in NumPy, says what must come out.

usage: cases.py MLC [NAME...]
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T, helper as h, numpy_helper

F = T.FLOAT
R = np.random.default_rng(1)
OPTIONS = onnxruntime.SessionOptions()
OPTIONS.log_severity_level = 4


def value(name, shape=None, dtype=F):
    return h.make_tensor_value_info(name, dtype, shape)


def node(op, ins, outs, **kw):
    return h.make_node(op, ins, outs, **kw)


def tensor(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def model(nodes, inputs, outputs, init=(), functions=(), opsets=None, ir=10, sparse=()):
    g = h.make_graph(list(nodes), "g", list(inputs), list(outputs), list(init), sparse_initializer=list(sparse))
    return h.make_model(g, functions=list(functions), opset_imports=[h.make_opsetid(d, v) for d, v in (opsets or {"": 18}).items()], ir_version=ir)


def graph(nodes, outs, ins=(), init=()):
    return h.make_graph(list(nodes), "sub", list(ins), [o if isinstance(o, onnx.ValueInfoProto) else value(o) for o in outs], list(init))


def function(name, nodes, ins, outs, attrs=(), defaults=(), opset=18, overload=""):
    f = h.make_function("local", name, list(ins), list(outs), list(nodes), [h.make_opsetid("", opset), h.make_opsetid("local", 1)], list(attrs),
                        list(defaults))
    f.overload = overload
    return f


def ref(n, attribute, outer, kind):
    a = n.attribute.add()
    a.name, a.ref_attr_name, a.type = attribute, outer, kind
    return n


LOCAL = {"": 18, "local": 1}
X = R.standard_normal((2, 3)).astype(np.float32)
XY = ([value("x", ["N", 3])], [value("y")])
I64 = np.int64
SCALAR = (lambda n, t=T.INT64: value(n, [], t))
cases = {}


def case(name, m, inputs, expected=None, options=(), status=0):
    """inputs: arrays by name; expected: arrays in order of the outputs (default: ONNX Runtime's); status: of mlc."""
    assert name not in cases
    cases[name] = (m, [inputs] if isinstance(inputs, dict) else inputs, expected, options, status)


# ---- functions ----
elu = function("elu", [ref(node("Elu", ["a"], ["b"]), "alpha", "k", onnx.AttributeProto.FLOAT)], ["a"], ["b"], ["k"])
outer = function("outer", [ref(node("elu", ["a"], ["c"], domain="local"), "k", "q", onnx.AttributeProto.FLOAT), node("Add", ["c", "a"], ["b"])],
                 ["a"], ["b"], [], [h.make_attribute("q", 0.25)])
case("function attribute", model([node("elu", ["x"], ["y"], domain="local", k=0.5)], *XY, functions=[elu], opsets=LOCAL), {"x": X})
case("function nested", model([node("outer", ["x"], ["y"], domain="local", q=3.0)], *XY, functions=[elu, outer], opsets=LOCAL), {"x": X})
case("function default", model([node("outer", ["x"], ["y"], domain="local")], *XY, functions=[elu, outer], opsets=LOCAL), {"x": X},
     [np.where(X > 0, X, 0.25 * np.expm1(X)) + X])
case("function opset", model([node("sq", ["x"], ["y"], domain="local")], *XY, opsets=LOCAL,
                             functions=[function("sq", [node("Unsqueeze", ["a"], ["u"], axes=[0]), node("Squeeze", ["u"], ["b"], axes=[0])],
                                                 ["a"], ["b"], opset=11)]), {"x": X}, [X])
plus = [function("f", [node(op, ["a", "a"], ["b"])], ["a"], ["b"], overload=name) for op, name in [("Add", "sum"), ("Mul", "")]]
over = node("f", ["x"], ["y"], domain="local")
over.overload = "sum"
case("function overload", model([over], *XY, functions=plus, opsets=LOCAL), {"x": X}, [X + X])
clip = function("clip", [node("Clip", ["a", "lo", "hi"], ["b"])], ["a", "lo", "hi"], ["b"])
case("function optional input", model([node("clip", ["x", "", "h"], ["y"], domain="local")], *XY, init=[tensor("h", np.float32(0.1))], functions=[clip],
                                      opsets=LOCAL), {"x": X}, [np.minimum(X, np.float32(0.1))])
inner_if = node("If", ["c"], ["b"], then_branch=graph([ref(node("Elu", ["a"], ["t"]), "alpha", "k", onnx.AttributeProto.FLOAT)], ["t"]),
                else_branch=graph([node("Neg", ["a"], ["e"])], ["e"]))
case("function subgraph", model([node("f", ["x", "c"], ["y"], domain="local", k=2.0)], XY[0] + [SCALAR("c", T.BOOL)], XY[1], opsets=LOCAL,
                                functions=[function("f", [inner_if], ["a", "c"], ["b"], ["k"])]),
     [{"x": X, "c": np.array(True)}, {"x": X, "c": np.array(False)}])


# ---- dimensions: without a letter or digit in its name, each is one of its own ----
for name, text in [("dimensions underscore", "_"), ("dimensions empty", ""), ("dimensions question", "?")]:
    case(name, model([node("Concat", ["x", "z"], ["y"], axis=0)], [value("x", [text, 3]), value("z", [text, 3])], [value("y")]), {"x": X, "z": X[:1]},
         [np.concatenate([X, X[:1]])])

backwards = [tensor("s", np.array([-2])), tensor("e", np.array([-2**62])), tensor("a", np.array([0])), tensor("st", np.array([-1]))]
case("slice of nothing, backwards", model([node("Slice", ["x", "s", "e", "a", "st"], ["y"])], *XY, init=backwards),
     {"x": X[:0]}, [X[:0]], ["--dim=N=0..8"])


# ---- If ----
def branches(then, other):
    return {"then_branch": graph(*then), "else_branch": graph(*other)}


BOOLS = [{"x": X, "c": np.array(True)}, {"x": X, "c": np.array(False)}]
XC = XY[0] + [SCALAR("c", T.BOOL)]
case("if both", model([node("Relu", ["x"], ["r"]), node("If", ["c"], ["y"], **branches(([node("Neg", ["r"], ["t"])], ["t"]), ([node("Exp", ["x"], ["e"])], ["e"])))],
                      XC, XY[1]), BOOLS)
case("if captured weights", model([node("If", ["c"], ["y"], **branches(([node("Add", ["x", "w"], ["t"])], ["t"]),
                                                                       ([node("Mul", ["x", "v"], ["e"])], ["e"], [], [tensor("v", X[:1])])))],
                                  XC, XY[1], init=[tensor("w", X[:1])]), BOOLS)
case("if sizes", model([node("If", ["c"], ["y"], **branches((
    [node("Concat", ["x", "x"], ["t"], axis=0)], ["t"]), ([node("Neg", ["x"], ["e"])], ["e"])))], XC, XY[1]), BOOLS)
case("if known", model([node("Shape", ["x"], ["s"]), node("Size", ["s"], ["n"]), node("Equal", ["n", "two"], ["c"]),
                        node("If", ["c"], ["y"], **branches(([node("Identity", ["x"], ["t"])], ["t"]), ([node("Squeeze", ["x", "axis"], ["e"])], ["e"])))],
                       *XY, init=[tensor("two", I64(2)), tensor("axis", np.array([0]))]), {"x": X})
RANKS = [node("Shape", ["x"], ["s"], start=0, end=1), node("Equal", ["s", "one"], ["c"]), node("If", ["c"], ["z"], **branches(
    ([node("Squeeze", ["x", "axis"], ["t"])], ["t"]), ([node("Identity", ["x"], ["e"])], ["e"])))]
ONE = [tensor("one", np.array([1])), tensor("axis", np.array([0])), tensor("w", X[:1].T)]
case("if ranks, then", model(RANKS + [node("Neg", ["z"], ["y"])], *XY, init=ONE), {"x": X[:1]}, [-X[0]])
case("if ranks, then, checked", model(RANKS + [node("Neg", ["z"], ["y"])], *XY, init=ONE), {"x": X}, [X], status=1)
case("if ranks, else", model(RANKS + [node("Transpose", ["z"], ["y"], perm=[1, 0])], *XY, init=ONE), {"x": X})
case("if ranks, else, checked", model(RANKS + [node("Transpose", ["z"], ["y"], perm=[1, 0])], *XY, init=ONE), {"x": X[:1]}, [X], status=1)
case("if ranks, fixed", model(RANKS + [node("Neg", ["z"], ["y"])], *XY, init=ONE), {"x": X[:1]}, options=["--dim=N=1"])
case("if ranks, by value", model([node("If", ["c"], ["z"], **branches(([node("ReduceSum", ["x"], ["t"], keepdims=0)], ["t"]),
                                                                      ([node("Identity", ["x"], ["e"])], ["e"]))), node("Transpose", ["z"], ["y"], perm=[1, 0])],
                                 XC, XY[1]), {"x": X, "c": np.array(False)})


def rank_choice(k, ranks):
    """zk from x[1, 3]: with rank ranks[0] when ck holds, ranks[1] when not."""
    ops = [node("Squeeze", ["x", "axis"], ["t"]) if r == 1 else node("Neg", ["x"], ["t"]) for r in ranks]
    return node("If", [f"c{k}"], [f"z{k}"], **branches(([ops[0]], ["t"]), ([ops[1]], ["t"])))


# Three decisions; that the first and the last must be 1 shows only at the end.
case("if decisions", model([rank_choice(0, (1, 2)), rank_choice(1, (2, 1)), rank_choice(2, (1, 2))]
                           + [node("Transpose", [f"z{k}"], [f"u{k}"], perm=[1, 0]) for k in (1, 2, 0)] + [node("Sum", ["u0", "u1", "u2"], ["y"])],
                           [value("x", [1, 3])] + [SCALAR(f"c{k}", T.BOOL) for k in range(3)], XY[1], init=ONE[1:2]),
     {"x": X[:1], "c0": np.array(False), "c1": np.array(True), "c2": np.array(False)}, [-3 * X[:1].T])
case("if dead branch", model([node("If", ["c"], ["y"], **branches(([node("MatMul", ["x", "x"], ["t"])], ["t"]), ([node("Neg", ["x"], ["e"])], ["e"])))],
                             [value("x", [2, 3]), SCALAR("c", T.BOOL)], XY[1]), {"x": X, "c": np.array(False)}, [-X])


# ---- Loop and Scan ----
def body(nodes, outs, carried, cond="go"):
    ins = [SCALAR("i"), SCALAR("go", T.BOOL)] + [value(c, None, t) for c, t in carried]
    return graph(nodes, [value(cond, None, T.BOOL)] + [value(o, None, t) for o, t in outs], ins)


TRIPS = [{"x": X, "m": I64(k)} for k in (0, 1, 4)]
XM = XY[0] + [SCALAR("m")]
CAST = node("Cast", ["i"], ["f"], to=F)
case("loop carried", model([node("Loop", ["m", "", "x"], ["y"], body=body([CAST, node("Add", ["v", "f"], ["w"])], [("w", F)], [("v", F)]))], XM, XY[1]), TRIPS)
case("loop scanned", model([node("Loop", ["m", "", "x"], ["y", "z"], body=body([CAST, node("Add", ["v", "f"], ["w"]), node("Mul", ["w", "x"], ["s"])],
                                                                              [("w", F), ("s", F)], [("v", F)]))], XM, [value("y"), value("z")]), TRIPS[1:])
case("loop grows", model([node("Loop", ["m", "", "x"], ["y"], body=body([node("Concat", ["v", "x"], ["w"], axis=0)], [("w", F)], [("v", F)]))], XM, XY[1]), TRIPS)
case("loop ends itself", model([node("Loop", ["m", "t", "x"], ["y"], body=body(
    [node("Add", ["v", "x"], ["w"]), node("Less", ["i", "two"], ["on"])], [("w", F)], [("v", F)], "on"))],
    XM, XY[1], init=[tensor("two", I64(1)), tensor("t", np.array(True))]), {"x": X, "m": I64(10)})
case("loop not entered", model([node("Loop", ["m", "t", "x"], ["y"], body=body([node("Neg", ["v"], ["w"])], [("w", F)], [("v", F)]))],
                               XM, XY[1], init=[tensor("t", np.array(False))]), {"x": X, "m": I64(3)})
NEXT = [node("Add", ["t", "step"], ["u"]), node("Add", ["v", "w"], ["z"])]
COUNTED = dict(outs=[("u", T.INT64), ("n2", T.INT64), ("z", F), ("w2", F), ("z2", F)], carried=[("t", T.INT64), ("k", T.INT64), ("v", F), ("w", F)])
SAME = [node("Identity", [a], [b]) for a, b in (("k", "n2"), ("w", "w2"), ("z", "z2"))]
COUNTS = [tensor("step", I64(2)), tensor("zero", I64(0)), tensor("t0", np.array(True)), tensor("five", I64(5)), tensor("down", I64(-2))]
case("loop counted", model([node("Size", ["x"], ["n"]), node("Less", ["zero", "n"], ["c"]), node("Loop", ["", "c", "zero", "n", "x", "x"], ["u0", "m", "y", "p", "s"], body=body(
    NEXT + [node("Less", ["u", "k"], ["on"])] + SAME, cond="on", **COUNTED))], XY[0], [value("y"), value("s"), value("p"), value("m", None, T.INT64)], init=COUNTS),
     [{"x": X}, {"x": X[:1]}])
case("loop counted down", model([node("Loop", ["", "t0", "five", "zero", "x", "x"], ["r", "k0", "y", "p0", "s"], body=body(
    [node("Add", ["t", "down"], ["u"]), NEXT[1], node("Greater", ["u", "k"], ["on"])] + SAME, cond="on", **COUNTED))], XY[0],
    [value("y"), value("s"), value("r", None, T.INT64)], init=COUNTS), {"x": X})
case("loop counted by its iteration", model([node("Loop", ["m", "t0", "x"], ["y", "s"], body=body(
    [node("Neg", ["v"], ["w"]), node("Add", ["w", "x"], ["q"]), node("LessOrEqual", ["i", "step"], ["on"])], [("q", F), ("w", F)], [("v", F)], "on"))],
    XY[0], [value("y"), value("s")], init=COUNTS + [tensor("m", I64(9))]), {"x": X})
case("loop in if", model([node("If", ["c"], ["y"], **branches(
    ([node("Loop", ["k", "", "x"], ["t"], body=body([node("Mul", ["v", "x"], ["w"])], [("w", F)], [("v", F)]))], ["t"]), ([node("Neg", ["x"], ["e"])], ["e"])))],
    XC, XY[1], init=[tensor("k", I64(3))]), BOOLS)


def scan(nodes, states, slices, outs, **kw):
    return dict(body=graph(nodes, outs, [value(s) for s in states + slices]), num_scan_inputs=len(slices), **kw)


SUM = [node("Add", ["s", "e"], ["t"]), node("Mul", ["t", "e"], ["o"])]
ZERO = np.zeros(3, np.float32)
case("scan", model([node("Scan", ["h", "x"], ["p", "y"], **scan(SUM, ["s"], ["e"], ["t", "o"]))], XY[0] + [value("h", [3])], [value("p"), value("y")]),
     {"x": X, "h": ZERO})
case("scan axes", model([node("Scan", ["h", "x"], ["p", "y"], **scan(SUM, ["s"], ["e"], ["t", "o"], scan_input_axes=[1], scan_input_directions=[1],
                                                                     scan_output_axes=[1], scan_output_directions=[1]))],
                        [value("x", [3, "N"]), value("h", [3])], [value("p"), value("y")]), {"x": np.ascontiguousarray(X.T), "h": ZERO})

# ---- constants, initialisers, inputs ----
FORMS = {"value": tensor("", X), "value_float": 1.5, "value_floats": [1.0, 2.0, 3.0]}
for form, v in FORMS.items():
    case(f"constant {form}", model([node("Constant", [], ["k"], **{form: v}), node("Add", ["x", "k"], ["y"])], *XY), {"x": X})
for form, v in {"value_int": 3, "value_ints": [1, 2, 3]}.items():
    case(f"constant {form}", model([node("Constant", [], ["k"], **{form: v}), node("Cast", ["k"], ["f"], to=F), node("Add", ["x", "f"], ["y"])], *XY), {"x": X})
SPARSE = h.make_sparse_tensor(tensor("w", np.array([5, 7], np.float32)), tensor("", np.array([[0, 2], [1, 0]])), [2, 3])
DENSE = np.array([[0, 0, 5], [7, 0, 0]], np.float32)
case("constant sparse_value", model([node("Constant", [], ["k"], sparse_value=SPARSE), node("Add", ["x", "k"], ["y"])], *XY), {"x": X}, [X + DENSE])
case("sparse initializer", model([node("Add", ["x", "w"], ["y"])], *XY, sparse=[SPARSE]), {"x": X}, [X + DENSE])
case("initializer among the inputs", model([node("Add", ["x", "w"], ["y"])], XY[0] + [value("w", [3])], XY[1], init=[tensor("w", X[0])], opsets={"": 8}, ir=3),
     {"x": X}, [X + X[0]])
case("typed initializer", model([node("Add", ["x", "w"], ["y"])], *XY, init=[h.make_tensor("w", F, [3], [1.0, 2.0, 3.0])]), {"x": X})
case("output is an input", model([node("Relu", ["x"], ["y"])], XY[0], [value("y"), value("x", ["N", 3])]), {"x": X})
case("output is an initializer", model([node("Relu", ["x"], ["y"])], XY[0], [value("y"), value("w", [2, 3])], init=[tensor("w", X)]), {"x": X})
case("optional input", model([node("Clip", ["x", "", "h"], ["y"])], *XY, init=[tensor("h", np.float32(0.2))]), {"x": X})
case("shared dimension", model([node("Add", ["x", "z"], ["y"])], XY[0] + [value("z", ["N", 3])], XY[1]), {"x": X, "z": X})
case("shape option", model([node("Relu", ["x"], ["y"])], [value("x")], XY[1]), {"x": X}, options=["--shape=x=2x3"])


def write(path, message):
    with open(path, "wb") as f:
        f.write(message.SerializeToString())


def write_sets(folder, m, sets, expected):
    for k, inputs in enumerate(sets):
        data = os.path.join(folder, f"set_{k}")
        os.mkdir(data)
        inputs = {k: np.asarray(v) for k, v in inputs.items()}
        names = [i.name for i in m.graph.input if i.name in inputs]
        outputs = expected or onnxruntime.InferenceSession(m.SerializeToString(), OPTIONS).run(None, inputs)
        for i, name in enumerate(names):
            write(os.path.join(data, f"input_{i}.pb"), tensor(name, inputs[name]))
        for i, out in enumerate(outputs):
            write(os.path.join(data, f"output_{i}.pb"), tensor("", out))
        yield data


def check(mlc, name, m, sets, expected, options, status):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.onnx")
        write(path, m)
        data = list(write_sets(folder, m, sets, expected))
        ok = True
        for backend in ("eval", "llvm"):
            r = subprocess.run([mlc, "verify", path, *data, "--no-cache", f"--backend={backend}", *options], capture_output=True, text=True, timeout=300)
            if r.returncode != status:
                print(f"FAIL {name}, {backend}: status {r.returncode}, expected {status}\n{r.stdout[-600:]}{r.stderr[-1200:]}")
                ok = False
        return ok


def main():
    wanted = sys.argv[2:] or cases
    results = [check(sys.argv[1], name, *cases[name]) for name in wanted]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
