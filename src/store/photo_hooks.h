/*
 * What the writer needs to know of photos, as a table: the store stands below the decoders (src/codec) and may not call
 * them. src/pack joins the two and opens writers for users.
 */
#ifndef LEAT_STORE_PHOTO_HOOKS_H
#define LEAT_STORE_PHOTO_HOOKS_H

#include <stddef.h>
#include <stdint.h>

#include "leat/leat.h"

struct leat_photo_facts {
    uint32_t width, height;
    uint8_t channels, image_kind; /* enum leat_image_kind */
};

/* Called from several threads; a checker from one at a time. */
struct leat_photo_hooks {
    /* LEAT_E_DECODE: no photo, or its header is broken. */
    int (*probe)(const void *data, size_t length, struct leat_photo_facts *facts, struct leat_error *error);
    void *(*checker_new)(void);
    void (*checker_free)(void *checker);
    /* Scans to the end. LEAT_E_DECODE: broken. *rows (`rows` may be NULL) is the row index of a JPEG
     * (codec/jpeg/rows.h) that is to lie behind it, to be ended with leat_free, or NULL. */
    int (*check)(void *checker, const void *data, size_t length, uint8_t **rows, size_t *rows_length,
                 struct leat_error *error);
    /* Another form, fast or raw, of a photo that has it. *out is ended with leat_free. LEAT_E_UNSUPPORTED: the photo is
     * to be stored as it came, and the error says why, in the same words for all photos of its kind. LEAT_E_DECODE:
     * broken; a photo for which this succeeds needs no check. May be NULL: other forms are then refused. */
    int (*pack)(void *checker, enum leat_photos form, const void *data, size_t length, uint8_t **out,
                size_t *out_length, struct leat_error *error);
    /* LEAT_OK with *out NULL: small enough. *out is ended with leat_free. May be NULL: max_side is then refused. */
    int (*shrink)(const void *data, size_t length, unsigned max_side, unsigned quality, uint8_t **out,
                  size_t *out_length, struct leat_error *error);
};

/* leat_writer_open with the photo functions given. NULL hooks: image fields are refused. */
int leat_store_writer_open(const char *path, const struct leat_field *fields, size_t n_fields,
                           const struct leat_writer_options *options, const struct leat_photo_hooks *hooks,
                           struct leat_writer **out, struct leat_error *error);

#endif
