"""Pictures that are read: what formats become, what is refused and in which words, and how sizes are changed."""

from __future__ import annotations

import io
import json
import struct
import warnings
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from chainrule.errors import EstimationError, TextError
from chainrule.features.vision.pictures.codec import decode, encode_png
from chainrule.features.vision.pictures.labelled import check_pictures, read_pictures, read_unlabelled
from chainrule.features.vision.pictures.picture import Frame, LabelledPicture, Picture, as_picture, fit_to_frame

if TYPE_CHECKING:
    from pathlib import Path

RGB = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)


def saved(path: Path, image: Image.Image, **options: Any) -> Path:
    image.save(path, **options)
    return path


def test_png_files_give_their_pixels_whatever_their_mode(tmp_path: Path) -> None:
    path, grey = tmp_path / "a.png", RGB[..., 0]
    np.testing.assert_array_equal(decode(saved(path, Image.fromarray(RGB))), RGB)
    np.testing.assert_array_equal(decode(saved(path, Image.fromarray(grey))), np.stack([grey] * 3, 2))
    palette = Image.fromarray(RGB).quantize(4)
    np.testing.assert_array_equal(decode(saved(path, palette)), np.asarray(palette.convert("RGB")))
    bits = Image.fromarray(np.array([[True, False]]))
    np.testing.assert_array_equal(decode(saved(path, bits))[..., 0], [[255, 0]])


def test_alpha_is_laid_on_white(tmp_path: Path) -> None:
    pixels = np.zeros((1, 3, 4), np.uint8)
    pixels[0, :, 3] = (0, 128, 255)  # black that is not there, half there, all there
    rows = decode(saved(tmp_path / "a.png", Image.fromarray(pixels, "RGBA")))
    np.testing.assert_array_equal(rows[0, :, 0], [255, 127, 0])
    palette = Image.fromarray(np.array([[0, 1]], np.uint8), "P")
    palette.putpalette([9, 9, 9, 200, 0, 0])
    rows = decode(saved(tmp_path / "b.png", palette, transparency=0))
    np.testing.assert_array_equal(rows[0], [[255, 255, 255], [200, 0, 0]])


def test_of_sixteen_bits_the_high_eight_count(tmp_path: Path) -> None:
    wide = np.array([[0, 255, 256, 0x1234, 65535]], np.uint16)
    rows = decode(saved(tmp_path / "a.png", Image.fromarray(wide)))
    np.testing.assert_array_equal(rows[0, :, 1], [0, 0, 1, 0x12, 255])


def test_a_turned_photograph_is_turned_upright(tmp_path: Path) -> None:
    upright = np.zeros((8, 16, 3), np.uint8)
    upright[:, :8] = 255  # white on the left
    lying = Image.fromarray(np.rot90(upright).copy())  # as a camera held on its side writes it
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees to the right
    pixels = decode(saved(tmp_path / "a.jpg", lying, exif=exif, quality=95))
    assert pixels.shape == (8, 16, 3)
    assert pixels[:, :7].min() > 240
    assert pixels[:, 9:].max() < 15
    damaged = saved(tmp_path / "b.jpg", lying, exif=b"Exif\0\0MM\0*\xff\xff\xff\xff")
    assert decode(damaged).shape == (16, 8, 3)  # no orientation


def png(width: int, height: int, *chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG file that says it has this size, with these chunks."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), *chunks, (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


def test_what_is_no_single_whole_picture_is_refused_by_name(tmp_path: Path) -> None:
    frames = [Image.fromarray(RGB), Image.fromarray(255 - RGB)]
    animated = io.BytesIO()
    frames[0].save(animated, "PNG", save_all=True, append_images=frames[1:])
    gif, jpeg = io.BytesIO(), io.BytesIO()
    frames[0].save(gif, "GIF")
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (64, 64, 3), np.uint8)).save(jpeg, "JPEG")
    for content, message in (
        (animated.getvalue(), "animated picture of 2 frames"),
        (gif.getvalue(), "is not a JPEG or PNG"),
        (b"", "is not a JPEG or PNG"),
        (b"\x89PNG\r\n\x1a\n", "is not a JPEG or PNG|damaged|cannot be read"),
        (jpeg.getvalue()[:-900], "cannot be read as a picture"),
        (png(10_000, 10_000), "has 10,000 x 10,000 pixels, more than the 67,108,864"),
        (png(1 << 20, 1 << 20), "very large picture"),
        (png(4, 4), "cannot be read|damaged"),
    ):
        path = tmp_path / "bad.png"
        path.write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(TextError, match=message) as caught:
                decode(path)
        assert str(caught.value).startswith(str(path))
        assert "\n" not in str(caught.value)
    with pytest.raises(TextError, match="there is no such file"):
        decode(tmp_path / "none.png")
    with pytest.raises(TextError, match="cannot be read"):
        decode(tmp_path)


