/* Functions of single precision over host memory that NumPy lacks or SciPy has only one by one.

   The loops are made to be vectorised, for several generations of processors where the compiler can do that.
*/
#ifndef METATENSOR_HOST_H
#define METATENSOR_HOST_H

#include <stddef.h>

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__)
#define MT_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MT_CLONES
#endif

/* The error function as z P(z z) / Q(z z), fitted to it on [-3.95, 3.95] with a relative error below 2e-9; beyond
   3.92 its nearest float is 1. In double precision, so that its rounding to float is right to 0.52 units. */
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

/* x times the normal distribution function. */
MT_CLONES static void mt_gelu32(const float *x, float *out, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i++) {
        double v = (double)x[i];
        out[i] = (float)(0.5 * v * (1.0 + mt_erf(v * 0.7071067811865476)));
    }
}

#endif
