"""Mutants of models through `mlc dump --stage=STAGE`: each must pass or end in a message with status 1, 2, 3, 5 or 6.

usage: mutate.py MLC COUNT SEED [--stage=loops] [--operators] [MODEL...]. A third of the mutants are edits of bytes, a third edits of any fields through
protobuf, a third (all of them with --operators) edits of what operators must check: ranks, extents, types, contents and attributes. Without MODEL,
small ones with subgraphs, loops and functions are made. What ends otherwise is kept as mutant_SEED_NUMBER.onnx in the current folder, and reported.
"""
import math
import os
import random
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor as FD
from onnx import TensorProto as T, helper as h, numpy_helper

F = T.FLOAT
INTEGERS = [0, 1, -1, 2, 3, 7, 16, 2**31 - 1, -2**31, 2**62, -2**63, 2**40, 100000] + list(range(30))
ENDS = {0, 1, 2, 3, 5, 6}


def value(name, shape=None, dtype=F):
    return h.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs, outputs, init=(), functions=()):
    opsets = [h.make_opsetid("", 18), h.make_opsetid("local", 1)]
    g = h.make_graph(nodes, "g", inputs, outputs, list(init))
    return h.make_model(g, functions=list(functions), opset_imports=opsets)


def small_models():
    x, y = value("x", ["N", 3]), value("y", ["N", 3])
    weights = numpy_helper.from_array(np.arange(3, dtype=np.float32), "w")
    yield model([h.make_node("Add", ["x", "w"], ["a"]), h.make_node("Relu", ["a"], ["y"])], [x], [y], [weights])
    then = h.make_graph([h.make_node("Identity", ["x"], ["t"])], "then", [], [value("t")])
    other = h.make_graph([h.make_node("Neg", ["x"], ["e"])], "else", [], [value("e")])
    f = h.make_function("local", "F", ["p"], ["q"], [h.make_node("Constant", [], ["k"], value_int=0), h.make_node("Cast", ["k"], ["c"], to=F),
                                                    h.make_node("Add", ["p", "c"], ["q"])], [h.make_opsetid("", 18)], ["a"])
    f.node[0].attribute[0].ref_attr_name = "a"
    branch = h.make_node("If", ["c"], ["b"], then_branch=then, else_branch=other)
    yield model([branch, h.make_node("F", ["b"], ["y"], domain="local", a=2)], [x, value("c", [], T.BOOL)], [y], [], [f])
    body = h.make_graph([h.make_node("Identity", ["ci"], ["co"]), h.make_node("Concat", ["v", "v"], ["vo"], axis=0), h.make_node("Identity", ["v"], ["s"])],
                        "body", [value("i", [], T.INT64), value("ci", [], T.BOOL), value("v")], [value("co", [], T.BOOL), value("vo"), value("s")])
    yield model([h.make_node("Loop", ["m", "", "x"], ["y", "z"], body=body)], [value("x", [3]), value("m", [], T.INT64)], [value("y")])


def messages(m):
    yield m
    for field, v in m.ListFields():
        if field.type == FD.TYPE_MESSAGE:
            for inner in v if field.is_repeated else [v]:
                yield from messages(inner)


def names_of(m):
    names = {n for x in messages(m) for f, v in x.ListFields() if f.type == FD.TYPE_STRING for n in (v if f.is_repeated else [v])}
    return sorted(names) + ["", "zz"]


def any_value(rng, field, names):
    if field.type == FD.TYPE_STRING:
        return rng.choice(names)
    if field.type == FD.TYPE_BYTES:
        return rng.randbytes(rng.choice([0, 1, 4, 8, 12]))
    if field.type in (FD.TYPE_FLOAT, FD.TYPE_DOUBLE):
        return rng.choice([0.0, 1.5, float("nan"), 1e30])
    if field.type == FD.TYPE_ENUM:
        return rng.choice(field.enum_type.values).number
    v = rng.choice(INTEGERS)
    if field.type == FD.TYPE_INT32:
        return max(-2**31, min(2**31 - 1, v))
    return abs(v) if field.type == FD.TYPE_UINT64 else v


