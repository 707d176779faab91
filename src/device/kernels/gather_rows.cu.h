/*
 * Rows of a table in the host's memory, gathered by the card itself: out[i] = table[ids[i]], as they are or converted.
 * A row that is not there is zero, and the fault says so.
 *
 * A few lanes (threads side by side, a power of two) read a row together, a word each; the bus carries lines of 128
 * bytes. Rows whose size is no multiple of it begin anywhere in a line, and each group of lanes that reads 128 bytes
 * would touch two lines. So lanes are shifted in a circle, as PyTorch-Direct does (arXiv 2103.03330): the lane that
 * stands at the first byte of a line in its group reads a first byte of a line, and the lanes that stand before the
 * row's begin take the words behind its last whole circle:
 *
 *     lines     |        row begins  |                    |                    |
 *     words     |        0 1 2 3 4 5 | 6 7 8 9 ...        | ...           18 19|
 *     lanes     | 6' 7'  0 1 2 3 4 5 | (next group)
 *
 * Each line is then requested once, and no lane does more turns than without. Writes follow the reads, to the card's
 * own memory.
 */
#include "device/kernels/gather_rows.h"
#include "device/kernels/kernel.h"

/* Numbers of enum leat_dtype. 0: bytes are copied. */
enum { FROM_U8 = 1, FROM_I8, FROM_U16, FROM_I16, FROM_U32, FROM_I32, FROM_U64, FROM_I64, FROM_F16, FROM_BF16 };
enum { FROM_F32 = 11, FROM_F64, FROM_BOOL };

KERNEL_FUNCTION u32 gather_size(u32 from)
{
    return from == FROM_U8 || from == FROM_I8 || from == FROM_BOOL                         ? 1
           : from == FROM_U16 || from == FROM_I16 || from == FROM_F16 || from == FROM_BF16 ? 2
           : from == FROM_U32 || from == FROM_I32 || from == FROM_F32                      ? 4
                                                                                           : 8;
}

/* The bits of a float16 as those of the float32 that is the same number. */
KERNEL_FUNCTION u32 gather_half(u32 h)
{
    const u32 sign = (h & 0x8000) << 16, rest = (h & 0x7fff) << 13;
    if ((h & 0x7c00) == 0x7c00)
        return sign | 0x7f800000 | (rest & 0x7fffff);
    if (h & 0x7c00)
        return sign | (rest + (112u << 23));
    return sign | kernel_float_bits((float)(h & 0x3ff) * 0x1p-24f); /* subnormal: a multiple of 2^-24 */
}

/* The bits of a float64 as those of the nearest float32. A NaN keeps its sign and the upper bits of its payload and
 * becomes quiet, as by processors; a card's own conversion knows one NaN. */
KERNEL_FUNCTION u32 gather_double(u64 bits)
{
    if (bits << 1 > 0xffe0000000000000)
        return (u32)(bits >> 32 & 0x80000000) | 0x7fc00000 | (u32)(bits >> 29 & 0x3fffff);
    return kernel_float_bits((float)kernel_bits_double(bits));
}

