/* Huffman tables made for decoding: the meaning of the next bits of a scan. */
#ifndef LEAT_CODEC_JPEG_HUFFMAN_TABLES_H
#define LEAT_CODEC_JPEG_HUFFMAN_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#define LEAT_JPEG_DC_LOOK 9
#define LEAT_JPEG_AC_LOOK 10

/* The distance that a look moves on in its block, beside a number of coefficients, which is at most 32. With the
 * coefficient that comes next, 1 to 63, added, the sum tells the outcome: 64 and up to 95 too many; 97 to 159 the end;
 * 160 to 191 the end after too many; 193 to 255 alone. */
#define LEAT_JPEG_END 96u /* the block ends here */
#define LEAT_JPEG_ALONE                                                                                                \
    192u /* nothing was taken: a code that is longer than the look, or with its value longer than LEAT_JPEG_LOOK_BITS, \
            or none */
#define LEAT_JPEG_LOOK_BITS 18

/* The contents of the next bits: up to two AC coefficients with their values, and the end of the block. */
union leat_jpeg_ac_look {
    struct {
        uint8_t bits;     /* taken: LEAT_JPEG_LOOK_BITS at most */
        uint8_t more;     /* so many of these, the last ones, are to be added to value1 */
        uint8_t at1, at2; /* the places of the values, from the current coefficient on */
        int16_t value1;
        int8_t value2; /* 0 if there is no second one */
        uint8_t move;  /* coefficients passed, or more: see above */
    };
    uint64_t all; /* an entry is the sum of its first and its second coefficient */
};

/* Bits 0-4: of a code; 5-8: bits of the value behind it; 9-12: zeros before the coefficient. 0: no code, or a longer
 * one. */
typedef uint16_t leat_jpeg_code;
static inline unsigned leat_jpeg_code_length(leat_jpeg_code c)
{
    return c & 31u;
}
static inline unsigned leat_jpeg_code_size(leat_jpeg_code c)
{
    return c >> 5 & 15u;
}
static inline unsigned leat_jpeg_code_run(leat_jpeg_code c)
{
    return c >> 9;
}

/* A table as a JPEG has it, and its canonical codes. */
struct leat_jpeg_canonical_codes {
    bool made;
    uint8_t bits[17], values[256]; /* of JHUFF_TBL */
    int32_t last_code[17];         /* of each length; -1 if there is none */
    int32_t value_offset[17];
};
/* A DC difference. */
union leat_jpeg_dc_look {
    struct {
        uint8_t bits; /* taken; 0: the code is too long for the look, or there is none */
        uint8_t more; /* so many of these, the last ones, are to be added to the value */
        int16_t value;
    };
    uint32_t all;
};
struct leat_jpeg_dc_table {
    struct leat_jpeg_canonical_codes codes;
    union leat_jpeg_dc_look look[1 << LEAT_JPEG_DC_LOOK];
};
struct leat_jpeg_ac_table {
    struct leat_jpeg_canonical_codes codes;
    leat_jpeg_code code[1 << LEAT_JPEG_AC_LOOK];
    union leat_jpeg_ac_look look[(1 << LEAT_JPEG_AC_LOOK) + 1]; /* the last one takes nothing */
};

/* Makes a table from the counts of codes by length (bits[1] to bits[16]) and their symbols, unless it was made from
 * these. False if they are none that libjpeg takes. */
bool leat_jpeg_dc_table_make(struct leat_jpeg_dc_table *table, const uint8_t bits[17], const uint8_t values[256]);
bool leat_jpeg_ac_table_make(struct leat_jpeg_ac_table *table, const uint8_t bits[17], const uint8_t values[256]);

/* The code of `least` bits or more that the highest bits of `acc` begin with; 0: none. */
leat_jpeg_code leat_jpeg_code_of(const struct leat_jpeg_canonical_codes *codes, unsigned least, uint64_t acc);

#endif
