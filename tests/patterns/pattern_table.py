"""The groups of patterns.py: name, kernels, forms (the operator itself first, then as exporters write it out), and a bound where 2e-6 is not it.

Where the source of a value matters, it is a product in front (`after_product`): its kernel must take all that follows. Forms of a group compute the same function
of the same inputs. Constants are written as the exporters do: as scalars, as tensors of one element, folded or not.
"""

import numpy as np
from build import Model
from pattern_blocks import BLOCKS
from pattern_recurrent import RECURRENT

RNG = np.random.default_rng(7)
W = RNG.standard_normal((24, 40)).astype(np.float32) / 5
BIAS = RNG.standard_normal(40).astype(np.float32)
GAIN = RNG.standard_normal(40).astype(np.float32)


def pointwise(f, opset=18, shape=(3, 5, 24)):
    """x -> f(x)."""

    def make():
        m = Model({"x": shape}, opset)
        m.output(f(m, "x"))
        return m

    return make


def after_product(f, opset=18, bias=True):
    """x -> f(x W + b)."""

    def make():
        m = Model({"x": (3, 5, 24)}, opset)
        product = m.MatMul("x", W)
        m.output(f(m, m.Add(product, BIAS) if bias else product))
        return m

    return make


def activation(name, forms, bound=2e-6):
    """Each form alone and behind a product: one kernel both times."""
    alone = {k: pointwise(f, o) for k, (f, o) in forms.items()}
    behind = {k: after_product(f, o) for k, (f, o) in forms.items()}
    return [dict(name=name, kernels=1, forms=alone, bound=bound), dict(name=name + " of a product", kernels=1, forms=behind, bound=bound)]


def gelu_tanh(m, x, cube, half_last=False):
    inner = m.Mul(m.Add(x, m.Mul(cube, 0.044715)), 0.7978845608028654)
    shifted = m.Add(m.Tanh(inner), 1.0)
    return m.Mul(m.Mul(x, shifted), 0.5) if half_last else m.Mul(m.Mul(x, 0.5), shifted)


GELU = {
    "Gelu": (lambda m, x: m.Gelu(x), 20),
    "Div by root 2, half last": (lambda m, x: m.Mul(m.Mul(x, m.Add(m.Erf(m.Div(x, 1.4142135)), 1.0)), 0.5), 18),
    "half first": (lambda m, x: m.Mul(m.Mul(x, 0.5), m.Add(1.0, m.Erf(m.Mul(x, 0.70710677)))), 18),
    "half of the sum": (lambda m, x: m.Mul(x, m.Mul(0.5, m.Add(1.0, m.Erf(m.Div(x, m.Sqrt(2.0)))))), 18),
    "Div by 2": (lambda m, x: m.Div(m.Mul(x, m.Add(m.Erf(m.Div(x, np.array([1.4142135], np.float32))), 1.0)), 2.0), 13),
}
GELU_TANH = {
    "Gelu": (lambda m, x: m.Gelu(x, approximate="tanh"), 20),
    "Pow 3": (lambda m, x: gelu_tanh(m, x, m.Pow(x, 3.0)), 18),
    "products": (lambda m, x: gelu_tanh(m, x, m.Mul(m.Mul(x, x), x)), 18),
    "half last": (lambda m, x: gelu_tanh(m, x, m.Mul(x, m.Mul(x, x)), True), 18),
    "factored": (
        lambda m, x: m.Mul(m.Mul(x, 0.5), m.Add(1.0, m.Tanh(m.Mul(m.Mul(x, 0.7978845608), m.Add(1.0, m.Mul(m.Mul(x, 0.044715), x)))))),
        18,
    ),
}
SILU = {
    "Swish": (lambda m, x: m.Swish(x), 24),
    "x * Sigmoid(x)": (lambda m, x: m.Mul(x, m.Sigmoid(x)), 18),
    "Sigmoid(x) * x": (lambda m, x: m.Mul(m.Sigmoid(x), x), 18),
    "x / (1 + exp(-x))": (lambda m, x: m.Div(x, m.Add(m.Exp(m.Neg(x)), 1.0)), 18),
}
HARD_SWISH = {
    "HardSwish": (lambda m, x: m.HardSwish(x), 18),
    "Clip(x + 3, 0, 6) / 6": (lambda m, x: m.Mul(x, m.Div(m.Clip(m.Add(x, 3.0), 0.0, 6.0), 6.0)), 18),
    "product first": (lambda m, x: m.Div(m.Mul(x, m.Clip(m.Add(x, 3.0), 0.0, 6.0)), 6.0), 18),
    "Clip of opset 9": (lambda m, x: m.Div(m.Mul(x, m.Clip(m.Add(x, 3.0), min=0.0, max=6.0)), 6.0), 9),
    "Relu and Min": (lambda m, x: m.Mul(x, m.Mul(m.Min(m.Relu(m.Add(x, 3.0)), 6.0), 0.16666667)), 18),
    "HardSigmoid": (lambda m, x: m.Mul(x, m.HardSigmoid(x, alpha=1 / 6)), 18),
}
MISH = {
    "Mish": (lambda m, x: m.Mish(x), 18),
    "Softplus and Tanh": (lambda m, x: m.Mul(x, m.Tanh(m.Softplus(x))), 18),
    "Log(1 + Exp)": (lambda m, x: m.Mul(x, m.Tanh(m.Log(m.Add(m.Exp(x), 1.0)))), 18),
}


