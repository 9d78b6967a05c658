"""Spoken words as log-mel spectrograms."""

import wave

import numpy as np
import pytest

from depthlr.data.audio import FLOOR, HOP, SAMPLE_RATE, WINDOW, load_wav, log_mel, mel_filters
from depthlr.errors import DepthlrError


def sine(hertz: float, samples: int = 4000, amplitude: float = 1.0) -> np.ndarray:
    return amplitude * np.sin(2 * np.pi * hertz * np.arange(samples) / SAMPLE_RATE)


def write(path, samples: np.ndarray, rate: int = SAMPLE_RATE, channels: int = 1, width: int = 2) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as clip:
        clip.setnchannels(channels)
        clip.setsampwidth(width)
        clip.setframerate(rate)
        clip.writeframes((samples * 32767).astype("<i2").tobytes())


@pytest.fixture
def folder(tmp_path):
    for label, hertz in (("0", 300), ("7", 2000)):
        for take in range(2):
            write(tmp_path / "fsdd" / "recordings" / f"{label}_jackson_{take}.wav", sine(hertz + take))
    return tmp_path / "fsdd"


def test_clips_are_spectrograms_labelled_by_their_names(folder):
    data = load_wav(folder)
    assert (len(data), data.classes, data.input) == (4, 2, "1x32x64")
    assert data.targets.tolist() == [0, 0, 1, 1]


def test_folders_label_clips_too(folder, tmp_path):
    for path in (folder / "recordings").iterdir():
        path.rename(tmp_path / path.name)
    for path in list(tmp_path.glob("*.wav")):
        write(tmp_path / "classes" / path.name[0] / path.name, sine(300))
    assert load_wav(tmp_path / "classes", mels=8, frames=16).targets.tolist() == [0, 0, 1, 1]


def test_a_split_of_clips_that_are_labelled_by_their_names(tmp_path):
    for name, hertz in {"train/0_a.wav": 300, "train/7_a.wav": 2000, "test/7_b.wav": 2001}.items():
        write(tmp_path / name, sine(hertz))
    test = load_wav(tmp_path, split="test")
    assert (test.targets.tolist(), test.classes) == ([1], 2)


@pytest.mark.parametrize("hertz", [100, 500, 1000, 3000])
def test_the_loudest_band_is_the_one_that_holds_the_sine(hertz):
    filters = mel_filters(32, SAMPLE_RATE)
    loudest = log_mel(sine(hertz), filters, 20).argmax(0)
    frequencies = np.fft.rfftfreq(WINDOW, 1 / SAMPLE_RATE)
    for band in loudest:
        held = frequencies[filters[band] > 0]
        assert held.min() - SAMPLE_RATE / WINDOW <= hertz <= held.max() + SAMPLE_RATE / WINDOW


def test_a_full_scale_sine_in_the_middle_of_a_band_is_0_decibels():
    hertz = 32 * SAMPLE_RATE / WINDOW
    filters = np.eye(WINDOW // 2 + 1)
    assert set(log_mel(sine(hertz), filters, 10)[32]) == {255}


def test_ten_times_quieter_is_20_decibels_less():
    filters = np.eye(WINDOW // 2 + 1)
    loud, quiet = (log_mel(sine(1000, amplitude=a), filters, 10)[32].astype(int) for a in (1.0, 0.1))
    assert (loud - quiet).tolist() == [round(20 / -FLOOR * 255)] * 10


def test_silence_is_byte_0_and_short_clips_end_in_it():
    filters = mel_filters(32, SAMPLE_RATE)
    assert log_mel(np.zeros(4000), filters, 20).max() == 0
    short = log_mel(sine(500, WINDOW), filters, 20)
    assert short[:, 0].max() > 200
    assert short[:, WINDOW // HOP + 1 :].max() == 0


def test_what_comes_after_the_last_frame_does_not_matter():
    filters = mel_filters(32, SAMPLE_RATE)
    long = np.concatenate([sine(500), np.ones(4000)])
    frames = (4000 - WINDOW) // HOP
    np.testing.assert_array_equal(log_mel(long, filters, frames), log_mel(sine(500), filters, frames))


def test_filters_are_triangles_of_height_at_most_1_that_cover_the_spectrum():
    filters = mel_filters(32, SAMPLE_RATE)
    assert 0 <= filters.min() <= filters.max() <= 1
    inner = filters.sum(0)[np.fft.rfftfreq(WINDOW, 1 / SAMPLE_RATE) > 100][:-3]
    assert inner.min() > 0.3


def test_bands_finer_than_the_spectrum_are_refused(folder):
    with pytest.raises(DepthlrError, match=r"200 mel bands are finer .* choose fewer"):
        load_wav(folder, mels=200)


def test_a_changed_clip_is_refused(folder):
    load_wav(folder)
    write(folder / "recordings" / "0_jackson_0.wav", sine(600))
    with pytest.raises(DepthlrError, match=r"\*\.wav has sha256 .* first loaded"):
        load_wav(folder)


@pytest.mark.parametrize("form", [{"rate": 16_000}, {"channels": 2}, {"width": 1}])
def test_a_clip_of_another_form_is_refused(folder, form):
    write(folder / "recordings" / "0_jackson_0.wav", sine(600), **form)
    with pytest.raises(DepthlrError, match="convert the clips to 8000 Hz mono"):
        load_wav(folder)


@pytest.mark.parametrize("length", [0, 3, 20, 45])
def test_a_broken_clip_is_named_and_not_remembered(folder, length):
    path = folder / "recordings" / "0_jackson_0.wav"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(DepthlrError, match=r"0_jackson_0\.wav"):
        load_wav(folder)
    assert not (folder / "depthlr-digests.json").exists()


def test_a_chunk_that_ends_outside_its_clip_is_refused(tmp_path):
    write(tmp_path / "1_a.wav", sine(440))
    clip = bytearray((tmp_path / "1_a.wav").read_bytes())
    clip[16:20] = (0x7FFFFFFF).to_bytes(4, "little")  # the length of the format
    (tmp_path / "1_a.wav").write_bytes(clip)
    with pytest.raises(DepthlrError, match=r"1_a\.wav cannot be read as a WAV clip"):
        load_wav(tmp_path)


def test_clips_without_a_label_are_refused(tmp_path):
    write(tmp_path / "hello.wav", sine(300))
    with pytest.raises(DepthlrError, match="name each file LABEL_anything"):
        load_wav(tmp_path)
