// What one thread does with its element of a group of chunks; the kernels and their host twins share it.
#ifndef CHUNKS_ELEMENTS_H
#define CHUNKS_ELEMENTS_H

#ifdef __CUDACC__
#define BOTH __host__ __device__ inline
#else
#define BOTH inline
#endif

enum { CHUNK = 4096, PAIR = 2, POINTS = 8 };

struct point {
    float re, im;
};

enum { ADD_ELEMENTS = CHUNK / sizeof(unsigned), BUTTERFLY_ELEMENTS = CHUNK / sizeof(point) };

BOTH void add_element(void *const *chunks, int i) {
    static_cast<unsigned *>(chunks[0])[i] += static_cast<const unsigned *>(chunks[1])[i];
}

BOTH point plus(point a, point b) { return {a.re + b.re, a.im + b.im}; }
BOTH point minus(point a, point b) { return {a.re - b.re, a.im - b.im}; }

// a * exp(-i pi k / 4) for k = 0 to 3.
BOTH point turned(point a, int k) {
    const float half = 0.70710678f;
    switch (k) {
    case 1: return {half * (a.re + a.im), half * (a.im - a.re)};
    case 2: return {a.im, -a.re};
    case 3: return {half * (a.im - a.re), -half * (a.re + a.im)};
    default: return a;
    }
}

// The 8-point discrete Fourier transform across eight chunks: three stages of radix-2 butterflies, decimation in
// frequency, results in natural order, scaled to keep the norm.
BOTH void butterfly_element(void *const *chunks, int i) {
    const float scale = 0.35355339f;
    point held[POINTS];
    for (int k = 0; k < POINTS; k++)
        held[k] = static_cast<const point *>(chunks[k])[i];
    for (int half = POINTS / 2; half >= 1; half /= 2)
        for (int pair = 0; pair < POINTS / 2; pair++) {
            int low = 2 * (pair / half) * half + pair % half;
            point sum = plus(held[low], held[low + half]), difference = minus(held[low], held[low + half]);
            held[low] = sum;
            held[low + half] = turned(difference, pair % half * (POINTS / 2 / half));
        }
    for (int k = 0; k < POINTS; k++) {
        int reversed = (k & 1) << 2 | (k & 2) | k >> 2;
        static_cast<point *>(chunks[reversed])[i] = {scale * held[k].re, scale * held[k].im};
    }
}

#endif
