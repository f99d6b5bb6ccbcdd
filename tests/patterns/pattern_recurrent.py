"""Groups of recurrent cells: the operator, and its loop as Scan or Loop over the cell written out."""

import numpy as np
from build import Graph, Model
from onnx import TensorProto, helper

RNG = np.random.default_rng(13)
STEPS, BATCH, IN, HIDDEN = 5, 3, 10, 8


def normal(*shape):
    return (RNG.standard_normal(shape) / 3).astype(np.float32)


W4, R4, B4 = normal(4 * HIDDEN, IN), normal(4 * HIDDEN, HIDDEN), normal(8 * HIDDEN)
W3, R3, B3 = normal(3 * HIDDEN, IN), normal(3 * HIDDEN, HIDDEN), normal(6 * HIDDEN)
BIAS4 = B4[: 4 * HIDDEN] + B4[4 * HIDDEN :]
SEQUENCE = {"x": (STEPS, BATCH, IN)}


def parts(m, x, n):
    return m.Split(x, axis=-1, num_outputs=n, outputs=n)


# ---- cells: gates of x W^T -> new states ----
def lstm_cell(m, xw, h, c, split=parts):
    i, o, f, g = split(m, m.Add(m.Add(xw, m.MatMul(h, R4.T.copy())), BIAS4), 4)
    c = m.Add(m.Mul(m.Sigmoid(f), c), m.Mul(m.Sigmoid(i), m.Tanh(g)))
    return m.Mul(m.Sigmoid(o), m.Tanh(c)), c


def sliced(m, x, n):
    return [m.Slice(x, [k * HIDDEN], [(k + 1) * HIDDEN], [-1]) for k in range(n)]


def gru_cell(m, xw, h, last=lambda m, z, n, h: m.Add(m.Mul(m.Sub(1.0, z), n), m.Mul(z, h))):
    """PyTorch's: linear before reset."""
    xz, xr, xh = parts(m, m.Add(xw, B3[: 3 * HIDDEN]), 3)
    hz, hr, hh = parts(m, m.Add(m.MatMul(h, R3.T.copy()), B3[3 * HIDDEN :]), 3)
    z, r = m.Sigmoid(m.Add(xz, hz)), m.Sigmoid(m.Add(xr, hr))
    return last(m, z, m.Tanh(m.Add(xh, m.Mul(r, hh))), h)


def keras_last(m, z, n, h):
    return m.Add(n, m.Mul(z, m.Sub(h, n)))


# ---- loops ----
def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def scan(m, cell, x, states):
    """Scan over axis 0 of x; cell(body, x, states) gives the new states, of which the first is stacked."""
    body = Graph()
    names = [body.name("s") for _ in states]
    now = cell(body, body.Identity("x_t"), names)
    out = [body.Identity(v) for v in now] + [body.Identity(now[0])]
    inputs = [value(n, [BATCH, HIDDEN]) for n in names] + [value("x_t", None)]
    graph = helper.make_graph(body.nodes, "body", inputs, [value(n, [BATCH, HIDDEN]) for n in out], body.constants)
    return m.Scan(*states, x, body=graph, num_scan_inputs=1, outputs=len(states) + 1)


def loop(m, cell, x, states):
    body = Graph()
    names = [body.name("s") for _ in states]
    now = cell(body, body.Gather(x, "t", axis=0), names)
    out = [body.Identity("go")] + [body.Identity(v) for v in now] + [body.Identity(now[0])]
    inputs = [value("t", [], TensorProto.INT64), value("go", [], TensorProto.BOOL)] + [value(n, [BATCH, HIDDEN]) for n in names]
    outputs = [value(out[0], [], TensorProto.BOOL)] + [value(n, [BATCH, HIDDEN]) for n in out[1:]]
    graph = helper.make_graph(body.nodes, "body", inputs, outputs, body.constants)
    return m.Loop(np.int64(STEPS), np.array(True), *states, body=graph, outputs=len(states) + 1)


def model(shapes, f, opset=18):
    def make():
        m = Model(shapes, opset)
        m.output(*f(m))
        return m

    return make


def zeros(n):
    return [np.zeros((BATCH, HIDDEN), np.float32) for _ in range(n)]


def lstm(m):
    y, h, c = m.LSTM("x", W4[None], R4[None], B4[None], hidden_size=HIDDEN, outputs=3)
    return m.Squeeze(y, [1]), m.Squeeze(h, [0]), m.Squeeze(c, [0])


def gru(m):
    y, h = m.GRU("x", W3[None], R3[None], B3[None], hidden_size=HIDDEN, linear_before_reset=1, outputs=2)
    return m.Squeeze(y, [1]), m.Squeeze(h, [0])


def lstm_by(iterate, split=parts, inside=False):
    def f(m):
        x = "x" if inside else m.MatMul("x", W4.T.copy())

        def cell(b, x_t, s):
            return lstm_cell(b, b.MatMul(x_t, W4.T.copy()) if inside else x_t, s[0], s[1], split)

        h, c, y = iterate(m, cell, x, zeros(2))
        return y, h, c

    return f


def gru_by(iterate, **options):
    def f(m):
        h, y = iterate(m, lambda b, x_t, s: [gru_cell(b, x_t, s[0], **options)], m.MatMul("x", W3.T.copy()), zeros(1))
        return y, h

    return f


def unrolled(m):
    xw, (h, c), ys = m.MatMul("x", W4.T.copy()), zeros(2), []
    for t in range(STEPS):
        h, c = lstm_cell(m, m.Gather(xw, np.int64(t), axis=0), h, c)
        ys.append(m.Unsqueeze(h, [0]))
    return m.Concat(*ys, axis=0), h, c


CELL = {"x": (BATCH, IN), "h": (BATCH, HIDDEN), "c": (BATCH, HIDDEN)}
LOOPS = {"Scan": scan, "Loop": loop}
RECURRENT = [
    dict(
        name="lstm",
        kernels=9,
        forms={"LSTM": model(SEQUENCE, lstm), "Slice": model(SEQUENCE, lstm_by(loop, sliced)), **{k: model(SEQUENCE, lstm_by(f)) for k, f in LOOPS.items()}},
    ),
    dict(name="lstm, all inside of the loop", kernels=10, forms={k: model(SEQUENCE, lstm_by(f, inside=True)) for k, f in LOOPS.items()}),
    dict(name="lstm unrolled", kernels=17, forms={"Gather and Concat": model(SEQUENCE, unrolled)}),
    dict(
        name="lstm cell",
        kernels=4,
        forms={
            "Split": model(CELL, lambda m: lstm_cell(m, m.MatMul("x", W4.T.copy()), "h", "c")),
            "Slice": model(CELL, lambda m: lstm_cell(m, m.MatMul("x", W4.T.copy()), "h", "c", sliced)),
        },
    ),
    dict(name="gru", kernels=7, forms={"GRU": model(SEQUENCE, gru)}),
    dict(
        name="gru written out",
        kernels=7,
        forms={"Keras": model(SEQUENCE, gru_by(loop, last=keras_last)), **{k: model(SEQUENCE, gru_by(f)) for k, f in LOOPS.items()}},
    ),
]
