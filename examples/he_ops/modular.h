// Arithmetic modulo a prime below 2^61 on 64-bit words, the same code on host and device.
#ifndef HE_OPS_MODULAR_H
#define HE_OPS_MODULAR_H

#include <cstdint>

#ifdef __CUDACC__
#define BOTH __host__ __device__ inline
#else
#define BOTH inline
#endif

using word = std::uint64_t;
using wide = unsigned __int128;

struct modulus {
    word value;
    word ratio[2]; // floor(2^128 / value), low word first
};

BOTH word high_half(wide x) { return static_cast<word>(x >> 64); }

BOTH word add_mod(word a, word b, word q) {
    word sum = a + b;
    return sum >= q ? sum - q : sum;
}

BOTH word subtract_mod(word a, word b, word q) { return a >= b ? a - b : a + q - b; }

// Barrett: the quotient from the upper half of x * floor(2^128 / q) is at most one too small.
BOTH word reduce(wide x, const modulus &m) {
    word low = static_cast<word>(x), high = high_half(x);
    wide middle = static_cast<wide>(low) * m.ratio[1] + high_half(static_cast<wide>(low) * m.ratio[0]);
    wide other = static_cast<wide>(high) * m.ratio[0] + static_cast<word>(middle);
    word quotient = high * m.ratio[1] + high_half(middle) + high_half(other);
    word rest = low - quotient * m.value;
    return rest >= m.value ? rest - m.value : rest;
}

BOTH word multiply_mod(word a, word b, const modulus &m) { return reduce(static_cast<wide>(a) * b, m); }

// Shoup: a factor that is used often carries quotient = floor(factor * 2^64 / q); any x, factor < q.
BOTH word multiply_prepared(word x, word factor, word quotient, word q) {
    word rest = x * factor - high_half(static_cast<wide>(x) * quotient) * q;
    return rest >= q ? rest - q : rest;
}

// The integer in (-q/2, q/2) that x mod `from` stands for, modulo m.
BOTH word lift_centred(word x, word from, const modulus &m) {
    if (x <= from / 2)
        return reduce(x, m);
    word rest = reduce(from - x, m);
    return rest ? m.value - rest : 0;
}

// A generator that any thread can enter anywhere: splitmix64 of seed, stream and place.
BOTH word random_word(word seed, word stream, word place) {
    word x = seed * 0x9E3779B97F4A7C15u ^ (stream + 1) * 0xD1B54A32D192ED03u;
    x += (place + 1) * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

#endif
