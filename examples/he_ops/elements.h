// What one thread of each kernel does. The kernels call these functions on the device, their twins for the simulated
// CUDA on the host, so both compute the same bits.
//
// Polynomials of N = 2^log_n coefficients lie limb by limb; a limb is the residue modulo one prime, in bit-reversed NTT
// order unless it is said to hold coefficients. References: Harvey, Faster arithmetic for number-theoretic transforms
// (2014); Halevi, Polyakov and Shoup, An improved RNS variant of the BFV scheme (2018); Han and Ki, Better
// bootstrapping for approximate homomorphic encryption (2020) for key switching by digits.
#ifndef HE_OPS_ELEMENTS_H
#define HE_OPS_ELEMENTS_H

#include "modular.h"

enum {
    INNER_LOG = 11,  // of the limb's part that a block transforms in shared memory
    OUTER_MAX = 5,   // stages before that, at most: N <= 2^16
    FACTOR_WORDS = 2 // a prepared factor and its quotient
};

// How the limbs of `polys` polynomials lie in a buffer, and which of them a kernel works on.
struct shape {
    int log_n;
    int polys;
    int base;       // modulus of the first limb
    int level;      // limbs modulo ordinary primes
    int special;    // limbs after those, modulo special primes
    int primes;     // ordinary primes of the set: the special ones come behind them in the table
    int begin, end; // limbs begin to end - 1 ...
    int outside;    // ... or all but those
};

BOTH int limbs_of(const shape &s) { return s.level + s.special; }
BOTH int active_limbs(const shape &s) { return s.outside ? limbs_of(s) - (s.end - s.begin) : s.end - s.begin; }
BOTH long active_words(const shape &s) { return (static_cast<long>(s.polys) * active_limbs(s)) << s.log_n; }
BOTH int modulus_of(const shape &s, int limb) { return limb < s.level ? s.base + limb : s.primes + limb - s.level; }

// Where the x-th word that a kernel works on lies.
struct place {
    int poly, order, limb, modulus; // order: of the limb among those worked on
    long in_limb;
};

BOTH place find_place(long x, const shape &s) {
    place found;
    found.in_limb = x & ((1L << s.log_n) - 1);
    int row = static_cast<int>(x >> s.log_n), active = active_limbs(s);
    found.poly = row / active;
    found.order = row % active;
    if (s.outside)
        found.limb = found.order < s.begin ? found.order : found.order + (s.end - s.begin);
    else
        found.limb = s.begin + found.order;
    found.modulus = modulus_of(s, found.limb);
    return found;
}

BOTH long word_at(const place &p, int log_n, int limbs) {
    return ((static_cast<long>(p.poly) * limbs + p.limb) << log_n) + p.in_limb;
}

// ---- filling

BOTH void uniform_element(long x, word *out, const modulus *table, shape s, word seed) {
    place p = find_place(x, s);
    out[word_at(p, s.log_n, limbs_of(s))] = reduce(
        random_word(seed, static_cast<word>(p.poly) << 32 | static_cast<word>(p.modulus), static_cast<word>(p.in_limb)),
        table[p.modulus]);
}

// Coefficients between -bound and bound, the same integer in every limb.
BOTH void small_element(long x, word *out, const modulus *table, shape s, word seed, word bound) {
    place p = find_place(x, s);
    word value = random_word(seed, static_cast<word>(p.poly), static_cast<word>(p.in_limb)) % (2 * bound + 1);
    word q = table[p.modulus].value;
    out[word_at(p, s.log_n, limbs_of(s))] = value >= bound ? value - bound : q - (bound - value);
}

// out = noise - mask * secret, the first half of a ciphertext or key whose other half is `mask`; the secret has all
// primes.
BOTH void hide_element(long x, word *out, const word *noise, const word *mask, const word *secret, const modulus *table,
                       shape s) {
    place p = find_place(x, s);
    const modulus &m = table[p.modulus];
    long at = word_at(p, s.log_n, limbs_of(s));
    word product = multiply_mod(mask[at], secret[(static_cast<long>(p.modulus) << s.log_n) + p.in_limb], m);
    out[at] = subtract_mod(noise[at], product, m.value);
}

// key += P * from on the limbs of one digit.
BOTH void gadget_element(long x, word *key, const word *from, const word *special_product, const modulus *table,
                         shape s) {
    place p = find_place(x, s);
    const modulus &m = table[p.modulus];
    long at = word_at(p, s.log_n, limbs_of(s));
    key[at] = add_mod(key[at], multiply_mod(from[at], special_product[p.modulus], m), m.value);
}

// ---- limb by limb; operands may have more limbs than the result

BOTH void add_element(long x, word *out, const word *a, const word *b, const modulus *table, shape s, int a_limbs,
                      int b_limbs) {
    place p = find_place(x, s);
    out[word_at(p, s.log_n, limbs_of(s))] =
        add_mod(a[word_at(p, s.log_n, a_limbs)], b[word_at(p, s.log_n, b_limbs)], table[p.modulus].value);
}

