"""Cases of control flow whose sizes the run finds out: values that grow in a loop, branches that compute their sizes, outputs stacked until a condition ends the loop."""

import numpy as np
import onnx
from onnx import parser

HEAD = '<ir_version: 10, opset_import: ["" : 22]>\n'
F32 = np.float32

GROW = """grow (int64 n, bool t, float[L] x, float limit) => (float[M] y, float[M] z) {
    y = Loop (n, t, x) <body = b (int64 i, bool g, float[K] c) => (bool go, float[P] d) {
        f = Cast <to = 1> (i)
        xf = Mul (x, f)
        d = Concat <axis = 0> (c, xf)
        s = ReduceSum <keepdims = 0> (d)
        go = Less (s, limit)
    }>
    z = Mul (y, y)
}"""


def grow(n, t, x, limit):
    y = x
    for i in range(n if t else 0):
        y = np.concatenate([y, x * F32(i)])
        if y.sum() >= limit:
            break
    return y, y * y


# A value that shrinks, one that swaps places with it, one that keeps its size; the loop has no trip count.
SWAP = """swap (float[A] x, float[B] y) => (float[C] p, float[D] q, float s) {
    t = Constant <value = bool {1}> ()
    zero = Constant <value = float {0}> ()
    one = Constant <value = int64[1] {1}> ()
    end = Constant <value = int64[1] {100}> ()
    limit = Constant <value = int64 {0}> ()
    p, q, s = Loop (, t, x, y, zero) <body = b (int64 i, bool g, float[K] a, float[L] c, float e) => (bool go, float[L] c2, float[M] a2, float e2) {
        a2 = Slice (a, one, end)
        c2 = Identity (c)
        r = ReduceSum <keepdims = 0> (a)
        e2 = Add (e, r)
        n = Size (a2)
        go = Greater (n, limit)
    }>
}"""


def swap(x, y):
    a, c, e = x, y, F32(0)
    while True:
        a, c, e = c, a[1:], e + a.sum(dtype=F32)
        if c.size == 0:
            return a, c, np.asarray(e, F32)


BRANCH = """branch (bool t, float[L] x) => (float[M] z) {
    axis = Constant <value = int64[1] {0}> ()
    y = If (t) <then_branch = a () => (float[N] r) {
        nz = NonZero (x)
        f = Cast <to = 1> (nz)
        r = Squeeze (f, axis)
    }, else_branch = b () => (float[L] q) {
        q = Add (x, x)
    }>
    z = Add (y, y)
}"""


def branch(t, x):
    return (2 * np.nonzero(x)[0].astype(F32) if t else 4 * x,)


STACKED = """stacked (int64 n, bool t, float[L] x, float limit) => (float[L] y, float[T, L] ys) {
    two = Constant <value = float {2}> ()
    y, ys = Loop (n, t, x) <body = b (int64 i, bool g, float[L] c) => (bool go, float[L] d, float[L] o) {
        d = Mul (c, two)
        s = ReduceSum <keepdims = 0> (d)
        go = Less (s, limit)
        o = Neg (d)
    }>
}"""


def stacked(n, t, x, limit):
    rows = []
    for _ in range(n if t else 0):
        x = x * F32(2)
        rows.append(-x)
        if x.sum() >= limit:
            break
    return x, np.array(rows, F32).reshape(len(rows), x.size)


ENDLESS = STACKED.replace("int64 n, ", "").replace("Loop (n,", "Loop (,")

# Rows whose size is found out in the body.
ROWS = """rows (int64 n, float[L] x) => (int64[T, M] ys) {
    t = Constant <value = bool {1}> ()
    axis = Constant <value = int64[1] {0}> ()
    ys = Loop (n, t) <body = b (int64 i, bool g) => (bool go, int64[M] o) {
        nz = NonZero (x)
        s = Squeeze (nz, axis)
        o = Add (s, i)
        go = Identity (g)
    }>
}"""

NESTED = """nested (int64 n, float[L] x) => (float[M] y) {
    t = Constant <value = bool {1}> ()
    y = Loop (n, t, x) <body = b (int64 i, bool g, float[K] c) => (bool go, float[P] d) {
        e = Loop (i, t, c) <body = inner (int64 j, bool h, float[Q] u) => (bool on, float[R] v) {
            v = Concat <axis = 0> (u, x)
            on = Identity (h)
        }>
        d = Neg (e)
        go = Identity (g)
    }>
}"""


# Known to end at 5*L elements: no allocator is needed.
BOUNDED = """bounded (float[L] x) => (float[M] y) {
    n = Constant <value = int64 {4}> ()
    t = Constant <value = bool {1}> ()
    y = Loop (n, t, x) <body = b (int64 i, bool g, float[K] c) => (bool go, float[P] d) {
        d = Concat <axis = 0> (c, x)
        go = Identity (g)
    }>
}"""


def nested(n, x):
    c = x
    for i in range(n):
        for _ in range(i):
            c = np.concatenate([c, x])
        c = -c
    return (c,)


def control_cases(case):
    """case(name, model, data_sets)."""

    def of(name, text, function, *sets):
        model = parser.parse_model(HEAD + text)
        onnx.checker.check_model(model)
        return case("test_own_loop_" + name, model, [([np.asarray(v) for v in values], [np.asarray(v) for v in function(*values)]) for values in sets])

    x, none = np.array([1, 0, -2, 4], F32), np.zeros(2, F32)
    yield of("grow", GROW, grow, *((np.int64(n), np.bool_(t), x, F32(limit)) for n, t, limit in ((6, 1, 100), (9, 1, 20), (3, 0, 9), (0, 1, 9))))
    yield of("swap", SWAP, swap, (x, x[1:]), (x[:1], x), (x[:2], x[3:]))
    yield of("branch", BRANCH, branch, (np.bool_(True), x), (np.bool_(False), x), (np.bool_(True), none))
    yield of("stacked", STACKED, stacked, *((np.int64(n), np.bool_(t), x, F32(limit)) for n, t, limit in ((9, 1, 100), (3, 1, 1e6), (4, 0, 9), (0, 1, 9))))
    yield of("endless", ENDLESS, lambda *v: stacked(1 << 40, *v), *((np.bool_(t), x, F32(limit)) for t, limit in ((1, 100), (1, 1e6), (0, 9))))
    yield of("rows", ROWS, lambda n, v: (np.array([np.nonzero(v)[0] + i for i in range(n)], np.int64).reshape(n, -1 if n else 0),), *((np.int64(n), v) for n, v in ((3, x), (1, none), (0, x))))
    yield of("bounded", BOUNDED, lambda v: (np.tile(v, 5),), (x,), (x[:1],))
    yield of("nested", NESTED, nested, *((np.int64(n), x) for n in (0, 1, 4)))
