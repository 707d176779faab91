/*
 * The full check of one group. Faults go into a list of fixed size, because the caller may be a guarded read that must
 * not allocate. Those that do not fit are counted.
 */
#include "store/check.h"

#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "format/source.h"
#include "store/text.h"

void leat_store_fault_add(struct leat_store_faults *faults, enum leat_fault_kind kind, uint32_t field, uint64_t row,
                          uint64_t rows, uint64_t offset)
{
    if (faults->n == LEAT_FAULT_ROOM)
        faults->more++;
    else
        faults->list[faults->n++] = (struct leat_store_fault){kind, field, row, rows, offset};
}

static bool is_zero(const uint8_t *p, uint64_t from, uint64_t to)
{
    uint8_t any = 0;
    for (; from < to; from++)
        any |= p[from];
    return !any;
}

bool leat_store_note_get(const uint8_t **p, const uint8_t *end, struct leat_store_note *note)
{
    if (end - *p < LEAT_STORE_NOTE_FIXED)
        return false;
    uint32_t kind = leat_get_u32(*p + 8);
    *note = (struct leat_store_note){.input = leat_get_u64(*p),
                                     .kind = (enum leat_note_kind)kind,
                                     .name_bytes = leat_get_u32(*p + 12),
                                     .reason_bytes = leat_get_u32(*p + 16)};
    *p += LEAT_STORE_NOTE_FIXED;
    uint64_t text = (uint64_t)note->name_bytes + note->reason_bytes;
    if (kind > LEAT_NOTE_WARNED || text > (uint64_t)(end - *p))
        return false;
    note->name = (const char *)*p;
    note->reason = note->name + note->name_bytes;
    *p += text;
    return true;
}

static void check_columns(const struct leat_store_layout *l, const uint8_t *p, uint64_t n_rows,
                          const struct leat_store_shape *shape, struct leat_store_faults *faults)
{
    const uint8_t *sum = p + shape->directory_at + LEAT_STORE_GROUP_FACTS;
    for (uint32_t c = 0; c < l->n_stored; c++) {
        const struct leat_store_field *info = &l->info[l->order[c]];
        uint64_t column = shape->columns_at + info->before * n_rows, page = UINT64_C(1) << info->page_shift;
        for (uint64_t row = 0; row < n_rows; row += page, sum += 8) {
            uint64_t rows = page < n_rows - row ? page : n_rows - row, at = column + row * info->width;
            if (leat_hash64(p + at, rows * info->width) != leat_get_u64(sum))
                leat_store_fault_add(faults, LEAT_FAULT_PAGE, l->order[c], row, rows, at);
        }
    }
}

/* Payloads lie in the order of samples, then fields, each right after the one before. So every byte has a checksum.
 * Whether a photo in the fast form gives back its original bytes is checked separately (restore.h). */
static void check_payloads(const struct leat_store_layout *l, const uint8_t *p, const struct leat_store_group *g,
                           const struct leat_store_shape *shape, struct leat_store_faults *faults)
{
    uint64_t at = LEAT_STORE_GROUP_HEADER, end = at + g->payload_bytes;
    size_t bad;
    for (uint64_t row = 0; row < g->n_rows; row++)
        for (uint32_t f = 0; f < l->n_stored; f++) {
            const struct leat_store_field *info = &l->info[f];
            if (!info->varying)
                continue;
            uint64_t place = shape->columns_at + info->before * g->n_rows + row * info->width;
            struct leat_store_record r;
            leat_store_record_get(p + place, &r, info->codec);
            if (r.offset != at || !leat_store_record_fits(l, info, &r, end - at)) {
                leat_store_fault_add(faults, LEAT_FAULT_RECORD, f, row, 1, place);
                return; /* the start of the next one is no longer known */
            }
            if (leat_hash64(p + at, r.length) != r.checksum)
                leat_store_fault_add(faults, LEAT_FAULT_PAYLOAD, f, row, 1, at);
            else if (!leat_text_fits(l->fields[f].kind, p + at, r.length, &bad))
                leat_store_fault_add(faults, LEAT_FAULT_TEXT, f, row, 1, at + bad);
            else if (r.info.form && !info->codec->form_is_true(p + at, r.length, &r.info))
                leat_store_fault_add(faults, LEAT_FAULT_FORM, f, row, 1, at);
            at += r.length;
            uint32_t rows = r.info.rows_length;
            if (rows && !info->codec->rows_are_whole(p + at, rows))
                leat_store_fault_add(faults, LEAT_FAULT_ROWS, f, row, 1, at);
            at += rows;
        }
    if (at != end)
        leat_store_fault_add(faults, LEAT_FAULT_PADDING, UINT32_MAX, 0, 0, at);
}

