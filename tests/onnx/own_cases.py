"""Cases for operators that the onnx package has none for; what must come out is NumPy's."""

import re
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from own_control import control_cases


@dataclass
class Case:
    name: str
    model: object
    data_sets: list
    rtol: float = 1e-3
    atol: float = 1e-7


def one_node(name, node, inputs, outputs, opset=22, symbolic=False):
    """A case of a single node on tensors, given as {name: array}; `symbolic`: every dimension of the inputs is a symbol, outputs have no shape."""
    def info(key, value, given):
        shape = value.shape if not symbolic else [f"{key}_{i}" for i in range(value.ndim)] if given else None
        return helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(value.dtype), shape)

    infos = [[info(key, value, part is inputs) for key, value in part.items()] for part in (inputs, outputs)]
    graph = helper.make_graph([node], name, *infos)
    opsets = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(node.domain, 1)] if node.domain else [])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return Case(name, model, [(list(inputs.values()), list(outputs.values()))])


def global_lp_pool():
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 4)).astype(np.float32)
    for p in 1, 2, 3:
        y = np.power(np.sum(np.abs(x.astype(np.float64)) ** p, axis=(2, 3), keepdims=True), 1 / p).astype(np.float32)
        yield one_node(f"test_own_global_lp_pool_p{p}", helper.make_node("GlobalLpPool", ["x"], ["y"], p=p), {"x": x}, {"y": y})


def quantise(x, scale, zero):
    info = np.iinfo(zero.dtype)
    return np.clip(np.rint(np.float32(x) / scale) + zero.astype(np.float32), info.min, info.max).astype(zero.dtype)


def dequantise(q, scale, zero):
    return (q.astype(np.int32) - zero.astype(np.int32)).astype(np.float32) * scale


def qlinear(name, x, y, scale, zero, others=None, **attributes):
    """A com.microsoft operator on x: (values, scale, zero point); y is the float result, to be quantised by scale and zero."""
    parts = [*x, *(others or []), scale, zero]
    inputs = {f"i{k}": np.asarray(part) for k, part in enumerate(parts)}
    node = helper.make_node(name, list(inputs), ["y"], domain="com.microsoft", **attributes)
    case = re.sub("(?<!^)(?=[A-Z])", "_", name.replace("QL", "Ql")).lower() + ("_last" if attributes.get("channels_last") else "")
    return one_node(f"test_own_{case}_{inputs['i0'].dtype}", node, inputs, {"y": quantise(y, scale, zero)})


def qlinear_cases():
    rng = np.random.default_rng(1)
    for dtype, zero in (np.uint8, 120), (np.int8, -5):
        zero = np.array(zero, dtype)
        info = np.iinfo(dtype)
        a, b = ((rng.integers(info.min, info.max + 1, (2, 3, 4, 6)).astype(dtype), np.float32(s), zero) for s in (0.02, 0.03))
        x, z = dequantise(*a), dequantise(*b)
        yield qlinear("QLinearAdd", a, x + z, np.float32(0.05), zero, b)
        yield qlinear("QLinearMul", a, x * z, np.float32(0.1), zero, b)
        e = np.exp(x - x.max(-1, keepdims=True))
        yield qlinear("QLinearSoftmax", a, e / e.sum(-1, keepdims=True), np.float32(1 / 256), np.array(info.min, dtype), axis=-1, opset=13)
        yield qlinear("QLinearReduceMean", a, x.mean((1, 3), keepdims=True), np.float32(0.0173), zero, axes=[1, 3], keepdims=1)
        pooled = x.reshape(2, 3, 2, 2, 3, 2).mean((3, 5))
        yield qlinear("QLinearAveragePool", a, pooled, np.float32(0.0173), zero, kernel_shape=[2, 2], strides=[2, 2])
        last = (np.moveaxis(a[0], 1, 3), *a[1:])
        yield qlinear("QLinearAveragePool", last, np.moveaxis(pooled, 1, 3), np.float32(0.0173), zero, kernel_shape=[2, 2], strides=[2, 2], channels_last=1)