def test_broken_files_give_one_error_or_a_picture(tmp_path: Path) -> None:
    random, messages = np.random.default_rng(2), []
    for form in ("PNG", "JPEG"):
        file = io.BytesIO()
        Image.fromarray(random.integers(0, 256, (16, 16, 3), np.uint8)).save(file, form)
        whole, path = np.frombuffer(file.getvalue(), np.uint8), tmp_path / "broken"
        for i in range(150):
            own = whole[: random.integers(len(whole))] if i % 3 == 0 else whole.copy()
            own = own.copy()
            if len(own):
                own[random.integers(len(own), size=3)] = random.integers(0, 256, 3)
            path.write_bytes(own.tobytes())
            try:
                pixels = decode(path)
            except TextError as error:
                messages.append(str(error))
            else:
                assert pixels.dtype == np.uint8
                assert pixels.shape[2] == 3
    assert messages
    assert all(message.startswith(str(tmp_path / "broken")) for message in messages)


def test_a_frame_crops_stretches_or_pads() -> None:
    picture = Picture(np.repeat(np.arange(8, dtype=np.uint8)[None, :, None] * 30, 4, 0).repeat(3, 2))  # 4 high, 8 wide
    square = fit_to_frame(picture, Frame(height=4, width=4))
    np.testing.assert_array_equal(square, picture.pixels[:, 2:6])  # the middle
    padded = fit_to_frame(picture, Frame(height=8, width=8, fit="pad"))
    np.testing.assert_array_equal(padded[2:6], picture.pixels)
    assert not padded[:2].any()
    assert not padded[6:].any()
    stretched = fit_to_frame(picture, Frame(height=4, width=4, fit="stretch"))
    expected = Image.fromarray(picture.pixels).resize((4, 4), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(stretched, np.asarray(expected))
    share = fit_to_frame(Picture(np.zeros((256, 300, 3), np.uint8)), Frame(height=224, width=224, share=0.875))
    assert share.shape == (224, 224, 3)
    grey = fit_to_frame(Picture(RGB), Frame(height=5, width=7, colours="grey"))
    np.testing.assert_array_equal(grey[..., 0], np.asarray(Image.fromarray(RGB).convert("L")))
    assert fit_to_frame(Picture(grey), Frame(height=5, width=7)).shape == (5, 7, 3)


def test_the_share_of_a_crop_is_what_two_steps_would_keep() -> None:
    """256 of the shorter side, then the middle 224: the same region of the picture as 0.875 of it."""
    wide = np.zeros((512, 900, 3), np.uint8)
    left = (900 - 448) // 2  # 224 of 256 is 448 of 512
    wide[32:480, left : left + 448] = 255
    pixels = fit_to_frame(Picture(wide), Frame(height=224, width=224, share=0.875))
    assert pixels.min() > 250


def test_class_folders_and_json_lines_give_the_same_examples(tmp_path: Path) -> None:
    for label, name, value in (("cat", "1.png", 1), ("cat", "deep/2.JPG", 2), ("dog", "3.jpeg", 3)):
        path = tmp_path / "animals" / label / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), (value, value, value)).save(path)
    (tmp_path / "animals" / "cat" / ".hidden.png").write_bytes(b"x")
    (tmp_path / "animals" / "cat" / "notes.txt").write_bytes(b"x")
    read = read_pictures(tmp_path / "animals")
    assert [(each.labels, int(each.input.pixels[0, 0, 0])) for each in read] == [
        (("cat",), 1),
        (("cat",), 2),
        (("dog",), 3),
    ]
    rows = [("animals/cat/1.png", "cat"), ("animals/cat/deep/2.JPG", "cat"), ("animals/dog/3.jpeg", "dog")]
    lines = tmp_path / "list.jsonl"
    lines.write_text("".join(json.dumps({"picture": path, "label": label}) + "\n" for path, label in rows))
    again = read_pictures(lines, Frame(height=2, width=2))
    assert [each.labels for each in again] == [each.labels for each in read]
    assert {each.input.pixels.shape for each in again} == {(2, 2, 3)}
    assert [str(each) for each in read_unlabelled(lines)] == [str(each.input) for each in read]
    assert len(read_unlabelled(tmp_path / "animals")) == 3
    assert len(read_unlabelled(tmp_path / "animals/cat/1.png")) == 1


