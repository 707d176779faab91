/* ICC profiles by Little CMS. A transform takes milliseconds to make, and some hundred kB: the process keeps the last
 * ones in a table, for all threads. */
#include "codec/photo/icc.h"

#include "codec/photo/decode_internal.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"

enum leat_icc_space leat_icc_space(struct leat_bytes profile)
{
    struct leat_bytes space = leat_bytes_part(profile, 16, 4);
    return !space.p                          ? LEAT_ICC_OTHER
           : LEAT_BYTES_START(space, "RGB ") ? LEAT_ICC_RGB
           : LEAT_BYTES_START(space, "GRAY") ? LEAT_ICC_GRAY
           : LEAT_BYTES_START(space, "CMYK") ? LEAT_ICC_CMYK
                                             : LEAT_ICC_OTHER;
}

int leat_icc_broken(const char *format, const char *words, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_DECODE,
                     "%s: its ICC profile is broken (%s): take it out, or decode the photo without (icc=\"ignore\")",
                     format, words);
}

#ifdef LEAT_HAVE_LCMS
#include <lcms2.h>
#include <pthread.h>
#include <stdio.h>

#define FUNCTIONS(X)                                                                                                   \
    X(cmsCreateContext)                                                                                                \
    X(cmsDeleteContext)                                                                                                \
    X(cmsGetContextUserData)                                                                                           \
    X(cmsSetLogErrorHandlerTHR)                                                                                        \
    X(cmsOpenProfileFromMemTHR)                                                                                        \
    X(cmsCreateLab4ProfileTHR)                                                                                         \
    X(cmsCreate_sRGBProfileTHR)                                                                                        \
    X(cmsCloseProfile)                                                                                                 \
    X(cmsCreateTransformTHR)                                                                                           \
    X(cmsDeleteTransform)                                                                                              \
    X(cmsDoTransform)

static struct functions {
    FUNCTIONS(LEAT_LIBRARY_MEMBER)
} lib;
static const struct leat_library_symbol symbols[] = {FUNCTIONS(LEAT_LIBRARY_SYMBOL){NULL, 0}};
static const char *const files[] = {"liblcms2.so.2", NULL};
struct leat_library leat_lcms = {.format = "ICC",
                                 .files = files,
                                 .advice = "apt install liblcms2-2, and start again; or convert the photo to PNG",
                                 .symbols = symbols,
                                 .functions = &lib};

/* Threads use it together: Little CMS writes nothing into a transform that has no cache of pixels. */
struct leat_icc {
    cmsContext context;
    cmsHTRANSFORM made;
    uint64_t hash;
    size_t length;
    enum leat_icc_space space;
    bool wide;
    unsigned users;  /* open photos, and the table; under the lock */
    uint64_t used;   /* when, by the clock of the table */
    char words[256]; /* of Little CMS, the first, while it was made */
};

