/*
 * The layout of leat's own file, version 1: constants, records, and the places of the columns of a group. Reader,
 * writer, resume and verify share it. docs/format.md is the specification.
 *
 *     +--------+---------+---------+-----+---------+----------+-----------+--------+
 *     | header | group 0 | group 1 | ... | group n | sections | directory | footer |
 *     +--------+---------+---------+-----+---------+----------+-----------+--------+
 *
 *     group:   header | payloads, packed | columns, packed | directory (page checksums, sums, notes)
 *
 * The columns of a group follow each other without padding, widest element first, which keeps every value aligned to
 * its element. So a column begins at  columns_at + before * rows.  No table per group and column is needed, and opening
 * ten million samples reads some hundred group entries.
 */
#ifndef LEAT_STORE_LAYOUT_H
#define LEAT_STORE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/source.h"
#include "store/growing.h"

#define LEAT_STORE_VERSION 1u
#define LEAT_STORE_MAGIC "\x89LEAT\r\n\x1a"
#define LEAT_STORE_GROUP_MAGIC "LEATgrp\n"
#define LEAT_STORE_FOOTER_MAGIC "LEATend\n"

enum {
    LEAT_STORE_ALIGN = 64, /* of groups, columns regions, sections, footer */
    LEAT_STORE_HEADER_FIXED = 64,
    LEAT_STORE_FIELD_BYTES = 160,
    LEAT_STORE_GROUP_HEADER = 64,
    LEAT_STORE_GROUP_ENTRY = 48,
    LEAT_STORE_GROUP_FACTS = 32, /* the part before the page checksums in a group's directory */
    LEAT_STORE_NOTE_FIXED = 20,
    LEAT_STORE_SECTION_ENTRY = 40,
    LEAT_STORE_SUMMARY = 48,
    LEAT_STORE_FORMS = 72,
    LEAT_STORE_CONVERSION = 40,
    LEAT_STORE_FOOTER = 64,
    LEAT_STORE_PAGE_BYTES = 65536,
    LEAT_STORE_PAGES_HEAD = 16, /* of the section of payload pages: checksum of its index, page shift */
    LEAT_STORE_MAX_FIELDS = 1024,
    LEAT_STORE_DERIVED = 5, /* derived fields of encoded values */
};

enum leat_section_type {
    LEAT_SECTION_CLASSES = 1,
    LEAT_SECTION_METADATA = 2,
    LEAT_SECTION_GROUPS = 3,
    LEAT_SECTION_SUMMARY = 4,
    LEAT_SECTION_JPEG_ROWS = 5,   /* not used: the row index of a photo lies behind it */
    LEAT_SECTION_FORMS = 6,       /* optional, beside LEAT_FEATURE_FORMS: the number of photos in each form */
    LEAT_SECTION_ROLES = 7,       /* optional: the fields that are boxes, masks, keypoints */
    LEAT_SECTION_PAGES = 8,       /* optional: checksums of pages of payloads, in groups with large values */
    LEAT_SECTION_PAIRS = 9,       /* optional: the keypoints that are left and right of each other */
    LEAT_SECTION_CODES = 10,      /* optional, of each field of few texts: codes.h */
    LEAT_SECTION_COLUMNS = 11,    /* optional: the columns of sparse rows */
    LEAT_SECTION_CONVERSION = 12, /* optional: the sums of the fingerprint of what the file was converted from */
};
#define LEAT_SECTION_REQUIRED 1u

/* Bits of the header that a reader must know. */
#define LEAT_FEATURE_FORMS 1u /* photos may be stored in another form than the original */

/* The facts of a field, stored or derived. */
struct leat_store_field {
    const struct leat_codec *codec; /* of a stored field of encoded values, else NULL */
    bool varying;
    uint32_t column;   /* the stored field whose column holds it */
    uint32_t position; /* of that column among the columns of a group */
    uint32_t at;       /* byte of the value in a row of the column */
    uint64_t unit;     /* bytes of the value; for a varying one: of one step of its first dimension */
    uint64_t width;    /* bytes of a row of the column */
    uint64_t before;   /* widths of all columns before it */
    unsigned page_shift;
};

/* The extras that a writer adds to a file for its readers. */
struct leat_store_tuning {
    /* Groups with a value of at least `large` bytes that is no encoded one get checksums of pages of 2^shift bytes of
     * their payloads, so that a piece of the value can be verified. */
    uint64_t large;
    unsigned shift;
    /* A field of text of at least so many rows gets codes, if they take at most so many bytes of a writer's memory. */
    uint64_t coded_rows, coded_bytes;
};

