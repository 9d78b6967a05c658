import pytest
from hypothesis import given
from hypothesis import strategies as st

from depthlr.errors import DepthlrError
from depthlr.law.rules import OPTIMIZER_FAMILIES, RULES, DepthRule, rule_named, transfer_by_power


def test_every_rule_is_found_by_its_name_and_says_what_it_assumes():
    for name, rule in RULES.items():
        assert rule_named(name) is rule
        assert rule.name == name
        assert rule.source
        assert rule.assumes.endswith(".")


@pytest.mark.parametrize(
    ("name", "sgd", "adam"),
    [
        ("copy", 0, 0),
        ("law", -1.5, -1.5),
        ("jelassi", -1.5, None),
        ("depth-mup", 0, -0.5),
        ("completep", None, 0),
        ("u-mup", -0.5, -0.5),
        ("pathsum", None, None),
    ],
)
def test_exponents_are_those_the_authors_prescribe(name, sgd, adam):
    assert (RULES[name].exponent("sgd"), RULES[name].exponent("adam")) == (sgd, adam)
    for family, exponent in (("sgd", sgd), ("adam", adam)):
        if exponent is None:
            with pytest.raises(DepthlrError):
                RULES[name].carry_depths(1e-2, 8, 32, family)
        else:
            assert RULES[name].carry_depths(1e-2, 8, 32, family).rate == pytest.approx(1e-2 * 4**exponent)


@given(st.floats(1e-6, 1), st.floats(1, 500), st.floats(1, 500))
def test_copy_keeps_the_rate_and_law_is_the_power_law(rate, a, b):
    assert RULES["copy"].carry_depths(rate, a, b).rate == rate
    assert RULES["law"].carry_depths(rate, a, b).rate == transfer_by_power(rate, a, b)


def test_rules_with_minus_three_halves_or_a_multiplier_warn_against_combining_them():
    for rule in RULES.values():
        at_risk = -1.5 in (rule.exponent_sgd, rule.exponent_adam) or "multiplied by" in rule.assumes
        assert at_risk <= ("Never combine -3/2" in rule.assumes), rule.name
    assert "1/sqrt(L)" in RULES["law"].assumes
    assert "empirical" in RULES["law"].assumes


def test_pathsum_points_to_its_own_function():
    assert RULES["pathsum"].counts == "paths"
    with pytest.raises(DepthlrError, match="pathsum_transfer"):
        RULES["pathsum"].carry_depths(1e-2, 8, 32)


def test_a_rule_that_prescribes_nothing_names_those_that_do():
    with pytest.raises(DepthlrError, match="copy, constant, law, jelassi, depth-mup, u-mup"):
        RULES["completep"].carry_depths(1e-2, 8, 32, "sgd")


@pytest.mark.parametrize(("typo", "meant"), [("Law", "law"), ("depth_mup", "depth-mup"), ("complete-p", "completep")])
def test_an_unknown_name_lists_the_names_and_the_nearest(typo, meant):
    with pytest.raises(DepthlrError, match=f"did you mean '{meant}'") as caught:
        rule_named(typo)
    assert all(name in str(caught.value) for name in RULES)


def test_a_name_like_no_other_gets_no_hint():
    with pytest.raises(DepthlrError) as caught:
        rule_named("zzz")
    assert "did you mean" not in str(caught.value)


def test_muon_counts_as_adam_and_a_wrong_family_is_an_error():
    assert OPTIMIZER_FAMILIES["muon"] == "adam"
    with pytest.raises(DepthlrError, match="The optimizer family is 'muon': choose from sgd, adam"):
        RULES["law"].carry_depths(1e-2, 8, 32, "muon")


def test_a_users_own_rule_carries_too():
    own = DepthRule(name="ours", source="our sweep", assumes="Our model.", exponent_sgd=-1.0, exponent_adam=None)
    assert own.carry_depths(1e-2, 8, 16).rate == pytest.approx(5e-3)
