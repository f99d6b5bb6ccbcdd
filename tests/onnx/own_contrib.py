"""Cases for operators of com.microsoft; what must come out is ONNX Runtime's, without graph optimisation."""

import numpy as np
import onnxruntime
from onnx import helper

from own_cases import Case

RUNTIME = onnxruntime.SessionOptions()
RUNTIME.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
RUNTIME.log_severity_level = 3
RUNTIME.intra_op_num_threads = 1


def case(name, op, inputs, outputs=("y",), atol=1e-5, symbolic=(), constants=(), domain="com.microsoft", compared=None, **attributes):
    """inputs: {name: array or None where it is missing}; `symbolic`: inputs all of whose dimensions are symbols; `constants`: initialisers;
    `compared`: the outputs that are the graph's, all when None."""
    given = {k: np.asarray(v) for k, v in inputs.items() if v is not None}
    names = [k if v is not None else "" for k, v in inputs.items()]
    node = helper.make_node(op, names, list(outputs), domain=domain, **attributes)

    def info(key, value):
        shape = [f"{key}_{i}" for i in range(value.ndim)] if key in symbolic else value.shape
        return helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(value.dtype), shape)

    wanted = [o for o in outputs if o and (compared is None or o in compared)]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    weights = [helper.make_tensor(k, helper.np_dtype_to_tensor_dtype(given[k].dtype), given[k].shape, given[k].tobytes(), raw=True) for k in constants]

    def model(infos):
        parameters = [info(k, v) for k, v in given.items() if k not in constants]
        return helper.make_model(helper.make_graph([node], name, parameters, infos, weights), opset_imports=opsets, ir_version=10)

    unknown = [helper.ValueInfoProto(name=o) for o in wanted]
    feeds = {k: v for k, v in given.items() if k not in constants}
    results = onnxruntime.InferenceSession(model(unknown).SerializeToString(), RUNTIME, ["CPUExecutionProvider"]).run(None, feeds)
    infos = [helper.make_tensor_value_info(o, helper.np_dtype_to_tensor_dtype(r.dtype), None if symbolic else r.shape) for o, r in zip(wanted, results, strict=True)]
    return Case(f"test_own_ms_{name}", model(infos), [(list(feeds.values()), results)], 1e-3, atol)


def floats(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def activations():
    rng = np.random.default_rng(20)
    x, b = floats(rng, 2, 3, 8), floats(rng, 8)
    yield case("bias_gelu", "BiasGelu", {"x": x, "b": b})
    yield case("gelu", "Gelu", {"x": x}, symbolic=("x",))
    yield case("fast_gelu", "FastGelu", {"x": x})
    yield case("fast_gelu_bias", "FastGelu", {"x": x, "b": b})
    yield case("quick_gelu", "QuickGelu", {"x": x}, alpha=1.5)
    for name, params in ("Relu", []), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.75]), ("HardSigmoid", [0.3, 0.4]), ("Tanh", []), ("Sigmoid", []):
        image, w = floats(rng, 1, 4, 6, 5), floats(rng, 6, 2, 3, 3)
        more = {"activation_params": params} if params else {}
        parts = {"x": image, "w": w, "b": floats(rng, 6)} | ({"z": floats(rng, 1, 6, 6, 5)} if name == "Relu" else {})
        yield case(f"fused_conv_{name.lower()}", "FusedConv", parts, activation=name, group=2, pads=[1] * 4, **more)
    for name in "Relu", "LeakyRelu":
        parts = {"a": floats(rng, 5, 3), "b": floats(rng, 4, 5), "c": floats(rng, 4)}
        yield case(f"fused_gemm_{name.lower()}", "FusedGemm", parts, activation=name, activation_alpha=0.3, alpha=0.5, transA=1, transB=1)
    yield case("fused_matmul", "FusedMatMul", {"a": floats(rng, 2, 4, 3), "b": floats(rng, 2, 5, 4)}, alpha=0.25, transA=1, transB=1)
    yield case("fused_matmul_batch", "FusedMatMul", {"a": floats(rng, 3, 2, 4), "b": floats(rng, 2, 4, 5)}, transBatchA=1)
    yield case("transpose_matmul", "TransposeMatMul", {"a": floats(rng, 4, 3), "b": floats(rng, 4, 5)}, transA=1)