# ---- norms ----
def mean(m, x, opset, keep=1, axes=(-1,)):
    """ReduceMean with the axes where the opset has them; keepdims 0 is followed by Unsqueeze."""
    axes = list(axes)
    r = m.ReduceMean(x, axes, keepdims=keep) if opset >= 18 else m.ReduceMean(x, axes=axes, keepdims=keep)
    return r if keep else m.Unsqueeze(r, axes)


def layer_norm(square=None, root=None, opset=18, keep=1, scale=True, twice=False, axes=(-1,)):
    square = square or (lambda m, d: m.Pow(d, 2.0))
    root = root or (lambda m, d, v: m.Div(d, m.Sqrt(m.Add(v, 1e-5))))

    def f(m, x):
        centre = mean(m, x, opset, keep, axes)
        d = m.Sub(x, centre)
        again = m.Sub(x, centre) if twice else d
        y = root(m, d, mean(m, square(m, again), opset, keep, axes))
        return m.Add(m.Mul(y, GAIN[: 24 if scale == "x" else 40]), BIAS[: 24 if scale == "x" else 40]) if scale else y

    return f, opset


def tf_norm(m, x):
    """Keras: scale / root first, the mean folded into the shift."""
    mu = mean(m, x, 13)
    d = m.Sub(x, mu)
    inv = m.Mul(m.Reciprocal(m.Sqrt(m.Add(mean(m, m.Mul(d, d), 13), 1e-5))), GAIN)
    return m.Add(m.Mul(x, inv), m.Sub(BIAS, m.Mul(mu, inv)))


def rms_norm(square, root, gain_first=False):
    def f(m, x):
        y = root(m, x, m.Add(mean(m, square(m, x), 18), 1e-6))
        return m.Mul(GAIN, y) if gain_first else m.Mul(y, GAIN)

    return f, 18


def pow2(m, x):
    return m.Pow(x, 2.0)


def times_itself(m, x):
    return m.Mul(x, x)


