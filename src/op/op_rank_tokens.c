/*
 * RankTokens: the genes of a cell as tokens, by how strongly they are expressed. A value is divided by the median of
 * its gene; the largest quotient comes first, equal ones come by column. As Geneformer's rank value encoding (Theodoris
 * et al., "Transfer learning enables predictions in network biology", 2023), which divides by the sum of the cell, too:
 * that changes no rank.
 *
 * Quotients are float64, and positive, so that they are ordered as their bits are. What is sorted is one number per
 * gene, an item, so that nothing is carried along and no two are equal:
 *
 *      63                                                                   0
 *     | bits of the largest quotient less those of this one | place of the gene |
 *
 * Places take 10 or 11 bits of a usual row, and what the largest and the least quotient differ in some 57, so that few
 * bits are cut off, if any; items that are equal in the rest are compared by their quotients afterwards.
 *
 * Items are spread over some more buckets than there are genes, by their first bits. What is then in disorder are
 * neighbours: compared and exchanged without a branch, some times, and the few that are left by insertion. A row for
 * which that takes long, because one bucket has many, is merged, so that none takes more than n log n, and so is one of
 * more genes than counts of 16 bits can say. Ranks behind max_length are not put in order.
 */
#include <inttypes.h>
#include <math.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "kernels/values.h"
#include "op/filter.h"
#include "op/sparse.h"

LEAT_VECTORIZE

#define MOST_GENES (1 << 24)
#define BLOCK 256     /* values that are converted at a time */
#define LANES 8       /* values of the largest vectors */
#define ON_STACK 2048 /* genes of a row for which nothing is allocated: some 72 kB */
#define MOST_BUCKETS (1 << 15)
#define TURNS 2          /* by which neighbours are exchanged: 10 to 15% quicker than one, and three gain nothing */
#define MOST_INSERTED 16 /* items that are merged from are put in order by insertion */
#define MOVES 8          /* of an item by insertion, on average: above, merging is quicker */
#define LEFT_OUT (-1.0)  /* the median of a gene that has no token, or none above 0 */

struct rank_args {
    /* Side by side: a gene's token is loaded with its median, in the order of columns. In the order of ranks each would
     * be waited for. */
    struct gene {
        double median;
        int64_t token;
    } * genes; /* [n] */
    size_t n;
    int64_t bos, eos, max_length; /* bos, eos: -1 for none */
};

/* ---- arguments ---- */

static void parse_genes(struct rank_args *args, struct leat_args *json)
{
    const json_t *tokens = leat_args_get(json, "tokens"), *medians = leat_args_get(json, "medians");
    const size_t n = json_array_size(tokens);
    if (!n || n > MOST_GENES)
        leat_args_wrong(json, "tokens", "tokens of all columns, which a loader makes of names");
    else if (json_array_size(medians) != n)
        leat_args_wrong(json, "medians", "as many numbers as there are tokens, which a loader makes of names");
    if (json->status)
        return;
    args->n = n;
    args->genes = leat_new_array(n, sizeof *args->genes);
    if (!args->genes) {
        json->status = leat_fail(json->error, LEAT_E_NOMEM, "No memory for tokens of genes.");
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *token = json_array_get(tokens, i), *median = json_array_get(medians, i);
        struct gene *gene = &args->genes[i];
        *gene = (struct gene){json_number_value(median), json_integer_value(token)};
        if (!json_is_integer(token) || gene->token < -1 || gene->token >= INT64_C(1) << 53)
            leat_args_wrong(json, "tokens", "integers from 0, or -1 for a gene that is left out");
        if (!json_is_number(median))
            leat_args_wrong(json, "medians", "numbers");
        if (gene->token < 0 || !(gene->median > 0))
            gene->median = LEFT_OUT;
    }
}

static void parse(void *into, struct leat_args *json)
{
    struct rank_args *args = into;
    parse_genes(args, json);
    leat_args_int(json, "max_length", 1, MOST_GENES, 0, &args->max_length);
    leat_args_token(json, "bos", -1, &args->bos);
    leat_args_token(json, "eos", -1, &args->eos);
    if (args->max_length <= (args->bos >= 0) + (args->eos >= 0))
        leat_args_wrong(json, "max_length", "given, with room for a gene beside bos and eos");
}

static void end_args(void *of)
{
    leat_free(((struct rank_args *)of)->genes);
}

