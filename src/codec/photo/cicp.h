/*
 * Colours that a file names by numbers (CICP: ITU-T H.273) instead of an ICC profile, as AVIF does: a profile is made
 * of the numbers, so that there is one way to sRGB.
 */
#ifndef LEAT_CODEC_PHOTO_CICP_H
#define LEAT_CODEC_PHOTO_CICP_H

#include "codec/photo/bytes.h"

#define LEAT_CICP_BYTES 328

/* The profile of these colours, RGB, always the same bytes; n 0 for those that are sRGB or stand for it, and for those
 * that leat does not convert: HDR (PQ, HLG), and primaries of film and cinema. */
struct leat_bytes leat_cicp_profile(unsigned primaries, unsigned transfer, uint8_t room[LEAT_CICP_BYTES]);

#endif