LAYER_NORM = {
    "LayerNormalization": (lambda m, x: m.LayerNormalization(x, GAIN, BIAS, epsilon=1e-5, axis=-1), 18),
    "PyTorch": layer_norm(),
    "PyTorch, opset 13": layer_norm(opset=13),
    "Mul(d, d)": layer_norm(square=times_itself),
    "x - mean twice": layer_norm(twice=True),
    "keepdims 0": layer_norm(keep=0),
    "keepdims 0, opset 13": layer_norm(keep=0, opset=13),
    "Reciprocal": layer_norm(root=lambda m, d, v: m.Mul(d, m.Reciprocal(m.Sqrt(m.Add(v, 1e-5))))),
    "1 / Sqrt": layer_norm(root=lambda m, d, v: m.Mul(d, m.Div(1.0, m.Sqrt(m.Add(v, 1e-5))))),
    "Pow 0.5": layer_norm(root=lambda m, d, v: m.Div(d, m.Pow(m.Add(v, 1e-5), 0.5))),
    "Pow -0.5": layer_norm(root=lambda m, d, v: m.Mul(d, m.Pow(m.Add(v, 1e-5), -0.5))),
    "Keras": (tf_norm, 13),
    "ReduceSum and Div": (
        lambda m, x: (lambda d: m.Add(m.Mul(m.Div(d, m.Sqrt(m.Add(m.Div(m.ReduceSum(m.Mul(d, d), [-1]), 40.0), 1e-5))), GAIN), BIAS))(
            m.Sub(x, m.Mul(m.ReduceSum(x, [-1]), 0.025))
        ),
        18,
    ),
    "ReduceSumSquare": (
        lambda m, x: (lambda d: m.Add(m.Mul(m.Div(d, m.Sqrt(m.Add(m.Mul(m.ReduceSumSquare(d, [-1]), 0.025), 1e-5))), GAIN), BIAS))(
            m.Sub(x, mean(m, x, 18))
        ),
        18,
    ),
}
RMS_NORM = {
    "RMSNormalization": (lambda m, x: m.RMSNormalization(x, GAIN, epsilon=1e-6, axis=-1), 23),
    "Reciprocal": rms_norm(pow2, lambda m, x, v: m.Mul(x, m.Reciprocal(m.Sqrt(v)))),
    "Llama": rms_norm(pow2, lambda m, x, v: m.Mul(x, m.Div(1.0, m.Sqrt(v))), True),
    "Div": rms_norm(times_itself, lambda m, x, v: m.Div(x, m.Sqrt(v))),
    "Pow -0.5": rms_norm(times_itself, lambda m, x, v: m.Mul(x, m.Pow(v, -0.5))),
}


def without(forms, *names):
    return {k: v for k, v in forms.items() if k not in names}


def channel_norm(f):
    """[2, 6, 7, 7] normalised by image and channel."""
    scale, bias = GAIN[:6], BIAS[:6]

    def make():
        m = Model({"x": (2, 6, 7, 7)}, 18)
        m.output(f(m, "x", scale, bias))
        return m

    return make


def instance_by_hand(m, x, scale, bias):
    d = m.Sub(x, mean(m, x, 18, axes=(2, 3)))
    y = m.Div(d, m.Sqrt(m.Add(mean(m, m.Mul(d, d), 18, axes=(2, 3)), 1e-5)))
    return m.Add(m.Mul(y, scale.reshape(6, 1, 1)), bias.reshape(6, 1, 1))


def group_by_hand(m, x, scale, bias):
    """PyTorch's GroupNorm: InstanceNormalization of the groups, back, scale and bias."""
    y = m.InstanceNormalization(m.Reshape(x, [0, 3, -1]), np.ones(3, np.float32), np.zeros(3, np.float32), epsilon=1e-5)
    y = m.Reshape(y, m.Shape(x))
    return m.Add(m.Mul(y, scale.reshape(6, 1, 1)), bias.reshape(6, 1, 1))


def group_operator():
    m = Model({"x": (2, 6, 7, 7)}, 21)
    m.output(m.GroupNormalization("x", GAIN[:6], BIAS[:6], num_groups=3, epsilon=1e-5))
    return m


def channels_last_norm(m, x, scale, bias):
    """ConvNeXt: to the last axis, LayerNormalization, back."""
    y = m.Transpose(x, perm=[0, 2, 3, 1])
    y = m.Mul(m.LayerNormalization(y, scale, bias, axis=-1), 2.0)
    return m.Transpose(y, perm=[0, 3, 1, 2])


def channels_first_norm(m, x, scale, bias):
    d = m.Sub(x, mean(m, x, 18, axes=(1,)))
    y = m.Div(d, m.Sqrt(m.Add(mean(m, m.Pow(d, 2.0), 18, axes=(1,)), 1e-5)))
    return m.Mul(m.Add(m.Mul(y, scale.reshape(6, 1, 1)), bias.reshape(6, 1, 1)), 2.0)


# ---- softmax and other rows ----
def softmax_by_hand(keep=1, log=False, opset=18, shift=True):
    def f(m, x):
        def reduce(op, v):
            as_input = opset >= (13 if op == "ReduceSum" else 18)
            r = getattr(m, op)(v, [-1], keepdims=keep) if as_input else getattr(m, op)(v, axes=[-1], keepdims=keep)
            return r if keep else m.Unsqueeze(r, [-1])

        d = m.Sub(x, reduce("ReduceMax", x)) if shift else x
        e = m.Exp(d)
        total = reduce("ReduceSum", e)
        return m.Sub(d, m.Log(total)) if log else m.Div(e, total)

    return f, opset


