/* Counter-based random numbers in host memory: the arithmetic of philox.pyx.

   The generator is Philox4x64-10 (Salmon et al., 2011). Word j of a stream is word j % 4 of the block with counter
   j / 4 + 1. The code uses only integer arithmetic and IEEE double arithmetic without contraction, so that results are
   the same on every machine.
*/
#ifndef METATENSOR_PHILOX_H
#define METATENSOR_PHILOX_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Compile loops for several x86-64 levels if the compiler supports it. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__)
#define MT_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MT_CLONES
#endif

/* Unroll the following loop, so that its index is a constant. */
#if defined(__GNUC__)
#define MT_PRAGMA(text) _Pragma(#text)
#define MT_UNROLL(times) MT_PRAGMA(GCC unroll times)
#else
#define MT_UNROLL(times)
#endif

typedef struct {
    uint64_t key[2];
    uint64_t block[2]; /* 128-bit counter of the next block; the first is 1 */
} mt_stream;

static inline uint64_t mt_mulhi(uint64_t a, uint64_t b, uint64_t *low) {
#if defined(__SIZEOF_INT128__)
    unsigned __int128 p = (unsigned __int128)a * b;
    *low = (uint64_t)p;
    return (uint64_t)(p >> 64);
#else
    uint64_t al = a & 0xFFFFFFFFu, ah = a >> 32, bl = b & 0xFFFFFFFFu, bh = b >> 32;
    uint64_t middle = ah * bl + ((al * bl) >> 32), cross = al * bh + (middle & 0xFFFFFFFFu);
    *low = a * b;
    return ah * bh + (middle >> 32) + (cross >> 32);
#endif
}

/* Position the stream at the block that contains word number high * 2**64 + low. Return how many words of the block
   precede that word. */
static inline int mt_seek(mt_stream *s, uint64_t seed, uint64_t ticket, uint64_t low, uint64_t high) {
    s->key[0] = seed;
    s->key[1] = ticket;
    s->block[0] = (low >> 2 | high << 62) + 1;
    s->block[1] = (high >> 2) + (s->block[0] == 0);
    return (int)(low & 3);
}

/* Write the next blocks of four words. Interleaving blocks would not be faster, because processors overlap the
   iterations of this loop anyway. */
static void mt_blocks(mt_stream *s, uint64_t *out, ptrdiff_t blocks) {
    uint64_t keys[10][2], low = s->block[0], high = s->block[1];
    for (int round = 0; round < 10; round++) {
        keys[round][0] = s->key[0] + (uint64_t)round * UINT64_C(0x9E3779B97F4A7C15);
        keys[round][1] = s->key[1] + (uint64_t)round * UINT64_C(0xBB67AE8584CAA73B);
    }
    for (; blocks > 0; blocks--, out += 4) {
        uint64_t x0 = low, x1 = high, x2 = 0, x3 = 0;
        MT_UNROLL(10)
        for (int round = 0; round < 10; round++) {
            uint64_t low0, low1;
            uint64_t high0 = mt_mulhi(x0, UINT64_C(0xD2E7470EE14C6C93), &low0);
            uint64_t high1 = mt_mulhi(x2, UINT64_C(0xCA5A826395121157), &low1);
            x0 = high1 ^ x1 ^ keys[round][0];
            x1 = low1;
            x2 = high0 ^ x3 ^ keys[round][1];
            x3 = low0;
        }
        out[0] = x0;
        out[1] = x1;
        out[2] = x2;
        out[3] = x3;
        high += ++low == 0;
    }
    s->block[0] = low;
    s->block[1] = high;
}

/* Return the top 53 bits of a word as a double, exactly. All operations can be vectorized. */
static inline double mt_double(uint64_t word) {
    uint64_t low = (word >> 11 & UINT64_C(0xFFFFFFFF)) | UINT64_C(0x4330000000000000); /* 2**52 + the lower 32 bits */
    uint64_t high = word >> 43 | UINT64_C(0x4530000000000000);                          /* 2**84 + 2**32 times the rest */
    double a, b;
    memcpy(&a, &low, 8);
    memcpy(&b, &high, 8);
    return (b - 0x1p84) + (a - 0x1p52);
}

/* Write numbers in [low, high): low + span * k * 2**-digits, where k is the `digits` leading bits of a word and span is
   high - low. Rounding may give high, which is excluded. Replace it by low. */
MT_CLONES static void mt_uniform32(const uint64_t *words, float *out, ptrdiff_t n, int digits, float low, float span, float high) {
    const float scale = 1.0f / (float)(INT32_C(1) << digits);
    for (ptrdiff_t i = 0; i < n; i++) {
        float value = (float)(int32_t)(words[i] >> (64 - digits)) * scale * span + low;
        out[i] = value >= high ? low : value;
    }
}

