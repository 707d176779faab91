/*
 * An opened leat file. The source table (format/source.h) is its face; verify and the manifest look inside.
 */
#ifndef LEAT_STORE_READER_H
#define LEAT_STORE_READER_H

#include <stdatomic.h>

#include "format/source.h"
#include "store/layout.h"

/* One bit per page, table, group or value: set when it was seen to be good; cleared when the file has changed. */
struct leat_bits {
    _Atomic(uint64_t) *words;
    uint64_t n;
};

struct leat_store_source {
    struct leat_source base;
    struct leat_io_file *file;
    const uint8_t *map;         /* NULL: the file is elsewhere, and nothing of it is reached in place */
    struct leat_io_file *pages; /* the source of index and columns: `file`, or blocks of it that are cached */
    uint64_t block_bytes;       /* of these */
    bool kept;                  /* the cache has room for all of these: short values are read from them, too */
    uint64_t header_bytes, sections_at, directory_at, footer_checksum;
    struct leat_store_layout layout;
    struct leat_store_identity identity;
    struct leat_store_summary summary;
    struct leat_store_forms forms;
    struct leat_store_section *sections;
    uint32_t n_sections;
    enum leat_recheck recheck;

    /* Finding a row: a hint at its group, then the group. */
    struct leat_store_entry *groups;
    uint64_t *first_rows; /* n_groups + 1: the last is the count */
    uint64_t *columns_at; /* in the file */
    uint32_t *hints;      /* group of row (i << hint_shift) */
    uint64_t n_groups;
    unsigned hint_shift;

    /* For a file with LEAT_SECTION_PAGES whose index is good, else NULL: pages of payloads. */
    struct leat_store_paged *paged; /* per group */
    void *page_index;               /* their memory */
    unsigned paged_shift;
    uint64_t n_page_checksums, page_checksums_at;

    _Atomic uint64_t stamp; /* of the file, when the fields below were verified */
    /* The parts that this process has verified. Pages have the number (first_row of the group >> page_shift) + group +
     * page in the group, which is unique in a column and needs no table. */
    struct leat_bits groups_good;
    struct leat_bits tables_good;               /* per group: its page checksums */
    struct leat_bits payload_pages_good;        /* by the number of their checksums */
    struct leat_bits *pages_good;               /* per stored field */
    _Atomic(struct leat_bits *) *payloads_good; /* per stored field, made at the first mark */
    _Atomic(struct leat_bits *) *learnt[2];     /* per stored field: found good, found broken */
    /* The number of further values that are read with pread and not through the mapping: access.c. */
    _Atomic(uint64_t) cold_values;
    char *path, *metadata;
    uint8_t *storage; /* of the fields */
    uint8_t *classes_bytes;
    const char **classes;
};

/* Extents lie in the file itself, or in the source of its pages. */
enum { LEAT_STORE_FILE = 0, LEAT_STORE_PAGES = 1 };

int leat_store_open(const char *path, const struct leat_open_options *options, struct leat_source **out,
                    struct leat_error *error);

/* The size of the file and its footer's checksum. */
void leat_store_file_facts(const struct leat_source *source, uint64_t *bytes, uint64_t *footer_checksum);

/* The place of the group in the file, and its shape. Its numbers were checked at open. */
void leat_store_group_of(const struct leat_store_source *source, uint64_t group, struct leat_store_group *header,
                         struct leat_store_shape *shape);

/* The number of pages of a group's payloads that have checksums: all, or 0. */
uint64_t leat_store_paged_count(const struct leat_store_source *source, uint64_t group);

/* Rows, extents, pieces and marks: access.c. */
int leat_store_rows(struct leat_source *source, size_t field, const uint64_t *samples, size_t n, void *cold,
                    const void **rows, size_t *failed, struct leat_error *error);
int leat_store_extents(struct leat_source *source, size_t field, const uint64_t *samples, size_t n,
                       struct leat_extent *extents, size_t *failed, struct leat_error *error);
bool leat_store_piece(struct leat_source *source, uint64_t sample, struct leat_extent *extent, uint64_t begin,
                      uint64_t length);
int leat_store_check_piece(struct leat_source *source, uint64_t sample, const struct leat_extent *pages,
                           const uint8_t *data, bool mapped, struct leat_error *error);
int leat_store_codes(struct leat_source *source, size_t field, struct leat_source_codes *out, struct leat_error *error);
size_t leat_store_lookups(struct leat_source *source, size_t field, uint64_t sample, struct leat_extent *ranges);
int leat_store_refresh(struct leat_source *source, struct leat_error *error);
void leat_store_mark(struct leat_source *source, size_t field, uint64_t sample, bool verified, enum leat_health health);
void leat_store_doubt(struct leat_source *source, size_t field, uint64_t sample);
int leat_store_column(struct leat_source *source, size_t field, const void **data, struct leat_error *error);
int leat_store_span(struct leat_source *source, size_t field, uint64_t sample, uint64_t n, const void **data,
                    uint64_t *got, struct leat_error *error);
/* Every byte: verify.c. */
int leat_store_verify(struct leat_source *source, const struct leat_verify_options *options, uint64_t first_id,
                      struct leat_error *error);

#endif
