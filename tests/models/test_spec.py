"""A model's text, read and written."""

import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from depthlr.errors import DepthlrError
from depthlr.models import ZOO, ModelSpec, parse_spec
from depthlr.models.inputs import Floats, Ids, parse_input
from depthlr.spec_text import format_value, parse_value

scalars = st.one_of(st.integers(), st.floats(allow_nan=False), st.booleans(), st.none(), st.text(max_size=8))
values = scalars | st.lists(scalars, max_size=4).map(tuple)
keys = st.text(string.ascii_lowercase + "_", min_size=1, max_size=6)
names = st.one_of(
    st.tuples(st.just("timm"), st.sampled_from(["resnet50", "vit_base_patch16_224.augreg_in21k"])),
    st.tuples(st.just("hf"), st.sampled_from(["gpt2", "xlm-roberta"])),
    st.tuples(st.just("python"), st.sampled_from(["a:b", "my.models:Net.small"])),
)


@settings(suppress_health_check=[HealthCheck.too_slow])  # the first draw of text builds a table of Unicode
@given(names, st.dictionaries(keys, values, max_size=4))
def test_text_round_trips(name, arguments):
    spec = ModelSpec(*name, arguments)
    again = parse_spec(str(spec))
    assert again == spec
    assert hash(again) == hash(spec)
    for key, value in arguments.items():  # 1 == True == 1.0 in Python, so look at the types too
        assert repr(again.arguments[key]) == repr(value)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([(n, k) for n, entry in ZOO.items() for k in entry.defaults]), values)
def test_zoo_text_round_trips(model_and_key, value):
    name, key = model_and_key
    spec = ModelSpec("zoo", name, {key: value})
    assert parse_spec(str(spec)) == spec


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)  # the first unknown name imports timm
@given(st.text(max_size=20))
def test_any_text_is_read_or_refused_by_our_own_error(text):
    try:
        spec = parse_spec(text)
    except DepthlrError:
        return
    assert parse_spec(str(spec)) == spec


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8),
        ("-3", -3),
        ("1e-3", 1e-3),
        (".5", 0.5),
        ("true", True),
        ("False", False),
        ("none", None),
        ("gelu", "gelu"),
        ('"true"', "true"),
        ("'a&b=c'", "a&b=c"),
        (r'"say \"hi\""', 'say "hi"'),
        ("3,4", (3, 4)),
        ("3,", (3,)),
        ("()", ()),
        ("[3,4]", (3, 4)),
        ("(3,4)", (3, 4)),
        ("[3]", (3,)),
        ("(3,)", (3,)),
        ("['a,b']", ("a,b",)),
        ("relu,'a,b',none", ("relu", "a,b", None)),
    ],
)
def test_values_have_the_expected_type(text, value):
    found = parse_value(text)
    assert repr(found) == repr(value)
    assert repr(parse_value(format_value(found))) == repr(value)


def test_families_are_told_apart():
    assert parse_spec("cnn?layers=8&width=64") == ModelSpec("zoo", "cnn", {"layers": 8, "width": 64})
    assert parse_spec("timm/resnet50") == ModelSpec("timm", "resnet50", {})
    assert parse_spec("hf/gpt2?n_layer=12") == ModelSpec("hf", "gpt2", {"n_layer": 12})
    assert parse_spec("a.b:make?name='x&y'") == ModelSpec("python", "a.b:make", {"name": "x&y"})


def test_equal_specs_print_alike():
    assert str(parse_spec("cnn?width=4&layers=8")) == str(parse_spec("cnn?layers=8&width=4"))


def test_with_arguments_changes_some_and_checks_them():
    spec = parse_spec("cnn?layers=8&width=4")
    assert str(spec.with_arguments(layers=16)) == "cnn?layers=16&width=4"
    with pytest.raises(DepthlrError, match="takes no argument 'depth'"):
        spec.with_arguments(depth=16)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not understood"),
        ("?layers=8", "not understood"),
        ("restnet", "did you mean 'resnet'"),
        ("zzz", "choose from mlp, cnn"),
        ("cnn?layer=8", "did you mean 'layers'.*it takes layers, width, inputs"),
        ("cnn?layers=8&layers=9", "given twice"),
        ("cnn?layers", "not of the form key=value"),
        ("cnn?layers=", "not of the form key=value"),
        ("cnn?layers=8&", "not of the form key=value"),
        ("cnn?=8", "not of the form key=value"),
        ("cnn?layers=a b", "cannot be read"),
        ("cnn?layers=3,,4", "cannot be read"),
        ("cnn?layers=[3,4", "write lists as 3,4"),
        ("keras/resnet", "not understood"),
        ("timm/", "not understood"),
        ("zoo/cnn", "not understood"),
        ("module:", "not understood"),
    ],
)
def test_errors_say_what_is_wrong(text, message):
    with pytest.raises(DepthlrError, match=message.replace("?'", r"\?'")) as caught:
        parse_spec(text)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("text", "shape"), [("3x32x32", Floats((3, 32, 32))), ("64", Floats((64,))), ("ids:128:50257", Ids(128, 50257))]
)
def test_input_text_round_trips(text, shape):
    assert parse_input(text) == shape
    assert str(shape) == text


@pytest.mark.parametrize("text", ["", "3x", "0x8", "3*8", "ids:5", "ids:0:5", "-3"])
def test_bad_input_text_is_refused(text):
    with pytest.raises(DepthlrError, match="such as 3x32x32"):
        parse_input(text)
