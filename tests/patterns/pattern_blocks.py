"""Groups around products: batch normalisation, epilogues, attention, moves of elements."""

import numpy as np
from build import Model

RNG = np.random.default_rng(11)


def normal(*shape):
    return (RNG.standard_normal(shape) / 4).astype(np.float32)


def inputs(shapes, f, opset=18):
    def make():
        m = Model(shapes, opset)
        m.output(*np.atleast_1d(f(m)))
        return m

    return make


# ---- batch normalisation behind a product ----
GAMMA, BETA, MEAN, VAR = normal(6) + 1, normal(6), normal(6), normal(6) ** 2 + 0.5
CONV_W, CONV_B = normal(6, 4, 3, 3), normal(6)
SCALE = GAMMA / np.sqrt(VAR + 1e-5)
SHIFT = BETA - MEAN * SCALE
IMAGE = {"x": (2, 4, 9, 9)}


def channel(v):
    return v.reshape(6, 1, 1)


def batch_norms(product, along=channel):
    """Behind product(m): the operator, and Mul and Add in its place."""
    return {
        "BatchNormalization": inputs(IMAGE, lambda m: m.Relu(m.BatchNormalization(product(m), GAMMA, BETA, MEAN, VAR, epsilon=1e-5))),
        "Mul and Add": inputs(IMAGE, lambda m: m.Relu(m.Add(m.Mul(product(m), along(SCALE)), along(SHIFT)))),
        "Add and Mul": inputs(IMAGE, lambda m: m.Relu(m.Mul(m.Add(product(m), along(SHIFT / SCALE)), along(SCALE)))),
        "Sub, Div, Mul, Add": inputs(
            IMAGE,
            lambda m: m.Relu(m.Add(m.Mul(m.Div(m.Sub(product(m), along(MEAN)), m.Sqrt(m.Add(along(VAR), 1e-5))), along(GAMMA)), along(BETA))),
        ),
    }


def convolution(m):
    return m.Conv("x", CONV_W, CONV_B, pads=[1, 1, 1, 1])


def inner_convolution(m):
    return m.Conv("x", CONV_W)


def separate_bias(m):
    return m.Add(m.Conv("x", CONV_W), channel(CONV_B))


def pad_apart(m):
    return m.Conv(m.Pad("x", [0, 0, 1, 1, 0, 0, 1, 1]), CONV_W, CONV_B)


def depthwise(m):
    return m.Conv(m.Conv("x", normal(6, 4, 1, 1)), normal(6, 1, 3, 3), group=6)


TRANSPOSED_W = normal(4, 6, 2, 2)
GEMM_W = normal(4 * 81, 6)


def transposed(m):
    return m.ConvTranspose("x", TRANSPOSED_W, CONV_B, strides=[2, 2])


def gemm(m):
    return m.Gemm(m.Flatten("x"), GEMM_W, CONV_B)


def as_row(v):
    return v


CONV_BIAS = {
    "Conv": inputs(IMAGE, convolution),
    "Add": inputs(IMAGE, lambda m: m.Add(m.Conv("x", CONV_W, pads=[1, 1, 1, 1]), channel(CONV_B))),
    "Pad apart": inputs(IMAGE, pad_apart),
    "auto_pad": inputs(IMAGE, lambda m: m.Conv("x", CONV_W, CONV_B, auto_pad="SAME_UPPER")),
    "BatchNormalization of ones": inputs(
        IMAGE,
        lambda m: m.BatchNormalization(
            m.Conv("x", CONV_W, pads=[1, 1, 1, 1]), np.ones(6, np.float32), CONV_B, np.zeros(6, np.float32), np.ones(6, np.float32), epsilon=0.0
        ),
    ),
}

# ---- linear layers ----
ROWS = {"x": (2, 7, 24), "r": (2, 7, 40)}
LINEAR_W, LINEAR_B = normal(24, 40), normal(40)


def flat_gemm(m, x):
    y = m.Gemm(m.Reshape(x, [-1, 24]), LINEAR_W, LINEAR_B)
    return m.Reshape(y, [2, 7, 40])


