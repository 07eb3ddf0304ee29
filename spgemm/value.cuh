/* Types of values: float, double, complex numbers of both, numbers of the semiring min-plus, and none for patterns.
 * Kernels add by += and multiply by *. T(0) changes no sum, and T(1) changes no product. */
#ifndef SPG_VALUE_CUH
#define SPG_VALUE_CUH

#include "spgemm/both.h"
#include "spgemm/matrix.h"

#include <cmath>
#include <cstdint>

/* One rounding, also where the compiler would keep a product that it uses twice. */
template <typename R> inline SPG_BOTH R spg_plus_product(R sum, R factor, R value) {
#ifdef __CUDA_ARCH__
    return fma(factor, value, sum);
#else
    return factor * value + sum;
#endif
}

/* The layout of C's complex numbers. */
template <typename R> struct alignas(2 * sizeof(R)) spg_complex {
    R re = 0, im = 0;

    spg_complex() = default;
    SPG_BOTH spg_complex(R real, R imaginary = 0) : re(real), im(imaginary) {}
    SPG_BOTH spg_complex &operator+=(const spg_complex &other) {
        re += other.re;
        im += other.im;
        return *this;
    }
};
template <typename R> inline SPG_BOTH spg_complex<R> operator*(const spg_complex<R> &a, const spg_complex<R> &b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
/* The same order of roundings in every kernel, so that a sum has the same bits whichever kernel computes it. */
template <typename R>
inline SPG_BOTH spg_complex<R> spg_plus_product(const spg_complex<R> &sum, const spg_complex<R> &factor,
                                                const spg_complex<R> &value) {
    return {spg_plus_product(spg_plus_product(sum.re, factor.re, value.re), -factor.im, value.im),
            spg_plus_product(spg_plus_product(sum.im, factor.re, value.im), factor.im, value.re)};
}

/* The value of an entry that has only a position. It takes a byte where kernels keep sums, and none in matrices. */
struct spg_pattern {
    spg_pattern() = default;
    SPG_BOTH spg_pattern(int) {}
    SPG_BOTH spg_pattern &operator+=(spg_pattern) { return *this; }
};
inline SPG_BOTH spg_pattern operator*(spg_pattern, spg_pattern) { return {}; }
inline SPG_BOTH spg_pattern spg_plus_product(spg_pattern, spg_pattern, spg_pattern) { return {}; }

/* The semiring min-plus: the sum is the minimum, the product is the sum. So 0 is infinity, and 1 is the number 0. */
template <typename R> struct spg_min_plus {
    R number = static_cast<R>(INFINITY);

    spg_min_plus() = default;
    SPG_BOTH spg_min_plus(int one) : number(static_cast<R>(one ? 0 : INFINITY)) {}
    static SPG_BOTH spg_min_plus of(R number) {
        spg_min_plus made;
        made.number = number;
        return made;
    }
    SPG_BOTH spg_min_plus &operator+=(const spg_min_plus &other) {
        number = other.number < number ? other.number : number;
        return *this;
    }
};
template <typename R> inline SPG_BOTH spg_min_plus<R> operator*(const spg_min_plus<R> &a, const spg_min_plus<R> &b) {
    return spg_min_plus<R>::of(a.number + b.number);
}
template <typename R>
inline SPG_BOTH spg_min_plus<R> spg_plus_product(spg_min_plus<R> sum, const spg_min_plus<R> &factor,
                                                 const spg_min_plus<R> &value) {
    return sum += factor * value;
}

template <typename T> constexpr bool spg_has_value = true;
template <> constexpr bool spg_has_value<spg_pattern> = false;

/* Whether T(0) consists of zero bits. */
template <typename T> constexpr bool spg_zero_is_clear = true;
template <typename R> constexpr bool spg_zero_is_clear<spg_min_plus<R>> = false;

/* An element of an array of values, and an assignment to one; nothing for patterns, whose arrays do not exist. */
template <typename T> inline SPG_BOTH T spg_read_value(const T *values, int64_t at) {
    if constexpr (spg_has_value<T>)
        return values[at];
    else
        return T();
}
template <typename T> inline SPG_BOTH void spg_write_value(T *values, int64_t at, const T &value) {
    if constexpr (spg_has_value<T>)
        values[at] = value;
}

template <typename R> inline SPG_BOTH R spg_conjugate(R value) { return value; }
template <typename R> inline SPG_BOTH spg_complex<R> spg_conjugate(const spg_complex<R> &value) {
    return {value.re, -value.im};
}

/* Sums over threads exchange values by shuffles, one number at a time. */
template <typename R> inline __device__ R spg_from_before(R value) { return __shfl_up_sync(~0u, value, 1); }
template <typename R> inline __device__ spg_complex<R> spg_from_before(const spg_complex<R> &value) {
    return {__shfl_up_sync(~0u, value.re, 1), __shfl_up_sync(~0u, value.im, 1)};
}
template <typename R> inline __device__ spg_min_plus<R> spg_from_before(const spg_min_plus<R> &value) {
    return spg_min_plus<R>::of(__shfl_up_sync(~0u, value.number, 1));
}
inline __device__ spg_pattern spg_from_before(spg_pattern) { return {}; }
template <typename R> inline __device__ R spg_from_other(R value, int lanes) {
    return __shfl_xor_sync(~0u, value, lanes);
}
template <typename R> inline __device__ spg_complex<R> spg_from_other(const spg_complex<R> &value, int lanes) {
    return {__shfl_xor_sync(~0u, value.re, lanes), __shfl_xor_sync(~0u, value.im, lanes)};
}
template <typename R> inline __device__ spg_min_plus<R> spg_from_other(const spg_min_plus<R> &value, int lanes) {
    return spg_min_plus<R>::of(__shfl_xor_sync(~0u, value.number, lanes));
}
inline __device__ spg_pattern spg_from_other(spg_pattern, int) { return {}; }

/* Kernels for semirings are compiled where they are wanted. */
#ifdef SPG_SEMIRINGS
#define SPG_BY_SEMIRING(precision, what, ...)                                     \
    (precision) == SPG_MIN_PLUS_DOUBLE  ? what<spg_min_plus<double>>(__VA_ARGS__) \
    : (precision) == SPG_MIN_PLUS_FLOAT ? what<spg_min_plus<float>>(__VA_ARGS__)  \
                                        :
#else
#define SPG_BY_SEMIRING(precision, what, ...)
#endif

/* Calls WHAT<T>(...) for the type of the precision. */
#define SPG_BY_VALUE(precision, what, ...)                                               \
    ((precision) == SPG_FLOAT            ? what<float>(__VA_ARGS__)                      \
     : (precision) == SPG_DOUBLE         ? what<double>(__VA_ARGS__)                     \
     : (precision) == SPG_COMPLEX_FLOAT  ? what<spg_complex<float>>(__VA_ARGS__)         \
     : (precision) == SPG_COMPLEX_DOUBLE ? what<spg_complex<double>>(__VA_ARGS__)        \
                                         : SPG_BY_SEMIRING(precision, what, __VA_ARGS__) \
                                               what<spg_pattern>(__VA_ARGS__))

#endif
