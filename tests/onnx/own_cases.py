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


def one_node(name, node, inputs, outputs, opset=22):
    """A case of a single node on tensors, given as {name: array}."""
    infos = [
        [helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape) for key, value in part.items()]
        for part in (inputs, outputs)
    ]
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
def referenced(name, node, inputs, opset=22):
    infos = [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in inputs.items()]
    graph = helper.make_graph([node], name, infos, [helper.make_tensor_value_info("y", 1, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return one_node(name, node, inputs, {"y": ReferenceEvaluator(model).run(None, inputs)[0]}, opset)


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
