/* Single-precision functions over host memory that NumPy does not have, or that SciPy evaluates one element at a time.

   The loops are written for auto-vectorization, with versions for several generations of processors if the compiler
   supports that. Sums are accumulated in double precision in LANES partial sums, which a compiler can vectorize.
*/
#ifndef METATENSOR_HOST_H
#define METATENSOR_HOST_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__)
#define MT_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MT_CLONES
#endif

/* The error function as z P(z z) / Q(z z), fitted on [-3.95, 3.95] with a relative error below 2e-9. Beyond 3.92 the
   nearest float is 1. Computed in double precision, so that the result rounded to float is within 0.52 ulp. */
static inline double mt_erf(double z) {
    double s = z * z, a = z < 0.0 ? -z : z, p, q, r;
    s = s > 15.6025 ? 15.6025 : s;
    p = -0x1.bd8177d977d5ap-27;
    p = p * s + 0x1.3765f63c2bb07p-18;
    p = p * s + 0x1.8c49757500ee0p-12;
    p = p * s + 0x1.f7c2af1c5c37ep-9;
    p = p * s + 0x1.bc9e50275d51dp-5;
    p = p * s + 0x1.7b3a7c8165a3bp-3;
    p = p * s + 0x1.20dd750d59025p+0;
    q = 0x1.06f11ed2f65a8p-14;
    q = q * s + 0x1.55d9a3d3e15adp-10;
    q = q * s + 0x1.fa0f5bb37ed7fp-7;
    q = q * s + 0x1.d2949fdacbb0dp-4;
    q = q * s + 0x1.fd5fe8efe890fp-2;
    q = q * s + 1.0;
    r = z * p / q;
    return a > 3.92 ? (z < 0.0 ? -1.0 : 1.0) : r;
}

MT_CLONES static void mt_erf32(const float *x, float *out, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i++) out[i] = (float)mt_erf((double)x[i]);
}

/* The natural logarithm of x in (0, 1], normal, with an absolute error below 1e-12, by the series of the inverse
   hyperbolic tangent. */
static inline double mt_log(double x) {
    uint64_t bits, biased;
    double m, e, s, z, p;
    memcpy(&bits, &x, 8);
    biased = bits - UINT64_C(0x3FE6A09E667F3BCD); /* moves the mantissa to [sqrt(1/2), sqrt(2)) */
    bits = (biased & UINT64_C(0x000FFFFFFFFFFFFF)) + UINT64_C(0x3FE6A09E667F3BCD);
    memcpy(&m, &bits, 8);
    biased = (biased >> 52 & 0xFFF) | UINT64_C(0x4330000000000000);
    memcpy(&e, &biased, 8);
    e -= 0x1p52;
    e -= e > 0.0 ? 4096.0 : 0.0; /* the exponent is 0 or negative */
    s = (m - 1.0) / (m + 1.0);
    z = s * s;
    p = 2.0 / 13;
    p = p * z + 2.0 / 11;
    p = p * z + 2.0 / 9;
    p = p * z + 2.0 / 7;
    p = p * z + 2.0 / 5;
    p = p * z + 2.0 / 3;
    p = p * z + 2.0;
    return e * 0.6931471805599453 + s * p;
}

/* The inverse error function of a float as x P(w) / Q(w) with w = -log(1 - x x), fitted on [0, 16.1], where all floats
   below 1 lie, with a relative error below 4e-10. Computed in double precision, so that the result rounded to float is
   within 0.51 ulp. */
static inline double mt_erfinv(double x) {
    double a = x < 0.0 ? -x : x, d = (1.0 - a) * (1.0 + a), w, p, q, r;
    w = -mt_log(d > 0x1p-30 ? d : 0x1p-30);
    p = -0x1.3c9cda0420569p-21;
    p = p * w + 0x1.077d3c7bd990fp-16;
    p = p * w + 0x1.0cfe89085e381p-11;
    p = p * w + 0x1.b65f2611fd857p-8;
    p = p * w + 0x1.b74f29d473e1ap-5;
    p = p * w + 0x1.263e79f8bb3a6p-2;
    p = p * w + 0x1.c5bf891dbbecbp-1;
    q = -0x1.2bb451c9ed82ap-25;
    q = q * w - 0x1.3a2ba76eb46b8p-19;
    q = q * w + 0x1.56000a8e76f55p-13;
    q = q * w + 0x1.3f6c3d29d21f0p-10;
    q = q * w + 0x1.fe14c48fad5aap-6;
    q = q * w + 0x1.ff7d872a172b6p-5;
    q = q * w + 1.0;
    r = x * p / q;
    r = a == 1.0 ? x * (double)INFINITY : r;
    return a <= 1.0 ? r : (double)NAN;
}

MT_CLONES static void mt_erfinv32(const float *x, float *out, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i++) out[i] = (float)mt_erfinv((double)x[i]);
}

