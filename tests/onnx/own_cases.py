"""Cases for operators that the onnx package has none for; what must come out is NumPy's."""

import re
from dataclasses import dataclass

import numpy as np
from onnx import helper


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


def collect():
    yield from global_lp_pool()
    yield from qlinear_cases()
