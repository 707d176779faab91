/*
 * Reads over the entropy-coded part of a JPEG to learn whether it is whole. To check a photo no coefficient is needed,
 * only how many bits each takes and how far it moves on in its block; so one look at the next LOOK bits often passes
 * several coefficients at once. An entry of the table:
 *
 *     bits 0-5   bits of the first code and its value together; 0: a code longer than LOOK, or none
 *     bits 6-12  how far that moves on: run + 1; 16 for a run of sixteen zeros; END for the end of the block
 *     bits 16-21, 22-28   the same for all coefficients that lie in the LOOK bits whole
 *     bit  31    ... and the last of those ends the block
 *
 * What is found clean here is clean for libjpeg too: everything that is not exactly as an encoder writes it (a code
 * that does not exist, a block that is too long, a marker too early or too late, a table missing) is reported as
 * unclean, and the caller then asks libjpeg, which decides and has the words. A fuzz target compares the two.
 */
#include "op/jpeg_scan.h"

#include <string.h>

#define LOOK LEAT_JPEG_LOOK
#define END 64u

/* ---- tables ---------------------------------------------------------------------------------------------------------- */

static uint32_t entry_of(unsigned code_bits, uint8_t symbol, bool dc)
{
    unsigned run = symbol >> 4, bits = symbol & 15;
    unsigned move = dc ? 1 : bits ? run + 1 : run == 15 ? 16 : END;
    return (code_bits + bits) | move << 6;
}

/* Adds to each entry what follows the first code within the LOOK bits. */
static void look_further(uint32_t *look)
{
    for (uint32_t i = 0; i < 1u << LOOK; i++) {
        uint32_t e = look[i], bits = 0, move = 0, end = 0;
        while (e & 63) {
            unsigned more = e & 63, by = e >> 6 & 127;
            if (bits && bits + more > LOOK)
                break;
            bits += more;
            if (by == END) {
                end = 1u << 31;
                break;
            }
            move += by;
            if (bits >= LOOK)
                break;
            e = look[(i << bits) & ((1u << LOOK) - 1)];
        }
        look[i] |= bits << 16 | (move < 64 ? move : 64) << 22 | end;
    }
}

static bool make_codes(struct leat_jpeg_codes *codes, const JHUFF_TBL *table, bool dc)
{
    if (!table)
        return false;
    if (codes->made && !memcmp(codes->source.bits, table->bits, sizeof table->bits) &&
        !memcmp(codes->source.huffval, table->huffval, sizeof table->huffval))
        return true;
    codes->made = false;
    codes->source = *table;
    memset(codes->look, 0, sizeof codes->look);
    uint32_t code = 0, n = 0;
    for (unsigned length = 1; length <= 16; length++, code <<= 1) {
        uint32_t count = table->bits[length];
        if (n + count > 256 || code + count >= 1u << length) /* no code is all ones */
            return false;
        codes->value_offset[length] = (int32_t)n - (int32_t)code;
        for (uint32_t i = 0; i < count; i++, n++, code++) {
            if (dc && table->huffval[n] > 15)
                return false;
            for (uint32_t k = 0; length <= LOOK && k < 1u << (LOOK - length); k++)
                codes->look[(code << (LOOK - length)) + k] = entry_of(length, table->huffval[n], dc);
        }
        codes->last_code[length] = count ? (int32_t)code - 1 : -1;
    }
    if (!dc)
        look_further(codes->look);
    codes->made = true;
    return true;
}

/* ---- bits ------------------------------------------------------------------------------------------------------------ */

struct bits {
    const uint8_t *p, *end;
    uint64_t acc; /* the next bit is the highest; zeros after the last one */
    int n;        /* bits in acc; below 0 when more were taken than there are */
    bool at_marker;
};

/* Byte by byte, to a marker or the end of the bytes. */
static void fill_slowly(struct bits *b)
{
    while (b->n <= 56 && !b->at_marker) {
        if (b->p >= b->end || (*b->p == 0xff && (b->end - b->p < 2 || b->p[1]))) {
            b->at_marker = true;
            return;
        }
        uint64_t byte = *b->p;
        b->p += byte == 0xff ? 2 : 1;
        b->acc |= byte << (56 - b->n);
        b->n += 8;
    }
}

/* Afterwards there are 32 bits, or all that come before the next marker. */
static inline void fill(struct bits *b)
{
    if (b->n >= 32 || b->at_marker)
        return;
    if (b->end - b->p >= 8) {
        uint64_t v;
        memcpy(&v, b->p, 8);
        if (!((~v - UINT64_C(0x0101010101010101)) & v & UINT64_C(0x8080808080808080))) { /* no byte is 0xff */
            int bytes = (63 - b->n) >> 3;
            v = __builtin_bswap64(v) & ~UINT64_C(0) << (64 - 8 * bytes);
            b->acc |= v >> b->n;
            b->p += bytes;
            b->n += 8 * bytes;
            return;
        }
    }
    fill_slowly(b);
}