def edit_list(rng, items, field, names):
    at = rng.randrange(len(items)) if len(items) else -1
    how = rng.randrange(3)
    if at < 0:
        items.add() if field.type == FD.TYPE_MESSAGE else items.append(any_value(rng, field, names))
    elif how == 0:
        del items[at]
    elif how == 1 and field.type == FD.TYPE_MESSAGE:
        items.add().CopyFrom(items[at])
    elif field.type == FD.TYPE_MESSAGE:
        items[at].CopyFrom(items[rng.randrange(len(items))])
    elif how == 1:
        items.append(any_value(rng, field, names))
    else:
        items[at] = any_value(rng, field, names)


def edit_field(rng, m, names):
    m = rng.choice(list(messages(m)))
    present = [f for f, _ in m.ListFields()]
    field = rng.choice(present if present and rng.random() < 0.75 else list(m.DESCRIPTOR.fields))
    if field.is_repeated:
        edit_list(rng, getattr(m, field.name), field, names)
    elif rng.random() < 0.3:
        m.ClearField(field.name)
    elif field.type == FD.TYPE_MESSAGE:
        getattr(m, field.name).SetInParent()
    else:
        setattr(m, field.name, any_value(rng, field, names))


def edit_bytes(rng, b):
    at, n, how = rng.randrange(len(b)), rng.randrange(1, 9), rng.randrange(5)
    if how == 0:
        b[at] = rng.randrange(256)
    elif how == 1:
        b[at] ^= 1 << rng.randrange(8)
    elif how == 2:
        del b[at:at + n]
    elif how == 3:
        b[at:at] = rng.randbytes(n)
    else:
        del b[max(at, 1):]
    return b or bytearray(b"\x08")


EXTENTS = [0, 1, 1, 2, 3, 4, 5, 7, 64, 2**31, 2**40]
TYPES = [T.FLOAT, T.DOUBLE, T.FLOAT16, T.BFLOAT16, T.INT8, T.UINT8, T.INT32, T.INT64, T.UINT64, T.BOOL, T.STRING, T.INT4, T.FLOAT8E4M3FN, T.COMPLEX64]


def edit_shape(rng, m):
    """An input gets other extents, another rank or another type."""
    if not m.graph.input:
        return
    t = rng.choice(m.graph.input).type.tensor_type
    dims = t.shape.dim
    how = rng.randrange(5)
    if how == 0 or (not dims and how < 3):
        dims.add().dim_value = rng.choice(EXTENTS)
    elif how == 1:
        del dims[rng.randrange(len(dims))]
    elif how == 2:
        dims[rng.randrange(len(dims))].dim_value = rng.choice(EXTENTS)
    elif how == 3 and dims:
        dims[rng.randrange(len(dims))].dim_param = rng.choice("NM")
    else:
        t.elem_type = rng.choice(TYPES)


def edit_content(rng, m):
    """An input becomes a constant with odd elements."""
    at = rng.randrange(len(m.graph.input))
    v = m.graph.input[at]
    shape = [d.dim_value for d in v.type.tensor_type.shape.dim]
    count = math.prod(shape)
    kind = v.type.tensor_type.elem_type
    if not 0 <= count <= 64 or max(shape, default=0) > 64 or kind not in (T.FLOAT, T.DOUBLE, T.INT32, T.INT64, T.UINT8, T.INT8, T.BOOL):
        return edit_shape(rng, m)
    if kind in (T.FLOAT, T.DOUBLE):
        items = [rng.choice([0.0, 0.5, 1.0, 2.0, -1.0, float("nan"), float("inf"), 1e30]) for _ in range(count)]
    else:
        pool = INTEGERS if rng.random() < 0.5 else [-3, -2, -1, 0, 1, 2, 3]
        items = [rng.choice(pool) for _ in range(count)]
    dtype = h.tensor_dtype_to_np_dtype(kind)
    wrapped = np.array(items).astype(dtype) if kind != T.UINT8 else np.array([i & 255 for i in items], dtype)
    m.graph.initializer.append(numpy_helper.from_array(wrapped.reshape(shape), v.name))
    del m.graph.input[at]


