/* Hashes of whole files: digests.h. */
#include "io/digests.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/library.h"

/* leat calls only these functions of OpenSSL, whose types no release has changed. */
static struct crypto_functions {
    const void *(*find)(const char *name);
    void *(*make)(void);
    int (*begin)(void *context, const void *kind, void *engine);
    int (*add)(void *context, const void *bytes, size_t n);
    int (*end)(void *context, unsigned char *to, unsigned *n);
    void (*free)(void *context);
} crypto;
static const char *const crypto_files[] = {"libcrypto.so.3", "libcrypto.so.1.1", NULL};
static const struct leat_library_symbol crypto_symbols[] = {
    {"EVP_get_digestbyname", offsetof(struct crypto_functions, find)},
    {"EVP_MD_CTX_new", offsetof(struct crypto_functions, make)},
    {"EVP_DigestInit_ex", offsetof(struct crypto_functions, begin)},
    {"EVP_DigestUpdate", offsetof(struct crypto_functions, add)},
    {"EVP_DigestFinal_ex", offsetof(struct crypto_functions, end)},
    {"EVP_MD_CTX_free", offsetof(struct crypto_functions, free)},
    {NULL, 0}};
static struct leat_library crypto_library = {.format = "a hash of a file",
                                             .files = crypto_files,
                                             .advice = "apt install libssl3, and start again",
                                             .symbols = crypto_symbols,
                                             .functions = &crypto};

enum kind { XXH32_KIND, XXH64_KIND, XXH3_KIND, XXH128_KIND, OTHER };

struct leat_digest {
    enum kind kind;
    union {
        XXH32_state_t *small;
        XXH64_state_t *large;
        XXH3_state_t *third;
        void *context;
    } state;
};

static const struct {
    const char *name, *openssl;
    enum kind kind;
} known[] = {{"xxh32", NULL, XXH32_KIND},
             {"xxh64", NULL, XXH64_KIND},
             {"xxh3_64", NULL, XXH3_KIND},
             {"xxh128", NULL, XXH128_KIND},
             {"xxh3_128", NULL, XXH128_KIND},
             {"md5", "MD5", OTHER},
             {"sha1", "SHA1", OTHER},
             {"sha224", "SHA224", OTHER},
             {"sha256", "SHA256", OTHER},
             {"sha384", "SHA384", OTHER},
             {"sha512", "SHA512", OTHER},
             {"sha3_224", "SHA3-224", OTHER},
             {"sha3_256", "SHA3-256", OTHER},
             {"sha3_384", "SHA3-384", OTHER},
             {"sha3_512", "SHA3-512", OTHER},
             {"blake2b", "BLAKE2b512", OTHER},
             {"blake2s", "BLAKE2s256", OTHER},
             {"ripemd160", "RIPEMD160", OTHER},
             {"sha512_256", "SHA512-256", OTHER},
             {"sha512_224", "SHA512-224", OTHER},
             {"sm3", "SM3", OTHER},
             {"md5-sha1", "MD5-SHA1", OTHER}};

/* False: there is no memory. */
static bool make_state(struct leat_digest *d)
{
    switch (d->kind) {
    case XXH32_KIND:
        return (d->state.small = XXH32_createState()) && !XXH32_reset(d->state.small, 0);
    case XXH64_KIND:
        return (d->state.large = XXH64_createState()) && !XXH64_reset(d->state.large, 0);
    case XXH3_KIND:
        return (d->state.third = XXH3_createState()) && !XXH3_64bits_reset(d->state.third);
    case XXH128_KIND:
        return (d->state.third = XXH3_createState()) && !XXH3_128bits_reset(d->state.third);
    default:
        return (d->state.context = crypto.make());
    }
}

int leat_digest_begin(const char *name, struct leat_digest **out, struct leat_error *error)
{
    struct leat_error missing = {0};
    size_t i = 0;
    *out = NULL;
    while (i < sizeof known / sizeof *known && strcmp(known[i].name, name) != 0)
        i++;
    if (i == sizeof known / sizeof *known)
        return leat_fail(error, LEAT_E_UNSUPPORTED, "leat knows no hash \"%.40s\"", name);
    if (known[i].kind == OTHER && leat_library_load(&crypto_library, &missing))
        return leat_fail(error, LEAT_E_UNSUPPORTED, "%s", missing.message);
    struct leat_digest *d = leat_new(struct leat_digest);
    if (d)
        d->kind = known[i].kind;
    if (!d || !make_state(d)) {
        leat_free(d);
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a hash");
    }
    if (d->kind == OTHER && !crypto.begin(d->state.context, crypto.find(known[i].openssl), NULL)) {
        crypto.free(d->state.context);
        leat_free(d);
        return leat_fail(error, LEAT_E_UNSUPPORTED, "OpenSSL on this machine knows no hash \"%s\"", name);
    }
    *out = d;
    return LEAT_OK;
}

void leat_digest_add(struct leat_digest *d, const void *bytes, size_t n)
{
    switch (d->kind) {
    case XXH32_KIND:
        XXH32_update(d->state.small, bytes, n);
        break;
    case XXH64_KIND:
        XXH64_update(d->state.large, bytes, n);
        break;
    case XXH3_KIND:
        XXH3_64bits_update(d->state.third, bytes, n);
        break;
    case XXH128_KIND:
        XXH3_128bits_update(d->state.third, bytes, n);
        break;
    default:
        crypto.add(d->state.context, bytes, n);
    }
}

void leat_digest_end(struct leat_digest *d, char text[LEAT_DIGEST_TEXT])
{
    uint8_t bytes[64];
    unsigned n = 0;
    if (!d)
        return;
    switch (d->kind) {
    case XXH32_KIND:
        XXH32_canonicalFromHash((XXH32_canonical_t *)bytes, XXH32_digest(d->state.small));
        n = 4;
        XXH32_freeState(d->state.small);
        break;
    case XXH64_KIND:
        XXH64_canonicalFromHash((XXH64_canonical_t *)bytes, XXH64_digest(d->state.large));
        n = 8;
        XXH64_freeState(d->state.large);
        break;
    case XXH3_KIND:
        XXH64_canonicalFromHash((XXH64_canonical_t *)bytes, XXH3_64bits_digest(d->state.third));
        n = 8;
        XXH3_freeState(d->state.third);
        break;
    case XXH128_KIND:
        XXH128_canonicalFromHash((XXH128_canonical_t *)bytes, XXH3_128bits_digest(d->state.third));
        n = 16;
        XXH3_freeState(d->state.third);
        break;
    default:
        if (!crypto.end(d->state.context, bytes, &n) || n > sizeof bytes)
            n = 0;
        crypto.free(d->state.context);
    }
    for (unsigned i = 0; text && i < n; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    if (text && !n)
        text[0] = 0;
    leat_free(d);
}
