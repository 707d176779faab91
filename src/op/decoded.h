/*
 * Photos that are decoded once for several users: outputs of several loaders over one data set, that go through the
 * same samples side by side.
 *
 *     first user    open - begin ---- the whole photo is decoded into the store ---- rows, end
 *     second user          open ......... waits for that ........................... rows, end
 *     third user                                                              open - rows, end      and the photo goes
 *
 * The first user of a photo decodes all of it into memory, others read their rows there. Pixels are the same bytes
 * as without the store, because the rows of a box are byte for byte those of a full decode, cropped. Photos that say
 * more than their pixels are decoded by each user for itself: one that is broken somewhere, whose error depends on
 * what the box needs of it; one decoded leniently, or by the codec at a smaller scale.
 *
 * A decode into the store waits for nothing, so those that wait for it do so for as long as one decode takes. A photo
 * goes when as many users have had it as are expected; else the one that nobody has used for longest goes when there
 * is no room for a new one.
 *
 * A whole photo takes longer to decode than the part that a crop needs, and goes through memory. So photos are decoded
 * into the store only where the parts that all users need of one are together well above a whole, as the parts of the
 * last photos say; and only few, where later users come so late that photos are gone, until users come in time again.
 */
#ifndef LEAT_OP_DECODED_H
#define LEAT_OP_DECODED_H

#include "codec/image.h"
#include "op/program.h"

/* Any thread; not across a fork. */
struct leat_decoded;

/* At most so many bytes of photos, and of what keeps account of them. NULL: memory is out. */
struct leat_decoded *leat_decoded_new(uint64_t max_bytes);
struct leat_decoded *leat_decoded_retain(struct leat_decoded *store);
void leat_decoded_release(struct leat_decoded *store); /* NULL is allowed */
/* How many users each photo will have: outputs that decode it, of all loaders together. 0, as at first: not known; two
 * are taken to come, and photos go only when there is no room. 1: nothing is decoded into the store, and what nobody
 * has goes. */
void leat_decoded_expect(struct leat_decoded *store, unsigned users);

struct leat_decoded_counts {
    uint64_t hits, fills; /* photos read from the store; decoded into it */
    uint64_t bytes;       /* that it has now */
};
void leat_decoded_count(struct leat_decoded *store, struct leat_decoded_counts *counts);

/* Whether somebody decodes this value into the store just now: who wants it, too, does better to turn to another one
 * meanwhile. */
bool leat_decoded_is_busy(struct leat_decoded *store, const struct leat_value_id *value);

/* ---- a decoder over the store ---------------------------------------------------------------- */

/* A key begins with the stored value, and goes on with how it is decoded. */
enum { LEAT_DECODED_VALUE = 3, LEAT_DECODED_KEY = 7 };
static inline void leat_decoded_key(uint64_t *key, const struct leat_value_id *value)
{
    key[0] = (uintptr_t)value->source;
    key[1] = value->sample;
    key[2] = value->field;
}

/* A decoder (codec.h) whose rows come from the store where they can, else from another decoder. All zero before its
 * first use; it has no memory of its own. One thread at a time. */
struct leat_decoded_decoder {
    struct leat_decoder base;
    struct leat_codec face; /* its functions; names are those of the other one's codec */
    struct leat_decoded *store;
    struct leat_decoder *real;
    struct leat_decode_request request;
    struct leat_image_wish wish;
    uint64_t key[LEAT_DECODED_KEY];
    struct leat_decoded_photo *photo; /* whose rows it gives; NULL: those of the other one */
    bool opened, decoded;             /* the other one is open; has decoded the last photo */
    uint32_t w, h;
    const uint8_t *next; /* row */
    size_t row_bytes;
    unsigned part; /* of the photo, that is needed */
};

/* The decoder for one row: it over `real`; or `real` itself, where the store cannot serve the row or `store` is NULL.
 * Valid until this is called again. */
struct leat_decoder *leat_decoded_decoder_for(struct leat_decoded_decoder *decoder, struct leat_decoded *store,
                                              struct leat_decoder *real, const struct leat_value_id *value,
                                              const struct leat_decode_request *request, bool dct_scaling);

/* ---- decoded.c, for decoded_decoder.c -------------------------------------------------------- */

/* A photo of the store, whole, for whoever has it from these functions until leat_decoded_leave. */
struct leat_decoded_photo {
    uint64_t key[LEAT_DECODED_KEY];
    uint32_t w, h;
    bool scanned;    /* to its end, and found good */
    uint8_t *pixels; /* rows of w pixels, and LEAT_DECODE_PADDING bytes */

    /* under the lock */
    uint64_t room; /* of `pixels` */
    bool ready;    /* else somebody decodes it now */
    unsigned users, had;
    struct leat_decoded_photo *chain, *newer, *older;
};

/* The photo, if the store has it: after waiting, if it is being decoded. With `scanned` only such. */
struct leat_decoded_photo *leat_decoded_find(struct leat_decoded *store, const uint64_t *key, bool scanned);
/* A place for a photo that the store has not got, which the caller decodes at once, and then calls leat_decoded_fill or
 * leat_decoded_drop; or, as leat_decoded_find gives it, a `ready` one. NULL: it is not to be decoded into the store.
 * `part`: what the caller needs of it, of LEAT_DECODED_WHOLE. */
#define LEAT_DECODED_WHOLE 1024
struct leat_decoded_photo *leat_decoded_claim(struct leat_decoded *store, const uint64_t *key, bool scanned,
                                              unsigned part, uint64_t bytes);
void leat_decoded_fill(struct leat_decoded *store, struct leat_decoded_photo *photo);
void leat_decoded_drop(struct leat_decoded *store, struct leat_decoded_photo *photo);
/* `part`: what was needed of it; 0: not known. */
void leat_decoded_leave(struct leat_decoded *store, struct leat_decoded_photo *photo, unsigned part);

#endif
