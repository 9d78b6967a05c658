"""What was loaded once is recognised when it is loaded again."""

import json

import pytest

from depthlr.data.digests import RECORD, check_published, check_recorded, file_digest
from depthlr.errors import DepthlrError


def test_the_first_digest_is_kept_beside_the_data_and_a_change_is_refused(tmp_path, cache):
    check_recorded(tmp_path, "a.bin", "11")
    check_recorded(tmp_path, "b.bin", "22")
    check_recorded(tmp_path, "a.bin", "11")
    assert json.loads((tmp_path / RECORD).read_text()) == {"a.bin": "11", "b.bin": "22"}
    with pytest.raises(DepthlrError, match=r"a\.bin has sha256 33, but had 11 .* delete .*depthlr-digests\.json"):
        check_recorded(tmp_path, "a.bin", "33")
    assert json.loads((tmp_path / RECORD).read_text()) == {"a.bin": "11", "b.bin": "22"}
    assert [p.name for p in tmp_path.iterdir()] == [RECORD]
    assert not any(cache.iterdir())


def test_a_folder_that_cannot_be_written_to_is_remembered_in_the_cache(tmp_path, cache):
    folder = tmp_path / "file" / "below"  # below a file, so that not even root can write there
    folder.parent.write_bytes(b"")
    check_recorded(folder, "a.bin", "11")
    check_recorded(folder, "a.bin", "11")
    with pytest.raises(DepthlrError, match=f"but had 11 .* delete {cache}"):
        check_recorded(folder, "a.bin", "22")
    check_recorded(tmp_path / "file" / "other", "a.bin", "33")


def test_where_nothing_can_be_written_the_way_out_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("DEPTHLR_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DepthlrError, match="set DEPTHLR_CACHE to a folder you can write to"):
        check_recorded(tmp_path / "file" / "below", "a.bin", "11")


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"a.bin": 1}', b"\xff\xfe", b"[" * 100_000])
def test_a_damaged_record_is_refused_and_kept(tmp_path, content):
    (tmp_path / RECORD).write_bytes(content)
    with pytest.raises(DepthlrError, match="no record of digests: delete it"):
        check_recorded(tmp_path, "a.bin", "11")
    assert (tmp_path / RECORD).read_bytes() == content


def test_a_published_digest_is_the_only_right_one():
    check_published("a.bin", "11", "11")
    with pytest.raises(DepthlrError, match=r"a\.bin has md5 22, but its publisher's has 11: .* fetch it again"):
        check_published("a.bin", "22", "11")


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(DepthlrError, match="cannot be read"):
        file_digest(tmp_path, "md5")
