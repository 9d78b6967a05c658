"""One flipped bit in a finished study ends in an identical table, or in a sentence that says what is lost."""

from experiments.faults.bitflips import flip_bits


def test_a_flipped_bit_never_changes_a_table_in_silence(tmp_path):
    tally = flip_bits(200, tmp_path, seed=1)
    assert tally.passed, str(tally)
    assert sum(tally.reading.values()) == sum(tally.resuming.values()) == 200
    assert all(tally.reading[outcome] for outcome in ("identical", "damaged cells named", "refused with a sentence"))