def norms():
    rng = np.random.default_rng(21)
    x, skip, gamma, beta, bias = floats(rng, 2, 3, 8), floats(rng, 2, 3, 8), floats(rng, 8), floats(rng, 8), floats(rng, 8)
    parts = {"x": x, "s": skip, "g": gamma, "b": beta, "i": bias}
    yield case("skip_layer_norm", "SkipLayerNormalization", parts, ("y", "", "", "z"))
    yield case("skip_layer_norm_bare", "SkipLayerNormalization", {"x": x, "s": skip[0], "g": gamma}, epsilon=0.01)
    yield case("skip_simplified", "SkipSimplifiedLayerNormalization", {"x": x, "s": skip, "g": gamma, "i": bias}, ("y", "", "", "z"), symbolic=("x", "s"))
    yield case("simplified_layer_norm", "SimplifiedLayerNormalization", {"x": x, "g": gamma}, domain="", epsilon=0.01)
    ids, segments, mask = rng.integers(0, 20, (2, 5)).astype(np.int32), rng.integers(0, 2, (2, 5)).astype(np.int32), np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], np.int32)
    parts = {"i": ids, "s": segments, "w": floats(rng, 20, 8), "p": floats(rng, 9, 8), "e": floats(rng, 2, 8), "g": gamma, "b": beta, "m": mask}
    yield case("embed_layer_norm", "EmbedLayerNormalization", parts, ("y", "m_out", "z"))
    parts = {"i": ids, "s": None, "w": floats(rng, 20, 8), "p": floats(rng, 9, 8), "e": None, "g": gamma, "b": beta, "m": None, "q": ids % 9}
    yield case("embed_layer_norm_positions", "EmbedLayerNormalization", parts, ("y", "m_out"))


def attention():
    rng = np.random.default_rng(22)
    b, s, h, e, past = 2, 4, 3, 5, 2
    x, w, bias = floats(rng, b, s, 7), floats(rng, 7, 3 * h * e), floats(rng, 3 * h * e)
    masks = {"lengths": np.array([3, 4]), "ends": np.array([3, 4, 1, 0]), "flags": np.array([[1, 1, 0, 1], [0, 0, 1, 1]]), "square": rng.integers(0, 2, (b, s, s)), "hidden": np.zeros((b, s))}
    for name, mask in masks.items():
        yield case(f"attention_{name}", "Attention", {"x": x, "w": w, "b": bias, "m": mask.astype(np.int32)}, num_heads=h, mask_filter_value=-50.0)
    parts = {"x": x, "w": w, "b": bias, "m": None, "p": floats(rng, 2, b, h, past, e)}
    yield case("attention_past", "Attention", parts, ("y", "z"), num_heads=h, unidirectional=1, scale=0.3)
    parts = {"x": x, "w": w, "b": bias, "m": masks["flags"].astype(np.int32), "p": None, "a": floats(rng, 1, h, s, s)}
    yield case("attention_bias", "Attention", parts, num_heads=h)
    parts = {"x": x, "w": floats(rng, 7, 2 * h * e + h * 2), "b": floats(rng, 2 * h * e + h * 2)}
    yield case("attention_sizes", "Attention", parts, num_heads=h, qkv_hidden_sizes=[h * e, h * e, h * 2])
    # weights below 64: see quantised
    qx, qw = rng.integers(0, 256, x.shape).astype(np.uint8), rng.integers(-60, 60, w.shape).astype(np.int8)
    parts = {"x": qx, "w": qw, "b": bias, "sx": np.float32(0.02), "sw": np.float32(0.01), "m": np.array([3, 4], np.int32), "zx": np.uint8(120), "zw": np.int8(3)}
    yield case("qattention", "QAttention", parts, num_heads=h, atol=1e-4)
    q, k, v = floats(rng, b, s, h * e), floats(rng, b, 6, h * e), floats(rng, b, 6, h * 2)
    flags = np.array([[1, 1, 0, 1, 1, 0], [1, 0, 1, 1, 0, 1]], np.int32)
    parts = {"q": q, "k": k, "v": v, "b": floats(rng, 2 * h * e + h * 2), "m": flags, "a": floats(rng, 1, 1, s, 6)}
    yield case("multi_head_attention", "MultiHeadAttention", parts, num_heads=h)
    yield case("multi_head_attention_symbolic", "MultiHeadAttention", {"q": q, "k": k, "v": v[..., : h * 2]}, num_heads=h, scale=0.2)
    parts = {"q": q, "k": q + 1, "v": q - 1, "b": None, "m": None, "a": None, "pk": floats(rng, b, h, past, e), "pv": floats(rng, b, h, past, e)}
    yield case("multi_head_attention_past", "MultiHeadAttention", parts, ("y", "pk_out", "pv_out"), num_heads=h, unidirectional=1)
    yield case("multi_head_attention_cross", "MultiHeadAttention", {"q": q, "k": floats(rng, b, h, 6, e), "v": floats(rng, b, h, 6, e)}, num_heads=h)


