/*
 * A profile of three primaries and one curve (ICC.1:2010, version 4):
 *
 *     0    header, 128 bytes
 *     128  number of tags; of each: name, offset, length
 *     216  wtpt, rXYZ, gXYZ, bXYZ: 20 bytes each
 *     296  the curve of all three
 */
#include "codec/photo/cicp.h"

/* Photos in the colours of television are made to be seen on screens, so the numbers of its cameras' curve, and those
 * of primaries that hardly differ from sRGB's, stand for sRGB, as browsers take them. */
enum { BT709 = 1, UNSPECIFIED = 2, GAMMA_22 = 4, GAMMA_28 = 5, BT601_625 = 5, BT601_525 = 6, SMPTE_240 = 7 };
enum { LINEAR = 8, BT2020 = 9, P3 = 12, SRGB = 13, BT2020_10 = 14, BT2020_12 = 15, EBU_3213 = 22 };

/* X, Y and Z of red, green and blue, in 65536ths, adapted from D65 to D50 (Bradford). */
static const int32_t srgb[3][3] = {{28576, 14581, 912}, {25239, 46983, 6361}, {9375, 3972, 46787}};
static const int32_t p3[3][3] = {{33759, 15807, -69}, {19135, 45367, 2745}, {10296, 4363, 51385}};
static const int32_t bt2020[3][3] = {{44137, 18287, -127}, {10857, 44259, 1965}, {8195, 2989, 52223}};
static const int32_t d50[3] = {0xf6d6, 0x10000, 0xd32d};

/* (a x + b)^g from d on, below it c x: g, a, b, c, d in 65536ths. */
static const int32_t srgb_curve[5] = {157286, 62119, 3417, 5072, 2651};
static const int32_t gamma_22[5] = {144179, 65536}, gamma_28[5] = {183501, 65536}, linear[5] = {65536, 65536};

static const int32_t (*primaries_of(unsigned number))[3]
{
    switch (number) {
    case BT709:
    case UNSPECIFIED:
    case BT601_625:
    case BT601_525:
    case SMPTE_240:
    case EBU_3213:
        return srgb;
    case P3:
        return p3;
    case BT2020:
        return bt2020;
    default:
        return NULL;
    }
}

static const int32_t *curve_of(unsigned number)
{
    switch (number) {
    case BT709:
    case UNSPECIFIED:
    case BT601_525:
    case SMPTE_240:
    case SRGB:
    case BT2020_10:
    case BT2020_12:
        return srgb_curve;
    case GAMMA_22:
        return gamma_22;
    case GAMMA_28:
        return gamma_28;
    case LINEAR:
        return linear;
    default:
        return NULL;
    }
}

static uint8_t *put_number(uint8_t *to, uint32_t v)
{
    for (unsigned i = 0; i < 4; i++)
        to[i] = (uint8_t)(v >> (24 - 8 * i));
    return to + 4;
}

static uint8_t *put_numbers(uint8_t *to, const char *head, size_t head_bytes, const int32_t *v, size_t n)
{
    memcpy(to, head, head_bytes);
    to += head_bytes;
    for (size_t i = 0; i < n; i++)
        to = put_number(to, (uint32_t)v[i]);
    return to;
}

struct leat_bytes leat_cicp_profile(unsigned primaries, unsigned transfer, uint8_t room[LEAT_CICP_BYTES])
{
    static const char names[7][5] = {"wtpt", "rXYZ", "gXYZ", "bXYZ", "rTRC", "gTRC", "bTRC"};
    static const char xyz[] = "XYZ \0\0\0", para[] = "para\0\0\0\0\0\3\0"; /* of a curve the kind: 3 */
    const int32_t(*colours)[3] = primaries_of(primaries), *curve = curve_of(transfer);
    if (!colours || !curve || (colours == srgb && curve == srgb_curve))
        return (struct leat_bytes){NULL, 0};
    memset(room, 0, LEAT_CICP_BYTES);
    put_number(room, LEAT_CICP_BYTES);
    memcpy(room + 8, "\4\x20\0\0mntrRGB XYZ \7\xe8\0\1\0\1", 22);
    memcpy(room + 36, "acsp", 4);
    for (unsigned i = 0; i < 3; i++)
        put_number(room + 68 + 4 * i, (uint32_t)d50[i]);
    uint8_t *to = put_number(room + 128, 7);
    for (uint32_t i = 0; i < 7; i++) {
        memcpy(to, names[i], 4);
        to = put_number(put_number(to + 4, i < 4 ? 216 + 20 * i : 296), i < 4 ? 20 : 32);
    }
    to = put_numbers(to, xyz, 8, d50, 3);
    for (unsigned i = 0; i < 3; i++)
        to = put_numbers(to, xyz, 8, colours[i], 3);
    put_numbers(to, para, 12, curve, 5);
    return (struct leat_bytes){room, LEAT_CICP_BYTES};
}
