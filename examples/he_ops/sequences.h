// Sequences of operations, for the device's evaluator and for the host's reference alike.
#ifndef HE_OPS_SEQUENCES_H
#define HE_OPS_SEQUENCES_H

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

enum { DIAGONALS = 9, BABY_STEPS = 4, CONVOLUTION_TAPS = 9 };

template <class E> struct material {
    std::vector<typename E::cipher> inputs;
    std::vector<typename E::plain> diagonals; // DIAGONALS of them
};

inline int transform_stages(int level) { return level < 8 ? 1 : level < 16 ? 2 : 3; }
inline int level_after_bootstrap(int level) { return std::max(2, level / 4); }

// Baby steps and giant steps over eight diagonals; takes one level.
template <class E>
typename E::cipher linear_transform(E &on, const typename E::cipher &in,
                                    const std::vector<typename E::plain> &diagonals) {
    std::vector<typename E::cipher> babies;
    babies.push_back(on.drop_to(in, in.level));
    for (int step = 1; step < BABY_STEPS; step++)
        babies.push_back(on.rotate(in, step));
    auto giant = [&](int first) {
        auto sum = on.multiply_plain(babies[0], diagonals[first]);
        for (int step = 1; step < BABY_STEPS; step++)
            sum = on.add(sum, on.multiply_plain(babies[step], diagonals[first + step]));
        return sum;
    };
    auto low = giant(0);
    return on.rescale(on.add(low, on.rotate(giant(BABY_STEPS), BABY_STEPS)));
}

// The steps of a CKKS bootstrapping: coefficients to slots, both conjugates, repeated squaring in place of the sine's
// polynomial, slots to coefficients. What it computes is exact arithmetic, not a refreshed message.
template <class E> typename E::cipher bootstrap(E &on, const material<E> &with, const typename E::cipher &in) {
    const int top = on.set.set.level, stages = transform_stages(top), left = level_after_bootstrap(top);
    auto now = on.mod_raise(on.drop_to(in, 1));
    for (int stage = 0; stage < stages; stage++)
        now = linear_transform(on, now, with.diagonals);
    auto conjugate = on.conjugate(now);
    now = on.add(now, conjugate);
    while (now.level > left + stages) {
        auto square = on.rescale(on.multiply(now, now));
        now = on.add(square, square);
    }
    now = on.add(now, conjugate);
    for (int stage = 0; stage < stages; stage++)
        now = linear_transform(on, now, with.diagonals);
    return now;
}

// Layers of a residual network: convolution by rotations and plain factors, a square as activation, a shortcut over two
// layers, and bootstrapping whenever no level is left for the next step.
template <class E>
typename E::cipher residual_network(E &on, const material<E> &with, const typename E::cipher &in, int layers) {
    auto now = on.drop_to(in, in.level), shortcut = on.drop_to(in, in.level);
    auto refresh = [&] {
        if (now.level < 2)
            now = bootstrap(on, with, now);
    };
    for (int layer = 0; layer < layers; layer++) {
        refresh();
        auto far = on.rotate(now, ROTATION_STEPS);
        auto sum = on.multiply_plain(now, with.diagonals[0]);
        for (int tap = 1; tap < CONVOLUTION_TAPS; tap++) {
            auto turned = tap <= ROTATION_STEPS ? on.rotate(now, tap) : on.rotate(far, tap - ROTATION_STEPS);
            sum = on.add(sum, on.multiply_plain(turned, with.diagonals[tap]));
        }
        now = on.rescale(sum);
        refresh();
        now = on.rescale(on.multiply(now, now));
        if (layer % 2) {
            now = on.add(now, shortcut);
            shortcut = on.drop_to(now, now.level);
        }
    }
    return now;
}

inline const std::vector<std::string> &single_operations() {
    static const std::vector<std::string> names = {"add",    "multiply",  "multiply_plain",
                                                   "rotate", "conjugate", "rescale"};
    return names;
}

// One iteration of the operation of this name; operands change from iteration to iteration.
template <class E>
typename E::cipher run_operation(E &on, const material<E> &with, const std::string &name, long iteration, int layers) {
    const size_t count = with.inputs.size();
    const auto &a = with.inputs[2 * iteration % count], &b = with.inputs[(2 * iteration + 1) % count];
    if (name == "add")
        return on.add(a, b);
    if (name == "multiply")
        return on.multiply(a, b);
    if (name == "multiply_plain")
        return on.multiply_plain(a, with.diagonals[iteration % DIAGONALS]);
    if (name == "rotate")
        return on.rotate(a, 1 + static_cast<int>(iteration % ROTATION_STEPS));
    if (name == "conjugate")
        return on.conjugate(a);
    if (name == "rescale")
        return on.rescale(a);
    if (name == "bootstrap")
        return bootstrap(on, with, a);
    return residual_network(on, with, a, layers);
}

#endif
