// Operations on ciphertexts on the device, written as CKKS libraries write them: every temporary is allocated and freed
// inside the operation, every result is a new object. Key switching is the hybrid one: digits, special primes, mod-up,
// inner product, mod-down.
#ifndef HE_OPS_EVALUATOR_H
#define HE_OPS_EVALUATOR_H

#include "buffer.h"
#include "elements.h"
#include "parameters.h"

#include <map>

// Two polynomials of `level` limbs in NTT form.
struct ciphertext {
    buffer data;
    int level;
};

class evaluator {
  public:
    using cipher = ciphertext;
    using plain = buffer; // one polynomial of all ordinary limbs in NTT form

    evaluator(const parameters &set, word seed);

    const parameters &set;

    // Of a random message with coefficients below 2^20, at the highest level.
    ciphertext encrypt_random(word seed);
    buffer random_plain(word seed);

    ciphertext add(const ciphertext &a, const ciphertext &b); // operands of any level: the result has the lower one
    ciphertext multiply(const ciphertext &a, const ciphertext &b);
    ciphertext multiply_plain(const ciphertext &a, const buffer &factor);
    ciphertext rotate(const ciphertext &a, int steps); // a key for these steps exists, see rotation_steps
    ciphertext conjugate(const ciphertext &a);
    ciphertext rescale(const ciphertext &a); // drops the last prime: the level is above 1
    ciphertext drop_to(const ciphertext &a, int level);
    ciphertext mod_raise(const ciphertext &a); // from level 1 to the highest

    // What the reference needs: all limbs, NTT form.
    std::vector<word> secret() const { return secret_key.download(); }
    std::vector<word> relinearisation_key() const { return relinearisation.download(); }
    std::vector<word> galois_key(long galois) const { return galois_keys.at(galois).download(); }

  private:
    shape shape_of(int polys, int level, int special) const;
    void transform(word *data, shape s, bool inverse);
    void small_polynomial(word *out, shape s, word seed, word bound);
    buffer make_key(const word *from, word seed);
    void key_switch(word *out, const word *polynomial, int level, const buffer &key);
    void mod_down(word *out, word *sum, int level);
    ciphertext apply_galois(const ciphertext &a, long galois);

    struct device_conversion {
        buffer scale, matrix;
        int sources;
    };
    device_conversion upload(const conversion &from);

    const modulus *table() const { return reinterpret_cast<const modulus *>(moduli.data()); }
    buffer moduli, factors, inverse_factors, scales, special_product, special_inverse;
    std::vector<buffer> last_inverse;
    std::vector<std::vector<device_conversion>> ups;
    device_conversion down;
    buffer secret_key, relinearisation;
    std::map<long, buffer> galois_keys;
};

// Steps that have rotation keys.
enum { ROTATION_STEPS = 4 };
long galois_of(int steps, long n); // 5^steps modulo 2N
long conjugation(long n);          // 2N - 1

#endif