SOFTMAX = {
    "Softmax": (lambda m, x: m.Softmax(x, axis=-1), 18),
    "Exp and ReduceSum": softmax_by_hand(),
    "keepdims 0": softmax_by_hand(keep=0),
    "opset 13": softmax_by_hand(opset=13),
    "opset 9": (lambda m, x: m.Softmax(x, axis=2), 9),
    "not shifted": softmax_by_hand(shift=False),
    "Reciprocal": (lambda m, x: (lambda e: m.Mul(e, m.Reciprocal(m.ReduceSum(e, [-1]))))(m.Exp(m.Sub(x, m.ReduceMax(x, [-1])))), 18),
}
LOG_SOFTMAX = {
    "LogSoftmax": (lambda m, x: m.LogSoftmax(x, axis=-1), 18),
    "Log(Softmax)": (lambda m, x: m.Log(m.Softmax(x, axis=-1)), 18),
    "by hand": softmax_by_hand(log=True),
    "by hand, keepdims 0": softmax_by_hand(log=True, keep=0),
    "ReduceLogSumExp": (lambda m, x: m.Sub(x, m.ReduceLogSumExp(x, [-1])), 18),
}
L2_NORM = {
    "LpNormalization": (lambda m, x: m.LpNormalization(x, axis=-1, p=2), 18),
    "PyTorch": (lambda m, x: m.Div(x, m.Expand(m.Clip(m.ReduceL2(x, [-1], keepdims=1), 1e-12), m.Shape(x))), 18),
    "by hand": (lambda m, x: m.Div(x, m.Sqrt(m.ReduceSum(m.Mul(x, x), [-1]))), 18),
    "Max": (lambda m, x: m.Div(x, m.Max(m.Pow(m.ReduceSumSquare(x, [-1]), 0.5), 1e-12)), 18),
}
LAST_MASK = np.where(np.arange(24) < 20, 0, -1e9).astype(np.float32)
MASKED_SOFTMAX = {
    "Add": (lambda m, x: m.Softmax(m.Add(m.Mul(x, 0.25), LAST_MASK), axis=-1), 18),
    "Where": (lambda m, x: m.Softmax(m.Where(LAST_MASK < 0, -1e9, m.Div(x, 4.0)), axis=-1), 18),
    "by hand": (lambda m, x: softmax_by_hand()[0](m, m.Add(m.Div(x, m.Sqrt(16.0)), LAST_MASK)), 18),
}


def rows(name, forms, bound=2e-6):
    return dict(name=name, kernels=1, forms={k: pointwise(f, o, (3, 5, 24)) for k, (f, o) in forms.items()}, bound=bound)


def wide(forms):
    return {k: pointwise(f, o, (3, 5, 40)) for k, (f, o) in forms.items()}


def of_product(forms):
    return {k: after_product(f, o) for k, (f, o) in forms.items()}


GROUPS = [
    *activation("gelu", GELU),
    *activation("gelu by tanh", GELU_TANH),
    *activation("silu", SILU),
    *activation("hard swish", HARD_SWISH),
    *activation("mish", MISH),
    dict(name="layer norm", kernels=1, forms=wide(LAYER_NORM)),
    dict(name="layer norm of a product", kernels=2, forms=of_product(LAYER_NORM)),
    dict(name="rms norm", kernels=1, forms=wide(RMS_NORM)),
    dict(name="rms norm of a product", kernels=2, forms=of_product(RMS_NORM)),
    dict(
        name="instance norm",
        kernels=1,
        forms={
            "InstanceNormalization": channel_norm(lambda m, x, s, b: m.InstanceNormalization(x, s, b, epsilon=1e-5)),
            "by hand": channel_norm(instance_by_hand),
        },
    ),
    dict(name="group norm", kernels=2, forms={"GroupNormalization": group_operator, "PyTorch": channel_norm(group_by_hand)}),
    dict(name="norm of channels", kernels=1, forms={"ConvNeXt, first axis": channel_norm(channels_first_norm)}),
    dict(name="norm of channels, transposed", kernels=2, forms={"ConvNeXt, last axis": channel_norm(channels_last_norm)}),
    rows("softmax", SOFTMAX),
    rows("softmax with a mask", MASKED_SOFTMAX),
    rows("log softmax", LOG_SOFTMAX),
    rows("l2 norm", L2_NORM),
    *BLOCKS,
    *RECURRENT,
]
