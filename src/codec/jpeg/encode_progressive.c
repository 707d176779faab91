/*
 * Progressive Huffman coding (ITU-T T.81, annex G). Four kinds of scan: the high bits of DC or of a band of AC, and one
 * more bit of either. Blocks that end are counted and coded as one run, of at most 0x7fff; in refinements, the bits
 * that correct coefficients of such blocks wait for the run's code. A run also ends when so many bits wait that those
 * of one more block might pass 1000: libjpeg's bound, which all its relatives have kept.
 */
#include "codec/jpeg/encode_internal.h"

#define MAX_RUN 0x7fff
#define MAX_WAITING 1000

struct progressive {
    struct leat_jpeg_encoder *e;
    const struct leat_jpeg_scan *scan;
    const struct leat_jpeg_codes *dc[LEAT_JPEG_MAX_COMPONENTS], *ac;
    int predictor[LEAT_JPEG_MAX_COMPONENTS];
    uint32_t run; /* blocks that have ended */
    uint32_t met; /* all entries or'ed: has LEAT_JPEG_NO_CODE if one has no code */
    unsigned n_waiting;
    uint8_t waiting[MAX_WAITING]; /* bits, one each */
};

static void put(struct progressive *p, uint32_t value, unsigned count)
{
    leat_jpeg_bits_put(&p->e->bits, value, count);
}

static void put_symbol(struct progressive *p, uint32_t code)
{
    p->met |= code;
    put(p, code >> 8, code & 31);
}

static void put_waiting(struct progressive *p, const uint8_t *bits, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        put(p, bits[i], 1);
}

static void end_run(struct progressive *p)
{
    if (p->run) {
        unsigned size = leat_jpeg_size(p->run) - 1;
        put_symbol(p, p->ac->of[size << 4]);
        put(p, p->run & ((1u << size) - 1), size);
        p->run = 0;
    }
    put_waiting(p, p->waiting, p->n_waiting);
    p->n_waiting = 0;
}

static void first_dc(struct progressive *p, unsigned place, const int16_t block[64])
{
    int value = block[0] >> p->scan->al, difference = value - p->predictor[place];
    p->predictor[place] = value;
    unsigned size = leat_jpeg_size((unsigned)(difference < 0 ? -difference : difference));
    put_symbol(p, size < 16 ? p->dc[place]->of[size] : LEAT_JPEG_NO_CODE);
    put(p, leat_jpeg_value_bits(difference, size), size);
}

static unsigned magnitude_of(const struct progressive *p, const int16_t block[64], unsigned k)
{
    int value = block[leat_jpeg_natural[k]];
    return (unsigned)(value < 0 ? -value : value) >> p->scan->al;
}

static void first_ac(struct progressive *p, const int16_t block[64])
{
    unsigned zeros = 0;
    for (unsigned k = p->scan->ss; k <= p->scan->se; k++) {
        unsigned magnitude = magnitude_of(p, block, k), size = leat_jpeg_size(magnitude);
        if (!magnitude) {
            zeros++;
            continue;
        }
        end_run(p);
        for (; zeros > 15; zeros -= 16)
            put_symbol(p, p->ac->of[0xf0]);
        put_symbol(p, size < 16 ? p->ac->of[zeros << 4 | size] : LEAT_JPEG_NO_CODE);
        put(p, (block[leat_jpeg_natural[k]] < 0 ? ~magnitude : magnitude) & ((1u << size) - 1), size);
        zeros = 0;
    }
    if (zeros && ++p->run == MAX_RUN)
        end_run(p);
}

static void refine_ac(struct progressive *p, const int16_t block[64])
{
    unsigned last_new = 0; /* behind it no coefficient appears in this scan: no run of zeros need be coded */
    for (unsigned k = p->scan->ss; k <= p->scan->se; k++)
        if (magnitude_of(p, block, k) == 1)
            last_new = k;
    unsigned zeros = 0, n = 0;
    uint8_t corrections[64]; /* of this block, not yet written */
    for (unsigned k = p->scan->ss; k <= p->scan->se; k++) {
        unsigned magnitude = magnitude_of(p, block, k);
        if (!magnitude) {
            zeros++;
            continue;
        }
        while (zeros > 15 && k <= last_new) {
            end_run(p);
            put_symbol(p, p->ac->of[0xf0]);
            zeros -= 16;
            put_waiting(p, corrections, n);
            n = 0;
        }
        if (magnitude > 1) {
            corrections[n++] = magnitude & 1;
            continue;
        }
        end_run(p);
        put_symbol(p, p->ac->of[zeros << 4 | 1]);
        put(p, block[leat_jpeg_natural[k]] > 0, 1);
        put_waiting(p, corrections, n);
        n = 0;
        zeros = 0;
    }
    if (!zeros && !n)
        return;
    memcpy(p->waiting + p->n_waiting, corrections, n);
    p->n_waiting += n;
    if (++p->run == MAX_RUN || p->n_waiting > MAX_WAITING - 63)
        end_run(p);
}

static void put_unit(struct progressive *p, const struct leat_jpeg_coefficients *from, uint32_t x, uint32_t y)
{
    const struct leat_jpeg_scan *scan = p->scan;
    for (unsigned i = 0; i < scan->n; i++) {
        const struct leat_jpeg_component *component = &from->frame.component[scan->component[i]];
        unsigned h = scan->n > 1 ? component->h : 1, v = scan->n > 1 ? component->v : 1;
        for (unsigned b = 0; b < h * v; b++) {
            size_t at = ((size_t)y * v + b / h) * component->blocks_w + (size_t)x * h + b % h;
            const int16_t *block = from->of[scan->component[i]] + at * 64;
            if (scan->ss == 0 && !scan->ah)
                first_dc(p, i, block);
            else if (scan->ss == 0)
                put(p, block[0] >> scan->al & 1, 1);
            else if (!scan->ah)
                first_ac(p, block);
            else
                refine_ac(p, block);
        }
    }
}

int leat_jpeg_encode_progressive(struct leat_jpeg_encoder *e, const struct leat_jpeg_walk *walk,
                                 const struct leat_jpeg_coefficients *from)
{
    struct progressive p = {.e = e, .scan = &walk->scan, .ac = &e->ac[walk->scan.ac[0] & 3]};
    for (unsigned i = 0; i < walk->scan.n; i++)
        p.dc[i] = &e->dc[walk->scan.dc[i] & 3];
    uint32_t across, down, left = walk->restart;
    leat_jpeg_scan_units(&walk->scan, &from->frame, &across, &down);
    for (uint32_t y = 0; y < down; y++)
        for (uint32_t x = 0; x < across; x++) {
            if (walk->restart && !left--) {
                end_run(&p);
                leat_jpeg_encoder_restart(e);
                memset(p.predictor, 0, sizeof p.predictor);
                left = walk->restart - 1;
            }
            put_unit(&p, from, x, y);
            if (e->bits.p > e->buffer + LEAT_JPEG_ENCODER_BYTES / 2) /* no unit takes more than a few hundred bytes */
                leat_jpeg_encoder_drain(e);
            if (e->failed)
                return e->failed;
        }
    end_run(&p);
    leat_jpeg_encoder_end(e);
    if (!e->failed && p.met & LEAT_JPEG_NO_CODE) {
        e->sink->trouble = "its tables have no code for one of its coefficients";
        return LEAT_E_CORRUPT;
    }
    return e->failed;
}
