"""Ways to break a model's files. A mutation takes a random generator, so that a number says which case it was."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import lzma
import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Random = np.random.Generator

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": partial(gzip.compress, mtime=0),  # a case is the same whenever it is drawn
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}
_TYPES = {"F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8", "U8": "|u1", "U32": "<u4", "U64": "<u8"}
_ODD_WORDS = [
    *(
        b"nan inf -inf 0 -0 1 -1 99 -99 1e400 -1e400 -1e38 1e30 -1e-320 1e -. 0x1 ngram 1=5 ngram 2=999999999999"
    ).split(),
    *(b"<s> </s> <unk> <UNK> \\data\\ \\1-grams: \\2-grams: \\3-grams: \\end\\").split(),
    *(b"a", b" ", b"\t", b"\r", b"\n", b"\n\n", b"\0", b"\xff", b"\xe3\x81", b"\xef\xbb\xbf", b"9" * 400, b"a" * 5000),
]
_ODD_VALUES: list[Any] = [
    *(None, True, -1, 0, 1, 2, 3, 2**31 - 1, 2**31, 2**53, 2**62, 2**63, 2**64, 10**30, 10**400),
    *(0.5, float("nan"), float("inf"), -1e308, "", "a", "\0", "..", "word", "ngram", "F32", "I64", "\u2028"),
    *([], [0], [1] * 100, [[]], {}, {"a": []}),
]


def some_bytes(random: Random, data: bytes) -> bytes:
    """Bytes changed, left out, put in, doubled or cut off in a few places."""
    changed = bytearray(data)
    for _ in range(random.integers(1, 6)):
        at = int(random.integers(len(changed) + 1))
        length = int(random.integers(1, 60))
        match random.integers(6):
            case 0 if at < len(changed):
                changed[at] ^= 1 << int(random.integers(8))
            case 1 if at < len(changed):
                changed[at] = int(random.integers(256))
            case 2:
                del changed[at : at + length]
            case 3:
                changed[at:at] = changed[at : at + length]
            case 4:
                changed[at:at] = random.bytes(length)
            case 5 if random.integers(4) == 0:
                del changed[at:]
    return bytes(changed)


def some_lines(random: Random, data: bytes) -> bytes:
    """Fields and lines of a text replaced by odd ones, doubled, swapped or left out."""
    lines = data.split(b"\n")
    for _ in range(random.integers(1, 5)):
        i, j = (int(n) for n in random.integers(len(lines), size=2))
        odd = _ODD_WORDS[random.integers(len(_ODD_WORDS))]
        match random.integers(6):
            case 0:
                fields = lines[i].replace(b"\t", b" ").split(b" ")
                fields[random.integers(len(fields))] = odd
                lines[i] = b" ".join(fields)
            case 1:
                lines[i] = lines[j]
            case 2:
                lines[i], lines[j] = lines[j], lines[i]
            case 3:
                lines.insert(i, odd)
            case 4:
                lines[i : i + int(random.integers(4))] = []
                lines = lines or [b""]
            case 5:
                lines[i] += random.choice([b" ", b"\t"]) + odd
    return b"\n".join(lines)


def some_json(random: Random, data: bytes) -> bytes:
    """One value somewhere inside replaced by an odd one, or left out, or a new one put in."""
    value = json.loads(data)
    inner = value
    while isinstance(inner, dict | list) and inner:
        key = list(inner)[random.integers(len(inner))] if isinstance(inner, dict) else int(random.integers(len(inner)))
        deeper = inner[key]
        if isinstance(deeper, dict | list) and deeper and random.integers(5):
            inner = deeper
            continue
        match random.integers(4):
            case 0:
                del inner[key]
            case 1 if isinstance(inner, dict):
                inner["odd"] = deeper
            case _:
                inner[key] = _ODD_VALUES[random.integers(len(_ODD_VALUES))]
        break
    return json.dumps(value).encode()


def some_numbers(random: Random, array: np.ndarray) -> None:
    """Elements of an array changed in place: to extremes, neighbours, other elements, or random bits."""
    flat = array.reshape(-1)
    if not flat.size:
        return
    for _ in range(random.integers(1, 5)):
        start = int(random.integers(flat.size))
        stop = start + int(random.choice([1, 1, 2, 10, flat.size]))
        size = flat[start:stop].size
        raw = random.integers(0, 256, size * flat.itemsize, np.uint8).view(flat.dtype)
        if flat.dtype.kind == "f":
            odd = [np.nan, np.inf, -np.inf, 0, 1, 1e30, -1e30, np.finfo(flat.dtype).max, np.finfo(flat.dtype).min]
        else:
            bounds = np.iinfo(flat.dtype)
            odd = [
                0,
                1,
                2,
                bounds.max,
                bounds.min,
                bounds.max - 1,
                min(flat.size, bounds.max),
                *flat[random.integers(flat.size, size=3)],
            ]
        match random.integers(5):
            case 0:
                flat[start:stop] = raw
            case 1 if flat.dtype.kind != "f":
                flat[start:stop] += flat.dtype.type(random.choice([1, -1]) if flat.dtype.kind == "i" else 1)
            case 2:
                random.shuffle(flat[start:stop])
            case _:
                flat[start:stop] = np.array(odd, flat.dtype)[random.integers(len(odd))]


def broken_arpa(random: Random, arpa: bytes, folder: Path) -> Path:
    """A broken ARPA file, compressed or not; a compressed one is broken before or after."""
    suffix = str(random.choice(["", "", "", ".gz", ".bz2", ".xz"]))
    mutate = some_bytes if random.integers(3) == 0 else some_lines
    if suffix and random.integers(2):
        data = some_bytes(random, COMPRESSORS[suffix](arpa))
    else:
        data = COMPRESSORS[suffix](mutate(random, arpa))
    path = folder / f"broken.arpa{suffix}"
    path.write_bytes(data)
    return path


def broken_binary(random: Random, binary: bytes, folder: Path) -> Path:
    """A broken binary of KenLM's: bytes anywhere, numbers in the header, or numbers in what follows."""
    path = folder / "broken.binary"
    if random.integers(3) == 0:
        path.write_bytes(some_bytes(random, binary))
        return path
    changed = bytearray(binary)
    start, stop = (88, 144) if random.integers(3) == 0 else (144, len(binary) - len(binary) % 8)
    some_numbers(random, np.frombuffer(memoryview(changed)[start:stop], random.choice(["<f4", "<u4", "<u8", "|u1"])))
    path.write_bytes(changed)
    return path


