// Host twins of the kernels for the simulated CUDA, see tools/sim/simcuda.h. On a GPU nothing here is used.
#include "elements.h"
#include "tools/sim/simcuda.h"

#include <utility>

// Calls `element` for every x below the first argument, with the others.
template <typename... A, std::size_t... I>
static void each(const simcuda_launch *launch, void (*element)(long, A...), std::index_sequence<I...>) {
    const long count = *static_cast<long *>(launch->args[0]);
    for (long x = 0; x < count; x++)
        element(x, *static_cast<A *>(launch->args[I + 1])...);
}

template <typename... A> static void each(const simcuda_launch *launch, void (*element)(long, A...)) {
    each(launch, element, std::index_sequence_for<A...>());
}

static void inner_block(long block, word *data, const word *factors, const modulus *table, const shape &s,
                        bool inverse) {
    const int blocks_log = s.log_n - INNER_LOG;
    place p = find_part(block, s, blocks_log);
    word *words = limb_at(data, p, s) + (p.in_limb << INNER_LOG);
    for (int step = 0; step < INNER_LOG; step++)
        for (int pair = 0; pair < 1 << (INNER_LOG - 1); pair++)
            inner_butterfly(words, pair, inverse ? INNER_LOG - 1 - step : step, p.in_limb, 1L << blocks_log,
                            factors_of(factors, p.modulus, s.log_n), table[p.modulus].value, inverse);
}

static void ntt_inner_block(long block, word *data, const word *factors, const modulus *table, shape s) {
    inner_block(block, data, factors, table, s, false);
}

static void intt_inner_block(long block, word *data, const word *factors, const modulus *table, shape s) {
    inner_block(block, data, factors, table, s, true);
}

static_assert(sizeof(shape) == 36, "the parameters below say [36]");

#define TWIN(kernel, params, element)                                                 \
    static void run_##kernel(const simcuda_launch *launch) { each(launch, element); } \
    SIMCUDA_TWIN(kernel, params, run_##kernel)

TWIN(he_uniform, "8pp[36]8", uniform_element);
TWIN(he_small, "8pp[36]88", small_element);
TWIN(he_hide, "8ppppp[36]", hide_element);
TWIN(he_gadget, "8pppp[36]", gadget_element);
TWIN(he_add, "8pppp[36]44", add_element);
TWIN(he_multiply, "8pppp[36]4", multiply_element);
TWIN(he_tensor, "8pppp[36]44", tensor_element);
TWIN(he_automorphism, "8pp[36]84", automorphism_element);
TWIN(he_scale, "8pppp[36]", scale_element);
TWIN(he_convert, "8pppp[36]4", convert_element);
TWIN(he_lift, "8ppp[36]4", lift_element);
TWIN(he_divide, "8ppppp[36]4", divide_element);
TWIN(he_inner, "8pppp[36]44", inner_element);
TWIN(he_ntt_outer, "8ppp[36]", outer_element);
TWIN(he_intt_outer, "8pppp[36]", outer_inverse_element);
TWIN(he_ntt_inner, "8ppp[36]", ntt_inner_block);
TWIN(he_intt_inner, "8ppp[36]", intt_inner_block);
