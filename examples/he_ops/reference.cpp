#include "reference.h"

#include <algorithm>
#include <cmath>
#include <utility>

using limb = std::vector<word>;

reference::reference(const parameters &its_set, keys from) : set(its_set), held(std::move(from)) {
    for (int prime = 0; prime < set.primes; prime++) {
        std::vector<word> all(2 * set.n);
        word power = 1;
        for (word &one : all) {
            one = power;
            power = multiply_plain_mod(power, set.psi(prime), set.values[prime]);
        }
        powers.push_back(std::move(all));
    }
}

static long reversed(long i, int bits) {
    long back = 0;
    for (int bit = 0; bit < bits; bit++)
        back = back << 1 | (i >> bit & 1);
    return back;
}

// values[k] = sum of values[j] * psi^(2 j k), natural order both ways, without the scaling of the inverse.
void reference::cyclic(limb &values, int prime, bool inverse) const {
    const word q = set.values[prime];
    for (long i = 0; i < set.n; i++)
        if (long j = reversed(i, set.set.log_n); j > i)
            std::swap(values[i], values[j]);
    for (long length = 2; length <= set.n; length *= 2)
        for (long start = 0; start < set.n; start += length)
            for (long i = 0; i < length / 2; i++) {
                long exponent = 2 * set.n / length * i;
                word factor = powers[prime][inverse && exponent ? 2 * set.n - exponent : exponent];
                word &a = values[start + i], &b = values[start + i + length / 2];
                word product = multiply_plain_mod(b, factor, q);
                b = subtract_mod(a, product, q);
                a = add_mod(a, product, q);
            }
}

limb reference::forward(limb coefficients, int prime) const {
    for (long i = 0; i < set.n; i++)
        coefficients[i] = multiply_plain_mod(coefficients[i], powers[prime][i], set.values[prime]);
    cyclic(coefficients, prime, false);
    limb out(set.n);
    for (long i = 0; i < set.n; i++)
        out[reversed(i, set.set.log_n)] = coefficients[i];
    return out;
}

limb reference::backward(limb values, int prime) const {
    limb out(set.n);
    for (long i = 0; i < set.n; i++)
        out[i] = values[reversed(i, set.set.log_n)];
    cyclic(out, prime, true);
    const word q = set.values[prime], scale = inverse_mod(static_cast<word>(set.n), q);
    for (long i = 0; i < set.n; i++)
        out[i] = multiply_plain_mod(multiply_plain_mod(out[i], scale, q), powers[prime][i ? 2 * set.n - i : 0], q);
    return out;
}

limb reference::take(const std::vector<word> &from, long row) const {
    return limb(from.begin() + row * set.n, from.begin() + (row + 1) * set.n);
}

static void append(std::vector<word> &to, const limb &one) { to.insert(to.end(), one.begin(), one.end()); }

host_ciphertext reference::add(const host_ciphertext &a, const host_ciphertext &b) const {
    const int level = std::min(a.level, b.level);
    host_ciphertext out = {std::vector<word>(2 * level * set.n), level};
    for (int half = 0; half < 2; half++)
        for (int i = 0; i < level; i++)
            for (long x = 0; x < set.n; x++)
                out.data[(half * level + i) * set.n + x] =
                    (a.data[(half * a.level + i) * set.n + x] + b.data[(half * b.level + i) * set.n + x]) %
                    set.values[i];
    return out;
}

host_ciphertext reference::multiply(const host_ciphertext &a, const host_ciphertext &b) const {
    const int level = std::min(a.level, b.level);
    std::vector<word> parts[3];
    for (int i = 0; i < level; i++)
        for (long x = 0; x < set.n; x++) {
            const word q = set.values[i], a0 = a.data[i * set.n + x], a1 = a.data[(a.level + i) * set.n + x];
            const word b0 = b.data[i * set.n + x], b1 = b.data[(b.level + i) * set.n + x];
            parts[0].push_back(multiply_plain_mod(a0, b0, q));
            parts[1].push_back((multiply_plain_mod(a0, b1, q) + multiply_plain_mod(a1, b0, q)) % q);
            parts[2].push_back(multiply_plain_mod(a1, b1, q));
        }
    host_ciphertext out = {parts[0], level};
    append(out.data, parts[1]);
    return add(out, {key_switch(parts[2], level, held.relinearisation), level});
}