MT_CLONES static void mt_uniform64(const uint64_t *words, double *out, ptrdiff_t n, double low, double span, double high) {
    for (ptrdiff_t i = 0; i < n; i++) {
        double value = mt_double(words[i]) * 0x1p-53 * span + low;
        out[i] = value >= high ? low : value;
    }
}

static inline double mt_as_double(uint64_t bits) {
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

static inline uint64_t mt_as_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    return bits;
}

/* Return 1 + k * 2**-52, where k is the `digits` lowest bits of x followed by zeros, 52 bits in all. Subtracting a number
   between 1 and 2 of at most 53 bits is exact. */
static inline double mt_one_to_two(uint64_t x, int digits) {
    return mt_as_double((x << (52 - digits) & UINT64_C(0x000FFFFFFFFFFFFF)) | UINT64_C(0x3FF0000000000000));
}

/* Return the natural logarithm of x in (0, 1], by the series of the inverse hyperbolic tangent. The error is a few
   units in the last place of the result. */
static inline double mt_log(double x) {
    const uint64_t root = UINT64_C(0x3FE6A09E667F3BCD); /* sqrt(1/2) */
    uint64_t moved = mt_as_bits(x) - root;              /* the mantissa m will be in [sqrt(1/2), sqrt(2)) */
    double m = mt_as_double((moved & UINT64_C(0x000FFFFFFFFFFFFF)) + root);
    double e = mt_as_double((moved >> 52 & 0xFFF) | UINT64_C(0x4330000000000000)) - 0x1p52;
    double f = m - 1.0, s = f / (2.0 + f), z = s * s, p = 2.0 / 19; /* z <= 0.0295: z**10 / 21 is below 2**-55 */
    e -= e > 0 ? 4096.0 : 0.0; /* x <= 1: the exponent is 0 or negative */
    p = p * z + 2.0 / 17;
    p = p * z + 2.0 / 15;
    p = p * z + 2.0 / 13;
    p = p * z + 2.0 / 11;
    p = p * z + 2.0 / 9;
    p = p * z + 2.0 / 7;
    p = p * z + 2.0 / 5;
    p = p * z + 2.0 / 3;
    return e * 0.6931471805599453 + (s * 2.0 + s * z * p);
}

typedef struct {
    double first, second;
} mt_values;

/* Return two independent normal values by the Box-Muller transform: the coordinates of a point at the distance
   sqrt(-2 log x) from the origin, in the direction (quadrant + turn) * pi / 2. x is in (0, 1), turn in (-1/2, 1/2), and
   only the last two bits of `quadrant` count. Cosine and sine are series, correct to a few units in the last place. All
   steps are IEEE operations, so that `Stream._normal` can repeat them with arrays of any library. */
static inline mt_values mt_normal_pair(double x, double turn, uint64_t quadrant, double mean, double std) {
    double radius = __builtin_sqrt(-2.0 * mt_log(x)), r = turn * 1.5707963267948966, z = r * r, c, s;
    uint64_t cosine, sine, swapped;
    c = 1.0 / 20922789888000.0; /* z is at most 0.617: the next terms, z**9 / 18! and z**8 / 17!, are below 2**-53 */
    c = c * z - 1.0 / 87178291200.0;
    c = c * z + 1.0 / 479001600.0;
    c = c * z - 1.0 / 3628800.0;
    c = c * z + 1.0 / 40320.0;
    c = c * z - 1.0 / 720.0;
    c = c * z + 1.0 / 24.0;
    c = 1.0 - z * (0.5 - z * c);
    s = -1.0 / 1307674368000.0;
    s = s * z + 1.0 / 6227020800.0;
    s = s * z - 1.0 / 39916800.0;
    s = s * z + 1.0 / 362880.0;
    s = s * z - 1.0 / 5040.0;
    s = s * z + 1.0 / 120.0;
    s = s * z - 1.0 / 6.0;
    s = r + r * z * s;
    cosine = mt_as_bits(c);
    sine = mt_as_bits(s);
    swapped = (cosine ^ sine) & (0 - (quadrant & 1));
    cosine ^= swapped ^ ((quadrant + 1) >> 1 << 63); /* negative in the quadrants 1 and 2 */
    sine ^= swapped ^ (quadrant >> 1 << 63);         /* negative in the quadrants 2 and 3 */
    return (mt_values){mt_as_double(cosine) * radius * std + mean, mt_as_double(sine) * radius * std + mean};
}

/* Write pairs of normal floats. Each pair takes one word: 32 bits for the distance, 2 for the quadrant and 30 for the
   direction within it. The values are computed in double and rounded once. */