/* The bits of a float32 as those of the nearest float16 or bfloat16, of two the even one. A NaN stays one. */
KERNEL_FUNCTION u32 gather_to_half(u32 bits)
{
    const u32 sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000)
        return sign | 0x7e00 | (rest >> 13 & 0x3ff);
    if (rest >= 0x477ff000) /* 65520 */
        return sign | 0x7c00;
    if (rest < 0x38800000) /* subnormal: the adder rounds to a multiple of 2^-24 */
        return sign | (kernel_float_bits(kernel_bits_float(rest) + 0.5f) - 0x3f000000);
    return sign | ((rest + 0xfff + (rest >> 13 & 1) - (112u << 23)) >> 13);
}
KERNEL_FUNCTION u32 gather_to_bfloat(u32 bits)
{
    return (bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* Value `e` of those in a word, as the bits of a float32. */
KERNEL_FUNCTION u32 gather_value(const u32 *parts, u32 e, u32 from)
{
    const u32 size = gather_size(from), at = e * size;
    const u32 low = parts[at / 4] >> 8 * (at % 4);
    const u64 wide = size == 8 ? (u64)parts[at / 4 + 1] << 32 | low : 0;
    switch (from) {
    case FROM_U8:
        return kernel_float_bits((float)(u8)low);
    case FROM_I8:
        return kernel_float_bits((float)(signed char)low);
    case FROM_U16:
        return kernel_float_bits((float)(u16)low);
    case FROM_I16:
        return kernel_float_bits((float)(short)low);
    case FROM_U32:
        return kernel_float_bits((float)low);
    case FROM_I32:
        return kernel_float_bits((float)(int)low);
    case FROM_U64:
        return kernel_float_bits((float)wide);
    case FROM_I64:
        return kernel_float_bits((float)(s64)wide);
    case FROM_F16:
        return gather_half(low & 0xffff);
    case FROM_BF16:
        return low << 16;
    case FROM_F64:
        return gather_double(wide);
    case FROM_BOOL:
        return kernel_float_bits((low & 0xff) != 0 ? 1.0f : 0.0f);
    default:
        return low;
    }
}

/* Writes the values of a word. `as`: FROM_F32, FROM_F16 or FROM_BF16. */
KERNEL_FUNCTION void gather_store(u8 *out, const u32 *parts, u32 word, u32 from, u32 as)
{
    const u32 n = word / gather_size(from), together = n < 4 ? n : 4;
    KERNEL_UNROLL
    for (u32 e = 0; e < n; e += together) {
        u32 values[4] = {0, 0, 0, 0};
        KERNEL_UNROLL
        for (u32 i = 0; i < together; i++)
            values[i] = gather_value(parts, e + i, from);
        if (as == FROM_F32) {
            kernel_store(out + 4 * e, 4 * together, values);
            continue;
        }
        KERNEL_UNROLL
        for (u32 i = 0; i < together; i++)
            values[i] = as == FROM_F16 ? gather_to_half(values[i]) : gather_to_bfloat(values[i]);
        values[0] |= values[1] << 16;
        values[1] = values[2] | values[3] << 16;
        kernel_store(out + 2 * e, 2 * together, values);
    }
}

/* `word`: bytes of a word, 1 to 16, a power of two, of which table and rows are multiples, and at least those of a
 * value. `from`: the type of values that are converted; 0: they are copied. */
KERNEL_FUNCTION void gather_rows(struct leat_gather_args a, u32 word, u32 from)
{
    const u32 lanes = 1u << a.lanes_log2, lane = threadIdx.x & (lanes - 1);
    const u32 size = a.as == FROM_F32 ? 4 : 2;
    const u32 made = from ? word / gather_size(from) * size : word; /* bytes that a word becomes */
    const u64 together = (u64)gridDim.x * blockDim.x >> a.lanes_log2;
    for (u64 i = ((u64)blockIdx.x * blockDim.x + threadIdx.x) >> a.lanes_log2; i < a.n; i += together) {
        u32 parts[4];
        s64 id = (s64)i;
        if (a.ids && a.wide) {
            kernel_load(a.ids + i * 8, 8, parts);
            id = (s64)((u64)parts[1] << 32 | parts[0]);
        } else if (a.ids) {
            kernel_load(a.ids + i * 4, 4, parts);
            id = (s64)(int)parts[0];
        }
        const bool there = (u64)id < a.count;
        if (!there && lane == 0 && kernel_claim(&a.fault->claimed)) {
            a.fault->id = id;
            a.fault->at = i;
            kernel_publish(&a.fault->ready, 1);
        }
        const u8 *row = a.table + (there ? (u64)id : 0) * a.words * word;
        u8 *out = a.out + i * a.words * made;
        const u32 skew = a.shifted ? (u32)((u64)row & 127) / word : 0;
        for (u32 t = lane; t < a.period; t += lanes) {
            const u32 w = t >= skew ? t - skew : t + a.period - skew;
            if (w >= a.words)
                continue;
            parts[0] = parts[1] = parts[2] = parts[3] = 0;
            if (there)
                kernel_load(row + (u64)w * word, word, parts);
            if (from)
                gather_store(out + (u64)w * made, parts, word, from, a.as);
            else
                kernel_store(out + (u64)w * word, word, parts);
        }
    }
}

#ifdef __CUDACC__
extern "C" __global__ void leat_gather_rows(struct leat_gather_args a)
{
    gather_rows(a, LEAT_WORD, LEAT_FROM);
}
#endif
