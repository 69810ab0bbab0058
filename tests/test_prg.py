"""The public face of the mask streams: published vectors, the oracle, wrong inputs."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cryptography_vectors
import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st

from privagg import prg
from privagg.errors import CapacityError, UsageError
from privagg.prg import Suite

AES, CHACHA = Suite.AES128_CTR, Suite.CHACHA20
EVERY_PATH = [(suite, name) for suite in Suite for name in prg.paths(suite)]
WORDS = [np.uint32, np.uint64]


def key_stream(suite, seed, first_byte, count):
    """The bytes of a stream, from whole blocks made by the library; the counter is ours."""
    seed = bytes(seed)
    size = 16 if suite is AES else 64
    block, skipped = divmod(first_byte, size)
    if suite is AES:
        counter = (int.from_bytes(seed[16:], "big") + block) % 2**128
        cipher = Cipher(algorithms.AES(seed[:16]), modes.CTR(counter.to_bytes(16, "big")))
    else:
        cipher = Cipher(
            algorithms.ChaCha20(seed[:32], block.to_bytes(4, "little") + seed[32:]), None
        )
    return cipher.encryptor().update(bytes(skipped + count))[skipped:]


def oracle(accumulator, seeds, signs, suite, start):
    """Whole streams, one after the other, then NumPy's sum."""
    total = accumulator.copy()
    size = total.itemsize
    for seed, sign in zip(seeds, signs, strict=True):
        octets = key_stream(suite, seed, start * size, len(total) * size)
        words = np.frombuffer(octets, total.dtype.newbyteorder("<"))
        total = total + words if sign > 0 else total - words
    return total


def draw(rng, suite, count, length, word):
    top = np.iinfo(word).max
    return (
        rng.integers(0, top, length, dtype=word, endpoint=True),
        rng.integers(0, 256, (count, prg.seed_bytes(suite)), dtype=np.uint8),
        rng.choice(np.array([-1, 1], dtype=np.int8), count),
    )


def check(suite, accumulator, seeds, signs, start):
    expected = oracle(accumulator, seeds, signs, suite, start)
    prg.accumulate(accumulator, seeds, signs, suite=suite, start=start)
    np.testing.assert_array_equal(accumulator, expected)


@pytest.fixture(params=EVERY_PATH, ids=lambda pair: "-".join(pair))
def suite(request, monkeypatch):
    """A suite, on each path that this machine can run."""
    chosen, name = request.param
    monkeypatch.setenv("PRIVAGG_PRG", name)
    assert prg.path(chosen) == name
    return chosen


def published(*parts):
    """The records of a vector file: dictionaries from name to text."""
    name = os.path.join("ciphers", *parts)
    with cryptography_vectors.open_vector_file(name, "r") as lines:
        records = []
        for line in lines:
            key, equals, value = line.partition("=")
            if not equals or line.startswith("#"):
                continue
            if key.strip() == "COUNT":
                records.append({})
            records[-1][key.strip()] = value.strip()
    return records


