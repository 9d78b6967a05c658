"""The store: what was kept is there and as it was, or it is not trusted; nothing of another's is touched."""

import errno
import hashlib
import json
import os
import signal
import sqlite3
import struct
from dataclasses import astuple, replace

import numpy as np
import pytest

from depthlr.errors import DepthlrError
from depthlr.study import Data, Environment, open_store, read_snapshot, read_store
from depthlr.study.record import Judge, make_record
from depthlr.study.results import results_of
from depthlr.study.store import _seal
from depthlr.training.cell import Cell, Outcome
from experiments.landscape import study

STUDY = study(sizes=(2, 3), points=5)
CELLS = [Cell(size, seed, rate) for size in (2, 3) for seed in (0, 1) for rate in STUDY.search.rates]


def kept(cell: Cell, losses=(2.0, 1.5), diverged=False):
    return make_record(cell, Outcome(np.array(losses, dtype=np.float32), 0.5, diverged), Judge("budget"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a study?.sqlite"  # a name that a URI must escape


@pytest.fixture
def filled(path):
    with open_store(path, STUDY, data_digest="11", depths={2: 3, 3: 4}) as store:
        for cell in CELLS:
            store.put(kept(cell))
    return path


def change(path, statement, *values):
    with sqlite3.connect(path) as connection:
        connection.execute(statement, values)
    connection.close()


def test_what_was_put_comes_back_and_the_file_is_one_file(filled):
    content = read_store(filled)
    assert content.study == STUDY
    assert list(content.records) == CELLS
    assert content.records[CELLS[0]].loss == 1.75
    assert np.frombuffer(content.records[CELLS[0]].losses, "<f4").tolist() == [2.0, 1.5]
    assert (content.damaged, content.depths) == ((), {2: 3, 3: 4})
    assert [p.name for p in filled.parent.iterdir()] == [filled.name]


def test_a_loss_and_a_time_of_minus_zero_are_kept(path):
    outcome = Outcome(np.array([-0.0, -0.0], dtype=np.float32), -0.0, False)
    with open_store(path, STUDY) as store:
        store.put(
            make_record(CELLS[0], outcome, Judge("budget")),
            make_record(CELLS[1], replace(outcome, loss=-0.0), Judge("budget")),
        )
    assert list(read_store(path).records) == CELLS[:2]


def test_a_record_is_there_for_others_as_soon_as_it_is_put(path):
    with open_store(path, STUDY) as store:
        for count, cell in enumerate(CELLS, 1):
            store.put(kept(cell))
            assert len(read_store(path).records) == count


def test_the_same_study_goes_on_under_any_name_and_from_any_folder(filled):
    moved = replace(STUDY, name="other", data=Data(folder="/elsewhere"))
    with open_store(filled, moved, data_digest="11") as store:
        assert len(store.content().records) == len(CELLS)


def test_a_changed_study_is_refused_and_the_change_is_named(filled):
    before = filled.read_bytes()
    changed = replace(STUDY, training=replace(STUDY.training, batch=64))
    with (
        pytest.raises(DepthlrError, match=r"another study \(training\.batch: 128 -> 64\): undo"),
        open_store(filled, changed),
    ):
        pass
    assert filled.read_bytes() == before


def test_other_data_are_refused(filled):
    with (
        pytest.raises(DepthlrError, match=r"begun on other data \(digest 11, now 22\)"),
        open_store(filled, STUDY, data_digest="22"),
    ):
        pass


def test_models_that_changed_since_their_cells_ran_are_refused(filled):
    before = filled.read_bytes()
    with (
        pytest.raises(DepthlrError, match=r"other depths \(layers=2: 3 -> 8; layers=3: 4 -> 14\): undo .* delete"),
        open_store(filled, STUDY, data_digest="11", depths={2: 8, 3: 14}),
    ):
        pass
    assert filled.read_bytes() == before
    with open_store(filled, STUDY, depths={2: 3, 3: 4}) as store:
        assert len(store.content().records) == len(CELLS)


def test_a_model_none_of_whose_cells_ran_may_change(path):
    with open_store(path, STUDY, depths={2: 3, 3: 4}) as store:
        store.put(kept(CELLS[0]))
    with open_store(path, STUDY, depths={2: 3, 3: 14}):
        pass
    assert read_store(path).depths == {2: 3, 3: 14}


def test_a_store_without_a_cell_makes_way_for_another_study(path):
    with open_store(path, STUDY, data_digest="11", depths={2: 3, 3: 4}):
        pass
    changed = replace(STUDY, training=replace(STUDY.training, batch=64))
    with open_store(path, changed, data_digest="22"):
        pass
    content = read_store(path)
    assert (content.study, content.data_digest, content.depths) == (changed, "22", None)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE cells SET losses = x'0000003f0000003f' WHERE size = 3",
        "UPDATE cells SET loss = loss * 0.999 WHERE size = 3",
        "UPDATE cells SET diverged = 1 WHERE size = 3",
        "UPDATE cells SET seconds = NULL WHERE size = 3",
        "UPDATE cells SET losses = NULL WHERE size = 3",
        "UPDATE cells SET sha256 = 'x' WHERE size = 3",
        "UPDATE cells SET seed = seed + 10 WHERE size = 3",
        "UPDATE cells SET rate = 'rate ' || rate WHERE size = 3",
        "UPDATE cells SET finished = CAST(x'32ff' AS TEXT) WHERE size = 3",
        "UPDATE cells SET sha256 = CAST(x'80' || substr(sha256, 2) AS TEXT) WHERE size = 3",
    ],
)
def test_a_damaged_record_is_reported_and_not_trusted_until_it_is_put_again(filled, statement):
    change(filled, statement)
    content = read_store(filled)
    assert len(content.damaged) == 10
    assert {cell.size for cell in content.damaged} == {3}
    assert {cell.size for cell in content.records} == {2}
    with open_store(filled, STUDY) as store:
        assert len(store.content().damaged) == 10
        store.drop_damaged()
        assert list(store.content().records) == CELLS[:10]
        for cell in CELLS[10:]:
            store.put(kept(cell))
    assert read_store(filled).damaged == ()
    assert list(read_store(filled).records) == CELLS


