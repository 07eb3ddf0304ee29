// Parameter sets and the constants that follow from them, computed on the host.
#ifndef HE_OPS_PARAMETERS_H
#define HE_OPS_PARAMETERS_H

#include "modular.h"

#include <string>
#include <vector>

// Sizes as CKKS libraries use them; they are not vetted for security.
struct parameter_set {
    const char *name;
    int log_n;
    int level;      // ordinary primes, the first of 60 bits
    int special;    // special primes of 60 bits, as many as a digit of key switching has primes
    int scale_bits; // of the other ordinary primes
};

extern const std::vector<parameter_set> parameter_sets;
const parameter_set *find_parameter_set(const std::string &name); // nullptr: unknown

// From `sources` primes to others: scale[i] = (S/s_i)^-1 mod s_i; matrix[m * sources + i] = S/s_i modulo prime m of
// all.
struct conversion {
    int sources;
    std::vector<word> scale, matrix;
};

class parameters {
  public:
    explicit parameters(const parameter_set &set);

    const parameter_set set;
    const long n;
    const int primes; // ordinary and special
    std::vector<word> values;
    std::vector<modulus> table;

    int digits(int level) const { return (level + set.special - 1) / set.special; }
    int digit_begin(int digit) const { return digit * set.special; }
    int digit_end(int digit, int level) const;
    const conversion &mod_up(int level, int digit) const {
        return ups[static_cast<size_t>(level)][static_cast<size_t>(digit)];
    }
    conversion mod_down;                         // from the special primes
    std::vector<word> special_product;           // P modulo each prime, 0 for the special ones
    std::vector<word> special_inverse;           // P^-1 modulo each ordinary prime
    std::vector<std::vector<word>> last_inverse; // [level]: inverse of that level's last prime modulo those before it

    word psi(int prime) const { return roots[static_cast<size_t>(prime)]; } // a primitive 2N-th root of unity
    std::vector<word> factors(bool inverse) const;                          // as the kernels want them, see elements.h
    std::vector<word> scales() const;                                       // 1/N of each prime with its quotient

  private:
    conversion make_conversion(const std::vector<int> &sources) const;
    std::vector<word> roots;
    std::vector<std::vector<conversion>> ups;
};

word multiply_plain_mod(word a, word b, word q);
word power_mod(word base, word exponent, word q);
word inverse_mod(word a, word q); // q prime

#endif