def moments(name, node, inputs, mean, square):
    """The mean of what a random operator gives, and that of its squares: what the distribution says, within 2 %."""
    graph = helper.make_graph(
        [
            node,
            helper.make_node("Cast", ["r"], ["f"], to=onnx.TensorProto.FLOAT),
            helper.make_node("Mul", ["f", "f"], ["q"]),
            helper.make_node("ReduceMean", ["f"], ["mean"], keepdims=0),
            helper.make_node("ReduceMean", ["q"], ["square"], keepdims=0),
        ],
        name,
        [helper.make_tensor_value_info(k, onnx.TensorProto.FLOAT, v.shape) for k, v in inputs.items()],
        [helper.make_tensor_value_info(k, onnx.TensorProto.FLOAT, []) for k in ("mean", "square")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    return Case(name, model, [(list(inputs.values()), [np.float32(mean), np.float32(square)])], 0.02, 0.02)


def random_cases():
    x = np.zeros((100, 200), np.float32)
    p = np.full((100, 200), 0.25, np.float32)
    logs = np.log(np.array([[1, 2, 4, 1], [4, 1, 1, 2]], np.float32))
    normal = {"mean": 1.0, "scale": 2.0}
    uniform = {"low": -1.0, "high": 3.0}
    yield moments("test_own_random_normal", helper.make_node("RandomNormal", [], ["r"], shape=[100, 200], **normal), {}, 1, 5)
    yield moments("test_own_random_normal_like", helper.make_node("RandomNormalLike", ["x"], ["r"], dtype=11, **normal), {"x": x}, 1, 5)
    yield moments("test_own_random_uniform", helper.make_node("RandomUniform", [], ["r"], shape=[100, 200], **uniform), {}, 1, 7 / 3)
    yield moments("test_own_random_uniform_like", helper.make_node("RandomUniformLike", ["x"], ["r"], dtype=10, **uniform), {"x": x}, 1, 7 / 3)
    yield moments("test_own_random_bernoulli", helper.make_node("Bernoulli", ["x"], ["r"], dtype=7), {"x": p}, 0.25, 0.25)
    yield moments("test_own_random_multinomial", helper.make_node("Multinomial", ["x"], ["r"], sample_size=20000), {"x": logs}, (13 + 9) / 16, (27 + 23) / 16)


# ---- com.microsoft's LSTM with integer weights ----
def dynamic_product(x, w, scale, zero):
    low, high = min(x.min(), 0), max(x.max(), 0)
    step = np.float32(high - low) / np.float32(255)
    middle = np.uint8(np.rint(-low / step))
    q = quantise(x, step, np.array(middle))
    return ((q.astype(np.int64) - int(middle)) @ (w.astype(np.int64) - int(zero))).astype(np.float32) * (step * scale)


def dynamic_lstm():
    rng = np.random.default_rng(2)
    steps, batch, width, hidden = 4, 1, 6, 5
    x = rng.standard_normal((steps, batch, width)).astype(np.float32)
    w, r = (rng.integers(-127, 128, (1, k, 4 * hidden)).astype(np.int8) for k in (width, hidden))
    bias = rng.standard_normal((1, 8 * hidden)).astype(np.float32)
    scales = np.array([0.01], np.float32), np.array([0.02], np.float32)
    zero = np.zeros(1, np.int8)
    h, c, outputs = np.zeros((batch, hidden), np.float32), np.zeros((batch, hidden), np.float32), []
    products = dynamic_product(x.reshape(steps * batch, width), w[0], scales[0][0], 0).reshape(steps, batch, -1)
    for t in range(steps):
        gates = products[t] + dynamic_product(h, r[0], scales[1][0], 0) if t else products[t]
        i, o, f, g = np.split(gates + bias[0, : 4 * hidden] + bias[0, 4 * hidden :], 4, -1)
        i, o, f = (1 / (1 + np.exp(-v)) for v in (i, o, f))
        c = f * c + i * np.tanh(g)
        h = (o * np.tanh(c)).astype(np.float32)
        outputs.append(h)
    inputs = {"x": x, "w": w, "r": r, "b": bias, "ws": scales[0], "wz": zero, "rs": scales[1], "rz": zero}
    names = ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"]
    node = helper.make_node("DynamicQuantizeLSTM", names, ["y", "yh"], domain="com.microsoft", hidden_size=hidden)
    yield one_node("test_own_dynamic_quantize_lstm", node, inputs, {"y": np.stack(outputs)[:, None], "yh": h[None].astype(np.float32)})


# ---- ai.onnx.ml ----
MODES = {"BRANCH_LEQ": np.less_equal, "BRANCH_LT": np.less, "BRANCH_GTE": np.greater_equal, "BRANCH_GT": np.greater}


def random_trees(rng, trees, features, targets, stem):
    """Attributes of a tree ensemble, and a function that evaluates it on one row."""
    a = {f"nodes_{k}": [] for k in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids", "missing_value_tracks_true")}
    a |= {f"{stem}_{k}": [] for k in ("treeids", "nodeids", "ids", "weights")}

    def grow(tree, number, depth):
        """Appends a subtree whose root is `number`; returns its evaluation and the next free number."""
        leaf = depth == 0 or rng.random() < 0.2
        place = len(a["nodes_nodeids"])
        feature, value, mode, missing = int(rng.integers(features)), float(np.float32(rng.standard_normal())), str(rng.choice(list(MODES))), int(rng.integers(2))
        for key, v in zip(a, (tree, number, feature, value, "LEAF" if leaf else mode, 0, 0, 0 if leaf else missing)):
            a[key].append(v)
        if leaf:
            weights = rng.standard_normal(targets).astype(np.float32)
            for k, w in enumerate(weights):
                for key, v in zip(list(a)[8:], (tree, number, k, float(w))):
                    a[key].append(v)
            return (lambda x: weights), number + 1
        yes, free = grow(tree, number + 1, depth - 1)
        a["nodes_truenodeids"][place] = number + 1
        a["nodes_falsenodeids"][place] = free
        no, free = grow(tree, free, depth - 1)
        return (lambda x: (yes if MODES[mode](x[feature], np.float32(value)) or (missing and np.isnan(x[feature])) else no)(x)), free

    roots = [grow(t, 0, 4)[0] for t in range(trees)]
    return a, lambda x: np.array([np.sum([r(row) for r in roots], axis=0) for row in x], np.float32)


def ml_cases():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((7, 5)).astype(np.float32)
    x[2, 1] = x[4] = np.nan
    attributes, evaluate = random_trees(rng, 6, 5, 3, "class")
    scores = evaluate(x)
    soft = np.exp(scores - scores.max(1, keepdims=True))
    labels = np.array([10, -3, 7])
    node = helper.make_node("TreeEnsembleClassifier", ["x"], ["l", "s"], domain="ai.onnx.ml", classlabels_int64s=labels, post_transform="SOFTMAX", **attributes)
    yield one_node("test_own_tree_classifier", node, {"x": x}, {"l": labels[scores.argmax(1)], "s": soft / soft.sum(1, keepdims=True)})
    attributes, evaluate = random_trees(rng, 5, 5, 2, "target")
    base = np.array([0.5, -1], np.float32)
    node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=2, base_values=base, **attributes)
    yield one_node("test_own_tree_regressor", node, {"x": x}, {"y": evaluate(x) + base})
    node = helper.make_node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", offset=[1.0, 2, 3, 4, 5], scale=[0.5])
    yield one_node("test_own_scaler", node, {"x": x}, {"y": (x - np.arange(1, 6, dtype=np.float32)) * np.float32(0.5)})


# ---- forms that no case of the package has; its reference evaluator says what comes out ----
def referenced(name, node, inputs, opset=22, symbolic=False, rtol=1e-3, atol=1e-7):
    infos = [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in inputs.items()]
    outputs = [helper.make_tensor_value_info(o, 1, None) for o in node.output]
    opsets = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(node.domain, 1)] if node.domain else [])
    model = helper.make_model(helper.make_graph([node], name, infos, outputs), opset_imports=opsets, ir_version=10)
    results = dict(zip(node.output, ReferenceEvaluator(model).run(None, inputs), strict=True))
    case = one_node(name, node, inputs, results, opset, symbolic)
    case.rtol, case.atol = rtol, atol
    return case


