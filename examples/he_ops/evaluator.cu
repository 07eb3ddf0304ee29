#include "evaluator.h"

#include "../check.h"
#include "kernels.h"

#include <algorithm>
#include <cstring>

// A kernel with one thread for every x below `count`.
#define LAUNCH(kernel, count, ...)                                                                         \
    do {                                                                                                   \
        long count_ = (count);                                                                             \
        kernel<<<static_cast<unsigned>((count_ + THREADS - 1) / THREADS), THREADS>>>(count_, __VA_ARGS__); \
        CHECK(cudaGetLastError());                                                                         \
    } while (0)

static void copy_words(word *to, const word *from, std::size_t words) {
    CHECK(cudaMemcpyAsync(to, from, words * sizeof(word), cudaMemcpyDeviceToDevice, 0));
}

long galois_of(int steps, long n) {
    long galois = 1;
    for (int i = 0; i < steps; i++)
        galois = galois * 5 % (2 * n);
    return galois;
}

long conjugation(long n) { return 2 * n - 1; }

static std::vector<word> words_of(const std::vector<modulus> &table) {
    std::vector<word> words(table.size() * sizeof(modulus) / sizeof(word));
    std::memcpy(words.data(), table.data(), words.size() * sizeof(word));
    return words;
}

// Every limb of `level` ordinary and `special` special ones.
shape evaluator::shape_of(int polys, int level, int special) const {
    return {set.set.log_n, polys, 0, level, special, set.set.level, 0, level + special, 0};
}

static shape only(shape s, int begin, int end) {
    s.begin = begin, s.end = end, s.outside = 0;
    return s;
}

static shape all_but(shape s, int begin, int end) {
    s.begin = begin, s.end = end, s.outside = 1;
    return s;
}

evaluator::device_conversion evaluator::upload(const conversion &from) {
    return {buffer(from.scale, lifetime::constant), buffer(from.matrix, lifetime::constant), from.sources};
}

evaluator::evaluator(const parameters &its_set, word seed)
    : set(its_set), moduli(words_of(set.table), lifetime::constant), factors(set.factors(false), lifetime::constant),
      inverse_factors(set.factors(true), lifetime::constant), scales(set.scales(), lifetime::constant),
      special_product(set.special_product, lifetime::constant),
      special_inverse(set.special_inverse, lifetime::constant), down(upload(set.mod_down)) {
    const int top = set.set.level;
    last_inverse.resize(top + 1);
    ups.resize(top + 1);
    for (int level = 1; level <= top; level++) {
        if (level > 1)
            last_inverse[level] = buffer(set.last_inverse[level], lifetime::constant);
        for (int digit = 0; digit < set.digits(level); digit++)
            ups[level].push_back(upload(set.mod_up(level, digit)));
    }

    const shape all = shape_of(1, top, set.set.special);
    secret_key = buffer(active_words(all), lifetime::constant);
    small_polynomial(secret_key.data(), all, seed, 1);
    secret_key.settle();
    buffer other(active_words(all), lifetime::temporary);
    LAUNCH(he_multiply, active_words(all), other.data(), secret_key.data(), secret_key.data(), table(), all,
           set.primes);
    relinearisation = make_key(other.data(), seed + 1);
    std::vector<long> wanted = {conjugation(set.n)};
    for (int steps = 1; steps <= ROTATION_STEPS; steps++)
        wanted.push_back(galois_of(steps, set.n));
    for (long galois : wanted) {
        LAUNCH(he_automorphism, active_words(all), other.data(), secret_key.data(), all, galois, set.primes);
        galois_keys[galois] = make_key(other.data(), seed + 2 + static_cast<word>(galois));
    }
}

void evaluator::transform(word *data, shape s, bool inverse) {
    const long parts = active_words(s) >> INNER_LOG, columns = (static_cast<long>(s.polys) * active_limbs(s))
                                                               << INNER_LOG;
    if (inverse) {
        he_intt_inner<<<static_cast<unsigned>(parts), INNER_THREADS>>>(parts, data, inverse_factors.data(), table(), s);
        CHECK(cudaGetLastError());
        LAUNCH(he_intt_outer, columns, data, inverse_factors.data(), scales.data(), table(), s);
    } else {
        LAUNCH(he_ntt_outer, columns, data, factors.data(), table(), s);
        he_ntt_inner<<<static_cast<unsigned>(parts), INNER_THREADS>>>(parts, data, factors.data(), table(), s);
        CHECK(cudaGetLastError());
    }
}