static uint64_t hash(const void *of)
{
    const struct rank_args *args = of;
    const int64_t rest[] = {args->bos, args->eos, args->max_length, (int64_t)args->n,
                            (int64_t)leat_hash64(args->genes, args->n * sizeof *args->genes)};
    return leat_hash64(rest, sizeof rest);
}

static uint64_t count(const void *of, uint64_t n)
{
    const struct rank_args *args = of;
    const uint64_t all = n + (args->bos >= 0) + (args->eos >= 0);
    return all < (uint64_t)args->max_length ? all : (uint64_t)args->max_length;
}

static int infer(const void *of, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    const struct rank_args *args = of;
    int64_t columns;
    if (!leat_sparse_columns(type, &columns))
        return leat_op_misfit(place, type, "a sparse row, or a dense one of numbers", error);
    if (args->n != (uint64_t)columns)
        return leat_fail(error, LEAT_E_TYPE, "%s in output '%s' has tokens of %zu columns, and rows have %" PRId64 ".",
                         place->type, place->output, args->n, columns);
    *type = (struct leat_type){.kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64, .ndim = 1, .shape = {-1}};
    return LEAT_OK;
}

/* ---- the genes that count ---- */

struct ranking {
    const struct rank_args *args;
    const struct leat_type *type;
    const uint8_t *row;
    size_t n, limit; /* values of the row; the ranks that are wanted, if there are so many */
    uint64_t *keys;  /* bits of the quotients of the genes that count, by column, */
    int64_t *tokens; /* and their tokens */
    uint64_t *items, *sorted;
    uint16_t *counts; /* of the buckets */
    void (*sum_counts)(uint16_t *counts, size_t n_buckets);
    size_t (*next_less)(const uint64_t *items, size_t from, size_t n);
    int64_t *out;
    struct found {
        size_t kept;   /* genes that count */
        size_t made;   /* tokens, with bos and eos */
        uint64_t mask; /* of the place in an item */
        bool cut;      /* some bits of quotients are not in items */
        bool nan;      /* some value is none */
    } * found;
};

static inline uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double value_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Some values of a row, and their columns. */
LEAT_INLINE void take_block(const struct leat_type *type, const uint8_t *row, size_t n, size_t first, size_t some,
                            double values[BLOCK], uint32_t columns[BLOCK])
{
    const enum leat_dtype item = leat_sparse_item(type);
    const size_t size = leat_dtype_size(item);
    leat_values_convert(item, LEAT_F64, row + first * size, values, some);
    const uint8_t *stored = row + n * size + first * sizeof *columns;
    for (size_t i = 0; type->columns && i < some; i++)
        memcpy(&columns[i], stored + i * sizeof *columns, sizeof *columns);
    for (size_t i = 0; !type->columns && i < some; i++)
        columns[i] = (uint32_t)(first + i);
}

/* Quotients of a block, with a sign if they do not count; whether some value is NaN. Signs and NaN are looked for among
 * the bits: compilers make vectors of that. */
LEAT_INLINE bool divide(const struct gene *genes, const double *values, const uint32_t *columns, size_t n,
                        double *quotients)
{
    static const uint64_t sign = UINT64_C(1) << 63, infinity = UINT64_C(0x7ff) << 52;
    uint64_t nan = 0;
    for (size_t i = 0; i < n; i++)
        quotients[i] = values[i] / genes[columns[i]].median;
    for (size_t i = 0; i < n; i++) {
        const uint64_t value = bits_of(values[i]);
        nan |= (value & ~sign) > infinity ? 1 : 0;
        quotients[i] = value_of(bits_of(quotients[i]) | ((int64_t)value > 0 ? 0 : sign));
    }
    return nan;
}

/* Places are written before it is known whether they count, so that no branch waits for that: there is room for LANES
 * more than count. */
LEAT_INLINE void collect(const struct ranking *r)
{
    double values[BLOCK], quotients[BLOCK];
    uint32_t columns[BLOCK];
    int64_t *restrict kept = r->tokens;
    const struct gene *genes = r->args->genes;
    uint64_t *restrict keys = r->keys;
    size_t m = 0;
    bool nan = false;
    for (size_t done = 0; done < r->n; done += BLOCK) {
        const size_t some = r->n - done < BLOCK ? r->n - done : BLOCK;
        take_block(r->type, r->row, r->n, done, some, values, columns);
        nan |= divide(genes, values, columns, some, quotients);
        for (size_t i = 0; i < some; i++) {
            const uint64_t key = bits_of(quotients[i]);
            keys[m] = key;
            kept[m] = genes[columns[i]].token;
            m += ~key >> 63;
        }
    }
    r->found->kept = m;
    r->found->nan = nan;
}
static void collect_portable(const struct ranking *r)
{
    collect(r);
}

