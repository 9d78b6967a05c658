import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from depthlr.errors import DepthlrError
from depthlr.law import Fit, fit_power_law

SEEDS = 3
DEPTHS = np.geomspace(4, 32, 8)


def optima(rng, depths=DEPTHS, seeds=SEEDS, slope=-1.5, sd=0.08, spacing=None):
    """Simulated optima: a power law, seeds that scatter by sd decades, rounded to a grid where there is one."""
    x = np.repeat(depths, seeds)
    logs = slope * np.log10(x) + rng.uniform() + sd * rng.normal(size=x.size)
    if spacing:
        logs = np.round(logs / spacing) * spacing
    return x, 10**logs


def coverage(runs, **how):
    """The share of simulated fits whose interval holds the true slope."""
    rng = np.random.default_rng(7)
    options = {name: how.pop(name) for name in ("pooling",) if name in how}
    hits = 0
    for _ in range(runs):
        fit = fit_power_law(*optima(rng, **how), spacing=how.get("spacing"), **options)
        hits += fit.interval[0] <= -1.5 <= fit.interval[1]
    return hits / runs


@st.composite
def observations(draw):
    depths = draw(st.lists(st.integers(1, 200), min_size=3, max_size=8, unique=True))
    seeds = draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return optima(rng, np.array(depths, dtype=float), seeds, slope=draw(st.floats(-3, 1)), sd=0.1)


@given(st.floats(-3, 3), st.floats(-5, 2), st.lists(st.integers(1, 500), min_size=2, max_size=9, unique=True))
def test_an_exact_power_law_is_recovered(slope, intercept, depths):
    fit = fit_power_law(depths, [10 ** (intercept + slope * math.log10(depth)) for depth in depths])
    assert fit.slope == pytest.approx(slope, abs=1e-7)
    assert fit.predict(depths[0]) == pytest.approx(10 ** (intercept + slope * math.log10(depths[0])), rel=1e-9)
    if len(depths) > 2:
        assert fit.stderr == pytest.approx(0, abs=1e-7)


