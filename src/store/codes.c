/* Texts as codes: codes.h. Codes are numbered in the order in which their texts come, so the section follows from the
 * samples alone. */
#include "store/codes.h"

#include "base/bytes.h"
#include "base/hash.h"
#include "store/text.h"

/* Below 4096 texts any field may have; more only if each stands for four samples, else codes save little. */
#define FEW 4096
#define REPEATED 4
#define MOST_BYTES (16u << 20) /* of all texts */

struct entry {
    uint64_t checksum;
    uint32_t length, at; /* in `texts` */
};

void leat_store_coder_destroy(struct leat_store_coder *c)
{
    leat_growing_destroy(&c->entries);
    leat_growing_destroy(&c->texts);
    leat_growing_destroy(&c->codes);
    leat_free(c->slots);
    memset(c, 0, sizeof *c);
}

/* No section: no more is kept. */
static bool turn_off(struct leat_store_coder *c)
{
    leat_store_coder_destroy(c);
    c->off = true;
    return true;
}

static struct entry *entry_at(const struct leat_store_coder *c, uint32_t code)
{
    return (struct entry *)(void *)c->entries.data + code;
}

static uint32_t *find(const struct leat_store_coder *c, uint64_t checksum, uint32_t length)
{
    size_t i = (size_t)checksum & (c->n_slots - 1);
    while (c->slots[i]) {
        const struct entry *e = entry_at(c, c->slots[i] - 1);
        if (e->checksum == checksum && e->length == length)
            break;
        i = (i + 1) & (c->n_slots - 1);
    }
    return &c->slots[i];
}

/* Twice the slots, so that half are free. */
static bool widen_table(struct leat_store_coder *c)
{
    uint32_t *old = c->slots;
    const size_t n = c->n_slots ? 2 * c->n_slots : 256;
    if (!(c->slots = leat_new_array(n, sizeof *c->slots))) {
        c->slots = old;
        return false;
    }
    c->n_slots = n;
    for (uint32_t code = 0; code < c->n; code++)
        *find(c, entry_at(c, code)->checksum, entry_at(c, code)->length) = code + 1;
    leat_free(old);
    return true;
}

/* One byte no longer says all codes. */
static bool widen_codes(struct leat_store_coder *c)
{
    const size_t n = c->codes.length;
    if (!leat_growing_extend(&c->codes, n))
        return false;
    for (size_t i = n; i-- > 0;) {
        const uint16_t code = c->codes.data[i];
        leat_put_u16(c->codes.data + 2 * i, code);
    }
    c->width = 2;
    return true;
}

static bool add_text(struct leat_store_coder *c, const uint8_t *text, uint64_t checksum, uint32_t length)
{
    struct entry e = {checksum, length, (uint32_t)c->texts.length};
    if ((size_t)(c->n + 1) * 2 > c->n_slots && !widen_table(c))
        return false;
    if (!leat_growing_append(&c->texts, text, length) || !leat_growing_append(&c->entries, &e, sizeof e))
        return false;
    *find(c, checksum, length) = ++c->n;
    return true;
}

bool leat_store_coder_add(struct leat_store_coder *c, const struct leat_store_layout *l, uint32_t field,
                          const uint8_t *group, const struct leat_store_group *header,
                          const struct leat_store_shape *shape)
{
    const struct leat_store_field *info = &l->info[field];
    const uint64_t end = LEAT_STORE_GROUP_HEADER + header->payload_bytes;
    const uint8_t *record = group + shape->columns_at + info->before * header->n_rows;
    if (c->off)
        return true;
    if (!c->width && !widen_table(c))
        return false;
    c->width = c->width ? c->width : 1;
    for (uint32_t row = 0; row < header->n_rows; row++, record += info->width) {
        struct leat_store_record r;
        leat_store_record_get(record, &r, false);
        if (r.length > LEAT_CODES_TEXT || r.offset > end || r.length > end - r.offset)
            return turn_off(c);
        const uint8_t *text = group + r.offset;
        uint32_t *slot = find(c, r.checksum, (uint32_t)r.length), code = *slot;
        if (!code) {
            const uint64_t rows = header->first_row + row;
            if (c->n == LEAT_CODES_TEXTS || c->texts.length + r.length > MOST_BYTES ||
                (c->n >= FEW && c->n > rows / REPEATED))
                return turn_off(c);
            if (!add_text(c, text, r.checksum, (uint32_t)r.length) || (c->n == 257 && !widen_codes(c)))
                return false;
            code = c->n;
        } else if (memcmp(c->texts.data + entry_at(c, code - 1)->at, text, r.length) != 0) {
            return turn_off(c); /* two texts of one checksum */
        }
        if (c->codes.length + c->width > l->tuning.coded_bytes)
            return turn_off(c);
        uint8_t *to = leat_growing_extend(&c->codes, c->width);
        if (!to)
            return false;
        to[0] = (uint8_t)(code - 1);
        if (c->width == 2)
            to[1] = (uint8_t)((code - 1) >> 8);
    }
    return true;
}