#if defined(__x86_64__)
static LEAT_TARGET_AVX2 void collect_avx2(const struct ranking *r)
{
    collect(r);
}

/* Every second gene of eight columns. Those of even places and those of odd ones come apart as medians and tokens in
 * order, and such loads of 16 bytes are quicker than two gathers. */
static LEAT_TARGET_AVX512 __m512i every_second(const struct gene *genes, const uint32_t columns[7])
{
    const __m512i one = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)&genes[columns[0]]));
    const __m512i two = _mm512_inserti64x2(one, _mm_loadu_si128((const __m128i *)&genes[columns[2]]), 1);
    const __m512i three = _mm512_inserti64x2(two, _mm_loadu_si128((const __m128i *)&genes[columns[4]]), 2);
    return _mm512_inserti64x2(three, _mm_loadu_si128((const __m128i *)&genes[columns[6]]), 3);
}

/* The same in one pass: while the divider works on some values, others are loaded and compressed. float32 of sparse
 * rows, the usual case, is loaded from the row. */
static LEAT_TARGET_AVX512 void collect_avx512(const struct ranking *r)
{
    const bool direct = r->type->columns && leat_sparse_item(r->type) == LEAT_F32;
    double values[BLOCK];
    uint32_t columns[BLOCK], now[LANES];
    const struct gene *genes = r->args->genes;
    const __m512i zero = _mm512_setzero_si512();
    size_t m = 0;
    __mmask8 nan = 0;
    for (size_t done = 0; done < r->n; done += BLOCK) {
        const size_t some = r->n - done < BLOCK ? r->n - done : BLOCK;
        const uint8_t *floats = r->row + done * sizeof(float);
        const uint8_t *stored = direct ? floats + r->n * sizeof(float) : (const uint8_t *)columns;
        if (!direct)
            take_block(r->type, r->row, r->n, done, some, values, columns);
        for (size_t i = 0; i < some; i += LANES) {
            const __mmask8 on = (__mmask8)(some - i < LANES ? (1u << (some - i)) - 1 : 0xff);
            const __m512d value = direct ? _mm512_cvtps_pd(_mm256_maskz_loadu_ps(on, floats + i * sizeof(float)))
                                         : _mm512_maskz_loadu_pd(on, values + i);
            _mm256_storeu_si256((__m256i *)now, _mm256_maskz_loadu_epi32(on, stored + i * sizeof *columns));
            const __m512i even = every_second(genes, now), odd = every_second(genes, now + 1);
            const __m512d median = _mm512_castsi512_pd(_mm512_unpacklo_epi64(even, odd));
            const __m512i token = _mm512_unpackhi_epi64(even, odd);
            const __m512i key = _mm512_castpd_si512(_mm512_div_pd(value, median));
            const __mmask8 positive = _mm512_cmpgt_epi64_mask(_mm512_castpd_si512(value), zero);
            const __mmask8 counts = _mm512_mask_cmpge_epi64_mask(positive, key, zero);
            nan |= _mm512_cmp_pd_mask(value, value, _CMP_UNORD_Q);
            _mm512_storeu_si512(r->keys + m, _mm512_maskz_compress_epi64(counts, key));
            _mm512_storeu_si512(r->tokens + m, _mm512_maskz_compress_epi64(counts, token));
            m += (size_t)__builtin_popcount(counts);
        }
    }
    r->found->kept = m;
    r->found->nan = nan;
}
#endif

/* ---- their order ---- */

static unsigned width_of(uint64_t number)
{
    return number ? 64 - (unsigned)__builtin_clzll(number) : 0;
}

