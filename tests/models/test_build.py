"""Building any model from its text."""

import subprocess
import sys
import textwrap

import pytest
import torch

from depthlr.errors import DepthlrError
from depthlr.models import ModelSpec, build

TINY_GPT2 = "hf/gpt2?n_layer=2&n_embd=16&n_head=2&vocab_size=50&n_positions=32"


@pytest.fixture
def user_module(tmp_path, monkeypatch):
    """A module in the current directory, with models of every kind a user may return."""
    monkeypatch.chdir(tmp_path)
    name = f"user_models_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(
        textwrap.dedent("""
        import torch
        from torch import nn

        def bare(width=4): return nn.Linear(3, width)
        def with_example(): return nn.Linear(3, 4), torch.zeros(5, 3)
        def with_keywords(): return nn.Linear(3, 4), {"input": torch.zeros(5, 3)}
        def wrong(): return "a model"
        number = 3
        class Nets:
            @staticmethod
            def small(): return nn.Linear(1, 1), torch.zeros(1, 1)
        """)
    )
    yield name
    sys.modules.pop(name, None)


def test_building_twice_gives_the_same_example_and_touches_no_global_seed():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    (first,), (second,) = (build("mlp?layers=1&width=1&inputs=3", meta=True)[1] for _ in range(2))
    assert torch.equal(torch.rand(1), expected)
    (first,), (second,) = (build("mlp?layers=1&width=1&inputs=3")[1] for _ in range(2))
    assert torch.equal(first, second)
    assert first.std() > 0