@pytest.mark.parametrize("content", [b"x", b"not a database at all" * 200, b"SQLite format 3\0" + b"\1" * 4000])
def test_another_kind_of_file_is_left_as_it_is(path, content):
    path.write_bytes(content)
    with pytest.raises(DepthlrError, match=r"not a study of depthlr|is damaged"), open_store(path, STUDY):
        pass
    with pytest.raises(DepthlrError, match=r"not a study of depthlr|is damaged"):
        read_store(path)
    assert path.read_bytes() == content


def test_another_programs_database_is_left_as_it_is(path):
    change(path, "CREATE TABLE theirs (x)")
    before = path.read_bytes()
    with pytest.raises(DepthlrError, match="not a study of depthlr"), open_store(path, STUDY):
        pass
    assert path.read_bytes() == before


def test_a_newer_schema_asks_for_a_newer_depthlr(filled):
    change(filled, "PRAGMA user_version = 3")
    with pytest.raises(DepthlrError, match="newer depthlr: upgrade"), open_store(filled, STUDY):
        pass


def test_a_description_that_cannot_be_read_is_said_so(filled):
    change(filled, "UPDATE facts SET value = ? WHERE name = 'study'", json.dumps({"model": 3}))
    with pytest.raises(DepthlrError, match="holds no readable study"):
        read_store(filled)