static inline void take(struct bits *b, unsigned n)
{
    b->acc <<= n;
    b->n -= (int)n;
}

/* The entry for the next code, as of one that is longer than LOOK; 0 if there is none. */
static uint32_t long_code(const struct leat_jpeg_codes *codes, uint64_t acc, bool dc)
{
    for (unsigned length = LOOK + 1; length <= 16; length++) {
        int32_t code = (int32_t)(acc >> (64 - length));
        if (code <= codes->last_code[length])
            return entry_of(length, codes->source.huffval[code + codes->value_offset[length]], dc);
    }
    return 0;
}

/* Passes one block. */
static inline bool pass_block(struct bits *b, const struct leat_jpeg_codes *dc, const struct leat_jpeg_codes *ac)
{
    fill(b);
    uint32_t e = dc->look[b->acc >> (64 - LOOK)];
    if (!(e & 63) && !(e = long_code(dc, b->acc, true)))
        return false;
    take(b, e & 63);
    for (unsigned k = 1; k < 64;) {
        fill(b);
        e = ac->look[b->acc >> (64 - LOOK)];
        if (e & 63) {
            unsigned move = e >> 22 & 127;
            if (k + move <= 64 - (e >> 31)) { /* coefficients beyond 63 would be those of the next block */
                take(b, e >> 16 & 63);
                k += move;
                if (e >> 31)
                    break;
                continue;
            }
        } else if (!(e = long_code(ac, b->acc, false))) {
            return false;
        }
        take(b, e & 63);
        k += e >> 6 & 127;
        if ((e >> 6 & 127) == END)
            break;
        if (k > 64)
            return false;
    }
    return b->n >= 0;
}

/* Whether only padding lies before the marker that is expected next; steps over it. */
static bool pass_marker(struct bits *b, uint8_t marker)
{
    if (!b->at_marker)
        fill_slowly(b);
    if (b->n > 7 || b->end - b->p < 2 || b->p[0] != 0xff || b->p[1] != marker)
        return false;
    b->p += 2;
    b->acc = 0;
    b->n = 0;
    b->at_marker = false;
    return true;
}

/* ---- the scan -------------------------------------------------------------------------------------------------------- */

bool leat_jpeg_scan_is_clean(struct leat_jpeg_scanner *scanner, j_decompress_ptr cinfo)
{
    const struct leat_jpeg_codes *dc[D_MAX_BLOCKS_IN_MCU], *ac[D_MAX_BLOCKS_IN_MCU];
    int blocks = 0;
    if (cinfo->Ss != 0 || cinfo->Se != 63 || cinfo->Ah || cinfo->Al)
        return false;
    for (int i = 0; i < cinfo->comps_in_scan; i++) {
        const jpeg_component_info *c = cinfo->cur_comp_info[i];
        int n = cinfo->comps_in_scan == 1 ? 1 : c->h_samp_factor * c->v_samp_factor;
        if (c->dc_tbl_no < 0 || c->dc_tbl_no >= NUM_HUFF_TBLS || c->ac_tbl_no < 0 || c->ac_tbl_no >= NUM_HUFF_TBLS || c->quant_tbl_no < 0 ||
            c->quant_tbl_no >= NUM_QUANT_TBLS || !cinfo->quant_tbl_ptrs[c->quant_tbl_no] || blocks + n > D_MAX_BLOCKS_IN_MCU ||
            !make_codes(&scanner->dc[c->dc_tbl_no], cinfo->dc_huff_tbl_ptrs[c->dc_tbl_no], true) ||
            !make_codes(&scanner->ac[c->ac_tbl_no], cinfo->ac_huff_tbl_ptrs[c->ac_tbl_no], false))
            return false;
        while (n--) {
            dc[blocks] = &scanner->dc[c->dc_tbl_no];
            ac[blocks++] = &scanner->ac[c->ac_tbl_no];
        }
    }
    uint32_t unit_w = 8, unit_h = 8;
    if (cinfo->comps_in_scan > 1) {
        unit_w *= (uint32_t)cinfo->max_h_samp_factor;
        unit_h *= (uint32_t)cinfo->max_v_samp_factor;
    }
    uint64_t units = (uint64_t)((cinfo->image_width + unit_w - 1) / unit_w) * ((cinfo->image_height + unit_h - 1) / unit_h);

    struct bits b = {.p = cinfo->src->next_input_byte, .end = cinfo->src->next_input_byte + cinfo->src->bytes_in_buffer};
    uint64_t left = cinfo->restart_interval ? cinfo->restart_interval : units; /* until the next restart */
    unsigned restart = 0;
    for (uint64_t unit = 0; unit < units; unit++) {
        if (!left) {
            if (!pass_marker(&b, (uint8_t)(0xd0 + (restart++ & 7))))
                return false;
            left = cinfo->restart_interval;
        }
        left--;
        for (int i = 0; i < blocks; i++)
            if (!pass_block(&b, dc[i], ac[i]))
                return false;
    }
    return pass_marker(&b, 0xd9);
}
