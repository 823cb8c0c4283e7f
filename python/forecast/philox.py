# SPDX-License-Identifier: MIT
"""The random numbers that a card would draw.

A generator on the GPU is a counter: Philox (Salmon and others, "Parallel random numbers: as easy as
1, 2, 3", 2011) makes four words of 32 bits from the seed, the thread's number and how much was
drawn before. PyTorch's own code keeps seed and count on the host, here too, so a small result of a
random function can be the card's own, mask by mask.

Which thread draws which element: with blocks of 256 threads and as many blocks as the device holds
at once, thread t of S draws, in its round r, four words, for the elements t + (4 r + k) S. Worked
example: an H200 holds S = 132 x 8 x 256 = 270,336 threads, so element 300,000 is word k = 1 of
thread 29,664; of a tensor with fewer elements than that each thread's first word alone is used.
"""
import math

from . import memory

BLOCK = 256  # threads
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
WORD = 0xFFFFFFFF
MODULO_MAX = 1 << 28  # ranges of integers from here on take 64 bits
PRODUCT_MAX = 1 << 31  # two numbers below have a product of 62 bits


class Place:
    """What a generator has come to before a draw."""

    def __init__(self, seed, offset, threads):
        self.seed = seed
        self.offset = offset
        self.threads = threads  # that the device holds at once


def place(device, generator):
    """The place of the generator, or None where it cannot be told (in a captured graph)."""
    torch = memory.torch
    try:
        device = torch.cuda.current_device() if device.index is None else device.index
        made = generator or torch.cuda.default_generators[device]
        seed, offset = made.get_state().view(torch.int64).tolist()
        has = torch.cuda.get_device_properties(device)
    except Exception:
        return None
    blocks = has.max_threads_per_multi_processor // BLOCK * has.multi_processor_count
    return Place(seed, offset, blocks * BLOCK)


def _words(place, threads, rounds):
    """Four words for each thread in its round."""
    torch = memory.torch
    counter = place.offset // 4 + rounds
    a, b = counter & WORD, counter >> 32 & WORD
    c, d = threads & WORD, threads >> 32 & WORD
    key = [place.seed & WORD, place.seed >> 32 & WORD]
    for _ in range(ROUNDS):
        first, second = a * MULTIPLIERS[0], c * MULTIPLIERS[1]  # of 64 bits, that wrap
        a, b, c, d = ((second >> 32 & WORD) ^ b ^ key[0], second & WORD,
                      (first >> 32 & WORD) ^ d ^ key[1], first & WORD)
        key = [key[0] + WEYL[0] & WORD, key[1] + WEYL[1] & WORD]
    return torch.stack((a, b, c, d), -1)


def _drawn(place, count, many):
    """For each element, in order: four words, and which of `many` draws of them is its own."""
    torch = memory.torch
    stride = min(place.threads, -(-count // BLOCK) * BLOCK)
    elements = torch.arange(count)
    turn = elements // stride
    return _words(place, elements % stride, turn // many), turn % many


def _pick(values, which):
    return values.gather(1, which.unsqueeze(1)).squeeze(1)


def _unit(words):
    """Words to (0, 1], as 32-bit numbers."""
    torch = memory.torch
    scale = torch.tensor(2.0 ** -32, dtype=torch.float32)
    return words.to(torch.float32) * scale + scale / 2


def uniform(place, count, low, high, dtype):
    """[low, high)"""
    torch = memory.torch
    words, which = _drawn(place, count, 4)
    low, high = (torch.tensor(one, dtype=dtype) for one in (low, high))
    wide = (high - low).to(torch.float32).double()
    values = _unit(_pick(words, which)).double() * wide + low.double()  # rounded once, at the end
    values = values.to(torch.float32).to(dtype)
    return torch.where(values == high, low, values)


def normal(place, count, mean, deviation, dtype):
    """By the transform of Box and Muller: words 0 and 1 make two numbers, 2 and 3 two more."""
    torch = memory.torch
    words, which = _drawn(place, count, 4)
    radius = torch.sqrt(-2 * torch.log(_unit(words[:, 0::2])))
    turn = torch.tensor(2 * math.pi * 2.0 ** -32, dtype=torch.float32)
    angle = words[:, 1::2].to(torch.float32) * turn + turn / 2
    both = torch.stack((radius * torch.sin(angle), radius * torch.cos(angle)), -1)
    return (_pick(both.reshape(count, 4), which) * deviation + mean).to(dtype)


def integers(place, count, low, high, dtype):
    """low to high - 1"""
    if high - low < MODULO_MAX:
        words, which = _drawn(place, count, 4)
        return (_pick(words, which) % (high - low) + low).to(dtype)
    wide = high - low
    if wide > PRODUCT_MAX:
        raise memory.Cannot
    words, which = _drawn(place, count, 2)
    top, rest = _pick(words[:, 0::2], which), _pick(words[:, 1::2], which)
    return ((top % wide * ((1 << 32) % wide) + rest) % wide + low).to(dtype)


def flags(place, count, chance, dtype):
    """1 with that chance"""
    words, which = _drawn(place, count, 4)
    return (_unit(_pick(words, which)) < chance).to(dtype)


def flags_of(place, chances, dtype):
    """1 with the chance of each element: thread t draws the elements 4 t to 4 t + 3."""
    torch = memory.torch
    count = chances.numel()
    threads = torch.arange(-(-count // 4))
    words = _words(place, threads, torch.zeros_like(threads))
    return (_unit(words.reshape(-1)[:count]) <= chances.reshape(-1)).to(dtype)