@pytest.mark.parametrize("depths", ["[]", "false", "0", '""', '{"3": 0}'])
def test_depths_that_are_no_table_of_depths_are_refused(filled, depths):
    with sqlite3.connect(filled) as connection:
        connection.execute("UPDATE facts SET value = ? WHERE name = 'depths'", (depths,))
        _seal(connection)
    connection.close()
    with pytest.raises(DepthlrError, match="holds no readable study"):
        read_store(filled)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("study", '"batch": 128', '"batch": 129'),
        ("study", '"name": "landscape"', '"name": "landscapd"'),
        ("data", "11", "10"),
        ("depths", '"3": 4', '"3": 5'),
        ("environments", "CPU", "GPU"),
        ("sha256", "", "x"),
    ],
)
def test_a_changed_fact_is_refused_and_nothing_is_mixed(filled, name, before, after):
    with open_store(filled, STUDY) as store:
        store.record_environment(Environment("CPU, 2 cores", "2.13.0", "0.1.0", "3.11.7"))
    if before:
        change(filled, "UPDATE facts SET value = replace(value, ?, ?) WHERE name = ?", before, after, name)
    else:
        change(filled, "UPDATE facts SET value = ? WHERE name = ?", after, name)
    content = filled.read_bytes()
    said = r"no readable study \(.* changed since it was written\), so its cells are lost: restore a copy"
    with pytest.raises(DepthlrError, match=said):
        read_store(filled)
    with pytest.raises(DepthlrError, match=said), open_store(filled, STUDY):
        pass
    assert filled.read_bytes() == content


def test_a_fact_whose_name_is_no_text_is_a_sentence_that_can_be_printed(filled):
    change(filled, "UPDATE facts SET name = CAST(x'64ff' AS TEXT) WHERE name = 'data'")
    with pytest.raises(DepthlrError, match="changed since it was written") as caught:
        read_store(filled)
    assert str(caught.value).isprintable()


def test_a_file_without_digests_of_facts_opens_and_its_first_writer_adds_them(filled):
    change(filled, "DELETE FROM facts WHERE name = 'sha256'")
    with pytest.raises(DepthlrError, match="changed since"):
        read_store(filled)  # a file of this schema has them
    change(filled, "PRAGMA user_version = 1")
    old = read_store(filled)
    assert list(old.records) == CELLS
    with open_store(filled, STUDY) as store:
        assert store.content() == old
    change(filled, "UPDATE facts SET value = replace(value, '128', '129') WHERE name = 'study'")
    with pytest.raises(DepthlrError, match=r"study changed since it was written"):
        read_store(filled)


def test_an_index_that_lacks_a_cell_loses_none(filled):
    """The table keeps every cell; readers do not ask its index, and the writer rebuilds it."""
    damage_index(filled)
    with sqlite3.connect(filled) as connection:
        assert "index" in connection.execute("PRAGMA integrity_check").fetchone()[0]
    connection.close()
    assert list(read_store(filled).records) == CELLS
    assert list(read_snapshot(filled).results.records) == list(read_store(filled).records.values())
    with open_store(filled, STUDY) as store:
        assert list(store.content().records) == CELLS
        store.put(kept(CELLS[0], losses=(3.0, 3.0)))  # replaced, not doubled
    assert read_store(filled).records[CELLS[0]].loss == 3.0
    with sqlite3.connect(filled) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def damage_index(path):
    """Change one rate in the index of the cells, and in it alone."""
    with sqlite3.connect(path) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_cells_1'")
    connection.close()
    content = bytearray(path.read_bytes())
    rate = struct.pack(">d", CELLS[0].rate)
    place = content.index(rate, (root[0] - 1) * 4096)
    assert place < root[0] * 4096
    content[place + 3] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW mine AS SELECT * FROM cells",
        "CREATE TRIGGER mine AFTER INSERT ON cells BEGIN DELETE FROM cells; END",
        "CREATE TABLE mine (x)",
        "ALTER TABLE cells RENAME COLUMN seconds TO minutes",
    ],
)
def test_tables_that_are_not_exactly_ours_are_not_read(filled, statement):
    change(filled, statement)
    with pytest.raises(DepthlrError, match="tables are not those that depthlr makes"):
        read_store(filled)
    with pytest.raises(DepthlrError, match="tables are not those that depthlr makes"), open_store(filled, STUDY):
        pass


def test_a_view_without_end_in_place_of_the_cells_is_not_run(filled):
    change(filled, "DROP TABLE cells")
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i"
    change(filled, f"CREATE VIEW cells AS {endless} AS size, i AS seed, i AS rate FROM n")
    with pytest.raises(DepthlrError, match="tables are not those that depthlr makes"):
        read_store(filled)