def roi_cases():
    rng = np.random.default_rng(4)
    x = rng.standard_normal((2, 3, 9, 11)).astype(np.float32)
    rois = np.array([[0, 0, 10, 8], [1.5, 2, 4.25, 7], [-3, -3, 2, 2], [5, 5, 5.5, 5.5]], np.float32)
    for mode in "avg", "max":
        node = helper.make_node("RoiAlign", ["x", "r", "b"], ["y"], output_height=2, output_width=3, sampling_ratio=0, spatial_scale=0.9, mode=mode)
        yield referenced(f"test_own_roialign_adaptive_{mode}", node, {"x": x, "r": rois, "b": np.array([1, 0, 0, 1])})


def conv_transpose(x, w, b, strides, dilations, pads, extra, group):
    """Each element of x adds its weights around its place; NumPy in doubles."""
    spatial, (n, c), m = x.ndim - 2, x.shape[:2], w.shape[1]
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    full = [s * (e - 1) + r + o for s, e, r, o in zip(strides, x.shape[2:], reach, extra, strict=True)]
    y = np.zeros((n, group, m, *full))
    xs, ws = x.reshape(n, group, c // group, *x.shape[2:]).astype(np.float64), w.reshape(group, c // group, *w.shape[1:]).astype(np.float64)
    for tap in np.ndindex(*w.shape[2:]):
        places = tuple(slice(k * d, k * d + s * (e - 1) + 1, s) for k, d, s, e in zip(tap, dilations, strides, x.shape[2:], strict=True))
        y[(slice(None),) * 3 + places] += np.einsum("ngc...,gcm->ngm...", xs, ws[(slice(None),) * 3 + tap])
    y = y.reshape(n, group * m, *full) + b.reshape(1, -1, *[1] * spatial)
    crop = tuple(slice(p, e - q) for p, q, e in zip(pads[:spatial], pads[spatial:], full, strict=True))
    return y[(slice(None),) * 2 + crop].astype(np.float32)


def conv_transpose_cases():
    rng = np.random.default_rng(3)
    for name, shape, filters, kernel, strides, dilations, pads, extra, group in (
        ("stride_2", (2, 3, 5, 4), 4, (3, 3), (2, 2), (1, 1), (1, 0, 0, 1), (1, 0), 1),
        ("stride_above_kernel", (1, 2, 4, 3), 3, (2, 1), (3, 4), (1, 1), (0, 0, 0, 0), (1, 2), 1),
        ("dilated", (1, 4, 6, 5), 2, (3, 2), (2, 3), (3, 2), (2, 1, 1, 3), (0, 1), 2),
        ("dilation_by_stride", (1, 2, 5, 5), 3, (3, 3), (2, 2), (2, 4), (1, 1, 1, 1), (0, 0), 1),
        ("line", (2, 4, 9), 8, (8,), (4,), (1,), (3, 2), (3,), 4),
        ("volume", (1, 3, 3, 2, 4), 2, (3, 2, 4), (2, 1, 3), (1, 1, 1), (1, 0, 2, 0, 1, 1), (0, 0, 1), 1),
        ("many_phases", (1, 1, 3, 3), 1, (5, 5), (5, 5), (1, 1), (2, 2, 2, 2), (0, 0), 1),
    ):
        x, w = rng.standard_normal(shape).astype(np.float32), rng.standard_normal((shape[1], filters, *kernel)).astype(np.float32)
        b = rng.standard_normal(filters * group).astype(np.float32)
        node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], strides=strides, dilations=dilations, pads=pads, output_padding=extra, group=group)
        inputs = {"x": x, "w": w, "b": b}
        yield one_node(f"test_own_conv_transpose_{name}", node, inputs, {"y": conv_transpose(*inputs.values(), strides, dilations, pads, extra, group)})


