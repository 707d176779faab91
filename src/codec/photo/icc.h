/*
 * ICC profiles: the colours of a photo to those of sRGB, by Little CMS, which is loaded at run time (library.h). Intent
 * and flags are those that Pillow's ImageCms.profileToProfile has by default.
 */
#ifndef LEAT_CODEC_PHOTO_ICC_H
#define LEAT_CODEC_PHOTO_ICC_H

#include "base/library.h"
#include "codec/photo/bytes.h"

/* Larger profiles are broken. */
#define LEAT_ICC_MOST_BYTES ((size_t)16 << 20)

/* DECODE: Little CMS is not on this machine, or leat was built without its headers. Any thread. */
int leat_icc_load(struct leat_error *error);

/* For a profile's header. */
enum leat_icc_space { LEAT_ICC_OTHER = 0, LEAT_ICC_GRAY, LEAT_ICC_RGB, LEAT_ICC_CMYK, LEAT_ICC_LAB /* of none */ };
enum leat_icc_space leat_icc_space(struct leat_bytes profile);

/* Transforms that the process keeps, those that were used last, for all threads; others are released by the last photo
 * that needs them. */
#define LEAT_ICC_KEPT 16
size_t leat_icc_kept(void); /* how many there are now; any thread */

/* DECODE: a photo's profile is broken. */
int leat_icc_broken(const char *format, const char *words, struct leat_error *error);

/* The transform from a profile for samples of 8 or, wide, 16 bits, until leat_icc_close; any thread. DECODE: the
 * profile makes no sense, or is for no colours that leat converts. */
struct leat_icc;
int leat_icc_open(const char *format, struct leat_bytes profile, bool wide, struct leat_icc **out,
                  struct leat_error *error);
/* The transform from CIE L*a*b* (D50) of 8 bits: L of 0 to 255, a and b plus 128. DECODE: Little CMS is not there. */
int leat_icc_open_lab(const char *format, struct leat_icc **out, struct leat_error *error);
void leat_icc_close(struct leat_icc *icc); /* NULL is allowed */

/* n pixels RGBX in place; X stays. For a profile of gray R is taken as gray; for CMYK the four are inks. `room` has 8 n
 * bytes. Any thread. */
void leat_icc_apply(const struct leat_icc *icc, uint8_t *pixels, uint8_t *room, size_t n);

#endif