def masked(plain, seed, suite, start):
    """Encrypt as a cipher would, with the words of a stream."""
    plain = bytes.fromhex(plain)
    words = prg.expand(seed, -(-len(plain) // 4), dtype=np.uint32, suite=suite, start=start)
    stream = words.astype("<u4").tobytes()[: len(plain)]
    return bytes(a ^ b for a, b in zip(plain, stream, strict=True))


@pytest.mark.parametrize("name", prg.paths(AES))
def test_aes_gives_the_published_vectors(name, monkeypatch):
    monkeypatch.setenv("PRIVAGG_PRG", name)
    records = published("AES", "CTR", "aes-128-ctr.txt")
    assert len(records) >= 3
    for record in records:
        seed = bytes.fromhex(record["KEY"] + record["IV"])
        assert masked(record["PLAINTEXT"], seed, AES, 0).hex() == record["CIPHERTEXT"].lower()


@pytest.mark.parametrize("name", prg.paths(AES))
def test_aes_gives_the_vectors_of_sp_800_38a(name, monkeypatch):
    """NIST SP 800-38A, F.5.1: four blocks."""
    monkeypatch.setenv("PRIVAGG_PRG", name)
    seed = "2b7e151628aed2a6abf7158809cf4f3cf0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"
    plain = (
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
        "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
    )
    cipher = (
        "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff"
        "5ae4df3edbd5d35e5b4f09020db03eab1e031dda2fbe03d1792170a0f3009cee"
    )
    assert masked(plain, bytes.fromhex(seed), AES, 0).hex() == cipher


@pytest.mark.parametrize("name", prg.paths(CHACHA))
def test_chacha20_gives_the_published_vectors(name, monkeypatch):
    monkeypatch.setenv("PRIVAGG_PRG", name)
    records = published("ChaCha20", "rfc7539.txt")
    assert len(records) >= 3
    for record in records:
        seed = bytes.fromhex(record["KEY"] + record["NONCE"])
        start = 16 * int(record["INITIAL_BLOCK_COUNTER"])
        assert (
            masked(record["PLAINTEXT"], seed, CHACHA, start).hex() == record["CIPHERTEXT"].lower()
        )


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("length", [0, 1, 2, 3, 5, 15, 16, 17, 63, 64, 65, 255, 1000, 4097])
def test_every_path_is_the_oracle_for_short_vectors(suite, word, length):
    rng = np.random.default_rng(length)
    for start in (0, 1, 3, 4, 17, 1000, 2**20 + 5):
        check(suite, *draw(rng, suite, 5, length, word), start)


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("start", [0, 1, 13, 33333])
def test_every_path_is_the_oracle_across_tiles_and_chunks(suite, word, start):
    """Lengths around the tile of a compiled path (64 KiB) and the chunk of OpenSSL's (128 KiB)."""
    rng = np.random.default_rng(start)
    size = np.dtype(word).itemsize
    for octets in (1 << 16, 1 << 17, 3 << 16):
        for extra in (-1, 0, 1, 7):
            check(suite, *draw(rng, suite, 3, octets // size + extra, word), start)


def test_every_path_is_the_oracle_for_many_seeds(suite):
    """More seeds than the portable path keeps ciphers open."""
    check(suite, *draw(np.random.default_rng(1), suite, 200, 333, np.uint32), 5)


@settings(max_examples=60, deadline=None)
@given(
    pair=st.sampled_from(EVERY_PATH),
    word=st.sampled_from(WORDS),
    length=st.integers(0, 700),
    count=st.integers(0, 4),
    start=st.integers(0, 2**31),
    numbers=st.integers(0, 2**32),
)
def test_every_path_is_the_oracle_anywhere(pair, word, length, count, start, numbers):
    chosen, name = pair
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRIVAGG_PRG", name)
        check(chosen, *draw(np.random.default_rng(numbers), chosen, count, length, word), start)


@pytest.mark.parametrize("name", prg.paths(AES))
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("bits", [32, 64, 96, 128])
def test_the_aes_counter_carries_through_all_its_bits(name, word, bits, monkeypatch):
    """Counter blocks start just below 2**bits, under a random upper part."""
    monkeypatch.setenv("PRIVAGG_PRG", name)
    rng = np.random.default_rng(bits)
    for below in (1, 2, 3, 9, 15, 16, 17, 40):
        accumulator, seeds, signs = draw(rng, AES, 3, 500, word)
        for seed in seeds:
            upper = int.from_bytes(seed[16:].tobytes(), "big") >> bits << bits
            number = upper + 2**bits - below
            seed[16:] = np.frombuffer(number.to_bytes(16, "big"), np.uint8)
        for start in (0, 3, 8, 21):
            check(AES, accumulator, seeds, signs, start)


def test_aes_wraps_as_single_blocks_do():
    """The oracle itself, against AES applied to one counter block at a time."""
    key = bytes(range(16))
    single = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    counters = [(2**128 - 2 + i) % 2**128 for i in range(5)]
    expected = b"".join(single.update(number.to_bytes(16, "big")) for number in counters)
    seed = key + (2**128 - 2).to_bytes(16, "big")
    for name in prg.paths(AES):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PRIVAGG_PRG", name)
            words = prg.expand(seed, 20, dtype=np.uint32, suite=AES)
        assert words.astype("<u4").tobytes() == expected


@pytest.mark.parametrize("start", [2**32 * 4 - 7, 2**40 + 1, 2**61 - 500])
def test_aes_streams_can_be_entered_far_out(start):
    rng = np.random.default_rng(2)
    for name in prg.paths(AES):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PRIVAGG_PRG", name)
            check(AES, *draw(rng, AES, 2, 300, np.uint64), start)


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("length", [1, 16, 300, 2000])
def test_chacha20_serves_its_last_block_and_no_more(word, length):
    """The block counter has 32 bits: 2**38 bytes."""
    rng = np.random.default_rng(length)
    limit = 2**38 // np.dtype(word).itemsize
    for name in prg.paths(CHACHA):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PRIVAGG_PRG", name)
            accumulator, seeds, signs = draw(rng, CHACHA, 2, length, word)
            check(CHACHA, accumulator, seeds, signs, limit - length)
            before = accumulator.copy()
            with pytest.raises(CapacityError, match="chacha20 stream"):
                prg.accumulate(accumulator, seeds, signs, suite=CHACHA, start=limit - length + 1)
            np.testing.assert_array_equal(accumulator, before)


def test_aes_streams_end_too():
    with pytest.raises(CapacityError, match="aes-128-ctr stream"):
        prg.expand(bytes(32), 2, dtype=np.uint32, suite=AES, start=2**62 - 1)
    assert len(prg.expand(bytes(32), 1, dtype=np.uint32, suite=AES, start=2**62 - 1)) == 1


@pytest.mark.parametrize("word", WORDS)
def test_adding_then_subtracting_changes_nothing(suite, word):
    accumulator, seeds, signs = draw(np.random.default_rng(3), suite, 6, 5001, word)
    before = accumulator.copy()
    prg.accumulate(accumulator, seeds, signs, suite=suite, start=7)
    assert np.count_nonzero(accumulator != before) > 4900
    prg.accumulate(accumulator, seeds, -signs, suite=suite, start=7)
    np.testing.assert_array_equal(accumulator, before)


@pytest.mark.parametrize("word", WORDS)
def test_threads_on_parts_give_what_one_call_gives(suite, word):
    accumulator, seeds, signs = draw(np.random.default_rng(4), suite, 4, 60_001, word)
    expected = oracle(accumulator, seeds, signs, suite, 11)
    cuts = [0, 1, 9_999, 20_000, 20_003, 45_678, 60_001]

    def work(first, last):
        part = accumulator[first:last]
        prg.accumulate(part, seeds, signs, suite=suite, start=11 + first)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, cuts[:-1], cuts[1:]))
    np.testing.assert_array_equal(accumulator, expected)


def test_strided_and_read_only_seeds_are_taken(suite):
    accumulator, seeds, signs = draw(np.random.default_rng(5), suite, 8, 100, np.uint32)
    seeds.flags.writeable = False
    signs.flags.writeable = False
    check(suite, accumulator, seeds[::2], signs[::-2], 0)
    check(suite, accumulator, np.asfortranarray(seeds), signs, 1)


def test_an_accumulator_inside_a_larger_array_leaves_its_neighbours(suite):
    """Rows need no alignment but that of a word."""
    rng = np.random.default_rng(6)
    whole = rng.integers(0, 2**32, 1200, dtype=np.uint32)
    before = whole.copy()
    _, seeds, signs = draw(rng, suite, 2, 0, np.uint32)
    check(suite, whole[3:1198], seeds, signs, 2)
    assert (whole[:3] == before[:3]).all()
    assert (whole[1198:] == before[1198:]).all()


def test_no_seeds_and_no_words_do_nothing(suite):
    accumulator, seeds, signs = draw(np.random.default_rng(7), suite, 3, 10, np.uint32)
    before = accumulator.copy()
    prg.accumulate(accumulator, seeds[:0], signs[:0], suite=suite)
    prg.accumulate(accumulator[:0], seeds, signs, suite=suite)
    np.testing.assert_array_equal(accumulator, before)


@pytest.mark.parametrize("word", WORDS)
def test_expand_is_a_stream_added_to_zeros(suite, word):
    seed = bytes(range(prg.seed_bytes(suite)))
    words = prg.expand(seed, 501, dtype=word, suite=suite, start=9)
    size = np.dtype(word).itemsize
    assert words.dtype == word
    assert words.astype(f"<u{size}").tobytes() == key_stream(suite, seed, 9 * size, 501 * size)
    assert prg.expand(seed, 0, dtype=word, suite=suite).shape == (0,)


def test_suites_are_named_by_text_too():
    assert prg.seed_bytes("aes-128-ctr") == prg.seed_bytes(AES) == 32
    assert prg.seed_bytes("chacha20") == prg.seed_bytes(CHACHA) == 44
    a = prg.expand(bytes(32), 5, dtype="uint32", suite="aes-128-ctr")
    np.testing.assert_array_equal(a, prg.expand(bytes(32), 5, dtype=np.uint32, suite=AES))


@pytest.mark.parametrize("wrong", ["aes", "", None, 3, ["chacha20"]])
def test_unknown_suites_are_refused(wrong):
    for call in (prg.seed_bytes, prg.paths, prg.path):
        with pytest.raises(UsageError, match=r"suite.*aes-128-ctr or chacha20"):
            call(wrong)


def good():
    return {
        "accumulator": np.zeros(8, np.uint32),
        "seeds": np.full((2, 32), 0xA7, np.uint8),
        "signs": np.array([1, -1], np.int8),
    }


def read_only():
    array = np.zeros(8, np.uint32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("argument", "wrong"),
    [
        ("accumulator", [0] * 8),
        ("accumulator", None),
        ("accumulator", np.zeros(8, np.int32)),
        ("accumulator", np.zeros(8, np.uint16)),
        ("accumulator", np.zeros(8, np.float64)),
        ("accumulator", np.zeros(8, np.dtype(np.uint32).newbyteorder())),
        ("accumulator", np.zeros((2, 4), np.uint32)),
        ("accumulator", np.zeros(16, np.uint32)[::2]),
        ("accumulator", np.frombuffer(bytearray(33), np.uint8)[1:].view(np.uint32)),
        ("accumulator", read_only()),
        ("seeds", bytes(64)),
        ("seeds", np.zeros(32, np.uint8)),
        ("seeds", np.zeros((2, 31), np.uint8)),
        ("seeds", np.zeros((2, 44), np.uint8)),
        ("seeds", np.zeros((2, 32), np.int8)),
        ("signs", [1, -1]),
        ("signs", np.ones(2, np.int64)),
        ("signs", np.ones(3, np.int8)),
        ("signs", np.ones((2, 1), np.int8)),
        ("signs", np.array([1, 0], np.int8)),
        ("signs", np.array([-128, 1], np.int8)),
        ("signs", np.ones(2, bool)),
        ("start", -1),
        ("start", 1.0),
        ("start", True),
        ("start", "0"),
        ("start", None),
    ],
)
def test_wrong_arguments_are_named(argument, wrong):
    arguments = {**good(), argument: wrong}
    before = good()["accumulator"]
    with pytest.raises(UsageError, match=rf"^{argument}.*allowed") as caught:
        prg.accumulate(**arguments, suite=AES)
    assert caught.value.argument.startswith(argument)
    if argument != "accumulator":
        np.testing.assert_array_equal(arguments["accumulator"], before)


def test_an_accumulator_may_not_lie_in_the_seeds():
    seeds = np.zeros((2, 32), np.uint8)
    with pytest.raises(UsageError, match="memory of its own"):
        prg.accumulate(seeds[0].view(np.uint32), seeds, np.ones(2, np.int8), suite=AES)


@pytest.mark.parametrize(
    ("changed", "argument"),
    [
        ({"seed": bytes(31)}, "seed"),
        ({"seed": np.zeros(32, np.uint8)}, "seed"),
        ({"seed": "00" * 16}, "seed"),
        ({"count": -1}, "count"),
        ({"count": 2.0}, "count"),
        ({"count": False}, "count"),
        ({"start": -3}, "start"),
        ({"dtype": np.int32}, "dtype"),
        ({"dtype": ">u4" if np.little_endian else "<u4"}, "dtype"),
        ({"dtype": "no such type"}, "dtype"),
        ({"suite": "rot13"}, "suite"),
    ],
)
def test_wrong_arguments_of_expand_are_named(changed, argument):
    arguments = {"seed": bytes(32), "count": 3, "dtype": np.uint32, "suite": AES, "start": 0}
    with pytest.raises(UsageError, match=f"^{argument}: "):
        prg.expand(**{**arguments, **changed})


def test_messages_never_hold_a_seed():
    """167, 0xa7: the value of every byte of the seeds that are passed."""
    arguments = good()
    texts = []
    for wrong in ({"signs": np.ones(5, np.int8)}, {"start": -1}, {"suite": CHACHA}):
        with pytest.raises(UsageError) as caught:
            prg.accumulate(**{**arguments, "suite": AES, **wrong})
        texts.append(str(caught.value))
    with pytest.raises(UsageError) as caught:
        prg.expand(b"\xa7" * 31, 1, dtype=np.uint32, suite=AES)
    texts.append(str(caught.value))
    assert not [text for text in texts if "167" in text or "a7" in text.lower()]


def test_a_forced_path_must_exist(monkeypatch):
    monkeypatch.setenv("PRIVAGG_PRG", "abacus")
    for chosen in Suite:
        with pytest.raises(UsageError, match=r"PRIVAGG_PRG: found abacus; allowed: .*openssl"):
            prg.path(chosen)
    with pytest.raises(UsageError, match="PRIVAGG_PRG"):
        prg.accumulate(**good(), suite=AES)


def test_a_forced_path_leaves_the_other_suite_alone(monkeypatch):
    best = prg.paths(CHACHA)[0]
    for name in set(prg.paths(AES)) - {"openssl"}:
        monkeypatch.setenv("PRIVAGG_PRG", name)
        assert prg.path(AES) == name
        assert prg.path(CHACHA) == best
    monkeypatch.setenv("PRIVAGG_PRG", "openssl")
    assert [prg.path(chosen) for chosen in Suite] == ["openssl", "openssl"]


def test_the_best_path_is_taken():
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PRIVAGG_PRG", raising=False)
        for chosen in Suite:
            assert prg.path(chosen) == prg.paths(chosen)[0]
            assert "openssl" in prg.paths(chosen)


def test_the_package_under_test_is_this_one():
    assert Path(prg.__file__).parents[1] == Path(__file__).parents[1]
