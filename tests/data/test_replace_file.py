"""A file is written whole or not at all; links stay links, and what is no plain file is written, not replaced."""

from __future__ import annotations

import os
import stat

import pytest

from depthlr.data.replace_file import replace_file


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