@pytest.mark.parametrize(
    ("name", "value"),
    [("depths", '{"2": NaN}'), ("depths", '{"2": "x"}'), ("study", "[" * 100_000), ("data", "[1]"), ("study", "3")],
)
def test_facts_of_a_wrong_kind_with_valid_digests_are_a_sentence(filled, name, value):
    with open_store(filled, STUDY) as store:
        store._connection.execute("UPDATE facts SET value = ? WHERE name = ?", (value, name))
        _seal(store._connection)
    with pytest.raises(DepthlrError, match="no readable study"):
        read_store(filled)
    with pytest.raises(DepthlrError, match="no readable study"), open_store(filled, STUDY):
        pass
    with pytest.raises(DepthlrError, match="no readable study"):
        read_snapshot(filled)


@pytest.mark.parametrize(
    "changes",
    [
        {"cell": Cell("two", 0, 0.1)},
        {"cell": Cell(2, -1, 0.1)},
        {"cell": Cell(2, 0, -0.1)},
        {"cell": Cell(2, 0, float("inf"))},
        {"loss": "small"},
        {"loss": float("inf")},
        {"loss": b"1"},
        {"seconds": "long"},
        {"seconds": -1.0},
        {"finished": 3},
        {"finished": "=cmd|' /C calc'!A0"},
        {"finished": "2024-01-01\u00e910:00"},
        {"losses": b"123"},
        {"losses": "text"},
        {"evaluations": b"123"},
        {"evaluations": 7},
    ],
)
def test_a_record_of_a_wrong_kind_with_a_valid_digest_is_damaged(filled, changes):
    evaluations = changes.get("evaluations", b"")
    bad = replace(kept(CELLS[0]), **changes)
    row = (*astuple(bad.cell), bad.loss, int(bad.diverged), bad.seconds, bad.finished, bad.losses)
    head = (*astuple(bad.cell), bad.loss, bad.diverged, bad.seconds, bad.finished, len(bad.losses))
    losses = as_bytes(bad.losses)
    digest = hashlib.sha256(repr(head).encode() + losses + as_bytes(evaluations)).hexdigest()
    change(filled, "DELETE FROM cells WHERE rowid = 1")
    change(filled, "INSERT INTO cells VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", *row, digest, evaluations, "")
    content = read_store(filled)
    assert (len(content.records), len(content.damaged)) == (len(CELLS) - 1, 1)
    assert "1 damaged record" in results_of(content).notes[0]


def as_bytes(value):
    return value if isinstance(value, bytes) else str(value).encode()


def test_a_record_whose_date_and_losses_are_not_known_is_sound(filled):
    """As a table gives it."""
    bare = replace(kept(CELLS[0]), finished="", losses=b"")
    with open_store(filled, STUDY) as store:
        store.put(bare)
    assert read_store(filled).records[CELLS[0]] == bare


def test_a_damaged_page_is_a_sentence(filled):
    content = bytearray(filled.read_bytes())
    content[4096:8192] = bytes(4096)
    filled.write_bytes(content)
    with pytest.raises(DepthlrError, match=r"damaged|no readable study"):
        read_store(filled)


def test_an_empty_file_is_a_first_run_that_was_killed(path):
    path.touch()
    with open_store(path, STUDY) as store:
        assert store.content().records == {}


@pytest.mark.parametrize("bit", [0x80, 0x40])  # E becomes a byte that is no text, or a control character
def test_damage_that_sqlite_quotes_in_its_message_is_a_sentence(filled, bit):
    content = bytearray(filled.read_bytes())
    content[content.index(b"CREATE TABLE cells") + 5] ^= bit
    filled.write_bytes(content)
    with pytest.raises(DepthlrError, match="is damaged") as caught:
        read_store(filled)
    assert str(caught.value).isprintable()
    with pytest.raises(DepthlrError, match="is damaged"), open_store(filled, STUDY):
        pass