def test_a_builder_that_reads_values_is_built_for_real(tmp_path, monkeypatch):
    """As stochastic depth's schedule does; the meta device has shapes alone."""
    source = "import torch\nfrom torch import nn\n"
    source += "def net(blocks=3):\n    drops = [x.item() for x in torch.linspace(0, 0.1, blocks)]\n"
    source += "    return nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.Dropout(p)) for p in drops])\n"
    (tmp_path / "reading_values.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    model, (example,) = build("reading_values:net?blocks=2", input="4", meta=True)
    assert [p.device.type for p in (*model.parameters(), example)] == ["cpu"] * 5


def test_meta_builds_allocate_nothing():
    for text in ("vit?width=49152&heads=6", "hf/llama"):  # hundreds of gigabytes, and tens
        model, example = build(text, meta=True)
        tensors = example.values() if isinstance(example, dict) else example
        assert {t.device.type for t in (*model.parameters(), *tensors)} == {"meta"}


@pytest.mark.parametrize(
    ("text", "input", "shape"),
    [
        ("mlp?layers=2", "1x8x8", (2, 1, 8, 8)),
        ("cnn?layers=2", "1x8x8", (2, 1, 8, 8)),
        ("cnn1d?layers=2", "1x50", (2, 1, 50)),
        ("resnet?blocks=2", "1x8x12", (2, 1, 8, 12)),
        ("vit?blocks=1", "1x8x8", (2, 1, 8, 8)),
        ("cct?blocks=1&size=8", "1x8x8", (2, 1, 8, 8)),
        ("gpt?blocks=1", "ids:5:7", (2, 5)),
    ],
)
def test_a_zoo_model_is_built_to_fit_the_input(text, input, shape):
    model, (example,) = build(text, input=input)
    assert example.shape == shape
    model(example)


@pytest.mark.parametrize(
    ("text", "input", "message"),
    [
        ("cnn?inputs=3", "1x8x8", "inputs=3 but the input 1x8x8 needs inputs=1"),
        ("cnn", "64", "write one such as 3x32x32"),
        ("vit", "3x8x9", "not square"),
        ("gpt", "3x8x8", "write one such as ids:128:256"),
        ("mlp", "ids:3:4", "write one such as 3072"),
    ],
)
def test_an_input_that_cannot_fit_is_refused(text, input, message):
    with pytest.raises(DepthlrError, match=message):
        build(text, input=input)


def test_a_spec_made_by_hand_is_checked_too():
    with pytest.raises(DepthlrError, match="takes no argument 'depth'"):
        build(ModelSpec("zoo", "cnn", {"depth": 3}))


@pytest.mark.parametrize(
    ("text", "kind", "output"),
    [
        (TINY_GPT2, "GPT2LMHeadModel", (2, 16, 50)),
        (
            "hf/llama?num_hidden_layers=2&hidden_size=16&intermediate_size=32&num_attention_heads=2"
            "&num_key_value_heads=1&vocab_size=50",
            "LlamaForCausalLM",
            (2, 16, 50),
        ),
        (
            "hf/bert?num_hidden_layers=1&hidden_size=16&intermediate_size=32&num_attention_heads=2&vocab_size=50",
            "BertForMaskedLM",
            (2, 16, 50),
        ),
        (
            "hf/vit?num_hidden_layers=1&hidden_size=16&intermediate_size=32&num_attention_heads=2"
            "&image_size=32&patch_size=8&num_labels=7",
            "ViTForImageClassification",
            (2, 7),
        ),
        (
            "hf/t5?num_layers=1&d_model=16&d_ff=32&num_heads=2&d_kv=8&vocab_size=50",
            "T5ForConditionalGeneration",
            (2, 16, 50),
        ),
        (  # with a vocabulary, of image tokens
            "hf/beit?num_hidden_layers=1&hidden_size=16&intermediate_size=32&num_attention_heads=2"
            "&image_size=32&patch_size=8&num_labels=7",
            "BeitForImageClassification",
            (2, 7),
        ),
        (  # one of two classes, with a teacher or without
            "hf/deit?num_hidden_layers=1&hidden_size=16&intermediate_size=32&num_attention_heads=2"
            "&image_size=32&patch_size=8&num_labels=7",
            "DeiTForImageClassification",
            (2, 7),
        ),
        (
            "hf/resnet?embedding_size=8&hidden_sizes=8,16&depths=1,1&num_labels=7",
            "ResNetForImageClassification",
            (2, 7),
        ),
        (
            "hf/wav2vec2?num_hidden_layers=1&hidden_size=16&intermediate_size=32&num_attention_heads=2&num_labels=7"
            "&conv_dim=8,8&conv_stride=5,4&conv_kernel=10,8&num_conv_pos_embedding_groups=2",
            "Wav2Vec2ForSequenceClassification",
            (2, 7),
        ),
        (
            "hf/audio-spectrogram-transformer?num_hidden_layers=1&hidden_size=16&intermediate_size=32"
            "&num_attention_heads=2&max_length=32&num_mel_bins=32&num_labels=7",
            "ASTForAudioClassification",
            (2, 7),
        ),
        (
            "hf/whisper?encoder_layers=1&decoder_layers=1&d_model=16&encoder_attention_heads=2&vocab_size=50"
            "&decoder_attention_heads=2&encoder_ffn_dim=32&decoder_ffn_dim=32&max_source_positions=20&pad_token_id=0",
            "WhisperForConditionalGeneration",
            (2, 16, 50),
        ),
    ],
)
def test_hugging_face_models_run_on_their_example(text, kind, output):
    model, example = build(text)
    assert type(model).__name__ == kind
    assert model(**example).logits.shape == output


def test_hugging_face_input_can_be_given():
    model, example = build(TINY_GPT2, input="ids:9:50")
    assert example["input_ids"].shape == (2, 9)
    model, example = build(TINY_GPT2, input="9x16")
    assert model(**example).logits.shape == (2, 9, 50)
    model, example = build("hf/t5?num_layers=1&d_model=16&d_ff=32&num_heads=2&d_kv=8&vocab_size=50", input="9x16")
    assert model(**example).logits.shape == (2, 16, 50)  # a decoder's tokens stay


@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_hugging_face_pairs_of_towers_are_those_of_images(name):
    _, example = build(f"hf/{name}", meta=True)
    assert {key: tuple(value.shape) for key, value in example.items()} == {"pixel_values": (2, 3, 224, 224)}


def test_hugging_face_input_of_unknown_size_is_asked_for():
    with pytest.raises(DepthlrError, match=r"^states of this model has no known size: give an input"):
        build("hf/decision_transformer", meta=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hf/gtp2", "did you mean 'gpt2'"),
        ("hf/gpt2?n_layers=2", "did you mean 'n_layer'"),
    ],
)
def test_hugging_face_slips_are_not_swallowed(text, message):
    with pytest.raises(DepthlrError, match=message):
        build(text, meta=True)


