/*
 * One group on its way into a file. The thread that adds samples fills it; any thread finishes it (files, photos,
 * checksums, columns, directory); groups are written in order by whichever thread finds the next one ready.
 *
 * While it is filled, varying values are packed into `bytes` after room for the header:
 *
 *     | header | a0 b0 a1 b1 a2 b2 ...                      (a, b: varying fields; 0, 1, 2: samples)
 *
 * Payloads lie like this in the file. So finishing a group appends columns and directory and moves nothing, unless a
 * photo was resized, got another form or a row index, or was left out.
 */
#ifndef LEAT_STORE_GROUP_H
#define LEAT_STORE_GROUP_H

#include "store/growing.h"
#include "store/layout.h"

#define LEAT_STORE_GROUP_BYTES (UINT64_C(8) << 20)
#define LEAT_STORE_RAW_GROUP_BYTES                                                                                     \
    (UINT64_C(1) << 20) /* of original photos that become pixels: some ten times as much */
#define LEAT_STORE_GROUP_ROWS 65536u
#define LEAT_STORE_NAME_BYTES 4096 /* of a value of the field "name", with a NUL */

struct leat_group_value {
    uint64_t at, length; /* in `bytes` */
    uint64_t path;       /* 1 + place in `paths`, or 0 */
    const uint8_t *read; /* of a file, until it has moved: its place in `files`, or NULL if it is in `bytes` */
    uint8_t *instead;    /* its replacement, of record.length bytes, or NULL */
    uint8_t *rows;       /* the row index of a photo, of record.info.rows_length bytes, or NULL */
    bool turned;         /* of a photo: its orientation exchanges width and height */
    struct leat_store_record record;
    uint64_t came_length, came_checksum; /* of the value as it was added or resized: the fingerprint is over this */
};

struct leat_group_options {
    bool check, lenient;
    enum leat_on_bad on_bad;
    unsigned max_side, quality;
    enum leat_photos photos;
};

struct leat_group {
    const struct leat_store_layout *layout;
    uint64_t first_input;
    uint32_t n_inputs;
    uint64_t input_bytes;      /* the number that decides when it is full */
    struct leat_growing bytes; /* the group as it will be written */
    struct leat_growing moved; /* the same, if payloads had to move */
    struct leat_growing
        files;    /* of one sample, once payloads move: each sample's are read into the memory of the last one's */
    bool swapped; /* `bytes` and `moved` are swapped */
    struct leat_growing *columns; /* per stored field of fixed size: its values */
    struct leat_growing values;   /* struct leat_group_value [n_inputs][n_varying] */
    struct leat_growing paths;
    struct leat_growing notes;     /* as they stand in the directory */
    struct leat_growing dropped;   /* bool [n_inputs] */
    struct leat_box_counts *boxes; /* [n_stored], used of fields of boxes */
    /* once finished */
    struct leat_store_group header; /* all but first_row */
    uint64_t sums[2];
    uint32_t n_notes, n_broken, n_skipped;
    int status;
    struct leat_error error; /* sample: the input */
};

/* Varying value v of an input. */
static inline struct leat_group_value *leat_group_value_at(const struct leat_group *g, uint64_t input, uint32_t v)
{
    return (struct leat_group_value *)(void *)g->values.data + input * g->layout->n_varying + v;
}

/* A value as it was added. */
static inline const uint8_t *leat_group_came(const struct leat_group *g, const struct leat_group_value *value)
{
    return value->read ? value->read : g->bytes.data + value->at;
}

int leat_group_init(struct leat_group *group, const struct leat_store_layout *layout);
void leat_group_destroy(struct leat_group *group);
/* Empties it for the inputs from `first_input` on. False: memory is out. */
bool leat_group_begin(struct leat_group *group, uint64_t first_input);
/* Bytes that a sample of these values adds. */
uint64_t leat_group_cost(const struct leat_store_layout *layout, const struct leat_value_ref *values);
/* The number of samples that a group takes at most. */
uint32_t leat_group_room(const struct leat_store_layout *layout);
/* Adds a sample whose values were checked. NOMEM. */
int leat_group_add(struct leat_group *group, const struct leat_value_ref *values, struct leat_error *error);
/* Adds n samples of a schema without varying fields, from row `skip` of the columns on. NOMEM. */
int leat_group_add_columns(struct leat_group *group, const void *const *columns, uint64_t skip, uint32_t n,
                           struct leat_error *error);
/* All of the work; sets status and error, and gives the bytes to write. */
void leat_group_finish(struct leat_group *group, struct leat_decoders *decoders,
                       const struct leat_group_options *options);
/* Counts the boxes of an input whose photos were looked at: group_boxes.c. `resized`: photos may have been. */
void leat_group_count_boxes(struct leat_group *group, uint64_t input, bool resized);
/* The finished bytes, with the header completed by `first_row`. */
const uint8_t *leat_group_bytes(struct leat_group *group, uint64_t first_row, size_t *length);

/* Checks one value against its field: length, text, bool. `data` may be NULL: only the length. INVALID. */
int leat_group_check_value(const struct leat_store_layout *layout, uint32_t field, const void *data, uint64_t length,
                           struct leat_error *error);

#endif