void leat_store_check_group(const struct leat_store_layout *l, const uint8_t *p, const struct leat_store_group *g,
                            const struct leat_store_shape *shape, struct leat_store_faults *faults)
{
    struct leat_store_group header;
    const uint64_t payload_end = LEAT_STORE_GROUP_HEADER + g->payload_bytes,
                   columns_end = shape->columns_at + g->n_rows * l->row_bytes;
    const uint64_t directory_end = shape->directory_at + g->directory_bytes;
    if (!leat_store_group_get(p, &header) || header.n_rows != g->n_rows || header.first_row != g->first_row ||
        header.payload_bytes != g->payload_bytes || header.directory_bytes != g->directory_bytes ||
        header.directory_checksum != g->directory_checksum || header.n_inputs < header.n_rows)
        leat_store_fault_add(faults, LEAT_FAULT_HEADER, UINT32_MAX, 0, 0, 0);
    if (!is_zero(p, payload_end, shape->columns_at))
        leat_store_fault_add(faults, LEAT_FAULT_PADDING, UINT32_MAX, 0, 0, payload_end);
    if (!is_zero(p, columns_end, shape->directory_at))
        leat_store_fault_add(faults, LEAT_FAULT_PADDING, UINT32_MAX, 0, 0, columns_end);
    if (!is_zero(p, directory_end, shape->bytes))
        leat_store_fault_add(faults, LEAT_FAULT_PADDING, UINT32_MAX, 0, 0, directory_end);
    bool directory = leat_hash64(p + shape->directory_at, g->directory_bytes) == g->directory_checksum;
    if (!directory)
        leat_store_fault_add(faults, LEAT_FAULT_DIRECTORY, UINT32_MAX, 0, 0, shape->directory_at);
    const uint8_t *note_at = p + leat_store_notes_at(l, shape, g->n_rows), *end = p + directory_end;
    uint64_t notes = leat_get_u64(p + shape->directory_at + 24);
    struct leat_store_note note;
    while (directory && notes && leat_store_note_get(&note_at, end, &note))
        notes--;
    if (directory && (notes || note_at != end || leat_get_u64(p + shape->directory_at + 16) > g->n_rows))
        leat_store_fault_add(faults, LEAT_FAULT_NOTES, UINT32_MAX, 0, 0, shape->directory_at);
    if (directory) /* else every page would be reported for one flipped bit */
        check_columns(l, p, g->n_rows, shape, faults);
    check_payloads(l, p, g, shape, faults);
}

void leat_store_check_pages(const uint8_t *p, const struct leat_store_group *g, unsigned shift, const uint8_t *table,
                            uint64_t n, uint64_t checksum, struct leat_store_faults *faults)
{
    if (leat_hash64(table, 8 * n) != checksum) { /* else every page would be reported for one flipped bit */
        leat_store_fault_add(faults, LEAT_FAULT_TABLE, UINT32_MAX, 0, 0, 0);
        return;
    }
    for (uint64_t page = 0; page < n; page++)
        if (leat_store_page_checksum(p, g->payload_bytes, shift, page) != leat_get_u64(table + 8 * page))
            leat_store_fault_add(faults, LEAT_FAULT_PAYLOAD_PAGE, UINT32_MAX, 0, 0,
                                 LEAT_STORE_GROUP_HEADER + (page << shift));
}

void leat_store_check_codes(const struct leat_store_layout *l, uint32_t field, const uint8_t *p,
                            const struct leat_store_group *g, const struct leat_store_shape *shape,
                            const struct leat_source_codes *codes, const uint64_t *checksums,
                            struct leat_store_faults *faults)
{
    const struct leat_store_field *info = &l->info[field];
    const uint8_t *code_at = codes->codes + g->first_row * codes->width;
    for (uint64_t row = 0; row < g->n_rows; row++) {
        const uint32_t code = codes->width == 1 ? code_at[row] : leat_get_u16(code_at + 2 * row);
        const uint64_t place = shape->columns_at + info->before * g->n_rows + row * info->width;
        struct leat_store_record r;
        leat_store_record_get(p + place, &r, false);
        if (r.checksum != checksums[code] || r.length != leat_get_u32(codes->lengths + 4 * (size_t)code))
            leat_store_fault_add(faults, LEAT_FAULT_CODE, field, row, 1, place);
    }
}

const char *leat_store_fault_text(enum leat_fault_kind kind)
{
    switch (kind) {
    case LEAT_FAULT_HEADER:
        return "the header of a group is not what the index says";
    case LEAT_FAULT_PADDING:
        return "bytes that must be zero are not";
    case LEAT_FAULT_DIRECTORY:
        return "the directory of a group fails its checksum";
    case LEAT_FAULT_NOTES:
        return "the notes of a group are impossible";
    case LEAT_FAULT_PAGE:
        return "a page of the column fails its checksum";
    case LEAT_FAULT_RECORD:
        return "the index points outside its group or out of order";
    case LEAT_FAULT_PAYLOAD:
        return "the value fails its checksum";
    case LEAT_FAULT_TABLE:
        return "the page checksums of the values of a group fail their checksum";
    case LEAT_FAULT_PAYLOAD_PAGE:
        return "a page of the values fails its checksum";
    case LEAT_FAULT_ROWS:
        return "the row index of the value fails its checksum";
    case LEAT_FAULT_FORM:
        return "the value is not stored in the form that the index says";
    case LEAT_FAULT_TEXT:
        return "the value is not text, or not JSON, as its field says: the file was not made by leat";
    case LEAT_FAULT_CODE:
        return "the code of the text is that of another: the file was not made by leat";
    case LEAT_FAULT_RESTORE:
        return "the value in the fast form does not give back the file that it was made from, or does not decode as "
               "that";
    }
    return "unknown fault";
}