@given(observations())
def test_one_seed_a_depth_is_the_textbook_regression(data):
    depths, rates = (values[:: len(data[0]) // len(set(data[0]))] for values in data)
    fit, textbook = fit_power_law(depths, rates), scipy.stats.linregress(np.log10(depths), np.log10(rates))
    half = scipy.stats.t.ppf(0.975, len(depths) - 2) * textbook.stderr
    assert (fit.slope, fit.intercept) == pytest.approx((textbook.slope, textbook.intercept), rel=1e-8, abs=1e-10)
    assert fit.stderr == pytest.approx(textbook.stderr, rel=1e-6, abs=1e-10)
    assert fit.interval == pytest.approx((textbook.slope - half, textbook.slope + half), rel=1e-6, abs=1e-9)
    assert fit.r2 == pytest.approx(textbook.rvalue**2, rel=1e-6, abs=1e-9)
    assert fit.chi2 is None


def test_without_pooling_the_weights_are_the_papers():
    depths, rates = optima(np.random.default_rng(3))
    logs = np.log10(rates).reshape(len(DEPTHS), SEEDS)
    deviation = logs.std(axis=1, ddof=1) / math.sqrt(SEEDS)
    (slope, intercept), covariance = np.polyfit(np.log10(DEPTHS), logs.mean(axis=1), 1, w=1 / deviation, cov="unscaled")
    fit = fit_power_law(depths, rates, pooling=0)
    assert (fit.slope, fit.intercept) == pytest.approx((slope, intercept), rel=1e-9)
    assert fit.stderr == pytest.approx(math.sqrt(covariance[0, 0]) * max(1, math.sqrt(fit.chi2)), rel=1e-9)


def test_pooling_without_end_is_the_fit_with_equal_weights():
    depths, rates = optima(np.random.default_rng(4))
    slope, _ = np.polyfit(np.log10(depths), np.log10(rates), 1)
    assert fit_power_law(depths, rates, pooling=1e12).slope == pytest.approx(slope, rel=1e-9)
    assert fit_power_law(depths, rates).slope != pytest.approx(slope, rel=1e-4)


@given(observations(), st.floats(1e-3, 1e3))
def test_scaling_the_rates_moves_only_the_intercept(data, factor):
    depths, rates = data
    fit, scaled = fit_power_law(depths, rates), fit_power_law(depths, factor * rates)
    assert scaled.slope == pytest.approx(fit.slope, abs=1e-9)
    assert scaled.stderr == pytest.approx(fit.stderr, abs=1e-9)
    assert scaled.intercept - fit.intercept == pytest.approx(math.log10(factor), abs=1e-9)


@given(observations(), st.floats(0.1, 10))
def test_scaling_the_depths_leaves_the_slope(data, factor):
    depths, rates = data
    assert fit_power_law(factor * depths, rates).slope == pytest.approx(fit_power_law(depths, rates).slope, abs=1e-8)


@given(observations(), st.floats(-2, 2))
def test_multiplying_by_a_power_of_the_depth_adds_to_the_slope(data, power):
    depths, rates = data
    tilted = fit_power_law(depths, rates * depths**power)
    assert tilted.slope == pytest.approx(fit_power_law(depths, rates).slope + power, abs=1e-8)


@given(observations(), st.randoms(use_true_random=False))
def test_the_order_of_observations_does_not_matter(data, random):
    pairs = list(zip(*data, strict=True))
    random.shuffle(pairs)
    shuffled = fit_power_law([depth for depth, _ in pairs], [rate for _, rate in pairs], spacing=0.05)
    fit = fit_power_law(*data, spacing=0.05)
    assert shuffled.slope == pytest.approx(fit.slope, abs=1e-10)
    assert shuffled.interval == pytest.approx(fit.interval, abs=1e-9)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"spacing": 1 / 16},
        {"spacing": 1 / 16, "sd": 0.01},
        {"depths": np.geomspace(3, 30, 20)},
        {"seeds": 1, "spacing": 1 / 16},
        {"depths": np.array([4.0, 32.0]), "seeds": 5},
    ],
    ids=["8x3", "on a grid", "grid coarser than noise", "20x3", "one seed", "two depths"],
)
def test_the_95_percent_interval_holds_the_true_slope_about_95_percent_of_the_time(how):
    runs = 1000
    stderr = math.sqrt(0.95 * 0.05 / runs)  # 0.7 %
    assert 0.95 - 4 * stderr < coverage(runs, **how) < 0.985


@pytest.mark.parametrize(("depths", "held"), [(8, 0.85), (20, 0.73)])
def test_the_papers_weights_alone_promise_too_much(depths, held):
    runs = 1000
    stderr = math.sqrt(held * (1 - held) / runs)
    assert coverage(runs, depths=np.geomspace(3, 30, depths), pooling=0) == pytest.approx(held, abs=3 * stderr)


def test_scatter_beyond_the_seeds_widens_the_interval():
    rng = np.random.default_rng(5)
    bumps = np.repeat(0.3 * rng.normal(size=len(DEPTHS)), SEEDS)  # every seed of a depth agrees on the wrong place
    depths, rates = optima(rng, sd=0.01)
    fit, bumpy = fit_power_law(depths, rates), fit_power_law(depths, rates * 10**bumps)
    assert fit.chi2 < 5 < 100 < bumpy.chi2
    assert bumpy.stderr > 10 * fit.stderr
    assert bumpy.interval[0] < -1.5 < bumpy.interval[1]


def test_seeds_that_agree_on_a_grid_point_are_not_taken_as_certain():
    depths = [4, 4, 4, 8, 8, 8, 16, 16, 16]
    rates = [0.1] * 3 + [0.05] * 3 + [0.025] * 3
    exact, floored = fit_power_law(depths, rates), fit_power_law(depths, rates, spacing=0.1)
    assert exact.stderr == pytest.approx(0, abs=1e-12)
    span = math.log10(4) / math.sqrt(2)  # sqrt of the sum of squared deviations of log10 depth
    assert floored.stderr == pytest.approx(math.sqrt(0.1**2 / 12) / span)