def if_ranks():
    """Branches of different rank, twice in a row: what follows is computed behind each."""
    rng = np.random.default_rng(4)
    values = [rng.standard_normal(shape).astype(np.float32) for shape in ((), (3,), (2, 1), (2, 3))]
    info = lambda name, shape, kind=onnx.TensorProto.FLOAT: helper.make_tensor_value_info(name, kind, shape)  # noqa: E731

    def pick(name, condition, first, second):
        branches = [helper.make_graph([helper.make_node("Identity", [v], [f"{name}_{v}"])], v, [], [info(f"{name}_{v}", None)]) for v in (first, second)]
        return helper.make_node("If", [condition], [name], then_branch=branches[0], else_branch=branches[1])

    nodes = [pick("p", "a", "v0", "v1"), helper.make_node("Neg", ["p"], ["m"]), pick("q", "b", "v2", "v3"),
        helper.make_node("Add", ["x", "m"], ["s"]), helper.make_node("Mul", ["s", "q"], ["y"])]  # fmt: skip
    bools = onnx.TensorProto.BOOL
    weights = [onnx.numpy_helper.from_array(v, f"v{i}") for i, v in enumerate(values)]
    graph = helper.make_graph(nodes, "if_ranks", [info("x", (2, 3)), info("a", (), bools), info("b", (), bools)], [info("y", (2, 3))], weights)
    x = rng.standard_normal((2, 3)).astype(np.float32)
    sets = [
        ([x, np.array(a), np.array(b)], [(x - values[0 if a else 1]) * values[2 if b else 3]])
        for a in (True, False) for b in (True, False)
    ]  # fmt: skip
    yield Case("test_own_if_ranks", helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), sets)