struct leat_store_layout {
    struct leat_field *fields; /* stored ones in the order of the schema, then derived ones */
    struct leat_store_field *info;
    char (*names)[LEAT_STORE_HEADER_FIXED];
    uint32_t *order; /* stored fields in the order of the columns */
    uint32_t n_stored, n_fields, n_varying, n_encoded;
    int64_t name_field; /* the stored field "name" (text), or -1 */
    bool has_files;     /* some field is flagged LEAT_FIELD_FILES */
    uint64_t row_bytes; /* sum of the widths */
    uint32_t features;  /* LEAT_FEATURE_*: of the file, not of its schema */
    struct leat_store_tuning tuning;
};

/* Checks a schema and computes all places. Errors: INVALID (names the field), NOMEM. */
int leat_store_layout_init(struct leat_store_layout *layout, const struct leat_field *fields, size_t n_fields,
                           struct leat_error *error);
void leat_store_layout_destroy(struct leat_store_layout *layout);
/* Whether a stored field has images, beside which boxes may stand: encoded ones, or arrays. */
static inline bool leat_store_is_image(const struct leat_store_layout *layout, uint32_t field)
{
    const struct leat_codec *codec = layout->info[field].codec;
    const struct leat_field *f = &layout->fields[field];
    return f->role == LEAT_ROLE_NONE && ((codec && codec->image) || f->layout);
}

static inline uint64_t leat_store_align(uint64_t n, uint64_t alignment)
{
    return (n + alignment - 1) & ~(alignment - 1);
}

/* Pages of 2^shift rows of a column, or bytes of payloads. */
static inline uint64_t leat_store_pages(uint64_t rows, unsigned shift)
{
    return (rows >> shift) + ((rows & ((UINT64_C(1) << shift) - 1)) != 0);
}

/* Page checksums of a group of so many rows, all columns; of the columns before `position`. */
uint64_t leat_store_group_pages(const struct leat_store_layout *layout, uint64_t rows, uint32_t position);

/* ---- the header ---- */

/* The options that a file was written with; resume compares them. */
struct leat_store_identity {
    uint64_t options, source, content, shard;
};
uint64_t leat_store_header_bytes(uint32_t n_fields);
void leat_store_header_put(uint8_t *p, const struct leat_store_layout *layout,
                           const struct leat_store_identity *identity);
/* The length of the header, from its first LEAT_STORE_HEADER_FIXED bytes. FORMAT, CORRUPT. */
int leat_store_header_length(const uint8_t *p, uint64_t *bytes, struct leat_error *error);
/* `bytes` is the result of leat_store_header_length. FORMAT, CORRUPT, NOMEM. */
int leat_store_header_get(const uint8_t *p, uint64_t bytes, struct leat_store_layout *layout,
                          struct leat_store_identity *identity, struct leat_error *error);
/* The checksum that a header ends with. */
uint64_t leat_store_header_checksum(const uint8_t *p, uint64_t bytes);

/* A byte of each stored field: its role, and 128 if it is normalized. False: no field has one, and there is no such
 * section. */
bool leat_store_roles_put(const struct leat_store_layout *layout, uint8_t *roles);
/* Roles that this leat does not know count as none. False: one is impossible for its field. */
bool leat_store_roles_get(struct leat_store_layout *layout, const uint8_t *roles);
/* For each field with pairs of keypoints: its number, their number (4 bytes each), the pairs (2 bytes a point). Without
 * such a field nothing is appended, and there is no such section. False: no memory. */
bool leat_store_pairs_put(const struct leat_store_layout *layout, struct leat_growing *out);
/* False: they are impossible, or with !*memory there is no memory. */
bool leat_store_pairs_get(struct leat_store_layout *layout, const uint8_t *bytes, uint64_t length, bool *memory);
/* For each field of sparse rows: its number and the dtype of its values (4 bytes each), the number of columns (8). As
 * for pairs. False: no memory. */
bool leat_store_columns_put(const struct leat_store_layout *layout, struct leat_growing *out);
/* False: they are impossible, or lack for a field. */
bool leat_store_columns_get(struct leat_store_layout *layout, const uint8_t *bytes, uint64_t length);

/* ---- groups ---- */

struct leat_store_group {
    uint64_t first_row, first_input;
    uint32_t n_rows, n_inputs;
    uint64_t payload_bytes, directory_bytes, directory_checksum;
};
void leat_store_group_put(uint8_t p[LEAT_STORE_GROUP_HEADER], const struct leat_store_group *group);
bool leat_store_group_get(const uint8_t p[LEAT_STORE_GROUP_HEADER], struct leat_store_group *group);