def test_one_agreeing_depth_does_not_take_over_the_fit():
    depths, rates = optima(np.random.default_rng(6))
    rates[:SEEDS] = rates[0]
    fit = fit_power_law(depths, rates)
    without_own = fit_power_law(depths, rates, pooling=1e12)
    assert abs(fit.slope - without_own.slope) < fit.stderr
    same_but_rounded = rates.copy()
    same_but_rounded[1] *= 1 + 1e-13
    assert fit_power_law(depths, same_but_rounded, pooling=0).slope == pytest.approx(
        fit_power_law(depths, rates, pooling=0).slope, rel=1e-9
    )


def test_a_single_seed_borrows_the_pooled_variance():
    depths, rates = optima(np.random.default_rng(8))
    fit = fit_power_law(depths[:-2], rates[:-2])  # the deepest keeps one seed
    assert fit.points[-1].sd is None
    assert fit.observations == len(depths) - 2
    assert math.isfinite(fit.stderr)
    for pooling in (0, 1):
        assert math.isfinite(fit_power_law(depths[:-2], rates[:-2], pooling=pooling).slope)


def test_two_depths_use_the_seeds_degrees_of_freedom():
    logs = np.array([[-1.0, -1.1, -1.2], [-2.0, -2.2, -2.1]])
    fit = fit_power_law(np.repeat([10, 100], 3), 10 ** logs.ravel())
    stderr = math.sqrt(0.01 / 3 + 0.01 / 3)
    half = scipy.stats.t.ppf(0.975, 4) * stderr
    assert fit.slope == pytest.approx(-1.0)
    assert fit.stderr == pytest.approx(stderr)
    assert fit.interval == pytest.approx((-1 - half, -1 + half))


@pytest.mark.parametrize("spacing", [None, 0.1])
def test_two_depths_of_one_seed_have_no_finite_interval(spacing):
    fit = fit_power_law([10, 100], [0.1, 0.01], spacing=spacing)
    assert fit.interval == (-math.inf, math.inf)
    assert "no interval" in str(fit)


def test_flat_optima_have_slope_zero_and_explain_nothing():
    fit = fit_power_law([3, 6, 12], [0.3, 0.3, 0.3])
    assert fit.slope == pytest.approx(0, abs=1e-12)
    assert fit.r2 == 0.0


@given(observations())
@settings(max_examples=30)
def test_a_higher_level_gives_a_wider_interval_around_the_same_slope(data):
    narrow, wide = (fit_power_law(*data, level=level) for level in (0.5, 0.99))
    assert wide.slope == narrow.slope
    assert wide.interval[0] < narrow.interval[0] < narrow.slope < narrow.interval[1] < wide.interval[1]


def test_points_hold_what_a_plot_needs():
    fit = fit_power_law([8, 4, 8, 4], [1e-2, 1e-1, 1e-3, 1e-1])
    shallow, deep = fit.points
    assert (shallow.depth, shallow.log10_rate, shallow.sd, shallow.observations) == (4, -1, 0, 2)
    assert (deep.depth, deep.log10_rate, deep.observations) == (8, pytest.approx(-2.5), 2)
    assert deep.sd == pytest.approx(math.sqrt(0.5))
    assert (fit.depths, fit.observations) == (2, 4)


def test_the_fit_prints_as_one_line():
    fit = Fit(-1.364, 0.081, (-1.552, -1.171), 0.95, 0.2, 0.983, 1.0, (None,) * 8, 0.9, 0.3)
    assert str(fit) == "slope -1.36 ± 0.08 (95% -1.55..-1.17), R² 0.98, 8 depths"


def test_our_own_sweep_is_fitted_to_the_slope_in_the_findings():
    blocks = np.array([3, 4, 6, 8, 12, 16, 24, 30])
    logs = [-1.00, -1.17, -1.31, -1.60, -1.75, -1.83, -1.98, -2.15]  # ResNet, SGD: mean log10 rate of three seeds
    assert fit_power_law(blocks + 2, np.power(10, logs)).slope == pytest.approx(-1.36, abs=0.01)