def test_bad_pictures_and_records_are_reported_with_their_place(tmp_path: Path) -> None:
    lines = tmp_path / "list.jsonl"
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(b"broken")
    lines.write_text(
        '{"picture": "a.png", "label": 3}\n{"picture": "b.png", "label": "x"}\n{"label": "x"}\n'
        '{"picture": "a.png"}\n{"picture": 5, "label": "x"}\n{"picture": "a.png", "label": ""}\n'
    )
    bad: list[TextError] = []
    [only] = read_pictures(lines, on_bad=bad.append)
    assert only.labels == ("3",)
    messages = sorted(str(error) for error in bad)
    assert [message.split(":")[0].rpartition(" ")[2] for message in messages] == ["2", "3", "4", "5", "6"]
    assert "b.png: is not a JPEG" in messages[0]
    with pytest.raises(TextError, match=r"list.jsonl, line 3: there is no field 'picture'"):
        read_pictures(lines)  # all records are read before the first picture
    lines.write_text('{"picture": "b.png", "label": "x"}\n')
    with pytest.raises(TextError, match=r"list.jsonl, line 1: .*b.png: is not a JPEG"):
        read_pictures(lines)
    (tmp_path / "c.gif").write_bytes(b"GIF89a")
    with pytest.raises(TextError, match=r"c.gif: is not a JPEG or PNG picture; convert it"):
        read_unlabelled(tmp_path)
    with pytest.raises(TextError, match=r"a.png: has no label; put it into a folder"):
        read_pictures(tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()
    for read in (read_pictures, read_unlabelled):
        with pytest.raises(TextError, match=r"there is no (labelled )?picture in it"):
            read(empty)
    with pytest.raises(TextError, match="there is no such file or folder"):
        read_pictures(tmp_path / "nothing")
    with pytest.raises(TextError, match="is neither a folder nor a file of records"):
        read_pictures(tmp_path / "a.png")


def test_more_pictures_than_memory_holds_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    monkeypatch.setenv("CHAINRULE_MEMORY", "1M")
    with pytest.raises(EstimationError, match="keeping 1 pictures of 1000 x 1000 pixels"):
        read_unlabelled(tmp_path, Frame(height=1000, width=1000))


def test_pixels_from_python_are_checked() -> None:
    assert as_picture(RGB[..., 0]).pixels.shape == (5, 7, 1)
    for odd in (RGB.astype(float), RGB[0, 0], 5):
        with pytest.raises(TypeError, match="this takes the path of a picture, or its pixels"):
            as_picture(odd)  # type: ignore[arg-type]
    with pytest.raises(TextError, match="expected height, width, and 1 or 3 colours"):
        as_picture(np.zeros((4, 4, 2), np.uint8))
    with pytest.raises(TypeError, match="this takes labelled pictures"):
        check_pictures([RGB])
    with pytest.raises(TextError, match="a tuple of one string"):
        check_pictures([LabelledPicture(as_picture(RGB), ("a", "b"))])
    with pytest.raises(TextError, match="at least one is needed"):
        check_pictures([])


def test_a_png_file_that_we_write_reads_back(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(encode_png(RGB))
    np.testing.assert_array_equal(decode(tmp_path / "a.png"), RGB)
    (tmp_path / "b.png").write_bytes(encode_png(RGB[..., :1]))
    np.testing.assert_array_equal(decode(tmp_path / "b.png")[..., 0], RGB[..., 0])