// Every polynomial times one.
BOTH void multiply_element(long x, word *out, const word *a, const word *factor, const modulus *table, shape s,
                           int a_limbs) {
    place p = find_place(x, s);
    out[word_at(p, s.log_n, limbs_of(s))] = multiply_mod(
        a[word_at(p, s.log_n, a_limbs)], factor[(static_cast<long>(p.limb) << s.log_n) + p.in_limb], table[p.modulus]);
}

// (a0 b0, a0 b1 + a1 b0, a1 b1); the shape has one polynomial.
BOTH void tensor_element(long x, word *out, const word *a, const word *b, const modulus *table, shape s, int a_limbs,
                         int b_limbs) {
    place p = find_place(x, s);
    const modulus &m = table[p.modulus];
    long at = word_at(p, s.log_n, limbs_of(s)), next = static_cast<long>(limbs_of(s)) << s.log_n;
    word a0 = a[at], a1 = a[at + (static_cast<long>(a_limbs) << s.log_n)];
    word b0 = b[at], b1 = b[at + (static_cast<long>(b_limbs) << s.log_n)];
    out[at] = multiply_mod(a0, b0, m);
    out[at + next] = reduce(static_cast<wide>(a0) * b1 + static_cast<wide>(a1) * b0, m);
    out[at + 2 * next] = multiply_mod(a1, b1, m);
}

// X -> X^galois. Place i of the bit-reversed order holds the value at psi^(2 rev(i) + 1).
BOTH long reverse_bits(long i, int bits) {
    long reversed = 0;
    for (int bit = 0; bit < bits; bit++)
        reversed |= (i >> bit & 1) << (bits - 1 - bit);
    return reversed;
}

BOTH void automorphism_element(long x, word *out, const word *in, shape s, long galois, int in_limbs) {
    place p = find_place(x, s);
    long power = (2 * reverse_bits(p.in_limb, s.log_n) + 1) * galois & ((2L << s.log_n) - 1);
    place from = p;
    from.in_limb = reverse_bits(power >> 1, s.log_n);
    out[word_at(p, s.log_n, limbs_of(s))] = in[word_at(from, s.log_n, in_limbs)];
}

// ---- other bases

// out (only the limbs worked on) = in * scale, the first step of a base conversion; coefficients.
BOTH void scale_element(long x, word *out, const word *in, const word *scale, const modulus *table, shape s) {
    place p = find_place(x, s);
    out[x] = multiply_mod(in[word_at(p, s.log_n, limbs_of(s))], scale[p.order], table[p.modulus]);
}

// The second: out = sum of scaled limbs * matrix[modulus of out], up to a small multiple of the old base; coefficients.
BOTH void convert_element(long x, word *out, const word *scaled, const word *matrix, const modulus *table, shape s,
                          int sources) {
    place p = find_place(x, s);
    wide sum = 0; // at most 2^8 products below 2^120
    for (int i = 0; i < sources; i++)
        sum += static_cast<wide>(scaled[((static_cast<long>(p.poly) * sources + i) << s.log_n) + p.in_limb]) *
               matrix[p.modulus * sources + i];
    out[word_at(p, s.log_n, limbs_of(s))] = reduce(sum, table[p.modulus]);
}

// One limb of coefficients modulo prime `from` to all limbs worked on.
BOTH void lift_element(long x, word *out, const word *in, const modulus *table, shape s, int from) {
    place p = find_place(x, s);
    out[word_at(p, s.log_n, limbs_of(s))] =
        lift_centred(in[(static_cast<long>(p.poly) << s.log_n) + p.in_limb], table[from].value, table[p.modulus]);
}

// out = (in - rest) / divisor, by the divisor's inverse modulo each prime.
BOTH void divide_element(long x, word *out, const word *in, const word *rest, const word *inverses,
                         const modulus *table, shape s, int in_limbs) {
    place p = find_place(x, s);
    const modulus &m = table[p.modulus];
    long at = word_at(p, s.log_n, limbs_of(s));
    out[at] = multiply_mod(subtract_mod(in[word_at(p, s.log_n, in_limbs)], rest[at], m.value), inverses[p.modulus], m);
}

// sum (two polynomials) += extended * key (two polynomials modulo all primes); the shape has one polynomial.
BOTH void inner_element(long x, word *sum, const word *extended, const word *key, const modulus *table, shape s,
                        int first, int key_limbs) {
    place p = find_place(x, s);
    const modulus &m = table[p.modulus];
    long at = word_at(p, s.log_n, limbs_of(s)), key_at = (static_cast<long>(p.modulus) << s.log_n) + p.in_limb;
    for (int half = 0; half < 2; half++) {
        wide product =
            static_cast<wide>(extended[at]) * key[key_at + ((static_cast<long>(half) * key_limbs) << s.log_n)];
        long sum_at = at + ((static_cast<long>(half) * limbs_of(s)) << s.log_n);
        sum[sum_at] = reduce(first ? product : product + sum[sum_at], m);
    }
}

// ---- negacyclic NTT: up to five outer stages in registers, one column a thread; the rest in blocks of 2^11 words