def test_timm_models_run_on_their_example(timm_module):
    model, (example,) = build("timm/resnet10t?num_classes=7&in_chans=1", input="1x32x32")
    assert example.shape == (2, 1, 32, 32)
    assert model(example).shape == (2, 7)
    model, (example,) = build("timm/vit_tiny_patch16_224?img_size=32&depth=1&num_classes=7")
    assert example.shape == (2, 3, 32, 32)
    assert model(example).shape == (2, 7)
    _, (example,) = build("timm/resnet18", meta=True)
    assert example.shape == (2, 3, 224, 224)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("timm/resnet5", "timm has no model 'resnet5' .did you mean 'resnet"),
        ("timm/resnet18?layerz=3", r"could not be built \(TypeError: .*unexpected keyword argument 'layerz'\)\.$"),
        ("timm/test_vit?depth=four", "timm/test_vit.depth=four could not be built"),
        ("timm/resnet18?pretrained=true", "pretrained weights are not supported"),
        ("timm/test_vit?embed_dim=33", r"^timm/test_vit\?embed_dim=33 could not be built \(AssertionError: .*\)\.$"),
        ("timm/vit_tiny_patch16_224?patch_size=0", r"could not be built \(ZeroDivisionError: .*\)\.$"),
    ],
)
def test_timm_slips_are_one_sentence(timm_module, text, message):
    with pytest.raises(DepthlrError, match=message):
        build(text, meta=True)


def test_a_name_is_refused_without_the_libraries_too(monkeypatch):
    for package in ("timm", "transformers"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(DepthlrError, match=r"There is no model 'resnet18' .did you mean 'resnet'"):
        build("resnet18")


def test_lists_may_stand_in_brackets(timm_module):
    expected, _ = build("timm/convnext_atto?depths=1,1,2,1", meta=True)
    for text in ("[1,1,2,1]", "(1,1,2,1)"):
        model, _ = build(f"timm/convnext_atto?depths={text}", meta=True)
        assert len(list(model.parameters())) == len(list(expected.parameters()))


@pytest.mark.parametrize(("package", "text"), [("timm", "timm/resnet18"), ("transformers", "hf/gpt2")])
def test_a_missing_package_names_the_extra_to_install(monkeypatch, package, text):
    monkeypatch.setitem(sys.modules, package, None)  # what Python does for a module that cannot be found
    with pytest.raises(DepthlrError, match=r"pip install 'depthlr\[(timm|hf)\]'"):
        build(text)


def test_a_callable_in_the_current_directory_is_found(user_module):
    path = list(sys.path)
    model, example = build(f"{user_module}:bare?width=6", input="3")
    assert model(*example).shape == (2, 6)
    model, example = build(f"{user_module}:with_example")
    assert model(*example).shape == (5, 4)
    model, example = build(f"{user_module}:with_keywords")
    assert model(**example).shape == (5, 4)
    model, example = build(f"{user_module}:Nets.small")
    assert model(*example).shape == (1, 1)
    model, example = build(f"{user_module}:bare", input="3", meta=True)
    assert model.weight.is_meta
    assert sys.path == path


def test_a_module_class_is_a_callable_like_any_other():
    model, example = build("torch.nn:Linear?in_features=3&out_features=4", input="3")
    assert model(*example).shape == (2, 4)


@pytest.mark.parametrize(
    ("callable", "message"),
    [
        ("bare", "without an example input"),
        ("bare?height=3", "unexpected keyword argument 'height'"),
        ("missing", "has no attribute 'missing'"),
        ("number", "is a int, not a callable"),
        ("wrong", "returned str"),
    ],
)
def test_a_callable_that_will_not_do_is_explained(user_module, callable, message):
    with pytest.raises(DepthlrError, match=message):
        build(f"{user_module}:{callable}")


def test_a_module_that_is_not_there_is_named():
    with pytest.raises(DepthlrError, match="No module named 'no_such_module'"):
        build("no_such_module:make")


@pytest.mark.usefixtures("timm_module")
def test_timm_is_imported_though_torchvisions_operators_may_not_load() -> None:
    """In a process of its own, without the declarations that the tests share."""
    script = "from depthlr.models.build import build; print(type(build('timm/resnet18', meta=True)[0]).__name__)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout.strip()) == (0, "ResNet"), run.stderr
