/*
 * A kind of samples that is no image, for tests: a toy of a signal, which shipped code does not know. A program that
 * takes it is linked with --wrap=leat_codec_of, and calls signal_kind first.
 *
 *     as it came:  'S' 'G' | steps u32 | a difference i16 for each step
 *     raw:         'S' 'R' | steps u32 | 2 bytes of 0 | a float32 for each step
 *     step i is half the sum of the differences up to it; the difference -32768 is damage
 */
#ifndef LEAT_TESTS_SIGNALS_H
#define LEAT_TESTS_SIGNALS_H

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/random.h"
#include "codecs.h"
#include "test.h"

enum {
    SIGNAL = LEAT_KIND_IMAGE + 1,
    SIGNAL_HEAD = 6,
    SIGNAL_RAW_HEAD = 8,
    SIGNAL_DAMAGE = 0x8000,
    SIGNAL_MOST = 20000, /* steps of those that signal_make makes */
    SIGNAL_BYTES = SIGNAL_HEAD + 2 * SIGNAL_MOST
};

struct signal_decoder {
    struct leat_decoder base;
    struct leat_decode_request request;
    uint64_t at, steps; /* the next step, of so many */
    int32_t sum;
    bool failed;
};
static _Atomic uint64_t signal_reads, signal_scans; /* of all decoders */

static int signal_probe(const void *data, size_t length, struct leat_value_info *info, struct leat_error *error)
{
    const uint8_t *p = data;
    if (length < SIGNAL_HEAD || memcmp(p, "SG", 2) != 0 || (length - SIGNAL_HEAD) / 2 != leat_get_u32(p + 2))
        return leat_fail(error, LEAT_E_DECODE, "this is no signal");
    *info = (struct leat_value_info){.size = {leat_get_u32(p + 2), 8000}, .channels = 1, .kind = 1};
    return LEAT_OK;
}

/* The steps of a raw signal; false: it is none. */
static bool signal_raw_steps(const void *data, size_t length, uint32_t *steps)
{
    const uint8_t *p = data;
    if (length < SIGNAL_RAW_HEAD || memcmp(p, "SR", 2) != 0)
        return false;
    *steps = leat_get_u32(p + 2);
    return length - SIGNAL_RAW_HEAD == sizeof(float) * (uint64_t)*steps;
}

static uint64_t signal_decode_bytes(const void *data, size_t length, const struct leat_value_info *info, bool exif)
{
    return sizeof(struct signal_decoder);
}

static struct leat_decoder *signal_decoder_new(void)
{
    struct signal_decoder *d = leat_new(struct signal_decoder);
    return d ? &d->base : NULL;
}

static void signal_decoder_free(struct leat_decoder *decoder)
{
    leat_free(decoder);
}

static int signal_open(struct leat_decoder *decoder, const struct leat_decode_request *request, uint32_t size[2],
                       struct leat_error *error)
{
    struct signal_decoder *d = (struct signal_decoder *)decoder;
    struct leat_value_info info = {.size = {0, 8000}};
    if (request->form == LEAT_FORM_ORIGINAL) {
        int rc = signal_probe(request->data, request->length, &info, error);
        if (rc)
            return rc;
    } else if (!signal_raw_steps(request->data, request->length, &info.size[0])) {
        return leat_fail(error, LEAT_E_DECODE, "this is no raw signal");
    }
    *d = (struct signal_decoder){.base = d->base, .request = *request, .steps = info.size[0]};
    memcpy(size, info.size, sizeof info.size);
    return LEAT_OK;
}

/* Up to step `end`, of which those from `begin` on go to `out`. */
static int signal_advance(struct signal_decoder *d, uint64_t begin, uint64_t end, float *out, struct leat_error *error)
{
    const uint8_t *p = (const uint8_t *)d->request.data + SIGNAL_HEAD;
    for (; d->at < end; d->at++) {
        const uint16_t bits = leat_get_u16(p + 2 * d->at);
        if (bits == SIGNAL_DAMAGE) {
            d->failed = true;
            return leat_fail(error, LEAT_E_DECODE, "the signal is damaged at step %" PRIu64, d->at);
        }
        d->sum += (int16_t)bits;
        if (d->at >= begin)
            out[d->at - begin] = 0.5f * (float)d->sum;
    }
    return LEAT_OK;
}

static int signal_read(struct leat_decoder *decoder, uint64_t begin, uint64_t count, void *out,
                       struct leat_error *error)
{
    struct signal_decoder *d = (struct signal_decoder *)decoder;
    if (begin < d->at || !count || count > d->steps - begin)
        return leat_fail(error, LEAT_E_INVALID, "a slice of %" PRIu64 " steps from %" PRIu64 " on", count, begin);
    signal_reads++;
    if (d->request.form == LEAT_FORM_ORIGINAL)
        return signal_advance(d, begin, begin + count, out, error);
    memcpy(out, (const uint8_t *)d->request.data + SIGNAL_RAW_HEAD + sizeof(float) * begin, sizeof(float) * count);
    d->at = begin + count;
    return LEAT_OK;
}

