#include "kernels.h"

static __device__ long own_number() { return static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x; }

#define FOR_EACH(call)         \
    do {                       \
        long x = own_number(); \
        if (x < count)         \
            call;              \
    } while (0)

__global__ void he_uniform(long count, word *out, const modulus *table, shape s, word seed) {
    FOR_EACH(uniform_element(x, out, table, s, seed));
}

__global__ void he_small(long count, word *out, const modulus *table, shape s, word seed, word bound) {
    FOR_EACH(small_element(x, out, table, s, seed, bound));
}

__global__ void he_hide(long count, word *out, const word *noise, const word *mask, const word *secret,
                        const modulus *table, shape s) {
    FOR_EACH(hide_element(x, out, noise, mask, secret, table, s));
}

__global__ void he_gadget(long count, word *key, const word *from, const word *special_product, const modulus *table,
                          shape s) {
    FOR_EACH(gadget_element(x, key, from, special_product, table, s));
}

__global__ void he_add(long count, word *out, const word *a, const word *b, const modulus *table, shape s, int a_limbs,
                       int b_limbs) {
    FOR_EACH(add_element(x, out, a, b, table, s, a_limbs, b_limbs));
}

__global__ void he_multiply(long count, word *out, const word *a, const word *factor, const modulus *table, shape s,
                            int a_limbs) {
    FOR_EACH(multiply_element(x, out, a, factor, table, s, a_limbs));
}

__global__ void he_tensor(long count, word *out, const word *a, const word *b, const modulus *table, shape s,
                          int a_limbs, int b_limbs) {
    FOR_EACH(tensor_element(x, out, a, b, table, s, a_limbs, b_limbs));
}

__global__ void he_automorphism(long count, word *out, const word *in, shape s, long galois, int in_limbs) {
    FOR_EACH(automorphism_element(x, out, in, s, galois, in_limbs));
}

__global__ void he_scale(long count, word *out, const word *in, const word *scale, const modulus *table, shape s) {
    FOR_EACH(scale_element(x, out, in, scale, table, s));
}

__global__ void he_convert(long count, word *out, const word *scaled, const word *matrix, const modulus *table, shape s,
                           int sources) {
    FOR_EACH(convert_element(x, out, scaled, matrix, table, s, sources));
}

__global__ void he_lift(long count, word *out, const word *in, const modulus *table, shape s, int from) {
    FOR_EACH(lift_element(x, out, in, table, s, from));
}

__global__ void he_divide(long count, word *out, const word *in, const word *rest, const word *inverses,
                          const modulus *table, shape s, int in_limbs) {
    FOR_EACH(divide_element(x, out, in, rest, inverses, table, s, in_limbs));
}

__global__ void he_inner(long count, word *sum, const word *extended, const word *key, const modulus *table, shape s,
                         int first, int key_limbs) {
    FOR_EACH(inner_element(x, sum, extended, key, table, s, first, key_limbs));
}

__global__ void he_ntt_outer(long count, word *data, const word *factors, const modulus *table, shape s) {
    FOR_EACH(outer_element(x, data, factors, table, s));
}

__global__ void he_intt_outer(long count, word *data, const word *factors, const word *scales, const modulus *table,
                              shape s) {
    FOR_EACH(outer_inverse_element(x, data, factors, scales, table, s));
}

static __device__ void inner_stages(word *data, const word *factors, const modulus *table, const shape &s,
                                    bool inverse) {
    __shared__ word words[1 << INNER_LOG];
    const int blocks_log = s.log_n - INNER_LOG;
    place p = find_part(blockIdx.x, s, blocks_log);
    word *own = limb_at(data, p, s) + (p.in_limb << INNER_LOG);
    const word *limb_factors = factors_of(factors, p.modulus, s.log_n), q = table[p.modulus].value;
    for (int i = threadIdx.x; i < 1 << INNER_LOG; i += blockDim.x)
        words[i] = own[i];
    for (int step = 0; step < INNER_LOG; step++) {
        __syncthreads();
        for (int pair = threadIdx.x; pair < 1 << (INNER_LOG - 1); pair += blockDim.x)
            inner_butterfly(words, pair, inverse ? INNER_LOG - 1 - step : step, p.in_limb, 1L << blocks_log,
                            limb_factors, q, inverse);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 1 << INNER_LOG; i += blockDim.x)
        own[i] = words[i];
}

__global__ void he_ntt_inner(long count, word *data, const word *factors, const modulus *table, shape s) {
    if (blockIdx.x < count)
        inner_stages(data, factors, table, s, false);
}

__global__ void he_intt_inner(long count, word *data, const word *factors, const modulus *table, shape s) {
    if (blockIdx.x < count)
        inner_stages(data, factors, table, s, true);
}