/* x times the standard normal distribution function. */
MT_CLONES static void mt_gelu32(const float *x, float *out, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i++) {
        double v = (double)x[i];
        out[i] = (float)(0.5 * v * (1.0 + mt_erf(v * 0.7071067811865476)));
    }
}

/* exp(t) for t <= 0 within two ulp: a power of two times the Taylor polynomial around 0. Results below the smallest
   normal float are 0. */
static inline float mt_exp(float t) {
    float n, r, p, scale;
    uint32_t bits;
    n = t * 1.44269504f + 0x1.8p23f;
    memcpy(&bits, &n, 4);
    bits = (bits << 23) + (127u << 23);
    memcpy(&scale, &bits, 4);
    n -= 0x1.8p23f;
    r = (t - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
    p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return t < -87.0f ? 0.0f : p * scale;
}

#define LANES 16

static inline double mt_lanes(const double *lanes) {
    double total = 0.0;
    for (int k = 0; k < LANES; k++) total += lanes[k];
    return total;
}

/* Softmax of each of `rows` rows of n elements. With `zeros`, a row that is all -inf becomes zeros. */
MT_CLONES static void mt_softmax32(const float *x, float *out, ptrdiff_t rows, ptrdiff_t n, int zeros) {
    for (; rows > 0; rows--, x += n, out += n) {
        float tops[LANES], top = -INFINITY;
        double sums[LANES] = {0}, total;
        float scale;
        ptrdiff_t i = 0, k;
        for (k = 0; k < LANES; k++) tops[k] = -INFINITY;
        for (; i + LANES <= n; i += LANES)
            for (k = 0; k < LANES; k++) tops[k] = x[i + k] > tops[k] ? x[i + k] : tops[k];
        for (; i < n; i++) top = x[i] > top ? x[i] : top;
        for (k = 0; k < LANES; k++) top = tops[k] > top ? tops[k] : top;
        if (zeros && top == -INFINITY) top = 0.0f;
        for (i = 0; i + LANES <= n; i += LANES)
            for (k = 0; k < LANES; k++) {
                float e = mt_exp(x[i + k] - top);
                out[i + k] = e;
                sums[k] += (double)e;
            }
        total = mt_lanes(sums);
        for (; i < n; i++) total += (double)(out[i] = mt_exp(x[i] - top));
        scale = total == 0.0 ? 0.0f : (float)(1.0 / total);
        for (i = 0; i < n; i++) out[i] *= scale;
    }
}

/* Layer normalization of each row: (x - mean) / sqrt(variance + eps) * weight + bias. weight and bias may be NULL. */
MT_CLONES static void mt_layer_norm32(const float *x, const float *weight, const float *bias, float *out, ptrdiff_t rows,
                                      ptrdiff_t n, double eps) {
    for (; rows > 0; rows--, x += n, out += n) {
        double sums[LANES] = {0}, squares[LANES] = {0}, mean, scale;
        ptrdiff_t i, k;
        for (i = 0; i + LANES <= n; i += LANES)
            for (k = 0; k < LANES; k++) sums[k] += (double)x[i + k];
        mean = mt_lanes(sums);
        for (; i < n; i++) mean += (double)x[i];
        mean /= (double)n;
        for (i = 0; i + LANES <= n; i += LANES)
            for (k = 0; k < LANES; k++) squares[k] += ((double)x[i + k] - mean) * ((double)x[i + k] - mean);
        scale = mt_lanes(squares);
        for (; i < n; i++) scale += ((double)x[i] - mean) * ((double)x[i] - mean);
        scale = 1.0 / sqrt(scale / (double)n + eps);
        if (weight && bias)
            for (i = 0; i < n; i++) out[i] = (float)(((double)x[i] - mean) * scale * (double)weight[i] + (double)bias[i]);
        else if (weight)
            for (i = 0; i < n; i++) out[i] = (float)(((double)x[i] - mean) * scale * (double)weight[i]);
        else if (bias)
            for (i = 0; i < n; i++) out[i] = (float)(((double)x[i] - mean) * scale + (double)bias[i]);
        else
            for (i = 0; i < n; i++) out[i] = (float)(((double)x[i] - mean) * scale);
    }
}

/* Whether any index is outside [0, size). Compared as unsigned numbers, negative indices are the largest. */
static int mt_beyond64(const int64_t *index, ptrdiff_t n, int64_t size) {
    uint64_t largest = 0;
    for (ptrdiff_t i = 0; i < n; i++) largest = (uint64_t)index[i] > largest ? (uint64_t)index[i] : largest;
    return n > 0 && largest >= (uint64_t)size;
}

static int mt_beyond32(const int32_t *index, ptrdiff_t n, int64_t size) {
    uint32_t largest = 0;
    for (ptrdiff_t i = 0; i < n; i++) largest = (uint32_t)index[i] > largest ? (uint32_t)index[i] : largest;
    return n > 0 && (largest >> 31 || (uint64_t)largest >= (uint64_t)size);
}

#endif