/* Makes the items. Returns how many bits of them say the bucket's number less than all do. */
LEAT_INLINE unsigned make_items(const struct ranking *r, unsigned bucket_bits)
{
    const uint64_t *keys = r->keys;
    uint64_t *restrict items = r->items;
    const size_t n = r->found->kept;
    int64_t least = INT64_MAX, most = 0; /* signed ones go into vectors everywhere */
    for (size_t i = 0; i < n; i++) {
        least = (int64_t)keys[i] < least ? (int64_t)keys[i] : least;
        most = (int64_t)keys[i] > most ? (int64_t)keys[i] : most;
    }
    const uint64_t largest = (uint64_t)most;
    const unsigned wide = width_of(largest - (uint64_t)least), place = width_of(n - 1);
    const unsigned cut = wide + place > 64 ? wide + place - 64 : 0;
    for (size_t i = 0; i < n; i++)
        items[i] = (largest - keys[i]) >> cut << place | i;
    r->found->mask = (UINT64_C(1) << place) - 1;
    r->found->cut = cut;
    return wide - cut + place > bucket_bits ? wide - cut + place - bucket_bits : 0;
}

/* Counts become sums of those before each: four at a time, which a multiplication adds up, as no sum has more than 16
 * bits. Bytes are in the order of little-endian machines. */
static void sum_counts_portable(uint16_t *counts, size_t n_buckets)
{
    static const uint64_t ones = UINT64_C(0x0001000100010001);
    uint64_t before = 0;
    for (size_t b = 0; b < n_buckets; b += 4) {
        uint64_t four;
        memcpy(&four, counts + b, sizeof four);
        const uint64_t sums = four * ones, next = (sums << 16) + before * ones;
        memcpy(counts + b, &next, sizeof next);
        before += sums >> 48;
    }
}

/* The first item, not before `from`, that is less than its neighbour before it; n: none is. */
static size_t next_less_portable(const uint64_t *items, size_t from, size_t n)
{
    size_t i = from;
    while (i < n && items[i - 1] <= items[i])
        i++;
    return i;
}

#if defined(__x86_64__)
#define sum_counts_avx2 sum_counts_portable
#define next_less_avx2 next_less_portable

/* 32 at a time: sums within each four, then of the fours before each. */
static LEAT_TARGET_AVX512 void sum_counts_avx512(uint16_t *counts, size_t n_buckets)
{
    const __m512i zero = _mm512_setzero_si512(), last = _mm512_set1_epi16(31);
    const __m512i fourth = _mm512_set4_epi32(0x0f0e0f0e, 0x0f0e0f0e, 0x07060706, 0x07060706); /* of each four */
    __m512i before = zero;
    for (size_t b = 0; b < n_buckets; b += 32) {
        const __m512i some = _mm512_loadu_si512(counts + b);
        const __m512i twos = _mm512_add_epi16(some, _mm512_slli_epi64(some, 16));
        const __m512i fours = _mm512_add_epi16(twos, _mm512_slli_epi64(twos, 32));
        const __m512i one = _mm512_alignr_epi64(_mm512_shuffle_epi8(fours, fourth), zero, 7);
        const __m512i two = _mm512_add_epi16(one, _mm512_alignr_epi64(one, zero, 7));
        const __m512i four = _mm512_add_epi16(two, _mm512_alignr_epi64(two, zero, 6));
        const __m512i eight = _mm512_add_epi16(four, _mm512_alignr_epi64(four, zero, 4));
        const __m512i sums = _mm512_add_epi16(fours, eight);
        _mm512_storeu_si512(counts + b, _mm512_add_epi16(_mm512_sub_epi16(sums, some), before));
        before = _mm512_add_epi16(before, _mm512_permutexvar_epi16(last, sums));
    }
}

static LEAT_TARGET_AVX512 size_t next_less_avx512(const uint64_t *items, size_t from, size_t n)
{
    for (size_t i = from; i < n; i += LANES) {
        const __mmask8 on = (__mmask8)(n - i < LANES ? (1u << (n - i)) - 1 : 0xff);
        const __m512i before = _mm512_maskz_loadu_epi64(on, items + i - 1);
        const unsigned less = _mm512_cmplt_epu64_mask(_mm512_maskz_loadu_epi64(on, items + i), before);
        if (less)
            return i + (size_t)__builtin_ctz(less);
    }
    return n;
}
#endif

/* Leaves in counts where each bucket ends. */
LEAT_INLINE void spread(const struct ranking *r, unsigned shift, size_t n_buckets)
{
    const uint64_t *items = r->items;
    const size_t n = r->found->kept;
    uint64_t *restrict sorted = r->sorted;
    uint16_t *restrict counts = r->counts;
    memset(counts, 0, n_buckets * sizeof *counts);
    for (size_t i = 0; i < n; i++)
        counts[items[i] >> shift]++;
    r->sum_counts(counts, n_buckets);
    for (size_t i = 0; i < n; i++)
        sorted[counts[items[i] >> shift]++] = items[i];
}

