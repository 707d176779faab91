/*
 * Checking every byte of a group that lies in memory: header, payloads and that they follow each other without gaps,
 * columns, directory, notes, padding. Resume trusts a group only after this; verify reports its findings. Pure: it
 * takes no lock and allocates nothing, so it may run over mapped memory inside leat_guarded.
 */
#ifndef LEAT_STORE_CHECK_H
#define LEAT_STORE_CHECK_H

#include "store/layout.h"

enum leat_fault_kind {
    LEAT_FAULT_HEADER = 1,
    LEAT_FAULT_PADDING,
    LEAT_FAULT_DIRECTORY,
    LEAT_FAULT_NOTES,
    LEAT_FAULT_PAGE,         /* rows [row, row + rows) of a column */
    LEAT_FAULT_RECORD,       /* an index record with an impossible place */
    LEAT_FAULT_PAYLOAD,      /* the value of a row */
    LEAT_FAULT_ROWS,         /* the row index of a photo */
    LEAT_FAULT_FORM,         /* a photo that does not match its record */
    LEAT_FAULT_TABLE,        /* the page checksums of its payloads */
    LEAT_FAULT_PAYLOAD_PAGE, /* ... and a page */
    LEAT_FAULT_TEXT,         /* a value of text that is none */
    LEAT_FAULT_RESTORE,      /* a photo in the fast form that does not give back the original */
    LEAT_FAULT_CODE,         /* a text whose code is another's */
};

struct leat_store_fault {
    enum leat_fault_kind kind;
    uint32_t field;     /* UINT32_MAX: none */
    uint64_t row, rows; /* in the group; rows 0: none */
    uint64_t offset;    /* in the group */
};

enum { LEAT_FAULT_ROOM = 64 };
struct leat_store_faults {
    struct leat_store_fault list[LEAT_FAULT_ROOM];
    uint32_t n;
    uint64_t more; /* found beyond the list's room */
};

void leat_store_fault_add(struct leat_store_faults *faults, enum leat_fault_kind kind, uint32_t field, uint64_t row,
                          uint64_t rows, uint64_t offset);

/* `p` holds `shape->bytes` bytes; `group` is the group's entry in the index. */
void leat_store_check_group(const struct leat_store_layout *layout, const uint8_t *p,
                            const struct leat_store_group *group, const struct leat_store_shape *shape,
                            struct leat_store_faults *faults);

/* Its payloads against their n page checksums at `table`, whose checksum is given. */
void leat_store_check_pages(const uint8_t *p, const struct leat_store_group *group, unsigned shift,
                            const uint8_t *table, uint64_t n, uint64_t checksum, struct leat_store_faults *faults);

/* The texts of a field against their codes, which begin with the group's first row. `checksums`: those of the texts. */
void leat_store_check_codes(const struct leat_store_layout *layout, uint32_t field, const uint8_t *p,
                            const struct leat_store_group *group, const struct leat_store_shape *shape,
                            const struct leat_source_codes *codes, const uint64_t *checksums,
                            struct leat_store_faults *faults);

/* A note of the directory: a sample that was marked or left out, a photo that could not have the form asked for, or a
 * warning that lenient decoding accepted. Strings are not terminated. */
enum leat_note_kind { LEAT_NOTE_MARKED = 0, LEAT_NOTE_SKIPPED, LEAT_NOTE_AS_CAME, LEAT_NOTE_WARNED };
struct leat_store_note {
    uint64_t input;
    enum leat_note_kind kind;
    const char *name, *reason;
    uint32_t name_bytes, reason_bytes;
};
/* Takes one note off [*p, end); false if it does not fit. */
bool leat_store_note_get(const uint8_t **p, const uint8_t *end, struct leat_store_note *note);
/* The start of the notes of a group. */
static inline uint64_t leat_store_notes_at(const struct leat_store_layout *layout, const struct leat_store_shape *shape,
                                           uint64_t n_rows)
{
    return shape->directory_at + LEAT_STORE_GROUP_FACTS + 8 * leat_store_group_pages(layout, n_rows, layout->n_stored);
}
/* The text for a person. */
const char *leat_store_fault_text(enum leat_fault_kind kind);

#endif
