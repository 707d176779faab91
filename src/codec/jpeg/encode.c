/*
 * Huffman coding of scans: tables, the order of blocks, restart markers, and bytes to the sink.
 *
 * Bits are gathered without the zero that stands behind each byte of 0xff, 8 bytes at a time into a buffer that stays
 * in the cache; a second pass over the buffer adds the zeros (a hundredth of the work: there is one in 256 bytes) and
 * writes, or compares with the original.
 */
#include "codec/jpeg/encode_internal.h"

#include "base/alloc.h"

/* ---- sink ------------------------------------------------------------------------------------ */

int leat_jpeg_sink_put(struct leat_jpeg_sink *sink, const uint8_t *bytes, size_t n)
{
    if (n > sink->limit - sink->length) {
        sink->trouble = "there are more bytes than the original has";
        return LEAT_E_CORRUPT;
    }
    if (sink->expected) {
        if (n && memcmp(sink->expected + sink->length, bytes, n)) {
            for (; sink->expected[sink->length] == *bytes; bytes++)
                sink->length++;
            sink->trouble = "coding it again gives other bytes";
            return LEAT_E_CORRUPT;
        }
        sink->length += n;
        return LEAT_OK;
    }
    if (n > sink->room - sink->length) {
        size_t room = sink->room < sink->limit / 2 ? 2 * sink->room : sink->limit;
        room = room < sink->length + n ? sink->length + n : room;
        uint8_t *out = leat_realloc_array(sink->out, room, 1);
        if (!out) {
            sink->trouble = "memory for the file could not be had";
            return LEAT_E_NOMEM;
        }
        sink->out = out;
        sink->room = room;
    }
    if (n)
        memcpy(sink->out + sink->length, bytes, n);
    sink->length += n;
    return LEAT_OK;
}

/* With a zero behind each 0xff. */
static int put_stuffed(struct leat_jpeg_sink *sink, const uint8_t *p, size_t n)
{
    static const uint8_t zero = 0;
    const uint8_t *end = p + n;
    while (p < end) {
        const uint8_t *ff = memchr(p, 0xff, (size_t)(end - p)), *to = ff ? ff + 1 : end;
        int rc = leat_jpeg_sink_put(sink, p, (size_t)(to - p));
        if (!rc && ff)
            rc = leat_jpeg_sink_put(sink, &zero, 1);
        if (rc)
            return rc;
        p = to;
    }
    return LEAT_OK;
}

void leat_jpeg_encoder_drain(struct leat_jpeg_encoder *e)
{
    size_t n = (size_t)(e->bits.p - e->buffer);
    e->bits.p = e->buffer;
    if (!e->failed)
        e->failed = put_stuffed(e->sink, e->buffer, n);
}

void leat_jpeg_encoder_end(struct leat_jpeg_encoder *e)
{
    if (e->bits.n & 7) {
        unsigned fill = 8 - (e->bits.n & 7);
        leat_jpeg_bits_put(&e->bits, e->ones ? (1u << fill) - 1 : 0, fill);
    }
    leat_jpeg_encoder_drain(e);
    e->bits.acc = 0;
    e->bits.n = 0;
}