bool leat_store_coder_end(struct leat_store_coder *c, const struct leat_store_layout *l, uint32_t field, uint64_t rows,
                          bool *there)
{
    *there = false;
    if (c->off || !c->width || rows < l->tuning.coded_rows || c->n > rows / REPEATED ||
        c->codes.length != rows * c->width)
        return true;
    const size_t codes = c->codes.length,
                 head =
                     (size_t)leat_store_align(LEAT_CODES_HEAD + 4 * (uint64_t)c->n + c->texts.length, LEAT_STORE_ALIGN);
    if (!leat_growing_extend(&c->codes, head))
        return false;
    uint8_t *p = c->codes.data;
    memmove(p + head, p, codes);
    memset(p, 0, head);
    leat_put_u32(p, field);
    leat_put_u32(p + 4, c->n);
    leat_put_u64(p + 8, rows);
    leat_put_u32(p + 16, c->width);
    leat_put_u64(p + 24, c->texts.length);
    for (uint32_t i = 0; i < c->n; i++)
        leat_put_u32(p + LEAT_CODES_HEAD + 4 * (size_t)i, entry_at(c, i)->length);
    memcpy(p + LEAT_CODES_HEAD + 4 * (size_t)c->n, c->texts.data, c->texts.length);
    *there = true;
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

static uint32_t most_code(const uint8_t *codes, uint64_t n, unsigned width)
{
    uint32_t most = 0;
    for (uint64_t i = 0; i < n && width == 1; i++)
        most = codes[i] > most ? codes[i] : most;
    for (uint64_t i = 0; i < n && width == 2; i++) {
        const uint32_t code = leat_get_u16(codes + 2 * i);
        most = code > most ? code : most;
    }
    return most;
}

bool leat_store_codes_get(const uint8_t *section, uint64_t length, uint64_t count, enum leat_kind kind,
                          struct leat_source_codes *out)
{
    if (length < LEAT_CODES_HEAD)
        return false;
    const uint64_t n = leat_get_u32(section + 4), width = leat_get_u32(section + 16),
                   texts = leat_get_u64(section + 24);
    if (!n || n > LEAT_CODES_TEXTS || (width != 1 && width != 2) || leat_get_u64(section + 8) != count ||
        texts > MOST_BYTES || leat_get_u32(section + 20))
        return false;
    const uint64_t head = leat_store_align(LEAT_CODES_HEAD + 4 * n + texts, LEAT_STORE_ALIGN);
    if (length < head || length - head != count * width || count > INT64_MAX / 2)
        return false;
    *out = (struct leat_source_codes){.n = (uint32_t)n,
                                      .width = (unsigned)width,
                                      .lengths = section + LEAT_CODES_HEAD,
                                      .texts = section + LEAT_CODES_HEAD + 4 * n,
                                      .codes = section + head};
    uint64_t at = 0;
    size_t bad;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t text = leat_get_u32(out->lengths + 4 * i);
        if (text > LEAT_CODES_TEXT || text > texts - at || !leat_text_fits(kind, out->texts + at, text, &bad))
            return false;
        at += text;
    }
    for (uint64_t i = LEAT_CODES_HEAD + 4 * n + texts; i < head; i++)
        if (section[i])
            return false;
    return at == texts && (!count || most_code(out->codes, count, (unsigned)width) < n);
}
