"""What was loaded once is recognised when it is loaded again."""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
import tarfile
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.published import tar_gz

from depthlr.data import files
from depthlr.data.files import (
    RECORD,
    check_published,
    check_recorded,
    find_labelled_files,
    read_members,
    replace_file,
    sampled_digest,
    spread,
)
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


@given(st.integers(0, 500), st.integers(2, 40))
def test_a_sample_is_spread_from_the_first_to_the_last(count, most):
    chosen = spread(count, most)
    assert len(chosen) == min(count, most)
    assert chosen == sorted(set(chosen))
    if count:
        assert (chosen[0], chosen[-1]) == (0, count - 1)


@settings(max_examples=60, deadline=None)
@given(st.binary(min_size=1, max_size=200), st.data())
def test_a_sampled_digest_follows_the_length_and_every_sampled_byte(tmp_path_factory, content, draw):
    path = tmp_path_factory.mktemp("sampled") / "a.bin"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "BLOCK", 4)
        patch.setattr(files, "SAMPLES", 5)
        path.write_bytes(content)
        digest = sampled_digest(path)
        assert sampled_digest(path) == digest
        starts = range(0, len(content), 4) if len(content) <= 20 else spread(len(content) - 3, 5)
        place = draw.draw(st.sampled_from(starts))
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert sampled_digest(path) != digest
        path.write_bytes(content + b"x")
        assert sampled_digest(path) != digest


def test_a_sampled_digest_of_a_folder_follows_names_sizes_and_sampled_contents(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "SAMPLED_FILES", 2)
    for name, content in {"a/1": b"one", "a/2": b"two", "b/3": b"three"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.x").write_bytes(content)

    def digest():
        return find_labelled_files(tmp_path, (".x",)).sampled_digest()

    seen = [digest()]
    assert digest() == seen[0]
    (tmp_path / "b" / "3.x").write_bytes(b"seven")  # sampled
    seen.append(digest())
    (tmp_path / "a" / "2.x").write_bytes(b"long")  # another size
    seen.append(digest())
    (tmp_path / "a" / "2.x").rename(tmp_path / "a" / "22.x")
    seen.append(digest())
    assert len(set(seen)) == 4
    (tmp_path / "a" / "22.x").write_bytes(b"gone")  # neither sampled nor of another size: the price of a cheap digest
    assert digest() == seen[-1]


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


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_a_damaged_record_is_refused_and_kept(tmp_path, content):
    (tmp_path / RECORD).write_bytes(content)
    with pytest.raises(DepthlrError, match="no record of digests: delete it"):
        check_recorded(tmp_path, "a.bin", "11")
    assert (tmp_path / RECORD).read_bytes() == content


def test_a_published_digest_is_the_only_right_one():
    check_published("a.bin", "11", "11")
    with pytest.raises(DepthlrError, match=r"a\.bin has md5 22, but its publisher's has 11: .* fetch it again"):
        check_published("a.bin", "22", "11")


def test_what_fails_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"before")
    with pytest.raises(TypeError), replace_file(path) as file:
        file.write(b"half" + None)
    assert path.read_bytes() == b"before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_its_target_is_written(tmp_path, there):
    target, link = tmp_path / "below" / "target", tmp_path / "link"
    target.parent.mkdir()
    if there:
        target.write_bytes(b"before")
    link.symlink_to("below/target")
    with replace_file(link) as file:
        file.write(b"after")
    assert link.is_symlink()
    assert target.read_bytes() == b"after"


@pytest.mark.parametrize("linked", [True, False])
def test_a_pipe_is_written_and_stays_a_pipe(tmp_path, linked):
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with replace_file(link if linked else pipe) as file:
            file.write(b"through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(IsADirectoryError), replace_file(tmp_path):
        pass


FILES = {"set/a.bin": b"first" * 300, "set/b.bin": bytes(range(256)) * 9, "set/readme": b"hello"}


def test_wanted_members_come_out_whole_and_in_the_order_of_their_names(tmp_path):
    path = tmp_path / "set.tar.gz"
    path.write_bytes(tar_gz(FILES))
    assert read_members(path, ["set/b.bin", "set/a.bin"]) == [FILES["set/b.bin"], FILES["set/a.bin"]]


def test_a_missing_member_is_named(tmp_path):
    path = tmp_path / "set.tar.gz"
    path.write_bytes(tar_gz(FILES))
    with pytest.raises(DepthlrError, match=r"set/z\.bin"):
        read_members(path, ["set/a.bin", "set/z.bin"])


CONTENT = tar_gz(FILES)


@given(st.integers(0, len(CONTENT) - 1))
@settings(max_examples=60, deadline=None)
def test_members_of_a_truncated_archive_come_out_whole_or_it_is_refused(tmp_path_factory, length):
    path = tmp_path_factory.mktemp("cut") / "set.tar.gz"
    path.write_bytes(CONTENT[:length])
    with suppress(DepthlrError):
        assert read_members(path, [*FILES]) == [*FILES.values()]


@given(st.binary(max_size=2000))
@settings(max_examples=40)
def test_an_archive_of_noise_is_refused(tmp_path_factory, noise):
    path = tmp_path_factory.mktemp("noise") / "set.tar.gz"
    path.write_bytes(gzip.compress(noise))
    with pytest.raises(DepthlrError):
        read_members(path, [*FILES])


def test_an_absent_archive_is_refused(tmp_path):
    with pytest.raises(DepthlrError, match="cannot be read"):
        read_members(tmp_path / "none.tar.gz", [*FILES])


def test_an_uncompressed_archive_is_refused(tmp_path):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w"):
        pass
    (tmp_path / "set.tar.gz").write_bytes(buffer.getvalue())
    with pytest.raises(DepthlrError, match=r"cannot be read as a \.tar\.gz"):
        read_members(tmp_path / "set.tar.gz", [*FILES])