# ---- signals ----
def dft(x, length, axis, inverse=False, onesided=False):
    """NumPy's transform in doubles; x has its parts in the last axis."""
    z = x[..., 0].astype(np.float64) + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    if inverse and onesided:
        return np.fft.irfft(z, length, axis)[..., None].astype(x.dtype)
    y = np.fft.ifft(z, length, axis) if inverse else np.fft.fft(z, length, axis)
    if onesided:
        y = np.take(y, range(length // 2 + 1), axis)
    return np.stack([y.real, y.imag], -1).astype(x.dtype)


def signal_cases():
    rng = np.random.default_rng(5)
    for name, shape, length, axis, attributes, symbolic in (
        ("factors", (2, 1000, 2), None, 1, {}, False),
        ("factors_inner_axis", (3, 2, 384, 5, 1), None, 2, {}, False),
        ("factors_inverse", (2, 300, 2), None, 1, {"inverse": 1}, False),
        ("factors_padded", (2, 250, 1), 512, 1, {"onesided": 1}, False),
        ("factors_cut", (2, 250, 2), 96, 1, {}, False),
        ("factors_irfft", (1, 101, 2), None, 1, {"inverse": 1, "onesided": 1}, False),
        ("prime", (2, 131, 1), None, 1, {"onesided": 1}, False),
        ("cut", (4, 9, 2), 6, 1, {"inverse": 1}, False),
        ("padded_irfft", (4, 9, 2), 23, 1, {"inverse": 1, "onesided": 1}, False),
        ("symbolic", (2, 45, 1), None, 1, {"onesided": 1}, True),
        ("one", (3, 1, 2), None, 1, {}, True),
    ):  # fmt: skip
        x = rng.standard_normal(shape).astype(np.float32)
        for dtype in (np.float32, np.float64) if name in ("cut", "factors_cut") else (np.float32,):
            names, parts = ["x"], {"x": x.astype(dtype)}
            if length:
                names, parts = ["x", "n"], {"x": x.astype(dtype), "n": np.array(length, np.int64)}
            count = length or (2 * (shape[axis] - 1) if len(attributes) == 2 else shape[axis])
            y = dft(parts["x"], count, axis, "inverse" in attributes, "onesided" in attributes)
            if symbolic:
                parts = {"x": parts["x"]}
            elif length:
                parts = {"x": parts["x"], "n": parts["n"]}
            node = helper.make_node("DFT", names, ["y"], axis=axis, **attributes)
            # real and imaginary part may be interchanged by a wrong last axis: it stays constant
            case = one_node(f"test_own_dft_{name}_{np.dtype(dtype).name}", node, parts, {"y": y}, 17)
            if symbolic:
                for i, d in enumerate(case.model.graph.input[0].type.tensor_type.shape.dim[:-1]):
                    d.dim_param = f"d{i}"
            case.atol = 1e-4 if dtype == np.float32 else 1e-10
            yield case
    x = rng.standard_normal((2, 400, 1)).astype(np.float32)
    window = np.hanning(100).astype(np.float32)
    frames = np.stack([x[:, 37 * i : 37 * i + 100] for i in range(9)], 1) * window[:, None]
    for onesided in 0, 1:
        node = helper.make_node("STFT", ["x", "s", "w"], ["y"], onesided=onesided)
        case = one_node(f"test_own_stft_{onesided}", node, {"x": x, "s": np.array(37), "w": window}, {"y": dft(frames, 100, 2, False, onesided)}, 17)
        case.atol = 1e-4
        yield case
    for op in "HannWindow", "HammingWindow", "BlackmanWindow":
        for kind in 11, 10:
            node = helper.make_node(op, ["n"], ["y"], output_datatype=kind, periodic=0)
            y = {"H": {"a": 0.5, "m": 25 / 46}, "B": {}}[op[0]].get(op[2 if op == "HammingWindow" else 1])
            t = 2 * np.pi * np.arange(31) / 30
            y = y - (1 - y) * np.cos(t) if y else 0.42 - 0.5 * np.cos(t) + 0.08 * np.cos(2 * t)
            y = y.astype(helper.tensor_dtype_to_np_dtype(kind))
            yield one_node(f"test_own_{op.lower()}_{y.dtype}", node, {"n": np.array(31, np.int32)}, {"y": y}, 17)


# ---- linear algebra ----
def linalg_cases():
    rng = np.random.default_rng(6)
    for name, shape, symbolic in ("large", (2, 3, 9, 9), False), ("symbolic", (4, 6, 6), True), ("one", (1, 1), False), ("rows", (3, 2, 2), False):
        x = rng.standard_normal(shape).astype(np.float32)
        y = np.array(np.linalg.det(x.astype(np.float64)), np.float32)
        yield one_node(f"test_own_det_{name}", helper.make_node("Det", ["x"], ["y"]), {"x": x}, {"y": y}, symbolic=symbolic)
        y = np.linalg.inv(x.astype(np.float64)).astype(np.float32)
        case = one_node(f"test_own_inverse_{name}", helper.make_node("Inverse", ["x"], ["y"], domain="com.microsoft"), {"x": x}, {"y": y}, symbolic=symbolic)
        case.atol = 1e-4
        yield case
    x = np.array([[[0, 1], [1, 0]], [[1, 2], [2, 4]], [[0, 0], [0, 0]]], np.float64)
    yield one_node("test_own_det_pivots", helper.make_node("Det", ["x"], ["y"]), {"x": x}, {"y": np.array([-1.0, 0, 0])})
    yield one_node("test_own_det_empty", helper.make_node("Det", ["x"], ["y"]), {"x": np.zeros((2, 0, 0))}, {"y": np.ones(2)})


# ---- spatial operators, pads ----
def spatial_cases():
    rng = np.random.default_rng(7)
    floats = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
    for name, image, block, attributes, dtype in (
        ("line", (11,), (3,), {"strides": [2], "dilations": [2], "pads": [1, 2]}, np.float32),
        ("overlap", (7, 6), (3, 2), {"strides": [2, 1], "pads": [1, 0, 1, 1]}, np.int32),
        ("half", (5, 5), (2, 2), {"dilations": [2, 1]}, np.float16),
        ("volume", (4, 5, 3), (2, 2, 2), {"strides": [1, 2, 1], "pads": [0, 1, 0, 0, 0, 1]}, np.float64),
    ):
        n = len(image)
        pads, strides, dilations = attributes.get("pads", [0] * 2 * n), attributes.get("strides", [1] * n), attributes.get("dilations", [1] * n)
        steps = [(image[i] + pads[i] + pads[n + i] - (block[i] - 1) * dilations[i] - 1) // strides[i] + 1 for i in range(n)]
        x = (10 * floats(2, 3 * int(np.prod(block)), int(np.prod(steps)))).astype(dtype)
        attributes = {"pads": pads, "strides": strides, "dilations": dilations}
        node = helper.make_node("Col2Im", ["x", "i", "b"], ["y"], **attributes)
        parts = {"x": x, "i": np.array(image), "b": np.array(block)}
        yield referenced(f"test_own_col2im_{name}", node, parts, 18, atol=0.05 if dtype == np.float16 else 1e-7)
    for axes, shape in (None, (4, 9, 3)), ([2, 0], (1, 8)):
        node = helper.make_node("CenterCropPad", ["x", "s"], ["y"], **({"axes": axes} if axes else {}))
        x = rng.integers(0, 255, (5, 6, 4)).astype(np.uint8)
        case = referenced(f"test_own_center_crop_pad_{len(shape)}", node, {"x": x, "s": np.array(shape, np.int32)}, 18)
        for i, d in enumerate(case.model.graph.input[0].type.tensor_type.shape.dim):
            d.dim_param = f"n{i}"
        yield case
    for size in (2, 3, 4, 5), (2, 1, 3, 1, 2):
        n = len(size) - 2
        theta = floats(2, n, n + 1).astype(np.float64)
        # the reference leaves the grid of one element at -1
        for corners in (0, 1) if n == 2 else (0,):
            node = helper.make_node("AffineGrid", ["t", "s"], ["y"], align_corners=corners)
            case = referenced(f"test_own_affine_grid_{n}d_{corners}", node, {"t": theta, "s": np.array(size)}, 20)
            case = one_node(case.name, node, {"t": theta.astype(np.float32), "s": np.array(size)}, {"y": case.data_sets[0][1][0]}, 20)
            case.atol = 1e-6
            yield case
    x, w, o = floats(2, 4, 7, 6), floats(6, 2, 3, 2), floats(2, 24, 3, 5)
    node = helper.make_node("DeformConv", ["x", "w", "o", "b", "m"], ["y"], group=2, offset_group=2, strides=[2, 1], pads=[1, 0, 0, 1], dilations=[1, 2])
    yield referenced("test_own_deform_conv_groups", node, {"x": x, "w": w, "o": 2 * o, "b": floats(6), "m": floats(2, 12, 3, 5)}, 22, atol=1e-4)
    x = floats(3, 4, 2)
    for mode, pads in ("reflect", (5, 0, 3, 4, 9, 1)), ("wrap", (7, -1, 0, 0, 2, 5)), ("edge", (0, 3, -1, 2, 0, 4)), ("constant", (1, -2, 0, -1, 3, 1)):
        pads = np.array(pads)
        crop = np.pad(x[tuple(slice(max(-b, 0), e - max(-a, 0)) for b, a, e in zip(pads[:3], pads[3:], x.shape, strict=True))],
            list(zip(np.maximum(pads[:3], 0), np.maximum(pads[3:], 0), strict=True)), mode)  # fmt: skip
        if mode in ("reflect", "constant"):
            yield one_node(f"test_own_pad_{mode}_of_data", helper.make_node("Pad", ["x", "p"], ["y"], mode=mode), {"x": x, "p": pads}, {"y": crop}, 19)
        nodes = [helper.make_node("Constant", [], ["p"], value_ints=pads), helper.make_node("Pad", ["x", "p"], ["y"], mode=mode)]
        infos = [[helper.make_tensor_value_info(k, 1, v.shape)] for k, v in (("x", x), ("y", crop))]
        if mode in ("reflect", "constant"):
            graph = helper.make_graph(nodes, mode, *infos)
            yield Case(f"test_own_pad_{mode}", helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10), [([x], [crop])])
    x = rng.integers(-9, 9, (2, 3)).astype(np.int64)
    y = np.pad(x, [(0, 0), (1, 2)], constant_values=7)
    node = helper.make_node("Pad", ["x", "p", "v", "a"], ["y"])
    yield one_node("test_own_pad_axes_of_data", node, {"x": x, "p": np.array([1, 2]), "v": np.array(7), "a": np.array([-1])}, {"y": y}, 21)


# ---- norms, activations, recurrences ----
def batch_norm(x, scale, bias, mean, var, axes):
    shape = [1 if i in axes else e for i, e in enumerate(x.shape)]
    scale, bias, mean, var = (v.reshape(shape) for v in (scale, bias, mean, var))
    return (x - mean) / np.sqrt(var + 1e-5) * scale + bias


def batch_norm_cases():
    rng = np.random.default_rng(8)
    x = rng.standard_normal((4, 3, 2, 5))
    for name, opset, shape, axes, attributes in (
        ("spatial_0", 7, (3, 2, 5), (0,), {"spatial": 0}),
        ("spatial_0_training", 7, (3, 2, 5), (0,), {"spatial": 0}),
        ("training_7", 7, (3,), (0, 2, 3), {}),
        ("training_9", 9, (3,), (0, 2, 3), {"momentum": 0.7}),
        ("training_15", 15, (3,), (0, 2, 3), {"momentum": 0.7, "training_mode": 1}),
    ):
        parts = [*rng.standard_normal((3, *shape)), rng.random(shape) + 0.5]
        mean, var, momentum = x.mean(axes), x.var(axes), attributes.get("momentum", 0.9)
        running = [old * momentum + new * (1 - momentum) for old, new in zip(parts[2:], (mean, var), strict=True)]
        outputs = [batch_norm(x, *parts, axes)]
        if "training" in name:
            outputs = [batch_norm(x, *parts[:2], mean, var, axes), *running, *([] if opset > 9 else [mean, var])]
        names = "xsbmv", ["y", "r", "q", "mean", "var"][: len(outputs)]
        inputs, results = (dict(zip(n, [v.astype(np.float32) for v in vs], strict=True)) for n, vs in zip(names, ([x, *parts], outputs), strict=True))
        node = helper.make_node("BatchNormalization", list(inputs), list(results), **attributes)
        case = one_node(f"test_own_batchnorm_{name}", node, inputs, results, opset)
        case.atol = 1e-5
        yield case


def recurrence_cases():
    rng = np.random.default_rng(9)
    b, t, hq, h, k, v = 2, 5, 4, 2, 3, 6
    shapes = {"q": (b, t, hq * k), "k": (b, t, h * k), "v": (b, t, h * v), "s": (b, h, k, v), "d": (b, t, h * k), "g": (b, t, 1)}
    parts = {n: (rng.standard_normal(s) * 0.3).astype(np.float32) for n, s in shapes.items()}
    parts["d"] = -np.abs(parts["d"])
    node = helper.make_node("LinearAttention", list(parts), ["y", "z"], q_num_heads=hq, kv_num_heads=h, scale=0.5, update_rule="gated_delta")
    case = referenced("test_own_linear_attention", node, parts, 27, atol=1e-5)
    for info in case.model.graph.input:
        info.type.tensor_type.shape.dim[0].dim_param = "batch"
        if info.name != "s":
            info.type.tensor_type.shape.dim[1].dim_param = "time"
    for info in case.model.graph.output:
        info.type.tensor_type.ClearField("shape")
    yield case
    x, w, s = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 4), (3, 1, 6), (2, 3, 5)))
    node = helper.make_node("CausalConvWithState", ["x", "w", "", "s"], ["y", "z"], activation="silu")
    yield referenced("test_own_causal_conv_longer_than_input", node, {"x": x, "w": w, "s": s}, 27, atol=1e-5)


