"""Cases for operators that the onnx package has none for; what must come out is NumPy's."""

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, helper


@dataclass
class Case:
    name: str
    model: object
    data_sets: list
    rtol: float = 1e-3
    atol: float = 1e-7


def one_node(name, node, inputs, outputs, opset=22):
    """A case of a single node on float tensors, given as {name: array}."""
    infos = [[helper.make_tensor_value_info(key, TensorProto.FLOAT, value.shape) for key, value in part.items()] for part in (inputs, outputs)]
    graph = helper.make_graph([node], name, *infos)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return Case(name, model, [(list(inputs.values()), list(outputs.values()))])


def global_lp_pool():
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 4)).astype(np.float32)
    for p in 1, 2, 3:
        y = np.power(np.sum(np.abs(x.astype(np.float64)) ** p, axis=(2, 3), keepdims=True), 1 / p).astype(np.float32)
        yield one_node(f"test_own_global_lp_pool_p{p}", helper.make_node("GlobalLpPool", ["x"], ["y"], p=p), {"x": x}, {"y": y})


def collect():
    yield from global_lp_pool()