def edit_attribute(rng, m):
    nodes = [n for n in m.graph.node if n.attribute]
    if not nodes:
        return edit_shape(rng, m)
    a = rng.choice(rng.choice(nodes).attribute)
    small = [-5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 100]
    pick = lambda: rng.choice(small if rng.random() < 0.7 else INTEGERS)
    if a.type == a.INT:
        a.i = pick()
    elif a.type == a.INTS:
        if a.ints and rng.random() < 0.6:
            a.ints[rng.randrange(len(a.ints))] = pick()
        elif a.ints and rng.random() < 0.5:
            a.ints.pop()
        else:
            a.ints.append(pick())
    elif a.type == a.FLOAT:
        a.f = rng.choice([0.0, -1.0, 1e30, float("nan"), float("inf")])
    elif a.type == a.STRING:
        a.s = rng.choice([b"", b"x", b"SAME_UPPER", b"bidirectional", b"reverse", b"linear"])
    elif a.type == a.STRINGS:
        a.strings.append(b"Relu")
    else:
        edit_field(rng, m, [""])


def edit_arity(rng, m):
    n = rng.choice(m.graph.node)
    how = rng.randrange(4)
    if how == 0 and n.input:
        n.input[rng.randrange(len(n.input))] = rng.choice(["", *(v.name for v in m.graph.input)])
    elif how == 1 and n.input:
        n.input.pop()
    elif how == 2 and m.graph.input:
        n.input.append(rng.choice(m.graph.input).name)
    elif len(m.graph.output) > 1:
        gone = m.graph.output.pop().name
        n.output[:] = ["" if o == gone else o for o in n.output]


def edit_operator(rng, m):
    """What the functions that import an operator must check themselves; the declared outputs say nothing."""
    for v in m.graph.output:
        if v.type.HasField("tensor_type"):
            v.type.tensor_type.ClearField("shape")
    edits = [edit_attribute, edit_arity] + [edit_shape, edit_shape, edit_content, edit_content] * bool(m.graph.input)
    if all(v.type.HasField("tensor_type") for v in m.graph.input):
        rng.choice(edits)(rng, m)


def mutant(rng, original, operators):
    m = onnx.ModelProto.FromString(original)
    edits = rng.choice([1, 1, 2, 3])
    third = 2 if operators else rng.randrange(3)
    if third == 2 and m.graph.node:
        for _ in range(edits):
            edit_operator(rng, m)
        return m.SerializeToString() or b"\x08"
    if third == 1:
        names = names_of(m)
        for _ in range(edits):
            edit_field(rng, m, names)
        return m.SerializeToString() or b"\x08"
    b = bytearray(original)
    for _ in range(edits):
        b = edit_bytes(rng, b)
    return bytes(b)


def main():
    mlc, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    stage = next((a for a in sys.argv[4:] if a.startswith("--stage=")), "--stage=import")
    rng = random.Random(seed)
    originals = [onnx.load(p, load_external_data=False) for p in sys.argv[4:] if not p.startswith("--")] or small_models()
    originals = [m.SerializeToString() for m in originals]
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.onnx")
        for k in range(count):
            data = mutant(rng, rng.choice(originals), "--operators" in sys.argv)
            with open(path, "wb") as f:
                f.write(data)
            try:
                r = subprocess.run([mlc, "dump", stage, path], capture_output=True, timeout=60)
                end, text = r.returncode, r.stderr.decode("utf-8", "replace")
            except subprocess.TimeoutExpired:
                end, text = "time", ""
            if end in ENDS and (end == 0 or "mlc: error: " in text):
                continue
            bad += 1
            kept = f"mutant_{seed}_{k}.onnx"
            with open(kept, "wb") as f:
                f.write(data)
            print(f"FAIL {kept}: status {end}\n{text[:600]}")
    print(f"{count - bad} passed, {bad} failed")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