def test_a_file_that_is_deleted_while_it_is_written_is_named_as_the_cause(filled):
    with open_store(filled, STUDY) as store:
        filled.unlink()
        with pytest.raises(DepthlrError, match="was deleted or moved while a sweep wrote it: put it back"):
            store.put(kept(CELLS[0]))


def test_a_missing_study_or_folder_is_a_sentence(path):
    with pytest.raises(DepthlrError, match="There is no file"):
        read_store(path)
    path.touch()
    with pytest.raises(DepthlrError, match="check that its folder is there"), open_store(path / "below.sqlite", STUDY):
        pass


def test_a_full_disk_keeps_what_was_put(filled):
    with open_store(filled, STUDY) as store:
        # As full as SQLite can be made to find it: no page more than there are.
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(DepthlrError, match=r"the disk is full: free some space and run the same again"):
            store.put(kept(Cell(3, 2, 0.1), losses=np.ones(10_000)))
    assert len(read_store(filled).records) == len(CELLS)


def test_a_disk_that_fills_while_the_study_is_opened_is_named_as_the_cause(path, monkeypatch):
    def full(path, connection, *facts):
        connection.execute("ROLLBACK")  # as SQLite itself does then
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("depthlr.study.store._keep_facts", full)
    with pytest.raises(DepthlrError, match="the disk is full"), open_store(path, STUDY):
        pass


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_so_is_one_that_has_no_room_for_the_lock(path, monkeypatch, number):
    def full(study, patience):
        raise OSError(number, os.strerror(number), str(study))

    monkeypatch.setattr("depthlr.study.store.lock", full)
    with pytest.raises(DepthlrError, match="the disk is full"), open_store(path, STUDY):
        pass


@pytest.mark.parametrize("folder", ["full", "No space", "locked", "malformed", "not a database"])
def test_a_word_in_a_path_is_not_taken_for_the_cause(path, folder):
    with pytest.raises(DepthlrError, match="check that its folder is there"), open_store(path / folder / "s", STUDY):
        pass


def test_a_folder_is_no_study(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    for folder in (".", path.parent):
        with pytest.raises(DepthlrError, match="is a folder: name the file"), open_store(folder, STUDY):
            pass
    assert list(path.parent.iterdir()) == []


def test_a_name_that_no_file_can_have_is_a_sentence(path):
    with pytest.raises(DepthlrError, match="cannot be written or read"):
        read_store(path.with_name("x" * 300))


def test_a_second_writer_is_told_who_holds_the_study(path):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with open_store(path, STUDY):
            os.write(writer, b"x")
            signal.pause()
    os.read(reader, 1)
    try:
        with (
            pytest.raises(DepthlrError, match=rf"being written by process {child} on .*: wait until it ends"),
            open_store(path, STUDY),
        ):
            pass
        assert read_store(path).records == {}  # reading needs nobody's leave
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)
    assert path.with_name(path.name + ".lock").exists()
    with open_store(path, STUDY) as store:  # the lock died with its process, and its file is no obstacle
        store.put(kept(CELLS[0]))
    assert not path.with_name(path.name + ".lock").exists()


def test_errors_of_what_runs_while_it_is_open_stay_what_they_are(path):
    with pytest.raises(FileNotFoundError), open_store(path, STUDY):
        raise FileNotFoundError("the user's own file")


@pytest.mark.parametrize(
    ("losses", "diverged", "last", "loss"),
    [
        ([4, 2, 1], False, None, 7 / 3),
        ([4, 2, 1], False, 2, 1.5),
        ([4, 2, 1], False, 9, 7 / 3),
        ([4, 2, 1], True, None, np.inf),
        ([np.nan, 2, 1], False, 2, np.inf),
        ([4, np.inf], False, None, np.inf),
        ([], False, None, np.inf),
    ],
)
def test_a_cell_is_judged_by_its_mean_loss_and_infinity_if_it_diverged(losses, diverged, last, loss):
    found = make_record(CELLS[0], Outcome(np.array(losses, dtype=np.float32), 0.1, diverged), Judge("budget", last))
    assert found.loss == pytest.approx(loss)
    assert found.diverged == np.isinf(loss)
