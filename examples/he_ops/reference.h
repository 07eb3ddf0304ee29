// The same operations on the host, by other ways where there are any: a cyclic FFT of twisted coefficients for the NTT,
// automorphisms of coefficients, and the compiler's 128-bit remainder. Results are exact, so they are compared word for
// word.
#ifndef HE_OPS_REFERENCE_H
#define HE_OPS_REFERENCE_H

#include "parameters.h"

#include <map>

struct host_ciphertext {
    std::vector<word> data;
    int level;
};

class reference {
  public:
    using cipher = host_ciphertext;
    using plain = std::vector<word>;

    struct keys {
        std::vector<word> secret, relinearisation;
        std::map<long, std::vector<word>> galois;
    };
    reference(const parameters &set, keys from);

    const parameters &set;

    host_ciphertext add(const host_ciphertext &a, const host_ciphertext &b) const;
    host_ciphertext multiply(const host_ciphertext &a, const host_ciphertext &b) const;
    host_ciphertext multiply_plain(const host_ciphertext &a, const plain &factor) const;
    host_ciphertext rotate(const host_ciphertext &a, int steps) const;
    host_ciphertext conjugate(const host_ciphertext &a) const;
    host_ciphertext rescale(const host_ciphertext &a) const;
    host_ciphertext drop_to(const host_ciphertext &a, int level) const;
    host_ciphertext mod_raise(const host_ciphertext &a) const;

    // What a ciphertext decrypts to, and the same after X -> X^galois or as a product: limbs in NTT form.
    std::vector<word> phase(const host_ciphertext &a) const;
    std::vector<word> turned(const std::vector<word> &polynomial, long galois) const;
    std::vector<word> product(const std::vector<word> &a, const std::vector<word> &b) const;
    // Largest coefficient of a - b, which must be one small integer in every limb; -1: the limbs disagree.
    double distance(const std::vector<word> &a, const std::vector<word> &b) const;
    // Whether the NTT multiplies: some coefficients of a product against the sum that defines them.
    bool transform_multiplies() const;

  private:
    using limb = std::vector<word>;
    limb forward(limb coefficients, int prime) const;
    limb backward(limb values, int prime) const;
    void cyclic(limb &values, int prime, bool inverse) const;
    limb take(const std::vector<word> &from, long row) const;
    limb turn(const limb &values, int prime, long galois) const;
    host_ciphertext apply_galois(const host_ciphertext &a, long galois) const;
    std::vector<word> key_switch(const std::vector<word> &polynomial, int level, const std::vector<word> &key) const;
    std::vector<limb> convert(const std::vector<limb> &from, int first, const conversion &by,
                              const std::vector<int> &to) const;

    keys held;
    std::vector<std::vector<word>> powers; // of each prime's psi, 2N of them
};

#endif