@pytest.mark.parametrize(
    ("depths", "rates", "options", "complaint"),
    [
        ([4, 8], [0.1], {}, "2 depths and 1 rates"),
        ([4, 4], [0.1, 0.2], {}, "two distinct depths"),
        ([], [], {}, "two distinct depths"),
        ([4, 8], [0.1, 0.0], {}, "Rate 1"),
        ([4, math.nan], [0.1, 0.2], {}, "Depth 1"),
        ([4, 8], [math.inf, 0.2], {}, "Rate 0"),
        ([4, 8], [0.1, 0.2], {"spacing": 0}, "spacing"),
        ([4, 8], [0.1, 0.2], {"level": 95}, "between 0 and 1"),
        ([4, 8], [0.1, 0.2], {"pooling": -1}, "pooling"),
    ],
)
def test_what_cannot_be_fitted_says_why(depths, rates, options, complaint):
    with pytest.raises(DepthlrError, match=complaint):
        fit_power_law(depths, rates, **options)


@pytest.mark.parametrize("exponent", [1, -1])
def test_a_rate_is_predicted_as_far_as_floats_go_and_beyond_that_refused(exponent):
    fit = fit_power_law([1, 10, 100], [1, 10**exponent, 100**exponent])
    assert fit.predict(1e300) == pytest.approx(10 ** (300 * exponent))
    steep = fit_power_law([1, 10], [1, 10 ** (300 * exponent)])
    assert steep.predict(10) == pytest.approx(10 ** (300 * exponent))
    with pytest.raises(DepthlrError, match=rf"at depth 100 is 10\^{600 * exponent}, beyond what a float holds"):
        steep.predict(100)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("options", [{}, {"spacing": 0.3}, {"pooling": 0.0}, {"pooling": 50.0}])
def test_the_law_crosses_the_line_at_the_centre_amid_the_depths(seed, options):
    rng = np.random.default_rng(seed)
    depths = np.repeat([4.0, 6, 9, 20, 33], 3)
    fit = fit_power_law(depths, 10 ** (0.1 * rng.normal(size=15) - 1.5 * np.log10(depths)), **options)
    x = np.log10([point.depth for point in fit.points])
    assert x.min() < fit.centre < x.max()
    assert 0 < fit.spread <= np.ptp(x) / 2
    assert fit.by_law(10**fit.centre) == pytest.approx(fit.predict(10**fit.centre))
    assert math.log10(fit.by_law(100) / fit.by_law(10)) == pytest.approx(-1.5)


def test_equal_weights_have_the_plain_mean_and_deviation():
    fit = fit_power_law([4, 8, 32], [1.0, 0.5, 0.1])
    x = np.log10([4, 8, 32])
    assert (fit.centre, fit.spread) == pytest.approx((x.mean(), x.std()))


def test_a_surer_depth_draws_the_centre_to_itself():
    logs = {4: (0.0, 0.0002), 8: (-0.4, -0.6), 16: (-0.7, -1.1)}
    pairs = [(depth, 10**log) for depth, found in logs.items() for log in found]
    fit = fit_power_law(*zip(*pairs, strict=True), pooling=0)
    assert fit.centre == pytest.approx(math.log10(4), abs=0.01)


def test_the_band_holds_the_true_line_as_often_as_it_says():
    rng = np.random.default_rng(0)
    depths = np.repeat([4, 6, 9, 14, 20, 33], 4)
    held, trials, at = 0, 400, [4, 11, 33]
    for _ in range(trials):
        logs = -1.5 * np.log10(depths) + 0.1 * rng.normal(size=depths.size)
        low, high = fit_power_law(depths, 10**logs).band(at)
        held += np.mean([a <= d**-1.5 <= b for a, b, d in zip(low, high, at, strict=True)])
    assert 0.93 < held / trials <= 1


def test_the_band_is_narrowest_at_the_centre_and_unknown_without_an_interval():
    fit = fit_power_law(*optima(np.random.default_rng(1)))
    depths = np.geomspace(1, 100, 401)
    low, high = fit.band(depths)
    widths = np.log10(high / low)
    assert math.log10(depths[widths.argmin()]) == pytest.approx(fit.centre, abs=0.01)
    assert (np.diff(widths, 2) > 0).all()
    assert fit_power_law([4, 8], [1.0, 0.5]).band([4]) is None


def test_two_depths_have_no_r2() -> None:
    two = fit_power_law([4, 8], [0.1, 0.03])
    assert two.r2 is None
    assert "R²" not in str(two)
    assert fit_power_law([4, 8, 16], [0.1, 0.03, 0.01]).r2 is not None