void leat_jpeg_encoder_restart(struct leat_jpeg_encoder *e)
{
    leat_jpeg_encoder_end(e);
    uint8_t marker[2] = {0xff, (uint8_t)(0xd0 + (e->restarts++ & 7))};
    if (!e->failed)
        e->failed = leat_jpeg_sink_put(e->sink, marker, 2);
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* The code of each symbol; the first one if a table has a symbol twice. False: the table makes no sense. */
static bool assign(struct leat_jpeg_codes *codes, const struct leat_jpeg_symbols *symbols)
{
    for (unsigned i = 0; i < 256; i++)
        codes->of[i] = LEAT_JPEG_NO_CODE;
    uint32_t code = 0, n = 0;
    for (unsigned length = 1; length <= 16; length++, code <<= 1)
        for (unsigned i = 0; i < symbols->count[length]; i++, n++, code++) {
            if (n >= 256 || code >= 1u << length)
                return false;
            if (codes->of[symbols->symbol[n]] == LEAT_JPEG_NO_CODE)
                codes->of[symbols->symbol[n]] = code << 8 | length;
        }
    return true;
}

/* Entries of a code with all values of a size above 0, whose place is `zero` + value. */
static void fill_size(uint32_t *zero, uint32_t code, unsigned size)
{
    uint32_t half = 1u << (size - 1), first = (code >> 8 << size) << 8 | ((code & 63) + size), step = 256;
    if (code == LEAT_JPEG_NO_CODE) {
        first = LEAT_JPEG_NO_CODE;
        step = 0;
    }
    uint32_t *below = zero - 2 * half + 1, *above = zero + half;
    for (uint32_t i = 0; i < half; i++) {
        below[i] = first + i * step;
        above[i] = first + (i + half) * step;
    }
}

/* Codes of a table and the entries of its first `runs` runs of zeros; one for DC, whose symbols are sizes alone. If the
 * table is the one of the last scan they stay. False: no such table was given, or it is none. */
static bool make_table(struct leat_jpeg_codes *codes, const struct leat_jpeg_symbols *symbols, unsigned runs,
                       uint32_t *entry)
{
    if (!memcmp(&codes->source, symbols, sizeof *symbols))
        return codes->source.set;
    codes->source.set = false;
    if (!symbols->set || !assign(codes, symbols))
        return false;
    codes->source = *symbols;
    for (unsigned run = 0; run < runs; run++) {
        uint32_t *zero = entry + run * 512 + 256;
        *zero = run == 0 ? codes->of[0] : codes->of[0xf0];
        for (unsigned size = 1; size <= 8; size++)
            fill_size(zero, codes->of[run << 4 | size], size);
    }
    return true;
}

/* The tables that the scan names. */
static bool make_tables(struct leat_jpeg_encoder *e, const struct leat_jpeg_walk *walk)
{
    const struct leat_jpeg_scan *scan = &walk->scan;
    const bool needs_dc = !walk->progressive || (scan->ss == 0 && !scan->ah),
               needs_ac = !walk->progressive || scan->ss > 0;
    for (unsigned i = 0; i < scan->n; i++) {
        const unsigned dc = scan->dc[i], ac = scan->ac[i];
        if (needs_dc && (dc > 3 || !make_table(&e->dc[dc], &walk->dc[dc], 1,
                                               e->entry + LEAT_JPEG_FIRST_DC + dc * LEAT_JPEG_DC_ENTRIES)))
            return false;
        if (needs_ac && (ac > 3 || !make_table(&e->ac[ac], &walk->ac[ac], 16, e->entry + ac * LEAT_JPEG_AC_ENTRIES)))
            return false;
    }
    return true;
}

/* ---- scans ----------------------------------------------------------------------------------- */

void leat_jpeg_scan_units(const struct leat_jpeg_scan *scan, const struct leat_jpeg_frame *frame, uint32_t *across,
                          uint32_t *down)
{
    const struct leat_jpeg_component *only = &frame->component[scan->component[0]];
    *across = scan->n > 1 ? frame->mcus_w : (only->width + 7) / 8;
    *down = scan->n > 1 ? frame->mcus_h : (only->height + 7) / 8;
}

/* Row `y` of units. */
static int begin_row(struct leat_jpeg_encoder *e, const struct leat_jpeg_walk *walk,
                     const struct leat_jpeg_coefficients *from, uint32_t y, struct leat_jpeg_sequence *s)
{
    const struct leat_jpeg_scan *scan = &walk->scan;
    int16_t *of[LEAT_JPEG_MAX_COMPONENTS];
    if (from->source) { /* its row of MCUs is a row of units: other scans are not asked for */
        const int rc = leat_jpeg_coefficients_row(from, y, of, NULL);
        if (rc) {
            e->sink->trouble = rc == LEAT_E_NOMEM ? "memory could not be had" : "its coefficients make no sense";
            return rc;
        }
        y = 0;
    } else {
        memcpy(of, from->of, sizeof of);
    }
    s->blocks = 0;
    for (unsigned i = 0; i < scan->n; i++) {
        const struct leat_jpeg_component *component = &from->frame.component[scan->component[i]];
        unsigned h = scan->n > 1 ? component->h : 1, v = scan->n > 1 ? component->v : 1;
        for (unsigned b = 0; b < h * v; b++)
            s->block[s->blocks++] = (struct leat_jpeg_sequence_block){
                .at = of[scan->component[i]] + (((size_t)y * v + b / h) * component->blocks_w + b % h) * 64,
                .step = (size_t)h * 64,
                .place = i,
                .dc = (uint16_t)(LEAT_JPEG_FIRST_DC + scan->dc[i] * LEAT_JPEG_DC_ENTRIES),
                .ac = (uint16_t)(scan->ac[i] * LEAT_JPEG_AC_ENTRIES),
                .dc_code = e->dc[scan->dc[i]].of,
                .ac_code = e->ac[scan->ac[i]].of,
            };
    }
    return LEAT_OK;
}

/* Writes the items, and begins anew. */
static void write_items(struct leat_jpeg_encoder *e, struct leat_jpeg_sequence *s, uint32_t *met)
{
    *met |= e->items_to_bits(&e->bits, e->entry, e->item, (size_t)(s->item - e->item));
    s->item = e->item;
    s->escape = LEAT_JPEG_FIRST_ESCAPE;
    leat_jpeg_encoder_drain(e);
}

static int encode_sequential(struct leat_jpeg_encoder *e, const struct leat_jpeg_walk *walk,
                             const struct leat_jpeg_coefficients *from)
{
    uint32_t across, down, met = 0, left = walk->restart; /* units before the next marker */
    leat_jpeg_scan_units(&walk->scan, &from->frame, &across, &down);
    struct leat_jpeg_sequence s = {
        .item = e->item,
        .stop = e->item + LEAT_JPEG_ITEMS - LEAT_JPEG_MCU_ITEMS,
        .zigzag_bits = e->zigzag_bits,
        .entry = e->entry,
        .escape = LEAT_JPEG_FIRST_ESCAPE,
        .escape_stop = LEAT_JPEG_ENTRIES - LEAT_JPEG_MCU_ITEMS,
    };
    for (uint32_t y = 0; y < down; y++) {
        if ((e->failed = begin_row(e, walk, from, y, &s)))
            return e->failed;
        for (uint32_t x = 0; x < across;) {
            uint32_t end = across;
            if (walk->restart) {
                if (!left) {
                    write_items(e, &s, &met);
                    leat_jpeg_encoder_restart(e);
                    memset(s.predictor, 0, sizeof s.predictor);
                    left = walk->restart;
                }
                end = across - x > left ? x + left : across;
            }
            uint32_t to = e->itemise(&s, x, end);
            left -= walk->restart ? to - x : 0;
            if (to < end)
                write_items(e, &s, &met);
            x = to;
        }
        if (e->failed)
            return e->failed;
    }
    write_items(e, &s, &met);
    leat_jpeg_encoder_end(e);
    if (!e->failed && met & (3 * LEAT_JPEG_NO_CODE)) {
        e->sink->trouble = "its tables have no code for one of its coefficients";
        return LEAT_E_CORRUPT;
    }
    return e->failed;
}

struct leat_jpeg_encoder *leat_jpeg_encoder_new(enum leat_isa isa)
{
    struct leat_jpeg_encoder *e = leat_new(struct leat_jpeg_encoder);
    if (!e)
        return NULL;
    for (unsigned k = 0; k < 64; k++) /* in zigzag order; n in natural order */
        for (unsigned n = leat_jpeg_natural[k], bits = 0; bits < 256; bits++)
            if (bits >> (n & 7) & 1)
                e->zigzag_bits[n / 8][bits] |= UINT64_C(1) << k;
    e->itemise = LEAT_OF_ISA(isa, leat_jpeg_itemise);
    e->items_to_bits = leat_jpeg_items_portable;
#if defined(__x86_64__)
    if (isa >= LEAT_ISA_AVX2)
        e->items_to_bits = leat_jpeg_items_avx2;
#endif
    return e;
}

void leat_jpeg_encoder_free(struct leat_jpeg_encoder *encoder)
{
    leat_free(encoder);
}

int leat_jpeg_encode_scan(struct leat_jpeg_encoder *e, const struct leat_jpeg_walk *walk,
                          const struct leat_jpeg_coefficients *coefficients, bool ones, struct leat_jpeg_sink *sink)
{
    e->bits = (struct leat_jpeg_bit_writer){.p = e->buffer};
    e->sink = sink;
    e->ones = ones;
    e->restarts = 0;
    e->failed = LEAT_OK;
    if (!make_tables(e, walk)) {
        sink->trouble = "a scan names a Huffman table that is missing or makes no sense";
        return LEAT_E_CORRUPT;
    }
    return walk->progressive ? leat_jpeg_encode_progressive(e, walk, coefficients)
                             : encode_sequential(e, walk, coefficients);
}