/* Those that were used last. */
static struct {
    pthread_mutex_t lock;
    struct leat_icc *kept[LEAT_ICC_KEPT];
    uint64_t clock;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void lock(void)
{
    pthread_mutex_lock(&table.lock);
}

static void unlock(void)
{
    pthread_mutex_unlock(&table.lock);
}

/* So that no child begins with the lock held by a thread that it does not have. */
static void watch_forks(void)
{
    pthread_atfork(lock, unlock, unlock);
}

int leat_icc_load(struct leat_error *error)
{
    return leat_library_load(&leat_lcms, error);
}

static void icc_free(struct leat_icc *t)
{
    if (t->made)
        lib.cmsDeleteTransform(t->made);
    if (t->context)
        lib.cmsDeleteContext(t->context);
    leat_free(t);
}

/* One user less; with the lock held. */
static void release(struct leat_icc *t)
{
    if (t && !--t->users)
        icc_free(t);
}

void leat_icc_close(struct leat_icc *icc)
{
    if (!icc)
        return;
    lock();
    release(icc);
    unlock();
}

size_t leat_icc_kept(void)
{
    size_t n = 0;
    lock();
    for (size_t i = 0; i < LEAT_ICC_KEPT; i++)
        n += table.kept[i] != NULL;
    unlock();
    return n;
}

static void hear(cmsContext context, cmsUInt32Number code, const char *text)
{
    struct leat_icc *t = lib.cmsGetContextUserData(context);
    if (!*t->words)
        snprintf(t->words, sizeof t->words, "%s", text);
}

/* The one of the table that is like this, with one user more; NULL: there is none. With the lock held. */
static struct leat_icc *find(const struct leat_icc *like)
{
    for (size_t i = 0; i < LEAT_ICC_KEPT; i++) {
        struct leat_icc *t = table.kept[i];
        if (t && t->hash == like->hash && t->length == like->length && t->wide == like->wide) {
            t->used = ++table.clock;
            t->users++;
            return t;
        }
    }
    return NULL;
}

/* Puts it into the place that is free, or was not used for the longest time. With the lock held. */
static void keep(struct leat_icc *t)
{
    struct leat_icc **place = &table.kept[0];
    for (size_t i = 1; i < LEAT_ICC_KEPT && *place; i++)
        if (!table.kept[i] || table.kept[i]->used < (*place)->used)
            place = &table.kept[i];
    release(*place);
    *place = t;
    t->used = ++table.clock;
    t->users++;
}

/* Fills t->made; NULL: Little CMS cannot. */
static void make(struct leat_icc *t, struct leat_bytes profile)
{
    const bool wide = t->wide;
    const cmsUInt32Number rgba = wide ? TYPE_RGBA_16 : TYPE_RGBA_8;
    const cmsUInt32Number types[] = {[LEAT_ICC_RGB] = rgba,
                                     [LEAT_ICC_GRAY] = wide ? TYPE_GRAY_16 : TYPE_GRAY_8,
                                     [LEAT_ICC_CMYK] = wide ? TYPE_CMYK_16 : TYPE_CMYK_8,
                                     [LEAT_ICC_LAB] = TYPE_Lab_8 | EXTRA_SH(1)};
    cmsHPROFILE in = t->space == LEAT_ICC_LAB
                         ? lib.cmsCreateLab4ProfileTHR(t->context, NULL)
                         : lib.cmsOpenProfileFromMemTHR(t->context, profile.p, (cmsUInt32Number)profile.n),
                out = in ? lib.cmsCreate_sRGBProfileTHR(t->context) : NULL;
    if (in && out)
        /* a table of 16 bits that replaces the steps, as would be by default, is off by up to 12 of 255 */
        t->made = lib.cmsCreateTransformTHR(t->context, in, types[t->space], out, rgba, INTENT_PERCEPTUAL,
                                            cmsFLAGS_NOCACHE | (wide ? cmsFLAGS_NOOPTIMIZE : 0));
    if (out)
        lib.cmsCloseProfile(out);
    if (in)
        lib.cmsCloseProfile(in);
}

/* A new transform like this one, in the table, which another thread may have made meanwhile. */
static int add(const char *format, const struct leat_icc *like, struct leat_bytes profile, struct leat_icc **out,
               struct leat_error *error)
{
    struct leat_icc *t = leat_new(struct leat_icc);
    if (t) {
        *t = *like;
        t->context = lib.cmsCreateContext(NULL, t);
    }
    if (!t || !t->context) {
        leat_free(t);
        return leat_fail(error, LEAT_E_NOMEM, "memory for ICC profiles could not be had");
    }
    lib.cmsSetLogErrorHandlerTHR(t->context, hear);
    make(t, profile);
    if (!t->made) {
        int rc = leat_icc_broken(format, *t->words ? t->words : "Little CMS makes no transform of it", error);
        icc_free(t);
        return rc;
    }
    lock();
    if (!(*out = find(t))) {
        *out = t;
        t->users = 1;
        keep(t);
        t = NULL;
    }
    unlock();
    if (t)
        icc_free(t);
    return LEAT_OK;
}

static int open_like(const char *format, const struct leat_icc *like, struct leat_bytes profile, struct leat_icc **out,
                     struct leat_error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    lock();
    *out = find(like);
    unlock();
    return *out ? LEAT_OK : add(format, like, profile, out, error);
}

int leat_icc_open(const char *format, struct leat_bytes profile, bool wide, struct leat_icc **out,
                  struct leat_error *error)
{
    const struct leat_icc like = {
        .hash = leat_hash64(profile.p, profile.n), .length = profile.n, .space = leat_icc_space(profile), .wide = wide};
    *out = NULL;
    int rc = leat_icc_load(error);
    if (rc)
        return rc;
    if (!like.space || profile.n > LEAT_ICC_MOST_BYTES)
        return leat_icc_broken(format, like.space ? "it is larger than 16 MiB" : "it is for no gray, RGB or CMYK",
                               error);
    return open_like(format, &like, profile, out, error);
}

int leat_icc_open_lab(const char *format, struct leat_icc **out, struct leat_error *error)
{
    const struct leat_icc like = {.space = LEAT_ICC_LAB}; /* of no bytes, as no profile is */
    *out = NULL;
    int rc = leat_icc_load(error);
    return rc ? rc : open_like(format, &like, (struct leat_bytes){NULL, 0}, out, error);
}

void leat_icc_apply(const struct leat_icc *icc, uint8_t *pixels, uint8_t *room, size_t n)
{
    const size_t sample = icc->wide ? 2 : 1;
    const uint8_t *from = room;
    switch (icc->space) {
    case LEAT_ICC_GRAY:
        for (size_t i = 0; i < n; i++)
            memcpy(room + i * sample, pixels + 4 * i * sample, sample);
        break;
    case LEAT_ICC_CMYK:
        memcpy(room, pixels, 4 * n * sample);
        memset(pixels, 255, 4 * n * sample); /* opaque */
        break;
    default:
        from = pixels;
    }
    lib.cmsDoTransform(icc->made, from, pixels, (cmsUInt32Number)n);
}
#else
int leat_icc_load(struct leat_error *error)
{
    return leat_library_not_built("ICC", "Little CMS 2 (liblcms2-dev)", error);
}

size_t leat_icc_kept(void)
{
    return 0;
}

int leat_icc_open(const char *format, struct leat_bytes profile, bool wide, struct leat_icc **out,
                  struct leat_error *error)
{
    *out = NULL;
    return leat_icc_load(error);
}

int leat_icc_open_lab(const char *format, struct leat_icc **out, struct leat_error *error)
{
    *out = NULL;
    return leat_icc_load(error);
}

void leat_icc_close(struct leat_icc *icc) {}

void leat_icc_apply(const struct leat_icc *icc, uint8_t *pixels, uint8_t *room, size_t n) {}
#endif