void evaluator::small_polynomial(word *out, shape s, word seed, word bound) {
    LAUNCH(he_small, active_words(s), out, table(), s, seed, bound);
    transform(out, s, false);
}

// Digit after digit: b = e - a s + P from (on the digit's limbs), then a.
buffer evaluator::make_key(const word *from, word seed) {
    const shape all = shape_of(1, set.set.level, set.set.special);
    const long words = active_words(all);
    const int digits = set.digits(set.set.level);
    buffer key(2 * words * digits, lifetime::constant), noise(words, lifetime::temporary);
    for (int digit = 0; digit < digits; digit++) {
        word *b = key.data() + 2 * words * digit, *a = b + words, own = seed * 1000 + digit;
        LAUNCH(he_uniform, words, a, table(), all, own);
        small_polynomial(noise.data(), all, own + 500, 8);
        LAUNCH(he_hide, words, b, noise.data(), a, secret_key.data(), table(), all);
        shape limbs = only(all, set.digit_begin(digit), set.digit_end(digit, set.set.level));
        LAUNCH(he_gadget, active_words(limbs), b, from, special_product.data(), table(), limbs);
    }
    key.settle();
    return key;
}

ciphertext evaluator::encrypt_random(word seed) {
    const shape one = shape_of(1, set.set.level, 0);
    const long words = active_words(one);
    ciphertext made = {buffer(2 * words, lifetime::lasting), set.set.level};
    buffer message(words, lifetime::temporary);
    word *mask = made.data.data() + words;
    LAUNCH(he_uniform, words, mask, table(), one, seed);
    small_polynomial(message.data(), one, seed + 1, word{1} << 20);
    LAUNCH(he_hide, words, made.data.data(), message.data(), mask, secret_key.data(), table(), one);
    return made;
}

buffer evaluator::random_plain(word seed) {
    const shape one = shape_of(1, set.set.level, 0);
    buffer made(active_words(one), lifetime::constant);
    small_polynomial(made.data(), one, seed, 16);
    made.settle();
    return made;
}

ciphertext evaluator::add(const ciphertext &a, const ciphertext &b) {
    const shape both = shape_of(2, std::min(a.level, b.level), 0);
    ciphertext out = {buffer(active_words(both), lifetime::lasting), both.level};
    LAUNCH(he_add, active_words(both), out.data.data(), a.data.data(), b.data.data(), table(), both, a.level, b.level);
    return out;
}

ciphertext evaluator::multiply(const ciphertext &a, const ciphertext &b) {
    const int level = std::min(a.level, b.level);
    const shape one = shape_of(1, level, 0), both = shape_of(2, level, 0);
    const long words = active_words(one);
    buffer product(3 * words, lifetime::temporary), switched(2 * words, lifetime::temporary);
    LAUNCH(he_tensor, words, product.data(), a.data.data(), b.data.data(), table(), one, a.level, b.level);
    key_switch(switched.data(), product.data() + 2 * words, level, relinearisation);
    ciphertext out = {buffer(2 * words, lifetime::lasting), level};
    LAUNCH(he_add, 2 * words, out.data.data(), product.data(), switched.data(), table(), both, level, level);
    return out;
}

ciphertext evaluator::multiply_plain(const ciphertext &a, const buffer &factor) {
    const shape both = shape_of(2, a.level, 0);
    ciphertext out = {buffer(active_words(both), lifetime::lasting), a.level};
    LAUNCH(he_multiply, active_words(both), out.data.data(), a.data.data(), factor.data(), table(), both, a.level);
    return out;
}

ciphertext evaluator::apply_galois(const ciphertext &a, long galois) {
    const shape one = shape_of(1, a.level, 0), both = shape_of(2, a.level, 0);
    const long words = active_words(one);
    buffer turned(2 * words, lifetime::temporary), switched(2 * words, lifetime::temporary);
    LAUNCH(he_automorphism, 2 * words, turned.data(), a.data.data(), both, galois, a.level);
    key_switch(switched.data(), turned.data() + words, a.level, galois_keys.at(galois));
    ciphertext out = {buffer(2 * words, lifetime::lasting), a.level};
    LAUNCH(he_add, words, out.data.data(), turned.data(), switched.data(), table(), one, a.level, a.level);
    copy_words(out.data.data() + words, switched.data() + words, words);
    return out;
}