LINEAR = {
    "MatMul and Add": inputs({"x": (2, 7, 24)}, lambda m: m.Relu(m.Add(m.MatMul("x", LINEAR_W), LINEAR_B))),
    "Add first": inputs({"x": (2, 7, 24)}, lambda m: m.Relu(m.Add(LINEAR_B, m.MatMul("x", LINEAR_W)))),
    "Transpose of the weights": inputs({"x": (2, 7, 24)}, lambda m: m.Relu(m.Add(m.MatMul("x", m.Transpose(LINEAR_W.T.copy(), perm=[1, 0])), LINEAR_B))),
    "Gemm of rows": inputs({"x": (2, 7, 24)}, lambda m: m.Relu(flat_gemm(m, "x"))),
    "Einsum": inputs({"x": (2, 7, 24)}, lambda m: m.Relu(m.Add(m.Einsum("x", LINEAR_W, equation="bsk,kn->bsn"), LINEAR_B))),
    "Conv of width 1": inputs(
        {"x": (2, 7, 24)},
        lambda m: m.Relu(m.Transpose(m.Conv(m.Transpose("x", perm=[0, 2, 1]), LINEAR_W.T.copy()[:, :, None], LINEAR_B), perm=[0, 2, 1])),
    ),
}
RESIDUAL = {
    "Add": inputs(ROWS, lambda m: m.Add(m.Add(m.MatMul("x", LINEAR_W), LINEAR_B), "r")),
    "Add first": inputs(ROWS, lambda m: m.Add("r", m.Add(m.MatMul("x", LINEAR_W), LINEAR_B))),
    "Sum": inputs(ROWS, lambda m: m.Sum(m.MatMul("x", LINEAR_W), LINEAR_B, "r")),
    "scaled by Mul": inputs(ROWS, lambda m: m.Add(m.Mul(m.Add(m.MatMul("x", LINEAR_W * 4), LINEAR_B * 4), 0.25), "r")),
    "scaled by Div": inputs(ROWS, lambda m: m.Add(m.Div(m.Add(m.MatMul("x", LINEAR_W * 4), LINEAR_B * 4), 4.0), "r")),
    "Gemm": inputs(ROWS, lambda m: m.Add(flat_gemm(m, "x"), "r")),
}
GATED = {
    "Swish and Mul": inputs(ROWS, lambda m: m.Mul(m.Swish(m.MatMul("x", LINEAR_W)), "r"), 24),
    "Sigmoid": inputs(ROWS, lambda m: (lambda p: m.Mul(m.Mul(p, m.Sigmoid(p)), "r"))(m.MatMul("x", LINEAR_W))),
    "gate first": inputs(ROWS, lambda m: (lambda p: m.Mul(m.Mul("r", p), m.Sigmoid(p)))(m.MatMul("x", LINEAR_W))),
}

# ---- attention: [2, 6, 24] with 3 heads of 8 ----
WIDTH, HEADS, STEPS = 24, 3, 6
WQ, WK, WV, WO = (normal(WIDTH, WIDTH) for _ in range(4))
BQ, BK, BV = (normal(WIDTH) for _ in range(3))
TOKENS = {"x": (2, STEPS, WIDTH)}
MASKED = {"x": ((2, STEPS, WIDTH), np.float32), "mask": ((2, 1, 1, STEPS), np.bool_)}