def broken_vectors(random: Random, whole: Path, folder: Path) -> Path:
    """A broken file of word vectors: bytes anywhere, or the numbers that a binary one begins with."""
    path = folder / f"broken{whole.suffix}"
    data = bytearray(whole.read_bytes())
    if whole.suffix == ".bin" and random.integers(2) == 0:
        length = min(len(data), 200) & ~7
        some_numbers(random, np.frombuffer(memoryview(data)[:length], random.choice(["<i4", "<i8", "|u1"])))
        path.write_bytes(data)
    else:
        path.write_bytes(some_bytes(random, bytes(data)))
    return path


def broken_folder(random: Random, model: Path, folder: Path) -> Path:
    """A copy of a model folder in which one file is broken. config.json is made to fit, so that it is opened."""
    target = folder / "broken"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(model, target)
    config = json.loads((target / "config.json").read_bytes())
    entry = config["files"]["arrays.safetensors"]
    arrays = target / entry["name"]
    match random.integers(8):
        case 0:
            mutate = some_json if random.integers(3) else some_bytes
            path = target / "config.json"
            path.write_bytes(mutate(random, path.read_bytes()))
            return target
        case 1:
            arrays.write_bytes(_with_other_header(random, arrays.read_bytes()))
        case 2 | 3 if len(config["files"]) > 1:
            name = sorted(config["files"])[-1]
            entry = config["files"][name]
            path = target / entry["name"]
            path.write_bytes((some_json if random.integers(2) else some_bytes)(random, path.read_bytes()))
            entry["bytes"], entry["sha256"] = path.stat().st_size, _sha256(path)
        case _:
            arrays.write_bytes(_with_other_numbers(random, arrays.read_bytes()))
    config["files"]["arrays.safetensors"]["bytes"] = arrays.stat().st_size
    (target / "config.json").write_text(json.dumps(config))
    return target


def broken_open_model(random: Random, model: Path, folder: Path) -> Path:
    """A copy of what others trained, in a folder, in which one file is broken. model: the folder, or a file in it."""
    whole, target = model if model.is_dir() else model.parent, folder / "broken"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(whole, target)
    files = sorted(target.iterdir())
    path = files[random.integers(len(files))]
    data = path.read_bytes()
    match path.suffix:
        case ".json":
            broken = (some_json if random.integers(3) else some_bytes)(random, data)
        case ".safetensors":
            broken = (_with_other_header if random.integers(2) else _with_other_numbers)(random, data)
        case ".gguf" | ".bin" if random.integers(2):
            broken = _with_other_beginning(random, data)
        case _:
            broken = some_bytes(random, data)
    path.write_bytes(broken)
    return target if model.is_dir() else target / model.name


def _with_other_beginning(random: Random, data: bytes) -> bytes:
    """Numbers of 4 or 8 bytes changed where a header may be, or its first bytes by others."""
    stop = int(random.choice([28, 400, 8000]))
    if random.integers(3) == 0:
        return some_bytes(random, data[:stop]) + data[stop:]
    changed, begin = bytearray(data), int(random.integers(8))
    length = (min(len(data), stop) - begin) & ~7
    some_numbers(random, np.frombuffer(memoryview(changed)[begin : begin + length], random.choice(["<u4", "<u8"])))
    return bytes(changed)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _with_other_header(random: Random, data: bytes) -> bytes:
    stop = 8 + int.from_bytes(data[:8], "little")
    if random.integers(3) == 0:
        return some_bytes(random, data[:stop]) + data[stop:]
    header = some_json(random, data[8:stop])
    return len(header).to_bytes(8, "little") + header + data[stop:]


def _with_other_numbers(random: Random, data: bytes) -> bytes:
    base = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:base])
    changed = bytearray(data)
    names = [name for name in header if name != "__metadata__"]
    for _ in range(random.integers(1, 3)):
        entry = header[names[random.integers(len(names))]]
        start, stop = (base + place for place in entry["data_offsets"])
        some_numbers(random, np.frombuffer(memoryview(changed)[start:stop], _TYPES[entry["dtype"]]))
    return bytes(changed)