host_ciphertext reference::multiply_plain(const host_ciphertext &a, const plain &factor) const {
    host_ciphertext out = a;
    for (int row = 0; row < 2 * a.level; row++)
        for (long x = 0; x < set.n; x++) {
            word &one = out.data[row * set.n + x];
            one = multiply_plain_mod(one, factor[row % a.level * set.n + x], set.values[row % a.level]);
        }
    return out;
}

// Of coefficients: X^i becomes X^(i galois), and X^N = -1.
limb reference::turn(const limb &values, int prime, long galois) const {
    limb from = backward(values, prime), to(set.n);
    for (long i = 0; i < set.n; i++) {
        long exponent = i * galois % (2 * set.n);
        word minus = from[i] ? set.values[prime] - from[i] : 0;
        to[exponent % set.n] = exponent < set.n ? from[i] : minus;
    }
    return forward(to, prime);
}

host_ciphertext reference::apply_galois(const host_ciphertext &a, long galois) const {
    std::vector<word> first, second;
    for (int i = 0; i < a.level; i++) {
        append(first, turn(take(a.data, i), i, galois));
        append(second, turn(take(a.data, a.level + i), i, galois));
    }
    host_ciphertext out = {key_switch(second, a.level, held.galois.at(galois)), a.level};
    for (long x = 0; x < a.level * set.n; x++)
        out.data[x] = (out.data[x] + first[x]) % set.values[x / set.n];
    return out;
}

host_ciphertext reference::rotate(const host_ciphertext &a, int steps) const {
    return apply_galois(a, static_cast<long>(power_mod(5, static_cast<word>(steps), 2 * static_cast<word>(set.n))));
}

host_ciphertext reference::conjugate(const host_ciphertext &a) const { return apply_galois(a, 2 * set.n - 1); }

static word centred(word x, word from, word q) { return x <= from / 2 ? x % q : (q - (from - x) % q) % q; }

host_ciphertext reference::rescale(const host_ciphertext &a) const {
    host_ciphertext out = {{}, a.level - 1};
    const int last = a.level - 1;
    for (int half = 0; half < 2; half++) {
        limb dropped = backward(take(a.data, half * a.level + last), last);
        for (int i = 0; i < last; i++) {
            limb own = backward(take(a.data, half * a.level + i), i);
            const word q = set.values[i], inverse = inverse_mod(set.values[last], q);
            for (long x = 0; x < set.n; x++)
                own[x] = multiply_plain_mod(own[x] + q - centred(dropped[x], set.values[last], q), inverse, q);
            append(out.data, forward(own, i));
        }
    }
    return out;
}

host_ciphertext reference::drop_to(const host_ciphertext &a, int level) const {
    host_ciphertext out = {{}, level};
    for (int row = 0; row < 2 * level; row++)
        append(out.data, take(a.data, row / level * a.level + row % level));
    return out;
}

host_ciphertext reference::mod_raise(const host_ciphertext &a) const {
    host_ciphertext out = {{}, set.set.level};
    for (int half = 0; half < 2; half++) {
        limb bottom = backward(take(a.data, half), 0);
        for (int i = 0; i < out.level; i++) {
            limb raised(set.n);
            for (long x = 0; x < set.n; x++)
                raised[x] = centred(bottom[x], set.values[0], set.values[i]);
            append(out.data, forward(raised, i));
        }
    }
    return out;
}

// Coefficients modulo primes first, first + 1, ... to those named.
std::vector<limb> reference::convert(const std::vector<limb> &from, int first, const conversion &by,
                                     const std::vector<int> &to) const {
    std::vector<limb> out;
    for (int prime : to) {
        const word q = set.values[prime];
        limb made(set.n);
        for (int i = 0; i < by.sources; i++)
            for (long x = 0; x < set.n; x++) {
                word scaled = multiply_plain_mod(from[i][x], by.scale[i], set.values[first + i]);
                made[x] = (made[x] + multiply_plain_mod(scaled, by.matrix[prime * by.sources + i], q)) % q;
            }
        out.push_back(std::move(made));
    }
    return out;
}