/* The places of the parts of a group, from its first byte. */
struct leat_store_shape {
    uint64_t columns_at, directory_at, bytes;
};
/* False if the numbers are impossible. */
bool leat_store_group_shape(const struct leat_store_layout *layout, uint64_t n_rows, uint64_t payload_bytes,
                            uint64_t directory_bytes, struct leat_store_shape *shape);

/* An entry of the group index, as it stands in the file. */
struct leat_store_entry {
    uint64_t offset, first_row;
    uint32_t n_rows, zero;
    uint64_t payload_bytes, directory_bytes, directory_checksum;
};
_Static_assert(sizeof(struct leat_store_entry) == LEAT_STORE_GROUP_ENTRY, "group entries are read in place");

/* An entry of the section of payload pages, one per group, as it stands in the file. The pages of a group begin at its
 * first payload byte; it has checksums of all of them, or none. */
struct leat_store_paged {
    uint64_t before;   /* page checksums of the groups before it */
    uint64_t checksum; /* of its own page checksums; 0: it has none */
};
_Static_assert(sizeof(struct leat_store_paged) == 16, "entries are read in place");

/* The checksum of a page of the payloads of a group that begins at `group`. */
uint64_t leat_store_page_checksum(const uint8_t *group, uint64_t payload_bytes, unsigned shift, uint64_t page);

/* ---- index records: the columns of varying fields ---- */

struct leat_store_record {
    uint64_t offset; /* from the first byte of the group */
    uint64_t length, checksum;
    struct leat_value_info info; /* of an encoded value, its stored form */
};
enum { LEAT_STORE_RECORD = 24, LEAT_STORE_CODEC_RECORD = 40 };
void leat_store_record_put(uint8_t *p, const struct leat_store_record *record, bool encoded);
void leat_store_record_get(const uint8_t *p, struct leat_store_record *record, bool encoded);
/* Whether a record's payload and row index lie in `room` bytes, and its other numbers are possible. */
bool leat_store_record_fits(const struct leat_store_layout *layout, const struct leat_store_field *field,
                            const struct leat_store_record *record, uint64_t room);

/* ---- sections and footer ---- */

struct leat_store_section {
    uint32_t type;
    uint16_t flags;
    uint8_t codec, align_log2;
    uint64_t offset, length, checksum;
};
void leat_store_section_put(uint8_t p[LEAT_STORE_SECTION_ENTRY], const struct leat_store_section *section);
void leat_store_section_get(const uint8_t p[LEAT_STORE_SECTION_ENTRY], struct leat_store_section *section);

struct leat_store_summary {
    uint64_t count, inputs, sums[2], broken, skipped;
};
void leat_store_summary_put(uint8_t p[LEAT_STORE_SUMMARY], const struct leat_store_summary *summary);
void leat_store_summary_get(const uint8_t p[LEAT_STORE_SUMMARY], struct leat_store_summary *summary);

/* The encoded values of a file by form: their number, their bytes with row indexes, and their original bytes. */
struct leat_store_forms {
    uint64_t photos[LEAT_FORMS], bytes[LEAT_FORMS], original[LEAT_FORMS];
};
void leat_store_forms_put(uint8_t p[LEAT_STORE_FORMS], const struct leat_store_forms *forms);
void leat_store_forms_get(const uint8_t p[LEAT_STORE_FORMS], struct leat_store_forms *forms);

/* The fingerprint of the data set that a file was converted from, which the file has. */
struct leat_store_conversion {
    uint64_t sums[2];   /* those of the source, which stand in the place of the file's */
    uint64_t values[2]; /* those of the file's own values: the section belongs to no other file */
    bool classes_apart; /* the classes are no part of the fingerprint */
};
void leat_store_conversion_put(uint8_t p[LEAT_STORE_CONVERSION], const struct leat_store_conversion *conversion);
/* False: it has flags that this leat does not know. */
bool leat_store_conversion_get(const uint8_t p[LEAT_STORE_CONVERSION], struct leat_store_conversion *conversion);
/* Whether it says more than the file does without it. */
static inline bool leat_store_conversion_tells(const struct leat_store_conversion *c)
{
    return c->classes_apart || c->sums[0] != c->values[0] || c->sums[1] != c->values[1];
}

struct leat_store_footer {
    uint64_t file_bytes, directory_at, directory_bytes, directory_checksum, header_checksum;
    uint32_t version;
};
void leat_store_footer_put(uint8_t p[LEAT_STORE_FOOTER], const struct leat_store_footer *footer);
/* LEAT_E_UNFINISHED: no footer stands there; CORRUPT, FORMAT. */
int leat_store_footer_get(const uint8_t p[LEAT_STORE_FOOTER], struct leat_store_footer *footer,
                          struct leat_error *error);

#endif
