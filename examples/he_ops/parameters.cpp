#include "parameters.h"

#include <algorithm>

const std::vector<parameter_set> parameter_sets = {
    {"small", 13, 5, 2, 40},
    {"medium", 14, 8, 3, 45},
    {"large", 15, 16, 4, 50},
    {"huge", 16, 32, 8, 55},
};

const parameter_set *find_parameter_set(const std::string &name) {
    for (const parameter_set &set : parameter_sets)
        if (name == set.name)
            return &set;
    return nullptr;
}

word multiply_plain_mod(word a, word b, word q) { return static_cast<word>(static_cast<wide>(a) * b % q); }

word power_mod(word base, word exponent, word q) {
    word result = 1;
    for (; exponent; exponent >>= 1, base = multiply_plain_mod(base, base, q))
        if (exponent & 1)
            result = multiply_plain_mod(result, base, q);
    return result;
}

word inverse_mod(word a, word q) { return power_mod(a % q, q - 2, q); }

// Miller and Rabin with the bases that decide for every 64-bit number.
static bool is_prime(word n) {
    static const word bases[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};
    for (word base : bases)
        if (n % base == 0)
            return n == base;
    word odd = n - 1;
    int twos = 0;
    for (; !(odd & 1); odd >>= 1)
        twos++;
    for (word base : bases) {
        word x = power_mod(base, odd, n);
        bool passes = x == 1 || x == n - 1;
        for (int i = 1; i < twos && !passes; i++) {
            x = multiply_plain_mod(x, x, n);
            passes = x == n - 1;
        }
        if (!passes)
            return false;
    }
    return true;
}

// The next prime 1 modulo 2N below 2^bits that is not taken yet.
static word next_prime(int bits, long n, const std::vector<word> &taken) {
    const word step = 2 * static_cast<word>(n);
    word candidate = ((word{1} << bits) - 1) / step * step + 1;
    for (;; candidate -= step)
        if (candidate < word{1} << bits && std::find(taken.begin(), taken.end(), candidate) == taken.end() &&
            is_prime(candidate))
            return candidate;
}

static modulus make_modulus(word q) {
    wide ratio = ~wide{0} / q; // q is odd and above one, so it does not divide 2^128
    return {q, {static_cast<word>(ratio), static_cast<word>(ratio >> 64)}};
}

static word find_root(word q, long n) {
    const word order = 2 * static_cast<word>(n);
    for (word base = 2;; base++) {
        word root = power_mod(base, (q - 1) / order, q);
        if (power_mod(root, static_cast<word>(n), q) == q - 1)
            return root;
    }
}

parameters::parameters(const parameter_set &chosen)
    : set(chosen), n(1L << chosen.log_n), primes(chosen.level + chosen.special) {
    for (int i = 0; i < primes; i++) {
        bool wide_prime = i == 0 || i >= set.level;
        values.push_back(next_prime(wide_prime ? 60 : set.scale_bits, n, values));
        table.push_back(make_modulus(values.back()));
        roots.push_back(find_root(values.back(), n));
    }
    std::vector<int> special;
    for (int i = set.level; i < primes; i++)
        special.push_back(i);
    mod_down = make_conversion(special);
    for (int i = 0; i < primes; i++) {
        word product = 1;
        for (int k : special)
            product = multiply_plain_mod(product, values[k] % values[i], values[i]);
        special_product.push_back(product);
        special_inverse.push_back(i < set.level ? inverse_mod(product, values[i]) : 0);
    }
    ups.resize(set.level + 1);
    last_inverse.resize(set.level + 1);
    for (int level = 1; level <= set.level; level++) {
        for (int digit = 0; digit < digits(level); digit++) {
            std::vector<int> own;
            for (int i = digit_begin(digit); i < digit_end(digit, level); i++)
                own.push_back(i);
            ups[level].push_back(make_conversion(own));
        }
        for (int i = 0; i < level - 1; i++)
            last_inverse[level].push_back(inverse_mod(values[level - 1], values[i]));
    }
}

int parameters::digit_end(int digit, int level) const { return std::min((digit + 1) * set.special, level); }

conversion parameters::make_conversion(const std::vector<int> &sources) const {
    conversion made;
    made.sources = static_cast<int>(sources.size());
    auto others = [&](int but, word q) {
        word product = 1;
        for (int k : sources)
            if (k != but)
                product = multiply_plain_mod(product, values[k] % q, q);
        return product;
    };
    for (int i : sources)
        made.scale.push_back(inverse_mod(others(i, values[i]), values[i]));
    for (int m = 0; m < primes; m++)
        for (int i : sources)
            made.matrix.push_back(others(i, values[m]));
    return made;
}

static void push_prepared(std::vector<word> &to, word factor, word q) {
    to.push_back(factor);
    to.push_back(static_cast<word>((static_cast<wide>(factor) << 64) / q));
}

std::vector<word> parameters::factors(bool inverse) const {
    std::vector<word> made, powers(n);
    made.reserve(2 * static_cast<size_t>(n) * primes);
    for (int prime = 0; prime < primes; prime++) {
        word q = values[prime], root = inverse ? inverse_mod(roots[prime], q) : roots[prime], power = 1;
        for (long i = 0; i < n; i++, power = multiply_plain_mod(power, root, q))
            powers[i] = power;
        for (long i = 0; i < n; i++) {
            long reversed = 0;
            for (int bit = 0; bit < set.log_n; bit++)
                reversed |= (i >> bit & 1) << (set.log_n - 1 - bit);
            push_prepared(made, powers[reversed], q);
        }
    }
    return made;
}

std::vector<word> parameters::scales() const {
    std::vector<word> made;
    for (word q : values)
        push_prepared(made, inverse_mod(static_cast<word>(n), q), q);
    return made;
}