LEAT_INLINE void exchange(uint64_t *items, size_t n)
{
    for (size_t i = 0; i + 1 < n; i += 2) {
        const uint64_t a = items[i], b = items[i + 1];
        items[i] = a < b ? a : b;
        items[i + 1] = a < b ? b : a;
    }
}

/* False: it takes long. */
LEAT_INLINE bool insert(const struct ranking *r, uint64_t *items, size_t n)
{
    size_t left = MOVES * n;
    for (size_t i = r->next_less(items, 1, n); i < n; i = r->next_less(items, i + 1, n)) {
        const uint64_t item = items[i];
        size_t at = i;
        for (; at && items[at - 1] > item; at--)
            items[at] = items[at - 1];
        items[at] = item;
        if (i - at > left)
            return false;
        left -= i - at;
    }
    return true;
}

/* Whether the gene of an item comes before that of another one, with all bits of their quotients. */
static inline bool is_before(const struct ranking *r, uint64_t a, uint64_t b)
{
    const uint64_t x = r->keys[a & r->found->mask], y = r->keys[b & r->found->mask];
    return x != y ? x > y : a < b;
}

/* `room`: for as many. */
static void merge(const struct ranking *r, uint64_t *items, size_t n, uint64_t *room)
{
    if (n <= MOST_INSERTED) {
        for (size_t i = 1; i < n; i++) {
            const uint64_t item = items[i];
            size_t at = i;
            for (; at && is_before(r, item, items[at - 1]); at--)
                items[at] = items[at - 1];
            items[at] = item;
        }
        return;
    }
    const size_t half = n / 2;
    merge(r, items, half, room);
    merge(r, items + half, n - half, room);
    if (is_before(r, items[half - 1], items[half]))
        return;
    memcpy(room, items, half * sizeof *items);
    for (size_t to = 0, left = 0, right = half; left < half; to++)
        items[to] = right < n && is_before(r, items[right], room[left]) ? items[right++] : room[left++];
}

/* Whether neighbours are equal in all bits but those of the place. */
LEAT_INLINE bool has_runs(const uint64_t *items, size_t n, uint64_t mask)
{
    uint64_t found = 0;
    for (size_t i = 0; i + 1 < n; i++)
        found |= ((items[i] ^ items[i + 1]) & ~mask) ? 0 : 1;
    return found;
}

static void settle_runs(const struct ranking *r, uint64_t *items, size_t n)
{
    for (size_t begin = 0, next; begin < n; begin = next) {
        bool settled = true;
        for (next = begin + 1; next < n && (items[next] | r->found->mask) == (items[begin] | r->found->mask); next++)
            settled &= is_before(r, items[next - 1], items[next]);
        if (!settled)
            merge(r, items + begin, next - begin, r->items);
    }
}

/* At least twice as many buckets as genes, and less than four times: a power of two. */
static unsigned bucket_bits(size_t n)
{
    unsigned bits = 6;
    while (UINT64_C(1) << bits < MOST_BUCKETS && UINT64_C(1) << bits < 2 * n)
        bits++;
    return bits;
}

/* Puts the genes of a row in order, as far as ranks are wanted. */
LEAT_INLINE void order(const struct ranking *r, size_t wanted)
{
    const size_t n = r->found->kept;
    const unsigned bits = bucket_bits(n), shift = make_items(r, bits);
    if (n > UINT16_MAX) {
        memcpy(r->sorted, r->items, n * sizeof *r->items);
        merge(r, r->sorted, n, r->items);
        return;
    }
    spread(r, shift, (size_t)1 << bits);
    const size_t stop = r->counts[r->sorted[wanted - 1] >> shift];
    for (int turn = 0; turn < TURNS; turn++) {
        exchange(r->sorted, stop);
        exchange(r->sorted + 1, stop - 1);
    }
    if (!insert(r, r->sorted, stop))
        merge(r, r->sorted, stop, r->items);
    else if (r->found->cut && has_runs(r->sorted, stop, r->found->mask))
        settle_runs(r, r->sorted, stop);
}