static int signal_end(struct leat_decoder *decoder, struct leat_error *error)
{
    struct signal_decoder *d = (struct signal_decoder *)decoder;
    const bool scan = d->request.scan_to_end && d->request.form == LEAT_FORM_ORIGINAL && !d->failed;
    signal_scans += d->request.scan_to_end;
    return scan ? signal_advance(d, d->steps, d->steps, NULL, error) : LEAT_OK;
}

static int signal_pack(struct leat_decoder *decoder, enum leat_photos form, bool lenient, const void *data,
                       size_t length, uint8_t **out, size_t *out_length, struct leat_error *error)
{
    const struct leat_decode_request request = {.data = data, .length = length, .scan_to_end = true};
    uint32_t size[2];
    *out = NULL;
    if (form != LEAT_PHOTOS_RAW)
        return leat_fail(error, LEAT_E_UNSUPPORTED, "it is a signal, which has no fast form");
    int rc = leat_decoder_open(decoder, &request, size, error);
    if (rc)
        return rc;
    *out_length = SIGNAL_RAW_HEAD + sizeof(float) * size[0];
    uint8_t *p = leat_alloc(*out_length);
    rc = p ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for a signal");
    if (p && size[0])
        rc = leat_decoder_read(decoder, 0, size[0], p + SIGNAL_RAW_HEAD, error);
    const int end = leat_decoder_end(decoder, rc ? NULL : error);
    rc = rc ? rc : end;
    if (rc) {
        leat_free(p);
        return rc;
    }
    memcpy(p, "SR", 2);
    leat_put_u32(p + 2, size[0]);
    leat_put_u16(p + 6, 0);
    *out = p;
    return LEAT_OK;
}

static bool signal_form_is_true(const void *data, size_t length, const struct leat_value_info *info)
{
    uint32_t steps;
    return info->form == LEAT_FORM_RAW && signal_raw_steps(data, length, &steps) && steps == info->size[0];
}

static enum leat_form signal_form_of(const void *data, size_t length)
{
    uint32_t steps;
    return signal_raw_steps(data, length, &steps) ? LEAT_FORM_RAW : LEAT_FORM_ORIGINAL;
}

static int signal_view(struct leat_value *out, struct leat_error *error)
{
    uint32_t steps;
    if (!signal_raw_steps(out->data, out->length, &steps))
        return leat_fail(error, LEAT_E_CORRUPT, "this is no raw signal");
    out->data = (const uint8_t *)out->data + SIGNAL_RAW_HEAD;
    out->length -= SIGNAL_RAW_HEAD;
    out->dtype = LEAT_F32;
    out->ndim = 1;
    out->shape[0] = steps;
    return LEAT_OK;
}

static const struct leat_codec signal_codec = {
    .name = "signal",
    .kind = (enum leat_kind)SIGNAL,
    .kind_name = "signal",
    .sizes = {"steps", "rate"},
    .raw_header = SIGNAL_RAW_HEAD,
    .dtype = LEAT_F32,
    .elements = 1,
    .probe = signal_probe,
    .decode_bytes = signal_decode_bytes,
    .decoder_new = signal_decoder_new,
    .decoder_free = signal_decoder_free,
    .open = signal_open,
    .read = signal_read,
    .end = signal_end,
    .pack = signal_pack,
    .form_is_true = signal_form_is_true,
    .form_of = signal_form_of,
    .view = signal_view,
};

/* In a test, as its setup. */
static inline int signal_kind(void **state)
{
    codec_instead = &signal_codec;
    return 0;
}

static const struct leat_field signal_field = {.name = "x", .kind = (enum leat_kind)SIGNAL, .dtype = LEAT_U8};

/* ---- signals by number ----------------------------------------------------------------------- */

/* Some are short, and some have several slices. */
static inline uint32_t signal_steps(uint64_t i)
{
    return (uint32_t)leat_draw_below(5, i, i % 3 ? 150 : SIGNAL_MOST);
}

/* Signal i encoded, of at most SIGNAL_BYTES; its length. `damaged`: its last step. */
static inline size_t signal_make(uint64_t i, bool damaged, uint8_t *out)
{
    const uint32_t steps = signal_steps(i);
    memcpy(out, "SG", 2);
    leat_put_u32(out + 2, steps);
    for (uint32_t k = 0; k < steps; k++)
        leat_put_u16(out + SIGNAL_HEAD + 2 * k, (uint16_t)(leat_draw_below(i, k, 201) - 100));
    if (damaged)
        leat_put_u16(out + SIGNAL_HEAD + 2 * (steps - 1), SIGNAL_DAMAGE);
    return SIGNAL_HEAD + 2 * (size_t)steps;
}

/* The first n steps of signal i. */
static inline void signal_values(uint64_t i, float *out, uint64_t n)
{
    int32_t sum = 0;
    for (uint64_t k = 0; k < n; k++) {
        sum += (int32_t)leat_draw_below(i, k, 201) - 100;
        out[k] = 0.5f * (float)sum;
    }
}

static inline void assert_signal(uint64_t i, const float *got, uint64_t n)
{
    static float wanted[SIGNAL_MOST];
    signal_values(i, wanted, n);
    for (uint64_t k = 0; k < n; k++)
        if (got[k] != wanted[k])
            fail_msg("step %" PRIu64 " of signal %" PRIu64 " is %f", k, i, (double)got[k]);
}

#endif