// `factors`: powers of psi (or of its inverse) in bit-reversed order, each with its quotient, for every prime.
BOTH void butterfly(word &a, word &b, const word *factor, word q) {
    word product = multiply_prepared(b, factor[0], factor[1], q);
    b = subtract_mod(a, product, q);
    a = add_mod(a, product, q);
}

BOTH void inverse_butterfly(word &a, word &b, const word *factor, word q) {
    word difference = a + q - b;
    a = add_mod(a, b, q);
    b = multiply_prepared(difference, factor[0], factor[1], q);
}

template <int STAGES> BOTH void outer_column(word *column, const word *factors, word q) {
    constexpr int rows = 1 << STAGES;
    word held[rows];
    for (int r = 0; r < rows; r++)
        held[r] = column[static_cast<long>(r) << INNER_LOG];
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int stage = 0; stage < STAGES; stage++) {
        const int half = rows >> (stage + 1);
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
        for (int pair = 0; pair < rows / 2; pair++) {
            int group = pair / half, low = 2 * group * half + pair % half;
            butterfly(held[low], held[low + half], factors + ((1 << stage) + group) * FACTOR_WORDS, q);
        }
    }
    for (int r = 0; r < rows; r++)
        column[static_cast<long>(r) << INNER_LOG] = held[r];
}

// The last stages of the inverse; `scale`: 1/N with its quotient.
template <int STAGES> BOTH void outer_column_inverse(word *column, const word *factors, const word *scale, word q) {
    constexpr int rows = 1 << STAGES;
    word held[rows];
    for (int r = 0; r < rows; r++)
        held[r] = column[static_cast<long>(r) << INNER_LOG];
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int stage = STAGES - 1; stage >= 0; stage--) {
        const int half = rows >> (stage + 1);
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
        for (int pair = 0; pair < rows / 2; pair++) {
            int group = pair / half, low = 2 * group * half + pair % half;
            inverse_butterfly(held[low], held[low + half], factors + ((1 << stage) + group) * FACTOR_WORDS, q);
        }
    }
    for (int r = 0; r < rows; r++)
        column[static_cast<long>(r) << INNER_LOG] = multiply_prepared(held[r], scale[0], scale[1], q);
}

// The y-th column, or block of 2^INNER_LOG words, of all that a kernel works on: its limb and the number within the
// limb.
BOTH place find_part(long y, const shape &s, int parts_log) {
    place p = find_place((y >> parts_log) << s.log_n, s);
    p.in_limb = y & ((1L << parts_log) - 1);
    return p;
}

BOTH word *limb_at(word *data, const place &p, const shape &s) {
    return data + ((static_cast<long>(p.poly) * limbs_of(s) + p.limb) << s.log_n);
}

BOTH const word *factors_of(const word *factors, int modulus, int log_n) {
    return factors + (static_cast<long>(modulus) << log_n) * FACTOR_WORDS;
}

BOTH void outer_element(long y, word *data, const word *factors, const modulus *table, shape s) {
    place p = find_part(y, s, INNER_LOG);
    word *column = limb_at(data, p, s) + p.in_limb, q = table[p.modulus].value;
    const word *own = factors_of(factors, p.modulus, s.log_n);
    switch (s.log_n - INNER_LOG) {
    case 1: outer_column<1>(column, own, q); break;
    case 2: outer_column<2>(column, own, q); break;
    case 3: outer_column<3>(column, own, q); break;
    case 4: outer_column<4>(column, own, q); break;
    case 5: outer_column<5>(column, own, q); break;
    }
}

BOTH void outer_inverse_element(long y, word *data, const word *factors, const word *scales, const modulus *table,
                                shape s) {
    place p = find_part(y, s, INNER_LOG);
    word *column = limb_at(data, p, s) + p.in_limb, q = table[p.modulus].value;
    const word *own = factors_of(factors, p.modulus, s.log_n), *scale = scales + p.modulus * FACTOR_WORDS;
    switch (s.log_n - INNER_LOG) {
    case 1: outer_column_inverse<1>(column, own, scale, q); break;
    case 2: outer_column_inverse<2>(column, own, scale, q); break;
    case 3: outer_column_inverse<3>(column, own, scale, q); break;
    case 4: outer_column_inverse<4>(column, own, scale, q); break;
    case 5: outer_column_inverse<5>(column, own, scale, q); break;
    }
}

// One butterfly of one inner stage: stage 0 has one group of 2^INNER_LOG words. `blocks`: of a limb; `block`: the
// words' number in it.
BOTH void inner_butterfly(word *words, int pair, int stage, long block, long blocks, const word *factors, word q,
                          bool inverse) {
    int distance = 1 << (INNER_LOG - 1 - stage), group = pair / distance, low = 2 * group * distance + pair % distance;
    const word *factor = factors + ((blocks << stage) + (block << stage) + group) * FACTOR_WORDS;
    if (inverse)
        inverse_butterfly(words[low], words[low + distance], factor, q);
    else
        butterfly(words[low], words[low + distance], factor, q);
}

#endif