LEAT_INLINE void put(const struct ranking *r)
{
    const struct rank_args *args = r->args;
    const size_t n = r->limit < r->found->kept ? r->limit : r->found->kept, first = args->bos >= 0;
    const uint64_t mask = r->found->mask, *sorted = r->sorted;
    const int64_t *tokens = r->tokens;
    int64_t *restrict to = r->out;
    if (args->bos >= 0)
        *to = args->bos;
    LEAT_UNROLL
    for (size_t i = 0; i < n; i++)
        to[first + i] = tokens[sorted[i] & mask];
    if (args->eos >= 0)
        to[first + n] = args->eos;
    r->found->made = first + n + (args->eos >= 0);
}

LEAT_INLINE void rank(const struct ranking *r)
{
    if (r->found->kept)
        order(r, r->limit < r->found->kept ? r->limit : r->found->kept);
    put(r);
}
LEAT_TOKENS_FOR_EACH_ISA(rank, struct ranking)

/* ---- rows ---- */

/* At least as many as `collect` keeps, so NaN is counted, too. Of a dense row, few count as a rule. */
static size_t count_above_zero(const struct leat_use *use, const uint8_t *row, size_t n)
{
    double values[BLOCK];
    uint32_t columns[BLOCK];
    size_t above = 0;
    for (size_t done = 0; done < n; done += BLOCK) {
        const size_t some = n - done < BLOCK ? n - done : BLOCK;
        take_block(&use->in, row, n, done, some, values, columns);
        for (size_t i = 0; i < some; i++)
            above += !(values[i] <= 0);
    }
    return above;
}

static int fail_nan(const struct leat_use *use, const char *output, const uint8_t *row, size_t n,
                    struct leat_error *error)
{
    double values[BLOCK];
    uint32_t columns[BLOCK], column = 0;
    for (size_t k = n; k-- > 0;) {
        take_block(&use->in, row, n, k, 1, values, columns);
        column = isnan(*values) ? *columns : column;
    }
    return leat_fail(error, LEAT_E_DECODE, "RankTokens in output '%s': the value of column %" PRIu32 " is NaN", output,
                     column);
}

static int call(const struct leat_use *use, const char *output, const struct leat_row *row, const void *in,
                uint64_t length, void *out, uint64_t *made, struct leat_error *error)
{
    const struct rank_args *args = use->op->args;
    const size_t n = leat_sparse_count(use, length);
    const int rc = use->in.columns ? leat_sparse_check(use, output, in, n, error) : LEAT_OK;
    if (rc)
        return rc;
    const enum leat_isa isa = leat_cpu_isa();
    const size_t genes = use->in.columns ? n : count_above_zero(use, in, n);
    const size_t most = (genes + 2 * LANES - 1) / LANES * LANES; /* arrays begin at vectors */
    _Alignas(64) uint64_t keys[4 * (ON_STACK + LANES)];
    uint16_t counts[2 * ON_STACK];
    uint64_t *large = NULL;
    if (genes > ON_STACK) {
        const size_t buckets = (size_t)1 << bucket_bits(genes);
        large = leat_alloc(most * 4 * sizeof *keys + buckets * sizeof *counts);
        if (!large)
            return leat_fail(error, LEAT_E_NOMEM, "no memory to rank %zu genes", genes);
    }
    uint64_t *numbers = large ? large : keys;
    struct found found = {0};
    const struct ranking r = {.args = args,
                              .type = &use->in,
                              .row = in,
                              .n = n,
                              .limit = (size_t)(args->max_length - (args->bos >= 0) - (args->eos >= 0)),
                              .keys = numbers,
                              .items = numbers + most,
                              .sorted = numbers + 2 * most,
                              .tokens = (int64_t *)(numbers + 3 * most),
                              .counts = large ? (uint16_t *)(numbers + 4 * most) : counts,
                              .sum_counts = LEAT_OF_ISA(isa, sum_counts),
                              .next_less = LEAT_OF_ISA(isa, next_less),
                              .out = out,
                              .found = &found};
    LEAT_OF_ISA(isa, collect)(&r);
    if (!found.nan) {
        rank_on(&r);
        *made = found.made;
    }
    leat_free(large);
    return found.nan ? fail_nan(use, output, in, n, error) : LEAT_OK;
}

static const char *label(const void *args)
{
    return "RankTokens";
}

const struct leat_op_class leat_op_rank_tokens = {.type = "RankTokens",
                                                  .args_bytes = sizeof(struct rank_args),
                                                  .sparse = true,
                                                  .parse = parse,
                                                  .end = end_args,
                                                  .hash = hash,
                                                  .infer = infer,
                                                  .count = count,
                                                  .label = label,
                                                  .call_some = call};