def group_query():
    rng = np.random.default_rng(23)
    h, kv, e = 4, 2, 16
    angles = np.outer(np.arange(20), 0.5 ** np.arange(e // 2)).astype(np.float32)
    cos, sin = np.cos(angles), np.sin(angles)
    outs = "y", "k_out", "v_out"

    def parts(s, past, lengths, total, rotary=True, packed=False):
        b = len(lengths)
        q, k, v = floats(rng, b, s, h * e), floats(rng, b, s, kv * e), floats(rng, b, s, kv * e)
        inputs = {"q": np.concatenate([q, k, v], 2) if packed else q, "k": None if packed else k, "v": None if packed else v}
        caches = [None, None] if past is None else [floats(rng, b, kv, past, e), floats(rng, b, kv, past, e)]
        inputs |= {"pk": caches[0], "pv": caches[1], "n": np.array(lengths, np.int32), "t": np.array([total], np.int32)}
        return inputs | ({"cos": cos, "sin": sin} if rotary else {})

    common = {"outputs": outs, "num_heads": h, "kv_num_heads": kv}
    yield case("group_query_prompt", "GroupQueryAttention", parts(5, 0, [4, 4], 5), do_rotary=1, **common)
    yield case("group_query_decode", "GroupQueryAttention", parts(1, 6, [6, 6], 7), do_rotary=1, **common)
    only = common | {"compared": ("y",)}  # what lies behind a row's keys in a larger cache is not specified
    yield case("group_query_decode_buffer", "GroupQueryAttention", parts(1, 8, [6, 4], 7, packed=True), do_rotary=1, rotary_interleaved=1, **only)
    yield case("group_query_several", "GroupQueryAttention", parts(3, 4, [6], 7, False), softcap=2.0, scale=0.4, **common)
    yield case("group_query_window", "GroupQueryAttention", parts(6, 0, [5, 5], 6, False), local_window_size=3, **common)
    yield case("group_query_window_decode", "GroupQueryAttention", parts(1, 6, [6, 6], 7, False), local_window_size=3, **common)
    x = floats(rng, 2, 5, 3 * 16)
    at = rng.integers(0, 20, (2, 5))
    for interleaved in 0, 1:
        yield case(f"rotary_{interleaved}", "RotaryEmbedding", {"x": x, "p": at, "c": cos, "s": sin}, interleaved=interleaved)
    yield case("rotary_offset", "RotaryEmbedding", {"x": x.reshape(2, 3, 5, 16), "p": np.array([4]), "c": cos, "s": sin})
    yield case("rotary_part", "RotaryEmbedding", {"x": x, "p": at, "c": cos[:, :4].copy(), "s": sin[:, :4].copy()}, num_heads=3, rotary_embedding_dim=8)


def blocks():
    rng = np.random.default_rng(24)
    for bits, n, k, block in (4, 6, 50, 16), (4, 5, 64, 32), (8, 5, 64, 32), (2, 8, 64, 32):
        count = -(-k // block)
        w = rng.integers(0, 256, (n, count, block * bits // 8)).astype(np.uint8)
        scales, zeros = floats(rng, n * count), rng.integers(0, 256, n * -(-count * bits // 8)).astype(np.uint8)
        x = floats(rng, 2, 3, k)
        for kind, zero in ("plain", None), ("zeros", zeros), ("floats", floats(rng, n * count) + 8):
            if kind == "floats" and bits != 4:
                continue
            parts = {"x": x, "w": w, "s": scales, "z": zero, "g": None, "b": floats(rng, n) if kind == "zeros" else None}
            yield case(f"matmul_nbits_{bits}_{k}_{kind}", "MatMulNBits", parts, K=k, N=n, bits=bits, block_size=block, atol=2e-3, constants=("w", "s"))
    for bits in 4, 8:
        x, ids = rng.integers(0, 256, (9, 2, 4 * bits)).astype(np.uint8), np.array([[3, 0], [-1, 8]])
        scales, zeros = floats(rng, 9, 2, 2), rng.integers(0, 256, (9, 2, bits // 4)).astype(np.uint8)
        for kind, zero in ("plain", None), ("zeros", zeros):
            parts = {"x": x, "i": ids, "s": scales, "z": zero}
            yield case(f"gather_blocks_{bits}_{kind}", "GatherBlockQuantized", parts, block_size=16, bits=bits, quantize_axis=2, constants=("x", "s"))


def quantised():
    rng = np.random.default_rng(25)
    u8 = lambda *shape: rng.integers(0, 256, shape).astype(np.uint8)  # noqa: E731
    # ONNX Runtime adds pairs of u8*i8 in saturating 16 bits on AVX2: weights stay below 64
    i8 = lambda *shape: rng.integers(-60, 60, shape).astype(np.int8)  # noqa: E731
    f = np.float32
    parts = {"a": floats(rng, 2, 3, 6), "b": i8(6, 4), "s": floats(rng, 4), "z": i8(4), "c": floats(rng, 4)}
    yield case("dynamic_quantize_matmul", "DynamicQuantizeMatMul", parts, atol=1e-3)
    parts = {"a": u8(3, 6), "b": i8(6, 4), "sa": f(0.02), "sb": floats(rng, 4), "za": np.uint8(100), "zb": i8(4), "c": floats(rng, 4)}
    yield case("matmul_integer_to_float", "MatMulIntegerToFloat", parts, atol=1e-3)
    parts = {"a": u8(6, 3), "sa": f(0.02), "za": np.uint8(100), "b": i8(4, 6), "sb": np.abs(floats(rng, 4)), "zb": i8(4), "c": rng.integers(-500, 500, 4).astype(np.int32)}
    yield case("qgemm_float", "QGemm", parts, alpha=0.5, transA=1, transB=1, atol=1e-3, constants=("b", "sb", "zb"))
    yield case("qgemm", "QGemm", parts | {"sy": f(0.3), "zy": np.uint8(90)}, transA=1, transB=1, constants=("b", "sb", "zb"))
    x = {"x": u8(2, 4, 5, 3), "s": f(0.05), "z": np.uint8(130)}
    to = {"sy": f(0.03), "zy": np.uint8(60)}
    yield case("qlinear_leaky_relu", "QLinearLeakyRelu", x | to, alpha=0.2)
    yield case("qlinear_sigmoid", "QLinearSigmoid", x | {"sy": f(1 / 256), "zy": np.uint8(0)})
    for last in 0, 1:
        yield case(f"qlinear_global_average_pool_{last}", "QLinearGlobalAveragePool", x | to, channels_last=last)
    parts = to | {"a": u8(2, 3, 4), "as": f(0.05), "az": np.uint8(10), "b": u8(2, 1, 4), "bs": f(0.02), "bz": np.uint8(70)}
    yield case("qlinear_concat", "QLinearConcat", parts, axis=1)
    parts = {"c": rng.random((2, 1, 4)) > 0.5, "a": u8(2, 3, 4), "as": f(0.05), "az": np.uint8(10), "b": u8(4), "bs": f(0.02), "bz": np.uint8(70)} | to
    yield case("qlinear_where", "QLinearWhere", parts)
    yield case("nhwc_max_pool", "NhwcMaxPool", {"x": u8(1, 7, 6, 3)}, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
    yield case("quantize_linear", "QuantizeLinear", {"x": floats(rng, 2, 3), "s": f(0.02), "z": np.uint16(30000)})
    yield case("dequantize_linear", "DequantizeLinear", {"x": i8(2, 3), "s": np.abs(floats(rng, 3)), "z": i8(3)}, axis=1)


def shapes():
    rng = np.random.default_rng(26)
    x = floats(rng, 2, 3, 6, 5)
    rois = np.array([[0, 0, 1, 1], [0.1, 0.3, 0.8, 0.9], [-0.2, 0.5, 0.4, 1.4], [0.9, 0.8, 0.1, 0.2]], np.float32)
    for mode in "bilinear", "nearest":
        parts = {"x": x, "r": rois, "b": np.array([0, 1, 1, 0], np.int32), "c": np.array([4, 3], np.int32)}
        yield case(f"crop_and_resize_{mode}", "CropAndResize", parts, mode=mode, extrapolation_value=2.5, constants=("c",))
    yield case("trilu", "Trilu", {"x": x, "k": np.array(1)}, upper=0)
    yield case("expand_dims", "ExpandDims", {"x": x, "a": np.array(-2, np.int32)}, constants=("a",))
    yield case("pad", "Pad", {"x": x[0, 0], "p": np.array([1, 2, 0, 3]), "v": np.float32(7)}, mode="constant")
    yield case("gather_nd", "GatherND", {"x": x, "i": np.array([[0, 1], [1, 2]])})
    yield case("grid_sample", "GridSample", {"x": x, "g": np.clip(floats(rng, 2, 4, 4, 2), -1, 1)}, padding_mode="border", align_corners=1)
    yield case("range", "Range", {"a": np.float32(1), "b": np.float32(5)}, constants=("a", "b"))
    yield case("unique", "Unique", {"x": np.array([3, 1, 3, 2, 1], np.float32)}, ("y", "i", "n"))


def collect():
    yield from activations()
    yield from norms()
    yield from attention()
    yield from group_query()
    yield from blocks()
    yield from quantised()
    yield from shapes()