std::vector<word> reference::key_switch(const std::vector<word> &polynomial, int level,
                                        const std::vector<word> &key) const {
    const int special = set.set.special;
    std::vector<limb> sums(2 * (level + special), limb(set.n));
    for (int digit = 0; digit < set.digits(level); digit++) {
        const int begin = set.digit_begin(digit), end = set.digit_end(digit, level);
        std::vector<limb> own;
        for (int i = begin; i < end; i++)
            own.push_back(backward(take(polynomial, i), i));
        for (int row = 0; row < level + special; row++) {
            const int prime = row < level ? row : set.set.level + row - level;
            const word q = set.values[prime];
            limb raised = prime >= begin && prime < end
                              ? take(polynomial, prime)
                              : forward(convert(own, begin, set.mod_up(level, digit), {prime})[0], prime);
            for (int half = 0; half < 2; half++) {
                limb &sum = sums[half * (level + special) + row];
                const word *factor = &key[(static_cast<long>(2 * digit + half) * set.primes + prime) * set.n];
                for (long x = 0; x < set.n; x++)
                    sum[x] = (sum[x] + multiply_plain_mod(raised[x], factor[x], q)) % q;
            }
        }
    }
    std::vector<word> out;
    std::vector<int> ordinary;
    for (int i = 0; i < level; i++)
        ordinary.push_back(i);
    for (int half = 0; half < 2; half++) {
        std::vector<limb> from;
        for (int k = 0; k < special; k++)
            from.push_back(backward(sums[half * (level + special) + level + k], set.set.level + k));
        std::vector<limb> rest = convert(from, set.set.level, set.mod_down, ordinary);
        for (int i = 0; i < level; i++) {
            limb own = backward(sums[half * (level + special) + i], i);
            const word q = set.values[i];
            for (long x = 0; x < set.n; x++)
                own[x] = multiply_plain_mod(own[x] + q - rest[i][x], set.special_inverse[i], q);
            append(out, forward(own, i));
        }
    }
    return out;
}

std::vector<word> reference::phase(const host_ciphertext &a) const {
    std::vector<word> out(a.level * set.n);
    for (long x = 0; x < a.level * set.n; x++) {
        const word q = set.values[x / set.n];
        out[x] = (a.data[x] + multiply_plain_mod(a.data[a.level * set.n + x], held.secret[x], q)) % q;
    }
    return out;
}

std::vector<word> reference::turned(const std::vector<word> &polynomial, long galois) const {
    std::vector<word> out;
    for (long i = 0; i < static_cast<long>(polynomial.size()) / set.n; i++)
        append(out, turn(take(polynomial, i), static_cast<int>(i), galois));
    return out;
}

std::vector<word> reference::product(const std::vector<word> &a, const std::vector<word> &b) const {
    std::vector<word> out(a.size());
    for (size_t x = 0; x < a.size(); x++)
        out[x] = multiply_plain_mod(a[x], b[x], set.values[x / set.n]);
    return out;
}

double reference::distance(const std::vector<word> &a, const std::vector<word> &b) const {
    std::vector<double> first;
    double most = 0;
    for (long i = 0; i < static_cast<long>(a.size()) / set.n; i++) {
        const word q = set.values[i];
        limb difference = take(a, i), other = take(b, i);
        for (long x = 0; x < set.n; x++)
            difference[x] = subtract_mod(difference[x], other[x], q);
        difference = backward(difference, static_cast<int>(i));
        for (long x = 0; x < set.n; x++) {
            double value =
                difference[x] <= q / 2 ? static_cast<double>(difference[x]) : -static_cast<double>(q - difference[x]);
            if (i == 0)
                first.push_back(value);
            else if (first[x] != value)
                return -1;
            most = std::max(most, std::fabs(value));
        }
    }
    return most;
}

bool reference::transform_multiplies() const {
    for (int prime : {0, set.primes - 1}) {
        const word q = set.values[prime];
        limb a(set.n), b(set.n), values;
        for (long i = 0; i < set.n; i++) {
            a[i] = random_word(1, 1, i) % q;
            b[i] = random_word(1, 2, i) % q;
        }
        limb fa = forward(a, prime), fb = forward(b, prime);
        for (long i = 0; i < set.n; i++)
            fa[i] = multiply_plain_mod(fa[i], fb[i], q);
        limb fast = backward(fa, prime);
        for (long k = 0; k < set.n; k += set.n / 16 + 1) {
            word sum = 0;
            for (long i = 0; i < set.n; i++) {
                word product = multiply_plain_mod(a[i], b[(k - i + set.n) % set.n], q);
                sum = i <= k ? add_mod(sum, product, q) : subtract_mod(sum, product, q);
            }
            if (sum != fast[k])
                return false;
        }
    }
    return true;
}
