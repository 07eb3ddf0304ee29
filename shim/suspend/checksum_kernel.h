/* The kernel of checksum.h as text that every driver since CUDA 9 translates for the card at hand. One block of threads
 * reads one page; a thread reads four words and skips those of the others.
 *
 * Numbers modulo p = 2^61 - 1 are kept below p + 8. The 122 bits of a product lie in hi:lo. Since 2^61 = 1, the bits
 * from the 61st on are added to the others, and those of that sum once more. */
#ifndef GM_SUSPEND_CHECKSUM_KERNEL_H
#define GM_SUSPEND_CHECKSUM_KERNEL_H

#define GM_CHECKSUM_KERNEL "gm_checksum_pages"
#define GM_CHECKSUM_BLOCK  256 /* threads; also in the text */

/* hi:lo modulo p */
#define REDUCE(to)            \
    "shl.b64 hi, hi, 3;\n"    \
    "shr.u64 over, lo, 61;\n" \
    "or.b64 hi, hi, over;\n"  \
    "and.b64 lo, lo, p;\n"    \
    "add.u64 " to ", lo, hi;\n" FOLD(to)
#define FOLD(to)                   \
    "shr.u64 over, " to ", 61;\n"  \
    "and.b64 " to ", " to ", p;\n" \
    "add.u64 " to ", " to ", over;\n"
#define MULTIPLY(a, b)  "mul.lo.u64 lo, " a ", " b ";\nmul.hi.u64 hi, " a ", " b ";\n"
#define TIMES(to, a, b) MULTIPLY(a, b) REDUCE(to)
#define ADD_TIMES(a, b) "mad.lo.cc.u64 lo, " a ", " b ", lo;\nmadc.hi.u64 hi, " a ", " b ", hi;\n"
#define SQUARE(a)       TIMES(a, a, a)

#define POWERS(k)                           \
    TIMES("square" k, "key" k, "key" k)     \
    TIMES("cube" k, "square" k, "key" k)    \
    TIMES("four" k, "square" k, "square" k) \
    "mov.u64 row" k ", four" k ";\n"        \
    "mov.u64 sum" k ", 0;\n"

#define LOAD(at, words) "ld.global.v4.u32 {" words "0, " words "1, " words "2, " words "3}, [from + " at "];\n"
#define WIDEN(words)                                             \
    "cvt.u64.u32 w0, " words "0;\ncvt.u64.u32 w1, " words "1;\n" \
    "cvt.u64.u32 w2, " words "2;\ncvt.u64.u32 w3, " words "3;\n"
#define FOUR_WORDS(k)           \
    MULTIPLY("sum" k, "row" k)  \
    ADD_TIMES("w0", "cube" k)   \
    ADD_TIMES("w1", "square" k) \
    ADD_TIMES("w2", "key" k) "add.cc.u64 lo, lo, w3;\naddc.u64 hi, hi, 0;\n" REDUCE("sum" k)

/* The sum of the threads from this one on is multiplied with the power of their number, and the other half's is added.
 */
#define JOIN(k, at)                   \
    TIMES("sum" k, "sum" k, "four" k) \
    "ld.shared.u64 other, [there + " at "];\nadd.u64 sum" k ", sum" k ", other;\n" FOLD("sum" k) SQUARE("four" k)

#define FINISH(k)                        \
    FOLD("sum" k)                        \
    "setp.ge.u64 over_p, sum" k ", p;\n" \
    "@over_p sub.u64 sum" k ", sum" k ", p;\n"

/* clang-format off */
static const char gm_checksum_text[] =
    ".version 6.0\n"
    ".target sm_50\n"
    ".address_size 64\n"
    ".visible .entry " GM_CHECKSUM_KERNEL "(\n"
    "    .param .u64 pages, .param .u64 sums, .param .u64 first_key, .param .u64 second_key)\n"
    ".maxntid 256, 1, 1\n"
    "{\n"
    ".shared .align 16 .b8 parts[4096];\n"
    ".reg .pred more, over_p, rest;\n"
    ".reg .u32 thread, page, left, stride, a<4>, b<4>;\n"
    ".reg .u64 p, lo, hi, over, from, here, there, other, at, w<4>;\n"
    ".reg .u64 key<2>, square<2>, cube<2>, four<2>, row<2>, sum<2>;\n"
    "mov.u64 p, 0x1fffffffffffffff;\n"
    "ld.param.u64 key0, [first_key];\n"
    "ld.param.u64 key1, [second_key];\n"
    POWERS("0") POWERS("1")
    "mov.u32 left, 8;\n" /* row: the key to the power of 1024 */
    "rows:\n"
    SQUARE("row0") SQUARE("row1")
    "sub.u32 left, left, 1;\n"
    "setp.ne.u32 more, left, 0;\n"
    "@more bra rows;\n"

    "mov.u32 thread, %tid.x;\n"
    "mov.u32 page, %ctaid.x;\n"
    "ld.param.u64 at, [pages];\n"
    "mul.wide.u32 other, page, 8;\n"
    "add.u64 at, at, other;\n"
    "ld.global.u64 from, [at];\n"
    "mul.wide.u32 other, thread, 16;\n"
    "add.u64 from, from, other;\n"
    "mov.u32 left, 256;\n"
    "words:\n" /* of two rows of 1024 words */
    LOAD("0", "a") LOAD("4096", "b")
    WIDEN("a") FOUR_WORDS("0") FOUR_WORDS("1")
    WIDEN("b") FOUR_WORDS("0") FOUR_WORDS("1")
    "add.u64 from, from, 8192;\n"
    "sub.u32 left, left, 1;\n"
    "setp.ne.u32 more, left, 0;\n"
    "@more bra words;\n"

    "mov.u64 at, parts;\n"
    "add.u64 here, at, other;\n"
    "mov.u32 stride, 1;\n"
    "halves:\n"
    "st.shared.v2.u64 [here], {sum0, sum1};\n"
    "bar.sync 0;\n"
    "add.u32 left, thread, stride;\n"
    "and.b32 left, left, 255;\n" /* what a thread adds that has no other half is not used */
    "mul.wide.u32 there, left, 16;\n"
    "add.u64 there, there, at;\n"
    JOIN("0", "0") JOIN("1", "8")
    "bar.sync 0;\n"
    "shl.b32 stride, stride, 1;\n"
    "setp.lt.u32 more, stride, 256;\n"
    "@more bra halves;\n"

    FINISH("0") FINISH("1")
    "setp.ne.u32 rest, thread, 0;\n"
    "@rest bra done;\n"
    "ld.param.u64 at, [sums];\n"
    "mul.wide.u32 other, page, 16;\n"
    "add.u64 at, at, other;\n"
    "st.global.v2.u64 [at], {sum0, sum1};\n"
    "done:\n"
    "ret;\n"
    "}\n";
/* clang-format on */

#undef REDUCE
#undef FOLD
#undef MULTIPLY
#undef TIMES
#undef ADD_TIMES
#undef SQUARE
#undef POWERS
#undef LOAD
#undef WIDEN
#undef FOUR_WORDS
#undef JOIN
#undef FINISH

#endif