ciphertext evaluator::rotate(const ciphertext &a, int steps) { return apply_galois(a, galois_of(steps, set.n)); }

ciphertext evaluator::conjugate(const ciphertext &a) { return apply_galois(a, conjugation(set.n)); }

ciphertext evaluator::rescale(const ciphertext &a) {
    const int level = a.level - 1;
    const shape both = shape_of(2, level, 0);
    shape last = shape_of(2, 1, 0);
    last.base = level;
    buffer dropped(2 * set.n, lifetime::temporary), spread(active_words(both), lifetime::temporary);
    for (int half = 0; half < 2; half++)
        copy_words(dropped.data() + half * set.n, a.data.data() + (half * a.level + level) * set.n, set.n);
    transform(dropped.data(), last, true);
    LAUNCH(he_lift, active_words(both), spread.data(), dropped.data(), table(), both, level);
    transform(spread.data(), both, false);
    ciphertext out = {buffer(active_words(both), lifetime::lasting), level};
    LAUNCH(he_divide, active_words(both), out.data.data(), a.data.data(), spread.data(), last_inverse[a.level].data(),
           table(), both, a.level);
    return out;
}

ciphertext evaluator::drop_to(const ciphertext &a, int level) {
    ciphertext out = {buffer(2 * set.n * level, lifetime::lasting), level};
    for (int half = 0; half < 2; half++)
        copy_words(out.data.data() + half * set.n * level, a.data.data() + half * set.n * a.level, set.n * level);
    return out;
}

ciphertext evaluator::mod_raise(const ciphertext &a) {
    const shape both = shape_of(2, set.set.level, 0);
    buffer bottom(2 * set.n, lifetime::temporary);
    copy_words(bottom.data(), a.data.data(), 2 * set.n);
    transform(bottom.data(), shape_of(2, 1, 0), true);
    ciphertext out = {buffer(active_words(both), lifetime::lasting), set.set.level};
    LAUNCH(he_lift, active_words(both), out.data.data(), bottom.data(), table(), both, 0);
    transform(out.data.data(), both, false);
    return out;
}

// out: two polynomials that decrypt to polynomial * (what the key hides).
void evaluator::key_switch(word *out, const word *polynomial, int level, const buffer &key) {
    const shape plain = shape_of(1, level, 0), extended = shape_of(1, level, set.set.special);
    const long words = active_words(plain), extended_words = active_words(extended);
    const long key_words = 2 * set.n * set.primes;
    buffer coefficients(words, lifetime::temporary), sum(2 * extended_words, lifetime::temporary);
    copy_words(coefficients.data(), polynomial, words);
    transform(coefficients.data(), plain, true);
    for (int digit = 0; digit < set.digits(level); digit++) {
        const device_conversion &up = ups[level][digit];
        const int begin = set.digit_begin(digit), end = set.digit_end(digit, level);
        const shape own = only(plain, begin, end), others = all_but(extended, begin, end);
        buffer scaled(active_words(own), lifetime::temporary), raised(extended_words, lifetime::temporary);
        LAUNCH(he_scale, active_words(own), scaled.data(), coefficients.data(), up.scale.data(), table(), own);
        LAUNCH(he_convert, active_words(others), raised.data(), scaled.data(), up.matrix.data(), table(), others,
               up.sources);
        transform(raised.data(), others, false);
        copy_words(raised.data() + begin * set.n, polynomial + begin * set.n, (end - begin) * set.n);
        LAUNCH(he_inner, extended_words, sum.data(), raised.data(), key.data() + key_words * digit, table(), extended,
               digit == 0, set.primes);
    }
    mod_down(out, sum.data(), level);
}

// Divides two polynomials by P; their special limbs turn into coefficients.
void evaluator::mod_down(word *out, word *sum, int level) {
    const shape both = shape_of(2, level, 0),
                special = only(shape_of(2, level, set.set.special), level, level + set.set.special);
    buffer scaled(active_words(special), lifetime::temporary), rest(active_words(both), lifetime::temporary);
    transform(sum, special, true);
    LAUNCH(he_scale, active_words(special), scaled.data(), sum, down.scale.data(), table(), special);
    LAUNCH(he_convert, active_words(both), rest.data(), scaled.data(), down.matrix.data(), table(), both, down.sources);
    transform(rest.data(), both, false);
    LAUNCH(he_divide, active_words(both), out, sum, rest.data(), special_inverse.data(), table(), both,
           level + set.set.special);
}