MT_CLONES static void mt_normal32(const uint64_t *words, float *out, ptrdiff_t pairs, double mean, double std) {
    for (ptrdiff_t i = 0; i < pairs; i++) {
        double x = mt_one_to_two(words[i] >> 32, 32) - (1.0 - 0x1p-33);
        double turn = mt_one_to_two(words[i], 30) - (1.5 - 0x1p-31);
        mt_values v = mt_normal_pair(x, turn, words[i] >> 30, mean, std);
        out[2 * i] = (float)v.first;
        out[2 * i + 1] = (float)v.second;
    }
}

/* Write pairs of normal doubles. Each pair takes the word that gives the floats, and 40 bits of another word, which are
   appended to the distance and to the direction. Doubles therefore differ from floats by little more than rounding. */
MT_CLONES static void mt_normal64(const uint64_t *words, const uint64_t *more, double *out, ptrdiff_t pairs, double mean,
                                  double std) {
    for (ptrdiff_t i = 0; i < pairs; i++) {
        double x = mt_one_to_two(words[i] >> 32 << 20 | more[i] >> 44, 52) - (1.0 - 0x1p-53);
        double turn = mt_one_to_two(words[i] << 20 | (more[i] & 0xFFFFF), 50) - (1.5 - 0x1p-51);
        mt_values v = mt_normal_pair(x, turn, words[i] >> 30, mean, std);
        out[2 * i] = v.first;
        out[2 * i + 1] = v.second;
    }
}

#define MT_DIGIT 11 /* number of bits that one pass of mt_sort_random sorts by */

/* Do the same as mt_sort_random for at most 2**18 words, with two digits that are counted in one pass. */
static void mt_sort_few(uint64_t *words, uint64_t *room, ptrdiff_t n) {
    uint32_t low[1 << MT_DIGIT], high[1 << MT_DIGIT], below = 0, under = 0;
    const int digit = n < 1 << 12 ? 8 : n < 1 << 15 ? 9 : MT_DIGIT, shift = 64 - 2 * digit, top = 64 - digit;
    const uint64_t mask = ((uint64_t)1 << digit) - 1;
    memset(low, 0, sizeof(uint32_t) << digit);
    memset(high, 0, sizeof(uint32_t) << digit);
    for (ptrdiff_t i = 0; i < n; i++) {
        low[words[i] >> shift & mask]++;
        high[words[i] >> top]++;
    }
    for (int d = 0; d < 1 << digit; d++) {
        uint32_t count = low[d];
        low[d] = below;
        below += count;
        count = high[d];
        high[d] = under;
        under += count;
    }
    for (ptrdiff_t i = 0; i < n; i++) room[low[words[i] >> shift & mask]++] = words[i];
    for (ptrdiff_t i = 0; i < n; i++) words[high[room[i] >> top]++] = room[i];
}

/* Sort n uniformly random words. `room` has space for n more. Return which of the two arrays holds the result. A radix
   sort by the leading bits leaves only a few neighbours out of order, which an insertion sort then exchanges. */
static uint64_t *mt_sort_random(uint64_t *words, uint64_t *room, ptrdiff_t n) {
    int bits = MT_DIGIT;
    if (n <= 1 << 18) {
        mt_sort_few(words, room, n);
        return words;
    }
    while (bits < 5 * MT_DIGIT && n >> (bits - 2)) bits += MT_DIGIT;
    for (int shift = 64 - bits; shift < 64; shift += MT_DIGIT) {
        ptrdiff_t counts[1 << MT_DIGIT] = {0}, total = 0;
        uint64_t *swap = words;
        for (ptrdiff_t i = 0; i < n; i++) counts[words[i] >> shift & ((1 << MT_DIGIT) - 1)]++;
        for (int d = 0; d < 1 << MT_DIGIT; d++) {
            ptrdiff_t count = counts[d];
            counts[d] = total;
            total += count;
        }
        for (ptrdiff_t i = 0; i < n; i++) room[counts[words[i] >> shift & ((1 << MT_DIGIT) - 1)]++] = words[i];
        words = room;
        room = swap;
    }
    return words;
}

/* Write words[i] % span + base, given inverse = floor((2**64 - 1) / span), or words[i] + base if span is 0. The estimate
   of the quotient is at most 1 too small. */
static void mt_integers(const uint64_t *words, uint64_t *out, ptrdiff_t n, uint64_t span, uint64_t inverse, uint64_t base) {
    for (ptrdiff_t i = 0; i < n; i++) {
        uint64_t low, rest = words[i] - mt_mulhi(words[i], inverse, &low) * span;
        out[i] = (rest >= span ? rest - span : rest) + base;
    }
}

#endif