def heads(m, x, perm=(0, 2, 1, 3)):
    return m.Transpose(m.Reshape(x, [0, 0, HEADS, WIDTH // HEADS]), perm=list(perm))


def joined(m, y):
    return m.Reshape(m.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, WIDTH])


def projections(m):
    return [m.Add(m.MatMul("x", w), b) for w, b in ((WQ, BQ), (WK, BK), (WV, BV))]


def attention(m, scores, softmax=None):
    """scores(q, k) of heads [b, h, s, e] and keys [b, h, e, t] -> [b, h, s, t]."""
    q, k, v = projections(m)
    s = scores(m, heads(m, q), heads(m, k, (0, 2, 3, 1)))
    p = softmax(m, s) if softmax else m.Softmax(s, axis=-1)
    return m.MatMul(joined(m, m.MatMul(p, heads(m, v))), WO)


def by_hand(m, s):
    e = m.Exp(m.Sub(s, m.ReduceMax(s, [-1])))
    return m.Div(e, m.ReduceSum(e, [-1]))


ROOT = float(np.sqrt(8))
ATTENTION = {
    "Div": lambda m: attention(m, lambda m, q, k: m.Div(m.MatMul(q, k), ROOT)),
    "Mul": lambda m: attention(m, lambda m, q, k: m.Mul(m.MatMul(q, k), 1 / ROOT)),
    "scaled query": lambda m: attention(m, lambda m, q, k: m.MatMul(m.Div(q, ROOT), k)),
    "both scaled": lambda m: attention(m, lambda m, q, k: m.MatMul(m.Mul(q, ROOT**-0.5), m.Mul(k, ROOT**-0.5))),
    "softmax by hand": lambda m: attention(m, lambda m, q, k: m.Div(m.MatMul(q, k), ROOT), by_hand),
    "keys transposed apart": lambda m: attention(
        m, lambda m, q, k: m.Div(m.MatMul(q, m.Transpose(m.Transpose(k, perm=[0, 1, 3, 2]), perm=[0, 1, 3, 2])), ROOT)
    ),
    "Einsum": lambda m: attention(m, lambda m, q, k: m.Div(m.Einsum(q, k, equation="bhse,bhet->bhst"), ROOT)),
}


def additive(m):
    return m.Mul(m.Sub(1.0, m.Cast("mask", to=1)), -1e4)


# The mask is made once, in a kernel of its own.
MADE_MASK = {
    "Where of zeros": lambda m: attention(m, lambda m, q, k: m.Add(m.Where("mask", 0.0, -1e4), m.Mul(m.MatMul(q, k), 1 / ROOT))),
    "Add of Cast, Sub, Mul": lambda m: attention(m, lambda m, q, k: m.Add(m.Div(m.MatMul(q, k), ROOT), additive(m))),
    "Where of Not": lambda m: attention(m, lambda m, q, k: m.Where(m.Not("mask"), -1e4, m.Div(m.MatMul(q, k), ROOT))),
}
MASKED_ATTENTION = {
    "Where": lambda m: attention(m, lambda m, q, k: m.Where("mask", m.Div(m.MatMul(q, k), ROOT), -1e4)),
}

# ---- moves of elements ----
PARTS = {"x": (2, 5, 12)}
MOVES = {
    "Reshape and back": inputs(PARTS, lambda m: m.Relu(m.Reshape(m.Reshape("x", [10, 12]), [2, 5, 12]))),
    "Transpose twice": inputs(PARTS, lambda m: m.Relu(m.Transpose(m.Transpose("x", perm=[2, 0, 1]), perm=[1, 2, 0]))),
    "Flatten": inputs(PARTS, lambda m: m.Relu(m.Reshape(m.Flatten("x"), [2, 5, 12]))),
    "Unsqueeze and Squeeze": inputs(PARTS, lambda m: m.Relu(m.Squeeze(m.Unsqueeze("x", [1]), [1]))),
    "Identity, Dropout, Cast": inputs(PARTS, lambda m: m.Relu(m.Cast(m.Dropout(m.Identity("x")), to=1))),
}
SLICED = {
    "Split": inputs(PARTS, lambda m: (lambda p: m.Add(m.Mul(p[0], p[1]), p[2]))(m.Split("x", axis=2, num_outputs=3, outputs=3))),
    "Slice": inputs(PARTS, lambda m: m.Add(m.Mul(m.Slice("x", [0], [4], [2]), m.Slice("x", [4], [8], [2])), m.Slice("x", [8], [99], [2]))),
    "Gather of a reshape": inputs(
        PARTS,
        lambda m: (lambda r: m.Add(m.Mul(m.Gather(r, np.int64(0), axis=2), m.Gather(r, np.int64(1), axis=2)), m.Gather(r, np.int64(2), axis=2)))(
            m.Reshape("x", [2, 5, 3, 4])
        ),
    ),
}
GLU = {
    "Split": inputs(PARTS, lambda m: (lambda p: m.Mul(p[0], m.Sigmoid(p[1])))(m.Split("x", axis=2, num_outputs=2, outputs=2))),
    "Slice": inputs(PARTS, lambda m: m.Mul(m.Slice("x", [0], [6], [2]), m.Sigmoid(m.Slice("x", [6], [12], [2])))),
}
ROTARY = {
    "Concat": inputs(
        PARTS,
        lambda m: m.Add(m.Mul("x", 0.6), m.Mul(m.Concat(m.Neg(m.Slice("x", [6], [12], [2])), m.Slice("x", [0], [6], [2]), axis=2), 0.8)),
    ),
}
SHUFFLE = {
    "Reshape, Transpose, Reshape": inputs(
        {"x": (2, 6, 4, 4)}, lambda m: m.Relu(m.Reshape(m.Transpose(m.Reshape("x", [2, 2, 3, 4, 4]), perm=[0, 2, 1, 3, 4]), [2, 6, 4, 4]))
    ),
}
DEPTH_TO_SPACE = {
    "DepthToSpace": inputs({"x": (2, 8, 3, 3)}, lambda m: m.Relu(m.DepthToSpace("x", blocksize=2))),
    "by hand": inputs(
        {"x": (2, 8, 3, 3)}, lambda m: m.Relu(m.Reshape(m.Transpose(m.Reshape("x", [2, 2, 2, 2, 3, 3]), perm=[0, 3, 4, 1, 5, 2]), [2, 2, 6, 6]))
    ),
}
RESHAPED_OUTPUT = {
    "product": inputs({"x": (2, 7, 24)}, lambda m: m.Add(m.MatMul("x", LINEAR_W), LINEAR_B)),
    "reshaped": inputs({"x": (2, 7, 24)}, lambda m: m.Reshape(flat_gemm(m, "x"), [2, 7, 40])),
}


def blocks(forms, shapes):
    return {k: inputs(shapes, f) for k, f in forms.items()}


BLOCKS = [
    dict(name="batch norm of a convolution", kernels=2, forms=batch_norms(convolution)),
    dict(name="batch norm of a convolution without padding", kernels=1, forms=batch_norms(inner_convolution)),
    dict(name="batch norm of a bias apart", kernels=1, forms=batch_norms(separate_bias)),
    dict(name="batch norm of a depthwise convolution", kernels=2, forms=batch_norms(depthwise)),
    dict(name="batch norm of a transposed convolution", kernels=8, forms=batch_norms(transposed)),
    dict(name="batch norm of Gemm", kernels=1, forms=batch_norms(gemm, as_row)),
    dict(name="convolution", kernels=2, forms=CONV_BIAS),
    dict(name="linear", kernels=1, forms=LINEAR),
    dict(name="residual", kernels=1, forms=RESIDUAL),
    dict(name="gated", kernels=1, forms=GATED),
    dict(name="attention", kernels=7, forms=blocks(ATTENTION, TOKENS)),
    dict(name="attention with a mask", kernels=7, forms=blocks(MASKED_ATTENTION, MASKED)),
    dict(name="attention with a mask made here", kernels=8, forms=blocks(MADE_MASK, MASKED)),
    dict(name="moves that move nothing", kernels=1, forms=MOVES),
    dict(name="parts", kernels=1, forms=SLICED),
    dict(name="gated parts", kernels=1, forms=GLU),
    dict(name="halves exchanged", kernels=1, forms=ROTARY),
    dict(name="channels shuffled", kernels=1, forms=SHUFFLE),
    dict(name="depth to space", kernels=1, forms=DEPTH_TO_SPACE),
    dict(name="reshaped output", kernels=1, forms=RESHAPED_OUTPUT),
]