def moved_axes():
    """Squeeze and Unsqueeze where the axes are inputs, beside symbolic dimensions."""
    x = np.arange(24, dtype=np.float32).reshape(2, 1, 3, 1, 4)
    node = helper.make_node("Squeeze", ["x", "a"], ["y"])
    yield one_node("test_own_squeeze_of_data", node, {"x": x, "a": np.array([-2, 1])}, {"y": x.squeeze((1, 3))})
    x = x.reshape(2, 3, 4)
    node = helper.make_node("Unsqueeze", ["x", "a"], ["y"])
    case = one_node("test_own_unsqueeze_of_data", node, {"x": x, "a": np.array([4, -6, 2])}, {"y": x.reshape(1, 2, 1, 3, 1, 4)})
    for i, d in enumerate(case.model.graph.input[0].type.tensor_type.shape.dim):
        d.dim_param = f"n{i}"
    yield case


def collect():
    yield from global_lp_pool()
    yield from qlinear_cases()
    yield from random_cases()
    yield from dynamic_lstm()
    yield from ml_cases()
    yield from roi_cases()
    yield from conv_transpose_cases()
    yield from if_ranks()
    yield from control_cases(Case)
    yield from signal_cases()
    yield from linalg_cases()
    yield from spatial_cases()
    yield from batch_norm_cases()
    yield from recurrence_cases()
    yield from moved_axes()
